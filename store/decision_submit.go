package store

import (
	"encoding/json"
	"errors"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// SubmissionOutcome is what became of an answer.
type SubmissionOutcome string

// The outcomes of an answer.
const (
	AnswerWon             SubmissionOutcome = "won"
	AnswerAdopted         SubmissionOutcome = "adopted"          // the same response had won already
	AnswerAlreadyResolved SubmissionOutcome = "already_resolved" // something else had won
	AnswerStale           SubmissionOutcome = "stale"            // it was given to another request
	AnswerRejected        SubmissionOutcome = "rejected"         // it is no answer to this request
)

// DecisionSubmission is one answer that somebody gave, whatever became of it (D8).
type DecisionSubmission struct {
	Decision      string            `json:"decision"`
	Sequence      int               `json:"sequence"` // from 1
	ID            string            `json:"id"`       // the same id again is the same answer
	RequestDigest Digest            `json:"request_digest"`
	Choice        string            `json:"choice,omitempty"` // "": it could not be read
	Response      Digest            `json:"response"`
	Actor         Actor             `json:"actor"` // its id is private
	Channel       string            `json:"channel,omitempty"`
	ExternalEvent string            `json:"external_event,omitempty"`
	Outcome       SubmissionOutcome `json:"outcome"`
	Detail        string            `json:"detail,omitempty"`
	At            Millis            `json:"at"`
}

// DecisionAnswer says what became of an answer. Those that lose are kept too, so losing is no error of the
// command; Err makes one of it.
type DecisionAnswer struct {
	Submission DecisionSubmission `json:"submission"`
	Decision   Decision           `json:"decision"` // with the durable winner, if there is one
}

// Err returns nil for an answer that won or was adopted. Else: [schema.AlreadyResolved] with the durable
// winner, a [DecisionResolution], in a [*ConflictError]; [schema.StaleRevision] for an answer to another
// request; [schema.Invalid] for one that was rejected.
func (a *DecisionAnswer) Err() error {
	switch a.Submission.Outcome {
	case AnswerAlreadyResolved:
		return a.Decision.winner()
	case AnswerStale:
		return schema.Errorf(schema.StaleRevision, "decision %s: %s", a.Decision.ID, a.Submission.Detail)
	case AnswerRejected:
		return schema.Errorf(schema.Invalid, "decision %s: %s", a.Decision.ID, a.Submission.Detail)
	}
	return nil
}

// maxSubmissions is how many answers are kept of a decision beside the one that wins, so that a stuck or
// malicious sender can't fill the database.
const maxSubmissions = 200

const submissionColumns = `decision_id, sequence, submission_id, request_digest, choice, response_blob, actor_class, actor_id,
		       channel_id, external_event_id, outcome, detail, submitted_at`

const (
	selSubmission = `
		SELECT ` + submissionColumns + `
		  FROM human_decision_submissions
		 WHERE submission_id = ?1`

	selLastSubmission = `
		SELECT ifnull(max(sequence), 0)
		  FROM human_decision_submissions
		 WHERE decision_id = ?1`

	insSubmission = `
		INSERT INTO human_decision_submissions (decision_id, sequence, submission_id, request_digest, choice,
		                                        response_blob, actor_class, actor_id, channel_id,
		                                        external_event_id, outcome, detail, submitted_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)`

	selInboxEvent = `
		SELECT 1
		  FROM channel_inbox
		 WHERE channel_id        = ?1
		   AND external_event_id = ?2`

	selRunEnd = `
		SELECT status
		  FROM runs
		 WHERE run_id = ?1
		   AND ended_at IS NOT NULL`
)

func scanSubmission(r sqlite.Row) DecisionSubmission {
	s := DecisionSubmission{
		Decision:      r.Text(0),
		Sequence:      r.Int(1),
		ID:            r.Text(2),
		Choice:        r.Text(4),
		Actor:         Actor{ActorClass(r.Text(6)), r.Text(7)},
		Channel:       r.Text(8),
		ExternalEvent: r.Text(9),
		Outcome:       SubmissionOutcome(r.Text(10)),
		Detail:        r.Text(11),
		At:            Millis(r.Int64(12)),
	}
	copy(s.RequestDigest[:], r.Bytes(3))
	copy(s.Response[:], r.Bytes(5))
	return s
}

// SubmitDecision gives a person's answer to a decision, and gives that person no other right (D9). It comes
// from a person whom the caller has verified, or from a channel, whose adapter has: then Channel and
// ExternalEvent name what came in, and the permit's claim is on the channel.
//
// An answer that has to be kept is kept, and the command accepted: see [DecisionAnswer]. The first valid one
// wins, also after the deadline as long as nobody has applied that. A second answer under the same id is a
// conflict; the same answer again returns what became of the first.
//
// Errors: [schema.Conflict] with the stored [DecisionSubmission] as the winner; [schema.Limit] for a
// response of more than MaxResponseBytes, and for an answer that does not win when 200 were kept;
// [schema.NotFound] for the decision, or for what is said to have come in.
type SubmitDecision struct {
	Decision      string          `json:"decision"`
	Submission    string          `json:"submission"`     // the id of the answer
	RequestDigest Digest          `json:"request_digest"` // of the request that was answered
	Response      json.RawMessage `json:"response"`       // a [Response]; anything else is kept and rejected
	Channel       string          `json:"channel,omitempty"`
	ExternalEvent string          `json:"external_event,omitempty"`
}

// Op returns "decision.submit".
func (SubmitDecision) Op() Op { return OpDecisionSubmit }

// SubmitModelAnswer gives a model's answer to a decision that is not protected, for the owner of its run.
//
// Errors: as for [SubmitDecision], and [schema.Denied] for a protected decision: only a person's answer can
// resolve that.
type SubmitModelAnswer struct {
	Decision      string          `json:"decision"`
	Submission    string          `json:"submission"`
	RequestDigest Digest          `json:"request_digest"`
	Response      json.RawMessage `json:"response"`
}

// Op returns "decision.submit_model".
func (SubmitModelAnswer) Op() Op { return OpDecisionSubmitModel }

func (c SubmitDecision) prepare(d *draft) *plan[*DecisionAnswer] {
	return d.answer(c)
}

func (c SubmitModelAnswer) prepare(d *draft) *plan[*DecisionAnswer] {
	return d.answer(SubmitDecision{
		Decision: c.Decision, Submission: c.Submission, RequestDigest: c.RequestDigest, Response: c.Response,
	})
}

// answerDraft is an answer made ready before the transaction. In JSON its response is a digest.
type answerDraft struct {
	SubmitDecision
	Response *content `json:"response"`

	actor   Actor
	given   Response
	problem string // what keeps the response from being one
	follow  *followUp
}

func (d *draft) answer(c SubmitDecision) *plan[*DecisionAnswer] {
	d.id("decision", c.Decision)
	d.id("submission", c.Submission)
	byChannel := d.op == OpDecisionSubmit && d.permit.Actor.Class == ChannelActor
	if c.Channel != "" || c.ExternalEvent != "" || byChannel {
		d.id("channel", c.Channel)
		d.id("external_event", c.ExternalEvent)
	}
	d.fail(checkLimit("response", len(c.Response), MaxResponseBytes))
	a := &answerDraft{SubmitDecision: c, actor: d.permit.Actor, follow: d.continuationOf(c.Decision)}
	if sent := d.check("response")(jsonContent("response", c.Response)); sent != nil {
		if a.given, a.problem = parseResponse(sent.bytes); a.problem == "" {
			a.Response = d.value("response", a.given) // one form, however it was sent
		} else {
			a.Response = d.keep(sent)
		}
	}
	return &plan[*DecisionAnswer]{
		subject:  NewResourceID(DecisionResource, c.Decision),
		payload:  a,
		owner:    a.owner,
		existing: a.find,
		repeated: func(rx *sqlite.Rx, _ Event) (*DecisionAnswer, error) {
			stored, _, err := a.find(rx)
			return stored, err
		},
		decide: a.decide,
	}
}

func (a *answerDraft) owner(rx *sqlite.Rx, needs Ownership) (ResourceID, error) {
	if needs == OwnChannel {
		return NewResourceID(ChannelResource, a.Channel), nil
	}
	return ownerOfDecision(rx, a.Decision)
}

// ownerOfDecision returns the run that a decision belongs to, or "" once that has ended: nobody can own it.
func ownerOfDecision(rx *sqlite.Rx, id string) (ResourceID, error) {
	d, err := getDecision(rx, id)
	if err != nil {
		return "", err
	}
	return ownerOfRun(rx, d.Run)
}

// runEnd returns the final status of a run, or "" while it goes on.
func runEnd(rx *sqlite.Rx, run string) (status string, err error) {
	_, err = rx.QueryRow(selRunEnd, func(r sqlite.Row) error {
		status = r.Text(0)
		return nil
	}, run)
	return status, err
}

// find looks for the answer among those that were kept. Errors: [schema.Conflict] if another one was kept
// under its id.
func (a *answerDraft) find(rx *sqlite.Rx) (*DecisionAnswer, bool, error) {
	var s DecisionSubmission
	found, err := rx.QueryRow(selSubmission, func(r sqlite.Row) error {
		s = scanSubmission(r)
		return nil
	}, a.Submission)
	if !found || err != nil {
		return nil, false, err
	}
	same := s.Decision == a.Decision && s.RequestDigest == a.RequestDigest && s.Response == a.Response.digest &&
		s.Channel == a.Channel && s.ExternalEvent == a.ExternalEvent && s.Actor.Class == a.actor.Class &&
		(s.Actor.ID == a.actor.ID || a.actor.owns()) // an owner's successor repeats it under its own name
	if !same {
		return nil, true, refuse(schema.Conflict, &ConflictError{"submission " + a.Submission, s})
	}
	d, err := getDecision(rx, s.Decision)
	return &DecisionAnswer{s, d}, true, err
}

func (a *answerDraft) decide(f *facts) (*change[*DecisionAnswer], error) {
	d, err := getDecision(f.Rx, a.Decision)
	if err != nil {
		return nil, err
	}
	if f.op == OpDecisionSubmitModel && d.Protected {
		return nil, refuse(schema.Denied, &DeniedError{f.op, f.actor.Class, "the decision is protected: only a person's answer can resolve it"})
	}
	if err := a.mustHaveComeIn(f.Rx); err != nil {
		return nil, err
	}
	s := DecisionSubmission{
		Decision: d.ID, ID: a.Submission, RequestDigest: a.RequestDigest, Response: a.Response.digest, Actor: f.actor,
		Channel: a.Channel, ExternalEvent: a.ExternalEvent, At: f.now,
	}
	if checkID("choice", a.given.Choice) == nil {
		s.Choice = a.given.Choice
	}
	if s.Outcome, s.Detail, err = a.judge(f.Rx, &d); err != nil {
		return nil, err
	}
	if s.Sequence, err = nextSubmission(f.Rx, s); err != nil {
		return nil, err
	}
	if s.Outcome != AnswerWon {
		d.Revision++
		return &change[*DecisionAnswer]{
			result: &DecisionAnswer{s, d},
			steps:  []step{{resource: d.Resource(), event: "decision.answer_" + string(s.Outcome), run: d.Run}},
			rows:   func(tx *sqlite.Tx) error { return insertSubmission(tx, s) },
		}, nil
	}
	answer := &DecisionAnswer{Submission: s}
	won := resolveDecision(f, &d, DecisionResolution{Reason: ReasonHuman, Submission: s.Sequence, Choice: s.Choice, Response: &s.Response}, &s, a.follow, answer)
	answer.Decision = d
	return won, nil
}

// judge says what becomes of the answer, and why. What can't be an answer never gets as far as the race.
func (a *answerDraft) judge(rx *sqlite.Rx, d *Decision) (outcome SubmissionOutcome, detail string, err error) {
	if a.RequestDigest != d.RequestDigest {
		return AnswerStale, "it answers another request than the one of this decision: show the present one and ask again", nil
	}
	problem := a.problem
	if problem == "" {
		choices, err := d.choices(rx)
		if err != nil {
			return "", "", err
		}
		problem = a.given.problem(choices)
	}
	if problem != "" {
		return AnswerRejected, problem, nil
	}
	if w := d.Resolution; w != nil {
		if w.Response != nil && *w.Response == a.Response.digest {
			return AnswerAdopted, "", nil
		}
		return AnswerAlreadyResolved, "", nil
	}
	ended, err := runEnd(rx, d.Run)
	if ended != "" {
		return AnswerRejected, "the run that asked is " + ended, err
	}
	return AnswerWon, "", err
}

// mustHaveComeIn refuses an answer from a channel where nothing of the kind came in.
func (a *answerDraft) mustHaveComeIn(rx *sqlite.Rx) error {
	if a.Channel == "" {
		return nil
	}
	found, err := rx.QueryRow(selInboxEvent, func(sqlite.Row) error { return nil }, a.Channel, a.ExternalEvent)
	if err == nil && !found {
		err = notFound("event in the inbox of channel "+a.Channel, a.ExternalEvent)
	}
	return err
}

// nextSubmission returns the number of an answer that is about to be kept.
func nextSubmission(rx *sqlite.Rx, s DecisionSubmission) (next int, err error) {
	found, err := rx.QueryRow(selLastSubmission, func(r sqlite.Row) error {
		next = r.Int(0) + 1
		return nil
	}, s.Decision)
	if err == nil && !found {
		err = errors.New("an aggregate has no row")
	}
	if err == nil && next > maxSubmissions && s.Outcome != AnswerWon {
		err = schema.Errorf(schema.Limit, "decision %s has %d answers; no more are kept that don't win, and this one is %s", s.Decision, maxSubmissions, s.Outcome)
	}
	return next, err
}

func insertSubmission(tx *sqlite.Tx, s DecisionSubmission) error {
	_, err := tx.Exec(insSubmission, s.Decision, s.Sequence, s.ID, s.RequestDigest[:], orNull(s.Choice), s.Response[:],
		string(s.Actor.Class), orNull(s.Actor.ID), orNull(s.Channel), orNull(s.ExternalEvent), string(s.Outcome),
		orNull(s.Detail), int64(s.At))
	return err
}
