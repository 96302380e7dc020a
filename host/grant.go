package host

import (
	"bytes"
	"context"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// grant is the authority of one call: one plugin's state at one place of one session, and nothing else. It
// knows no WebAssembly: it takes and gives bytes, so that whatever runs the guest can be on the other side
// of it. What it is given may be a view of the guest's memory; it copies what the store is to see, after the
// size was found acceptable.
type grant struct {
	states     states
	sc         sessionstate.SessionContext
	valueBytes int
}

// newGrant binds a plugin's state to the place that the embedder names. The place is read once: a context
// that moves on to another session during the call does not take the call with it.
func newGrant(s states, sc sessionstate.SessionContext, limits Limits) (*grant, error) {
	if sc == nil {
		return nil, schema.Errorf(schema.Invalid, "no session context: give one with the session's id, leaf and tree")
	}
	at := sessionstate.At(sc.SessionID(), sc.Leaf(), sc.Tree())
	if at.SessionID() == "" {
		return nil, schema.Errorf(schema.Invalid, "the session context has no session id")
	}
	return &grant{states: s, sc: at, valueBytes: limits.ValueBytes}, nil
}

func (g *grant) state(scope int32) (state, error) {
	switch scope {
	case abi.ScopeSession:
		return g.states.session, nil
	case abi.ScopeBranch:
		return g.states.branch, nil
	}
	return nil, schema.Errorf(schema.Invalid, "scope %d: it is %d for the session or %d for the branch",
		scope, abi.ScopeSession, abi.ScopeBranch)
}

func (g *grant) read(ctx context.Context, scope int32) (value []byte, found bool, err error) {
	s, err := g.state(scope)
	if err != nil {
		return nil, false, err
	}
	return s.Read(ctx, g.sc)
}

func (g *grant) write(ctx context.Context, scope int32, value []byte) error {
	s, err := g.state(scope)
	if err != nil {
		return err
	}
	if err := g.checkSize(value); err != nil {
		return err
	}
	return s.Write(ctx, g.sc, bytes.Clone(value))
}

func (g *grant) drop(ctx context.Context, scope int32) error {
	s, err := g.state(scope)
	if err != nil {
		return err
	}
	return s.Drop(ctx, g.sc)
}

// compareAndWrite writes value if the stored one is old; a nil old is absence.
func (g *grant) compareAndWrite(ctx context.Context, scope int32, old, value []byte) error {
	s, err := g.state(scope)
	if err != nil {
		return err
	}
	if err := g.checkSize(value); err != nil {
		return err
	}
	return s.CompareAndWrite(ctx, g.sc, bytes.Clone(old), bytes.Clone(value))
}

func (g *grant) branchKey() (key string, ok bool, err error) {
	return g.states.branch.BranchKey(g.sc)
}

func (g *grant) checkSize(value []byte) error {
	if len(value) > g.valueBytes {
		return schema.Errorf(schema.Limit, "a value of %d bytes is over the limit of %d", len(value), g.valueBytes)
	}
	return nil
}
