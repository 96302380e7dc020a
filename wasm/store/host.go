package main

import (
	"pistate/schema"
	"pistate/wasm/abi"
)

// question is an import that is asked with a text and answers with one: it returns the answer's length, which is
// in buf if it fits, or a negative number.
type question func(text string, buf []byte) int64

// hostImports are the functions of the host that the reactor itself asks. The others of the same module are
// asked by the packages that need them.
type hostImports struct {
	directory, branchKey, parentKey question
	message                         func(buf []byte) int64 // the text of the last failure

	buf []byte // for answers, used again and again
}

// maxHostAnswer is the longest answer that is taken of the host: no path or id is that long.
const maxHostAnswer = 1 << 20

// ask returns the host's answer, which is good until the next question. ok is false if the host says absent.
func (h *hostImports) ask(q question, text string) (answer []byte, ok bool, err error) {
	if h.buf == nil {
		h.buf = make([]byte, 256)
	}
	n := q(text, h.buf)
	if n > int64(len(h.buf)) && n <= maxHostAnswer {
		h.buf = make([]byte, n)
		n = q(text, h.buf) // the same question has the same answer; a host that goes on growing is not followed
	}
	switch {
	case n == int64(abi.Absent):
		return nil, false, nil
	case n < 0:
		return nil, false, h.failure(n)
	case n > int64(len(h.buf)):
		return nil, false, schema.Errorf(schema.Storage, "the host answers with %d bytes where %d would fit", n, len(h.buf))
	}
	return h.buf[:n], true, nil
}

// failure makes the error of a number that the host returned, in the host's words.
func (h *hostImports) failure(n int64) error {
	code, ok := abi.CodeOf(int32(n))
	if !ok || int64(int32(n)) != n {
		return schema.Errorf(schema.Storage, "the host failed with %d, which is the number of no error", n)
	}
	text := make([]byte, abi.MaxMessage)
	if n := h.message(text); n > 0 && n <= int64(len(text)) {
		return &schema.Error{Code: code, Detail: string(text[:n])}
	}
	return &schema.Error{Code: code}
}

// followLinks returns the path of an existing directory with its links followed.
func (h *hostImports) followLinks(path string) (string, error) {
	answer, ok, err := h.ask(h.directory, path)
	if err == nil && !ok {
		err = schema.Errorf(schema.NotFound, "%s: the host knows no such directory", path)
	}
	return string(answer), err
}

// hostTree is the tree at the place of the current call, as the host knows it.
type hostTree struct {
	host *hostImports
	key  string // the last answer: while it stays the same, asking costs no memory
}

func (t *hostTree) BranchKey(leaf string) (string, error) {
	answer, ok, err := t.host.ask(t.host.branchKey, leaf)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", schema.Errorf(schema.NotFound, "entry %.100q is not in the host's session tree", leaf)
	case t.key != string(answer):
		t.key = string(answer)
	}
	return t.key, nil
}

func (t *hostTree) ParentKey(key string) (parent string, ok bool, err error) {
	answer, ok, err := t.host.ask(t.host.parentKey, key)
	return string(answer), ok, err
}
