package main

import (
	"encoding/binary"
	"encoding/json"
	"path/filepath"
	"testing"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// caller is a program that uses a reactor as one outside of it does: by addresses and lengths.
type caller struct {
	*reactor
	t testing.TB
}

// newCaller gives a reactor whose memory is numbered, as there is no WebAssembly here. host is the tree of the
// host, which may be nil.
func newCaller(t testing.TB, host sessionstate.Tree) *caller {
	next := uint32(64)
	c := &caller{t: t, reactor: newReactor(surroundings{
		address: func(b []byte) uint32 {
			at := next
			next += uint32(len(b)+23) &^ 7
			return at
		},
		tree:  host,
		links: filepath.EvalSymlinks,
	})}
	t.Cleanup(func() {
		if n := c.reactor.close(); n != 0 {
			t.Errorf("close: %d, %v", n, c.failed)
		}
	})
	return c
}

// put gives text as a window that is never freed.
func (c *caller) put(text string) span {
	if text == "" {
		return span{}
	}
	ptr := c.alloc(uint32(len(text)))
	b, ok := c.memory.window(ptr, uint32(len(text)))
	if !ok {
		c.t.Fatalf("no memory for %d bytes", len(text))
	}
	copy(b, text)
	return span{ptr, uint32(len(text))}
}

// text returns what is in a window.
func (c *caller) text(ptr uint32, n int64) string {
	b, ok := c.memory.window(ptr, uint32(n))
	if !ok {
		c.t.Fatalf("%d bytes at %#x are no window", n, ptr)
	}
	return string(b)
}

// ok fails the test unless a result is a success.
func (c *caller) ok(what string, n int64) int64 {
	c.t.Helper()
	if n < 0 {
		c.t.Fatalf("%s: %d, %v", what, n, c.failed)
	}
	return n
}

// fails fails the test unless a result is the number of a code, and returns the error's text.
func (c *caller) fails(what string, n int64, code schema.Code) string {
	c.t.Helper()
	if n != int64(abi.Number(code)) {
		c.t.Fatalf("%s: %d (%v), want that of %s", what, n, c.failed, code)
	}
	return c.failed.Error()
}

func (c *caller) openSessions(path string) {
	c.t.Helper()
	c.openAs(map[string]any{"database": "sessions", "name": path})
}

func (c *caller) openAs(config map[string]any) {
	c.t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		c.t.Fatal(err)
	}
	w := c.put(string(text))
	c.ok("open", c.open(w.ptr, w.n))
}

func (c *caller) atLeaf(leaf string, tree int32) {
	c.t.Helper()
	c.ok("at", c.at(c.put("plugin"), c.put("s1"), c.put(leaf), tree))
}

// value reads a scope with a buffer of 64 bytes; found is false if there is no value.
func (c *caller) value(scope int32) (text string, found bool) {
	c.t.Helper()
	buf := c.put(string(make([]byte, 64)))
	n := c.read(scope, buf.ptr, buf.n)
	if n == int64(abi.Absent) {
		return "", false
	}
	return c.text(buf.ptr, c.ok("read", n)), true
}

// do sends a request to call and returns its answer, which it frees.
func (c *caller) do(request string) string {
	c.t.Helper()
	w := c.put(request)
	answer := c.call(w.ptr, w.n)
	text := c.text(uint32(answer>>32), answer&0xffffffff)
	c.reactor.free(uint32(answer >> 32))
	if !json.Valid([]byte(text)) {
		c.t.Fatalf("%s is answered with %s, which is not JSON", request, text)
	}
	return text
}

// list packs texts as entries takes them.
func list(texts ...string) string {
	var b []byte
	for _, text := range texts {
		b = append(b, abi.TagText)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	return string(b)
}

func databasePath(t testing.TB) string { return filepath.Join(t.TempDir(), "states.sqlite") }
