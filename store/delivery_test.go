package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pistate/schema"
)

func note(run, attempt string, index int) NewNotification {
	return NewNotification{Run: run, Attempt: attempt, Index: index, Kind: ProgressNotification, Session: "pi1", Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, index))}
}

// screen is what a Pi session shows: an entry for each notification or turn, by its id.
type screen struct {
	flow  *flow
	shown []string
}

func (sc *screen) entry(id string) string {
	if i := slices.Index(sc.shown, id); i >= 0 {
		return fmt.Sprint("entry-", i)
	}
	return ""
}

// worker shows what is due in the session.
func (sc *screen) worker(actor Actor, session string, apply func(id string) (Applied, error)) *EffectWorker {
	if apply == nil {
		apply = func(id string) (Applied, error) {
			sc.shown = append(sc.shown, id)
			return Applied{ExternalRef: sc.entry(id)}, nil
		}
	}
	h := EffectHandler{
		Apply: func(_ context.Context, b Begun, _ json.RawMessage) (Applied, error) { return apply(b.Effect.Key) },
		Observe: func(_ context.Context, e Effect, _ json.RawMessage) (Observation, error) {
			entry := sc.entry(e.Key)
			return Observation{Applied: entry != "", ExternalRef: entry}, nil
		},
	}
	return &EffectWorker{
		Store: sc.flow.Store, Actor: actor, Scope: SessionScope(session),
		Handlers: map[string]EffectHandler{NotificationEffect: h, TurnEffect: h},
	}
}

// show applies what is due in the session pi1 and resolves it.
func (sc *screen) show(w *EffectWorker) (report EffectReport) {
	sc.flow.Helper()
	report, err := w.Run(context.Background(), 100)
	if err == nil {
		_, err = ResolveDeliveries(context.Background(), sc.flow.Store, w.Actor, "pi1", 100)
	}
	if err != nil {
		sc.flow.Fatal(err)
	}
	return report
}

func (f *flow) notified(id string) NotificationView {
	f.Helper()
	v, err := f.Notification(f.Context(), id)
	if err != nil {
		f.Fatal(err)
	}
	return v
}

// The command that causes a notification, the notification, and the effect that delivers it come together.
func TestNotificationsComeWithTheirCause(t *testing.T) { // D12, R6, W1
	f := newFlow(t)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	a := o.begin("work")
	turn := NewTurn{Run: "r1", Session: "pi1", Key: "after r1", Payload: json.RawMessage(`"go on"`), EligibleAt: f.clock.millis() + 60_000}
	progress := Delivering[*Appended]{
		Command: AppendUpdates{Run: "r1", Attempt: a.ID, First: 1, Updates: []NewUpdate{{Type: "t", Data: json.RawMessage(`1`)}}},
		Notify:  []NewNotification{note("r1", a.ID, 0), note("r1", a.ID, 1)},
		Turns:   []NewTurn{turn},
	}
	done := mustDo(t, f.Store, o.permit(host1, o.claim, "r1"), progress)
	if done.Adopted || done.Result.Last != 1 {
		t.Fatalf("%+v", done)
	}
	again := mustDo(t, f.Store, o.permit(host1, o.claim, "r1"), progress)
	if !again.Adopted {
		t.Errorf("%+v", again)
	}
	n := f.notified(notificationID("r1", a.ID, 1))
	if n.Run != "r1" || n.Attempt != a.ID || n.Index != 1 || n.Kind != ProgressNotification || n.Session != "pi1" || n.EffectStatus != EffectPending || n.Resolution != "" {
		t.Errorf("%+v", n)
	}
	e, err := f.Effect(t.Context(), n.Effect)
	if err != nil || e.Source != "run:r1" || e.SourceRevision != done.Revision || e.Scope != SessionScope("pi1") || e.Key != n.ID || e.Payload != n.Payload || !e.External {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := f.Effect(t.Context(), effectID("run:r1", TurnEffect, turnID("pi1", "after r1"))); err != nil || e.AvailableAt != turn.EligibleAt {
		t.Errorf("%+v, %v", e, err)
	}

	final := note("r1", "", 0)
	final.Kind = FinalNotification
	o.finishAll(a)
	mustDo(t, f.Store, o.permit(host1, o.claim, "r1"), Delivering[*Run]{Command: CompleteRun{Run: "r1"}, Notify: []NewNotification{final}})
	if v := f.notified(notificationID("r1", "", 0)); v.Kind != FinalNotification {
		t.Errorf("%+v", v)
	}
	list, err := f.NotificationsOfRun(t.Context(), "r1", nil, 2)
	if err != nil || len(list) != 2 || list[0].Attempt != "" || list[1].Index != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	rest, err := f.NotificationsOfRun(t.Context(), "r1", &list[1].Notification, 2)
	if err != nil || len(rest) != 1 || rest[0].Index != 1 {
		t.Errorf("%+v, %v", rest, err)
	}
}

// finishAll finishes an attempt that expects a submitted output.
func (o *owner) finishAll(a *NodeAttempt) {
	o.Helper()
	must(o, FinishAttempt{Run: o.run, Attempt: a.ID, Output: json.RawMessage(`{}`)})
}

// What a command causes is checked like the command, and nothing of either is left.
func TestDeliveringRefusals(t *testing.T) { // D12, D9, W2, W5
	f := newFlow(t)
	f.create(f.spec("r1"))
	f.create(f.spec("r2"))
	o := f.own(host1, "r1").start()
	must(o, CreateNotification{note("r1", "", 7)})
	updates := func() AppendUpdates {
		return AppendUpdates{Run: "r1", Attempt: "none", First: 1, Updates: []NewUpdate{{Type: "t", Data: json.RawMessage(`1`)}}}
	}
	other := note("r1", "", 7)
	other.Payload = json.RawMessage(`"other"`)
	nobody := note("r1", "none", 0)
	bad := func(change func(*NewNotification)) []NewNotification {
		n := note("r1", "", 1)
		change(&n)
		return []NewNotification{n}
	}
	before := dump(t, f.Path())
	for name, tc := range map[string]struct {
		cmd  Delivering[*Run]
		code schema.Code
	}{
		"another one":      {Delivering[*Run]{Notify: []NewNotification{other}}, schema.Conflict},
		"no such attempt":  {Delivering[*Run]{Notify: []NewNotification{nobody}}, schema.NotFound},
		"another run":      {Delivering[*Run]{Notify: []NewNotification{note("r2", "", 0)}}, schema.Denied},
		"another's turn":   {Delivering[*Run]{Turns: []NewTurn{{Run: "r2", Session: "pi1", Key: "k", Payload: json.RawMessage(`1`)}}}, schema.Denied},
		"no claim":         {Delivering[*Run]{Command: PauseRun{"r1"}, Notify: []NewNotification{note("r1", "", 0)}}, schema.Denied},
		"index":            {Delivering[*Run]{Notify: bad(func(n *NewNotification) { n.Index = -1 })}, schema.Invalid},
		"kind":             {Delivering[*Run]{Notify: bad(func(n *NewNotification) { n.Kind = "x" })}, schema.Invalid},
		"session":          {Delivering[*Run]{Notify: bad(func(n *NewNotification) { n.Session = "" })}, schema.Invalid},
		"payload":          {Delivering[*Run]{Notify: bad(func(n *NewNotification) { n.Payload = nil })}, schema.Invalid},
		"long payload":     {Delivering[*Run]{Notify: bad(func(n *NewNotification) { n.Payload = long(MaxDeliveryBytes + 1) })}, schema.Limit},
		"too many":         {Delivering[*Run]{Notify: make([]NewNotification, 101)}, schema.Limit},
		"turn without key": {Delivering[*Run]{Turns: []NewTurn{{Session: "pi1", Payload: json.RawMessage(`1`)}}}, schema.Invalid},
		"turn in the past": {Delivering[*Run]{Turns: []NewTurn{{Session: "pi1", Key: "k", Payload: json.RawMessage(`1`), EligibleAt: -1}}}, schema.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.cmd.Command == nil {
				tc.cmd.Command = ParkRun{Run: "r1"}
			}
			_, err := Do(t.Context(), f.Store, o.permit(host1, o.claim, "r1"), tc.cmd)
			wantCode(t, err, tc.code)
		})
	}
	_, err := Do(t.Context(), f.Store, o.permit(host1, o.claim, "r1"), Delivering[*Appended]{Command: updates(), Notify: []NewNotification{note("r1", "", 0)}})
	wantCode(t, err, schema.NotFound) // the command's own refusal
	_, err = Do(t.Context(), f.Store, anybody, Delivering[*QueueClaim]{Command: ClaimNext{Project: f.project, TTLMS: 1}, Notify: []NewNotification{note("r1", "", 0)}})
	wantCode(t, err, schema.Invalid)
	if dump(t, f.Path()) != before {
		t.Error("a refused command left something behind")
	}
	// A command that was carried out without what it is to cause is not the same command.
	must(o, ParkRun{Run: "r1"})
	mustDo(t, f.Store, Permit{Actor: control, Expected: AnyRevision}, RequestCancel{"r1"})
	l := f.own(host1, "r1")
	_, err = Do(t.Context(), f.Store, as(host1, l.claim), Delivering[*Run]{Command: RequestCancel{"r1"}, Notify: []NewNotification{note("r1", "", 0)}})
	wantCode(t, err, schema.Conflict)
}

func TestNotificationIsDeliveredOnce(t *testing.T) { // D12, V1, W5
	f := newFlow(t)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	sc := &screen{flow: f}
	n := must(o, CreateNotification{note("r1", "", 0)})
	if again := mustDo(t, f.Store, o.permit(host1, o.claim, "r1"), CreateNotification{note("r1", "", 0)}); !again.Adopted || again.Result.ID != n.ID {
		t.Errorf("%+v", again)
	}
	other := note("r1", "", 0)
	other.Kind = FinalNotification
	_, err := send(o, CreateNotification{other})
	wantCode(t, err, schema.Conflict)
	if e := cause[*ConflictError](t, err); e.Winner.(Notification).ID != n.ID {
		t.Errorf("%+v", e)
	}
	_, err = Do(t.Context(), f.Store, as(pi1, nil), ResolveNotification{n.ID})
	wantCode(t, err, schema.IllegalTransition)

	w := sc.worker(pi1, "pi1", nil)
	for range 3 {
		sc.show(w)
	}
	sc.show(sc.worker(pi2, "pi2", nil)) // it is not for that one
	v := f.notified(n.ID)
	if !slices.Equal(sc.shown, []string{n.ID}) || v.Resolution != ResolvedDelivered || v.Entry != "entry-0" || v.ResolvedAt == 0 {
		t.Errorf("shown %v: %+v", sc.shown, v)
	}
	if again := mustDo(t, f.Store, as(pi1, nil), ResolveNotification{n.ID}); !again.Adopted {
		t.Error("resolved twice")
	}
	_, err = Do(t.Context(), f.Store, as(control, nil), WithdrawNotification{n.ID, ResolvedCancelled})
	wantCode(t, err, schema.Conflict)
	if pending, err := f.PendingNotifications(t.Context(), "pi1", Place{}, 10); err != nil || len(pending) != 0 {
		t.Errorf("%+v, %v", pending, err)
	}

	// After the end of the run nobody owns it: then anybody who could may still notify.
	must(o, CompleteRun{Run: "r1"})
	mustDo(t, f.Store, Permit{Actor: host2, Expected: AnyRevision}, CreateNotification{note("r1", "", 1)})
}

// The worker of a session dies between showing and the receipt. What the session shows decides.
func TestDeliveryGoesByWhatTheSessionShows(t *testing.T) { // D12, R7, C53
	for name, shows := range map[string]bool{"shown": true, "not shown": false} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			sc := &screen{flow: f}
			turn := mustDo(t, f.Store, Permit{Actor: pi1, Expected: AnyRevision}, CreateTurn{NewTurn{Session: "pi1", Key: "k", Payload: json.RawMessage(`1`)}}).Result
			mustDo(t, f.Store, Permit{Actor: pi1, Expected: 1}, BeginEffect{turn.Effect, 1000})
			if shows {
				sc.shown = append(sc.shown, turn.ID)
			}
			f.clock.move(2 * time.Second) // the worker vanished
			w := sc.worker(pi1, "pi1", nil)
			sc.show(w)
			sc.show(w)
			v, err := f.Turn(t.Context(), turn.ID)
			if err != nil || len(sc.shown) != 1 || v.Resolution != ResolvedDelivered || v.Entry != "entry-0" {
				t.Errorf("taken %d times: %+v, %v", len(sc.shown), v, err)
			}
		})
	}
}

// A session that can't tell whether it shows something leaves it unresolved.
func TestDeliveryInDoubt(t *testing.T) { // D12, V1
	f := newFlow(t)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	n := must(o, CreateNotification{note("r1", "", 0)})
	sc := &screen{flow: f}
	w := sc.worker(pi1, "pi1", func(string) (Applied, error) { return Applied{}, errors.New("the terminal hung up") })
	h := w.Handlers[NotificationEffect]
	observe := h.Observe
	h.Observe = nil
	w.Handlers[NotificationEffect] = h
	if report := sc.show(w); report.Ambiguous != 1 {
		t.Errorf("%+v", report)
	}
	if v := f.notified(n.ID); v.Resolution != "" || v.EffectStatus != EffectAmbiguous {
		t.Errorf("%+v", v)
	}
	for _, cmd := range []Command[*Notification]{ResolveNotification{n.ID}, WithdrawNotification{n.ID, ResolvedSuperseded}} {
		_, err := Do(t.Context(), f.Store, as(host1, o.claim), cmd)
		wantCode(t, err, schema.IllegalTransition)
	}
	h.Observe = observe
	w.Handlers[NotificationEffect] = h
	if _, err := w.Observe(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	sc.show(w)
	if v := f.notified(n.ID); v.Resolution != ResolvedFailed || v.Entry != "" || len(sc.shown) != 0 {
		t.Errorf("%+v", v)
	}
}

func TestTurnsAreTakenWhenTheyAreDue(t *testing.T) { // D12, W5
	f := newFlow(t)
	sc := &screen{flow: f}
	now := f.clock.millis()
	create := func(key string, at Millis) Done[*TurnIntent] {
		t.Helper()
		return mustDo(t, f.Store, Permit{Actor: pi1, Expected: AnyRevision}, CreateTurn{NewTurn{Session: "pi1", Key: key, Payload: json.RawMessage(`"` + key + `"`), EligibleAt: at}})
	}
	later := create("later", now+60_000).Result
	first := create("first", 0).Result
	if first.EligibleAt != now || later.EligibleAt != now+60_000 || first.Revision != 1 {
		t.Errorf("%+v, %+v", first, later)
	}
	if again := create("later", now); !again.Adopted || again.Result.EligibleAt != now+60_000 {
		t.Errorf("%+v", again)
	}
	_, err := Do(t.Context(), f.Store, Permit{Actor: pi1, Expected: AnyRevision}, CreateTurn{NewTurn{Session: "pi1", Key: "later", Payload: json.RawMessage(`2`)}})
	wantCode(t, err, schema.Conflict)
	if e := cause[*ConflictError](t, err); e.Winner.(TurnIntent).ID != later.ID {
		t.Errorf("%+v", e)
	}
	var keys []string
	for after := (Place{}); ; {
		page, err := f.PendingTurns(t.Context(), "pi1", after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		keys, after = append(keys, page[0].Key), page[0].EligiblePlace()
	}
	if !slices.Equal(keys, []string{"first", "later"}) {
		t.Errorf("%v", keys)
	}
	w := sc.worker(pi1, "pi1", nil)
	sc.show(w)
	if !slices.Equal(sc.shown, []string{first.ID}) {
		t.Errorf("%v", sc.shown)
	}
	f.clock.move(time.Minute)
	sc.show(w)
	sc.show(w)
	if !slices.Equal(sc.shown, []string{first.ID, later.ID}) {
		t.Errorf("%v", sc.shown)
	}
	if again := create("first", 0); !again.Adopted || again.Result.Resolution != ResolvedDelivered {
		t.Errorf("a turn that was taken: %+v", again)
	}
	sc.show(w)
	if len(sc.shown) != 2 {
		t.Errorf("%v", sc.shown)
	}
}

func TestTurnsOfRun(t *testing.T) { // D12, V2, W3
	f := newFlow(t)
	f.create(f.spec("r1"))
	turn := CreateTurn{NewTurn{Run: "r1", Session: "pi1", Key: "k0", Payload: json.RawMessage(`1`)}}
	_, err := Do(t.Context(), f.Store, Permit{Actor: pi1, Expected: AnyRevision}, turn)
	wantCode(t, err, schema.Denied) // somebody may own the run
	o := f.own(host1, "r1").start()
	for i := range 3 {
		turn.Key = fmt.Sprint("k", i)
		must(o, turn)
		f.clock.move(time.Second)
	}
	var keys []string
	for after := (Place{}); ; {
		page, err := f.TurnsOfRun(t.Context(), "r1", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, v := range page {
			keys, after = append(keys, v.Key), v.Place()
		}
	}
	if !slices.Equal(keys, []string{"k0", "k1", "k2"}) {
		t.Errorf("%v", keys)
	}
	if got := eventTypes(t, f.Store, "run:r1"); got[len(got)-1] != "run.turn_wanted" {
		t.Errorf("%v", got)
	}
	turn.Run, turn.Key = "none", "k"
	_, err = Do(t.Context(), f.Store, Permit{Actor: host1, Expected: AnyRevision}, turn)
	wantCode(t, err, schema.NotFound)
	_, err = f.Turn(t.Context(), "none")
	wantCode(t, err, schema.NotFound)
	_, err = f.Notification(t.Context(), "none")
	wantCode(t, err, schema.NotFound)
	_, err = f.TurnsOfRun(t.Context(), "r1", Place{}, 0)
	wantCode(t, err, schema.Invalid)
}

func TestWithdraw(t *testing.T) { // D12, C52, W3
	f := newFlow(t)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	sc := &screen{flow: f}
	n := must(o, CreateNotification{note("r1", "", 0)})
	tn := must(o, CreateTurn{NewTurn{Run: "r1", Session: "pi1", Key: "k", Payload: json.RawMessage(`1`)}})
	for who, permit := range map[string]Permit{
		"no claim": as(host2, nil), "another session": as(pi2, nil), "human": as(Actor{HumanActor, "me"}, nil), "channel": as(Actor{ChannelActor, "c"}, nil),
	} {
		for _, err := range []error{
			try(f.Store, WithdrawNotification{n.ID, ResolvedSuperseded})(permit),
			try(f.Store, WithdrawTurn{tn.ID, ResolvedSuperseded})(permit),
		} {
			if !errors.Is(err, schema.Denied) {
				t.Errorf("%s: %v", who, err)
			}
		}
	}
	for _, resolution := range []DeliveryResolution{ResolvedDelivered, ResolvedFailed, ""} {
		wantCode(t, try(f.Store, WithdrawTurn{tn.ID, resolution})(as(control, nil)), schema.Invalid)
	}
	gone := mustDo(t, f.Store, as(host1, o.claim), WithdrawNotification{n.ID, ResolvedSuperseded})
	if v := f.notified(n.ID); v.Resolution != ResolvedSuperseded || v.EffectStatus != EffectCancelled || v.Entry != "" || gone.Result.Revision != 2 {
		t.Errorf("%+v", v)
	}
	if again := mustDo(t, f.Store, as(host1, o.claim), WithdrawNotification{n.ID, ResolvedSuperseded}); !again.Adopted {
		t.Error("withdrawn twice")
	}
	wantCode(t, try(f.Store, WithdrawNotification{n.ID, ResolvedCancelled})(as(host1, o.claim)), schema.Conflict)
	mustDo(t, f.Store, as(control, nil), WithdrawTurn{tn.ID, ResolvedCancelled})
	if report := sc.show(sc.worker(pi1, "pi1", nil)); report != (EffectReport{}) || len(sc.shown) != 0 {
		t.Errorf("%+v, %v", report, sc.shown)
	}
	busy := must(o, CreateTurn{NewTurn{Run: "r1", Session: "pi1", Key: "busy", Payload: json.RawMessage(`1`)}})
	mustDo(t, f.Store, Permit{Actor: pi1, Expected: 1}, BeginEffect{busy.Effect, 1000})
	wantCode(t, try(f.Store, WithdrawTurn{busy.ID, ResolvedCancelled})(as(control, nil)), schema.IllegalTransition)
	wantCode(t, try(f.Store, ResolveTurn{busy.ID})(as(pi2, nil)), schema.Denied)
	wantCode(t, try(f.Store, ResolveTurn{busy.ID})(as(pi1, nil)), schema.IllegalTransition)

	dropped := must(o, CreateTurn{NewTurn{Run: "r1", Session: "pi1", Key: "dropped", Payload: json.RawMessage(`1`)}})
	mustDo(t, f.Store, Permit{Actor: pi1, Expected: 1}, CancelEffect{dropped.Effect, "no use"})
	if v := mustDo(t, f.Store, as(pi1, nil), ResolveTurn{dropped.ID}).Result; v.Resolution != ResolvedCancelled {
		t.Errorf("%+v", v)
	}
}
