// Package sessionstate keeps the durable state of a Pi session's plugins: one JSON value per
// (plugin, session), or per (plugin, session, branch) that branches inherit, in one SQLite file that many
// processes share.
//
//	st, err := sessionstate.Open(ctx, path, sessionstate.Options{})
//	state, err := sessionstate.New(st, sessionstate.Config{PluginID: "todo", Scope: sessionstate.ScopeBranch})
//	value, found, err := state.Read(ctx, sessionFile)
//
// A read takes no lock and, once its scope is loaded, touches no disk. A write holds the session's lock and
// is durable when it returns. A fault is an error and never looks like an absence.
package sessionstate
