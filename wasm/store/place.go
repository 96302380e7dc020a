package main

import (
	"encoding/binary"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// place is where the state functions read and write: one plugin's state at one leaf of one session. It is a
// sessionstate.SessionContext.
type place struct {
	plugin          string // "": the instance is at no place
	session, branch *sessionstate.State
	id              string // of the session
	leaf            string
	kind            int32 // of tree, as at was told
	tree            sessionstate.Tree
}

func (p *place) SessionID() string       { return p.id }
func (p *place) Leaf() string            { return p.leaf }
func (p *place) Tree() sessionstate.Tree { return p.tree }

// leave ends at no place.
func (p *place) leave() { *p = place{} }

// state returns the state of a scope at the place.
func (p *place) state(scope int32) (*sessionstate.State, error) {
	switch {
	case p.session == nil:
		return nil, schema.Errorf(schema.Invalid, "the instance is at no place: call at first, and look at its result")
	case scope == abi.ScopeSession:
		return p.session, nil
	case scope == abi.ScopeBranch:
		return p.branch, nil
	}
	return nil, schema.Errorf(schema.Invalid, "scope %d: it is %d for the session or %d for the branch",
		scope, abi.ScopeSession, abi.ScopeBranch)
}

// at goes to a place. Where that fails the instance is at none, so that nothing is written to where the caller
// no longer wants to be.
func (r *reactor) at(plugin, session, leaf span, tree int32) (n int64) {
	if !r.enter() {
		return refusedInside
	}
	defer r.leave(&n)
	r.retained = nil
	err := r.goTo(plugin, session, leaf, tree)
	if err != nil {
		r.place.leave()
	}
	return r.failure(err)
}

// span is a window as it crosses.
type span struct{ ptr, n uint32 }

func (r *reactor) goTo(plugin, session, leaf span, tree int32) error {
	if err := r.mustHaveSessions(); err != nil {
		return err
	}
	p := &r.place
	// What stays the same costs no memory: a host may well call at before every other call.
	if err := r.take(&p.id, session); err != nil {
		return err
	}
	if err := sessionstate.CheckSessionID(p.id); err != nil {
		return err
	}
	if err := r.take(&p.leaf, leaf); err != nil {
		return err
	}
	before := p.plugin
	if err := r.take(&p.plugin, plugin); err != nil {
		return err
	}
	if p.session == nil || p.plugin != before {
		if err := r.statesOf(p); err != nil {
			return err
		}
	}
	switch p.kind = tree; tree {
	case abi.TreeNone:
		p.tree = nil
	case abi.TreeHost:
		p.tree = r.host.tree
	case abi.TreeOwn:
		p.tree = r.ownTree(p.id)
	default:
		return schema.Errorf(schema.Invalid, "tree %d: it is %d for none, %d for the host's or %d for the instance's own",
			tree, abi.TreeNone, abi.TreeHost, abi.TreeOwn)
	}
	return nil
}

// take sets a text to what is in a window, if it is another one.
func (r *reactor) take(text *string, from span) error {
	b, err := r.window(from.ptr, from.n)
	if err == nil && *text != string(b) {
		*text = string(b)
	}
	return err
}

func (r *reactor) statesOf(p *place) (err error) {
	for _, s := range []struct {
		state **sessionstate.State
		scope sessionstate.Scope
	}{{&p.session, sessionstate.ScopeSession}, {&p.branch, sessionstate.ScopeBranch}} {
		*s.state, err = sessionstate.New(r.sessions, sessionstate.Config{PluginID: p.plugin, Scope: s.scope, Coherent: r.coherent})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reactor) mustHaveSessions() error {
	switch {
	case r.workflow != nil:
		return errNotSessions
	case r.sessions == nil:
		return errNotOpen
	}
	return nil
}

// noEntries is the tree of a session of which the instance knows none.
var noEntries = sessionstate.NewIndex()

// ownTree returns what entries has built of a session.
func (r *reactor) ownTree(session string) *sessionstate.Index {
	if tree := r.trees[session]; tree != nil {
		return tree
	}
	return noEntries
}

// lookAgain gives the place its session's own tree after that may have become another one.
func (r *reactor) lookAgain() {
	if r.place.kind == abi.TreeOwn && r.place.session != nil {
		r.place.tree = r.ownTree(r.place.id)
	}
}

// entries adds entries to the instance's own tree of a session: all of them, or none.
func (r *reactor) entries(session, list span) (n int64) {
	if !r.enter() {
		return refusedInside
	}
	defer r.leave(&n)
	id, ids, err := r.entriesOf(session, list)
	if err != nil {
		return r.failure(err)
	}
	tree := r.trees[id]
	if tree == nil {
		tree = sessionstate.NewIndex()
		r.trees[id] = tree
	}
	for i := 0; i < len(ids); i += 2 {
		if err := tree.Add(ids[i], ids[i+1]); err != nil {
			return r.failure(err)
		}
	}
	r.lookAgain()
	return int64(abi.OK)
}

// entriesOf returns a session's id and the entries of a packed list: an id, its parent, the next id, and so on.
func (r *reactor) entriesOf(session, list span) (id string, ids []string, err error) {
	if err := r.take(&id, session); err != nil {
		return "", nil, err
	}
	if err := sessionstate.CheckSessionID(id); err != nil {
		return "", nil, err
	}
	b, err := r.window(list.ptr, list.n)
	if err != nil {
		return "", nil, err
	}
	if ids, err = unpackTexts(b); err != nil {
		return "", nil, err
	}
	if len(ids)%2 != 0 {
		return "", nil, schema.Errorf(schema.Invalid, "the list of entries has %d texts: each entry has two, its id and its parent's", len(ids))
	}
	for i := 0; i < len(ids); i += 2 {
		if ids[i] == "" {
			return "", nil, schema.Errorf(schema.Invalid, "entry %d of the list has an empty id", i/2)
		}
	}
	return id, ids, nil
}

// forget throws the instance's own tree of a session away. Without one it does nothing.
func (r *reactor) forget(session span) (n int64) {
	if !r.enter() {
		return refusedInside
	}
	defer r.leave(&n)
	var id string
	err := r.take(&id, session)
	if err == nil {
		err = sessionstate.CheckSessionID(id)
	}
	if err != nil {
		return r.failure(err)
	}
	delete(r.trees, id)
	r.lookAgain()
	return int64(abi.OK)
}

// unpackTexts returns packed values that are all texts.
func unpackTexts(b []byte) ([]string, error) {
	texts := []string{}
	for at := 0; at < len(b); {
		if b[at] != abi.TagText {
			return nil, schema.Errorf(schema.Invalid, "value %d of the list, at byte %d, has the tag %d: a text, %d, is expected",
				len(texts), at, b[at], abi.TagText)
		}
		rest := b[at+1:]
		if len(rest) < 4 || uint64(len(rest)-4) < uint64(binary.LittleEndian.Uint32(rest)) {
			return nil, schema.Errorf(schema.Invalid, "value %d of the list, at byte %d, goes beyond its end", len(texts), at)
		}
		n := int(binary.LittleEndian.Uint32(rest))
		texts = append(texts, string(rest[4:4+n]))
		at += 1 + 4 + n
	}
	return texts, nil
}
