package store

import (
	"context"

	"pistate/internal/sqlite"
)

const (
	selLeases = `
		SELECT resource_id, generation, owner_type, owner_id, acquired_at, heartbeat_at, expires_at
		  FROM leases
		 WHERE owner_id IS NOT NULL
		   AND (expires_at, resource_id) > (?1, ?2)
		 ORDER BY expires_at, resource_id
		 LIMIT ?3`

	selLeasesOfOwner = `
		SELECT resource_id, generation, owner_type, owner_id, acquired_at, heartbeat_at, expires_at
		  FROM leases
		 WHERE owner_id IS NOT NULL
		   AND owner_type  = ?3
		   AND owner_id    = ?4
		   AND resource_id > ?1
		 ORDER BY resource_id
		 LIMIT ?2`
)

// Leases returns at most limit leases that have an owner, those that expire first, or have expired, first;
// after a lease of this list. The zero value of after is before all.
func (q *Queries) Leases(ctx context.Context, after Lease, limit int) ([]Lease, error) {
	return q.listLeases(ctx, limit, selLeases, int64(after.ExpiresAt), string(after.Resource), limit)
}

// LeasesOf returns at most limit leases of one owner, after a resource, by resource.
func (q *Queries) LeasesOf(ctx context.Context, owner Actor, after ResourceID, limit int) ([]Lease, error) {
	return q.listLeases(ctx, limit, selLeasesOfOwner, string(after), limit, string(owner.Class), owner.ID)
}

func (q *Queries) listLeases(ctx context.Context, limit int, sql string, args ...any) (leases []Lease, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	now := MillisOf(q.now())
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		leases = nil
		return rx.Query(sql, func(r sqlite.Row) error {
			l := lease{Lease: Lease{
				Resource:    ResourceID(r.Text(0)),
				Generation:  r.Int64(1),
				Owner:       &Actor{ActorClass(r.Text(2)), r.Text(3)},
				AcquiredAt:  Millis(r.Int64(4)),
				HeartbeatAt: Millis(r.Int64(5)),
				ExpiresAt:   Millis(r.Int64(6)),
			}}
			l.Expired = l.at(now) >= l.ExpiresAt
			leases = append(leases, l.Lease)
			return nil
		}, args...)
	})
	return leases, err
}
