package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

// parked makes an interactive run of a Pi session that asked a question and was parked. Nobody owns it.
func (a *asking) parked(id, session string) *Decision {
	a.Helper()
	a.create(a.interactive(id, session))
	got := mustDo(a, a.Store, Permit{Actor: host1}, ClaimNext{Project: a.project, Session: session, TTLMS: MaxLeaseMS}).Result
	mustDo(a, a.Store, a.permit(host1, got.Claim, id), StartRun{id})
	a.run, a.claim = id, got.Claim
	d := a.ask("go on?", defaultApprove)
	mustDo(a, a.Store, a.permit(host1, got.Claim, id), ParkRun{Run: id, Detail: "waits for an answer"})
	return d
}

// next is the run in which a parked one goes on, in the same session.
func (a *asking) next(parent, session string) RunSpec {
	spec := a.interactive("", session)
	spec.Parent, spec.Continues, spec.Title = parent, true, "Go on"
	return spec
}

func (a *asking) continuation(d *Decision) *Continuation {
	a.Helper()
	v := a.view(d.ID)
	if v.Continuation == nil {
		a.Fatalf("decision %s has no continuation", d.ID)
	}
	return v.Continuation
}

func (a *asking) admit(s *Store, actor Actor, claim *Claim, c *Continuation, spec RunSpec) (Done[*Run], error) {
	return Do(context.Background(), s, as(actor, claim), AdmitContinuation{c.ID, spec})
}

// The child is reserved and the parked parent's place settled by one command; doing it again finds the child.
func TestContinuationOfADecision(t *testing.T) { // D2, D10, V1
	a := newAsking(t)
	d := a.parked("parent", "pi1")
	a.mustSubmit(d, ann, "s", replan)
	c := a.continuation(d)
	if v := a.view(d.ID); v.Status != DecisionAccepted || c.Status != ContinuationPending || v.Effects[0].Status != EffectPending || v.Settled() {
		t.Errorf("%+v", v)
	}
	claim := mustClaim(t, a.Store, host2, runID("parent"), time.Minute)
	done, err := a.admit(a.Store, host2, claim, c, a.next("parent", "pi1"))
	if err != nil {
		t.Fatal(err)
	}
	child := done.Result
	if child.ID != c.Run || child.Parent != "parent" || child.Status != RunQueued || child.Session != "pi1" {
		t.Errorf("%+v", child)
	}
	if q := a.queueRow("parent"); q.Status != QueueDone || q.SettledAt != a.clock.millis() {
		t.Errorf("parent %+v", q)
	}
	if q := a.queueRow(child.ID); q.Status != QueueQueued || q.Session != "pi1" {
		t.Errorf("child %+v", q)
	}
	settled := a.continuation(d)
	if settled.Status != ContinuationAdmitted || settled.SettledAt != a.clock.millis() || settled.Input == nil {
		t.Errorf("%+v", settled)
	}
	before := dump(t, a.Path())
	again, err := a.admit(a.Store, system, nil, c, a.next("parent", "pi1")) // by whomever recovers
	if err != nil || !again.Adopted || !reflect.DeepEqual(again.Result, child) {
		t.Errorf("%+v, %v", again, err)
	}
	other := a.next("parent", "pi1")
	other.Title = "Another way"
	_, err = a.admit(a.Store, host2, claim, c, other)
	wantCode(t, err, schema.Conflict)
	if w, ok := cause[*ConflictError](t, err).Winner.(Run); !ok || w.ID != child.ID {
		t.Error(err)
	}
	if dump(t, a.Path()) != before {
		t.Error("a repeated admission changed the database")
	}
	if list, err := a.ContinuationsOfRun(t.Context(), "parent", Place{}, 10); err != nil || len(list) != 1 || list[0].ID != c.ID {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := a.PendingContinuations(t.Context(), Place{}, 10); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A reservation that fails leaves the parent parked, the continuation pending and everything as it was. Later
// it succeeds.
func TestContinuationWithoutASession(t *testing.T) { // D2
	a := newAsking(t)
	d := a.parked("parent", "pi1")
	a.mustSubmit(d, ann, "s", approve)
	c := a.continuation(d)
	a.create(a.interactive("guest", "pi1")) // takes the session of the parked parent
	claim := mustClaim(t, a.Store, host1, runID("parent"), time.Minute)
	before := dump(t, a.Path())
	_, err := a.admit(a.Store, host1, claim, c, a.next("parent", "pi1"))
	wantCode(t, err, schema.Locked)
	if e := cause[*ReservedError](t, err); e.Run != "guest" {
		t.Errorf("%+v", e)
	}
	if dump(t, a.Path()) != before {
		t.Error("a failed admission left something behind")
	}
	if q := a.queueRow("parent"); q.Status != QueueParked || a.continuation(d).Status != ContinuationPending {
		t.Errorf("%+v", q)
	}
	mustDo(t, a.Store, a.permit(control, nil, "guest"), RequestCancel{"guest"}) // never began, so it has ended
	if _, err := a.admit(a.Store, host1, claim, c, a.next("parent", "pi1")); err != nil {
		t.Error(err)
	}
	if q := a.queueRow("parent"); q.Status != QueueDone {
		t.Errorf("%+v", q)
	}
}

// Everything that an admission is refused for.
func TestContinuationAdmitRefusals(t *testing.T) { // D2, D10, W2
	type try struct {
		*asking
		parent string
		c      *Continuation
		claim  *Claim
		spec   RunSpec
	}
	a := newAsking(t)
	n := 0
	pause := func(x *try) { mustDo(x, x.Store, x.permit(control, nil, x.parent), PauseRun{x.parent}) }
	for name, tc := range map[string]struct {
		spoil func(*try)
		code  schema.Code
	}{
		"unknown":            {func(x *try) { x.c.ID = "con_9" }, schema.NotFound},
		"another run's id":   {func(x *try) { x.spec.ID = "mine" }, schema.Invalid},
		"another parent":     {func(x *try) { x.spec.Parent = "r1" }, schema.Invalid},
		"no parent":          {func(x *try) { x.spec.Parent, x.spec.Continues = "", false }, schema.Invalid},
		"beside the parent":  {func(x *try) { x.spec.Continues = false }, schema.Invalid},
		"directly":           {func(x *try) { x.spec.Continues, x.spec.Queue = false, nil }, schema.Invalid},
		"unknown definition": {func(x *try) { x.spec.Definition[0]++ }, schema.NotFound},
		"without a claim":    {func(x *try) { x.claim = nil }, schema.Denied},
		"with another claim": {func(x *try) { _, x.claim = x.started("r2") }, schema.Denied},
		"with a stale claim": {func(x *try) { x.clock.move(time.Hour) }, schema.StaleClaim},
		"paused":             {pause, schema.IllegalTransition},
		"to be cancelled":    {func(x *try) { mustDo(x, x.Store, x.permit(control, nil, x.parent), RequestCancel{x.parent}) }, schema.IllegalTransition},
		"working": {func(x *try) {
			mustDo(x, x.Store, x.permit(host1, x.claim, x.parent), EnqueueRun{Run: x.parent})
			x.claim = mustClaim(x, x.Store, host1, runID(x.parent), time.Minute)
		}, schema.IllegalTransition},
		"ended": {func(x *try) {
			mustDo(x, x.Store, x.permit(host1, x.claim, x.parent), FailRun{x.parent, json.RawMessage(`{}`)})
		}, schema.IllegalTransition},
		"cancelled": {func(x *try) {
			mustDo(x, x.Store, as(control, nil), CancelContinuation{Continuation: x.c.ID, Parent: x.parent})
		}, schema.IllegalTransition},
		"as it should be done": {func(*try) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n++
			parent, pi := fmt.Sprint("parent", n), fmt.Sprint("pi", n)
			d := a.parked(parent, pi)
			a.mustSubmit(d, ann, parent, approve)
			x := &try{a, parent, a.continuation(d), mustClaim(t, a.Store, host1, runID(parent), time.Minute), a.next(parent, pi)}
			tc.spoil(x)
			before := dump(t, a.Path())
			_, err := a.admit(a.Store, host1, x.claim, x.c, x.spec)
			if schema.CodeOf(err) != tc.code {
				t.Fatalf("%v, want code %q", err, tc.code)
			}
			if err != nil && dump(t, a.Path()) != before {
				t.Error("a refused admission left something behind")
			}
		})
	}
}

// Only its continuation can take the id that is reserved for it.
func TestContinuationKeepsItsRunID(t *testing.T) { // D10
	a := newAsking(t)
	d := a.ask("q", nil)
	a.mustSubmit(d, ann, "s", approve)
	spec := a.spec(a.continuation(d).Run)
	_, err := Do(t.Context(), a.Store, Permit{Actor: host1}, CreateRun{RunSpec: spec})
	wantCode(t, err, schema.Conflict)
}

// A direct run waits without a place in the queue; so may what it goes on in.
func TestContinuationOfADirectRun(t *testing.T) { // D10, R8
	a := newAsking(t)
	d := a.ask("q", nil)
	mustDo(t, a.Store, a.permit(host1, a.claim, "r1"), ParkRun{Run: "r1"})
	a.mustSubmit(d, ann, "s", approve)
	c := a.continuation(d)
	claim := mustClaim(t, a.Store, host1, runID("r1"), time.Minute)
	spec := a.spec("")
	spec.Parent = "r1"
	done, err := a.admit(a.Store, host1, claim, c, spec)
	if err != nil || done.Result.ID != c.Run {
		t.Fatal(err)
	}
	if _, err := a.QueueRow(t.Context(), c.Run); !errors.Is(err, schema.NotFound) {
		t.Errorf("the child has a place in the queue: %v", err)
	}
}

// A continuation that is given up takes its effect with it, unless somebody has begun that.
func TestContinuationCancel(t *testing.T) { // D10
	a := newAsking(t)
	var pending [3]*Continuation
	for i := range pending {
		d := a.ask(fmt.Sprint("q", i), nil)
		a.mustSubmit(d, ann, fmt.Sprint("s", i), approve)
		pending[i] = a.continuation(d)
	}
	cancel := func(c *Continuation) (Done[*Continuation], error) {
		return Do(t.Context(), a.Store, as(host1, a.claim), CancelContinuation{Continuation: c.ID, Parent: "r1", Error: json.RawMessage(`{"code":"enough"}`)})
	}
	other, foreign := a.started("r2")
	_, err := Do(t.Context(), a.Store, as(host1, foreign), CancelContinuation{Continuation: pending[0].ID, Parent: other})
	wantCode(t, err, schema.NotFound)
	done, err := cancel(pending[0])
	if err != nil || done.Result.Status != ContinuationCancelled || done.Result.Error == nil {
		t.Errorf("%+v, %v", done, err)
	}
	e, err := a.Effect(t.Context(), pending[0].effect())
	if err != nil || e.Status != EffectCancelled || e.SettledAt == 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if again, err := cancel(pending[0]); err != nil || !again.Adopted {
		t.Errorf("%+v, %v", again, err)
	}

	e, err = a.Effect(t.Context(), pending[1].effect())
	if err != nil {
		t.Fatal(err)
	}
	mustDo(t, a.Store, Permit{Actor: host1, Expected: e.Revision, Claim: a.claim}, BeginEffect{e.ID, 60_000})
	if _, err := cancel(pending[1]); err != nil {
		t.Error(err)
	}
	if e, err = a.Effect(t.Context(), e.ID); err != nil || e.Status != EffectApplying {
		t.Errorf("%+v, %v", e, err)
	}

	mustDo(t, a.Store, a.permit(host1, a.claim, "r1"), ParkRun{Run: "r1"})
	a.claim = mustClaim(t, a.Store, host1, runID("r1"), time.Minute)
	spec := a.spec("")
	spec.Parent = "r1"
	if _, err := a.admit(a.Store, host1, a.claim, pending[2], spec); err != nil {
		t.Fatal(err)
	}
	_, err = cancel(pending[2])
	wantCode(t, err, schema.IllegalTransition)
}

// The owner's worker: it tries again while it can't, admits once, and leaves alone what was settled.
func TestContinuationHandler(t *testing.T) { // D2, D10, R7
	a := newAsking(t)
	d := a.parked("parent", "pi1")
	a.mustSubmit(d, ann, "s", approve)
	c := a.continuation(d)
	a.create(a.interactive("guest", "pi1"))
	spec := a.next("parent", "pi1")
	asked := 0
	work := func() (report EffectReport) {
		t.Helper()
		err := Attend(t.Context(), a.Store, host2, "parent", time.Minute, func(ctx context.Context, claim *Claim) (err error) {
			w := &EffectWorker{
				Store: a.Store, Actor: host2, Scope: Scope{RunScope, "parent"}, Claim: claim,
				Handlers: map[string]EffectHandler{EffectContinuationAdmit: ContinuationHandler(a.Store, host2, claim, func(_ context.Context, got Continuation) (*RunSpec, error) {
					if asked++; got.ID != c.ID {
						t.Errorf("asked for %+v", got)
					}
					return &spec, nil
				})},
			}
			report, err = w.Run(ctx, 10)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	wantReport(t, work(), EffectReport{Retried: 1})
	if e := a.view(d.ID).Effects[0]; e.Status != EffectPending || e.Error == nil || a.queueRow("parent").Status != QueueParked {
		t.Errorf("%+v", e)
	}
	wantReport(t, work(), EffectReport{}) // not before its time
	mustDo(t, a.Store, a.permit(control, nil, "guest"), RequestCancel{"guest"})
	a.clock.move(time.Minute)
	wantReport(t, work(), EffectReport{Applied: 1})
	wantReport(t, work(), EffectReport{})
	v := a.view(d.ID)
	result, err := a.Blob(t.Context(), *v.Effects[0].Result)
	if err != nil || string(result.Bytes) != `{"run":"`+c.Run+`"}` || !v.Settled() || asked != 2 {
		t.Errorf("%s after %d questions, %v", result.Bytes, asked, err)
	}
}

// An owner vanishes between the admission and its receipt: the next one finds the run, and doesn't ask what it
// is to do.
func TestContinuationRecovered(t *testing.T) { // D10, R7, C53
	a := newAsking(t)
	d := a.parked("parent", "pi1")
	a.mustSubmit(d, ann, "s", approve)
	c := a.continuation(d)
	claim := mustClaim(t, a.Store, host1, runID("parent"), time.Minute)
	mustDo(t, a.Store, Permit{Actor: host1, Expected: 1, Claim: claim}, BeginEffect{c.effect(), 60_000})
	if _, err := a.admit(a.Store, host1, claim, c, a.next("parent", "pi1")); err != nil {
		t.Fatal(err)
	}
	a.clock.move(time.Hour)
	if runs, err := a.UnattendedRuns(t.Context(), a.project, "", 10); err != nil || len(runs) != 1 {
		t.Errorf("%v, %v", runs, err)
	}
	err := Attend(t.Context(), a.Store, host2, "parent", time.Minute, func(ctx context.Context, claim *Claim) error {
		w := &EffectWorker{
			Store: a.Store, Actor: host2, Scope: Scope{RunScope, "parent"}, Claim: claim,
			Handlers: map[string]EffectHandler{EffectContinuationAdmit: ContinuationHandler(a.Store, host2, claim, func(context.Context, Continuation) (*RunSpec, error) {
				t.Error("asked what a run is to do that exists")
				return nil, nil
			})},
		}
		report, err := w.Run(ctx, 10)
		wantReport(t, report, EffectReport{Applied: 1, Interrupted: 1})
		return err
	})
	if v := a.view(d.ID); err != nil || !v.Settled() || v.Continuation.Status != ContinuationAdmitted {
		t.Errorf("%+v, %v", v, err)
	}
}

// An owner that goes on by itself, in the run that asked, gives the continuation up.
func TestContinuationInPlace(t *testing.T) { // D10, V1
	a := newAsking(t)
	d := a.ask("q", nil)
	a.mustSubmit(d, ann, "s", approve)
	w := &EffectWorker{
		Store: a.Store, Actor: host1, Scope: Scope{RunScope, "r1"}, Claim: a.claim,
		Handlers: map[string]EffectHandler{EffectContinuationAdmit: ContinuationHandler(a.Store, host1, a.claim, func(context.Context, Continuation) (*RunSpec, error) { return nil, nil })},
	}
	report, err := w.Run(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	wantReport(t, report, EffectReport{Rejected: 1})
	v := a.view(d.ID)
	if v.Status != DecisionAccepted || v.Continuation.Status != ContinuationCancelled || !v.Settled() {
		t.Errorf("%+v", v)
	}
	fault, err := a.Blob(t.Context(), *v.Effects[0].Error)
	if err != nil || !strings.Contains(string(fault.Bytes), "cancelled") {
		t.Errorf("%s, %v", fault.Bytes, err)
	}
}
