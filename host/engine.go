package host

import (
	"context"
	"encoding/json"

	"pistate/sessionstate"
)

// Engine says where the state that extensions reach is kept, and by what code. The zero Engine is none.
type Engine struct {
	open func(pluginID string) (states, error)
}

// Native keeps state in a session store that the embedder has opened, with SQLite in this process. The
// embedder closes the store, after the host. What an extension reads is what is stored at that moment, whoever
// stored it: an extension can't refresh a cache, and beside an instance per call the look costs nothing.
func Native(store *sessionstate.Store) Engine {
	if store == nil {
		return Engine{}
	}
	return Engine{open: func(pluginID string) (states, error) {
		session, err := sessionstate.New(store, sessionstate.Config{PluginID: pluginID, Scope: sessionstate.ScopeSession, Coherent: true})
		if err != nil {
			return states{}, err
		}
		branch, err := sessionstate.New(store, sessionstate.Config{PluginID: pluginID, Scope: sessionstate.ScopeBranch, Coherent: true})
		if err != nil {
			return states{}, err
		}
		return states{session: session, branch: branch}, nil
	}}
}

// states is what one plugin keeps, by scope.
type states struct{ session, branch state }

// state is the part of *sessionstate.State that an extension's calls come down to. Reads return the
// caller's own copy; nothing that is passed in is kept or changed.
type state interface {
	Read(ctx context.Context, sc sessionstate.SessionContext) (value json.RawMessage, found bool, err error)
	Write(ctx context.Context, sc sessionstate.SessionContext, value json.RawMessage) error
	Drop(ctx context.Context, sc sessionstate.SessionContext) error
	CompareAndWrite(ctx context.Context, sc sessionstate.SessionContext, old, value json.RawMessage) error
	BranchKey(sc sessionstate.SessionContext) (key string, ok bool, err error)
}
