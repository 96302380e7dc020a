package store

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// ControllerWork is one look at a controller resource, for the function that does it.
type ControllerWork struct {
	Controller ControllerView
	Spec       json.RawMessage
	Claim      *Claim // on the resource; lost if the context has ended

	actor Actor
}

// Permit returns a permit for a command of the owner of the resource.
func (w *ControllerWork) Permit() Permit {
	return Permit{Actor: w.actor, Expected: AnyRevision, Claim: w.Claim}
}

// ControllerWorker is a controller at work: it claims the resources of a project that are due, one after the
// other. Several may run at once, in several processes. Its fields must not change while it runs.
type ControllerWorker struct {
	Store   *Store
	Actor   Actor
	Project string
	Names   []string // of the controllers that it is; none: all

	// Reconcile makes something the way it is to be, or a step of that, and says when to look again; 0:
	// when something has changed. It works from what it finds and can be called again at any point: after a
	// crash, after an error (later and later), or because an effect is to be tried or observed again.
	Reconcile func(ctx context.Context, w *ControllerWork) (again time.Duration, err error)

	// Handlers apply the effects of the resources, by type: before Reconcile those that are left, after it
	// the new ones. Ambiguous ones are observed again each time.
	Handlers map[string]EffectHandler

	// Lease is how long the ownership of a resource lasts unless it is renewed, which happens while
	// Reconcile works. 0: one minute.
	Lease   time.Duration
	Backoff Backoff // zero: from one second to five minutes, without end
}

// ControllerReport counts what a worker did.
type ControllerReport struct {
	Settled  int // until something changes
	Requeued int
	Failed   int // will be tried again
	Deleted  int // went, during the look
	Lost     int // taken by another worker during the look
	Effects  EffectReport
}

// effectsPerLook bounds the effects that are applied or observed at once for one resource.
const effectsPerLook = 100

// Run looks at the resources that are due, at most limit of them. It stops at the first error that is not
// the reconciliation's own.
func (w *ControllerWorker) Run(ctx context.Context, limit int) (report ControllerReport, err error) {
	for range limit {
		claim := ClaimController{Project: w.Project, Names: w.Names, TTLMS: w.lease().Milliseconds()}
		done, err := Do(ctx, w.Store, Permit{Actor: w.Actor, Expected: AnyRevision}, claim)
		var nothing *NoKeyDueError
		if errors.As(err, &nothing) {
			return report, nil
		}
		if err == nil {
			err = w.look(ctx, done.Result, &report)
		}
		if err != nil {
			return report, err
		}
	}
	return report, nil
}

func (w *ControllerWorker) lease() time.Duration {
	if w.Lease == 0 {
		return defaultEffectLease
	}
	return w.Lease
}

// look looks at one resource, and settles it.
func (w *ControllerWorker) look(ctx context.Context, c *ControllerClaim, report *ControllerReport) error {
	kept, stop := Keep(ctx, w.Store, w.Actor, c.Claim, w.lease())
	again, failure := w.reconcile(kept, c, report)
	stop()
	if ctx.Err() != nil {
		return ctx.Err() // the lease ends by itself, and the next owner looks again
	}
	permit := Permit{Actor: w.Actor, Expected: AnyRevision, Claim: c.Claim}
	uid, version := c.Controller.UID, c.Controller.Queue.Version
	var cmd Command[*Controller]
	var counter *int
	switch {
	case failure != nil:
		cmd, counter = BackOffController{
			Controller: uid, Version: version, Code: string(failureCode(failure)), Error: errorContent(failure),
			BaseMS: w.Backoff.Base.Milliseconds(), MaxMS: w.Backoff.Max.Milliseconds(),
		}, &report.Failed
	case again > 0:
		cmd, counter = RequeueController{Controller: uid, Version: version, DelayMS: max(again.Milliseconds(), 1)}, &report.Requeued
	default:
		cmd, counter = SettleController{Controller: uid, Version: version}, &report.Settled
	}
	_, err := Do(ctx, w.Store, permit, cmd)
	if errors.Is(err, schema.StaleClaim) || errors.Is(err, schema.IllegalTransition) {
		return w.gone(ctx, uid, report)
	}
	if err == nil {
		*counter++
	}
	return err
}

// failureCode returns the code of an error, which is the reconciliation's own if it has none.
func failureCode(err error) schema.Code {
	var coded *schema.Error
	if errors.As(err, &coded) {
		return coded.Code
	}
	return "reconcile"
}

// gone counts a resource that this worker does not own any more.
func (w *ControllerWorker) gone(ctx context.Context, uid string, report *ControllerReport) error {
	v, err := w.Store.Controller(ctx, uid)
	if err != nil {
		return err
	}
	if v.DeletedAt != 0 {
		report.Deleted++
	} else {
		report.Lost++
	}
	return nil
}

func (w *ControllerWorker) reconcile(ctx context.Context, c *ControllerClaim, report *ControllerReport) (again time.Duration, err error) {
	work := &ControllerWork{Claim: c.Claim, actor: w.Actor}
	if _, err := Do(ctx, w.Store, work.Permit(), ObserveWorkflows{c.Controller.UID}); err != nil {
		return 0, err
	}
	effects := &EffectWorker{
		Store: w.Store, Actor: w.Actor, Scope: Scope{ControllerScope, c.Controller.UID}, Claim: c.Claim,
		Handlers: w.Handlers, Lease: w.Lease, Backoff: w.Backoff,
	}
	if err := applyEffects(ctx, effects, &report.Effects); err != nil {
		return 0, err
	}
	observed, err := effects.Observe(ctx, effectsPerLook)
	report.Effects.add(observed)
	if err != nil {
		return 0, err
	}
	if work.Controller, err = w.Store.Controller(ctx, c.Controller.UID); err != nil {
		return 0, err
	}
	spec, err := w.Store.Blob(ctx, work.Controller.Spec)
	if err != nil {
		return 0, err
	}
	work.Spec = spec.Bytes
	if again, err = w.Reconcile(ctx, work); err != nil {
		return 0, err
	}
	if err := applyEffects(ctx, effects, &report.Effects); err != nil && !errors.Is(err, schema.StaleClaim) {
		return 0, err // a claim that is gone shows when the look is settled
	}
	return w.again(ctx, effects.Scope, again)
}

const (
	selNextEffect = `
		SELECT min(available_at)
		  FROM effects
		 WHERE scope_type = ?1
		   AND scope_id   = ?2
		   AND status     = 'pending'
		   AND effect_type IN (SELECT value FROM json_each(?3))`

	// Few effects are ambiguous, and a resource can have had many.
	selUnresolved = `
		SELECT count(*)
		  FROM effects INDEXED BY effects_by_status
		 WHERE scope_type = ?1
		   AND scope_id   = ?2
		   AND status     = 'ambiguous'
		   AND effect_type IN (SELECT value FROM json_each(?3))`
)

// types returns the types of the effects that the worker applies, as JSON.
func (w *ControllerWorker) types() (string, error) {
	types, err := json.Marshal(append([]string{}, slices.Sorted(maps.Keys(w.Handlers))...))
	return string(types), err
}

// again returns when to look again: as Reconcile wants, or before if an effect waits for it.
func (w *ControllerWorker) again(ctx context.Context, scope Scope, wanted time.Duration) (time.Duration, error) {
	types, err := w.types()
	if err != nil {
		return 0, err
	}
	var next Millis
	unresolved := 0
	err = w.Store.view(ctx, func(rx *sqlite.Rx) error {
		_, err := rx.QueryRow(selNextEffect, func(r sqlite.Row) error {
			next = Millis(r.Int64(0))
			return nil
		}, string(scope.Type), scope.ID, types)
		if err == nil {
			unresolved, err = oneNumber(rx, selUnresolved, string(scope.Type), scope.ID, types)
		}
		return err
	})
	earliest := func(d time.Duration) {
		if d = max(d, time.Millisecond); wanted == 0 || d < wanted {
			wanted = d
		}
	}
	if next != 0 {
		earliest(next.Time().Sub(w.Store.now()))
	}
	if unresolved > 0 {
		earliest(defaultMaxBackoff)
	}
	return wanted, err
}

func applyEffects(ctx context.Context, w *EffectWorker, report *EffectReport) error {
	done, err := w.Run(ctx, effectsPerLook)
	report.add(done)
	return err
}

func (r *EffectReport) add(o EffectReport) {
	r.Applied += o.Applied
	r.Retried += o.Retried
	r.Rejected += o.Rejected
	r.Ambiguous += o.Ambiguous
	r.Interrupted += o.Interrupted
	r.Lost += o.Lost
}
