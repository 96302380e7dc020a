package store

import (
	"context"

	"pistate/internal/sqlite"
)

// Status is what can be said of the database without showing whose and what (V3): counts and sizes.
type Status struct {
	Path       string           `json:"path"`
	AppVersion string           `json:"app_version"` // of the program that created it
	CreatedAt  Millis           `json:"created_at"`
	File       FileStat         `json:"file"`
	Rows       map[string]int64 `json:"rows"` // by table
	Leases     []LeaseCount     `json:"leases"`
	Effects    []EffectCount    `json:"effects"` // that are not settled
}

// FileStat is the size of a database's files.
type FileStat = sqlite.Stat

// LeaseCount counts the resources of one type that somebody owns.
type LeaseCount struct {
	Type    ResourceType `json:"type"`
	Active  int64        `json:"active"`
	Expired int64        `json:"expired"` // whose owner is not the current one any more
}

// EffectCount counts the effects in one status.
type EffectCount struct {
	Status EffectStatus `json:"status"`
	Count  int64        `json:"count"`
	Oldest Millis       `json:"oldest"` // when the first of them was recorded
}

const (
	selMeta = `
		SELECT app_version, created_at
		  FROM schema_meta`

	selTables = `
		SELECT name
		  FROM sqlite_schema
		 WHERE type = 'table'
		 ORDER BY name`

	// CROSS JOIN keeps the order: the owned leases are few.
	countLeases = `
		SELECT r.resource_type,
		       count(*) FILTER (WHERE max(l.heartbeat_at, ?1) < l.expires_at),
		       count(*) FILTER (WHERE max(l.heartbeat_at, ?1) >= l.expires_at)
		  FROM leases AS l
		 CROSS JOIN resources AS r ON r.resource_id = l.resource_id
		 WHERE l.owner_id IS NOT NULL
		 GROUP BY r.resource_type
		 ORDER BY r.resource_type`

	countEffects = `
		SELECT status, count(*), min(created_at)
		  FROM effects
		 WHERE settled_at IS NULL
		 GROUP BY status
		 ORDER BY status`
)

// Status reads the counts and sizes.
func (q *Queries) Status(ctx context.Context) (s Status, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		s, err = readStatus(rx, MillisOf(q.now()))
		s.Path = q.path
		return err
	})
	return s, err
}

func readStatus(rx *sqlite.Rx, now Millis) (s Status, err error) {
	if s.File, err = rx.Stat(); err != nil {
		return s, err
	}
	_, err = rx.QueryRow(selMeta, func(r sqlite.Row) error {
		s.AppVersion, s.CreatedAt = r.Text(0), Millis(r.Int64(1))
		return nil
	})
	if err != nil {
		return s, err
	}
	if s.Rows, err = countRows(rx); err != nil {
		return s, err
	}
	err = rx.Query(countLeases, func(r sqlite.Row) error {
		s.Leases = append(s.Leases, LeaseCount{ResourceType(r.Text(0)), r.Int64(1), r.Int64(2)})
		return nil
	}, int64(now))
	if err != nil {
		return s, err
	}
	err = rx.Query(countEffects, func(r sqlite.Row) error {
		s.Effects = append(s.Effects, EffectCount{EffectStatus(r.Text(0)), r.Int64(1), Millis(r.Int64(2))})
		return nil
	})
	return s, err
}

// countRows counts the rows of every table, which takes no time to speak of.
func countRows(rx *sqlite.Rx) (map[string]int64, error) {
	var tables []string
	err := rx.Query(selTables, func(r sqlite.Row) error {
		tables = append(tables, r.Text(0)) // the shape was verified: these are our own plain names
		return nil
	})
	if err != nil {
		return nil, err
	}
	rows := map[string]int64{}
	for _, table := range tables {
		_, err := rx.QueryRow("SELECT count(*) FROM "+table, func(r sqlite.Row) error {
			rows[table] = r.Int64(0)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}
