package main

import (
	"github.com/go-json-experiment/json/jsontext"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/store"
)

// The operations that call carries out on a database of session state, beside which the binary exports are the
// way to its values. STORE.md describes them.
var operations = map[string]func(r *reactor, args jsontext.Value) (result any, err error){
	"session.status":        status,
	"session.refresh":       refresh,
	"session.force_refresh": forceRefresh,
}

// request is the envelope of a request, as in the command protocol; there is no permit to go with it.
type request struct {
	Op   string         `json:"op"`
	Args jsontext.Value `json:"args,omitempty"`
}

// dispatch carries out one request and returns the answer.
func (r *reactor) dispatch(text []byte) []byte {
	var req request
	if err := store.Decode(text, "", &req); err != nil {
		return refuse("", err)
	}
	operation := operations[req.Op]
	if operation == nil {
		return refuse("", schema.Errorf(schema.Invalid, "op: there is no operation %.100q on session state", req.Op))
	}
	result, err := operation(r, req.Args)
	if err == nil {
		var answer []byte
		if answer, err = accept(result); err == nil {
			return answer
		}
	}
	return refuse(req.Op, err)
}

// decodeArgs reads the args of a request, which may be left out.
func decodeArgs(args jsontext.Value, into any) error {
	if args == nil {
		return nil
	}
	return store.Decode(args, "args", into)
}

// sessionStatus is what session.status answers. Times are milliseconds since 1970, UTC.
type sessionStatus struct {
	Path    string                `json:"path"`
	File    sessionstate.FileStat `json:"file"`
	Locks   []sessionLock         `json:"locks"`
	Plugins []sessionPlugin       `json:"plugins"`
}

type sessionLock struct {
	Session  string                `json:"session"`
	Holder   string                `json:"holder"`
	Alive    sessionstate.Liveness `json:"alive"`
	Acquired int64                 `json:"acquired"`
	Expired  bool                  `json:"expired"` // its age alone lets others take it over
}

type sessionPlugin struct {
	Plugin   string `json:"plugin"`
	Sessions int64  `json:"sessions"`
	Rows     int64  `json:"rows"`
	Bytes    int64  `json:"bytes"` // of all values
}

func status(r *reactor, args jsontext.Value) (any, error) {
	var in struct {
		Session string `json:"session,omitempty"` // only of this one
	}
	if err := decodeArgs(args, &in); err != nil {
		return nil, err
	}
	s, err := r.sessions.Status(background, in.Session)
	if err != nil {
		return nil, err
	}
	out := sessionStatus{Path: s.Path, File: s.File}
	for _, l := range s.Locks {
		out.Locks = append(out.Locks, sessionLock{l.Session, l.Holder, l.Alive, l.Acquired.UnixMilli(), l.Expired})
	}
	for _, p := range s.Plugins {
		out.Plugins = append(out.Plugins, sessionPlugin(p))
	}
	return out, nil
}

// done is the result of an operation that has nothing to say.
type done struct{}

func refresh(r *reactor, args jsontext.Value) (any, error) {
	if err := decodeArgs(args, &struct{}{}); err != nil {
		return nil, err
	}
	r.sessions.Refresh()
	return done{}, nil
}

func forceRefresh(r *reactor, args jsontext.Value) (any, error) {
	var in struct {
		Session string `json:"session"`
	}
	if err := decodeArgs(args, &in); err != nil {
		return nil, err
	}
	return done{}, r.sessions.ForceRefresh(background, in.Session)
}
