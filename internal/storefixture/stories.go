package storefixture

import (
	"encoding/json"
	"fmt"
	"time"

	"pistate/store"
)

// stories are the databases by their names.
var stories = map[string]func(*builder){
	"empty": func(*builder) {},
	"shop":  shop,
	"sick":  sick,
}

const reviewFlow = `{
	"name": "review",
	"nodes": [
		{"id": "plan", "type": "agent", "expectedOutput": {"kind": "assistant-message"}},
		{"id": "work", "type": "agent", "expectedOutput": {"type": "object"}},
		{"id": "test", "type": "shell"}
	]
}`

// flow is a project with a definition.
type flow struct {
	*builder
	project    string
	definition store.Digest
}

func (b *builder) flow(dir string) *flow {
	f := &flow{builder: b, project: do(b, host1, nil, store.RegisterProject{Path: dir}).ID}
	if d := do(b, host1, nil, store.RegisterDefinition{Definition: json.RawMessage(reviewFlow)}); d != nil {
		f.definition = d.Digest
	}
	return f
}

func (f *flow) spec(id, title string) store.RunSpec {
	return store.RunSpec{
		ID: id, Project: f.project, Definition: f.definition, Source: store.RunSource{Type: store.BuiltinSource, Ref: "review"},
		Title: title, Input: object(`{"text":"CONTENT of the input of %s"}`, id), Mode: store.HeadlessMode,
	}
}

// direct creates a run that its owner starts at once.
func (f *flow) direct(actor store.Actor, spec store.RunSpec, ttl time.Duration) owned {
	doAt(f.builder, host1, nil, 0, store.CreateRun{RunSpec: spec})
	run := f.own(actor, store.RunResource, spec.ID, ttl)
	as(run, store.StartRun{Run: spec.ID})
	return run
}

func (o owned) begin(node string) string {
	if a := as(o, store.BeginAttempt{Run: o.id, Node: node, Input: object(`"CONTENT for %s"`, node), Prompt: "CONTENT: do " + node}); a != nil {
		return a.ID
	}
	return ""
}

// step begins and finishes an attempt.
func (o owned) step(node string, took time.Duration) {
	cmd := store.FinishAttempt{Run: o.id, Attempt: o.begin(node)}
	o.pass(took)
	if node == "plan" {
		cmd.Message = &store.Message{Text: "CONTENT: first this,\nthen that.", EntryID: "e4"}
	} else {
		cmd.Output = object(`{"said":"CONTENT of %s"}`, node)
	}
	as(o, cmd)
}

// shop is a day at work: of everything something, in every state that people ask about.
func shop(b *builder) {
	shop, blog := b.flow("/home/ann/shop"), b.flow("/home/ann/blog")
	b.completed(shop)
	b.failed(shop)
	b.decided(shop)
	b.asking(shop)
	b.unclear(blog)
	b.lost(shop)
	b.queued(blog)
	b.controllers(shop)
	b.channel()
	b.working(shop)
	b.pass(Now.Sub(b.now))
}

func (b *builder) completed(f *flow) {
	run := f.direct(host1, f.spec("run-done", "Review the cart"), time.Hour)
	b.captured(run)
	run.step("plan", 40*time.Second)
	failed := run.begin("work")
	as(run, store.AppendUpdates{Run: run.id, Attempt: failed, First: 1, Updates: []store.NewUpdate{
		{Type: "progress", Key: "files", Data: object(`{"done":1,"note":"CONTENT"}`)},
		{Type: "progress", Key: "files", Data: object(`{"done":2,"note":"CONTENT"}`)},
	}})
	b.pass(90 * time.Second)
	as(run, store.FailAttempt{Run: run.id, Attempt: failed, Error: object(`{"message":"CONTENT of the error"}`)})
	run.step("work", 5*time.Minute)
	run.step("test", 20*time.Second)
	as(run, store.CompleteRun{Run: run.id, Output: object(`{"verdict":"CONTENT of the output"}`)})
	b.pass(10 * time.Minute)
}

// conversation is what Pi wrote while it planned.
var conversation = []string{
	`{"type":"message","id":"e1","parentId":null,"timestamp":"2026-03-02T09:00:01.000Z","message":{"role":"user","content":[{"type":"text","text":"CONTENT: review the cart, please\nand be quick"}]}}`,
	`{"type":"model_change","id":"e2","parentId":"e1","timestamp":"2026-03-02T09:00:02.000Z","provider":"acme","modelId":"large-2"}`,
	`{"type":"message","id":"e3","parentId":"e2","timestamp":"2026-03-02T09:00:09.000Z","message":{"role":"assistant","content":[{"type":"thinking","thinking":"CONTENT: hm"},{"type":"text","text":"CONTENT: I look at it.\u001b[2J"},{"type":"toolCall","id":"t1","name":"read","arguments":{"path":"CONTENT.go"}}],"stopReason":"toolUse"}}`,
	`{"type":"message","id":"e3b","parentId":"e3","timestamp":"2026-03-02T09:00:10.000Z","message":{"role":"toolResult","toolCallId":"t1","toolName":"read","content":[{"type":"text","text":"CONTENT: package cart"}],"isError":false}}`,
	`{"type":"message","id":"e4","parentId":"e3b","timestamp":"2026-03-02T09:00:31.000Z","message":{"role":"assistant","content":[{"type":"text","text":"CONTENT: first this,\nthen that."}],"stopReason":"stop"}}`,
	`{"type":"compaction","id":"e5","parentId":"e4","timestamp":"2026-03-02T09:00:32.000Z","summary":"CONTENT: the cart was reviewed","tokensBefore":1000}`,
	`this is CONTENT, but no JSON`,
}

func (b *builder) captured(run owned) {
	s := doAt(b, run.actor, run.claim, 0, store.OpenSegment{Run: run.id, Session: "ACTOR-pi-7", Key: "plan"})
	if s == nil {
		return
	}
	id := store.NewResourceID(store.SessionResource, s.ID)
	do(b, run.actor, run.claim, store.AppendSegment{
		Segment: s.ID, FirstEntry: 1, Entries: conversation,
		FirstEvent: 1, Events: []store.PiEvent{{Type: "turn_start", At: b.millis(0), Payload: object(`{"n":"CONTENT"}`)}},
	})
	b.pass(30 * time.Second)
	doAt(b, run.actor, run.claim, b.revision(id), store.CompleteSegment{Segment: s.ID, PromptEntry: "e1", ResponseEntry: "e4"})
}

func (b *builder) failed(f *flow) {
	run := f.direct(host1, f.spec("run-failed", "Review the checkout"), time.Hour)
	run.step("plan", time.Minute)
	as(run, store.BeginAttempt{Run: run.id, Node: "work"})
	b.pass(2 * time.Minute)
	as(run, store.FailRun{Run: run.id, Error: object(`{"message":"CONTENT of the failure"}`)})
	b.pass(5 * time.Minute)
}

var choices = []store.Choice{
	{ID: "ship", Label: "Ship it"},
	{ID: "wait", Label: "Not now", Input: &store.TextInput{Prompt: "CONTENT: why?", MaxChars: 100}},
}

func (o owned) ask(key, title string, deadline time.Duration) *store.Decision {
	q := store.RequestDecision{
		Run: o.id, Key: key, RequestRevision: 1, Audience: "maintainers", Title: title,
		Subject: object(`{"plan":"CONTENT of the plan"}`), Presentation: object(`{"markdown":"CONTENT"}`), Choices: choices,
	}
	if deadline > 0 {
		q.DeadlineAt = o.millis(deadline)
	}
	return doAt(o.builder, o.actor, o.claim, 0, q)
}

func (b *builder) answer(d *store.Decision, actor store.Actor, id, choice string) {
	if d != nil {
		do(b, actor, nil, store.SubmitDecision{
			Decision: d.ID, Submission: id, RequestDigest: d.RequestDigest, Response: object(`{"choice":%q}`, choice),
		})
	}
}

// decided is a run that was parked for a question and goes on in another one.
func (b *builder) decided(f *flow) {
	spec := f.spec("run-parked", "Release 1.4")
	spec.Queue = &store.QueuePlace{}
	doAt(b, host1, nil, 0, store.CreateRun{RunSpec: spec})
	got := doAt(b, host1, nil, b.revision("run:run-parked"), store.ClaimNext{Project: f.project, TTLMS: 60_000})
	if got == nil {
		return
	}
	run := owned{b, got.Run.ID, host1, got.Claim}
	as(run, store.StartRun{Run: run.id})
	run.step("plan", 20*time.Second)
	d := run.ask("ship", "Ship release 1.4?", 0)
	as(run, store.ParkRun{Run: run.id, Detail: "waits for the maintainers"})
	b.pass(20 * time.Minute)
	b.answer(d, ann, "answer-1", "ship")
	b.answer(d, ann, "answer-2", "wait")
	b.pass(time.Minute)
}

// asking waits for people now; its question has a deadline.
func (b *builder) asking(f *flow) {
	spec := f.spec("run-asking", "Refund order 1042")
	spec.Mode, spec.Session, spec.Queue = store.InteractiveMode, pi1.ID, &store.QueuePlace{}
	doAt(b, pi1, nil, 0, store.CreateRun{RunSpec: spec})
	got := doAt(b, pi1, nil, b.revision("run:run-asking"), store.ClaimNext{Project: f.project, Session: pi1.ID, TTLMS: (3 * time.Hour).Milliseconds()})
	if got == nil {
		return
	}
	run := owned{b, got.Run.ID, pi1, got.Claim}
	as(run, store.StartRun{Run: run.id})
	run.step("plan", 15*time.Second)
	id := run.begin("work")
	run.ask("refund", "Refund order 1042?", 5*time.Hour)
	as(run, store.WaitAttempt{Run: run.id, Attempt: id, Detail: "needs a yes"})
	b.pass(5 * time.Minute)
}

// unclear has sent something and does not know whether it arrived.
func (b *builder) unclear(f *flow) {
	run := f.direct(host1, f.spec("run-unclear", "Publish the post"), 6*time.Hour)
	run.step("plan", 10*time.Second)
	e := as(run, store.EnsureEffect{Source: run.claim.Resource, EffectSpec: store.EffectSpec{
		Type: "mail.send", Key: "announce", Payload: object(`{"to":"CONTENT"}`), External: true,
		Scope: store.Scope{Type: store.RunScope, ID: run.id},
	}})
	if e == nil {
		return
	}
	begun := doAt(b, host1, run.claim, 1, store.BeginEffect{Effect: e.ID, TTLMS: 60_000})
	if begun == nil {
		return
	}
	b.pass(30 * time.Second)
	do(b, host1, begun.Claim, store.SettleEffect{Effect: e.ID, Outcome: store.OutcomeAmbiguous, Error: object(`"CONTENT: timed out"`), ExternalRef: "REF-mail-1"})
	as(run, store.EnsureEffect{Source: run.claim.Resource, EffectSpec: store.EffectSpec{
		Type: "cache.purge", Key: "all", Payload: object(`{"what":"CONTENT"}`), Scope: store.Scope{Type: store.RunScope, ID: run.id},
	}})
	as(run, store.PauseRun{Run: run.id})
	b.pass(5 * time.Minute)
}

// lost is a run whose host went away in the middle.
func (b *builder) lost(f *flow) {
	run := f.direct(host2, f.spec("run-lost", "Upgrade \u202edependencies\u009b2J"), 2*time.Minute)
	run.step("plan", 30*time.Second)
	run.begin("work")
	b.pass(10 * time.Minute)
}

func (b *builder) queued(f *flow) {
	spec := f.spec("run-retried", "Translate the post")
	spec.Queue = &store.QueuePlace{Affinity: host1.ID}
	doAt(b, host1, nil, 0, store.CreateRun{RunSpec: spec})
	got := doAt(b, host1, nil, b.revision("run:run-retried"), store.ClaimNext{Project: f.project, Affinity: host1.ID, TTLMS: 60_000})
	if got == nil {
		return
	}
	delay := (150 * time.Minute).Milliseconds()
	as(owned{b, got.Run.ID, host1, got.Claim}, store.RetryRun{Run: got.Run.ID, Code: "model.overloaded", DelayMS: &delay})
	spec = f.spec("run-queued", "Write the next post")
	spec.Queue = &store.QueuePlace{}
	doAt(b, host1, nil, 0, store.CreateRun{RunSpec: spec})
	b.pass(time.Minute)
}

func (b *builder) controllers(f *flow) {
	apply := func(name, key, spec string) {
		doAt(b, host1, nil, 0, store.ApplyController{Project: f.project, Name: name, Key: key, Spec: object(`{"image":%q}`, spec)})
		b.pass(time.Second)
	}
	apply("deploy", "shop/web", "CONTENT:1.4")
	got := do(b, deputy, nil, store.ClaimController{Project: f.project, TTLMS: (3 * time.Hour).Milliseconds()})
	if got == nil {
		return
	}
	uid, claim := got.Controller.UID, got.Claim
	do(b, deputy, claim, store.AddFinalizer{Controller: uid, Finalizer: "drain"})
	do(b, deputy, claim, store.ReserveWorkflow{Controller: uid, Key: "rollout-1", Workflow: "review", Input: object(`{"v":"CONTENT"}`)})
	do(b, deputy, claim, store.SetControllerStatus{Controller: uid, Observed: 1, Status: store.ControllerStatus{
		Conditions: []store.ControllerCondition{{Type: "ready", Status: store.ConditionFalse, Reason: "Rolling", Message: "CONTENT: 2 of 3"}},
	}})
	apply("deploy", "shop/worker", "CONTENT:1.3")
	do(b, control, nil, store.RequestControllerDeletion{Controller: uid})
}

func (b *builder) channel() {
	c := do(b, adapter, nil, store.RegisterChannel{Adapter: "telegram", Profile: "main"})
	if c == nil {
		return
	}
	o := b.own(adapter, store.ChannelResource, c.ID, 6*time.Hour)
	do(b, adapter, o.claim, store.ReceiveEvents{
		Channel: c.ID,
		Events: []store.NewIncoming{
			{ID: "REF-1", Type: "message", Payload: object(`"CONTENT: hello"`)},
			{ID: "REF-2", Type: "message", Payload: object(`"CONTENT: what?"`)},
		},
		Progress: &store.Progress{Cursor: "updates", Position: 2, Reference: "REF-offset-2"},
	})
	do(b, adapter, o.claim, store.ProcessEvent{Channel: c.ID, Event: "REF-1", Outcome: store.InboxIgnored, Detail: "no command"})
	m := do(b, adapter, o.claim, store.ComposeMessage{
		Channel: c.ID, Kind: store.DeliveryMessage, Key: "hello", Payload: object(`"CONTENT"`),
		Parts: []store.NewPart{{Recipient: "REF-ann", Payload: object(`"CONTENT"`)}, {Recipient: "REF-bob", Payload: object(`"CONTENT"`)}},
	})
	if m == nil {
		return
	}
	do(b, adapter, o.claim, store.SettleParts{Channel: c.ID, Message: m.ID, Parts: []store.PartOutcome{
		{Recipient: "REF-ann", Number: 1, Status: store.MessageConfirmed, ExternalRef: "REF-sent-1"},
	}})
}

// working is a run at work, with parts that have ended or wait.
func (b *builder) working(f *flow) {
	b.now = Now.Add(-30 * time.Minute)
	run := f.direct(host1, f.spec("run-working", "Review the search"), 2*time.Hour)
	run.step("plan", 3*time.Minute)
	for i := range 2 {
		spec := f.spec(fmt.Sprintf("run-part-%d", i+1), fmt.Sprintf("Review part %d", i+1))
		spec.Parent = run.id
		doAt(b, host1, run.claim, 0, store.CreateRun{RunSpec: spec})
		b.pass(time.Second)
	}
	do(b, control, nil, store.RequestCancel{Run: "run-part-2"})
	as(run, store.CreateNotification{NewNotification: store.NewNotification{
		Run: run.id, Index: 0, Kind: store.ProgressNotification, Session: "ACTOR-pi-7", Payload: object(`"CONTENT: half way"`),
	}})
	id := run.begin("work")
	as(run, store.AppendUpdates{Run: run.id, Attempt: id, First: 1, Updates: []store.NewUpdate{{Type: "progress", Key: "files", Data: object(`{"done":3,"of":9}`)}}})
}
