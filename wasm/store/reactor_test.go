package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// Everything that needs a database says so before there is one and after it was closed, and call in its answer.
func TestClosed(t *testing.T) {
	c := newCaller(t, nil)
	check := func() {
		t.Helper()
		p, s := c.put("plugin"), c.put("s1")
		c.fails("at", c.at(p, s, span{}, abi.TreeNone), schema.Closed)
		c.fails("read", c.read(0, 0, 0), schema.Invalid) // at no place
		if answer := c.do(`{"op":"session.refresh"}`); !strings.Contains(answer, `"code":"closed"`) {
			t.Errorf("call: %s", answer)
		}
	}
	check()
	c.ok("close", c.reactor.close())
	path := databasePath(t)
	c.openSessions(path)
	c.atLeaf("", abi.TreeNone)
	c.ok("close", c.reactor.close())
	check()
	c.ok("close", c.reactor.close())
	c.openSessions(path) // and it can be opened again
	c.atLeaf("", abi.TreeNone)
}

// A configuration that can't be is refused, names what is wrong, and leaves nothing open.
func TestOpenRefusals(t *testing.T) {
	path, err := json.Marshal(databasePath(t))
	if err != nil {
		t.Fatal(err)
	}
	c := newCaller(t, nil)
	for _, test := range []struct{ config, want string }{
		{``, "open"},
		{`null`, "leave it out"},
		{`{}`, "database"},
		{`[]`, "open"},
		{`{"database":"other","name":"/x"}`, "other"},
		{`{"database":"sessions","name":"relative"}`, "relative"},
		{`{"database":"sessions","name":""}`, "empty"},
		{`{"database":"sessions","nam":"/x"}`, "nam"},
		{`{"database":"sessions","database":"workflow","name":"/x"}`, "twice"},
		{`{"database":"sessions","name":` + string(path) + `,"cache_bytes":-1}`, "-1"},
		{`{"database":"sessions","name":` + string(path) + `} x`, "after"},
	} {
		w := c.put(test.config)
		if text := c.fails(test.config, c.open(w.ptr, w.n), schema.Invalid); !strings.Contains(text, test.want) {
			t.Errorf("%s: %s, want %q", test.config, text, test.want)
		}
		if c.sessions != nil || c.workflow != nil {
			t.Errorf("%s: something is open", test.config)
		}
	}
	w := c.put(`{"database":"sessions","name":` + string(path) + `}`)
	c.ok("open", c.open(w.ptr, w.n))
	c.fails("open again", c.open(w.ptr, w.n), schema.Invalid)
	c.atLeaf("", abi.TreeNone) // the first is still open
}

// The state functions on a workflow database, and the commands on session state, are refused by name.
func TestOneKindOfDatabase(t *testing.T) {
	c := newCaller(t, nil)
	c.openAs(map[string]any{"database": "workflow", "name": databasePath(t), "app_version": "9"})
	if text := c.fails("at", c.at(c.put("p"), c.put("s"), span{}, abi.TreeNone), schema.Invalid); !strings.Contains(text, "workflow database") {
		t.Error(text)
	}
	if answer := c.do(`{"op":"state.status"}`); !strings.HasPrefix(answer, `{"ok":true,`) {
		t.Errorf("state.status: %s", answer)
	}
	c.ok("close", c.reactor.close())

	c.openSessions(databasePath(t))
	if answer := c.do(`{"op":"state.status"}`); !strings.Contains(answer, `"code":"invalid"`) || !strings.Contains(answer, "state.status") {
		t.Errorf("state.status on session state: %s", answer)
	}
}

// The state functions do at a place what they say; one that at refused is none.
func TestValuesAtPlaces(t *testing.T) {
	c := newCaller(t, nil)
	c.openSessions(databasePath(t))
	if text := c.fails("read", c.read(0, 0, 0), schema.Invalid); !strings.Contains(text, "call at first") {
		t.Error(text)
	}
	c.ok("entries", c.entries(c.put("s1"), c.put(list("a", "", "b", "a", "c", "a"))))
	c.atLeaf("b", abi.TreeOwn)
	v := c.put(`{"n":1}`)
	c.ok("write", c.write(abi.ScopeBranch, v))
	if text, found := c.value(abi.ScopeBranch); !found || text != `{"n":1}` {
		t.Errorf("read: %q, %v", text, found)
	}
	if text, found := c.value(abi.ScopeSession); found {
		t.Errorf("the session has %q", text)
	}
	c.atLeaf("c", abi.TreeOwn)
	if text, found := c.value(abi.ScopeBranch); found {
		t.Errorf("the other branch has %q", text)
	}
	for _, test := range []struct {
		name                  string
		plugin, session, leaf string
		tree                  int32
	}{
		{"no plugin", "", "s1", "", 0},
		{"a plugin that can't be", "No!", "s1", "", 0},
		{"no session", "plugin", "", "", 0},
		{"a session with a zero byte", "plugin", "s\x00", "", 0},
		{"a session that is not UTF-8", "plugin", "\xff", "", 0},
		{"no such tree", "plugin", "s1", "", 3},
		{"a negative tree", "plugin", "s1", "", -1},
	} {
		c.atLeaf("b", abi.TreeOwn)
		c.fails(test.name, c.at(c.put(test.plugin), c.put(test.session), c.put(test.leaf), test.tree), schema.Invalid)
		c.fails(test.name+", then write", c.write(abi.ScopeSession, v), schema.Invalid)
	}
	c.atLeaf("b", abi.TreeNone)
	c.fails("a branch without a tree", c.read(abi.ScopeBranch, 0, 0), schema.Invalid)
	c.atLeaf("unknown", abi.TreeOwn)
	c.fails("a leaf that isn't there", c.read(abi.ScopeBranch, 0, 0), schema.NotFound)
	c.fails("no such scope", c.read(2, 0, 0), schema.Invalid)
	c.fails("no such scope", c.write(-1, v), schema.Invalid)
	c.fails("no such scope", c.drop(7), schema.Invalid)
}

// Y2: the instance's own trees: several roots, forks, all or nothing, and gone when they are forgotten. A place
// follows its session's tree.
func TestOwnTrees(t *testing.T) {
	c := newCaller(t, nil)
	c.openSessions(databasePath(t))
	buf := c.put(string(make([]byte, 16)))
	key := func() string {
		t.Helper()
		return c.text(buf.ptr, c.ok("branch_key", c.branchKey(buf.ptr, buf.n)))
	}
	c.atLeaf("c", abi.TreeOwn)
	c.fails("before there is a tree", c.branchKey(buf.ptr, buf.n), schema.NotFound)
	s := c.put("s1")
	c.ok("entries", c.entries(s, c.put(list("a", "", "b", "a", "c", "b"))))
	if k := key(); k != "a" {
		t.Errorf("on one chain: %s", k)
	}
	c.ok("entries", c.entries(s, c.put(list("d", "b", "r", "", "q", "r"))))
	if k := key(); k != "c" {
		t.Errorf("after a fork above it: %s", k)
	}
	c.atLeaf("q", abi.TreeOwn)
	if k := key(); k != "r" {
		t.Errorf("below the other root: %s", k)
	}
	c.ok("entries of another session", c.entries(c.put("s2"), c.put(list("q", ""))))
	for name, packed := range map[string]string{
		"an odd number":    list("x"),
		"an empty id":      list("x", "", "", "x"),
		"no text":          list("x", "") + "\x01........",
		"cut":              list("x", "")[:6],
		"a length too far": "\x03\xff\xff\xff\xffxx",
		"a tag alone":      "\x03",
	} {
		c.fails(name, c.entries(s, c.put(packed)), schema.Invalid)
	}
	c.atLeaf("x", abi.TreeOwn)
	c.fails("what came with what was refused", c.branchKey(buf.ptr, buf.n), schema.NotFound)
	c.ok("no entries", c.entries(s, span{}))
	c.atLeaf("c", abi.TreeOwn)
	c.ok("forget", c.forget(s))
	c.fails("what was forgotten", c.branchKey(buf.ptr, buf.n), schema.NotFound)
	c.ok("forget again", c.forget(s))
	c.fails("forget nobody", c.forget(span{}), schema.Invalid)
	c.fails("entries of nobody", c.entries(span{}, span{}), schema.Invalid)
}

// A host's tree is asked at each call, and what it answers is what counts.
func TestHostTree(t *testing.T) {
	tree := sessionstate.NewIndex()
	c := newCaller(t, tree)
	c.openSessions(databasePath(t))
	for _, e := range [][2]string{{"a", ""}, {"b", "a"}} {
		if err := tree.Add(e[0], e[1]); err != nil {
			t.Fatal(err)
		}
	}
	c.atLeaf("b", abi.TreeHost)
	v := c.put(`1`)
	c.ok("write", c.write(abi.ScopeBranch, v))
	if err := tree.Add("c", "a"); err != nil { // a fork above the place moves its key; the value is inherited
		t.Fatal(err)
	}
	buf := c.put("......")
	if n := c.branchKey(buf.ptr, buf.n); n != 1 || c.text(buf.ptr, n) != "b" {
		t.Errorf("branch_key: %d", n)
	}
	if text, found := c.value(abi.ScopeBranch); !found || text != "1" {
		t.Errorf("inherited: %q, %v", text, found)
	}
}

// What a read was too large for is kept for fetch, and for no other call.
func TestFetch(t *testing.T) {
	c := newCaller(t, nil)
	c.openSessions(databasePath(t))
	c.atLeaf("", abi.TreeNone)
	c.ok("write", c.write(abi.ScopeSession, c.put(`{"n":1}`)))
	buf := c.put("????????")
	want := func(what string, n, want int64, text string) {
		t.Helper()
		if n != want || c.text(buf.ptr, 8) != text {
			t.Errorf("%s: %d and %q, want %d and %q", what, n, c.text(buf.ptr, 8), want, text)
		}
		w, _ := c.memory.window(buf.ptr, 8)
		copy(w, "????????")
	}
	want("too small", c.read(0, buf.ptr, 6), 7, "????????")
	want("still too small", c.fetch(buf.ptr, 6), 7, "????????")
	want("asked for the length", c.fetch(0, 0), 7, "????????")
	want("large enough", c.fetch(buf.ptr, 7), 7, `{"n":1}?`)
	c.fails("fetched already", c.fetch(buf.ptr, 8), schema.Invalid)
	want("whole", c.read(0, buf.ptr, 8), 7, `{"n":1}?`)
	c.fails("given at once", c.fetch(buf.ptr, 8), schema.Invalid)
	want("too small", c.read(0, buf.ptr, 0), 7, "????????")
	c.atLeaf("", abi.TreeNone)
	c.fails("from another place", c.fetch(buf.ptr, 8), schema.Invalid)
}

// The last error is there in both forms, with its facts, until there is another one.
func TestErrors(t *testing.T) {
	c := newCaller(t, nil)
	c.openSessions(databasePath(t))
	c.atLeaf("", abi.TreeNone)
	if n := c.message(0, 0); n != 0 {
		t.Errorf("a message of %d bytes before there was an error", n)
	}
	if n := c.document(0, 0); n != 0 {
		t.Errorf("a document of %d bytes before there was an error", n)
	}
	stored := c.put(` {"a":"\u00e9"}`)
	c.ok("write", c.write(abi.ScopeSession, stored))
	c.fails("compare", c.compareAndWrite(abi.ScopeSession, span{0, abi.AbsentLength}, c.put("2")), schema.Conflict)
	buf := c.put(string(make([]byte, 4096)))
	get := func(form func(ptr, size uint32) int64) string {
		t.Helper()
		return c.text(buf.ptr, c.ok("error", form(buf.ptr, buf.n)))
	}
	if text := get(c.message); !strings.Contains(text, "another value is stored") {
		t.Errorf("message: %s", text)
	}
	var doc struct {
		OK    bool
		Code  schema.Code
		Facts struct{ Found *string }
	}
	if err := json.Unmarshal([]byte(get(c.document)), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OK || doc.Code != schema.Conflict || doc.Facts.Found == nil || *doc.Facts.Found != ` {"a":"\u00e9"}` {
		t.Errorf("document: %+v", doc)
	}
	if n := c.message(1, 1); n != int64(abi.Number(schema.Invalid)) {
		t.Errorf("a message into nowhere: %d", n)
	}
	if text := get(c.message); !strings.Contains(text, "another value is stored") {
		t.Errorf("asking in vain lost the text: %s", text)
	}
	c.ok("compare", c.compareAndWrite(abi.ScopeSession, stored, c.put("2")))
	c.reactor.free(12345)
	if text := get(c.message); !strings.Contains(text, "no allocation") {
		t.Errorf("free of nothing: %s", text)
	}
}

// An export within another one is refused, and so is everything after a trap, which leaves one unfinished; and the
// version is told.
func TestOneAtATime(t *testing.T) {
	c := newCaller(t, nil)
	c.openSessions(databasePath(t))
	w := c.put("{}")
	if !c.enter() {
		t.Fatal("something is running")
	}
	for name, n := range map[string]int64{
		"open": c.open(w.ptr, w.n), "close": c.reactor.close(), "at": c.at(w, w, w, 0), "read": c.read(0, 0, 0), "fetch": c.fetch(0, 0),
		"write": c.write(0, w), "drop": c.drop(0), "compare_and_write": c.compareAndWrite(0, w, w), "branch_key": c.branchKey(0, 0),
		"error_message": c.message(0, 0), "error_document": c.document(0, 0), "entries": c.entries(w, w), "forget": c.forget(w),
	} {
		if n != int64(abi.Number(schema.Invalid)) {
			t.Errorf("%s within another export: %d", name, n)
		}
	}
	if c.alloc(1) != 0 || c.call(w.ptr, w.n) != 0 {
		t.Error("alloc or call within another export")
	}
	c.reactor.free(w.ptr)
	if !errors.Is(c.failed, schema.Invalid) || !strings.Contains(c.failed.Error(), "one at a time") {
		t.Errorf("the last error is %v", c.failed)
	}
	c.inside = false
	if c.text(w.ptr, 2) != "{}" {
		t.Error("free within another export")
	}
	c.atLeaf("", abi.TreeNone) // and nothing is broken
}

// A panic below an export becomes an error, and the next export works.
func TestPanics(t *testing.T) {
	c := newCaller(t, panicking{})
	c.openSessions(databasePath(t))
	c.atLeaf("x", abi.TreeHost)
	text := c.fails("branch_key", c.branchKey(0, 0), schema.Storage)
	if !strings.Contains(text, "the tree fell") {
		t.Error(text)
	}
	if !errors.Is(c.failed, schema.Storage) {
		t.Error(c.failed)
	}
	c.atLeaf("", abi.TreeNone)
	c.ok("write", c.write(abi.ScopeSession, c.put("1")))
}

type panicking struct{}

func (panicking) BranchKey(string) (string, error)       { panic("the tree fell") }
func (panicking) ParentKey(string) (string, bool, error) { panic("the tree fell") }

// An instance that was given no chance to answer does nothing: what call can't be answered for want of memory is
// not carried out.
func TestFullArena(t *testing.T) {
	c := newCaller(t, nil)
	c.openSessions(databasePath(t))
	request := c.put(`{"op":"session.refresh"}`)
	for c.alloc(arenaBytes/8) != 0 {
	}
	if text := c.failed.Error(); !errors.Is(c.failed, schema.Limit) || !strings.Contains(text, "not freed") {
		t.Error(text)
	}
	for c.alloc(1<<10) != 0 {
	}
	for !c.memory.isFull() {
		if c.alloc(1) == 0 {
			t.Fatal("what is not full gives nothing")
		}
	}
	answer := c.call(request.ptr, request.n)
	if text := c.text(uint32(answer>>32), answer&0xffffffff); !strings.Contains(text, `"code":"limit"`) {
		t.Errorf("call: %s", text)
	}
}
