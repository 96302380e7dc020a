package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pistate/schema"
)

func (a *asking) apply(s *Store, limit int, claims ...*Claim) PolicyReport {
	a.Helper()
	report, err := ApplyDuePolicies(context.Background(), s, host1, claims, limit)
	if err != nil {
		a.Fatal(err)
	}
	return report
}

func wantReport(t testing.TB, got, want any) {
	t.Helper()
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A deadline that passed while no process ran is applied by the next owner, once. The owner before can't.
func TestDeadlineWhileNothingRan(t *testing.T) { // D9, R3
	a := newAsking(t)
	mustDo(t, a.Store, as(host1, a.claim), RenewLease{runID(a.run), 1}) // which leaves the day
	with, without := a.ask("q1", defaultApprove), a.ask("q2", nil)
	path := a.Path()
	if err := a.Store.Close(); err != nil {
		t.Fatal(err)
	}
	a.clock.move(48 * time.Hour)
	a.Store = openAt(t, path, Options{Now: a.clock.Now, Random: seeded(2)})
	if v := a.view(with.ID); !v.Overdue || v.Status != DecisionPending {
		t.Errorf("%+v", v)
	}
	wantReport(t, a.apply(a.Store, 10, a.claim), PolicyReport{Stale: []ResourceID{runID(a.run)}})

	next := mustClaim(t, a.Store, host2, runID(a.run), time.Hour)
	wantReport(t, a.apply(a.Store, 10, a.claim), PolicyReport{Stale: []ResourceID{runID(a.run)}})
	if a.view(with.ID).Resolution != nil {
		t.Error("a claim that was taken over applied a deadline")
	}
	wantReport(t, a.apply(a.Store, 10, next), PolicyReport{Defaulted: 1, Expired: 1})
	wantReport(t, a.apply(a.Store, 10, next), PolicyReport{})
	first := a.view(with.ID)
	if first.Status != DecisionAccepted || first.Resolution.At != a.clock.millis() || first.Overdue {
		t.Errorf("%+v", first)
	}
	if v := a.view(without.ID); v.Status != DecisionCancelled || v.Resolution.Reason != ReasonExpiredNoDefault {
		t.Errorf("%+v", v)
	}
	events, err := a.Store.Events(t.Context(), EventFilter{Resource: with.Resource()}, 0, 10)
	if err != nil || len(events) != 2 || events[1].Generation != 2 || events[1].Actor.Class != PolicyActor {
		t.Errorf("%+v, %v", events, err)
	}
	mustPassDeep(t, path)
}

// A clock that goes back neither revives a claim that was taken over nor resolves anything again.
func TestDeadlineWhenTheClockGoesBack(t *testing.T) { // D9, R3, C51
	a := newAsking(t)
	with, without, later := a.ask("q1", defaultApprove), a.ask("q2", nil), a.ask("q3", nil)
	a.clock.move(25 * time.Hour)
	next := mustClaim(t, a.Store, host2, runID(a.run), time.Hour)
	if _, err := Do(t.Context(), a.Store, as(host2, next), ApplyTimeout{with.ID}); err != nil {
		t.Fatal(err)
	}
	for _, back := range []time.Duration{24 * time.Hour, 4 * time.Hour, 365 * 24 * time.Hour} { // the last one to long before the request
		a.clock.move(-back)
		for _, d := range []*Decision{without, later} {
			_, err := Do(t.Context(), a.Store, as(host1, a.claim), ExpireDecision{d.ID})
			wantCode(t, err, schema.StaleClaim)
			if e := cause[*ClaimError](t, err); e.Generation != 1 || e.Current != 2 {
				t.Errorf("%+v", e)
			}
		}
		again := mustDo(t, a.Store, as(host2, next), ApplyTimeout{with.ID})
		if !again.Adopted || again.Result.Resolution.At != with.DeadlineAt+24*hour {
			t.Errorf("%+v", again.Result)
		}
		_, err := Do(t.Context(), a.Store, as(host2, next), ExpireDecision{with.ID})
		wantCode(t, err, schema.AlreadyResolved)
		wantCode(t, a.mustSubmit(with, ann, fmt.Sprint("late", back), replan).Err(), schema.AlreadyResolved)
	}
	a.clock.move(364 * 24 * time.Hour) // still before the deadlines
	_, err := Do(t.Context(), a.Store, as(host2, next), ExpireDecision{later.ID})
	wantCode(t, err, schema.IllegalTransition)
	wantReport(t, a.apply(a.Store, 10, next), PolicyReport{})
	if got := a.mustSubmit(later, ann, "early", approve); got.Submission.Outcome != AnswerWon || got.Submission.At > later.DeadlineAt {
		t.Errorf("%+v", got.Submission)
	}
	a.clock.move(72 * time.Hour)
	newest := mustClaim(t, a.Store, host2, runID(a.run), time.Hour) // the same name is another owner, too
	wantReport(t, a.apply(a.Store, 10, next), PolicyReport{Stale: []ResourceID{runID(a.run)}})
	wantReport(t, a.apply(a.Store, 10, newest), PolicyReport{Expired: 1})
}

// At most limit in a call; the oldest deadline first; other runs are left alone.
func TestDuePoliciesAreBounded(t *testing.T) { // D9
	a := newAsking(t)
	var mine []*Decision
	for i := range 5 {
		mine = append(mine, a.ask(fmt.Sprint("q", i), nil))
		a.clock.move(time.Millisecond)
	}
	r1, claim1 := a.run, a.claim
	a.run, a.claim = a.started("r2")
	theirs := a.ask("q", nil)
	a.run, a.claim = r1, claim1
	a.clock.move(2 * time.Hour)
	wantReport(t, a.apply(a.Store, 2, claim1), PolicyReport{Expired: 2})
	for i, d := range mine {
		if got := a.view(d.ID).Status == DecisionCancelled; got != (i < 2) {
			t.Errorf("q%d: expired %v", i, got)
		}
	}
	wantReport(t, a.apply(a.Store, 10, claim1), PolicyReport{Expired: 3})
	wantReport(t, a.apply(a.Store, 10, claim1), PolicyReport{})
	wantReport(t, a.apply(a.Store, 10), PolicyReport{})
	if v := a.view(theirs.ID); v.Status != DecisionPending || !v.Overdue {
		t.Errorf("%+v", v)
	}
	_, err := ApplyDuePolicies(t.Context(), a.Store, host1, nil, MaxPage+1)
	wantCode(t, err, schema.Invalid)
}

// One owner works for its runs in several processes at once: each deadline is applied once in all.
func TestDuePoliciesInSeveralProcesses(t *testing.T) { // D9, W5
	a := newAsking(t)
	const count = 20
	for i := range count {
		fallback := defaultApprove
		if i%2 == 1 {
			fallback = nil
		}
		a.ask(fmt.Sprint("q", i), fallback)
	}
	a.clock.move(2 * time.Hour)
	stores := []*Store{a.Store, openAt(t, a.Path(), Options{Now: a.clock.Now}), openAt(t, a.Path(), Options{Now: a.clock.Now})}
	reports := make([]PolicyReport, len(stores))
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() { reports[i] = a.apply(s, MaxPage, a.claim) })
	}
	wg.Wait()
	var sum PolicyReport
	for _, r := range reports {
		sum.Defaulted, sum.Expired = sum.Defaulted+r.Defaulted, sum.Expired+r.Expired
		if len(r.Stale) > 0 {
			t.Errorf("%+v", r)
		}
	}
	wantReport(t, sum, PolicyReport{Defaulted: count / 2, Expired: count / 2})
}

// Decisions and continuations that nobody waits for are cancelled, with their effects, by anybody.
func TestCancelAbandoned(t *testing.T) { // D9, D10, V1
	a := newAsking(t)
	pending, accepted := a.ask("q1", defaultApprove), a.ask("q2", nil)
	a.mustSubmit(accepted, ann, "s", approve)
	wantReport(t, a.cancelAbandoned(), AbandonedReport{})
	mustDo(t, a.Store, a.permit(host1, a.claim, a.run), CancelRun{Run: a.run})

	refused := a.mustSubmit(pending, ann, "after", approve) // the person learns that it came to nothing
	wantCode(t, refused.Err(), schema.Invalid)
	a.clock.move(2 * time.Hour)
	_, err := Do(t.Context(), a.Store, Permit{Actor: rule, Expected: AnyRevision}, ApplyTimeout{pending.ID})
	wantCode(t, err, schema.IllegalTransition)

	wantReport(t, a.cancelAbandoned(), AbandonedReport{Decisions: 1, Continuations: 1})
	wantReport(t, a.cancelAbandoned(), AbandonedReport{})
	if v := a.view(pending.ID); v.Status != DecisionCancelled || v.Resolution.Reason != ReasonExplicitCancel || len(v.Effects) != 0 || !v.Settled() {
		t.Errorf("%+v", v)
	}
	v := a.view(accepted.ID) // its effect went with the continuation
	if v.Status != DecisionAccepted || v.Continuation.Status != ContinuationCancelled || v.Continuation.Error == nil ||
		v.Effects[0].Status != EffectCancelled || !v.Settled() {
		t.Errorf("%+v", v)
	}
}

// The owner of a run vanishes after it has ended the run, and before it has settled what made it do so.
// Somebody else does that.
func TestEffectsLeftOfEndedRuns(t *testing.T) { // D9, D10, R7, V1
	a := newAsking(t)
	cancelled, accepted, waiting := a.ask("q1", nil), a.ask("q2", nil), a.ask("q3", nil)
	mustDo(t, a.Store, as(control, nil), CancelDecision{Decision: cancelled.ID})
	mustDo(t, a.Store, as(control, nil), CancelDecision{Decision: waiting.ID})
	a.mustSubmit(accepted, ann, "s", approve)
	begin := func(id string) {
		mustDo(t, a.Store, Permit{Actor: host1, Expected: 1, Claim: a.claim}, BeginEffect{id, 60_000})
	}
	begin(a.view(cancelled.ID).Effects[0].ID)
	c := a.continuation(accepted)
	begin(c.effect())
	mustDo(t, a.Store, a.permit(host1, a.claim, "r1"), ParkRun{Run: "r1"})
	a.claim = mustClaim(t, a.Store, host1, runID("r1"), time.Minute)
	spec := a.spec("")
	spec.Parent = "r1"
	if _, err := a.admit(a.Store, host1, a.claim, c, spec); err != nil {
		t.Fatal(err)
	}
	mustDo(t, a.Store, a.permit(host1, a.claim, "r1"), FailRun{"r1", json.RawMessage(`{}`)})

	wantReport(t, a.cancelAbandoned(), AbandonedReport{Effects: 1}) // the one that nobody had begun
	if v := a.view(waiting.ID); v.Effects[0].Status != EffectApplied || !v.Settled() {
		t.Errorf("%+v", v)
	}
	a.clock.move(time.Hour)
	wantReport(t, a.cancelAbandoned(), AbandonedReport{Effects: 2})
	wantReport(t, a.cancelAbandoned(), AbandonedReport{})
	for _, id := range []string{cancelled.ID, accepted.ID} {
		if v := a.view(id); v.Effects[0].Status != EffectApplied || v.Effects[0].Attempts != 2 || !v.Settled() {
			t.Errorf("%+v", v)
		}
	}
	if v := a.view(accepted.ID); v.Continuation.Status != ContinuationAdmitted {
		t.Errorf("%+v", v)
	}
}

func (a *asking) cancelAbandoned() AbandonedReport {
	a.Helper()
	report, err := CancelAbandoned(context.Background(), a.Store, system, 10)
	if err != nil {
		a.Fatal(err)
	}
	return report
}

// Parked runs have no owner: those with something due are found, and attended to by one process at a time.
func TestUnattendedRuns(t *testing.T) { // D9, R4
	a := newAsking(t)
	runs := map[string]*Decision{}
	for _, id := range []string{"answered", "deadline", "silent"} {
		r, claim := a.started(id)
		a.run, a.claim = r, claim
		if id == "silent" {
			q := a.question()
			runs[id] = mustDo(t, a.Store, Permit{Actor: host1, Claim: claim}, q).Result
		} else {
			runs[id] = a.ask("q", nil)
		}
		mustDo(t, a.Store, a.permit(host1, claim, id), ParkRun{Run: id})
	}
	list := func(want ...string) {
		t.Helper()
		got, err := a.Store.UnattendedRuns(t.Context(), a.project, "", 10)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("unattended %v, %v, want %v", got, err, want)
		}
	}
	list()
	a.mustSubmit(runs["answered"], ann, "s", approve)
	list("answered")
	a.clock.move(time.Hour)
	list("answered", "deadline")
	if got, err := a.Store.UnattendedRuns(t.Context(), a.project, "answered", 10); err != nil || !slices.Equal(got, []string{"deadline"}) {
		t.Errorf("%v, %v", got, err)
	}
	err := Attend(t.Context(), a.Store, host2, "deadline", time.Minute, func(ctx context.Context, claim *Claim) error {
		list("answered")
		err := Attend(ctx, a.Store, host1, "deadline", time.Minute, func(context.Context, *Claim) error { return nil })
		wantCode(t, err, schema.Locked)
		wantReport(t, a.apply(a.Store, 10, claim), PolicyReport{Expired: 1})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	list("answered", "deadline") // what follows from its expiry
	if l, err := a.Store.Lease(t.Context(), runID("deadline")); err != nil || l.Owner != nil || l.Generation != 2 {
		t.Errorf("%+v, %v", l, err)
	}
	// Work that ends the run has nothing to release.
	err = Attend(t.Context(), a.Store, host2, "deadline", time.Minute, func(_ context.Context, claim *Claim) error {
		_, err := Do(t.Context(), a.Store, a.permit(host2, claim, "deadline"), CancelRun{Run: "deadline"})
		return err
	})
	if err != nil {
		t.Error(err)
	}
	list("answered")
	failure := fmt.Errorf("the work failed")
	err = Attend(t.Context(), a.Store, host2, "answered", time.Minute, func(context.Context, *Claim) error { return failure })
	if fmt.Sprint(err) != failure.Error() {
		t.Errorf("%v", err)
	}
}
