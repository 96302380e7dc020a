package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

// tried is an operation on a decision or a continuation that would be accepted, if the actor may do it.
type tried struct {
	op Op
	do func(a *asking, p Permit, name string) error
}

func triedOperations() []tried {
	submit := func(a *asking, d *Decision, name string) SubmitDecision {
		return SubmitDecision{Decision: d.ID, Submission: name, RequestDigest: d.RequestDigest, Response: json.RawMessage(approve)}
	}
	return []tried{
		{OpDecisionRequest, func(a *asking, p Permit, name string) error {
			q := a.question()
			q.Key, p.Expected = name, 0
			return second(Do(context.Background(), a.Store, p, q))
		}},
		{OpDecisionSubmit, func(a *asking, p Permit, name string) error {
			cmd := submit(a, a.ask(name, nil), name)
			if p.Actor.Class == ChannelActor {
				cmd.Channel, cmd.ExternalEvent = "c1", "e1"
			}
			return second(Do(context.Background(), a.Store, p, cmd))
		}},
		{OpDecisionSubmitModel, func(a *asking, p Permit, name string) error {
			q := a.question()
			q.Key, q.Unprotected = name, true
			d := mustDo(a, a.Store, Permit{Actor: a.by, Claim: a.claim}, q).Result
			c := submit(a, d, name)
			return second(Do(context.Background(), a.Store, p, SubmitModelAnswer{c.Decision, c.Submission, c.RequestDigest, c.Response}))
		}},
		{OpDecisionApplyTimeout, func(a *asking, p Permit, name string) error {
			d := a.ask(name, defaultApprove)
			a.clock.move(time.Hour)
			defer a.clock.move(-time.Hour)
			return second(Do(context.Background(), a.Store, p, ApplyTimeout{d.ID}))
		}},
		{OpDecisionExpire, func(a *asking, p Permit, name string) error {
			d := a.ask(name, nil)
			a.clock.move(time.Hour)
			defer a.clock.move(-time.Hour)
			return second(Do(context.Background(), a.Store, p, ExpireDecision{d.ID}))
		}},
		{OpDecisionCancel, func(a *asking, p Permit, name string) error {
			return second(Do(context.Background(), a.Store, p, CancelDecision{Decision: a.ask(name, nil).ID}))
		}},
		{OpContinuationRequest, func(a *asking, p Permit, name string) error {
			cmd := RequestContinuation{Trigger: ManualTrigger, Parent: a.run, Key: name}
			if p.Actor.Class == ControllerActor {
				_, w := a.child(name)
				cmd.Trigger, cmd.Parent = ControllerTrigger, w.Run
			}
			return second(Do(context.Background(), a.Store, p, cmd))
		}},
		{OpContinuationAdmit, func(a *asking, p Permit, name string) error {
			d := a.ask(name, nil)
			a.mustSubmit(d, ann, name, approve)
			spec := a.spec("")
			spec.Parent = a.run
			err := second(a.admit(a.Store, p.Actor, p.Claim, a.continuation(d), spec))
			if errors.Is(err, schema.IllegalTransition) { // the run works, so it has come as far as that
				err = nil
			}
			return err
		}},
		{OpContinuationCancel, func(a *asking, p Permit, name string) error {
			d := a.ask(name, nil)
			a.mustSubmit(d, ann, name, approve)
			return second(Do(context.Background(), a.Store, p, CancelContinuation{Continuation: a.continuation(d).ID, Parent: a.run}))
		}},
	}
}

// mayDecide is who may do what, written down once more: "yes" without owning anything; "run", "channel" or
// "controller" as its owner. Everything else is refused, the model's answer to a person's decision first of
// all: that is the cell of decision.submit and session.
var mayDecide = map[Op]map[ActorClass]string{
	OpDecisionRequest:      {SessionActor: "run", HostActor: "run", SystemActor: "run"},
	OpDecisionSubmit:       {HumanActor: "yes", ChannelActor: "channel"},
	OpDecisionSubmitModel:  {SessionActor: "run", HostActor: "run"},
	OpDecisionApplyTimeout: {SessionActor: "run", HostActor: "run", SystemActor: "run", PolicyActor: "run"},
	OpDecisionExpire:       {SessionActor: "run", HostActor: "run", SystemActor: "run", PolicyActor: "run"},
	OpDecisionCancel:       {SessionActor: "run", HostActor: "run", SystemActor: "run", ControlActor: "yes"},
	OpContinuationRequest:  {SessionActor: "run", HostActor: "run", SystemActor: "run", ControllerActor: "controller", ControlActor: "yes"},
	OpContinuationAdmit:    {SessionActor: "run", HostActor: "run", SystemActor: "run"},
	OpContinuationCancel:   {SessionActor: "run", HostActor: "run", SystemActor: "run", ControlActor: "yes"},
}

// Each cell of the table, by doing it: without a claim, and with the run's.
func TestDecisionAuthority(t *testing.T) { // D9, D10, W3
	a := newAsking(t)
	owners := map[ActorClass]*asking{PolicyActor: a} // a policy needs somebody's claim
	for _, class := range runOwners {
		owners[class] = a.askingBy(Actor{class, "owner"}, "of a "+string(class))
	}
	for _, op := range triedOperations() {
		for _, class := range actorClasses {
			needs := mayDecide[op.op][class]
			name := fmt.Sprint(op.op, " by a ", class)
			err := op.do(a, Permit{Actor: Actor{class, "owner"}, Expected: AnyRevision}, name)
			denied := &DeniedError{}
			reason := ""
			if errors.As(err, &denied) {
				reason = denied.Reason
			}
			switch needs {
			case "":
				if !strings.Contains(reason, "not for this class") {
					t.Errorf("%s: %v, want a refusal of the class", name, err)
				}
			case "yes":
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			case "run":
				if !strings.Contains(reason, "needs a claim on run:r1") {
					t.Errorf("%s without a claim: %v", name, err)
				}
				o := owners[class]
				if err := op.do(o, as(Actor{class, "owner"}, o.claim), name+" as owner"); err != nil {
					t.Errorf("%s as owner: %v", name, err)
				}
			default:
				if !strings.Contains(reason, "needs a claim on "+needs+":") {
					t.Errorf("%s without a claim: %v", name, err)
				}
			}
		}
	}
}
