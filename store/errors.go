package store

import (
	"fmt"
	"time"

	"pistate/schema"
)

// The causes below carry the facts of a refused command. Each is the cause of a *schema.Error, whose code is
// named with it, and is found with errors.As.

// RevisionError says that a resource has another revision than the permit expected: [schema.StaleRevision].
type RevisionError struct {
	Resource ResourceID `json:"resource"`
	Expected int64      `json:"expected"`
	Found    int64      `json:"found"`
}

func (e *RevisionError) Error() string {
	return fmt.Sprintf("%s has revision %d, not %d: read it and decide again", e.Resource, e.Found, e.Expected)
}

// ClaimError says that a claim no longer gives ownership: [schema.StaleClaim].
type ClaimError struct {
	Resource   ResourceID `json:"resource"`
	Generation int64      `json:"generation"` // of the claim that was presented; 0 if none was
	Current    int64      `json:"current"`    // of the lease now; 0 if it was never claimed
	Reason     string     `json:"reason"`
}

func (e *ClaimError) Error() string {
	return fmt.Sprintf("claim of generation %d on %s (now %d): %s", e.Generation, e.Resource, e.Current, e.Reason)
}

// HeldError says who holds a lease: [schema.Locked].
type HeldError struct {
	Resource   ResourceID `json:"resource"`
	Owner      Actor      `json:"owner"`
	Generation int64      `json:"generation"`
	Until      Millis     `json:"until"` // when it expires, unless its holder renews it
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is held by %s %s until %s: wait until then, or for its release",
		e.Resource, e.Owner.Class, e.Owner.ID, e.Until.Time().UTC().Format(time.RFC3339Nano))
}

// TransitionError says that a resource's state does not allow the command: [schema.IllegalTransition].
type TransitionError struct {
	Resource ResourceID `json:"resource"`
	From     string     `json:"from"` // the state that it is in
	Op       Op         `json:"op"`
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("%s is %s, which does not allow %s", e.Resource, e.From, e.Op)
}

// ConflictError carries the durable winner of an identity under which another command was sent:
// [schema.Conflict], or [schema.AlreadyResolved] for a decision.
type ConflictError struct {
	Identity string `json:"identity"` // what both have in common: "request x", "effect run:r1 mail.send k"
	Winner   any    `json:"winner"`   // what is stored: an Event, an Effect, or the domain's own type
}

func (e *ConflictError) Error() string {
	return e.Identity + ": something else is stored under this identity"
}

// DeniedError says that an actor may not carry out an operation: [schema.Denied].
type DeniedError struct {
	Op     Op         `json:"op"`
	Class  ActorClass `json:"class"`
	Reason string     `json:"reason"`
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("a %s may not do %s: %s", e.Class, e.Op, e.Reason)
}

func refuse(code schema.Code, cause error) error {
	return &schema.Error{Code: code, Detail: cause.Error(), Err: cause}
}

// illegal is what a transition returns for a state that doesn't allow it.
func illegal(f *facts, from string) error {
	return refuse(schema.IllegalTransition, &TransitionError{f.subject.ID, from, f.op})
}

func notFound(what, id string) error {
	return schema.Errorf(schema.NotFound, "there is no %s %s", what, id)
}

// only returns the one element of a list that was read by an id. Errors: err, or [schema.NotFound] if there is none.
func only[T any](found []T, err error, what, id string) (one T, _ error) {
	switch {
	case err != nil:
		return one, err
	case len(found) == 0:
		return one, notFound(what, id)
	}
	return found[0], nil
}

// withOp names the operation in an error that doesn't name one yet.
func withOp(op Op, err error) error {
	if err == nil {
		return nil
	}
	e := &schema.Error{Code: schema.CodeOf(err), Op: string(op), Detail: err.Error(), Err: err}
	if coded, ok := err.(*schema.Error); ok {
		if coded.Op != "" {
			return err
		}
		e.Detail, e.Err = coded.Detail, coded.Err
	}
	return e
}
