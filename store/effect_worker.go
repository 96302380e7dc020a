package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// EffectHandler knows how to apply the effects of one type.
type EffectHandler struct {
	// Apply does what the effect says, outside any transaction, and returns its result (JSON, or nil) and
	// the provider's name for it. What an error means is up to the effect: an external one may have happened
	// all the same, and becomes ambiguous, unless the error is [NotApplied] or [Rejected]; a local one, whose
	// work is a command that adopts its own result, is tried again unless it is Rejected.
	//
	// The context ends when the ownership of the effect is lost. The claim proves it, for a command that
	// needs [OwnEffect].
	Apply func(ctx context.Context, begun Begun, payload json.RawMessage) (Applied, error)

	// Observe looks whether the effect happened, at a provider that can tell. It is asked when a worker has
	// vanished or Apply was uncertain. nil, or an error: nobody can tell now.
	Observe func(ctx context.Context, effect Effect, payload json.RawMessage) (Observation, error)
}

// Applied is what came of an effect that was applied.
type Applied struct {
	Result      json.RawMessage // nil: none
	ExternalRef string          // the provider's name for what was done
}

// applyError is what a handler knows of an effect that failed.
type applyError struct {
	err   error
	final bool
}

func (e *applyError) Error() string { return e.err.Error() }
func (e *applyError) Unwrap() error { return e.err }

// NotApplied marks an error of a handler: the effect certainly did not happen, and may be tried again.
func NotApplied(err error) error { return &applyError{err, false} }

// Rejected marks an error of a handler: the effect certainly did not happen, and never will.
func Rejected(err error) error { return &applyError{err, true} }

// Backoff is how long to wait before an effect is tried again: Base after the first failure, twice as long
// after each further one, at most Max; less up to half of it, at random.
type Backoff struct {
	Base, Max   time.Duration
	MaxAttempts int // after which an effect that did not happen is rejected; 0: never
}

// after returns the wait in milliseconds after the n-th attempt. fraction is from [0, 1).
func (b Backoff) after(n int, fraction float64) int64 {
	wait := b.Base
	for ; n > 1 && wait < b.Max; n-- {
		wait *= 2
	}
	wait = min(wait, b.Max)
	return (wait - time.Duration(fraction*float64(wait)/2)).Milliseconds()
}

// EffectWorker applies the effects of one scope, for the owner of that scope. Several may run at once, in
// several processes. Its fields must not change while it runs.
type EffectWorker struct {
	Store    *Store
	Actor    Actor
	Scope    Scope
	Claim    *Claim                   // on the scope's resource; nil for the system's scope, and one that has ended
	Handlers map[string]EffectHandler // by effect type; effects of other types are left alone

	// Lease is how long the ownership of an effect lasts unless it is renewed, which happens while Apply
	// works: so long others wait after this worker vanished. 0: one minute.
	Lease   time.Duration
	Backoff Backoff // zero: from one second to five minutes, without end
}

// EffectReport counts what a worker did.
type EffectReport struct {
	Applied     int
	Retried     int // failed, and will be tried again
	Rejected    int
	Ambiguous   int
	Interrupted int // attempts of vanished workers that were ended
	Lost        int // taken by another worker, before or during the attempt
}

const (
	defaultEffectLease = time.Minute
	defaultBackoff     = time.Second
	defaultMaxBackoff  = 5 * time.Minute
)

const (
	// In the order in which they became due, those of the same moment in the order of recording: one that
	// has to wait doesn't hold up the others.
	selDue = `
		SELECT ` + effectColumns + `
		  FROM effects AS e
		  JOIN resources AS r ON r.resource_id = e.resource_id
		 WHERE e.scope_type   = ?1
		   AND e.scope_id     = ?2
		   AND e.status       = 'pending'
		   AND e.available_at <= ?3
		   AND e.effect_type IN (SELECT value FROM json_each(?4))
		 ORDER BY e.available_at, e.sequence
		 LIMIT ?5`

	selVanished = `
		SELECT ` + effectColumns + `
		  FROM effects AS e
		  JOIN resources AS r ON r.resource_id = e.resource_id
		  LEFT JOIN leases AS l ON l.resource_id = e.resource_id
		 WHERE e.scope_type = ?1
		   AND e.scope_id   = ?2
		   AND e.status     = 'applying'
		   AND ifnull(max(l.heartbeat_at, ?3) >= l.expires_at, 1)
		   AND e.effect_type IN (SELECT value FROM json_each(?4))
		 ORDER BY e.sequence
		 LIMIT ?5`

	selAmbiguous = `
		SELECT ` + effectColumns + `
		  FROM effects AS e
		  JOIN resources AS r ON r.resource_id = e.resource_id
		 WHERE e.scope_type = ?1
		   AND e.scope_id   = ?2
		   AND e.status     = 'ambiguous'
		   AND ?3 IS NOT NULL
		   AND e.effect_type IN (SELECT value FROM json_each(?4))
		 ORDER BY e.sequence
		 LIMIT ?5`
)

// Run ends the attempts of vanished workers and applies due effects, at most limit in all, one after the
// other in the order in which they became due. It stops at the first error that is not an effect's own, as
// when the scope's claim is lost.
func (w *EffectWorker) Run(ctx context.Context, limit int) (report EffectReport, err error) {
	vanished, err := w.list(ctx, selVanished, limit)
	if err != nil {
		return report, err
	}
	for _, e := range vanished {
		if err := w.recover(ctx, e, &report); err != nil {
			return report, err
		}
	}
	due, err := w.list(ctx, selDue, limit-len(vanished))
	if err != nil {
		return report, err
	}
	for _, e := range due {
		if err := w.apply(ctx, e, &report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// Observe looks again at ambiguous effects whose handlers can, at most limit of them, and settles those that
// it can tell of.
func (w *EffectWorker) Observe(ctx context.Context, limit int) (report EffectReport, err error) {
	ambiguous, err := w.list(ctx, selAmbiguous, limit)
	if err != nil {
		return report, err
	}
	for _, e := range ambiguous {
		seen, err := w.look(ctx, e)
		if err != nil {
			return report, err
		}
		if seen == nil {
			report.Ambiguous++
			continue
		}
		_, err = Do(ctx, w.Store, w.permit(e), ObserveEffect{Effect: e.ID, Observation: *seen})
		switch {
		case lostRace(err):
			report.Lost++
		case err != nil:
			return report, err
		case seen.Applied:
			report.Applied++
		default:
			report.Rejected++
		}
	}
	return report, nil
}

func (w *EffectWorker) list(ctx context.Context, sql string, limit int) (effects []Effect, err error) {
	if limit <= 0 {
		return nil, nil
	}
	types, err := json.Marshal(slices.Sorted(maps.Keys(w.Handlers)))
	if err != nil {
		return nil, err
	}
	now := int64(MillisOf(w.Store.now()))
	err = w.Store.view(ctx, func(rx *sqlite.Rx) error {
		effects, err = list(rx, scanEffect, sql, string(w.Scope.Type), w.Scope.ID, now, string(types), min(limit, MaxPage))
		return err
	})
	return effects, err
}

func (w *EffectWorker) permit(e Effect) Permit {
	return Permit{Actor: w.Actor, Expected: e.Revision, Claim: w.Claim}
}

func (w *EffectWorker) lease() time.Duration {
	if w.Lease == 0 {
		return defaultEffectLease
	}
	return w.Lease
}

// lostRace reports whether another worker was faster.
func lostRace(err error) bool {
	return errors.Is(err, schema.StaleRevision) || errors.Is(err, schema.IllegalTransition) || errors.Is(err, schema.Locked)
}

// look asks an effect's handler what became of it. nil: nobody can tell.
func (w *EffectWorker) look(ctx context.Context, e Effect) (*Observation, error) {
	observe := w.Handlers[e.Type].Observe
	if observe == nil {
		return nil, nil
	}
	payload, err := w.Store.Blob(ctx, e.Payload)
	if err != nil {
		return nil, err
	}
	seen, err := observe(ctx, e, payload.Bytes)
	if err != nil {
		return nil, ctx.Err() // the provider can't tell: that is no failure of ours
	}
	return &seen, nil
}

// recover ends the attempt of a worker that vanished.
func (w *EffectWorker) recover(ctx context.Context, e Effect, report *EffectReport) (err error) {
	cmd := RecoverEffect{Effect: e.ID}
	if e.External {
		if cmd.Seen, err = w.look(ctx, e); err != nil {
			return err
		}
	}
	done, err := Do(ctx, w.Store, w.permit(e), cmd)
	switch {
	case lostRace(err):
		report.Lost++
		return nil
	case err != nil:
		return err
	}
	report.Interrupted++
	switch done.Result.Status {
	case EffectApplied:
		report.Applied++
	case EffectAmbiguous:
		report.Ambiguous++
	}
	return nil
}

// apply makes one attempt.
func (w *EffectWorker) apply(ctx context.Context, e Effect, report *EffectReport) error {
	payload, err := w.Store.Blob(ctx, e.Payload)
	if err != nil {
		return err
	}
	begun, err := Do(ctx, w.Store, w.permit(e), BeginEffect{Effect: e.ID, TTLMS: w.lease().Milliseconds()})
	if lostRace(err) {
		report.Lost++
		return nil
	}
	if err != nil {
		return err
	}
	cmd, err := w.attempt(ctx, begun.Result, payload.Bytes)
	if err != nil {
		return err
	}
	// What happened is recorded even if ctx has ended meanwhile.
	permit := Permit{Actor: w.Actor, Expected: AnyRevision, Claim: begun.Result.Claim}
	settled, err := Do(context.WithoutCancel(ctx), w.Store, permit, cmd)
	if cmd.Outcome == OutcomeApplied && (errors.Is(err, schema.Invalid) || errors.Is(err, schema.Limit)) {
		settled, err = Do(context.WithoutCancel(ctx), w.Store, permit, withhold(cmd, err)) // it happened all the same
	}
	if errors.Is(err, schema.StaleClaim) {
		report.Lost++ // somebody declared the attempt interrupted, and goes by what they see
		return nil
	}
	if err != nil {
		return err
	}
	switch settled.Result.Status {
	case EffectApplied:
		report.Applied++
	case EffectPending:
		report.Retried++
	case EffectRejected:
		report.Rejected++
	case EffectAmbiguous:
		report.Ambiguous++
	}
	return nil
}

// attempt calls the handler and returns how to settle.
func (w *EffectWorker) attempt(ctx context.Context, b *Begun, payload json.RawMessage) (SettleEffect, error) {
	kept, stop := Keep(ctx, w.Store, w.Actor, b.Claim, w.lease())
	defer stop()
	applied, err := w.Handlers[b.Effect.Type].Apply(kept, *b, payload)
	if err == nil {
		return SettleEffect{Effect: b.Effect.ID, Outcome: OutcomeApplied, Result: applied.Result, ExternalRef: applied.ExternalRef}, nil
	}
	var known *applyError
	certain := errors.As(err, &known)
	if !certain && b.Effect.External {
		seen, lookErr := w.look(kept, b.Effect)
		if lookErr == nil && seen != nil && seen.Applied {
			return SettleEffect{Effect: b.Effect.ID, Outcome: OutcomeApplied, Result: seen.Result, ExternalRef: seen.ExternalRef}, nil
		}
		certain = lookErr == nil && seen != nil
	}
	cmd := SettleEffect{Effect: b.Effect.ID, Outcome: OutcomeRejected, Error: errorContent(err)}
	backoff := w.backoff()
	switch {
	case !certain && b.Effect.External:
		cmd.Outcome = OutcomeAmbiguous
	case known != nil && known.final:
	case backoff.MaxAttempts > 0 && b.Effect.Attempts >= backoff.MaxAttempts:
	default:
		fraction, err := w.Store.random.fraction()
		if err != nil {
			return cmd, err
		}
		wait := backoff.after(b.Effect.Attempts, fraction)
		cmd.RetryAfterMS = &wait
	}
	return cmd, nil
}

func (w *EffectWorker) backoff() Backoff {
	b := w.Backoff
	if b.Base == 0 {
		b.Base = defaultBackoff
	}
	if b.Max == 0 {
		b.Max = defaultMaxBackoff
	}
	return b
}

// withhold settles like cmd, without the result that was refused.
func withhold(cmd SettleEffect, why error) SettleEffect {
	result, _ := json.Marshal(map[string]string{"withheld": why.Error()}) // strings always marshal
	return SettleEffect{Effect: cmd.Effect, Outcome: cmd.Outcome, Result: result}
}

// errorContent is what is stored of a handler's error: its text, without what has the shape of a secret.
func errorContent(err error) json.RawMessage {
	const most = 4000
	text := err.Error()
	if len(text) > most {
		text = text[:most] + fmt.Sprintf("... (%d bytes more)", len(text)-most)
	}
	b, _ := json.Marshal(map[string]string{"message": redactSecrets(text)}) // strings always marshal
	return b
}
