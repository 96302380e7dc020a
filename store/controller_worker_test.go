package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func (f *flow) controls(reconcile func(context.Context, *ControllerWork) (time.Duration, error)) *ControllerWorker {
	return &ControllerWorker{Store: f.Store, Actor: merger1, Project: f.project, Reconcile: reconcile}
}

func runWorker(t testing.TB, w *ControllerWorker) ControllerReport {
	t.Helper()
	report, err := w.Run(context.Background(), 100)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestControllerWorker(t *testing.T) { // D11
	f := newFlow(t)
	for _, key := range []string{"settles", "again", "fails", "goes"} {
		f.controller(key, fmt.Sprintf(`{"key":%q}`, key))
	}
	var seen []string
	w := f.controls(func(ctx context.Context, w *ControllerWork) (time.Duration, error) {
		key := w.Controller.Key
		seen = append(seen, key+" "+string(w.Spec))
		switch key {
		case "again":
			return time.Hour, nil
		case "fails":
			return 0, errors.New("no answer from AKIA" + strings.Repeat("A", 16))
		case "goes":
			_, err := Do(ctx, f.Store, w.Permit(), AddFinalizer{w.Controller.UID, "x"})
			if err == nil {
				_, err = Do(ctx, f.Store, anybody, RequestControllerDeletion{w.Controller.UID})
			}
			if err == nil {
				_, err = Do(ctx, f.Store, w.Permit(), RemoveFinalizer{w.Controller.UID, "x"})
			}
			return 0, err
		}
		_, err := Do(ctx, f.Store, w.Permit(), SetControllerStatus{w.Controller.UID, w.Controller.Generation, ControllerStatus{}})
		return 0, err
	})
	if report := runWorker(t, w); report != (ControllerReport{Settled: 1, Requeued: 1, Failed: 1, Deleted: 1}) {
		t.Errorf("%+v", report)
	}
	slices.Sort(seen)
	want := []string{`again {"key":"again"}`, `fails {"key":"fails"}`, `goes {"key":"goes"}`, `settles {"key":"settles"}`}
	if !slices.Equal(seen, want) {
		t.Errorf("%v", seen)
	}
	if v := f.live("settles"); v.Phase != ControllerIdle || v.Observed != 1 {
		t.Errorf("%+v", v)
	}
	if v := f.live("again"); v.Queue.AvailableAt != f.clock.millis()+3_600_000 {
		t.Errorf("%+v", v)
	}
	v := f.live("fails")
	if v.Queue.Errors != 1 || v.Queue.ErrorCode != "reconcile" || v.Queue.AvailableAt <= f.clock.millis() {
		t.Errorf("%+v", v)
	}
	if report := runWorker(t, w); report != (ControllerReport{}) {
		t.Errorf("nothing was due: %+v", report)
	}
	f.clock.move(2 * time.Second)
	if report := runWorker(t, w); report != (ControllerReport{Failed: 1}) || f.live("fails").Queue.Errors != 2 {
		t.Errorf("%+v", report)
	}
}

// An effect that did not happen brings the controller back when it is to be tried again.
func TestControllerWorkerRetriesEffects(t *testing.T) { // D11, R7
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	tries := 0
	w := f.controls(func(ctx context.Context, w *ControllerWork) (time.Duration, error) {
		permit := w.Permit()
		permit.Expected = w.Controller.Revision
		_, err := Do(ctx, f.Store, permit, EnsureEffect{c.Resource(), EffectSpec{
			Type: "pr.label", Key: "1", Payload: w.Spec, External: true, Scope: Scope{ControllerScope, c.UID},
		}})
		return 0, err
	})
	w.Handlers = map[string]EffectHandler{"pr.label": {Apply: func(context.Context, Begun, json.RawMessage) (Applied, error) {
		if tries++; tries < 3 {
			return Applied{}, NotApplied(errors.New("429"))
		}
		return Applied{}, nil
	}}}
	effect := effectID(c.Resource(), "pr.label", "1")
	for want := 1; want < 3; want++ {
		if report := runWorker(t, w); report.Requeued != 1 || report.Effects.Retried != 1 || tries != want {
			t.Fatalf("%+v", report)
		}
		e, err := f.Effect(t.Context(), effect)
		if v := f.viewed(c.UID); err != nil || v.Queue.AvailableAt != e.AvailableAt || v.Unsettled[EffectPending] != 1 {
			t.Fatalf("looks again at %d for an effect that is due at %d, %v", v.Queue.AvailableAt, e.AvailableAt, err)
		}
		f.clock.move(e.AvailableAt.Time().Sub(f.clock.Now()))
	}
	if report := runWorker(t, w); report.Settled != 1 || report.Effects.Applied != 1 || f.viewed(c.UID).Phase != ControllerIdle {
		t.Errorf("%+v", report)
	}
}

// A worker that lost its claim while it worked settles nothing.
func TestControllerWorkerLosesItsClaim(t *testing.T) { // D11, C50
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	w := f.controls(func(context.Context, *ControllerWork) (time.Duration, error) {
		f.clock.move(2 * time.Minute)
		mustClaim(t, f.Store, merger1, c.Resource(), time.Minute) // by the same name
		return time.Hour, nil
	})
	if report := runWorker(t, w); report != (ControllerReport{Lost: 1}) {
		t.Errorf("%+v", report)
	}
	if v := f.viewed(c.UID); v.Queue.AvailableAt > f.clock.millis() || v.Owner == nil {
		t.Errorf("%+v", v)
	}
}

func TestControllerWorkerStops(t *testing.T) { // D11
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	ctx, cancel := context.WithCancel(t.Context())
	w := f.controls(func(context.Context, *ControllerWork) (time.Duration, error) {
		cancel()
		return 0, nil
	})
	if _, err := w.Run(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if v := f.viewed(c.UID); v.Phase != ControllerWorking { // until the lease ends
		t.Errorf("phase %s", v.Phase)
	}
}

// Workers share the keys, and no two are at one at the same time.
func TestControllerWorkersShareTheWork(t *testing.T) { // D11, R4
	f := newFlow(t)
	for i := range 30 {
		f.controller(fmt.Sprint("pr-", i), `1`)
	}
	var looks atomic.Int64
	var busy sync.Map
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			w := f.controls(func(_ context.Context, w *ControllerWork) (time.Duration, error) {
				if _, both := busy.LoadOrStore(w.Controller.UID, i); both {
					t.Errorf("two at work on %s", w.Controller.Key)
				}
				looks.Add(1)
				busy.Delete(w.Controller.UID)
				return 0, nil
			})
			w.Store = openAt(t, f.Path(), Options{Now: f.clock.Now})
			w.Actor = Actor{HostActor, fmt.Sprint("h", i)}
			if _, err := w.Run(context.Background(), 100); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if looks.Load() != 30 {
		t.Errorf("%d looks at 30 resources", looks.Load())
	}
}

// A run that has ended, an effect that is due and one whose worker vanished make the controller look.
func TestControllerWake(t *testing.T) { // D11, R7
	f := newFlow(t)
	var run string
	merge := EffectSpec{Type: "pr.merge", Key: "1", Payload: json.RawMessage(`1`), External: true, NotBefore: f.clock.millis() + 60_000}
	w := f.controls(func(ctx context.Context, w *ControllerWork) (time.Duration, error) {
		l := &looking{f, merger1, w.Controller.UID, w.Controller.Queue.Version, w.Claim}
		switch {
		case w.Controller.Observed > 0:
			return 0, nil
		case w.Controller.Key == "child":
			run = l.started("k").Run
		default:
			merge.Scope = Scope{ControllerScope, w.Controller.UID}
			permit := w.Permit()
			permit.Expected = w.Controller.Revision
			mustDo(t, f.Store, permit, EnsureEffect{w.Controller.Resource(), merge})
		}
		mustAct(l, SetControllerStatus{w.Controller.UID, 1, ControllerStatus{}})
		return 0, nil
	})
	f.controller("child", `1`)
	f.controller("effect", `1`)
	f.controller("idle", `1`)
	mustDo(t, f.Store, anybody, RequestControllerDeletion{f.live("idle").UID})
	runWorker(t, w) // knows no effects
	w.Handlers = map[string]EffectHandler{"pr.merge": {Apply: func(context.Context, Begun, json.RawMessage) (Applied, error) {
		return Applied{ExternalRef: "m1"}, nil
	}}}
	wake := func(limit, want int) {
		t.Helper()
		if n, err := w.Wake(t.Context(), limit); err != nil || n != want {
			t.Fatalf("%d woken, %v; want %d", n, err, want)
		}
	}
	wake(10, 0)
	must(f.own(host1, run).start(), CompleteRun{Run: run})
	f.clock.move(time.Minute)
	wake(1, 1)
	wake(10, 1)
	wake(10, 0)
	if report := runWorker(t, w); report.Settled != 2 || report.Effects.Applied != 1 {
		t.Errorf("%+v", report)
	}
	if got := f.live("child"); got.Unnoted != 0 || got.Phase != ControllerIdle {
		t.Errorf("%+v", got)
	}
	wake(10, 0)

	// An attempt whose worker vanished.
	uid := f.live("effect").UID
	l := f.ownController(merger2, uid)
	merge.Key, merge.NotBefore = "2", 0
	permit := l.permit()
	permit.Expected = f.viewed(uid).Revision
	e := mustDo(t, f.Store, permit, EnsureEffect{NewResourceID(ControllerResource, uid), merge}).Result
	permit.Expected = 1
	mustDo(t, f.Store, permit, BeginEffect{e.ID, 1000})
	f.clock.move(2 * time.Minute)
	wake(10, 1)
	if report := runWorker(t, w); report.Effects.Interrupted != 1 || report.Effects.Ambiguous != 2 || report.Requeued != 1 {
		t.Errorf("%+v", report) // found ambiguous by the recovery, and again by the observation
	}
	v := f.viewed(uid)
	if v.Unsettled[EffectAmbiguous] != 1 || v.Phase != ControllerLater { // V1
		t.Errorf("%+v", v)
	}
	if _, err := Do(t.Context(), f.Store, Permit{Actor: control, Expected: 3}, ObserveEffect{e.ID, Observation{Applied: true}}); err != nil {
		t.Error(err)
	}
}
