package store

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"pistate/schema"
)

// way is one of the ways to resolve a decision.
type way struct {
	name   string
	reason DecisionReason
	do     func(ctx context.Context, s *Store, d *Decision, claim *Claim) (*Decision, error)
}

var (
	ways = []way{
		{"human", ReasonHuman, func(ctx context.Context, s *Store, d *Decision, _ *Claim) (*Decision, error) {
			done, err := Do(ctx, s, Permit{Actor: ann, Expected: AnyRevision}, SubmitDecision{
				Decision: d.ID, Submission: "of " + d.ID, RequestDigest: d.RequestDigest, Response: json.RawMessage(replan)})
			if err != nil {
				return nil, err
			}
			return &done.Result.Decision, done.Result.Err()
		}},
		{"timeout", ReasonTimeoutPolicy, func(ctx context.Context, s *Store, d *Decision, claim *Claim) (*Decision, error) {
			done, err := Do(ctx, s, as(rule, claim), ApplyTimeout{d.ID})
			return done.Result, err
		}},
		{"expiry", ReasonExpiredNoDefault, func(ctx context.Context, s *Store, d *Decision, claim *Claim) (*Decision, error) {
			done, err := Do(ctx, s, as(host1, claim), ExpireDecision{d.ID})
			return done.Result, err
		}},
		{"cancel", ReasonExplicitCancel, func(ctx context.Context, s *Store, d *Decision, _ *Claim) (*Decision, error) {
			done, err := Do(ctx, s, Permit{Actor: control, Expected: AnyRevision}, CancelDecision{d.ID, "no longer needed"})
			return done.Result, err
		}},
	}
	bothDefaults = map[string]*Response{"with default": defaultApprove, "without default": nil}
)

// legal reports whether a way is open to a pending decision after its deadline.
func (w way) legal(d *Decision) bool {
	switch w.reason {
	case ReasonTimeoutPolicy:
		return d.Default != nil
	case ReasonExpiredNoDefault:
		return d.Default == nil
	}
	return true
}

// permutations calls f with the elements in every order.
func permutations[T any](list []T, f func([]T)) {
	var rest func(n int)
	rest = func(n int) {
		if n == len(list) {
			f(slices.Clone(list))
			return
		}
		for i := n; i < len(list); i++ {
			list[n], list[i] = list[i], list[n]
			rest(n + 1)
			list[n], list[i] = list[i], list[n]
		}
	}
	rest(0)
}

// The four ways in each of the 24 orders: the first that is open wins, everybody after it gets that winner,
// and what the database says of it never changes again.
func TestDecisionWaysInEveryOrder(t *testing.T) { // D8, D9, V1
	for name, fallback := range bothDefaults {
		t.Run(name, func(t *testing.T) {
			a := newAsking(t)
			n := 0
			permutations(ways, func(order []way) {
				n++
				d := a.ask(fmt.Sprint("q", n), fallback)
				a.clock.move(time.Hour)
				defer a.clock.move(-time.Hour)
				var winner *DecisionResolution
				for _, w := range order {
					got, err := w.do(t.Context(), a.Store, d, a.claim)
					switch {
					case winner == nil && !w.legal(d):
						wantCode(t, err, schema.IllegalTransition)
						continue
					case winner == nil:
						if err != nil || got.Resolution.Reason != w.reason {
							t.Fatalf("%s is the first: %v", w.name, err)
						}
						winner = got.Resolution
					default:
						wantCode(t, err, schema.AlreadyResolved)
						if lost := cause[*ConflictError](t, err).Winner.(DecisionResolution); !reflect.DeepEqual(lost, *winner) {
							t.Fatalf("%s lost to %+v, the winner is %+v", w.name, lost, winner)
						}
					}
					again, err := w.do(t.Context(), a.Store, d, a.claim)
					if winner.Reason == w.reason && (err != nil || !reflect.DeepEqual(again.Resolution, winner)) {
						t.Fatalf("%s repeated: %v", w.name, err)
					}
					a.checkResolved(d.ID, winner)
				}
			})
		})
	}
}

// checkResolved checks all that has to be true of a decision with a known winner.
func (a *asking) checkResolved(id string, w *DecisionResolution) {
	a.Helper()
	v := a.view(id)
	if !reflect.DeepEqual(v.Resolution, w) || v.Status != w.Outcome || v.Overdue {
		a.Fatalf("%+v, the winner is %+v", v, w)
	}
	if len(v.Effects) != 1 || v.Effects[0].Status != EffectPending || v.Settled() {
		a.Fatalf("effects %+v", v.Effects)
	}
	accepted := w.Outcome == DecisionAccepted
	if (v.Continuation != nil) != accepted || (v.Effects[0].Type == EffectContinuationAdmit) != accepted {
		a.Fatalf("%s with continuation %+v and effect %s", w.Outcome, v.Continuation, v.Effects[0].Type)
	}
	if accepted {
		c := v.Continuation
		want := Continuation{
			ID: continuationID(DecisionTrigger, id), Trigger: DecisionTrigger, TriggerKey: id, Parent: v.Run, Run: continuationRun(c.ID),
			Input: w.Response, Status: ContinuationPending, CreatedAt: w.At, UpdatedAt: w.At, request: c.request,
		}
		if !reflect.DeepEqual(*c, want) {
			a.Fatalf("%+v, want %+v", *c, want)
		}
	}
}

// Everything that time and its policy are refused for.
func TestDecisionPolicyRefusals(t *testing.T) { // D9
	a := newAsking(t)
	without, with := a.ask("q1", nil), a.ask("q2", defaultApprove)
	q := a.question()
	open := mustDo(t, a.Store, Permit{Actor: host1, Claim: a.claim}, q).Result
	check := func(when string, d *Decision, w way, claim *Claim, code schema.Code) {
		t.Helper()
		if _, err := w.do(t.Context(), a.Store, d, claim); schema.CodeOf(err) != code {
			t.Errorf("%s, %s of %s: %v, want %q", when, w.name, d.Key, err, code)
		}
	}
	timeout, expiry := ways[1], ways[2]
	for _, d := range []*Decision{without, with, open} {
		check("before", d, timeout, a.claim, schema.IllegalTransition)
		check("before", d, expiry, a.claim, schema.IllegalTransition)
	}
	a.clock.move(time.Hour - time.Millisecond)
	check("a moment before", with, timeout, a.claim, schema.IllegalTransition)
	check("a moment before", without, expiry, a.claim, schema.IllegalTransition)
	a.clock.move(time.Millisecond)
	check("without a deadline", open, expiry, a.claim, schema.IllegalTransition)
	check("without a deadline", open, timeout, a.claim, schema.IllegalTransition)
	check("with a default", with, expiry, a.claim, schema.IllegalTransition)
	check("without a default", without, timeout, a.claim, schema.IllegalTransition)
	check("without a claim", with, timeout, nil, schema.Denied)
	check("without a claim", without, expiry, nil, schema.Denied)
	_, foreign := a.started("r2")
	check("with a claim on another run", with, timeout, foreign, schema.Denied)
	check("at the deadline", with, timeout, a.claim, "")
	check("at the deadline", without, expiry, a.claim, "")
	if w := a.view(with.ID).Resolution; w.Choice != "approve" || w.Actor != rule || w.Submission != 0 {
		t.Errorf("%+v", w)
	}
	if w := a.view(without.ID).Resolution; w.Choice != "" || w.Response != nil || w.Actor != host1 {
		t.Errorf("%+v", w)
	}
}

// Two at a time, from two connections, in a shuffled order: one winner, exactly one continuation.
func TestDecisionWaysRace(t *testing.T) { // D9, C54
	a := newAsking(t)
	second := openAt(t, a.Path(), Options{Now: a.clock.Now})
	n := 0
	for range rounds(t, 2) {
		for _, fallback := range bothDefaults {
			for i := range ways {
				for j := range ways {
					n++
					d := a.ask(fmt.Sprint("q", n), fallback)
					a.clock.move(time.Hour)
					a.race(d, []way{ways[i], ways[j]}, []*Store{a.Store, second})
					a.clock.move(-time.Hour)
				}
			}
		}
	}
}

// race lets ways run at once, each on its store.
func (a *asking) race(d *Decision, racers []way, stores []*Store) {
	a.Helper()
	won := make([]*Decision, len(racers))
	lost := make([]error, len(racers))
	var wg sync.WaitGroup
	for i, w := range racers {
		wg.Go(func() { won[i], lost[i] = w.do(context.Background(), stores[i], d, a.claim) })
	}
	wg.Wait()
	v := a.view(d.ID)
	for i, w := range racers {
		switch {
		case v.Resolution == nil:
			if w.legal(d) {
				a.Fatalf("%s did nothing: %v", w.name, lost[i])
			}
			wantCode(a.TB, lost[i], schema.IllegalTransition)
		case lost[i] == nil:
			if !reflect.DeepEqual(won[i].Resolution, v.Resolution) || w.reason != v.Resolution.Reason {
				a.Fatalf("%s got %+v, the winner is %+v", w.name, won[i].Resolution, v.Resolution)
			}
		case !w.legal(d) && schema.CodeOf(lost[i]) == schema.IllegalTransition: // it came first
		default:
			wantCode(a.TB, lost[i], schema.AlreadyResolved)
			if got := cause[*ConflictError](a.TB, lost[i]).Winner.(DecisionResolution); !reflect.DeepEqual(got, *v.Resolution) {
				a.Fatalf("%s lost to %+v, the winner is %+v", w.name, got, v.Resolution)
			}
		}
	}
	if v.Resolution != nil {
		a.checkResolved(d.ID, v.Resolution)
	}
}
