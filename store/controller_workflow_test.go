package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pistate/schema"
)

// child returns the command that creates the run that a controller resource reserved an id for.
func (l *looking) child(w *ControllerWorkflow, input string) CreateRun {
	spec := l.spec(w.Run)
	spec.Input = json.RawMessage(input)
	return CreateRun{RunSpec: spec, Controller: l.uid}
}

// started reserves a run and creates it.
func (l *looking) started(key string) *ControllerWorkflow {
	l.Helper()
	w := mustAct(l, ReserveWorkflow{l.uid, key, "review", json.RawMessage(`{"pr":1}`)})
	mustDo(l, l.Store, Permit{Actor: l.actor, Claim: l.claim}, l.child(w, `{"pr":1}`))
	return w
}

func (l *looking) workflow(key string) ControllerWorkflow {
	l.Helper()
	w, err := l.ControllerWorkflow(l.Context(), l.uid, key)
	if err != nil {
		l.Fatal(err)
	}
	return w
}

func TestReserveWorkflow(t *testing.T) { // D11, W5
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	l := f.look(merger1)
	first := mustDo(t, f.Store, l.permit(), ReserveWorkflow{c.UID, "review", "review", json.RawMessage(`{"pr":1}`)})
	w := first.Result
	if first.Adopted || w.Status != WorkflowPending || w.Run != workflowRunID(c.UID, "review") || w.EndedAt != 0 {
		t.Fatalf("%+v", first)
	}
	again := mustDo(t, f.Store, l.permit(), ReserveWorkflow{c.UID, "review", "review", json.RawMessage(`{ "pr": 1e0 }`)})
	if !again.Adopted || again.Result.Run != w.Run {
		t.Errorf("%+v", again)
	}
	for name, cmd := range map[string]ReserveWorkflow{
		"another input":    {c.UID, "review", "review", json.RawMessage(`{"pr":2}`)},
		"another workflow": {c.UID, "review", "merge", json.RawMessage(`{"pr":1}`)},
	} {
		_, err := act(l, cmd)
		if !errors.Is(err, schema.Conflict) {
			t.Fatalf("%s: %v", name, err)
		}
		if e := cause[*ConflictError](t, err); e.Winner.(ControllerWorkflow).Run != w.Run {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for name, tc := range map[string]struct {
		cmd  ReserveWorkflow
		code schema.Code
	}{
		"no key":      {ReserveWorkflow{c.UID, "", "review", json.RawMessage(`1`)}, schema.Invalid},
		"no workflow": {ReserveWorkflow{c.UID, "k", "", json.RawMessage(`1`)}, schema.Invalid},
		"no input":    {ReserveWorkflow{c.UID, "k", "review", nil}, schema.Invalid},
		"long input":  {ReserveWorkflow{c.UID, "k", "review", long(MaxWorkflowInputBytes + 1)}, schema.Limit},
		"long key":    {ReserveWorkflow{c.UID, strings.Repeat("k", 257), "review", json.RawMessage(`1`)}, schema.Limit},
	} {
		if _, err := act(l, tc.cmd); !errors.Is(err, tc.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The same key of another resource is another run.
	f.controller("pr-2", `1`)
	if w2 := mustAct(f.look(merger2), ReserveWorkflow{f.live("pr-2").UID, "review", "review", json.RawMessage(`{"pr":1}`)}); w2.Run == w.Run {
		t.Error("two resources have one run")
	}
}

func (f *flow) live(key string) ControllerView {
	f.Helper()
	v, err := f.LiveController(f.Context(), f.project, "merger", key)
	if err != nil {
		f.Fatal(err)
	}
	return v
}

// A run is shown as it is before the controller has noted it, and noted once.
func TestObserveWorkflows(t *testing.T) { // D11, V1, W5
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	l := f.look(merger1)
	endings := map[string]struct {
		end  func(o *owner)
		want WorkflowStatus
	}{
		"completes": {func(o *owner) { must(o, CompleteRun{Run: o.run, Output: json.RawMessage(`{"ok":true}`)}) }, WorkflowSucceeded},
		"fails":     {func(o *owner) { must(o, FailRun{Run: o.run, Error: json.RawMessage(`{"code":"x"}`)}) }, WorkflowFailed},
		"cancelled": {func(o *owner) { must(o, CancelRun{Run: o.run}) }, WorkflowInterrupted},
		"waits":     {func(o *owner) { must(o, ParkRun{Run: o.run}) }, WorkflowWaiting},
		"runs":      {func(*owner) {}, WorkflowRunning},
	}
	for key := range endings {
		l.started(key)
		if w := l.workflow(key); w.Status != WorkflowRunning || w.Noted != WorkflowRunning {
			t.Fatalf("%s: %+v", key, w)
		}
	}
	if nothing := mustDo(t, f.Store, l.permit(), ObserveWorkflows{c.UID}); !nothing.Adopted {
		t.Error("nothing has changed, and it was an event")
	}
	for key, e := range endings {
		o := f.own(host1, l.workflow(key).Run).start()
		e.end(o)
		w := l.workflow(key)
		if w.Status != e.want || w.Noted != WorkflowRunning {
			t.Errorf("%s: %+v", key, w)
		}
		if (w.Output != nil) != (e.want == WorkflowSucceeded) || (w.EndedAt != 0) != (e.want != WorkflowWaiting && e.want != WorkflowRunning) {
			t.Errorf("%s: %+v", key, w)
		}
	}
	if v := f.viewed(c.UID); v.Unnoted != 4 {
		t.Errorf("%d are not noted", v.Unnoted)
	}
	if done := mustDo(t, f.Store, l.permit(), ObserveWorkflows{c.UID}); done.Adopted {
		t.Error("adopted")
	}
	for key, e := range endings {
		if w := l.workflow(key); w.Noted != e.want || w.Status != e.want {
			t.Errorf("%s: %+v", key, w)
		}
	}
	if again := mustDo(t, f.Store, l.permit(), ObserveWorkflows{c.UID}); !again.Adopted || f.viewed(c.UID).Unnoted != 0 {
		t.Errorf("%+v", again)
	}
	var keys []string
	for after := ""; ; {
		page, err := f.ControllerWorkflows(t.Context(), c.UID, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, w := range page {
			keys, after = append(keys, w.Key), w.Key
		}
	}
	if !slices.Equal(keys, []string{"cancelled", "completes", "fails", "runs", "waits"}) {
		t.Errorf("%v", keys)
	}
	_, err := f.ControllerWorkflow(t.Context(), c.UID, "none")
	wantCode(t, err, schema.NotFound)
}

// A run that was promised and can't start is given up, and then nobody can start it (C55).
func TestAbandonWorkflow(t *testing.T) { // D11
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	l := f.look(merger1)
	w := mustAct(l, ReserveWorkflow{c.UID, "k", "review", json.RawMessage(`{"pr":1}`)})
	done := mustAct(l, AbandonWorkflow{c.UID, "k", json.RawMessage(`{"code":"no_definition"}`)})
	if done.Status != WorkflowFailed || done.Error == nil || done.EndedAt == 0 {
		t.Errorf("%+v", done)
	}
	if got := l.workflow("k"); got.Status != WorkflowFailed || got.Noted != WorkflowFailed || *got.Error != *done.Error {
		t.Errorf("%+v", got)
	}
	_, err := Do(t.Context(), f.Store, Permit{Actor: merger1, Claim: l.claim}, l.child(w, `{"pr":1}`))
	wantCode(t, err, schema.Conflict)
	_, err = f.Run(t.Context(), w.Run)
	wantCode(t, err, schema.NotFound)
	_, err = act(l, AbandonWorkflow{c.UID, "k", json.RawMessage(`1`)})
	wantCode(t, err, schema.IllegalTransition)

	l.started("begun")
	_, err = act(l, AbandonWorkflow{c.UID, "begun", json.RawMessage(`1`)})
	wantCode(t, err, schema.IllegalTransition)
	_, err = act(l, AbandonWorkflow{c.UID, "none", json.RawMessage(`1`)})
	wantCode(t, err, schema.NotFound)
	_, err = act(l, AbandonWorkflow{Controller: c.UID, Key: "k"})
	wantCode(t, err, schema.Invalid)

	// What has begun can be cancelled before anybody works on it.
	run := l.workflow("begun").Run
	mustDo(t, f.Store, Permit{Actor: merger1, Expected: AnyRevision, Claim: l.claim}, RequestCancel{run})
	if got := l.workflow("begun"); got.Status != WorkflowInterrupted {
		t.Errorf("%+v", got)
	}
}

// A child is created under the claim, with the input that was reserved, once.
func TestCreateChild(t *testing.T) { // D11, W5, R8
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	l := f.look(merger1)
	w := mustAct(l, ReserveWorkflow{c.UID, "k", "review", json.RawMessage(`{"pr":1}`)})
	create := l.child(w, `{"pr":1}`)
	for name, tc := range map[string]struct {
		permit Permit
		cmd    CreateRun
		code   schema.Code
	}{
		"without a claim": {Permit{Actor: merger1}, create, schema.Denied},
		"by a host":       {Permit{Actor: host1}, CreateRun{RunSpec: create.RunSpec}, schema.Conflict},
		"another input":   {Permit{Actor: merger1, Claim: l.claim}, l.child(w, `{"pr":2}`), schema.Conflict},
	} {
		_, err := Do(t.Context(), f.Store, tc.permit, tc.cmd)
		if !errors.Is(err, tc.code) {
			t.Errorf("%s: %v, want code %s", name, err, tc.code)
		}
	}
	mustDo(t, f.Store, Permit{Actor: merger1, Claim: l.claim}, create)
	if again := mustDo(t, f.Store, Permit{Actor: merger1, Claim: l.claim}, create); !again.Adopted {
		t.Error("created twice")
	}
	must(f.own(host1, w.Run).start(), CompleteRun{Run: w.Run})
	effects, err := f.Effects(t.Context(), EffectFilter{}, 0, 10)
	if err != nil || len(effects) != 0 {
		t.Errorf("a direct run has effects: %s, %v", fmt.Sprint(effects), err)
	}
}
