package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

func init() {
	roles["sender"] = playSender // CHANNEL CLAIM PROVIDER: send, and hang before anybody hears of it
}

// post is a provider of messages: a file with a line for each part that it has got.
type post struct{ path string }

func (p post) has(part OutgoingPart) int {
	b, _ := os.ReadFile(p.path) // there is none before the first part
	return strings.Count(string(b), p.line(part))
}

func (p post) line(part OutgoingPart) string {
	return fmt.Sprintf("%s %d %s\n", part.Recipient, part.Number, part.Content)
}

func (p post) send(part OutgoingPart) (string, error) {
	f, err := os.OpenFile(p.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(p.line(part))
	return p.ref(part), errors.Join(err, f.Close())
}

func (p post) ref(part OutgoingPart) string {
	return fmt.Sprintf("tg-%s-%d", part.Recipient, part.Number)
}

func (p post) observe(_ context.Context, part OutgoingPart) (string, bool, error) {
	if p.has(part) == 0 {
		return "", false, nil
	}
	return p.ref(part), true, nil
}

// sender sends what is due by a script: for each part that is sent, whether the provider gets it and what it
// says. When the script is at its end, everything goes well.
func (l *line) sender(p post, script ...func() (got bool, err error)) *ChannelSender {
	return &ChannelSender{
		Store: l.Store, Actor: l.actor, Channel: l.channel, Claim: l.claim,
		Send: func(_ context.Context, part OutgoingPart) (string, error) {
			got, failure := true, error(nil)
			if len(script) > 0 {
				got, failure = script[0]()
				script = script[1:]
			}
			ref := ""
			if got {
				sent, err := p.send(part)
				if err != nil {
					return "", err
				}
				ref = sent
			}
			return ref, failure
		},
	}
}

func goes() (bool, error)      { return true, nil }
func breaksOff() (bool, error) { return true, errors.New("connection reset") } // it has got there
func getsLost() (bool, error)  { return false, errors.New("connection reset") }
func isBusy() (bool, error)    { return false, NotApplied(errors.New("429")) }
func isBlocked() (bool, error) { return false, Rejected(errors.New("403")) }

func TestChannelSender(t *testing.T) { // D13, R7, V1
	f := newFlow(t)
	type step = func() (bool, error)
	for name, tc := range map[string]struct {
		script  []step
		tells   bool // the provider can tell what it has
		message MessageStatus
		effect  EffectStatus
		parts   string // by recipient
		sent    string // how often each was sent
	}{
		"all goes well":             {nil, false, MessageConfirmed, EffectApplied, "confirmed confirmed", "1 1"},
		"the first is blocked":      {[]step{isBlocked}, false, MessageFailed, EffectRejected, "failed confirmed", "0 1"},
		"both are blocked":          {[]step{isBlocked, isBlocked}, false, MessageFailed, EffectRejected, "failed failed", "0 0"},
		"the second has to wait":    {[]step{goes, isBusy}, false, MessageConfirmed, EffectApplied, "confirmed confirmed", "1 1"},
		"nobody knows of the first": {[]step{breaksOff}, false, MessageAmbiguous, EffectAmbiguous, "ambiguous pending", "1 0"},
		"it was there":              {[]step{breaksOff}, true, MessageConfirmed, EffectApplied, "confirmed confirmed", "1 1"},
		"it was not there":          {[]step{getsLost}, true, MessageConfirmed, EffectApplied, "confirmed confirmed", "1 1"},
	} {
		t.Run(name, func(t *testing.T) {
			l := f.line(name)
			p := post{filepath.Join(t.TempDir(), "post")}
			m := mustSay(l, l.message("m1", "alice", "bob"))
			s := l.sender(p, tc.script...)
			if tc.tells {
				s.Observe = p.observe
			}
			for range 3 {
				if _, err := s.Run(t.Context(), 10); err != nil {
					t.Fatal(err)
				}
				f.clock.move(5 * time.Second) // for what has to wait
			}
			v := l.messageView(m.ID)
			var parts, sent []string
			for _, part := range v.Parts {
				out, err := s.outgoing(t.Context(), v.ChannelMessage, part)
				if err != nil {
					t.Fatal(err)
				}
				parts, sent = append(parts, string(part.Status)), append(sent, fmt.Sprint(p.has(out)))
				if part.Status == MessageConfirmed && part.ExternalRef != p.ref(out) {
					t.Errorf("%+v", part)
				}
			}
			if v.Status != tc.message || v.EffectStatus != tc.effect || strings.Join(parts, " ") != tc.parts || strings.Join(sent, " ") != tc.sent {
				t.Errorf("message %s, effect %s, parts %v, sent %v", v.Status, v.EffectStatus, parts, sent)
			}
		})
	}
}

// What is in doubt is settled by evidence: of the provider, or of what comes in through the channel.
func TestChannelSenderLooks(t *testing.T) { // D13, R7
	f := newFlow(t)
	type situation struct {
		*line
		post
		s *ChannelSender
		m *ChannelMessage
	}
	for name, tc := range map[string]struct {
		evidence func(x *situation)
		message  MessageStatus
		effect   EffectStatus
		parts    string
	}{
		"none":            {func(*situation) {}, MessageAmbiguous, EffectAmbiguous, "ambiguous pending"},
		"provider has it": {func(x *situation) { x.s.Observe = x.observe }, MessageFailed, EffectRejected, "confirmed failed"},
		"provider does not know": {func(x *situation) {
			x.s.Observe = func(context.Context, OutgoingPart) (string, bool, error) { return "", false, errors.New("503") }
		}, MessageAmbiguous, EffectAmbiguous, "ambiguous pending"},
		"provider lost it": {func(x *situation) {
			x.s.Observe = func(context.Context, OutgoingPart) (string, bool, error) { return "", false, nil }
		}, MessageFailed, EffectRejected, "failed failed"},
		"people answered": {func(x *situation) {
			x.s.Observe = x.observe
			mustSay(x.line, SettleParts{x.channel, x.m.ID, []PartOutcome{{Recipient: "alice", Number: 1, Status: MessageConfirmed, ExternalRef: "tg-7"}}})
		}, MessageFailed, EffectRejected, "confirmed failed"},
		"people answered, each": {func(x *situation) {
			for _, who := range []string{"alice", "bob"} {
				mustSay(x.line, SettleParts{x.channel, x.m.ID, []PartOutcome{{Recipient: who, Number: 1, Status: MessageConfirmed}}})
			}
		}, MessageConfirmed, EffectApplied, "confirmed confirmed"},
	} {
		t.Run(name, func(t *testing.T) {
			l := f.line(name)
			p := post{filepath.Join(t.TempDir(), "post")}
			x := &situation{l, p, l.sender(p, breaksOff), mustSay(l, l.message("m1", "alice", "bob"))}
			if report, err := x.s.Run(t.Context(), 10); err != nil || report.Ambiguous != 1 {
				t.Fatalf("%+v, %v", report, err)
			}
			tc.evidence(x)
			if _, err := x.s.Look(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
			if _, err := x.s.Run(t.Context(), 10); err != nil { // never again
				t.Fatal(err)
			}
			v := l.messageView(x.m.ID)
			parts := string(v.Parts[0].Status) + " " + string(v.Parts[1].Status)
			if v.Status != tc.message || v.EffectStatus != tc.effect || parts != tc.parts {
				t.Errorf("message %s, effect %s, parts %s", v.Status, v.EffectStatus, parts)
			}
			b, err := os.ReadFile(p.path)
			if err != nil || strings.Count(string(b), "\n") != 1 {
				t.Errorf("sent: %s, %v", b, err)
			}
		})
	}
}

// A sender that lost the channel while it sent records nothing, and the part is in doubt for the next owner.
func TestChannelSenderLosesTheChannel(t *testing.T) { // D13, R3, R7
	f := newFlow(t)
	l := f.line("ops")
	p := post{filepath.Join(t.TempDir(), "post")}
	m := mustSay(l, l.message("m1", "alice", "bob"))
	next := *l
	s := l.sender(p, func() (bool, error) {
		f.clock.move(2 * time.Minute)
		next.claim = mustClaim(t, f.Store, bot1, channel(l.channel), time.Hour)
		return true, nil
	})
	s.Lease = time.Hour
	if report, err := s.Run(t.Context(), 10); err != nil || report.Ambiguous != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if v := l.messageView(m.ID); v.Status != MessagePending || v.EffectStatus != EffectAmbiguous {
		t.Fatalf("%+v", v)
	}
	heir := next.sender(p)
	if _, err := heir.Look(t.Context(), 10); err != nil { // nobody can tell
		t.Fatal(err)
	}
	if v := l.messageView(m.ID); v.Status != MessageAmbiguous || v.Parts[0].Status != MessageAmbiguous || v.Parts[1].Status != MessagePending {
		t.Errorf("%+v", v)
	}
}

func playSender(s *Store, args []string) error {
	claim, err := ParseClaim(channel(args[0]), 1, args[1])
	if err != nil {
		return err
	}
	p := post{args[2]}
	sender := &ChannelSender{
		Store: s, Actor: bot1, Channel: args[0], Claim: claim, Lease: 50 * time.Millisecond,
		Send: func(_ context.Context, part OutgoingPart) (string, error) {
			if _, err := p.send(part); err != nil {
				return "", err
			}
			if part.Recipient == "bob" {
				fmt.Println("sent")
				select {}
			}
			return p.ref(part), nil
		},
	}
	_, err = sender.Run(context.Background(), 10)
	return err
}

// A sender is killed between the provider's success and the receipt.
func TestKilledSendersMessage(t *testing.T) { // D13, R7, C53
	for name, tells := range map[string]bool{"the provider can tell": true, "nobody can tell": false} {
		t.Run(name, func(t *testing.T) {
			f := realFlow(t)
			l := f.line("ops")
			p := post{filepath.Join(t.TempDir(), "post")}
			m := mustSay(l, l.message("m1", "alice", "bob", "carol"))
			first := start(t, "sender", f.Path(), l.channel, l.claim.Token(), p.path)
			<-first.some
			first.kill(t)
			<-first.lines
			s := l.sender(p)
			want, parts := EffectAmbiguous, "confirmed ambiguous pending"
			if tells {
				s.Observe = p.observe
				want, parts = EffectApplied, "confirmed confirmed confirmed"
			}
			for l.messageView(m.ID).EffectStatus != want {
				if _, err := s.Run(t.Context(), 10); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Millisecond) // until the killed sender's ownership has expired
			}
			v := l.messageView(m.ID)
			var got []string
			for _, part := range v.Parts {
				out, err := s.outgoing(t.Context(), v.ChannelMessage, part)
				if err != nil || p.has(out) > 1 {
					t.Errorf("%s was sent %d times, %v", part.name(), p.has(out), err)
				}
				got = append(got, string(part.Status))
			}
			if strings.Join(got, " ") != parts {
				t.Errorf("parts %v", got)
			}
		})
	}
}

// People are asked through a channel, answer twice, and are told what became of it.
func TestRequestsThroughAChannel(t *testing.T) { // D13, D9, D8, W5
	a := newAsking(t)
	l := a.line("ops")
	p := post{filepath.Join(t.TempDir(), "post")}
	asked, dropped := a.ask("approve", nil), a.ask("dropped", nil)
	compose := func(d *Decision, notBefore Millis) *ChannelMessage {
		m := l.message(d.ID, "alice")
		m.Decision, m.NotBefore = d.ID, notBefore
		return mustSay(l, m)
	}
	m, late := compose(asked, 0), compose(dropped, a.clock.millis()+10_000)
	if _, err := l.sender(p).Run(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	render := func(_ context.Context, m ChannelMessage, v DecisionView) (*ComposeMessage, error) {
		text, err := json.Marshal(v.Resolution.Choice)
		return &ComposeMessage{Key: m.Decision, Payload: text, Parts: []NewPart{{"alice", text}}}, err
	}
	settle := func(want int) {
		t.Helper()
		if n, err := SettleRequests(t.Context(), a.Store, l.permit(), l.channel, 10, render); err != nil || n != want {
			t.Fatalf("%d, %v; want %d", n, err, want)
		}
	}
	settle(0)
	for range 2 { // the provider sends the callback again
		mustSay(l, ReceiveEvents{l.channel, []NewIncoming{callback("u1", `{"data":"approve"}`)}, &Progress{"updates", 1, ""}})
		answer := mustDo(t, a.Store, l.permit(), SubmitDecision{
			Decision: asked.ID, Submission: l.channel + "/u1", RequestDigest: asked.RequestDigest, Response: json.RawMessage(approve),
			Channel: l.channel, ExternalEvent: "u1",
		})
		if answer.Result.Submission.Outcome != AnswerWon {
			t.Errorf("%+v", answer.Result.Submission)
		}
		mustSay(l, ProcessEvent{l.channel, "u1", InboxAccepted, ""})
	}
	mustDo(t, a.Store, as(control, nil), CancelDecision{Decision: dropped.ID, Reason: "no use"})
	settle(2)
	settle(0)
	if v := l.messageView(late.ID); v.Status != MessageFailed || v.EffectStatus != EffectCancelled {
		t.Errorf("%+v", v)
	}
	about, err := a.MessagesOfDecision(t.Context(), asked.ID, Place{}, 10)
	if err != nil || len(about) != 2 {
		t.Fatalf("%+v, %v", about, err)
	}
	news := about[0]
	if news.ID == m.ID {
		news = about[1]
	}
	if _, err := l.sender(p).Run(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if v := l.messageView(news.ID); v.Kind != SettlementMessage || v.Status != MessageConfirmed {
		t.Errorf("%+v", v)
	}
	if inbox, err := a.Inbox(t.Context(), l.channel, false, Place{}, 10); err != nil || len(inbox) != 1 {
		t.Errorf("%+v, %v", inbox, err)
	}
	if _, err := SettleRequests(t.Context(), a.Store, as(bot2, nil), l.channel, 0, render); !errors.Is(err, schema.Invalid) {
		t.Error(err)
	}
}
