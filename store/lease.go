package store

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The operations on leases.
const (
	OpLeaseClaim   Op = "lease.claim"
	OpLeaseRenew   Op = "lease.renew"
	OpLeaseRelease Op = "lease.release"
)

// The lease of an effect is taken and given back by the operations on effects.
var (
	leased = []ResourceType{RunResource, SessionResource, ControllerResource, ChannelResource}

	leaseOperations = []Operation{
		{
			Op: OpLeaseClaim, Does: "become the owner of a resource that nobody owns, or whose owner's lease has expired",
			AnyRevision: true, // whether somebody owns it decides
			Rights: map[ActorClass]Right{
				SessionActor:    {On: leased},
				HostActor:       {On: leased},
				ControllerActor: {On: []ResourceType{ControllerResource}},
				ChannelActor:    {On: []ResourceType{ChannelResource}},
				SystemActor:     {On: leased},
			},
		},
		{
			Op: OpLeaseRenew, Does: "stay the owner of a resource for longer",
			AnyRevision: true, Eventless: true, Expired: true,
			Rights: rights(Right{Own: OwnSubject}, ownerClasses...),
		},
		{
			Op: OpLeaseRelease, Does: "stop being the owner of a resource",
			AnyRevision: true,
			Rights:      rights(Right{Own: OwnSubject, On: leased}, ownerClasses...),
		},
	}
)

// MaxLeaseMS is the longest time for which a lease is given at once.
const MaxLeaseMS = int64(24 * time.Hour / time.Millisecond)

// Lease is who owns a resource (R2).
type Lease struct {
	Resource    ResourceID `json:"resource"`
	Generation  int64      `json:"generation"` // counts the owners; 0: there never was one
	Owner       *Actor     `json:"owner,omitempty"`
	AcquiredAt  Millis     `json:"acquired_at,omitempty"`
	HeartbeatAt Millis     `json:"heartbeat_at,omitempty"`
	ExpiresAt   Millis     `json:"expires_at,omitempty"`
	// Expired: anybody may take it over. An expired owner is not the current one (V1).
	Expired bool `json:"expired,omitempty"`
}

// lease is a row of leases.
type lease struct {
	Lease
	token []byte // SHA-256 of the token; nil: nobody owns it
}

// at returns the time by which the lease is judged. A clock that went back does not make it younger.
func (l *lease) at(now Millis) Millis { return max(now, l.HeartbeatAt) }

const (
	selLease = `
		SELECT generation, owner_type, owner_id, token_digest, acquired_at, heartbeat_at, expires_at
		  FROM leases
		 WHERE resource_id = ?1`

	upsLease = `
		INSERT INTO leases (resource_id, generation, owner_type, owner_id, token_digest,
		                    acquired_at, heartbeat_at, expires_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
		    ON CONFLICT (resource_id) DO UPDATE
		   SET generation   = excluded.generation,
		       owner_type   = excluded.owner_type,
		       owner_id     = excluded.owner_id,
		       token_digest = excluded.token_digest,
		       acquired_at  = excluded.acquired_at,
		       heartbeat_at = excluded.heartbeat_at,
		       expires_at   = excluded.expires_at`

	updRenewed = `
		UPDATE leases
		   SET heartbeat_at = ?3,
		       expires_at   = ?4
		 WHERE resource_id = ?1
		   AND generation  = ?2`

	updReleased = `
		UPDATE leases
		   SET owner_type   = NULL,
		       owner_id     = NULL,
		       token_digest = NULL,
		       acquired_at  = NULL,
		       heartbeat_at = NULL,
		       expires_at   = NULL
		 WHERE resource_id = ?1
		   AND owner_id IS NOT NULL`
)

func getLease(rx *sqlite.Rx, resource ResourceID) (l lease, err error) {
	l.Resource = resource
	_, err = rx.QueryRow(selLease, func(r sqlite.Row) error {
		l.Generation = r.Int64(0)
		if l.token = r.Bytes(3); l.token == nil {
			return nil
		}
		l.Owner = &Actor{ActorClass(r.Text(1)), r.Text(2)}
		l.AcquiredAt, l.HeartbeatAt, l.ExpiresAt = Millis(r.Int64(4)), Millis(r.Int64(5)), Millis(r.Int64(6))
		return nil
	}, string(resource))
	return l, err
}

func putLease(tx *sqlite.Tx, l lease) error {
	_, err := tx.Exec(upsLease, string(l.Resource), l.Generation, string(l.Owner.Class), l.Owner.ID, l.token,
		int64(l.AcquiredAt), int64(l.HeartbeatAt), int64(l.ExpiresAt))
	return err
}

// clearOwner ends the ownership of a resource and keeps the generation. Nothing happens if nobody owns it.
func clearOwner(tx *sqlite.Tx, resource ResourceID) error {
	_, err := tx.Exec(updReleased, string(resource))
	return err
}

// verifyClaim returns the lease that a claim proves the ownership of (R3, R4).
func verifyClaim(f *facts, claim *Claim, digest [32]byte, resource ResourceID, mayBeExpired bool) (lease, error) {
	switch {
	case claim == nil:
		return lease{}, refuse(schema.Denied, &DeniedError{f.op, f.actor.Class, "it needs a claim on " + string(resource)})
	case claim.Resource != resource:
		return lease{}, refuse(schema.Denied, &DeniedError{f.op, f.actor.Class, "the claim is on " + string(claim.Resource) + ", not on " + string(resource)})
	}
	l, err := getLease(f.Rx, resource)
	if err != nil {
		return l, err
	}
	stale := func(reason string) (lease, error) {
		return lease{}, refuse(schema.StaleClaim, &ClaimError{resource, claim.Generation, l.Generation, reason})
	}
	genuine := subtle.ConstantTimeCompare(l.token, digest[:]) == 1
	switch {
	case claim.Generation != l.Generation:
		return stale("somebody else has owned it since; stop, and don't repeat the work without a claim of your own")
	case l.Owner == nil:
		return stale("it was released")
	case !genuine:
		return stale("the token is not the one that was handed out for it")
	case f.actor.owns() && f.actor != *l.Owner:
		return lease{}, refuse(schema.Denied, &DeniedError{f.op, f.actor.Class, "the claim is another actor's"})
	case !mayBeExpired && l.at(f.now) >= l.ExpiresAt:
		return stale("it has expired; renew it, which works while nobody has taken it over")
	}
	return l, nil
}

// grant is the ownership that a command may come to. Its token is drawn, and hashed, before the transaction.
type grant struct {
	token  [tokenBytes]byte
	digest [32]byte
	ttl    Millis
}

// grant draws the token of a new owner.
func (d *draft) grant(ttlMS int64) *grant {
	d.ttl(ttlMS)
	g := &grant{ttl: Millis(ttlMS)}
	b, err := d.store.random.read(tokenBytes)
	d.fail(err)
	copy(g.token[:], b)
	g.digest = sha256.Sum256(g.token[:])
	return g
}

func (d *draft) ttl(ms int64) {
	if ms < 1 || ms > MaxLeaseMS {
		d.invalid("ttl_ms %d: it is from 1 to %d", ms, MaxLeaseMS)
	}
}

// take makes the actor the owner of a resource, unless somebody is. The lease is to be stored by the
// command's rows. tookOver tells that an owner's lease had expired.
func (g *grant) take(f *facts, resource ResourceID) (next lease, claim *Claim, tookOver bool, err error) {
	l, err := getLease(f.Rx, resource)
	if err != nil {
		return l, nil, false, err
	}
	now := l.at(f.now)
	if l.Owner != nil && now < l.ExpiresAt {
		return l, nil, false, refuse(schema.Locked, &HeldError{resource, *l.Owner, l.Generation, l.ExpiresAt})
	}
	next = lease{
		Lease: Lease{
			Resource: resource, Generation: l.Generation + 1, Owner: &f.actor,
			AcquiredAt: now, HeartbeatAt: now, ExpiresAt: now + g.ttl,
		},
		token: g.digest[:],
	}
	claim = &Claim{Resource: resource, Generation: next.Generation, ExpiresAt: next.ExpiresAt, token: g.token}
	return next, claim, l.Owner != nil, nil
}

// ClaimLease makes the actor the owner of a resource. Its result is the only place where the token ever is:
// a claim whose answer was lost ends with its time.
//
// Errors: [schema.Locked] with a [*HeldError] while somebody owns it, the same actor included;
// [schema.IllegalTransition] for a resource that has ended.
type ClaimLease struct {
	Resource ResourceID `json:"resource"`
	TTLMS    int64      `json:"ttl_ms"` // how long the lease lasts without a renewal; at most MaxLeaseMS
}

// Op returns "lease.claim".
func (ClaimLease) Op() Op { return OpLeaseClaim }

func (c ClaimLease) prepare(d *draft) *plan[*Claim] {
	d.resource("resource", c.Resource)
	g := d.grant(c.TTLMS)
	return &plan[*Claim]{
		subject: c.Resource,
		payload: c,
		repeated: func(_ *sqlite.Rx, e Event) (*Claim, error) {
			// The first answer can't be given again: its token is stored nowhere.
			return nil, refuse(schema.Conflict, &ConflictError{Identity: "request " + e.ID + ", whose claim was handed out once", Winner: e})
		},
		decide: func(f *facts) (*change[*Claim], error) {
			if f.subject.EndedAt != 0 {
				return nil, illegal(f, "ended")
			}
			next, claim, tookOver, err := g.take(f, c.Resource)
			if err != nil {
				return nil, err
			}
			event := "lease.claimed"
			if tookOver {
				event = "lease.taken_over"
			}
			return &change[*Claim]{
				result: claim,
				steps:  []step{{resource: c.Resource, event: event, generation: next.Generation}},
				rows:   func(tx *sqlite.Tx) error { return putLease(tx, next) },
			}, nil
		},
	}
}

// RenewLease lets the permit's claim last TTLMS from now, or as long as it lasts already. It works on an
// expired claim too, while nobody has taken the lease over (R3). The result is the claim with its new end.
//
// Errors: [schema.StaleClaim] with a [*ClaimError].
type RenewLease struct {
	Resource ResourceID `json:"resource"`
	TTLMS    int64      `json:"ttl_ms"`
}

// Op returns "lease.renew".
func (RenewLease) Op() Op { return OpLeaseRenew }

func (c RenewLease) prepare(d *draft) *plan[*Claim] {
	d.resource("resource", c.Resource)
	d.ttl(c.TTLMS)
	return &plan[*Claim]{
		subject: c.Resource,
		payload: c,
		decide: func(f *facts) (*change[*Claim], error) {
			heartbeat := f.lease.at(f.now)
			expires := max(f.lease.ExpiresAt, heartbeat+Millis(c.TTLMS))
			renewed := *d.permit.Claim
			renewed.ExpiresAt = expires
			return &change[*Claim]{
				result: &renewed,
				rows: func(tx *sqlite.Tx) error {
					n, err := tx.Exec(updRenewed, string(c.Resource), f.lease.Generation, int64(heartbeat), int64(expires))
					if err == nil && n != 1 {
						err = schema.Errorf(schema.Storage, "renewal changed %d leases of %s", n, c.Resource)
					}
					return err
				},
			}, nil
		},
	}
}

// ReleaseLease ends the ownership that the permit's claim proves.
//
// Errors: [schema.StaleClaim] with a [*ClaimError].
type ReleaseLease struct {
	Resource ResourceID `json:"resource"`
}

// Op returns "lease.release".
func (ReleaseLease) Op() Op { return OpLeaseRelease }

func (c ReleaseLease) prepare(d *draft) *plan[struct{}] {
	d.resource("resource", c.Resource)
	return &plan[struct{}]{
		subject: c.Resource,
		payload: c,
		decide: func(f *facts) (*change[struct{}], error) {
			return &change[struct{}]{
				steps: []step{{resource: c.Resource, event: "lease.released"}},
				rows:  func(tx *sqlite.Tx) error { return clearOwner(tx, c.Resource) },
			}, nil
		},
	}
}

// Lease returns who owns a resource. A resource that nobody ever owned has generation 0.
func (q *Queries) Lease(ctx context.Context, resource ResourceID) (Lease, error) {
	var l lease
	err := q.view(ctx, func(rx *sqlite.Rx) (err error) {
		l, err = getLease(rx, resource)
		l.Expired = l.Owner != nil && l.at(MillisOf(q.now())) >= l.ExpiresAt
		return err
	})
	return l.Lease, err
}
