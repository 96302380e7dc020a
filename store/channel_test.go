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
	bot1 = Actor{ChannelActor, "bot-1"}
	bot2 = Actor{ChannelActor, "bot-2"}
)

// line is a channel with its owner.
type line struct {
	*flow
	channel string
	actor   Actor
	claim   *Claim
}

func (f *flow) line(profile string) *line {
	f.Helper()
	c := mustDo(f, f.Store, Permit{Actor: bot1, Expected: AnyRevision}, RegisterChannel{"telegram", profile}).Result
	return &line{f, c.ID, bot1, mustClaim(f, f.Store, bot1, c.Resource(), time.Minute)}
}

func (l *line) permit() Permit { return as(l.actor, l.claim) }

func say[R any](l *line, cmd Command[R]) (R, error) {
	done, err := Do(context.Background(), l.Store, l.permit(), cmd)
	return done.Result, err
}

func mustSay[R any](l *line, cmd Command[R]) R {
	l.Helper()
	return mustDo(l, l.Store, l.permit(), cmd).Result
}

func (l *line) view() ChannelView {
	l.Helper()
	v, err := l.Channel(l.Context(), l.channel)
	if err != nil {
		l.Fatal(err)
	}
	return v
}

func TestRegisterChannel(t *testing.T) { // D13, W5, V2
	f := newFlow(t)
	first := mustDo(t, f.Store, Permit{Actor: control}, RegisterChannel{"telegram", "ops"})
	if first.Adopted || first.Revision != 1 || first.Result.ID != channelID("telegram", "ops") {
		t.Errorf("%+v", first)
	}
	if again := mustDo(t, f.Store, Permit{Actor: bot1, Expected: AnyRevision}, RegisterChannel{"telegram", "ops"}); !again.Adopted || again.Result.ID != first.Result.ID {
		t.Errorf("%+v", again)
	}
	mustDo(t, f.Store, Permit{Actor: bot1}, RegisterChannel{"telegram", "dev"})
	mustDo(t, f.Store, Permit{Actor: bot1}, RegisterChannel{"mail", "ops"})
	var got []string
	for after := (Channel{}); ; {
		page, err := f.Channels(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, after = range page {
			got = append(got, after.Adapter+" "+after.Profile)
		}
	}
	if !slices.Equal(got, []string{"mail ops", "telegram dev", "telegram ops"}) {
		t.Errorf("%v", got)
	}
	for _, cmd := range []RegisterChannel{{"", "x"}, {"x", ""}, {"x", "a\nb"}} {
		wantCode(t, try(f.Store, cmd)(Permit{Actor: bot1}), schema.Invalid)
	}
	wantCode(t, try(f.Store, RegisterChannel{"x", "y"})(Permit{Actor: Actor{HumanActor, "me"}}), schema.Denied)
	_, err := f.Channel(t.Context(), "none")
	wantCode(t, err, schema.NotFound)
}

func TestCursorNeverGoesBack(t *testing.T) { // D13, W5
	f := newFlow(t)
	l := f.line("ops")
	advance := func(position int64, reference string) (Done[Cursor], error) {
		return Do(t.Context(), f.Store, l.permit(), AdvanceCursor{l.channel, Progress{"updates", position, reference}})
	}
	if done, err := advance(10, "ten"); err != nil || done.Result.Position != 10 {
		t.Fatalf("%+v, %v", done, err)
	}
	if done, err := advance(10, "ten"); err != nil || !done.Adopted || done.Result.Reference != "ten" {
		t.Errorf("%+v, %v", done, err)
	}
	_, err := advance(10, "zehn")
	wantCode(t, err, schema.Conflict)
	if e := cause[*ConflictError](t, err); e.Winner.(Cursor).Reference != "ten" {
		t.Errorf("%+v", e)
	}
	_, err = advance(9, "nine")
	wantCode(t, err, schema.IllegalTransition)
	if _, err := advance(11, ""); err != nil {
		t.Error(err)
	}
	mustSay(l, AdvanceCursor{l.channel, Progress{"edits", -5, ""}})
	if v := l.view(); len(v.Cursors) != 2 || v.Cursors[0].Position != -5 || v.Cursors[1].Position != 11 || v.Cursors[1].Reference != "" {
		t.Errorf("%+v", v.Cursors)
	}
	for i := range MaxCursors - 2 {
		mustSay(l, AdvanceCursor{l.channel, Progress{fmt.Sprint("c", i), 1, ""}})
	}
	_, err = say(l, AdvanceCursor{l.channel, Progress{"more", 1, ""}})
	wantCode(t, err, schema.Limit)
	mustSay(l, AdvanceCursor{l.channel, Progress{"edits", 0, ""}})
}

func callback(id, payload string) NewIncoming {
	return NewIncoming{ID: id, Type: "callback", Payload: json.RawMessage(payload)}
}

func TestInboxTakesDuplicates(t *testing.T) { // D13, W5, R11
	f := newFlow(t)
	l := f.line("ops")
	batch := ReceiveEvents{l.channel, []NewIncoming{callback("u1", `{"a":1}`), callback("u2", `2`), callback("u1", `{"a":1}`)}, &Progress{"updates", 2, ""}}
	first := mustDo(t, f.Store, l.permit(), batch)
	if first.Adopted || first.Result.New != 2 || !slices.Equal(first.Result.Duplicates, []string{"u1"}) {
		t.Fatalf("%+v", first)
	}
	again := mustDo(t, f.Store, l.permit(), batch)
	if !again.Adopted || again.Result.New != 0 || len(again.Result.Duplicates) != 3 {
		t.Errorf("%+v", again)
	}
	f.clock.move(time.Second)
	mixed := mustSay(l, ReceiveEvents{l.channel, []NewIncoming{callback("u2", `"other"`), callback("u3", `3`)}, &Progress{"updates", 3, ""}})
	if mixed.New != 1 || !slices.Equal(mixed.Duplicates, []string{"u2"}) {
		t.Errorf("%+v", mixed)
	}
	// Everything had come in, and only the cursor moves.
	if moved := mustDo(t, f.Store, l.permit(), ReceiveEvents{l.channel, []NewIncoming{callback("u3", `3`)}, &Progress{"updates", 4, ""}}); moved.Adopted || moved.Result.New != 0 {
		t.Errorf("%+v", moved)
	}
	// A batch that would move the cursor back keeps nothing.
	_, err := say(l, ReceiveEvents{l.channel, []NewIncoming{callback("u4", `4`)}, &Progress{"updates", 1, ""}})
	wantCode(t, err, schema.IllegalTransition)

	mustSay(l, ProcessEvent{l.channel, "u1", InboxAccepted, "yes"})
	if again := mustDo(t, f.Store, l.permit(), ProcessEvent{l.channel, "u1", InboxAccepted, "yes"}); !again.Adopted {
		t.Error("processed twice")
	}
	_, err = say(l, ProcessEvent{l.channel, "u1", InboxIgnored, ""})
	wantCode(t, err, schema.Conflict)
	if e := cause[*ConflictError](t, err); e.Winner.(InboxEvent).Outcome != InboxAccepted {
		t.Errorf("%+v", e)
	}
	_, err = say(l, ProcessEvent{l.channel, "u9", InboxIgnored, ""})
	wantCode(t, err, schema.NotFound)
	for want, unprocessed := range map[string]bool{"u1 u2 u3": false, "u2 u3": true} {
		var ids []string
		for after := (Place{}); ; {
			page, err := f.Inbox(t.Context(), l.channel, unprocessed, after, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			ids, after = append(ids, page[0].ID), page[0].Place()
		}
		if strings.Join(ids, " ") != want {
			t.Errorf("%v, want %s", ids, want)
		}
	}
	stored, err := f.Inbox(t.Context(), l.channel, true, Place{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := f.Blob(t.Context(), stored[0].Payload); err != nil || string(b.Bytes) != "2" {
		t.Errorf("what came first is %s, %v", b.Bytes, err)
	}
	if v := l.view(); v.Unprocessed != 2 || v.Cursors[0].Position != 4 {
		t.Errorf("%+v", v)
	}
	for name, tc := range map[string]struct {
		cmd  ReceiveEvents
		code schema.Code
	}{
		"nothing":      {ReceiveEvents{l.channel, nil, &Progress{"updates", 9, ""}}, schema.Invalid},
		"too many":     {ReceiveEvents{l.channel, make([]NewIncoming, MaxIncoming+1), nil}, schema.Limit},
		"no id":        {ReceiveEvents{l.channel, []NewIncoming{callback("", `1`)}, nil}, schema.Invalid},
		"no payload":   {ReceiveEvents{l.channel, []NewIncoming{callback("u5", ``)}, nil}, schema.Invalid},
		"long payload": {ReceiveEvents{l.channel, []NewIncoming{{"u5", "text", long(MaxIncomingBytes + 1)}}, nil}, schema.Limit},
		"secret":       {ReceiveEvents{l.channel, []NewIncoming{callback("u5", `"AKIA`+strings.Repeat("A", 16)+`"`)}, nil}, schema.Invalid},
	} {
		if _, err := say(l, tc.cmd); !errors.Is(err, tc.code) {
			t.Errorf("%s: %v, want code %s", name, err, tc.code)
		}
	}
	if _, err := say(l, ProcessEvent{l.channel, "u2", "", ""}); !errors.Is(err, schema.Invalid) {
		t.Error(err)
	}
}

func (l *line) message(key string, parts ...string) ComposeMessage {
	m := ComposeMessage{Channel: l.channel, Kind: DeliveryMessage, Key: key, Payload: json.RawMessage(`{"text":"` + key + `"}`)}
	for i, recipient := range parts {
		m.Parts = append(m.Parts, NewPart{recipient, json.RawMessage(fmt.Sprintf(`"%s %d"`, key, i))})
	}
	return m
}

func (l *line) messageView(id string) MessageView {
	l.Helper()
	v, err := l.Message(l.Context(), id)
	if err != nil {
		l.Fatal(err)
	}
	return v
}

func TestComposeMessage(t *testing.T) { // D13, R6, W5
	f := newFlow(t)
	l := f.line("ops")
	first := mustDo(t, f.Store, l.permit(), l.message("m1", "bob", "alice", "bob"))
	m := first.Result
	v := l.messageView(m.ID)
	if m.Status != MessagePending || v.EffectStatus != EffectPending || len(v.Parts) != 3 || v.Parts[0].Recipient != "alice" || v.Parts[2].Number != 2 {
		t.Fatalf("%+v", v)
	}
	e, err := f.Effect(t.Context(), m.Effect)
	if err != nil || e.Scope != (Scope{ChannelScope, l.channel}) || !e.External || e.Key != m.ID || e.SourceRevision != first.Revision {
		t.Errorf("%+v, %v", e, err)
	}
	if again := mustDo(t, f.Store, l.permit(), l.message("m1", "bob", "alice", "bob")); !again.Adopted || again.Result.ID != m.ID {
		t.Errorf("%+v", again)
	}
	for _, other := range []ComposeMessage{l.message("m1", "bob", "alice"), l.message("m1", "bob", "bob", "alice"), {
		Channel: l.channel, Kind: DeliveryMessage, Key: "m1", Payload: json.RawMessage(`2`), Parts: l.message("m1", "bob", "alice", "bob").Parts,
	}} {
		_, err := say(l, other)
		wantCode(t, err, schema.Conflict)
		if e := cause[*ConflictError](t, err); e.Winner.(ChannelMessage).ID != m.ID {
			t.Errorf("%+v", e)
		}
	}
	settlement := l.message("m1", "bob")
	settlement.Kind = SettlementMessage
	if s := mustSay(l, settlement); s.ID == m.ID {
		t.Error("one id for two messages")
	}
	about, kind := l.message("m2", "bob"), l.message("m2", "bob")
	about.Decision, kind.Kind = "none", "x"
	for name, tc := range map[string]struct {
		cmd  ComposeMessage
		code schema.Code
	}{
		"no parts":     {l.message("m2"), schema.Limit},
		"many parts":   {l.message("m2", make([]string, MaxParts+1)...), schema.Limit},
		"no recipient": {l.message("m2", ""), schema.Invalid},
		"no decision":  {about, schema.NotFound},
		"kind":         {kind, schema.Invalid},
		"no key":       {l.message("", "bob"), schema.Invalid},
	} {
		if _, err := say(l, tc.cmd); !errors.Is(err, tc.code) {
			t.Errorf("%s: %v, want code %s", name, err, tc.code)
		}
	}
	var keys []string
	for after := (Place{}); ; {
		page, err := f.Messages(t.Context(), l.channel, false, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		keys, after = append(keys, string(page[0].Kind)), page[0].Place()
	}
	if slices.Sort(keys); !slices.Equal(keys, []string{"delivery", "settlement"}) {
		t.Errorf("%v", keys)
	}
	_, err = f.Message(t.Context(), "none")
	wantCode(t, err, schema.NotFound)
}

// A message follows from its parts.
func TestSettleParts(t *testing.T) { // D13, V1, W5
	f := newFlow(t)
	l := f.line("ops")
	m := mustSay(l, l.message("m1", "alice", "bob", "carol"))
	settle := func(recipient string, status MessageStatus, ref string) (*ChannelMessage, error) {
		o := PartOutcome{Recipient: recipient, Number: 1, Status: status, ExternalRef: ref}
		if status == MessageFailed {
			o.Error = json.RawMessage(`{"code":"blocked"}`)
		}
		return say(l, SettleParts{l.channel, m.ID, []PartOutcome{o}})
	}
	want := func(recipient string, status MessageStatus, ref string, message MessageStatus) {
		t.Helper()
		got, err := settle(recipient, status, ref)
		if err != nil || got.Status != message || (got.SettledAt != 0) != message.final() {
			t.Fatalf("%s of %s: %+v, %v", status, recipient, got, err)
		}
	}
	want("alice", MessageConfirmed, "tg-1", MessagePending)
	want("bob", MessageAmbiguous, "", MessageAmbiguous)
	if v := l.view(); v.Ambiguous != 1 || v.Open != 1 {
		t.Errorf("%+v", v)
	}
	_, err := settle("alice", MessageFailed, "")
	wantCode(t, err, schema.Conflict)
	if e := cause[*ConflictError](t, err); e.Winner.(MessagePart).ExternalRef != "tg-1" {
		t.Errorf("%+v", e)
	}
	_, err = settle("alice", MessageConfirmed, "tg-9")
	wantCode(t, err, schema.Conflict)
	want("alice", MessageConfirmed, "", MessageAmbiguous) // again
	want("bob", MessagePending, "", MessagePending)       // it was seen not to be there
	_, err = settle("dave", MessageConfirmed, "")
	wantCode(t, err, schema.NotFound)
	want("bob", MessageConfirmed, "tg-2", MessagePending)
	want("carol", MessageFailed, "", MessageFailed)
	v := l.messageView(m.ID)
	if v.Error == nil || *v.Error != *v.Parts[2].Error || v.Parts[1].ExternalRef != "tg-2" {
		t.Errorf("%+v", v)
	}
	if again := mustDo(t, f.Store, l.permit(), SettleParts{l.channel, m.ID, []PartOutcome{{Recipient: "bob", Number: 1, Status: MessageConfirmed, ExternalRef: "tg-2"}}}); !again.Adopted {
		t.Error("a settled message was settled again")
	}
	_, err = settle("bob", MessageAmbiguous, "")
	wantCode(t, err, schema.Conflict)

	elsewhere := f.line("dev")
	other := mustSay(elsewhere, elsewhere.message("m1", "alice"))
	_, err = say(l, SettleParts{l.channel, other.ID, []PartOutcome{{Recipient: "alice", Number: 1, Status: MessageConfirmed}}})
	wantCode(t, err, schema.NotFound)
	_, err = say(elsewhere, SettleParts{elsewhere.channel, other.ID, []PartOutcome{{Recipient: "alice", Number: 1, Status: "x"}}})
	wantCode(t, err, schema.Invalid)
	_, err = say(elsewhere, SettleParts{elsewhere.channel, other.ID, nil})
	wantCode(t, err, schema.Limit)
	_, err = say(elsewhere, SettleParts{elsewhere.channel, other.ID, []PartOutcome{{Recipient: "alice", Number: 1, Status: MessageConfirmed, Error: json.RawMessage(`1`)}}})
	wantCode(t, err, schema.Invalid)
}

func TestWithdrawMessage(t *testing.T) { // D13, C52
	f := newFlow(t)
	l := f.line("ops")
	m := mustSay(l, l.message("m1", "alice", "bob"))
	withdraw := func(m *ChannelMessage) (*ChannelMessage, error) {
		return say(l, WithdrawMessage{l.channel, m.ID, json.RawMessage(`{"code":"resolved"}`)})
	}
	mustSay(l, SettleParts{l.channel, m.ID, []PartOutcome{{Recipient: "alice", Number: 1, Status: MessageConfirmed}}})
	got, err := withdraw(m)
	v := l.messageView(m.ID)
	if err != nil || got.Status != MessageFailed || v.EffectStatus != EffectCancelled || v.Parts[0].Status != MessageConfirmed || v.Parts[1].Status != MessageFailed {
		t.Fatalf("%+v, %v", v, err)
	}
	if again := mustDo(t, f.Store, l.permit(), WithdrawMessage{l.channel, m.ID, json.RawMessage(`{"code":"resolved"}`)}); !again.Adopted {
		t.Error("withdrawn twice")
	}
	busy := mustSay(l, l.message("m2", "alice"))
	mustDo(t, f.Store, Permit{Actor: bot1, Expected: 1, Claim: l.claim}, BeginEffect{busy.Effect, 1000})
	_, err = withdraw(busy)
	wantCode(t, err, schema.IllegalTransition)
	mustSay(l, SettleParts{l.channel, busy.ID, []PartOutcome{{Recipient: "alice", Number: 1, Status: MessageAmbiguous}}})
	_, err = withdraw(busy)
	wantCode(t, err, schema.IllegalTransition)
	_, err = withdraw(&ChannelMessage{ID: "none"})
	wantCode(t, err, schema.NotFound)
}

// Only the owner of the channel's lease writes (D13).
func TestChannelOwnersOnly(t *testing.T) { // D13, W3, R3, C50
	f := newFlow(t)
	stale := f.line("ops")
	elsewhere := f.line("dev")
	m := mustSay(stale, stale.message("m1", "alice"))
	mustSay(stale, ReceiveEvents{stale.channel, []NewIncoming{callback("u1", `1`)}, nil})
	f.clock.move(2 * time.Minute)
	current := *stale
	current.claim = mustClaim(t, f.Store, bot1, channel(stale.channel), time.Minute) // by the same name
	elsewhere.claim = mustClaim(t, f.Store, bot2, channel(elsewhere.channel), time.Minute)
	ch := current.channel
	commands := map[string]func(Permit) error{
		"advance":  try(f.Store, AdvanceCursor{ch, Progress{"updates", 5, ""}}),
		"receive":  try(f.Store, ReceiveEvents{ch, []NewIncoming{callback("u2", `1`)}, nil}),
		"process":  try(f.Store, ProcessEvent{ch, "u1", InboxAccepted, ""}),
		"compose":  try(f.Store, current.message("m2", "alice")),
		"settle":   try(f.Store, SettleParts{ch, m.ID, []PartOutcome{{Recipient: "alice", Number: 1, Status: MessageConfirmed}}}),
		"withdraw": try(f.Store, WithdrawMessage{ch, m.ID, json.RawMessage(`1`)}),
		"begin": func(p Permit) error {
			p.Expected = 1
			return try(f.Store, BeginEffect{m.Effect, 1000})(p)
		},
	}
	before := dump(t, f.Path())
	for name, do := range commands {
		for who, tc := range map[string]struct {
			permit Permit
			code   schema.Code
		}{
			"the owner before": {stale.permit(), schema.StaleClaim},
			"without a claim":  {Permit{Actor: bot1, Expected: AnyRevision}, schema.Denied},
			"another's claim":  {as(bot2, current.claim), schema.Denied},
			"claim on another": {as(bot2, elsewhere.claim), schema.Denied},
			"human":            {Permit{Actor: Actor{HumanActor, "me"}, Expected: AnyRevision}, schema.Denied},
			"control":          {Permit{Actor: control, Expected: AnyRevision}, schema.Denied},
			"controller":       {as(merger1, nil), schema.Denied},
			"policy":           {Permit{Actor: Actor{PolicyActor, ""}, Expected: AnyRevision}, schema.Denied},
		} {
			if err := do(tc.permit); !errors.Is(err, tc.code) {
				t.Errorf("%s by %s: %v, want code %s", name, who, err, tc.code)
			}
		}
	}
	if dump(t, f.Path()) != before {
		t.Error("a refused command left something behind")
	}
	for name, do := range commands {
		if name != "withdraw" && name != "begin" {
			if err := do(current.permit()); err != nil {
				t.Errorf("%s by the owner: %v", name, err)
			}
		}
	}
}
