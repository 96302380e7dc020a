package main

import (
	"pistate/schema"
	"pistate/sessionstate"
	"pistate/store"
)

// config is what open takes.
type config struct {
	Database   string `json:"database"`              // sessionsDatabase or workflowDatabase
	Name       string `json:"name,omitempty"`        // the absolute path that messages call the database by
	Memory     bool   `json:"memory,omitempty"`      // keep it in memory; only where SQLite is inside
	Coherent   bool   `json:"coherent,omitempty"`    // reads of session state see what other processes wrote
	CacheBytes int64  `json:"cache_bytes,omitempty"` // of session state; 0 means 64 MiB
	AppVersion string `json:"app_version,omitempty"` // noted in a workflow database that is created
}

const (
	sessionsDatabase = "sessions"
	workflowDatabase = "workflow"
)

// open opens the database that the host has granted. One is open at a time.
func (r *reactor) open(ptr, size uint32) (n int64) {
	if !r.enter() {
		return refusedInside
	}
	defer r.leave(&n)
	text, err := r.window(ptr, size)
	if err != nil {
		return r.failure(err)
	}
	return r.failure(r.opening(text))
}

func (r *reactor) opening(text []byte) (err error) {
	var c config
	if err := store.Decode(text, "open", &c); err != nil {
		return err
	}
	if r.sessions != nil || r.workflow != nil {
		return schema.Errorf(schema.Invalid, "a database is open in this instance: close it first, or use another instance")
	}
	if c.Memory && !sqliteInside {
		return schema.Errorf(schema.Invalid, "open: memory: this module has no SQLite to keep a database in memory; store-sqlite.wasm has")
	}
	if r.inMemory && !c.Memory {
		return schema.Errorf(schema.Invalid, "open: this instance keeps its databases in memory: use another one for a file")
	}
	if c.Memory {
		r.inMemory = true
		keepInMemory()
	}
	switch c.Database {
	case sessionsDatabase:
		r.coherent = c.Coherent
		r.sessions, err = sessionstate.Open(background, c.Name, sessionstate.Options{CacheBytes: c.CacheBytes})
	case workflowDatabase:
		r.workflow, err = store.Open(background, c.Name, store.Options{AppVersion: c.AppVersion, FollowLinks: r.host.links})
	default:
		err = schema.Errorf(schema.Invalid, "open: database is %.100q: it is %q or %q", c.Database, sessionsDatabase, workflowDatabase)
	}
	return err
}
