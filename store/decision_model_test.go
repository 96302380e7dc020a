package store

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pistate/schema"
)

// FuzzParseResponse: whatever is taken for an answer says its choice and text and nothing else.
func FuzzParseResponse(f *testing.F) {
	for _, seed := range []string{approve, replan, `null`, `{}`, `{"choice":null}`, `{"choice":"a","choice":"b"}`, `{"Choice":"a"}`, `{"choice":"a","text":"\ud800"}`, `{"choice":"a","x":1}`, `[`, `"a"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r, problem := parseResponse(value)
		if problem != "" {
			if r != (Response{}) {
				t.Errorf("%q is no answer, and yet %+v", value, r)
			}
			return
		}
		var members map[string]any
		if err := json.Unmarshal(value, &members); err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		for name, v := range members {
			if text, _ := v.(string); v != nil && (name == "choice" && text != r.Choice || name == "text" && text != r.Text || name != "choice" && name != "text") {
				t.Errorf("%q: %s is %v in %+v", value, name, v, r)
			}
		}
	})
}

// decisionModel says what a decision is and does, in a few lines.
type decisionModel struct {
	*asking
	t           *rapid.T
	d           *Decision
	deadline    Millis
	claims      []*Claim // on the run, oldest first; the last one is current
	winner      *DecisionResolution
	submissions map[string]DecisionSubmission
	revision    int64
}

func (m *decisionModel) resolved(reason DecisionReason, at Millis, got *Decision) {
	if m.winner != nil {
		m.t.Fatalf("a second winner: %+v after %+v", got.Resolution, m.winner)
	}
	w := got.Resolution
	if w.Reason != reason || w.At < at || w.Outcome != reason.outcome() {
		m.t.Fatalf("%+v", w)
	}
	m.winner = w
	m.revision++
}

// expect fails unless an attempt to resolve without an answer did what the model says.
func (m *decisionModel) expect(reason DecisionReason, code schema.Code, done Done[*Decision], err error) {
	switch {
	case m.winner != nil && m.winner.Reason == reason:
		if err != nil || !done.Adopted || !reflect.DeepEqual(done.Result.Resolution, m.winner) {
			m.t.Fatalf("%s again: %+v, %v", reason, done, err)
		}
	case m.winner != nil:
		wantCode(m.TB, err, schema.AlreadyResolved)
		if w := cause[*ConflictError](m.TB, err).Winner.(DecisionResolution); !reflect.DeepEqual(w, *m.winner) {
			m.t.Fatalf("%+v, the winner is %+v", w, m.winner)
		}
	case code != "":
		wantCode(m.TB, err, code)
	case err != nil:
		m.t.Fatal(err)
	default:
		m.resolved(reason, m.clock.millis(), done.Result)
	}
}

// policy returns the code that a deadline's policy is refused with, or "".
func (m *decisionModel) policy(claim *Claim, fits bool) schema.Code {
	switch {
	case claim != m.claims[len(m.claims)-1]:
		return schema.StaleClaim
	case !fits || m.now() < m.deadline:
		return schema.IllegalTransition
	}
	return ""
}

// now is the time by which the decision is judged: never before what happened to it last.
func (m *decisionModel) now() Millis {
	res, err := m.Resource(context.Background(), m.d.Resource())
	if err != nil {
		m.t.Fatal(err)
	}
	return max(m.clock.millis(), res.UpdatedAt)
}

func (m *decisionModel) actions() map[string]func(*rapid.T) {
	ctx := context.Background()
	return map[string]func(*rapid.T){
		"submit": func(t *rapid.T) {
			id := m.d.ID + rapid.SampledFrom([]string{"-1", "-2", "-3", "-4"}).Draw(t, "submission")
			response := rapid.SampledFrom([]string{approve, replan, `{"choice":"no"}`, `{"choice":"replan"}`, `7`}).Draw(t, "response")
			digest := m.d.RequestDigest
			if rapid.IntRange(0, 4).Draw(t, "stale") == 0 {
				digest[31]++
			}
			actor := rapid.SampledFrom([]Actor{ann, bob}).Draw(t, "actor")
			done, err := Do(ctx, m.Store, Permit{Actor: actor, Expected: AnyRevision}, SubmitDecision{m.d.ID, id, digest, json.RawMessage(response), "", ""})
			want := AnswerRejected
			switch valid := response == approve || response == replan; {
			case digest != m.d.RequestDigest:
				want = AnswerStale
			case !valid:
			case m.winner == nil:
				want = AnswerWon
			case m.winner.Choice != "" && response == mustResponse(m.winner.Choice):
				want = AnswerAdopted
			default:
				want = AnswerAlreadyResolved
			}
			if before, known := m.submissions[id]; known {
				same := before.RequestDigest == digest && before.Actor == actor && before.Detail == fmt.Sprint(response)
				if !same {
					wantCode(m.TB, err, schema.Conflict)
				} else if err != nil || !done.Adopted || done.Result.Submission.Outcome != before.Outcome {
					t.Fatalf("%+v, %v; the first was %+v", done, err, before)
				}
				return
			}
			if err != nil || done.Adopted || done.Result.Submission.Outcome != want || done.Result.Submission.Sequence != len(m.submissions)+1 {
				t.Fatalf("%+v, %v, want %s", done, err, want)
			}
			m.submissions[id] = DecisionSubmission{RequestDigest: digest, Actor: actor, Detail: response, Outcome: want}
			if want == AnswerWon {
				m.resolved(ReasonHuman, m.clock.millis(), &done.Result.Decision)
				return
			}
			m.revision++
		},
		"timeout": func(t *rapid.T) {
			claim := rapid.SampledFrom(m.claims).Draw(t, "claim")
			code := m.policy(claim, m.d.Default != nil)
			done, err := Do(ctx, m.Store, as(rule, claim), ApplyTimeout{m.d.ID})
			m.expect(ReasonTimeoutPolicy, code, done, err)
		},
		"expire": func(t *rapid.T) {
			claim := rapid.SampledFrom(m.claims).Draw(t, "claim")
			code := m.policy(claim, m.d.Default == nil)
			done, err := Do(ctx, m.Store, as(rule, claim), ExpireDecision{m.d.ID})
			m.expect(ReasonExpiredNoDefault, code, done, err)
		},
		"cancel": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
				return
			}
			done, err := Do(ctx, m.Store, as(control, nil), CancelDecision{Decision: m.d.ID})
			m.expect(ReasonExplicitCancel, "", done, err)
		},
		"clock": func(t *rapid.T) {
			m.clock.move(time.Duration(rapid.IntRange(-45, 60).Draw(t, "minutes")) * time.Minute)
		},
		"next owner": func(t *rapid.T) {
			last := m.claims[len(m.claims)-1]
			mustDo(m.TB, m.Store, as(host1, last), ReleaseLease{runID(m.run)})
			m.claims = append(m.claims, mustClaim(m.TB, m.Store, host1, runID(m.run), 24*time.Hour))
		},
		"": func(t *rapid.T) {
			v := m.view(m.d.ID)
			accepted := m.winner != nil && m.winner.Outcome == DecisionAccepted
			if !reflect.DeepEqual(v.Resolution, m.winner) || v.Answers != len(m.submissions) || v.Revision != m.revision ||
				(v.Continuation != nil) != accepted || (len(v.Effects) == 1) != (m.winner != nil) {
				t.Fatalf("%+v, the model has %+v, %d answers, revision %d", v, m.winner, len(m.submissions), m.revision)
			}
		},
	}
}

func mustResponse(choice string) string {
	if choice == "replan" {
		return replan
	}
	return `{"choice":"` + choice + `"}`
}

// Random answers, policies, cancellations, owners and clocks do what the model says.
func TestDecisionModel(t *testing.T) { // D8, D9, R3, W5, C51, C54
	a := newAsking(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		other := a.askingBy(host1, fmt.Sprint("model", n))
		fallback := []*Response{nil, defaultApprove}[rapid.IntRange(0, 1).Draw(rt, "default")]
		d := other.ask("q", fallback)
		m := &decisionModel{asking: other, t: rt, d: d, deadline: d.DeadlineAt, claims: []*Claim{other.claim}, submissions: map[string]DecisionSubmission{}, revision: 1}
		began := a.clock.Now()
		defer func() { a.clock.move(began.Sub(a.clock.Now())) }()
		rt.Repeat(m.actions())
	})
}
