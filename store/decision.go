package store

import (
	"fmt"
	"strconv"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The operations on decisions.
const (
	OpDecisionRequest      Op = "decision.request"
	OpDecisionSubmit       Op = "decision.submit"
	OpDecisionSubmitModel  Op = "decision.submit_model"
	OpDecisionApplyTimeout Op = "decision.apply_timeout"
	OpDecisionExpire       Op = "decision.expire"
	OpDecisionCancel       Op = "decision.cancel"
)

// Whoever answers, and whatever the clock says, the first resolution stays: no operation that resolves
// depends on a revision.
var decisionOperations = []Operation{
	{
		Op: OpDecisionRequest, Does: "ask people a question for a run",
		Rights: rights(Right{Own: OwnRun}, SessionActor, HostActor, SystemActor),
	},
	{
		Op: OpDecisionSubmit, Does: "give a person's answer to a decision",
		AnyRevision: true,
		Rights: map[ActorClass]Right{
			HumanActor:   {},
			ChannelActor: {Own: OwnChannel},
		},
	},
	{
		Op: OpDecisionSubmitModel, Does: "give a model's answer to a decision that is not protected",
		AnyRevision: true,
		Rights:      rights(Right{Own: OwnRun}, SessionActor, HostActor),
	},
	{
		Op: OpDecisionApplyTimeout, Does: "accept the default response after the deadline",
		AnyRevision: true,
		Rights:      rights(Right{Own: OwnRun}, SessionActor, HostActor, PolicyActor, SystemActor),
	},
	{
		Op: OpDecisionExpire, Does: "cancel a decision without a default response after the deadline",
		AnyRevision: true,
		Rights:      rights(Right{Own: OwnRun}, SessionActor, HostActor, PolicyActor, SystemActor),
	},
	{
		Op: OpDecisionCancel, Does: "cancel a decision",
		AnyRevision: true,
		Rights: merge(
			rights(Right{Own: OwnRun}, SessionActor, HostActor, SystemActor),
			rights(Right{}, ControlActor),
		),
	},
}

// DecisionStatus is where a decision is.
type DecisionStatus string

// The statuses of a decision. The last two are final.
const (
	DecisionPending   DecisionStatus = "pending"
	DecisionAccepted  DecisionStatus = "accepted"  // with a response, by a person or by the deadline's default
	DecisionCancelled DecisionStatus = "cancelled" // without one
)

// DecisionReason says how a decision came to its end.
type DecisionReason string

// The reasons. The first two accept, the others cancel (D8).
const (
	ReasonHuman            DecisionReason = "human" // an answer; a model's only if the decision is not protected
	ReasonTimeoutPolicy    DecisionReason = "timeout_policy"
	ReasonExplicitCancel   DecisionReason = "explicit_cancel"
	ReasonExpiredNoDefault DecisionReason = "expired_no_default"
)

func (r DecisionReason) outcome() DecisionStatus {
	if r == ReasonHuman || r == ReasonTimeoutPolicy {
		return DecisionAccepted
	}
	return DecisionCancelled
}

// Decision is a question to people, and what became of it (D8). What was asked is immutable; subject,
// presentation, choices and the default response are blobs.
type Decision struct {
	ID              string         `json:"id"`       // derived from run, key and request revision
	Revision        int64          `json:"revision"` // of the resource: grows with each answer
	Run             string         `json:"run"`
	Attempt         string         `json:"attempt,omitempty"`
	Key             string         `json:"key"`              // names the question within its run
	RequestRevision int            `json:"request_revision"` // from 1, one more each time that it is asked again
	RequestDigest   Digest         `json:"request_digest"`   // an answer must name it
	Audience        string         `json:"audience"`
	Title           string         `json:"title"`
	Subject         Digest         `json:"subject"`
	Presentation    Digest         `json:"presentation"`
	Choices         Digest         `json:"choices"`
	Protected       bool           `json:"protected"` // no model's answer can resolve it
	DeadlineAt      Millis         `json:"deadline_at,omitempty"`
	DefaultChoice   string         `json:"default_choice,omitempty"`
	Default         *Digest        `json:"default,omitempty"` // the response that is accepted at the deadline
	CreatedAt       Millis         `json:"created_at"`
	Status          DecisionStatus `json:"status"`

	Resolution *DecisionResolution `json:"resolution,omitempty"` // nil while it is pending
}

// DecisionResolution is the one outcome of a decision. There never is another (D8).
type DecisionResolution struct {
	Outcome    DecisionStatus `json:"outcome"` // accepted or cancelled
	Reason     DecisionReason `json:"reason"`
	Submission int            `json:"submission,omitempty"` // the number of the answer that won, if a person's did
	Choice     string         `json:"choice,omitempty"`     // if accepted
	Response   *Digest        `json:"response,omitempty"`   // if accepted
	Actor      Actor          `json:"actor"`                // its id is private
	At         Millis         `json:"at"`
}

// Resource returns the resource that the decision is.
func (d *Decision) Resource() ResourceID { return NewResourceID(DecisionResource, d.ID) }

// due reports whether the deadline has passed.
func (d *Decision) due(now Millis) bool { return d.DeadlineAt != 0 && now >= d.DeadlineAt }

// winner is what everybody gets who came too late.
func (d *Decision) winner() error {
	w := *d.Resolution
	return &schema.Error{
		Code:   schema.AlreadyResolved,
		Detail: fmt.Sprintf("decision %s was %s before (%s), and stays so", d.ID, w.Outcome, w.Reason),
		Err:    &ConflictError{Identity: "resolution of decision " + d.ID, Winner: w},
	}
}

// decisionID returns the id that run, key and request revision determine: an answer to a question can't
// reach the one that is asked after it.
func decisionID(run, key string, revision int) string {
	return derivedID("dec", run, key, strconv.Itoa(revision))
}

const decisionColumns = `d.decision_id, r.revision, d.run_id, d.attempt_id, d.decision_key, d.request_revision,
		       d.request_digest, d.audience, d.title, d.subject_blob, d.presentation_blob, d.choices_blob,
		       d.is_protected, d.deadline_at, d.default_choice, d.default_blob, d.created_at, d.status,
		       w.outcome, w.reason, w.submission_sequence, w.choice, w.response_blob, w.actor_class, w.actor_id,
		       w.resolved_at`

const (
	selDecision = `
		SELECT ` + decisionColumns + `
		  FROM human_decisions AS d
		  JOIN resources AS r ON r.resource_id = d.resource_id
		  LEFT JOIN human_decision_resolutions AS w ON w.decision_id = d.decision_id
		 WHERE d.decision_id = ?1`
)

func scanDecision(r sqlite.Row) Decision {
	d := Decision{
		ID:              r.Text(0),
		Revision:        r.Int64(1),
		Run:             r.Text(2),
		Attempt:         r.Text(3),
		Key:             r.Text(4),
		RequestRevision: r.Int(5),
		Audience:        r.Text(7),
		Title:           r.Text(8),
		Protected:       r.Bool(12),
		DeadlineAt:      Millis(r.Int64(13)),
		DefaultChoice:   r.Text(14),
		Default:         digestOf(r.Bytes(15)),
		CreatedAt:       Millis(r.Int64(16)),
		Status:          DecisionStatus(r.Text(17)),
	}
	copy(d.RequestDigest[:], r.Bytes(6))
	copy(d.Subject[:], r.Bytes(9))
	copy(d.Presentation[:], r.Bytes(10))
	copy(d.Choices[:], r.Bytes(11))
	if !r.IsNull(18) {
		d.Resolution = &DecisionResolution{
			Outcome:    DecisionStatus(r.Text(18)),
			Reason:     DecisionReason(r.Text(19)),
			Submission: r.Int(20),
			Choice:     r.Text(21),
			Response:   digestOf(r.Bytes(22)),
			Actor:      Actor{ActorClass(r.Text(23)), r.Text(24)},
			At:         Millis(r.Int64(25)),
		}
	}
	return d
}

func findDecision(rx *sqlite.Rx, id string) (d Decision, found bool, err error) {
	found, err = rx.QueryRow(selDecision, func(r sqlite.Row) error {
		d = scanDecision(r)
		return nil
	}, id)
	return d, found, err
}

// getDecision is findDecision for one that must be there.
func getDecision(rx *sqlite.Rx, id string) (Decision, error) {
	d, found, err := findDecision(rx, id)
	if err == nil && !found {
		err = notFound("decision", id)
	}
	return d, err
}
