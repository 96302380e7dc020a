package store

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

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
