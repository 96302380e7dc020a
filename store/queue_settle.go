package store

import (
	"context"
	"encoding/json"

	"pistate/internal/sqlite"
)

// OpQueueSettle is the operation that applies a [SettleQueueEffect].
const OpQueueSettle Op = "queue.settle"

var settleOperations = []Operation{{
	Op: OpQueueSettle, Does: "settle the place in the queue of a run that has ended",
	AnyRevision: true, // a run ends once, and that decides
	Rights:      rights(Right{Own: OwnEffect}, runOwners...),
}}

// SettleQueueEffect is the type of the effect that follows from the end of a run that has a place in the
// queue, and from nothing else (R8). It is local, and its scope is the system's, with the project as its id.
const SettleQueueEffect = "run.settle_queue"

// settleKey is the key of the one settlement of a run.
const settleKey = "queue"

// settlement makes the payload of a settlement ready. The source of the effect says it all.
func (d *draft) settlement() *content { return d.json("settlement", []byte("{}")) }

// settleLater returns the effect that settles the place of a run in the queue.
func settleLater(r Run, payload *content) *effectDraft {
	return &effectDraft{
		EffectSpec: EffectSpec{Type: SettleQueueEffect, Key: settleKey, Scope: Scope{SystemScope, r.Project}},
		Source:     r.Resource(),
		Payload:    payload,
		id:         effectID(r.Resource(), SettleQueueEffect, settleKey),
	}
}

// SettleQueue settles the place in the queue of a run that has ended, as the run did. The permit's claim is
// on the effect that asks for it. Where the place is settled already, that is found (W5).
//
// Errors: [schema.IllegalTransition] for a run that has not ended or has no place in the queue.
type SettleQueue struct {
	Run string `json:"run"`
}

// Op returns "queue.settle".
func (SettleQueue) Op() Op { return OpQueueSettle }

func (c SettleQueue) prepare(d *draft) *plan[*QueueRow] {
	d.id("run", c.Run)
	resource := NewResourceID(RunResource, c.Run)
	return &plan[*QueueRow]{
		subject: resource,
		payload: c,
		owner: func(*sqlite.Rx, Ownership) (ResourceID, error) {
			return NewResourceID(EffectResource, effectID(resource, SettleQueueEffect, settleKey)), nil
		},
		existing: func(rx *sqlite.Rx) (*QueueRow, bool, error) {
			row, err := oneQueueRow(rx, selQueueRow, c.Run)
			return row, row != nil && row.SettledAt != 0, err
		},
		repeated: func(rx *sqlite.Rx, _ Event) (*QueueRow, error) {
			return oneQueueRow(rx, selQueueRow, c.Run)
		},
		decide: func(f *facts) (*change[*QueueRow], error) {
			w, err := loadWork(f, c.Run)
			if err == nil {
				err = w.settle()
			}
			if err != nil {
				return nil, err
			}
			return changed(w, w.queue), nil
		},
	}
}

// SettleQueueHandler returns the handler of [SettleQueueEffect] for an [EffectWorker] of the same actor.
func SettleQueueHandler(s *Store, actor Actor) EffectHandler {
	return EffectHandler{Apply: func(ctx context.Context, b Begun, _ json.RawMessage) (Applied, error) {
		permit := Permit{Actor: actor, Expected: AnyRevision, Claim: b.Claim}
		_, err := Do(ctx, s, permit, SettleQueue{Run: b.Effect.Source.Aggregate()})
		return Applied{}, err
	}}
}
