package store

import (
	"context"
	"strconv"

	"pistate/internal/sqlite"
)

const (
	selEffectAt = `
		SELECT ` + effectColumns + `
		  FROM effects AS e
		  JOIN resources AS r ON r.resource_id = e.resource_id
		 WHERE e.sequence = ?1`

	selUnsettledEffects = `
		SELECT ` + effectColumns + `
		  FROM effects AS e
		  JOIN resources AS r ON r.resource_id = e.resource_id
		 WHERE e.settled_at IS NULL
		   AND e.sequence > ?1
		 ORDER BY e.sequence
		 LIMIT ?2`

	// Those that its owner applies, and those that follow from it.
	selEffectsOfRun = `
		SELECT ` + effectColumns + `
		  FROM effects AS e
		  JOIN resources AS r ON r.resource_id = e.resource_id
		 WHERE e.scope_type = 'run'
		   AND e.scope_id   = ?3
		   AND e.sequence   > ?1
		 UNION
		SELECT ` + effectColumns + `
		  FROM effects AS e
		  JOIN resources AS r ON r.resource_id = e.resource_id
		 WHERE e.source_resource_id = 'run:' || ?3
		   AND +e.sequence          > ?1
		 ORDER BY 1
		 LIMIT ?2`
)

// EffectAt returns an effect by its sequence. Errors: [schema.NotFound].
func (q *Queries) EffectAt(ctx context.Context, sequence int64) (e Effect, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		found, err := list(rx, scanEffect, selEffectAt, sequence)
		e, err = only(found, err, "effect", strconv.FormatInt(sequence, 10))
		return err
	})
	return e, err
}

// UnsettledEffects returns at most limit effects that are not settled, after a sequence, in the order in
// which they were recorded. An ambiguous one is not settled (V1).
func (q *Queries) UnsettledEffects(ctx context.Context, after int64, limit int) ([]Effect, error) {
	return q.effectPage(ctx, limit, selUnsettledEffects, after, limit)
}

// EffectsOfRun returns at most limit effects of a run, after a sequence, in the order in which they were
// recorded: those that the run's owner applies, and those that follow from the run's own commands.
func (q *Queries) EffectsOfRun(ctx context.Context, run string, after int64, limit int) ([]Effect, error) {
	return q.effectPage(ctx, limit, selEffectsOfRun, after, limit, run)
}

func (q *Queries) effectPage(ctx context.Context, limit int, sql string, args ...any) (effects []Effect, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	return viewList(ctx, q, scanEffect, sql, args...)
}
