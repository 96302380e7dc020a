package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"pistate/schema"
)

// ChannelSender sends the messages of a channel, part by part, for the owner of the channel. Several may run at
// once, in several processes, under the same claim. Its fields must not change while it runs.
//
// A part is recorded as soon as the provider has it, so an attempt that ends in the middle goes on with the
// next part. Of a worker that vanished, the first part that was not recorded may have been sent; nobody
// sends it again without evidence that it was not.
type ChannelSender struct {
	Store   *Store
	Actor   Actor
	Channel string
	Claim   *Claim // on the channel

	// Send sends a part and returns the provider's name for it. An error means that the part may have been
	// sent all the same, unless it is [NotApplied] (try again later) or [Rejected] (it never will be).
	Send func(ctx context.Context, part OutgoingPart) (ref string, err error)

	// Observe looks whether the provider has a part, and returns its name for it. nil, or an error: nobody
	// can tell now.
	Observe func(ctx context.Context, part OutgoingPart) (ref string, sent bool, err error)

	Lease   time.Duration // of an attempt; 0: one minute
	Backoff Backoff       // zero: from one second to five minutes, without end
}

// OutgoingPart is a part of a message that is sent or looked for.
type OutgoingPart struct {
	Message ChannelMessage
	MessagePart
	Content json.RawMessage // as rendered for the recipient
}

// Run ends the attempts of senders that vanished and sends the messages that are due, at most limit in all.
// It stops at the first error that is not a message's own, as when the claim on the channel is lost.
func (s *ChannelSender) Run(ctx context.Context, limit int) (EffectReport, error) {
	return s.worker().Run(ctx, limit)
}

// Look looks again at messages of which nobody knows whether they were sent, at most limit of them, and
// settles those that Observe can tell of, or whose parts were settled meanwhile by what came in: a part that
// was not sent has failed, and so have those that come after it. Who still wants them composes another
// message.
func (s *ChannelSender) Look(ctx context.Context, limit int) (EffectReport, error) {
	return s.worker().Observe(ctx, limit)
}

func (s *ChannelSender) worker() *EffectWorker {
	return &EffectWorker{
		Store: s.Store, Actor: s.Actor, Scope: Scope{ChannelScope, s.Channel}, Claim: s.Claim, Lease: s.Lease, Backoff: s.Backoff,
		Handlers: map[string]EffectHandler{MessageEffect: {Apply: s.apply, Observe: s.observe}},
	}
}

// apply sends the parts that are left.
func (s *ChannelSender) apply(ctx context.Context, b Begun, _ json.RawMessage) (Applied, error) {
	m, err := s.Store.Message(ctx, b.Effect.Key)
	if err != nil {
		return Applied{}, NotApplied(err)
	}
	failed := 0
	for _, p := range m.Parts {
		if p.Status == MessagePending {
			if p.Status, err = s.send(ctx, m.ChannelMessage, p); err != nil {
				return Applied{}, err
			}
		}
		switch p.Status {
		case MessageFailed:
			failed++
		case MessageAmbiguous:
			return Applied{}, fmt.Errorf("nobody knows whether part %d was sent", p.Number)
		}
	}
	if failed > 0 {
		return Applied{}, Rejected(fmt.Errorf("%d of %d parts have failed", failed, len(m.Parts)))
	}
	return Applied{}, nil
}

// send sends one part and records what became of it. An error is one of the attempt.
func (s *ChannelSender) send(ctx context.Context, m ChannelMessage, p MessagePart) (MessageStatus, error) {
	out, err := s.outgoing(ctx, m, p)
	if err != nil {
		return p.Status, NotApplied(err)
	}
	ref, failure := s.Send(ctx, out)
	var known *applyError
	switch {
	case failure == nil:
		return MessageConfirmed, s.record(ctx, m, p, MessageConfirmed, ref, nil)
	case !errors.As(failure, &known):
		err := s.record(ctx, m, p, MessageAmbiguous, "", failure)
		return MessageAmbiguous, errors.Join(failure, err)
	case known.final:
		return MessageFailed, s.record(ctx, m, p, MessageFailed, "", failure)
	}
	return p.Status, failure
}

func (s *ChannelSender) outgoing(ctx context.Context, m ChannelMessage, p MessagePart) (OutgoingPart, error) {
	b, err := s.Store.Blob(ctx, p.Payload)
	return OutgoingPart{m, p, b.Bytes}, err
}

// record records what became of a part, even if ctx has ended meanwhile.
func (s *ChannelSender) record(ctx context.Context, m ChannelMessage, p MessagePart, status MessageStatus, ref string, failure error) error {
	o := PartOutcome{Recipient: p.Recipient, Number: p.Number, Status: status, ExternalRef: ref}
	if failure != nil {
		o.Error = errorContent(failure)
	}
	permit := Permit{Actor: s.Actor, Expected: AnyRevision, Claim: s.Claim}
	_, err := Do(context.WithoutCancel(ctx), s.Store, permit, SettleParts{s.Channel, m.ID, []PartOutcome{o}})
	return err
}

var errCannotTell = errors.New("nobody can tell whether a part was sent")

// observe finds out about the parts that may have been sent: those that are ambiguous, or else the first that
// is pending. An effect that is ambiguous itself ends with this, so what was not sent has failed.
func (s *ChannelSender) observe(ctx context.Context, e Effect, _ json.RawMessage) (Observation, error) {
	m, err := s.Store.Message(ctx, e.Key)
	if err != nil {
		return Observation{}, err
	}
	ends := e.Status == EffectAmbiguous
	unclear := m.Status == MessageAmbiguous
	applied := true
	for _, p := range m.Parts {
		switch {
		case p.Status == MessageAmbiguous, p.Status == MessagePending && !unclear:
			unclear = true
			if p.Status, err = s.look(ctx, m.ChannelMessage, p, ends); err != nil {
				return Observation{}, err
			}
		case p.Status == MessagePending && ends:
			p.Status = MessageFailed
			if err := s.record(ctx, m.ChannelMessage, p, MessageFailed, "", errors.New("a part before this one was in doubt")); err != nil {
				return Observation{}, err
			}
		}
		applied = applied && p.Status == MessageConfirmed
	}
	return Observation{Applied: applied}, nil
}

// look asks the provider about a part and records what it says. Nobody can tell without a provider that can.
func (s *ChannelSender) look(ctx context.Context, m ChannelMessage, p MessagePart, ends bool) (MessageStatus, error) {
	doubt := func(err error) (MessageStatus, error) {
		if p.Status == MessagePending {
			err = errors.Join(err, s.record(ctx, m, p, MessageAmbiguous, "", err))
		}
		return MessageAmbiguous, err
	}
	if s.Observe == nil {
		return doubt(errCannotTell)
	}
	out, err := s.outgoing(ctx, m, p)
	if err != nil {
		return p.Status, err
	}
	ref, sent, err := s.Observe(ctx, out)
	switch {
	case err != nil:
		return doubt(err)
	case sent:
		return MessageConfirmed, s.record(ctx, m, p, MessageConfirmed, ref, nil)
	case ends:
		return MessageFailed, s.record(ctx, m, p, MessageFailed, "", errors.New("it was seen not to have been sent"))
	case p.Status == MessageAmbiguous:
		return MessagePending, s.record(ctx, m, p, MessagePending, "", nil)
	}
	return MessagePending, nil
}

// SettleRequests tells people what became of the decisions that they were asked about through a channel, for
// the owner of the channel: deliveries that were not sent yet are withdrawn, and render makes the settlement
// message of the others, at most limit at once. Where it makes none, it is asked again the next time. It
// returns how many deliveries were dealt with.
func SettleRequests(ctx context.Context, s *Store, permit Permit, channel string, limit int,
	render func(context.Context, ChannelMessage, DecisionView) (*ComposeMessage, error)) (settled int, err error) {
	deliveries, err := s.UnannouncedMessages(ctx, channel, Place{}, limit)
	if err != nil {
		return 0, err
	}
	for _, m := range deliveries {
		if m.Status == MessagePending {
			reason := json.RawMessage(`{"code":"already_resolved","message":"the decision was resolved before"}`)
			_, err := Do(ctx, s, permit, WithdrawMessage{channel, m.ID, reason})
			if err == nil {
				settled++
			}
			if err == nil || errors.Is(err, schema.IllegalTransition) { // it is being sent
				continue
			}
			return settled, err
		}
		v, err := s.Decision(ctx, m.Decision)
		if err != nil {
			return settled, err
		}
		message, err := render(ctx, m, v)
		if err != nil {
			return settled, err
		}
		if message == nil {
			continue
		}
		message.Channel, message.Kind, message.Decision = channel, SettlementMessage, m.Decision
		if _, err := Do(ctx, s, permit, *message); err != nil {
			return settled, err
		}
		settled++
	}
	return settled, nil
}
