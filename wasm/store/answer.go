package main

import (
	"errors"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"pistate/schema"
	"pistate/sessionstate"
)

// acceptance and refusal are the answers of the command protocol, as package store writes them: docs/protocol.md
// has the form of both.
type acceptance struct {
	OK     bool `json:"ok"` // true
	Result any  `json:"result"`
}

type refusal struct {
	OK     bool        `json:"ok"` // false
	Code   schema.Code `json:"code"`
	Op     string      `json:"op,omitempty"`
	Detail string      `json:"detail"`         // for people; may change
	Facts  any         `json:"facts,omitzero"` // what the code is about
}

// answerForm writes an answer on one line whatever bytes are in its texts.
var answerForm = json2.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.EscapeForHTML(false), json2.Deterministic(true))

// accept makes the answer to a request that was carried out.
func accept(result any) ([]byte, error) {
	return json2.Marshal(acceptance{OK: true, Result: result}, answerForm)
}

// refuse makes the answer of an error.
func refuse(op string, err error) []byte {
	text, fault := json2.Marshal(refusal{Code: schema.CodeOf(err), Op: op, Detail: err.Error(), Facts: factsOf(err)}, answerForm)
	if fault != nil {
		panic(fault) // all of it is texts and numbers
	}
	return text
}

// factsOf returns the facts of an error, nil if it has none: the errors of package sessionstate that carry some
// are written as them.
func factsOf(err error) any {
	if e, ok := errors.AsType[*sessionstate.LockError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*sessionstate.ConflictError](err); ok {
		return e
	}
	return nil
}
