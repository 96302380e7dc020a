package sessionstate

import (
	"strings"
	"unicode/utf8"

	"pistate/schema"
)

// SessionContext is what the embedder knows of one Pi session at the moment of a call. A [SessionFile] is
// one, at the last entry of its file; [At] is one for a session that the embedder follows itself.
type SessionContext interface {
	SessionID() string
	Leaf() string // the current entry; "" before the first one
	Tree() Tree   // nil will do for session scope
}

// At returns the context of a session at one leaf.
func At(sessionID, leaf string, tree Tree) SessionContext {
	return fixedContext{sessionID, leaf, tree}
}

type fixedContext struct {
	id, leaf string
	tree     Tree
}

func (c fixedContext) SessionID() string { return c.id }
func (c fixedContext) Leaf() string      { return c.leaf }
func (c fixedContext) Tree() Tree        { return c.tree }

// CheckSessionID returns an [schema.Invalid] error unless id can name a session.
func CheckSessionID(id string) error { return checkID("session id", id) }

// checkID refuses an id that can't be a key: empty, not UTF-8, or with a NUL byte.
func checkID(what, id string) error {
	switch {
	case id == "":
		return schema.Errorf(schema.Invalid, "%s is empty", what)
	case !utf8.ValidString(id), strings.ContainsRune(id, 0):
		return schema.Errorf(schema.Invalid, "%s %q is not valid UTF-8 text", what, id)
	}
	return nil
}

// branchOf returns the branch part of the key at a context: "" for session scope. keyed is false in branch
// scope before the session's first entry (Y2: no leaf, no key).
func (s *State) branchOf(sc SessionContext) (branch string, keyed bool, err error) {
	if err := s.store.checkOpen(); err != nil {
		return "", false, err
	}
	if err := CheckSessionID(sc.SessionID()); err != nil {
		return "", false, err
	}
	if s.scope == ScopeSession {
		return "", true, nil
	}
	leaf := sc.Leaf()
	if leaf == "" {
		return "", false, nil
	}
	tree := sc.Tree()
	if tree == nil {
		return "", false, schema.Errorf(schema.Invalid, "session %s: branch scope needs the session's tree", sc.SessionID())
	}
	branch, err = tree.BranchKey(leaf)
	if err != nil {
		return "", false, err
	}
	return branch, true, checkID("branch key", branch)
}

// lineage returns the key and the keys of the runs above it, up to the root (Y3).
func (s *State) lineage(sc SessionContext, key string) ([]string, error) {
	keys := []string{key}
	if s.scope == ScopeSession {
		return keys, nil
	}
	for seen, limit := key, 2; ; { // as TreeOf finds a cycle
		parent, ok, err := sc.Tree().ParentKey(keys[len(keys)-1])
		switch {
		case err != nil || !ok:
			return keys, err
		case parent == "": // the key of session scope
			return nil, schema.Errorf(schema.Invalid, "session %s: the tree gives an empty key for the run above %s",
				sc.SessionID(), quoteID(keys[len(keys)-1]))
		case parent == seen:
			return nil, schema.Errorf(schema.Corrupt, "session %s: the session tree has a cycle through entry %s: its parents lead back to it",
				sc.SessionID(), quoteID(parent))
		}
		if keys = append(keys, parent); len(keys) == limit {
			seen, limit = parent, 2*limit
		}
	}
}
