package host

import (
	"context"
	"encoding/json"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// states is what the engine gives for a plugin. Its calls go to the guest's exports, which have the names and
// signatures of what an extension imports.
func (s *WasmStore) states(pluginID string) (states, error) {
	if s.db.cfg.Database != SessionsDatabase {
		return states{}, schema.Errorf(schema.Invalid, "%s: a %s database keeps no session state", s.Path(), s.db.cfg.Database)
	}
	if err := sessionstate.CheckPluginID(pluginID); err != nil {
		return states{}, err
	}
	return states{
		session: wasmState{s, pluginID, abi.ScopeSession},
		branch:  wasmState{s, pluginID, abi.ScopeBranch},
	}, nil
}

// wasmState is one plugin's state in one scope.
type wasmState struct {
	store  *WasmStore
	plugin string
	scope  int32
}

// place is what the guest is told of a call by the export at.
type place struct {
	plugin, session, leaf string
	tree                  int32
}

// enter takes the instance and brings it to a place.
func (s wasmState) enter(ctx context.Context, sc sessionstate.SessionContext) (*storeInstance, error) {
	at := place{s.plugin, sc.SessionID(), sc.Leaf(), abi.TreeNone}
	tree := sc.Tree()
	if tree != nil {
		at.tree = abi.TreeHost
	}
	in, err := s.store.enter(ctx)
	if err != nil {
		return nil, err
	}
	in.tree = tree
	if err := in.moveTo(at); err != nil {
		s.leave(in)
		return nil, err
	}
	return in, nil
}

func (s wasmState) leave(in *storeInstance) { s.store.db.leave(in) }

func (s wasmState) Read(ctx context.Context, sc sessionstate.SessionContext) (value json.RawMessage, found bool, err error) {
	in, err := s.enter(ctx, sc)
	if err != nil {
		return nil, false, err
	}
	defer s.leave(in)
	value, found, err = in.bytesOf(&in.exports.read, &in.exports.fetch, uint64(s.scope))
	return value, found, err
}

func (s wasmState) Write(ctx context.Context, sc sessionstate.SessionContext, value json.RawMessage) error {
	in, err := s.enter(ctx, sc)
	if err != nil {
		return err
	}
	defer s.leave(in)
	if err := in.put(value); err != nil {
		return err
	}
	return in.status(in.call(&in.exports.write, uint64(s.scope), uint64(in.scratch.ptr), uint64(len(value))))
}

func (s wasmState) Drop(ctx context.Context, sc sessionstate.SessionContext) error {
	in, err := s.enter(ctx, sc)
	if err != nil {
		return err
	}
	defer s.leave(in)
	return in.status(in.call(&in.exports.drop, uint64(s.scope)))
}

func (s wasmState) CompareAndWrite(ctx context.Context, sc sessionstate.SessionContext, old, value json.RawMessage) error {
	in, err := s.enter(ctx, sc)
	if err != nil {
		return err
	}
	defer s.leave(in)
	if err := in.put(old, value); err != nil {
		return err
	}
	oldLength := uint64(abi.AbsentLength)
	if old != nil {
		oldLength = uint64(len(old))
	}
	ptr := uint64(in.scratch.ptr)
	return in.status(in.call(&in.exports.compareAndWrite, uint64(s.scope), ptr, oldLength, ptr+uint64(len(old)), uint64(len(value))))
}

func (s wasmState) BranchKey(sc sessionstate.SessionContext) (key string, ok bool, err error) {
	if s.scope == abi.ScopeSession {
		return "", false, nil // sessionstate: always in session scope
	}
	in, err := s.enter(context.Background(), sc)
	if err != nil {
		return "", false, err
	}
	defer s.leave(in)
	text, ok, err := in.bytesOf(&in.exports.branchKey, &in.exports.branchKey)
	return string(text), ok, err
}

// moveTo tells the guest the place of the calls that follow, if it is another one.
func (in *storeInstance) moveTo(at place) error {
	if at == in.place {
		return nil
	}
	in.place = place{} // a failure leaves the guest nowhere
	if err := in.put([]byte(at.plugin), []byte(at.session), []byte(at.leaf)); err != nil {
		return err
	}
	plugin := uint64(in.scratch.ptr)
	session := plugin + uint64(len(at.plugin))
	leaf := session + uint64(len(at.session))
	err := in.status(in.call(&in.exports.at,
		plugin, uint64(len(at.plugin)), session, uint64(len(at.session)), leaf, uint64(len(at.leaf)), uint64(at.tree)))
	if err == nil {
		in.place = at
	}
	return err
}

// bytesOf calls an export that gives bytes into a buffer, and returns them. If they did not fit, it calls again for
// them, which for read is fetch: it takes no second trip to the store. args come before the buffer.
func (in *storeInstance) bytesOf(first, again *export, args ...uint64) (bytes []byte, found bool, err error) {
	var all [4]uint64
	k := copy(all[:], args)
	all[k], all[k+1] = uint64(in.scratch.ptr), uint64(in.scratch.size)
	n, found, err := in.length(in.call(first, all[:k+2]...))
	for ; err == nil && found && n > in.scratch.size; n, found, err = in.length(in.call(again, uint64(in.scratch.ptr), uint64(in.scratch.size))) {
		if err := in.need(int(n)); err != nil {
			return nil, false, err
		}
	}
	if err != nil || !found {
		return nil, false, err
	}
	bytes, err = in.take(in.scratch.ptr, n)
	return bytes, err == nil, err
}
