package store

import (
	"encoding/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

const (
	insDecision = `
		INSERT INTO human_decisions (decision_id, run_id, attempt_id, decision_key, request_revision, request_digest,
		                             audience, title, subject_blob, presentation_blob, choices_blob, is_protected,
		                             deadline_at, default_choice, default_blob, created_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)`

	selAttemptEnd = `
		SELECT ended_at
		  FROM node_attempts
		 WHERE run_id     = ?1
		   AND attempt_id = ?2`
)

// RequestDecision asks people a question. The same run, key and request revision again is the same question.
//
// A question is asked again, differently, under the next request revision, once the one before is resolved:
// cancel that first.
//
// Errors: [schema.Invalid] for choices that can't be offered, a default that is none of them, or a deadline
// that has passed; [schema.Conflict] with the stored [Decision] as the winner if another question was asked
// under this identity; [schema.IllegalTransition] while the earlier request is pending, and for an attempt
// that has ended; [schema.NotFound] without the earlier request or the attempt.
type RequestDecision struct {
	Run             string          `json:"run"`
	Key             string          `json:"key"`
	RequestRevision int             `json:"request_revision"`
	Attempt         string          `json:"attempt,omitempty"` // the open attempt that waits for the answer
	Audience        string          `json:"audience"`          // who is asked
	Title           string          `json:"title"`
	Subject         json.RawMessage `json:"subject"`      // what is to be decided on
	Presentation    json.RawMessage `json:"presentation"` // how it is shown
	Choices         []Choice        `json:"choices"`
	Unprotected     bool            `json:"unprotected,omitempty"` // a model's answer may resolve it
	DeadlineAt      Millis          `json:"deadline_at,omitempty"` // 0: it stays open
	Default         *Response       `json:"default,omitempty"`     // accepted at the deadline; nil: it expires
}

// Op returns "decision.request".
func (RequestDecision) Op() Op { return OpDecisionRequest }

// requestDraft is a request made ready before the transaction. In JSON its contents are digests.
type requestDraft struct {
	RequestDecision
	Subject      *content `json:"subject"`
	Presentation *content `json:"presentation"`
	Choices      *content `json:"choices"`
	Default      *content `json:"default,omitempty"`
	Digest       Digest   `json:"request_digest"`

	id            string
	defaultChoice string
}

func (d *draft) request(c RequestDecision) *requestDraft {
	d.id("run", c.Run)
	d.id("key", c.Key)
	if c.Attempt != "" {
		d.id("attempt", c.Attempt)
	}
	d.id("audience", c.Audience)
	d.line("title", c.Title, maxTitleBytes)
	if c.RequestRevision < 1 {
		d.invalid("request_revision %d: it counts from 1", c.RequestRevision)
	}
	d.fail(checkChoices(c.Choices))
	switch {
	case c.DeadlineAt < 0:
		d.invalid("deadline_at %d is negative", c.DeadlineAt)
	case c.Default != nil && c.DeadlineAt == 0:
		d.invalid("a default response is accepted at the deadline: give a deadline_at")
	case c.Default != nil:
		if problem := c.Default.problem(c.Choices); problem != "" {
			d.invalid("default: %s", problem)
		}
	}
	r := &requestDraft{
		RequestDecision: c,
		Subject:         d.json("subject", c.Subject),
		Presentation:    d.json("presentation", c.Presentation),
		Choices:         d.value("choices", c.Choices),
		id:              decisionID(c.Run, c.Key, c.RequestRevision),
	}
	if c.Default != nil {
		r.Default, r.defaultChoice = d.value("default", c.Default), c.Default.Choice
	}
	if d.problem == nil {
		r.Digest = d.requestDigest(c)
	}
	return r
}

// requestDigest returns the digest of what people are asked: the SHA-256 of the canonical JSON of these
// members, so that any program can compute it. Absent ones are left out.
func (d *draft) requestDigest(c RequestDecision) Digest {
	return d.digestOf("request", struct {
		Subject      json.RawMessage `json:"subject"`
		Presentation json.RawMessage `json:"presentation"`
		Title        string          `json:"title"`
		Revision     int             `json:"revision"`
		Choices      []Choice        `json:"choices"` // with their prompts
		DeadlineAt   Millis          `json:"deadline_at,omitempty"`
		Default      *Response       `json:"default,omitempty"`
	}{c.Subject, c.Presentation, c.Title, c.RequestRevision, c.Choices, c.DeadlineAt, c.Default})
}

// digestOf returns the digest of the canonical JSON of a value that is not stored itself.
func (d *draft) digestOf(field string, v any) Digest {
	b, err := json.Marshal(v)
	if err != nil {
		d.fail(err)
		return Digest{}
	}
	c, err := jsonContent(field, b)
	if err != nil {
		d.fail(err)
		return Digest{}
	}
	return c.digest
}

// value makes canonical content of a value of our own. nil after a problem.
func (d *draft) value(field string, v any) *content {
	b, err := json.Marshal(v)
	if err != nil {
		d.fail(err)
		return nil
	}
	return d.json(field, b)
}

// same reports whether a stored decision is this request.
func (r *requestDraft) same(d Decision) bool {
	return d.RequestDigest == r.Digest && d.Attempt == r.Attempt && d.Audience == r.Audience && d.Protected == !r.Unprotected
}

func (c RequestDecision) prepare(d *draft) *plan[*Decision] {
	r := d.request(c)
	find := func(rx *sqlite.Rx) (*Decision, bool, error) {
		stored, found, err := findDecision(rx, r.id)
		if found && !r.same(stored) {
			err = refuse(schema.Conflict, &ConflictError{"decision " + r.id, stored})
		}
		return &stored, found, err
	}
	return &plan[*Decision]{
		subject:  NewResourceID(DecisionResource, r.id),
		creates:  true,
		payload:  r,
		owner:    func(*sqlite.Rx, Ownership) (ResourceID, error) { return NewResourceID(RunResource, c.Run), nil },
		existing: find,
		repeated: func(rx *sqlite.Rx, _ Event) (*Decision, error) {
			stored, _, err := find(rx)
			return stored, err
		},
		decide: r.decide,
	}
}

func (r *requestDraft) decide(f *facts) (*change[*Decision], error) {
	if err := r.mayAsk(f); err != nil {
		return nil, err
	}
	d := &Decision{
		ID: r.id, Revision: 1, Run: r.Run, Attempt: r.Attempt, Key: r.Key, RequestRevision: r.RequestRevision,
		RequestDigest: r.Digest, Audience: r.Audience, Title: r.Title, Subject: r.Subject.digest,
		Presentation: r.Presentation.digest, Choices: r.Choices.digest, Protected: !r.Unprotected,
		DeadlineAt: r.DeadlineAt, DefaultChoice: r.defaultChoice, CreatedAt: f.now, Status: DecisionPending,
	}
	if r.Default != nil {
		d.Default = &r.Default.digest
	}
	return &change[*Decision]{
		result: d,
		steps:  []step{{resource: d.Resource(), creates: true, event: "decision.requested", run: d.Run}},
		rows: func(tx *sqlite.Tx) error {
			_, err := tx.Exec(insDecision, d.ID, d.Run, orNull(d.Attempt), d.Key, d.RequestRevision, d.RequestDigest[:],
				d.Audience, d.Title, d.Subject[:], d.Presentation[:], d.Choices[:], d.Protected,
				orNull(int64(d.DeadlineAt)), orNull(d.DefaultChoice), d.Default.bytes(), int64(d.CreatedAt))
			return err
		},
	}, nil
}

// mayAsk refuses a question at the wrong time.
func (r *requestDraft) mayAsk(f *facts) error {
	if r.DeadlineAt != 0 && r.DeadlineAt <= f.now {
		return schema.Errorf(schema.Invalid, "deadline_at %d has passed: it is %d now", r.DeadlineAt, f.now)
	}
	if r.Attempt != "" {
		ended := false
		found, err := f.QueryRow(selAttemptEnd, func(row sqlite.Row) error {
			ended = !row.IsNull(0)
			return nil
		}, r.Run, r.Attempt)
		switch {
		case err != nil:
			return err
		case !found:
			return notFound("attempt of run "+r.Run, r.Attempt)
		case ended:
			return illegal(f, "for an attempt that has ended")
		}
	}
	if r.RequestRevision == 1 {
		return nil
	}
	before, err := getDecision(f.Rx, decisionID(r.Run, r.Key, r.RequestRevision-1))
	if err == nil && before.Resolution == nil {
		err = refuse(schema.IllegalTransition, &TransitionError{before.Resource(), "still pending", f.op})
	}
	return err
}
