package store

import (
	"context"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"pistate/schema"
)

//go:generate go run pistate/internal/protocoldoc -o ../docs/protocol.md

// MaxRequestBytes is the longest request of the command protocol: the largest content, and what JSON adds to
// it.
const MaxRequestBytes = MaxContentBytes + 16<<20

// Endpoint is one operation of the command protocol.
type Endpoint struct {
	Op     Op
	Does   string       // one line for people
	Query  bool         // it changes nothing, and takes no permit
	Grants bool         // its answer, and no other one, shows the token of a claim
	Args   reflect.Type // the form of args: a struct
	Result reflect.Type // the form of result

	run func(context.Context, *Store, call) (acceptance, error)
}

// call is what a request asks of its endpoint.
type call struct {
	permit Permit
	notify []NewNotification
	turns  []NewTurn
	args   jsontext.Value
}

// Protocol returns the operations of the command protocol: every command and every query, in the order in
// which the documentation prints them.
func Protocol() []Endpoint { return slices.Clone(endpoints) }

var endpointOf = func() map[Op]*Endpoint {
	byOp := map[Op]*Endpoint{}
	for i := range endpoints {
		byOp[endpoints[i].Op] = &endpoints[i]
	}
	return byOp
}()

// command is the endpoint of a command.
func command[C Command[R], R any]() Endpoint {
	var zero C
	return Endpoint{
		Op:     zero.Op(),
		Does:   operations[zero.Op()].Does,
		Args:   reflect.TypeFor[C](),
		Result: reflect.TypeFor[R](),
		run: func(ctx context.Context, s *Store, call call) (acceptance, error) {
			var cmd C
			if err := Decode(call.args, "args", &cmd); err != nil {
				return acceptance{}, err
			}
			var whole Command[R] = cmd
			if len(call.notify)+len(call.turns) > 0 {
				whole = Delivering[R]{Command: cmd, Notify: call.notify, Turns: call.turns}
			}
			done, err := Do(ctx, s, call.permit, whole)
			return acceptance{Revision: done.Revision, Sequence: done.Sequence, Adopted: done.Adopted, Result: done.Result}, err
		},
	}
}

// grants is the endpoint of a command that hands out a claim.
func grants(e Endpoint) Endpoint {
	e.Grants = true
	return e
}

// query is the endpoint of a query.
func query[A, R any](op Op, does string, ask func(context.Context, *Queries, A) (R, error)) Endpoint {
	return Endpoint{
		Op:     op,
		Does:   does,
		Query:  true,
		Args:   reflect.TypeFor[A](),
		Result: reflect.TypeFor[R](),
		run: func(ctx context.Context, s *Store, call call) (acceptance, error) {
			var args A
			if err := Decode(call.args, "args", &args); err != nil {
				return acceptance{}, err
			}
			result, err := ask(ctx, &s.Queries, args)
			return acceptance{Result: result}, err
		},
	}
}

// Dispatch carries out a command or a query in its JSON form and returns the answer, on one line. This is how
// other languages use the store. It never fails otherwise than in its answer, whatever the request is: the
// form of both is in docs/protocol.md.
//
// The answer to a command that hands out a claim is the only one with a token in it.
func (s *Store) Dispatch(ctx context.Context, request []byte) []byte {
	e, answer, err := s.dispatch(ctx, request)
	if err == nil {
		var text []byte
		if text, err = encode(answer, e.Grants); err == nil {
			return text
		}
	}
	return refuseRequest(e, err)
}

func (s *Store) dispatch(ctx context.Context, text []byte) (e *Endpoint, answer acceptance, err error) {
	defer func() {
		if p := recover(); p != nil { // nothing of a command that panics is kept
			err = schema.Errorf(schema.Storage, "the program has a fault: %v", p)
		}
	}()
	if len(text) > MaxRequestBytes {
		return nil, answer, schema.Errorf(schema.Limit, "the request has %d bytes; at most %d are possible", len(text), MaxRequestBytes)
	}
	var r request
	if err := Decode(text, "", &r); err != nil {
		return nil, answer, err
	}
	e = endpointOf[r.Op]
	switch {
	case r.Op == "":
		return nil, answer, schema.Errorf(schema.Invalid, "op is missing: the name of an operation is expected")
	case e == nil:
		return nil, answer, schema.Errorf(schema.Invalid, "op: there is no operation %q", r.Op)
	}
	call, err := r.call(e)
	if err != nil {
		return e, answer, err
	}
	answer, err = e.run(ctx, s, call)
	return e, answer, err
}

// request is the envelope of every request. Its members beside op and args are the permit of a command, and
// what it causes for Pi sessions.
type request struct {
	Op    Op             `json:"op"`
	Args  jsontext.Value `json:"args,omitempty"`
	Actor *Actor         `json:"actor,omitempty"` // needed of a command
	// Expected is the revision of the resource that the caller has seen, 0 for one that it wants to create. If
	// it is left out, any will do, where the operation accepts that; else it is 0.
	Expected *int64 `json:"expected,omitempty"`
	// Claim is what a claim was answered with, as it was answered.
	Claim           *claimFacts `json:"claim,omitempty"`
	Request         string      `json:"request,omitempty"`
	SecretsReviewed bool        `json:"secrets_reviewed,omitempty"`

	Notify []NewNotification `json:"notify,omitempty"`
	Turns  []NewTurn         `json:"turns,omitempty"`
}

// isBare reports whether there is nothing of a command in the request.
func (r *request) isBare() bool {
	return r.Actor == nil && r.Expected == nil && r.Claim == nil && r.Request == "" && !r.SecretsReviewed &&
		len(r.Notify)+len(r.Turns) == 0
}

func (r *request) call(e *Endpoint) (c call, err error) {
	c.args = r.Args
	if c.args == nil {
		c.args = jsontext.Value("{}")
	}
	if e.Query {
		if !r.isBare() {
			err = schema.Errorf(schema.Invalid, "%s is a query: it takes op and args, and no permit", e.Op)
		}
		return c, err
	}
	if r.Actor == nil {
		return c, schema.Errorf(schema.Invalid, "actor is missing: a command needs to know who asks")
	}
	c.notify, c.turns = r.Notify, r.Turns
	c.permit = Permit{Actor: *r.Actor, Request: r.Request, SecretsReviewed: r.SecretsReviewed}
	switch {
	case r.Expected != nil:
		c.permit.Expected = *r.Expected
	case operations[e.Op].AnyRevision:
		c.permit.Expected = AnyRevision
	}
	if r.Claim == nil {
		return c, nil
	}
	c.permit.Claim, err = ParseClaim(r.Claim.Resource, r.Claim.Generation, r.Claim.Token)
	if err != nil {
		return c, err
	}
	c.permit.Claim.ExpiresAt = r.Claim.ExpiresAt
	return c, nil
}
