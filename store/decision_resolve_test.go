package store

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pistate/schema"
)

// What becomes of every kind of answer. All are kept; only a valid one to the present request can win.
func TestDecisionAnswers(t *testing.T) { // D8, D9
	a := newAsking(t)
	text := func(n int) string { return `{"choice":"replan","text":"` + strings.Repeat("ä", n) + `"}` }
	for name, tc := range map[string]struct {
		response string
		outcome  SubmissionOutcome
		choice   string
	}{
		"a choice":                       {approve, AnswerWon, "approve"},
		"a choice with its text":         {replan, AnswerWon, "replan"},
		"a text of many lines":           {`{"choice":"replan","text":"a\nb\tc"}`, AnswerWon, "replan"},
		"the longest text":               {text(40), AnswerWon, "replan"},
		"an optional text left out":      {`{"choice":"note"}`, AnswerWon, "note"},
		"an optional text that is empty": {`{"choice":"note","text":""}`, AnswerWon, "note"},
		"one in another form":            {` { "text" : "", "choice" : "\u006eote" } `, AnswerWon, "note"},
		"a text that is too long":        {text(41), AnswerRejected, "replan"},
		"a text far too long":            {text(30_000), AnswerRejected, "replan"},
		"a needed text left out":         {`{"choice":"replan"}`, AnswerRejected, "replan"},
		"a text where none is asked for": {`{"choice":"approve","text":"x"}`, AnswerRejected, "approve"},
		"an unknown choice":              {`{"choice":"Approve"}`, AnswerRejected, "Approve"},
		"an unreadable choice":           {`{"choice":"a\u0000b"}`, AnswerRejected, ""},
		"no choice":                      {`{}`, AnswerRejected, ""},
		"null":                           {`null`, AnswerRejected, ""},
		"a bare choice":                  {`"approve"`, AnswerRejected, ""},
		"a choice that is a number":      {`{"choice":1}`, AnswerRejected, ""},
		"a text that is none":            {`{"choice":"replan","text":["x"]}`, AnswerRejected, ""},
		"more than an answer":            {`{"choice":"approve","and":"merge"}`, AnswerRejected, ""},
		"a name in other letters":        {`{"Choice":"approve"}`, AnswerRejected, ""},
		"a list":                         {`[{"choice":"approve"}]`, AnswerRejected, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := a.ask(name, nil)
			answer := a.mustSubmit(d, ann, "1 "+name, tc.response)
			s := answer.Submission
			if s.Outcome != tc.outcome || s.Choice != tc.choice || s.Sequence != 1 || s.Actor != ann || (s.Detail == "") != (tc.outcome == AnswerWon) {
				t.Fatalf("%+v", s)
			}
			v := a.view(d.ID)
			if won := tc.outcome == AnswerWon; (v.Status == DecisionAccepted) != won || v.Answers != 1 || v.Revision != 2 {
				t.Errorf("%+v", v)
			}
			if tc.outcome != AnswerWon {
				wantCode(t, answer.Err(), schema.Invalid)
				if a.mustSubmit(d, ann, "2 "+name, approve).Submission.Outcome != AnswerWon {
					t.Error("a rejected answer was in the way of a valid one")
				}
				return
			}
			if answer.Err() != nil || v.Resolution.Choice != tc.choice || *v.Resolution.Response != s.Response {
				t.Errorf("%v, %+v", answer.Err(), v.Resolution)
			}
			blob, err := a.Store.Blob(t.Context(), s.Response)
			want := strings.Replace(string(newCanonical(t, tc.response)), `,"text":""`, "", 1) // no text is no text
			if err != nil || string(blob.Bytes) != want {
				t.Errorf("%s, %v, want %s", blob.Bytes, err, want)
			}
		})
	}
}

func newCanonical(t *testing.T, value string) []byte {
	c, err := canonicalJSON([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What no answer is made of is refused, and not kept.
func TestDecisionAnswerRefusals(t *testing.T) { // D9, R11, W2
	a := newAsking(t)
	d := a.ask("q", nil)
	good := SubmitDecision{Decision: d.ID, Submission: "s", RequestDigest: d.RequestDigest, Response: json.RawMessage(approve)}
	before := dump(t, a.Path())
	for name, tc := range map[string]struct {
		spoil func(*SubmitDecision, *Permit)
		code  schema.Code
	}{
		"no decision":      {func(c *SubmitDecision, _ *Permit) { c.Decision = "" }, schema.Invalid},
		"unknown decision": {func(c *SubmitDecision, _ *Permit) { c.Decision = "dec_9" }, schema.NotFound},
		"no submission":    {func(c *SubmitDecision, _ *Permit) { c.Submission = "" }, schema.Invalid},
		"no response":      {func(c *SubmitDecision, _ *Permit) { c.Response = nil }, schema.Invalid},
		"no JSON":          {func(c *SubmitDecision, _ *Permit) { c.Response = json.RawMessage(`approve`) }, schema.Invalid},
		"two answers in one": {func(c *SubmitDecision, _ *Permit) {
			c.Response = json.RawMessage(`{"choice":"approve","choice":"replan"}`)
		}, schema.Invalid},
		"a huge one": {func(c *SubmitDecision, _ *Permit) {
			c.Response = json.RawMessage(`"` + strings.Repeat("x", MaxResponseBytes) + `"`)
		}, schema.Limit},
		"a secret": {func(c *SubmitDecision, _ *Permit) {
			c.Response = json.RawMessage(`{"choice":"replan","text":"AKIA` + strings.Repeat("A", 16) + `"}`)
		}, schema.Invalid},
		"a channel without an event": {func(c *SubmitDecision, _ *Permit) { c.Channel = "c1" }, schema.Invalid},
		"an event that never came":   {func(c *SubmitDecision, _ *Permit) { c.Channel, c.ExternalEvent = "c1", "e1" }, schema.NotFound},
		"a stale revision":           {func(_ *SubmitDecision, p *Permit) { p.Expected = 7 }, schema.StaleRevision},
	} {
		cmd, permit := good, Permit{Actor: ann, Expected: AnyRevision}
		tc.spoil(&cmd, &permit)
		if _, err := Do(t.Context(), a.Store, permit, cmd); schema.CodeOf(err) != tc.code {
			t.Errorf("%s: %v, want %s", name, err, tc.code)
		}
	}
	if dump(t, a.Path()) != before {
		t.Error("a refused answer changed the database")
	}
}

// The same answer again is the first one's receipt and adds nothing; the same id with something else is a
// conflict; the same response under another id is adopted; another response comes too late.
func TestDecisionAnswerRepeated(t *testing.T) { // D8, W5, C54
	a := newAsking(t)
	d := a.ask("q", nil)
	first := a.mustSubmit(d, ann, "s1", `{ "choice": "approve" }`)
	before := dump(t, a.Path())

	done, err := Do(t.Context(), a.Store, Permit{Actor: ann, Expected: AnyRevision}, SubmitDecision{
		Decision: d.ID, Submission: "s1", RequestDigest: d.RequestDigest, Response: json.RawMessage(approve)})
	if err != nil || !done.Adopted || !reflect.DeepEqual(done.Result.Submission, first.Submission) {
		t.Errorf("%+v, %v", done, err)
	}
	for name, again := range map[string]func() (*DecisionAnswer, error){
		"another answer": func() (*DecisionAnswer, error) { return a.submit(d, ann, "s1", replan) },
		"another person": func() (*DecisionAnswer, error) { return a.submit(d, bob, "s1", approve) },
		"another request": func() (*DecisionAnswer, error) {
			crossed := *d
			crossed.RequestDigest[0]++
			return a.submit(&crossed, ann, "s1", approve)
		},
		"another decision": func() (*DecisionAnswer, error) { return a.submit(a.ask("q2", nil), ann, "s1", approve) },
	} {
		_, err := again()
		wantCode(t, err, schema.Conflict)
		if w, ok := cause[*ConflictError](t, err).Winner.(DecisionSubmission); !ok || w.ID != "s1" || w.Outcome != AnswerWon {
			t.Errorf("%s: %v", name, err)
		}
		if name != "another decision" && dump(t, a.Path()) != before && a.view(decisionID("r1", "q2", 1)).Status != DecisionPending {
			t.Errorf("%s changed the database", name)
		}
	}
	adopted := a.mustSubmit(d, bob, "s2", `{"choice":"approve","text":""}`)
	if adopted.Submission.Outcome != AnswerAdopted || adopted.Err() != nil || adopted.Decision.Resolution.Actor != ann {
		t.Errorf("%+v", adopted)
	}
	late := a.mustSubmit(d, bob, "s3", replan)
	wantCode(t, late.Err(), schema.AlreadyResolved)
	if w := cause[*ConflictError](t, late.Err()).Winner.(DecisionResolution); w.Actor != ann || w.Choice != "approve" || w.Submission != 1 {
		t.Errorf("%+v", w)
	}
	invalid := a.mustSubmit(d, bob, "s4", `{"choice":"no"}`)
	wantCode(t, invalid.Err(), schema.Invalid)

	kept, err := a.Store.DecisionSubmissions(t.Context(), d.ID, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range kept {
		got = append(got, fmt.Sprint(s.Sequence, " ", s.ID, " ", s.Outcome))
	}
	if want := "1 s1 won, 2 s2 adopted, 3 s3 already_resolved, 4 s4 rejected"; strings.Join(got, ", ") != want {
		t.Errorf("kept %v", got)
	}
	if rest, err := a.Store.DecisionSubmissions(t.Context(), d.ID, 3, 10); err != nil || len(rest) != 1 || rest[0].ID != "s4" {
		t.Errorf("%+v, %v", rest, err)
	}
	if v := a.view(d.ID); v.Resolution.Actor != ann || v.Answers != 4 || v.Continuation == nil || len(v.Effects) != 1 {
		t.Errorf("%+v", v)
	}
	events, err := a.Store.Events(t.Context(), EventFilter{Resource: d.Resource()}, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	got = nil
	for _, e := range events {
		got = append(got, e.Type)
		if e.Run != a.run {
			t.Errorf("event %s belongs to run %q", e.Type, e.Run)
		}
	}
	if want := "decision.requested decision.accepted decision.answer_adopted decision.answer_already_resolved decision.answer_rejected"; strings.Join(got, " ") != want {
		t.Errorf("events %v", got)
	}
}

// A sender that is stuck can't fill the database, and is not in the way of a good answer.
func TestDecisionAnswersAreBounded(t *testing.T) { // D8
	a := newAsking(t)
	d := a.ask("q", nil)
	for i := range maxSubmissions {
		a.mustSubmit(d, bob, fmt.Sprint("s", i), `{"choice":"no"}`)
	}
	_, err := a.submit(d, bob, "more", `{"choice":"no"}`)
	wantCode(t, err, schema.Limit)
	if answer := a.mustSubmit(d, ann, "good", approve); answer.Submission.Outcome != AnswerWon || answer.Submission.Sequence != maxSubmissions+1 {
		t.Errorf("%+v", answer.Submission)
	}
	_, err = a.submit(d, bob, "late", replan)
	wantCode(t, err, schema.Limit)
}

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
	for range rounds(t, 3) {
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
