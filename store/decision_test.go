package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

// asking is a run whose owner asks people questions.
type asking struct {
	*flow
	by    Actor // the owner, host1 unless it is said
	run   string
	claim *Claim // on the run, for a day
}

const (
	hour     = Millis(time.Hour / time.Millisecond)
	thePlan  = `{"plan":"plan-7"}`
	theShow  = `{"markdown":"Shall we?"}`
	approve  = `{"choice":"approve"}`
	replan   = `{"choice":"replan","text":"smaller steps"}`
	audience = "maintainers"
)

var (
	ann  = Actor{HumanActor, "ann"}
	bob  = Actor{HumanActor, "bob"}
	rule = Actor{PolicyActor, ""}

	planChoices = []Choice{
		{ID: "approve", Label: "Approve"},
		{ID: "replan", Label: "Plan again", Input: &TextInput{Prompt: "What should be different?", Required: true, MaxChars: 40}},
		{ID: "note", Label: "Approve with a note", Input: &TextInput{MaxChars: 10}},
	}
)

func newAsking(t testing.TB) *asking {
	t.Helper()
	return askingIn(newFlow(t))
}

func askingIn(f *flow) *asking {
	f.Helper()
	return f.askingBy(host1, "r1")
}

// askingBy makes a direct run that an actor owns for a day and has started.
func (f *flow) askingBy(actor Actor, id string) *asking {
	f.Helper()
	f.create(f.spec(id))
	claim := mustClaim(f, f.Store, actor, runID(id), 24*time.Hour)
	mustDo(f, f.Store, f.permit(actor, claim, id), StartRun{id})
	return &asking{f, actor, id, claim}
}

// started makes another run of host1.
func (a *asking) started(id string) (string, *Claim) {
	a.Helper()
	other := a.askingBy(host1, id)
	return other.run, other.claim
}

// question is a good request, which a test may spoil.
func (a *asking) question() RequestDecision {
	return RequestDecision{
		Run: a.run, Key: "approve-plan", RequestRevision: 1, Audience: audience, Title: "Approve the plan?",
		Subject: json.RawMessage(thePlan), Presentation: json.RawMessage(theShow), Choices: planChoices,
	}
}

// ask asks a question with a deadline in an hour, and a default if given.
func (a *asking) ask(key string, fallback *Response) *Decision {
	a.Helper()
	q := a.question()
	q.Key, q.DeadlineAt, q.Default = key, a.clock.millis()+hour, fallback
	return mustDo(a.TB, a.Store, Permit{Actor: a.by, Claim: a.claim}, q).Result
}

func (a *asking) submit(d *Decision, actor Actor, id, response string) (*DecisionAnswer, error) {
	done, err := Do(context.Background(), a.Store, Permit{Actor: actor, Expected: AnyRevision}, SubmitDecision{
		Decision: d.ID, Submission: id, RequestDigest: d.RequestDigest, Response: json.RawMessage(response),
	})
	return done.Result, err
}

func (a *asking) mustSubmit(d *Decision, actor Actor, id, response string) *DecisionAnswer {
	a.Helper()
	answer, err := a.submit(d, actor, id, response)
	if err != nil {
		a.Fatal(err)
	}
	return answer
}

func (a *asking) view(id string) DecisionView {
	a.Helper()
	v, err := a.Store.Decision(context.Background(), id)
	if err != nil {
		a.Fatal(err)
	}
	return v
}

var defaultApprove = &Response{Choice: "approve"}

func TestDecisionRequest(t *testing.T) { // D8
	a := newAsking(t)
	q := a.question()
	q.DeadlineAt, q.Default = a.clock.millis()+hour, &Response{"replan", "later"}
	first := mustDo(t, a.Store, Permit{Actor: host1, Claim: a.claim}, q)
	d := first.Result
	if d.Status != DecisionPending || !d.Protected || d.DefaultChoice != "replan" || d.Revision != 1 || d.Resolution != nil {
		t.Errorf("%+v", d)
	}
	stored := a.view(d.ID)
	if got, want := fmt.Sprintf("%+v", stored.Decision), fmt.Sprintf("%+v", *d); digestless(got) != digestless(want) {
		t.Errorf("stored\n%s, answered\n%s", got, want)
	}
	shown, err := a.Store.AskedDecision(t.Context(), d.ID)
	if err != nil {
		t.Fatal(err)
	}
	if string(shown.Subject) != thePlan || string(shown.Presentation) != theShow || len(shown.Choices) != 3 ||
		*shown.Choices[1].Input != *planChoices[1].Input || *shown.Default != *q.Default {
		t.Errorf("%+v", shown)
	}
	again := mustDo(t, a.Store, Permit{Actor: host1, Claim: a.claim}, q) // W5
	if !again.Adopted || again.Result.ID != d.ID || again.Result.RequestDigest != d.RequestDigest {
		t.Errorf("%+v", again)
	}
	// What people are asked is one thing, whatever the whitespace; any other program can compute its digest.
	const canonical = `{"choices":[{"id":"approve","label":"Approve"},{"id":"replan","input":{"max_chars":40,"prompt":"What should be different?","required":true},"label":"Plan again"},{"id":"note","input":{"max_chars":10},"label":"Approve with a note"}],"deadline_at":1800003600000,"default":{"choice":"replan","text":"later"},"presentation":{"markdown":"Shall we?"},"revision":1,"subject":{"plan":"plan-7"},"title":"Approve the plan?"}`
	if want := newContent(JSONMedia, []byte(canonical)).digest; d.RequestDigest != want {
		t.Errorf("request digest %s, want %s", d.RequestDigest, want)
	}
}

// digestless removes addresses of digests from a printed struct.
func digestless(s string) string {
	for {
		i := strings.Index(s, "0x")
		if i < 0 {
			return s
		}
		j := i + 2
		for j < len(s) && strings.IndexByte("0123456789abcdef", s[j]) >= 0 {
			j++
		}
		s = s[:i] + s[j:]
	}
}

// Each part of what is asked makes another request.
func TestDecisionRequestIsImmutable(t *testing.T) { // D8, W5
	a := newAsking(t)
	q := a.question()
	q.DeadlineAt, q.Default = a.clock.millis()+hour, defaultApprove
	d := mustDo(t, a.Store, Permit{Actor: host1, Claim: a.claim}, q).Result
	before := dump(t, a.Path())
	for name, change := range map[string]func(*RequestDecision){
		"subject":      func(q *RequestDecision) { q.Subject = json.RawMessage(`{"plan":"plan-8"}`) },
		"presentation": func(q *RequestDecision) { q.Presentation = json.RawMessage(`"x"`) },
		"title":        func(q *RequestDecision) { q.Title = "Approve?" },
		"choices":      func(q *RequestDecision) { q.Choices = planChoices[:2] },
		"order":        func(q *RequestDecision) { q.Choices = []Choice{planChoices[1], planChoices[0], planChoices[2]} },
		"prompt": func(q *RequestDecision) {
			q.Choices = []Choice{planChoices[0], planChoices[1], {ID: "note", Label: "Approve with a note", Input: &TextInput{Prompt: "Why?", MaxChars: 10}}}
		},
		"deadline":    func(q *RequestDecision) { q.DeadlineAt++ },
		"default":     func(q *RequestDecision) { q.Default = &Response{"note", "hm"} },
		"no default":  func(q *RequestDecision) { q.Default = nil },
		"audience":    func(q *RequestDecision) { q.Audience = "others" },
		"attempt":     func(q *RequestDecision) { q.Attempt = "a1" },
		"unprotected": func(q *RequestDecision) { q.Unprotected = true },
	} {
		changed := q
		change(&changed)
		_, err := Do(t.Context(), a.Store, Permit{Actor: host1, Claim: a.claim}, changed)
		wantCode(t, err, schema.Conflict)
		if w, ok := cause[*ConflictError](t, err).Winner.(Decision); !ok || w.ID != d.ID {
			t.Errorf("%s: %v", name, err)
		}
	}
	if dump(t, a.Path()) != before {
		t.Error("a refused request changed the database")
	}
}

// Everything that a request is refused for.
func TestDecisionRequestRefusals(t *testing.T) { // D8, D9
	a := newAsking(t)
	many := make([]Choice, MaxChoices+1)
	for i := range many {
		many[i] = Choice{ID: fmt.Sprint("c", i), Label: "C"}
	}
	long := strings.Repeat("x", 20_000)
	choice := func(c Choice) func(*RequestDecision) {
		return func(q *RequestDecision) { q.Choices = []Choice{planChoices[0], c} }
	}
	fallback := func(r Response) func(*RequestDecision) {
		return func(q *RequestDecision) { q.DeadlineAt, q.Default = a.clock.millis()+hour, &r }
	}
	for name, tc := range map[string]struct {
		spoil func(*RequestDecision)
		code  schema.Code
	}{
		"no run":                   {func(q *RequestDecision) { q.Run = "" }, schema.Invalid},
		"a run that nobody owns":   {func(q *RequestDecision) { q.Run = "r9" }, schema.Denied},
		"no key":                   {func(q *RequestDecision) { q.Key = "" }, schema.Invalid},
		"no audience":              {func(q *RequestDecision) { q.Audience = "" }, schema.Invalid},
		"a title of two lines":     {func(q *RequestDecision) { q.Title = "a\nb" }, schema.Invalid},
		"a long title":             {func(q *RequestDecision) { q.Title = long }, schema.Limit},
		"no subject":               {func(q *RequestDecision) { q.Subject = nil }, schema.Invalid},
		"a broken presentation":    {func(q *RequestDecision) { q.Presentation = json.RawMessage(`{`) }, schema.Invalid},
		"revision 0":               {func(q *RequestDecision) { q.RequestRevision = 0 }, schema.Invalid},
		"revision without a first": {func(q *RequestDecision) { q.RequestRevision = 2 }, schema.NotFound},
		"no choices":               {func(q *RequestDecision) { q.Choices = nil }, schema.Invalid},
		"many choices":             {func(q *RequestDecision) { q.Choices = many }, schema.Limit},
		"the same choice twice":    {choice(planChoices[0]), schema.Invalid},
		"a choice without an id":   {choice(Choice{Label: "X"}), schema.Invalid},
		"a choice with a long id":  {choice(Choice{ID: long[:65], Label: "X"}), schema.Limit},
		"a choice without a label": {choice(Choice{ID: "x"}), schema.Invalid},
		"a long label":             {choice(Choice{ID: "x", Label: long[:201]}), schema.Limit},
		"a long prompt":            {choice(Choice{ID: "x", Label: "X", Input: &TextInput{Prompt: long[:2001], MaxChars: 1}}), schema.Limit},
		"input without a limit":    {choice(Choice{ID: "x", Label: "X", Input: &TextInput{}}), schema.Invalid},
		"input over the limit":     {choice(Choice{ID: "x", Label: "X", Input: &TextInput{MaxChars: MaxInputChars + 1}}), schema.Invalid},
		"a negative deadline":      {func(q *RequestDecision) { q.DeadlineAt = -1 }, schema.Invalid},
		"a deadline of now":        {func(q *RequestDecision) { q.DeadlineAt = a.clock.millis() }, schema.Invalid},
		"a default for never":      {func(q *RequestDecision) { q.Default = defaultApprove }, schema.Invalid},
		"an unknown default":       {fallback(Response{Choice: "no"}), schema.Invalid},
		"a default without text":   {fallback(Response{Choice: "replan"}), schema.Invalid},
		"a default with a text":    {fallback(Response{Choice: "approve", Text: "x"}), schema.Invalid},
		"a default that is long":   {fallback(Response{Choice: "note", Text: "12345678901"}), schema.Invalid},
		"an unknown attempt":       {func(q *RequestDecision) { q.Attempt = "a9" }, schema.NotFound},
		"a secret":                 {func(q *RequestDecision) { q.Subject = json.RawMessage(`"AKIA` + strings.Repeat("A", 16) + `"`) }, schema.Invalid},
	} {
		q := a.question()
		tc.spoil(&q)
		if _, err := Do(t.Context(), a.Store, Permit{Actor: host1, Claim: a.claim}, q); schema.CodeOf(err) != tc.code {
			t.Errorf("%s: %v (%s), want %s", name, err, schema.CodeOf(err), tc.code)
		}
	}
	if got, err := a.Store.PendingDecisions(t.Context(), "", Place{}, 10); err != nil || len(got) != 0 {
		t.Errorf("%d decisions, %v", len(got), err)
	}
}

func TestDecisionOfAnAttempt(t *testing.T) { // D8
	a := newAsking(t)
	begun := mustDo(t, a.Store, a.permit(host1, a.claim, a.run), BeginAttempt{Run: a.run, Node: "test"}).Result
	q := a.question()
	q.Attempt = begun.ID
	if d := mustDo(t, a.Store, Permit{Actor: host1, Claim: a.claim}, q).Result; d.Attempt != begun.ID {
		t.Errorf("%+v", d)
	}
	mustDo(t, a.Store, a.permit(host1, a.claim, a.run), FailAttempt{Run: a.run, Attempt: begun.ID, Error: json.RawMessage(`{}`)})
	q.Key = "another"
	_, err := Do(t.Context(), a.Store, Permit{Actor: host1, Claim: a.claim}, q)
	wantCode(t, err, schema.IllegalTransition)
}

// A delayed answer to a question does not reach the one that was asked after it.
func TestDecisionAskedAgain(t *testing.T) { // D8, D9, C54
	a := newAsking(t)
	q := a.question()
	first := mustDo(t, a.Store, Permit{Actor: host1, Claim: a.claim}, q).Result
	q.RequestRevision = 2
	_, err := Do(t.Context(), a.Store, Permit{Actor: host1, Claim: a.claim}, q)
	wantCode(t, err, schema.IllegalTransition)
	mustDo(t, a.Store, as(host1, a.claim), CancelDecision{first.ID, "another plan"})
	second := mustDo(t, a.Store, Permit{Actor: host1, Claim: a.claim}, q).Result
	if second.ID == first.ID || second.RequestDigest == first.RequestDigest {
		t.Fatalf("first %+v, second %+v", first, second)
	}
	answer := a.mustSubmit(first, ann, "late", approve) // for the first
	wantCode(t, answer.Err(), schema.AlreadyResolved)
	crossed := *second
	crossed.RequestDigest = first.RequestDigest // for the second, with the first on the screen
	answer = a.mustSubmit(&crossed, ann, "crossed", approve)
	wantCode(t, answer.Err(), schema.StaleRevision)
	if v := a.view(second.ID); v.Status != DecisionPending || v.Answers != 1 {
		t.Errorf("%+v", v)
	}
	if a.mustSubmit(second, ann, "meant", approve).Submission.Outcome != AnswerWon {
		t.Error("the second question could not be answered")
	}
}
