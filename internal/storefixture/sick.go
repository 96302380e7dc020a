package storefixture

import (
	"fmt"
	"time"

	"pistate/store"
)

// sick is a place where everything is late, lost or unclear.
func sick(b *builder) {
	f := b.flow("/home/ann/shop")
	spec := f.spec("run-late", "Should have ended")
	spec.DeadlineAt = b.millis(10 * time.Minute)
	run := f.direct(host1, spec, 12*time.Hour)
	as(run, store.BeginAttempt{Run: run.id, Node: "work", DeadlineAt: b.millis(5 * time.Minute)})
	run.ask("late", "Should have been answered?", time.Minute)
	if e := as(run, store.EnsureEffect{Source: run.claim.Resource, EffectSpec: store.EffectSpec{
		Type: "mail.send", Key: "lost", Payload: object(`1`), External: true, Scope: store.Scope{Type: store.RunScope, ID: run.id},
	}}); e != nil {
		doAt(b, host1, run.claim, 1, store.BeginEffect{Effect: e.ID, TTLMS: 1000})
	}
	b.failing(f)
	b.failingController(f)
	b.unsent()
	for i := range 8 {
		lost := f.direct(host2, f.spec(fmt.Sprintf("run-lost-%d", i+1), "Nobody owns it"), time.Minute)
		lost.begin("work")
	}
	b.pass(Now.Sub(b.now))
}

// failing is a run that has failed again and again.
func (b *builder) failing(f *flow) {
	spec := f.spec("run-failing", "Never works")
	spec.Queue = &store.QueuePlace{}
	doAt(b, host1, nil, 0, store.CreateRun{RunSpec: spec})
	none := int64(0)
	for range 5 {
		got := doAt(b, host1, nil, b.revision("run:run-failing"), store.ClaimNext{Project: f.project, TTLMS: 60_000})
		if got == nil {
			return
		}
		as(owned{b, got.Run.ID, host1, got.Claim}, store.RetryRun{Run: got.Run.ID, Code: "model.gone", DelayMS: &none})
	}
}

func (b *builder) failingController(f *flow) {
	doAt(b, host1, nil, 0, store.ApplyController{Project: f.project, Name: "deploy", Key: "shop/web", Spec: object(`{}`)})
	for range 5 {
		b.pass(10 * time.Minute)
		got := do(b, deputy, nil, store.ClaimController{Project: f.project, TTLMS: 60_000})
		if got == nil {
			return
		}
		do(b, deputy, got.Claim, store.BackOffController{Controller: got.Controller.UID, Version: got.Controller.Queue.Version, Code: "cluster.gone"})
	}
}

// unsent is a channel whose adapter went away while it sent a message.
func (b *builder) unsent() {
	c := do(b, adapter, nil, store.RegisterChannel{Adapter: "telegram", Profile: "main"})
	if c == nil {
		return
	}
	o := b.own(adapter, store.ChannelResource, c.ID, time.Minute)
	m := do(b, adapter, o.claim, store.ComposeMessage{
		Channel: c.ID, Kind: store.DeliveryMessage, Key: "hello", Payload: object(`"CONTENT"`),
		Parts: []store.NewPart{{Recipient: "REF-ann", Payload: object(`"CONTENT"`)}},
	})
	if m == nil {
		return
	}
	do(b, adapter, o.claim, store.SettleParts{Channel: c.ID, Message: m.ID, Parts: []store.PartOutcome{
		{Recipient: "REF-ann", Number: 1, Status: store.MessageAmbiguous, Error: object(`"CONTENT"`)},
	}})
}
