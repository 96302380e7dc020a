package store

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"pistate/schema"
)

func (a *asking) request(actor Actor, claim *Claim, cmd RequestContinuation) (Done[*Continuation], error) {
	return Do(context.Background(), a.Store, as(actor, claim), cmd)
}

// A checkpoint or a person by hand makes one continuation, however often.
func TestContinuationRequest(t *testing.T) { // D10, W5
	a := newAsking(t)
	for _, tc := range []struct {
		trigger TriggerType
		actor   Actor
		claim   *Claim
	}{
		{CheckpointTrigger, host1, a.claim},
		{ManualTrigger, host1, a.claim},
		{ManualTrigger, control, nil},
	} {
		cmd := RequestContinuation{Trigger: tc.trigger, Parent: "r1", Key: "k of " + string(tc.actor.Class), Input: json.RawMessage(`{"at":1}`)}
		first, err := a.request(tc.actor, tc.claim, cmd)
		if err != nil {
			t.Fatal(err)
		}
		c := first.Result
		if c.ID != continuationID(tc.trigger, "r1/"+cmd.Key) || c.Run != continuationRun(c.ID) || c.Status != ContinuationPending || c.Input == nil {
			t.Errorf("%+v", c)
		}
		e, err := a.Effect(t.Context(), c.effect())
		if err != nil || e.Status != EffectPending || e.Scope != (Scope{RunScope, "r1"}) || e.Source != runID("r1") || e.External {
			t.Errorf("%+v, %v", e, err)
		}
		again, err := a.request(tc.actor, tc.claim, cmd)
		if err != nil || !again.Adopted || !reflect.DeepEqual(again.Result, c) {
			t.Errorf("%+v, %v", again, err)
		}
		cmd.Input = json.RawMessage(`{"at":2}`)
		_, err = a.request(tc.actor, tc.claim, cmd)
		wantCode(t, err, schema.Conflict)
		if w, ok := cause[*ConflictError](t, err).Winner.(Continuation); !ok || w.ID != c.ID {
			t.Error(err)
		}
	}
	for name, tc := range map[string]struct {
		actor Actor
		claim *Claim
		cmd   RequestContinuation
		code  schema.Code
	}{
		"of a decision":            {host1, a.claim, RequestContinuation{Trigger: DecisionTrigger, Parent: "r1", Key: "k"}, schema.Invalid},
		"of nothing":               {host1, a.claim, RequestContinuation{Parent: "r1", Key: "k"}, schema.Invalid},
		"without a key":            {host1, a.claim, RequestContinuation{Trigger: ManualTrigger, Parent: "r1"}, schema.Invalid},
		"without a parent":         {host1, a.claim, RequestContinuation{Trigger: ManualTrigger, Key: "k"}, schema.Invalid},
		"of an unknown parent":     {control, nil, RequestContinuation{Trigger: ManualTrigger, Parent: "r9", Key: "k"}, schema.NotFound},
		"checkpoint by hand":       {control, nil, RequestContinuation{Trigger: CheckpointTrigger, Parent: "r1", Key: "k"}, schema.Denied},
		"by a person":              {ann, nil, RequestContinuation{Trigger: ManualTrigger, Parent: "r1", Key: "k"}, schema.Denied},
		"without a claim":          {host1, nil, RequestContinuation{Trigger: CheckpointTrigger, Parent: "r1", Key: "k"}, schema.Denied},
		"a controller's by a host": {host1, a.claim, RequestContinuation{Trigger: ControllerTrigger, Parent: "r1", Key: "k"}, schema.Denied},
		"by hand by a controller":  {merger1, nil, RequestContinuation{Trigger: ManualTrigger, Parent: "r1", Key: "k"}, schema.Denied},
		"by a foreign controller":  {merger1, nil, RequestContinuation{Trigger: ControllerTrigger, Parent: "r1", Key: "k"}, schema.NotFound},
	} {
		if _, err := a.request(tc.actor, tc.claim, tc.cmd); schema.CodeOf(err) != tc.code {
			t.Errorf("%s: %v, want %s", name, err, tc.code)
		}
	}
	mustDo(t, a.Store, a.permit(control, nil, "r1"), RequestCancel{"r1"})
	_, err := a.request(host1, a.claim, RequestContinuation{Trigger: CheckpointTrigger, Parent: "r1", Key: "after"})
	wantCode(t, err, schema.IllegalTransition)
}

// child makes a controller resource, somebody who looks after it, and the run that it has started.
func (f *flow) child(key string) (*looking, *ControllerWorkflow) {
	f.Helper()
	f.controller(key, `{}`)
	l := f.look(merger1)
	input := json.RawMessage(`{"pr":7}`)
	w := mustAct(l, ReserveWorkflow{Controller: l.uid, Key: "merge", Workflow: f.definition.String(), Input: input})
	spec := f.spec(w.Run)
	spec.Input = input
	mustDo(f, f.Store, Permit{Actor: l.actor, Claim: l.claim}, CreateRun{RunSpec: spec, Controller: l.uid})
	return l, w
}

// A controller lets a run that it started go on, for whose owner the effect is.
func TestContinuationOfAController(t *testing.T) { // D10, D11
	f := newFlow(t)
	l, w := f.child("pr-7")
	cmd := RequestContinuation{Trigger: ControllerTrigger, Parent: w.Run, Key: "checks passed"}
	if _, err := act(l, cmd); err != nil {
		t.Fatal(err)
	}
	_, err := Do(t.Context(), f.Store, as(merger2, l.claim), RequestContinuation{Trigger: ControllerTrigger, Parent: w.Run, Key: "again"})
	wantCode(t, err, schema.Denied)
	list, err := f.ContinuationsOfRun(t.Context(), w.Run, Place{}, 10)
	if err != nil || len(list) != 1 || list[0].ID != continuationID(ControllerTrigger, w.Run+"/checks passed") {
		t.Fatalf("%+v, %v", list, err)
	}
	if e, err := f.Effect(t.Context(), list[0].effect()); err != nil || e.Scope != (Scope{RunScope, w.Run}) {
		t.Errorf("%+v, %v", e, err)
	}
}

// By hand, a run that has ended can be continued. Nobody owns it, so whoever keeps the project does it.
func TestContinuationOfAnEndedRun(t *testing.T) { // D7, D10
	a := newAsking(t)
	mustDo(t, a.Store, a.permit(host1, a.claim, "r1"), FailRun{"r1", json.RawMessage(`{}`)})
	_, err := a.request(Actor{SystemActor, "x"}, nil, RequestContinuation{Trigger: CheckpointTrigger, Parent: "r1", Key: "k"})
	wantCode(t, err, schema.IllegalTransition)
	done, err := a.request(control, nil, RequestContinuation{Trigger: ManualTrigger, Parent: "r1", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := a.Effect(t.Context(), done.Result.effect()); err != nil || e.Scope != (Scope{SystemScope, a.project}) {
		t.Errorf("%+v, %v", e, err)
	}
	wantReport(t, a.cancelAbandoned(), AbandonedReport{})
	spec := a.spec("")
	spec.Parent = "r1"
	w := &EffectWorker{
		Store: a.Store, Actor: host2, Scope: Scope{SystemScope, a.project},
		Handlers: map[string]EffectHandler{EffectContinuationAdmit: ContinuationHandler(a.Store, host2, nil, func(context.Context, Continuation) (*RunSpec, error) { return &spec, nil })},
	}
	report, err := w.Run(t.Context(), 10)
	if err != nil || report.Applied != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	if r, err := a.Run(t.Context(), done.Result.Run); err != nil || r.Parent != "r1" {
		t.Errorf("%+v, %v", r, err)
	}
}
