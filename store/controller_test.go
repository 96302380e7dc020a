package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

var (
	merger1 = Actor{ControllerActor, "merger-1"}
	merger2 = Actor{ControllerActor, "merger-2"}
	anybody = Permit{Actor: host1, Expected: AnyRevision}
)

func (f *flow) specOf(key, spec string) ApplyController {
	return ApplyController{Project: f.project, Name: "merger", Key: key, Spec: json.RawMessage(spec)}
}

// controller applies a spec.
func (f *flow) controller(key, spec string) *Controller {
	f.Helper()
	return mustDo(f, f.Store, anybody, f.specOf(key, spec)).Result
}

// looking is a controller at work on a resource.
type looking struct {
	*flow
	actor   Actor
	uid     string
	version int64
	claim   *Claim
}

// look claims the next resource that is due.
func (f *flow) look(actor Actor) *looking {
	f.Helper()
	got := mustDo(f, f.Store, Permit{Actor: actor, Expected: AnyRevision}, ClaimController{Project: f.project, TTLMS: 60_000}).Result
	return &looking{f, actor, got.Controller.UID, got.Controller.Queue.Version, got.Claim}
}

func (l *looking) permit() Permit { return as(l.actor, l.claim) }

func act[R any](l *looking, cmd Command[R]) (R, error) {
	done, err := Do(context.Background(), l.Store, l.permit(), cmd)
	return done.Result, err
}

func mustAct[R any](l *looking, cmd Command[R]) R {
	l.Helper()
	return mustDo(l, l.Store, l.permit(), cmd).Result
}

func (f *flow) viewed(uid string) ControllerView {
	f.Helper()
	v, err := f.Controller(context.Background(), uid)
	if err != nil {
		f.Fatal(err)
	}
	return v
}

func eventTypes(t testing.TB, s *Store, resource ResourceID) (types []string) {
	t.Helper()
	events, err := s.Events(context.Background(), EventFilter{Resource: resource}, 0, MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		types = append(types, e.Type)
	}
	return types
}

func TestApplyController(t *testing.T) { // D11, W5
	f := newFlow(t)
	first := mustDo(t, f.Store, anybody, f.specOf("pr-1", `{"pr":1,"method":"squash"}`))
	c := first.Result
	if first.Adopted || c.Generation != 1 || c.Revision != 1 || first.Revision != 1 || c.Queue.AvailableAt != f.clock.millis() || c.Queue.Version != 1 {
		t.Fatalf("%+v", first)
	}
	same := mustDo(t, f.Store, anybody, f.specOf("pr-1", ` {"method": "squash", "pr": 1.0}`))
	if !same.Adopted || same.Result.UID != c.UID || same.Result.Generation != 1 {
		t.Errorf("the same spec, spelled in another way: %+v", same)
	}
	f.clock.move(time.Minute)
	changed := mustDo(t, f.Store, Permit{Actor: control, Expected: 1}, f.specOf("pr-1", `{"pr":1,"method":"rebase"}`))
	if c := changed.Result; changed.Revision != 2 || c.Generation != 2 || c.Queue.Version != 2 || c.UID != first.Result.UID || c.CreatedAt == c.UpdatedAt {
		t.Errorf("another spec: %+v", changed)
	}
	back := f.controller("pr-1", `{"pr":1,"method":"squash"}`)
	if back.Generation != 3 {
		t.Errorf("the first spec again: generation %d", back.Generation)
	}
	if v := f.viewed(c.UID); v.Spec != first.Result.Spec || v.Generation != 3 || v.Revision != 3 || v.Phase != ControllerDue {
		t.Errorf("%+v", v)
	}
	if elsewhere := f.controller("pr-2", `{"pr":1,"method":"squash"}`); elsewhere.UID == c.UID || elsewhere.Generation != 1 {
		t.Errorf("%+v", elsewhere)
	}
	f.clock.move(-time.Hour)
	if back := f.controller("pr-1", `{"pr":2}`); back.UpdatedAt < changed.Result.UpdatedAt || back.Queue.EnqueuedAt < back.CreatedAt { // C51
		t.Errorf("a clock that went back: %+v", back)
	}
	f.controller("pr-1", `{"pr":1,"method":"squash"}`)
	spec, generation, err := f.ControllerSpec(t.Context(), c.UID)
	if err != nil || string(spec) != `{"method":"squash","pr":1}` || generation != 5 {
		t.Errorf("%s, %d, %v", spec, generation, err)
	}
}

func TestApplyControllerRefusals(t *testing.T) { // D11, W1, R11
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	gone := f.controller("gone", `1`)
	keep := f.controller("going", `1`)
	l := f.ownController(merger1, keep.UID)
	mustAct(l, AddFinalizer{keep.UID, "x"})
	for _, uid := range []string{gone.UID, keep.UID} {
		mustDo(t, f.Store, anybody, RequestControllerDeletion{uid})
	}
	before := dump(t, f.Path())
	for name, tc := range map[string]struct {
		permit Permit
		change func(*ApplyController)
		code   schema.Code
	}{
		"human":                    {Permit{Actor: Actor{HumanActor, "me"}, Expected: AnyRevision}, nil, schema.Denied},
		"policy":                   {Permit{Actor: Actor{PolicyActor, ""}, Expected: AnyRevision}, nil, schema.Denied},
		"channel":                  {Permit{Actor: Actor{ChannelActor, "c"}, Expected: AnyRevision}, nil, schema.Denied},
		"to be created":            {Permit{Actor: host1}, nil, schema.Conflict},
		"stale":                    {Permit{Actor: host1, Expected: 9}, nil, schema.StaleRevision},
		"deleted":                  {Permit{Actor: host1, Expected: 1}, func(a *ApplyController) { a.Key = "gone" }, schema.NotFound},
		"to be deleted":            {anybody, func(a *ApplyController) { a.Key = "going" }, schema.IllegalTransition},
		"to be deleted, same spec": {anybody, func(a *ApplyController) { a.Key = "going"; a.Spec = json.RawMessage(`1`) }, schema.IllegalTransition},
		"no project":               {anybody, func(a *ApplyController) { a.Project = "nowhere" }, schema.NotFound},
		"no key":                   {anybody, func(a *ApplyController) { a.Key = "" }, schema.Invalid},
		"no name":                  {anybody, func(a *ApplyController) { a.Name = "" }, schema.Invalid},
		"long key":                 {anybody, func(a *ApplyController) { a.Key = strings.Repeat("k", 257) }, schema.Limit},
		"no spec":                  {anybody, func(a *ApplyController) { a.Spec = nil }, schema.Invalid},
		"no JSON":                  {anybody, func(a *ApplyController) { a.Spec = json.RawMessage(`{`) }, schema.Invalid},
		"long spec":                {anybody, func(a *ApplyController) { a.Spec = long(MaxSpecBytes + 1) }, schema.Limit},
		"secret":                   {anybody, func(a *ApplyController) { a.Spec = json.RawMessage(`"AKIA` + strings.Repeat("A", 16) + `"`) }, schema.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := f.specOf("pr-1", `2`)
			if tc.change != nil {
				tc.change(&cmd)
			}
			_, err := Do(t.Context(), f.Store, tc.permit, cmd)
			wantCode(t, err, tc.code)
			if name == "to be created" {
				if e := cause[*ConflictError](t, err); e.Winner.(Controller).UID != c.UID {
					t.Errorf("%+v", e)
				}
			}
		})
	}
	if dump(t, f.Path()) != before {
		t.Error("a refused command left something behind")
	}
	mustDo(t, f.Store, anybody, ApplyController{f.project, "merger", "long", long(MaxSpecBytes)})
}

// long returns a JSON text of n bytes.
func long(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }

// own2 claims the lease of a controller resource, due or not.
func (f *flow) ownController(actor Actor, uid string) *looking {
	f.Helper()
	claim := mustClaim(f, f.Store, actor, NewResourceID(ControllerResource, uid), time.Minute)
	return &looking{f, actor, uid, f.viewed(uid).Queue.Version, claim}
}

func TestControllerStatus(t *testing.T) { // D11, W5
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	l := f.look(merger1)
	ready := ControllerStatus{
		Conditions: []ControllerCondition{{Type: "ready", Status: ConditionFalse, Reason: "checks", Message: "two checks\nto go", Since: 7}},
		Detail:     json.RawMessage(`{"sha":"abc"}`),
	}
	first := mustDo(t, f.Store, l.permit(), SetControllerStatus{c.UID, 1, ready})
	if first.Adopted || first.Result.Observed != 1 || first.Result.Status == nil {
		t.Fatalf("%+v", first)
	}
	b, err := f.Blob(t.Context(), *first.Result.Status)
	if want := `{"conditions":[{"message":"two checks\nto go","reason":"checks","since":7,"status":"false","type":"ready"}],"detail":{"sha":"abc"}}`; err != nil || string(b.Bytes) != want {
		t.Errorf("%s, %v", b.Bytes, err)
	}
	if again := mustDo(t, f.Store, l.permit(), SetControllerStatus{c.UID, 1, ready}); !again.Adopted {
		t.Error("the same status was an event again")
	}
	f.controller("pr-1", `2`)
	if v := f.viewed(c.UID); v.Generation != 2 || v.Observed != 1 {
		t.Errorf("a new spec and an old status: %+v", v)
	}
	mustAct(l, SetControllerStatus{c.UID, 2, ready})
	_, err = act(l, SetControllerStatus{c.UID, 1, ControllerStatus{}})
	wantCode(t, err, schema.IllegalTransition)
	_, err = act(l, SetControllerStatus{c.UID, 3, ready})
	wantCode(t, err, schema.Invalid)
	for name, tc := range map[string]struct {
		status ControllerStatus
		code   schema.Code
	}{
		"twice":         {ControllerStatus{Conditions: []ControllerCondition{{Type: "a", Status: "true"}, {Type: "a", Status: "false"}}}, schema.Invalid},
		"status":        {ControllerStatus{Conditions: []ControllerCondition{{Type: "a", Status: "maybe"}}}, schema.Invalid},
		"type":          {ControllerStatus{Conditions: []ControllerCondition{{Status: "true"}}}, schema.Invalid},
		"reason":        {ControllerStatus{Conditions: []ControllerCondition{{Type: "a", Status: "true", Reason: "a\nb"}}}, schema.Invalid},
		"since":         {ControllerStatus{Conditions: []ControllerCondition{{Type: "a", Status: "true", Since: -1}}}, schema.Invalid},
		"message":       {ControllerStatus{Conditions: []ControllerCondition{{Type: "a", Status: "true", Message: strings.Repeat("m", 2001)}}}, schema.Limit},
		"no JSON":       {ControllerStatus{Detail: json.RawMessage(`{`)}, schema.Invalid},
		"too long":      {ControllerStatus{Detail: long(MaxStatusBytes)}, schema.Limit},
		"33 conditions": {ControllerStatus{Conditions: make([]ControllerCondition, 33)}, schema.Limit},
	} {
		_, err := act(l, SetControllerStatus{c.UID, 2, tc.status})
		if !errors.Is(err, tc.code) {
			t.Errorf("%s: %v, want code %s", name, err, tc.code)
		}
	}
}

func TestControllerEvents(t *testing.T) { // D11, R5
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	l := f.look(merger1)
	done := mustDo(t, f.Store, l.permit(), RecordControllerEvent{c.UID, "checks.green", json.RawMessage(`{ "n": 3 }`)})
	events, err := f.Events(t.Context(), EventFilter{Resource: c.Resource()}, done.Sequence-1, 1)
	if err != nil || len(events) != 1 || events[0].Type != "controller.event.checks.green" || events[0].Actor != merger1 || events[0].Generation != 1 {
		t.Fatalf("%+v, %v", events, err)
	}
	if b, err := f.Blob(t.Context(), events[0].Payload); err != nil || string(b.Bytes) != `{"n":3}` {
		t.Errorf("%s, %v", b.Bytes, err)
	}
	for kind, payload := range map[string]json.RawMessage{"": json.RawMessage(`1`), "A": json.RawMessage(`1`), "a-b": json.RawMessage(`1`), "a": nil} {
		_, err := act(l, RecordControllerEvent{c.UID, kind, payload})
		if !errors.Is(err, schema.Invalid) {
			t.Errorf("%q: %v", kind, err)
		}
	}
	_, err = act(l, RecordControllerEvent{c.UID, "a", long(MaxControllerEventBytes + 1)})
	wantCode(t, err, schema.Limit)
}

func TestControllerDeletion(t *testing.T) { // D11, C52, W5
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	l := f.look(merger1)
	mustAct(l, AddFinalizer{c.UID, "close-pr"})
	mustAct(l, AddFinalizer{c.UID, "delete-branch"})
	mustAct(l, SettleController{c.UID, l.version})
	if v := f.viewed(c.UID); v.Phase != ControllerIdle {
		t.Errorf("phase %s", v.Phase)
	}
	f.clock.move(time.Second)
	asked := mustDo(t, f.Store, Permit{Actor: control, Expected: AnyRevision}, RequestControllerDeletion{c.UID})
	if asked.Result.DeletionRequestedAt == 0 || asked.Result.DeletedAt != 0 || f.viewed(c.UID).Phase != ControllerDue {
		t.Fatalf("%+v", asked.Result)
	}
	f.clock.move(time.Second)
	if again := mustDo(t, f.Store, anybody, RequestControllerDeletion{c.UID}); !again.Adopted || again.Result.DeletionRequestedAt != asked.Result.DeletionRequestedAt {
		t.Errorf("%+v", again)
	}
	l = f.look(merger2)
	_, err := act(l, AddFinalizer{c.UID, "more"})
	wantCode(t, err, schema.IllegalTransition)
	_, err = act(l, RemoveFinalizer{c.UID, "delete-branch"})
	wantCode(t, err, schema.IllegalTransition)
	if left := mustAct(l, RemoveFinalizer{c.UID, "close-pr"}); !slices.Equal(left.Finalizers, []string{"delete-branch"}) || left.DeletedAt != 0 {
		t.Errorf("%+v", left)
	}
	if again := mustDo(t, f.Store, l.permit(), RemoveFinalizer{c.UID, "close-pr"}); !again.Adopted {
		t.Error("a finalizer was removed twice")
	}
	last := mustAct(l, RemoveFinalizer{c.UID, "delete-branch"})
	if last.DeletedAt == 0 || len(last.Finalizers) != 0 || last.Queue.AvailableAt != 0 {
		t.Fatalf("%+v", last)
	}
	res, err := f.Resource(t.Context(), c.Resource())
	if err != nil || res.EndedAt != last.DeletedAt {
		t.Errorf("%+v, %v", res, err)
	}
	if lease, err := f.Lease(t.Context(), c.Resource()); err != nil || lease.Owner != nil {
		t.Errorf("who went is still owned: %+v, %v", lease, err)
	}
	_, err = act(l, SetControllerStatus{c.UID, 1, ControllerStatus{}})
	wantCode(t, err, schema.StaleClaim)
	_, err = Do(t.Context(), f.Store, anybody, EnqueueController{c.UID, 0})
	wantCode(t, err, schema.IllegalTransition)
	_, err = Do(t.Context(), f.Store, anybody, ClaimLease{c.Resource(), 1000})
	wantCode(t, err, schema.IllegalTransition)

	next := f.controller("pr-1", `1`)
	if next.UID == c.UID || next.Generation != 1 || next.Status != nil {
		t.Errorf("the next one has the uid %s, as the one before, or its state: %+v", next.UID, next)
	}
	if v := f.viewed(c.UID); v.Phase != ControllerDeleted {
		t.Errorf("phase %s", v.Phase)
	}
	want := []string{
		"controller.created", "controller.claimed", "controller.finalizer_added", "controller.finalizer_added", "controller.settled",
		"controller.deletion_requested", "controller.claimed", "controller.finalizer_removed", "controller.deleted",
	}
	if got := eventTypes(t, f.Store, c.Resource()); !slices.Equal(got, want) {
		t.Errorf("events %v", got)
	}
}

func TestControllerDeletionWhileOwned(t *testing.T) { // D11, C52
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	l := f.look(merger1)
	gone := mustDo(t, f.Store, anybody, RequestControllerDeletion{c.UID}).Result
	if gone.DeletedAt == 0 {
		t.Fatal("nothing keeps it")
	}
	_, err := act(l, AddFinalizer{c.UID, "late"})
	wantCode(t, err, schema.StaleClaim)
	_, err = act(l, SettleController{c.UID, l.version})
	wantCode(t, err, schema.StaleClaim)
	_, err = Do(t.Context(), f.Store, anybody, ClaimController{Project: f.project, TTLMS: 1000})
	wantCode(t, err, schema.NotFound)
}

func TestEffectsOutliveTheirController(t *testing.T) { // R6, R7, D11
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	l := f.look(merger1)
	e := mustDo(t, f.Store, Permit{Actor: merger1, Expected: f.viewed(c.UID).Revision, Claim: l.claim}, EnsureEffect{c.Resource(), EffectSpec{
		Type: "pr.close", Key: "1", Payload: json.RawMessage(`1`), External: true, Scope: Scope{ControllerScope, c.UID},
	}}).Result
	permit := Permit{Actor: host1, Expected: e.Revision}
	_, err := Do(t.Context(), f.Store, permit, BeginEffect{e.ID, 1000})
	wantCode(t, err, schema.Denied) // as long as somebody can own the controller
	if gone := mustDo(t, f.Store, anybody, RequestControllerDeletion{c.UID}).Result; gone.DeletedAt == 0 {
		t.Fatal("nothing keeps it")
	}
	begun := mustDo(t, f.Store, permit, BeginEffect{e.ID, 1000}).Result
	settled := mustDo(t, f.Store, as(host1, begun.Claim), SettleEffect{Effect: e.ID, Outcome: OutcomeApplied}).Result
	if settled.Status != EffectApplied {
		t.Errorf("%+v", settled)
	}
}

func TestFinalizers(t *testing.T) { // D11
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	l := f.look(merger1)
	for i := range MaxFinalizers {
		mustAct(l, AddFinalizer{c.UID, fmt.Sprintf("f%02d", MaxFinalizers-i)})
	}
	_, err := act(l, AddFinalizer{c.UID, "more"})
	wantCode(t, err, schema.Limit)
	if again := mustDo(t, f.Store, l.permit(), AddFinalizer{c.UID, "f01"}); !again.Adopted {
		t.Error("a finalizer was added twice")
	}
	mustAct(l, RemoveFinalizer{c.UID, "f05"}) // before the deletion is requested any can go
	mustAct(l, AddFinalizer{c.UID, "f05"})
	names := f.viewed(c.UID).Finalizers
	if len(names) != MaxFinalizers || names[0] != "f32" || names[MaxFinalizers-1] != "f05" {
		t.Errorf("%v", names)
	}
}

// Each command of the owner is refused to whom it is not for.
func TestControllerOwnersOnly(t *testing.T) { // D11, W3, R3, C50
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	elsewhere := f.controller("pr-2", `1`)
	stale := f.ownController(merger1, c.UID)
	other2 := f.ownController(merger2, elsewhere.UID)
	f.clock.move(2 * time.Minute)
	current := f.ownController(merger1, c.UID) // by the same name
	if current.claim.Generation != 2 {
		t.Fatalf("generation %d", current.claim.Generation)
	}
	commands := map[string]func(p Permit) error{}
	add := func(name string, do func(p Permit) error) { commands[name] = do }
	add("add_finalizer", try(f.Store, AddFinalizer{c.UID, "x"}))
	add("set_status", try(f.Store, SetControllerStatus{c.UID, 1, ControllerStatus{}}))
	add("record", try(f.Store, RecordControllerEvent{c.UID, "x", json.RawMessage(`1`)}))
	add("settle", try(f.Store, SettleController{c.UID, 1}))
	add("requeue", try(f.Store, RequeueController{c.UID, 1, 5}))
	add("back_off", try(f.Store, BackOffController{Controller: c.UID, Version: 1, Code: "x"}))
	add("reserve", try(f.Store, ReserveWorkflow{c.UID, "k", "review", json.RawMessage(`1`)}))
	add("abandon", try(f.Store, AbandonWorkflow{c.UID, "k", json.RawMessage(`1`)}))
	add("ensure", func(p Permit) error {
		p.Expected = f.viewed(c.UID).Revision
		return try(f.Store, EnsureEffect{c.Resource(), EffectSpec{Type: "t", Key: "k", Payload: json.RawMessage(`1`), Scope: Scope{ControllerScope, c.UID}}})(p)
	})
	before := dump(t, f.Path())
	for name, do := range commands {
		for who, tc := range map[string]struct {
			permit Permit
			code   schema.Code
		}{
			"the owner before":   {stale.permit(), schema.StaleClaim},
			"without a claim":    {Permit{Actor: merger1, Expected: AnyRevision}, schema.Denied},
			"another's claim":    {as(merger2, current.claim), schema.Denied},
			"claim on another":   {as(merger2, other2.claim), schema.Denied},
			"human":              {Permit{Actor: Actor{HumanActor, "me"}, Expected: AnyRevision}, schema.Denied},
			"control":            {Permit{Actor: control, Expected: AnyRevision}, schema.Denied},
			"policy":             {Permit{Actor: Actor{PolicyActor, ""}, Expected: AnyRevision}, schema.Denied},
			"channel":            {as(Actor{ChannelActor, "c"}, current.claim), schema.Denied},
			"channel, unclaimed": {Permit{Actor: Actor{ChannelActor, "c"}, Expected: AnyRevision}, schema.Denied},
		} {
			if err := do(tc.permit); !errors.Is(err, tc.code) {
				t.Errorf("%s by %s: %v, want code %s", name, who, err, tc.code)
			}
		}
	}
	if dump(t, f.Path()) != before {
		t.Error("a refused command left something behind")
	}
}

// try returns a function that sends a command with a permit.
func try[R any](s *Store, cmd Command[R]) func(Permit) error {
	return func(p Permit) error {
		_, err := Do(context.Background(), s, p, cmd)
		return err
	}
}

func TestListControllers(t *testing.T) { // V2
	f := newFlow(t)
	var want []string
	for i := range 7 {
		c := f.controller(fmt.Sprint("pr-", i), fmt.Sprint(i))
		if i == 3 {
			mustDo(t, f.Store, anybody, RequestControllerDeletion{c.UID})
			continue
		}
		want = append(want, c.Key)
	}
	for _, project := range []string{"", f.project} {
		var got []string
		for after := (Controller{}); ; {
			page, err := f.Controllers(t.Context(), ControllerFilter{Project: project}, after, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, after = range page {
				got = append(got, after.Key)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("project %q: %v", project, got)
		}
		all, err := f.Controllers(t.Context(), ControllerFilter{Project: project, Deleted: true}, Controller{}, 10)
		if err != nil || len(all) != 7 {
			t.Errorf("%d with the deleted one, %v", len(all), err)
		}
		var queued []string
		for after := (Place{}); ; {
			page, err := f.QueuedControllers(t.Context(), project, after, 4)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, c := range page {
				queued, after = append(queued, c.Key), c.QueuePlace()
			}
		}
		if slices.Sort(queued); !slices.Equal(queued, want) {
			t.Errorf("project %q, queue: %v", project, queued)
		}
	}
	if none, err := f.Controllers(t.Context(), ControllerFilter{Project: "nowhere"}, Controller{}, 10); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
	_, err := f.Controllers(t.Context(), ControllerFilter{}, Controller{}, 0)
	wantCode(t, err, schema.Invalid)
	_, err = f.LiveController(t.Context(), f.project, "merger", "pr-3")
	wantCode(t, err, schema.NotFound)
	if v, err := f.LiveController(t.Context(), f.project, "merger", "pr-4"); err != nil || v.Key != "pr-4" {
		t.Errorf("%+v, %v", v, err)
	}
}
