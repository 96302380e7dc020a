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

func (f *flow) getAttempt(id string) NodeAttempt {
	f.Helper()
	a, err := f.NodeAttempt(context.Background(), id)
	if err != nil {
		f.Fatal(err)
	}
	return a
}

// bytesOf returns stored content as a text.
func (f *flow) bytesOf(d *Digest) string {
	f.Helper()
	if d == nil {
		return "none"
	}
	b, err := f.Blob(context.Background(), *d)
	if err != nil {
		f.Fatal(err)
	}
	return string(b.Bytes)
}

func TestAttempts(t *testing.T) { // D3
	f := newFlow(t)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	now := f.clock.millis()
	begin := BeginAttempt{Run: "r1", Node: "test", Input: json.RawMessage(`{"b": 1, "a": 2}`), Contract: json.RawMessage(`{"timeout":5}`), DeadlineAt: now + 5000}
	a := must(o, begin)
	want := NodeAttempt{
		ID: attemptID("r1", "test", 1), Run: "r1", Ordinal: 1, Node: "test", Number: 1, Type: "shell", Status: AttemptRunning,
		Input: a.Input, Contract: a.Contract, CreatedAt: now, UpdatedAt: now, StartedAt: now, DeadlineAt: now + 5000,
	}
	if *a != want || f.bytesOf(a.Input) != `{"a":2,"b":1}` {
		t.Errorf("%+v", a)
	}
	if _, err := send(o, begin); !errors.Is(err, schema.IllegalTransition) { // one at a time
		t.Error(err)
	}
	f.clock.move(time.Second)
	ended := must(o, FinishAttempt{Run: "r1", Attempt: a.ID, Output: json.RawMessage(`[1]`), Result: json.RawMessage(`{"exit":0}`)})
	if ended.Status != AttemptCompleted || ended.EndedAt != now+1000 || f.bytesOf(ended.Output) != "[1]" || f.bytesOf(ended.Result) != `{"exit":0}` {
		t.Errorf("%+v", ended)
	}
	if got := f.getAttempt(a.ID); !reflect.DeepEqual(got, *ended) {
		t.Errorf("%+v, want %+v", got, ended)
	}
	failed := must(o, FailAttempt{"r1", must(o, begin).ID, fault})
	if failed.Number != 2 || failed.Ordinal != 2 || failed.Status != AttemptFailed || f.bytesOf(failed.Error) != string(fault) {
		t.Errorf("%+v", failed)
	}
	if a := o.step("work"); a.Number != 1 || a.Ordinal != 3 || a.Expected != SubmittedOutput {
		t.Errorf("%+v", a)
	}
	for _, cmd := range []BeginAttempt{{Run: "r1", Node: "none"}, {Run: "r1", Node: "Test"}} {
		_, err := send(o, cmd)
		wantCode(t, err, schema.NotFound)
	}
	for _, cmd := range []BeginAttempt{{Run: "r1"}, {Run: "r1", Node: "test", Number: -1}, {Run: "r1", Node: "test", DeadlineAt: -1}} {
		_, err := send(o, cmd)
		wantCode(t, err, schema.Invalid)
	}
	for _, attempt := range []string{"att_none", attemptID("r2", "test", 1)} {
		_, err := send(o, FinishAttempt{Run: "r1", Attempt: attempt})
		wantCode(t, err, schema.NotFound)
	}
	_, err := send(o, FailAttempt{Run: "r1", Attempt: a.ID})
	wantCode(t, err, schema.Invalid) // without its error
}

// An attempt of another run can't be reached through a run that one owns.
func TestAttemptOfAnotherRun(t *testing.T) { // D3, R3
	f := newFlow(t)
	f.create(f.spec("r1"))
	f.create(f.spec("r2"))
	mine, other := f.own(host1, "r1").start(), f.own(host2, "r2").start()
	a := other.begin("test")
	_, err := send(mine, FinishAttempt{Run: "r1", Attempt: a.ID})
	wantCode(t, err, schema.NotFound)
	_, err = send(mine, AppendUpdates{"r1", a.ID, 1, []NewUpdate{{Type: "t", Data: json.RawMessage(`1`)}}})
	wantCode(t, err, schema.NotFound)
	_, err = Do(t.Context(), f.Store, f.permit(host1, mine.claim, "r2"), FinishAttempt{Run: "r2", Attempt: a.ID})
	wantCode(t, err, schema.Denied)
}

func TestBeginAttemptAdopts(t *testing.T) { // W5
	f := newFlow(t)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	cmd := BeginAttempt{Run: "r1", Node: "test", Number: 1, Input: json.RawMessage(`{"n":1}`)}
	a := must(o, cmd)
	must(o, FinishAttempt{Run: "r1", Attempt: a.ID})
	again := mustDo(t, f.Store, Permit{Actor: host1, Claim: o.claim}, cmd)
	if !again.Adopted || again.Result.ID != a.ID || again.Result.Status != AttemptCompleted {
		t.Errorf("%+v", again)
	}
	for name, spoil := range map[string]func(*BeginAttempt){
		"input":    func(c *BeginAttempt) { c.Input = json.RawMessage(`{"n":2}`) },
		"no input": func(c *BeginAttempt) { c.Input = nil },
		"contract": func(c *BeginAttempt) { c.Contract = json.RawMessage(`{}`) },
		"prompt":   func(c *BeginAttempt) { c.Prompt = "go" },
	} {
		other := cmd
		spoil(&other)
		_, err := send(o, other)
		if !errors.Is(err, schema.Conflict) {
			t.Errorf("another %s: %v", name, err)
		} else if winner := cause[*ConflictError](t, err).Winner.(NodeAttempt); winner.ID != a.ID {
			t.Errorf("another %s: %+v", name, winner)
		}
	}
	cmd.Number = 3 // there is no second one
	_, err := send(o, cmd)
	wantCode(t, err, schema.IllegalTransition)

	// Without a number the request's name tells which attempt it was.
	permit := f.permit(host1, o.claim, "r1")
	permit.Request = "begin-2"
	second := mustDo(t, f.Store, permit, BeginAttempt{Run: "r1", Node: "test"}).Result
	must(o, CancelAttempt{Run: "r1", Attempt: second.ID})
	o.step("work")
	if again := mustDo(t, f.Store, permit, BeginAttempt{Run: "r1", Node: "test"}); !again.Adopted || again.Result.ID != second.ID {
		t.Errorf("%+v", again)
	}
}

func TestAttemptDeadline(t *testing.T) { // D3
	f := newFlow(t)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	now := f.clock.millis()
	a := must(o, BeginAttempt{Run: "r1", Node: "test", DeadlineAt: now + 1000})
	f.clock.move(999 * time.Millisecond)
	_, err := send(o, TimeOutAttempt{Run: "r1", Attempt: a.ID})
	wantCode(t, err, schema.IllegalTransition)
	if overdue, err := f.OverdueAttempts(t.Context(), NodeAttempt{}, 10); err != nil || len(overdue) != 0 {
		t.Errorf("%v, %v", overdue, err)
	}
	f.clock.move(time.Millisecond)
	overdue, err := f.OverdueAttempts(t.Context(), NodeAttempt{}, 10)
	if err != nil || len(overdue) != 1 || overdue[0].ID != a.ID {
		t.Errorf("%v, %v", overdue, err)
	}
	if next, err := f.OverdueAttempts(t.Context(), overdue[0], 10); err != nil || len(next) != 0 {
		t.Errorf("%v, %v", next, err)
	}
	must(o, TimeOutAttempt{Run: "r1", Attempt: a.ID})
	endless := must(o, BeginAttempt{Run: "r1", Node: "test"})
	f.clock.move(24 * time.Hour)
	o.claim = mustDo(t, f.Store, as(host1, o.claim), RenewLease{runID("r1"), 60_000}).Result
	_, err = send(o, TimeOutAttempt{Run: "r1", Attempt: endless.ID})
	wantCode(t, err, schema.IllegalTransition)
}

// A waiting attempt goes on as itself, with its run, through a park.
func TestWaitAndPark(t *testing.T) { // D3, D2
	f := newFlow(t)
	f.create(f.queued("r1"))
	o := f.take(host1).start()
	a := must(o, BeginAttempt{Run: "r1", Node: "work", Later: true})
	if a.Status != AttemptPending || a.StartedAt != 0 {
		t.Errorf("%+v", a)
	}
	must(o, StartAttempt{Run: "r1", Attempt: a.ID})
	_, err := send(o, ParkRun{Run: "r1"})
	wantCode(t, err, schema.IllegalTransition) // it is running
	must(o, WaitAttempt{"r1", a.ID, "for a decision"})
	if doc := f.document("r1"); doc.Run.Status != RunWaiting || doc.Run.Detail != "for a decision" || doc.Current.ID != a.ID {
		t.Errorf("%+v", doc)
	}
	must(o, ParkRun{"r1", "for a decision"})
	if doc := f.document("r1"); doc.Owner != nil || doc.Queue.Status != QueueParked || doc.Current.Status != AttemptWaiting {
		t.Errorf("%+v", doc)
	}
	must(f.own(host2, "r1"), EnqueueRun{Run: "r1"})
	o = f.take(host2).start()
	if doc := f.document("r1"); doc.Run.Detail != "" || doc.Run.Status != RunRunning || doc.Owner.Generation != 3 {
		t.Errorf("%+v", doc)
	}
	if resumed := must(o, ResumeAttempt{Run: "r1", Attempt: a.ID}); resumed.ID != a.ID || resumed.Status != AttemptRunning {
		t.Errorf("%+v", resumed)
	}
	must(o, FinishAttempt{Run: "r1", Attempt: a.ID, Output: json.RawMessage(`1`)})
}

func TestReceipt(t *testing.T) { // D4
	f := newFlow(t)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	a := o.begin("plan")
	finish := func(m *Message, output string) error {
		cmd := FinishAttempt{Run: "r1", Attempt: a.ID, Message: m}
		if output != "" {
			cmd.Output = json.RawMessage(output)
		}
		_, err := send(o, cmd)
		return err
	}
	wantCode(t, finish(nil, `{}`), schema.Invalid)
	wantCode(t, finish(&Message{Text: "x", MaxChars: 20}, `{}`), schema.Invalid)
	wantCode(t, finish(&Message{Text: "x"}, ""), schema.Invalid)               // the author has a limit
	wantCode(t, finish(&Message{Text: "x", MaxChars: 21}, ""), schema.Invalid) // another one
	wantCode(t, finish(&Message{Text: strings.Repeat("é", 21), MaxChars: 20}, ""), schema.Limit)
	wantCode(t, finish(&Message{Text: "\xff", MaxChars: 20}, ""), schema.Invalid)
	text := "  \r\n" + strings.Repeat("é", 15) + "\x00"
	if err := finish(&Message{Text: text, EntryID: "e7", MaxChars: 20}, ""); err != nil {
		t.Fatal(err)
	}
	done := f.getAttempt(a.ID)
	want := fmt.Sprintf(`{"adopted":false,"entry_id":"e7","kind":"assistant-message","max_chars":20,"text_digest":"%s"}`, done.Output)
	if f.bytesOf(done.Output) != text || f.bytesOf(done.Result) != want {
		t.Errorf("text %q, receipt %s", f.bytesOf(done.Output), f.bytesOf(done.Result))
	}
	var receipt Receipt
	if err := json.Unmarshal([]byte(f.bytesOf(done.Result)), &receipt); err != nil || receipt.TextDigest != newContent(TextMedia, []byte(text)).digest {
		t.Errorf("%+v, %v", receipt, err)
	}
	a = o.begin("work")
	wantCode(t, finish(&Message{Text: "x"}, ""), schema.Invalid)
	if err := finish(nil, `{}`); err != nil {
		t.Error(err)
	}

	// Without a limit a text may be as long as content can be.
	def := mustDo(t, f.Store, Permit{Actor: host1}, RegisterDefinition{agentOf(`{"kind":"assistant-message"}`)}).Result
	spec := f.spec("r2")
	spec.Definition = def.Digest
	f.create(spec)
	o = f.own(host1, "r2").start()
	long := strings.Repeat("long ", 1_000_000)
	a = must(o, BeginAttempt{Run: "r2", Node: "a"})
	must(o, FinishAttempt{Run: "r2", Attempt: a.ID, Message: &Message{Text: long}})
	done = f.getAttempt(a.ID)
	if f.bytesOf(done.Output) != long || strings.Contains(f.bytesOf(done.Result), "max_chars") || strings.Contains(f.bytesOf(done.Result), "entry_id") {
		t.Errorf("receipt %s", f.bytesOf(done.Result))
	}
}

// Who resumes what: the cases of the rule, each with an attempt whose owner was lost.
func TestResume(t *testing.T) { // D4
	for _, tc := range []struct {
		node    string
		session string // that the run came from
		actor   Actor  // who resumes
		keeps   bool
	}{
		{"plan", "pi1", pi1, true},
		{"plan", "pi1", pi2, false}, // another session doesn't have the message
		{"plan", "pi1", Actor{HostActor, "pi1"}, false},
		{"plan", "", pi1, false},
		{"work", "pi1", pi1, false}, // a submitted output
		{"test", "pi1", pi1, false}, // no agent
	} {
		t.Run(fmt.Sprint(tc.node, " of ", tc.session, " by ", tc.actor), func(t *testing.T) {
			f := newFlow(t)
			spec := f.queued("r1")
			spec.Session = tc.session
			f.create(spec)
			o := f.take(host1).start()
			a := must(o, BeginAttempt{Run: "r1", Node: tc.node, Input: json.RawMessage(`{"n":1}`), Contract: json.RawMessage(`{}`), Prompt: "go", DeadlineAt: 9})
			f.clock.move(2 * time.Minute)
			o = f.take(tc.actor)
			_, err := send(o, ResumeAttempt{Run: "r1", Attempt: a.ID})
			wantCode(t, err, schema.IllegalTransition) // nobody has said that it was left
			left := must(o, InterruptAttempt{"r1", a.ID})
			if left.Status != AttemptRunning || left.InterruptedAt != f.clock.millis() {
				t.Errorf("%+v", left)
			}
			_, err = send(o, FinishAttempt{Run: "r1", Attempt: a.ID})
			wantCode(t, err, schema.IllegalTransition)
			permit := f.permit(tc.actor, o.claim, "r1")
			permit.Request = "resume"
			resumed := mustDo(t, f.Store, permit, ResumeAttempt{Run: "r1", Attempt: a.ID}).Result
			old := f.getAttempt(a.ID)
			if tc.keeps {
				if resumed.ID != a.ID || resumed.InterruptedAt != 0 || resumed.Status != AttemptRunning || resumed.DeadlineAt != 9 {
					t.Errorf("%+v", resumed)
				}
				must(o, FinishAttempt{Run: "r1", Attempt: a.ID, Message: &Message{Text: "x", MaxChars: 20}})
			} else {
				fresh := resumed.Number == 2 && resumed.Ordinal == 2 && resumed.Status == AttemptRunning && resumed.DeadlineAt == 0
				if !fresh || !same(resumed.Input, a.Input) || !same(resumed.Contract, a.Contract) || !same(resumed.Prompt, a.Prompt) {
					t.Errorf("%+v", resumed)
				}
				if old.Status != AttemptCancelled || old.EndedAt == 0 || old.InterruptedAt == 0 {
					t.Errorf("%+v", old)
				}
			}
			again := mustDo(t, f.Store, permit, ResumeAttempt{Run: "r1", Attempt: a.ID}) // W5
			if !again.Adopted || again.Result.ID != resumed.ID {
				t.Errorf("%+v", again)
			}
		})
	}
}

// The origin session finds the message finished, instead of having it written again.
func TestAdoptMessage(t *testing.T) { // D4
	f := newFlow(t)
	spec := f.queued("r1")
	spec.Session = "pi1"
	f.create(spec)
	o := f.take(host1).start()
	a := o.begin("plan")
	f.clock.move(2 * time.Minute)
	o = f.take(pi1)
	adopt := AdoptMessage{"r1", a.ID, *a.Prompt, Message{Text: "the plan", EntryID: "e9", MaxChars: 20}}
	_, err := send(o, adopt)
	wantCode(t, err, schema.IllegalTransition) // not interrupted
	must(o, InterruptAttempt{"r1", a.ID})
	for name, tc := range map[string]struct {
		code  schema.Code
		spoil func(*AdoptMessage)
	}{
		"another prompt": {schema.Conflict, func(c *AdoptMessage) { c.Prompt = Digest{1} }},
		"no entry":       {schema.Invalid, func(c *AdoptMessage) { c.Message.EntryID = "" }},
		"another limit":  {schema.Invalid, func(c *AdoptMessage) { c.Message.MaxChars = 0 }},
		"a long text":    {schema.Limit, func(c *AdoptMessage) { c.Message.Text = strings.Repeat("x", 21) }},
	} {
		cmd := adopt
		tc.spoil(&cmd)
		if _, err := send(o, cmd); !errors.Is(err, tc.code) {
			t.Errorf("%s: %v, want code %s", name, err, tc.code)
		}
	}
	done := must(o, adopt)
	if done.ID != a.ID || done.Status != AttemptCompleted || done.InterruptedAt != 0 || f.bytesOf(done.Output) != "the plan" {
		t.Errorf("%+v", done)
	}
	if receipt := f.bytesOf(done.Result); !strings.Contains(receipt, `"adopted":true`) || !strings.Contains(receipt, `"entry_id":"e9"`) {
		t.Error(receipt)
	}

	// Nobody else can have found it, and nothing else can be found.
	a = o.begin("work")
	must(o, InterruptAttempt{"r1", a.ID})
	_, err = send(o, AdoptMessage{"r1", a.ID, *a.Prompt, Message{Text: "x", EntryID: "e"}})
	wantCode(t, err, schema.Invalid)
	must(o, CancelAttempt{Run: "r1", Attempt: a.ID})
	a = o.begin("plan")
	must(o, InterruptAttempt{"r1", a.ID})
	f.clock.move(2 * time.Minute)
	for _, actor := range []Actor{host2, pi2} {
		o = f.take(actor)
		_, err := send(o, AdoptMessage{"r1", a.ID, *a.Prompt, Message{Text: "x", EntryID: "e", MaxChars: 20}})
		wantCode(t, err, schema.Denied)
		f.clock.move(2 * time.Minute)
	}
}
