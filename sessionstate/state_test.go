package sessionstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pistate/schema"
)

// testTree is a tree of its own, as an embedder may have one.
type testTree map[string]string // entry to parent

func (t testTree) Parent(id string) (string, bool) { p, ok := t[id]; return p, ok }

func (t testTree) ChildCount(id string) (n int) {
	for _, p := range t {
		if p == id {
			n++
		}
	}
	return n
}

// forked is a - b, which forks into c - d and e - f.
var forked = testTree{"a": "", "b": "a", "c": "b", "d": "c", "e": "b", "f": "e"}

func openStore(t testing.TB) *Store {
	t.Helper()
	st, err := Open(t.Context(), filepath.Join(t.TempDir(), "sessions", "states.sqlite"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}

func newState(t testing.TB, st *Store, plugin string, scope Scope) *State {
	t.Helper()
	s, err := New(st, Config{PluginID: plugin, Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(leaf string) SessionContext { return At("s1", leaf, TreeOf(forked)) }

// wantValue fails unless a read gives the value; "" stands for absence.
func wantValue(t *testing.T, s *State, sc SessionContext, want string) {
	t.Helper()
	v, found, err := s.Read(context.Background(), sc)
	if err != nil {
		t.Fatalf("read at %q: %v", sc.Leaf(), err)
	}
	if string(v) != want || found != (want != "") {
		t.Errorf("read at %q: %q, %v; want %q", sc.Leaf(), v, found, want)
	}
}

func mustWrite(t *testing.T, s *State, sc SessionContext, v string) {
	t.Helper()
	if err := s.Write(context.Background(), sc, json.RawMessage(v)); err != nil {
		t.Fatalf("write at %q: %v", sc.Leaf(), err)
	}
}

func TestNewRefusesWhatCantBeANamespace(t *testing.T) { // Y1
	st := openStore(t)
	for _, id := range []string{"", "A", "a/b", "../other", "other\x00", "a b", "ä", "a_b", "a\n"} {
		if _, err := New(st, Config{PluginID: id, Scope: ScopeSession}); !errors.Is(err, schema.Invalid) {
			t.Errorf("plugin id %q: %v", id, err)
		}
	}
	for _, scope := range []Scope{"", "Session", "global"} {
		if _, err := New(st, Config{PluginID: "p", Scope: scope}); !errors.Is(err, schema.Invalid) {
			t.Errorf("scope %q: %v", scope, err)
		}
	}
	for _, id := range []string{"a", "0", ".", "-", "my.plugin-2"} {
		if _, err := New(st, Config{PluginID: id, Scope: ScopeBranch}); err != nil {
			t.Errorf("plugin id %q: %v", id, err)
		}
	}
}

func TestOpenRefusesWhatCantBeAPath(t *testing.T) { // Y1
	dir := t.TempDir()
	for _, path := range []string{"", "relative.sqlite", "./x", dir + "/a\x00b", dir} {
		st, err := Open(t.Context(), path, Options{})
		if !errors.Is(err, schema.Invalid) {
			t.Errorf("path %q: %v", path, err)
		}
		if st != nil {
			st.Close()
		}
	}
}

func TestKeysAreApart(t *testing.T) { // Y1, Y3
	st := openStore(t)
	a, b := newState(t, st, "a", ScopeSession), newState(t, st, "b", ScopeSession)
	branch := newState(t, st, "a", ScopeBranch)
	other := At("s2", "d", TreeOf(forked))
	mustWrite(t, a, at("d"), `1`)
	wantValue(t, a, at("f"), `1`)
	wantValue(t, a, at(""), `1`)
	wantValue(t, b, at("d"), "")
	wantValue(t, branch, at("d"), "")
	wantValue(t, a, other, "")
}

func TestBranchesInherit(t *testing.T) { // Y2, Y3
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	mustWrite(t, s, at("b"), `"trunk"`)
	wantValue(t, s, at("d"), `"trunk"`) // and is materialised under c
	mustWrite(t, s, at("a"), `"later"`)
	wantValue(t, s, at("c"), `"trunk"`) // a write touches the current key only
	wantValue(t, s, at("f"), `"later"`)
	mustWrite(t, s, at("f"), `"e"`)
	wantValue(t, s, at("d"), `"trunk"`)
	wantValue(t, s, at("b"), `"later"`)

	if err := s.Drop(t.Context(), at("d")); err != nil { // drops the branch's own row only
		t.Fatal(err)
	}
	wantValue(t, s, at("b"), `"later"`)
	wantValue(t, s, at("d"), `"later"`)

	rows := map[string]string{}
	r, err := OpenReader(t.Context(), st.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	list, err := r.Rows(t.Context(), Filter{}, Row{}, 100, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range list {
		rows[row.Branch] = string(row.Value)
	}
	if want := fmt.Sprint(map[string]string{"a": `"later"`, "c": `"later"`, "e": `"e"`}); fmt.Sprint(rows) != want {
		t.Errorf("rows %v, want %v", rows, want)
	}
}

func TestValuesSurviveAForkAboveTheirLeaf(t *testing.T) { // Y2, Y3
	// Two processes append to one session, each at its own leaf: what was written before the fork is still
	// read after it, and the other branch does not inherit what is written on this one.
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	tree := testTree{"a": "", "b": "a", "c": "b"}
	tree["d"] = "c"
	mustWrite(t, s, At("s1", "d", TreeOf(tree)), `1`)
	tree["e"] = "c"
	wantValue(t, s, At("s1", "d", TreeOf(tree)), `1`)
	mustWrite(t, s, At("s1", "d", TreeOf(tree)), `2`)
	wantValue(t, s, At("s1", "e", TreeOf(tree)), `1`)
}

func TestRootsDontInheritFromEachOther(t *testing.T) { // Y3
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	tree := testTree{"r1": "", "r2": "", "x": "r2"}
	mustWrite(t, s, At("s1", "r1", TreeOf(tree)), `1`)
	wantValue(t, s, At("s1", "x", TreeOf(tree)), "")
}

func TestKeylessValues(t *testing.T) { // Y7
	st := openStore(t)
	s, twin := newState(t, st, "p", ScopeBranch), newState(t, st, "p", ScopeBranch)
	noRow := func(t *testing.T) {
		t.Helper()
		if status, err := st.Status(t.Context(), ""); err != nil || len(status.Plugins) != 0 {
			t.Fatalf("rows %v, %v", status.Plugins, err)
		}
	}
	wantValue(t, s, at(""), "")
	mustWrite(t, s, at(""), `1`)
	wantValue(t, twin, at(""), `1`)
	noRow(t)
	st.Refresh() // drops the cache, not what exists only here
	wantValue(t, s, at(""), `1`)
	wantValue(t, s, At("s2", "", nil), "")

	if err := s.Drop(t.Context(), at("")); err != nil { // a keyless drop clears it
		t.Fatal(err)
	}
	wantValue(t, s, at(""), "")
	wantValue(t, s, at("a"), "")
	noRow(t)

	mustWrite(t, s, at(""), `2`)
	wantValue(t, s, at("f"), `2`) // lands under the first key that the context yields
	wantValue(t, s, at("d"), "")
	wantValue(t, s, at(""), "")

	mustWrite(t, s, at(""), `3`)
	mustWrite(t, s, at("c"), `4`) // a keyed write supersedes it
	wantValue(t, s, at("d"), `4`)
	wantValue(t, s, at(""), "")
	wantValue(t, s, at("f"), `2`)

	mustWrite(t, s, at(""), `5`)
	if err := s.CompareAndWrite(t.Context(), at(""), json.RawMessage(`5`), json.RawMessage(`6`)); err != nil {
		t.Fatal(err)
	}
	if err := s.CompareAndWrite(t.Context(), at(""), nil, json.RawMessage(`7`)); !errors.Is(err, schema.Conflict) {
		t.Fatal(err)
	}
	if err := s.CompareAndWrite(t.Context(), at("a"), json.RawMessage(`6`), json.RawMessage(`8`)); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, at("b"), `8`)
}

func TestAbsenceNullAndFault(t *testing.T) { // Y8
	st := openStore(t)
	s := newState(t, st, "p", ScopeSession)
	wantValue(t, s, at("a"), "")
	mustWrite(t, s, at("a"), `null`)
	wantValue(t, s, at("a"), `null`)
	if err := s.Drop(t.Context(), at("a")); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, at("a"), "")
	if err := s.Drop(t.Context(), at("a")); err != nil {
		t.Errorf("dropping what isn't there: %v", err)
	}

	st.Refresh()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, found, err := s.Read(ctx, at("a")); err == nil || found {
		t.Errorf("a read that can't be made: found %v, %v", found, err)
	}
	if err := s.Write(ctx, at("a"), json.RawMessage(`1`)); !errors.Is(err, schema.Canceled) {
		t.Errorf("canceled write: %v", err)
	}
	wantValue(t, s, at("a"), "")
}

func TestValuesComeBackByteForByte(t *testing.T) { // Y8
	st := openStore(t)
	s := newState(t, st, "p", ScopeSession)
	for _, v := range []string{
		`9007199254740993`, `1e400`, `-0`, `1e6`, `1000000`, `{"a":1,"a":2}`, `"\ud800"`, `"\u0000"`, " [ 1 ,\n2 ] ",
		`""`, `{}`, `true`, `"` + strings.Repeat("x", 1<<20) + `"`, `"é \u00e9 🙂"`,
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
	} {
		mustWrite(t, s, at("a"), v)
		wantValue(t, s, at("a"), v)
		st.Refresh()
		wantValue(t, s, at("a"), v)
	}
	for _, v := range []string{"", " ", "nul", "{", "1 2", "\"a\x01\"", "'a'", "\"\xff\"", "NaN", "\ufeff1", "\x00"} {
		if err := s.Write(t.Context(), at("a"), json.RawMessage(v)); !errors.Is(err, schema.Invalid) {
			t.Errorf("write of %q: %v", v, err)
		}
	}
	huge := make([]byte, MaxValueBytes+1)
	if err := s.Write(t.Context(), at("a"), huge); !errors.Is(err, schema.Limit) {
		t.Errorf("a value over the limit: %v", err)
	}
}

func TestReadsAndWritesOwnTheirBytes(t *testing.T) { // Y6
	st := openStore(t)
	s := newState(t, st, "p", ScopeSession)
	given := json.RawMessage(`"abc"`)
	if err := s.Write(t.Context(), at("a"), given); err != nil {
		t.Fatal(err)
	}
	given[1] = 'X'
	for range 2 {
		v, _, err := s.Read(t.Context(), at("a"))
		if err != nil || string(v) != `"abc"` {
			t.Fatalf("%q, %v", v, err)
		}
		v[1] = 'Y'
	}
}

// oneRun is a tree of one run whose parent is another tree's answer.
type oneRun struct{ parent string }

func (r oneRun) BranchKey(string) (string, error)       { return "a", nil }
func (r oneRun) ParentKey(string) (string, bool, error) { return r.parent, true, nil }

// An embedder's tree may be wrong: it must neither hang a read nor lead it out of its scope.
func TestWrongTrees(t *testing.T) { // Y1, Y3
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	mustWrite(t, newState(t, st, "p", ScopeSession), at("a"), `"of the session"`)
	for parent, code := range map[string]schema.Code{"": schema.Invalid, "a": schema.Corrupt, "b": schema.Corrupt} {
		sc := At("s1", "x", oneRun{parent})
		if v, found, err := s.Read(t.Context(), sc); !errors.Is(err, code) || found {
			t.Errorf("parent %q: read %s, %v", parent, v, err)
		}
		if err := s.CompareAndWrite(t.Context(), sc, nil, json.RawMessage(`1`)); !errors.Is(err, code) {
			t.Errorf("parent %q: %v", parent, err)
		}
	}
}

func TestInvalidContexts(t *testing.T) {
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	for _, c := range []struct {
		name string
		sc   SessionContext
		code schema.Code
	}{
		{"no session", At("", "a", TreeOf(forked)), schema.Invalid},
		{"NUL in the session", At("a\x00", "a", TreeOf(forked)), schema.Invalid},
		{"session is no text", At("\xff", "a", TreeOf(forked)), schema.Invalid},
		{"no tree", At("s1", "a", nil), schema.Invalid},
		{"unknown leaf", At("s1", "zz", TreeOf(forked)), schema.NotFound},
		{"cycle", At("s1", "x", TreeOf(testTree{"x": "y", "y": "x"})), schema.Corrupt},
	} {
		_, _, rerr := s.Read(t.Context(), c.sc)
		werr := s.Write(t.Context(), c.sc, json.RawMessage(`1`))
		derr := s.Drop(t.Context(), c.sc)
		_, _, kerr := s.BranchKey(c.sc)
		cerr := s.CompareAndWrite(t.Context(), c.sc, nil, json.RawMessage(`1`))
		for op, err := range map[string]error{"read": rerr, "write": werr, "drop": derr, "key": kerr, "compare": cerr} {
			if !errors.Is(err, c.code) {
				t.Errorf("%s: %s: %v, want %s", c.name, op, err, c.code)
			}
		}
	}
}

func TestCompareAndWrite(t *testing.T) { // Y12
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	cas := func(leaf, old, value string) error {
		var o json.RawMessage
		if old != "" {
			o = json.RawMessage(old)
		}
		return s.CompareAndWrite(t.Context(), at(leaf), o, json.RawMessage(value))
	}
	if err := cas("a", "", `1`); err != nil {
		t.Fatal(err)
	}
	if err := cas("d", `1`, `2`); err != nil { // inherited values count
		t.Fatal(err)
	}
	err := cas("d", `1`, `3`)
	var conflict *ConflictError
	if !errors.Is(err, schema.Conflict) || !errors.As(err, &conflict) || string(conflict.Found) != `2` {
		t.Fatalf("%v", err)
	}
	if err := cas("f", "", `3`); !errors.Is(err, schema.Conflict) {
		t.Fatal(err)
	}
	wantValue(t, s, at("d"), `2`)
	wantValue(t, s, at("f"), `1`)
	if err := cas("d", `2`, `not JSON`); !errors.Is(err, schema.Invalid) {
		t.Fatal(err)
	}
}

// TestModel drives random operations on a growing tree against the rules written down as plainly as they are
// in the contract.
func TestModel(t *testing.T) { // Y1, Y2, Y3, Y7, Y8
	dir, runs := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		st, err := Open(context.Background(), filepath.Join(dir, fmt.Sprint(runs), "states.sqlite"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		m := model{tree: testTree{}, rows: map[string]string{}, pending: map[string]string{}}
		var order []string
		states := map[string]*State{}
		for _, p := range []string{"p", "q"} {
			for _, scope := range []Scope{ScopeSession, ScopeBranch} {
				s, err := New(st, Config{PluginID: p, Scope: scope, Coherent: rapid.Bool().Draw(t, "coherent")})
				if err != nil {
					t.Fatal(err)
				}
				states[p+"/"+string(scope)] = s
			}
		}
		n := rapid.IntRange(1, 60).Draw(t, "steps")
		for i := range n {
			leaf := ""
			if len(order) > 0 {
				leaf = rapid.SampledFrom(append([]string{""}, order...)).Draw(t, "leaf")
			}
			who := rapid.SampledFrom([]string{"p/session", "p/branch", "q/branch"}).Draw(t, "state")
			s, scope := states[who], states[who].scope
			sc := At("s", leaf, TreeOf(m.tree))
			switch rapid.SampledFrom([]string{"grow", "read", "write", "drop", "refresh"}).Draw(t, "op") {
			case "grow":
				id := fmt.Sprintf("e%d", i)
				m.tree[id] = leaf
				order = append(order, id)
			case "refresh":
				st.Refresh()
			case "read":
				v, found, err := s.Read(context.Background(), sc)
				want, ok := m.read(s.plugin, scope, leaf)
				if err != nil || found != ok || string(v) != want {
					t.Fatalf("%s read at %q: %q, %v, %v; want %q, %v", who, leaf, v, found, err, want, ok)
				}
			case "write":
				v := fmt.Sprint(i)
				if err := s.Write(context.Background(), sc, json.RawMessage(v)); err != nil {
					t.Fatal(err)
				}
				m.write(s.plugin, scope, leaf, v)
			case "drop":
				if err := s.Drop(context.Background(), sc); err != nil {
					t.Fatal(err)
				}
				m.drop(s.plugin, scope, leaf)
			}
		}
		m.check(t, st)
	})
}

// model is what the contract says, without a cache, a database or an index.
type model struct {
	tree    testTree
	rows    map[string]string // "plugin branch" to value
	pending map[string]string // plugin to value
}

func (m *model) key(leaf string) string {
	for {
		p := m.tree[leaf]
		if p == "" || m.tree.ChildCount(p) != 1 {
			return leaf
		}
		leaf = p
	}
}

func (m *model) row(plugin string, scope Scope, leaf string) (string, bool) {
	if scope == ScopeSession {
		return plugin + " ", true
	}
	if leaf == "" {
		return "", false
	}
	return plugin + " " + m.key(leaf), true
}

func (m *model) read(plugin string, scope Scope, leaf string) (string, bool) {
	row, keyed := m.row(plugin, scope, leaf)
	if p, ok := m.pending[plugin]; ok && scope == ScopeBranch {
		if !keyed {
			return p, true
		}
		m.rows[row] = p
		delete(m.pending, plugin)
	}
	if !keyed {
		return "", false
	}
	for at := leaf; ; {
		above, _ := m.row(plugin, scope, at)
		if v, ok := m.rows[above]; ok {
			m.rows[row] = v
			return v, true
		}
		if scope == ScopeSession {
			return "", false
		}
		if at = m.tree[m.key(at)]; at == "" {
			return "", false
		}
	}
}

func (m *model) write(plugin string, scope Scope, leaf, v string) {
	row, keyed := m.row(plugin, scope, leaf)
	if !keyed {
		m.pending[plugin] = v
		return
	}
	if scope == ScopeBranch {
		delete(m.pending, plugin)
	}
	m.rows[row] = v
}

func (m *model) drop(plugin string, scope Scope, leaf string) {
	if scope == ScopeBranch {
		delete(m.pending, plugin)
	}
	if row, keyed := m.row(plugin, scope, leaf); keyed {
		delete(m.rows, row)
	}
}

// check compares every row with what an outsider reads.
func (m *model) check(t *rapid.T, st *Store) {
	r, err := OpenReader(context.Background(), st.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	rows, err := r.Rows(context.Background(), Filter{}, Row{}, 1000, true)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, row := range rows {
		found[row.Plugin+" "+row.Branch] = string(row.Value)
	}
	if fmt.Sprint(found) != fmt.Sprint(m.rows) {
		t.Fatalf("rows %v, want %v", found, m.rows)
	}
}

// AppendValue gives what Read does, into memory of the caller's.
func TestAppendValue(t *testing.T) {
	st := openStore(t)
	s := newState(t, st, "p", ScopeBranch)
	begin := []byte("value: ")
	for _, leaf := range []string{"", "a"} {
		out, found, err := s.AppendValue(t.Context(), at(leaf), begin)
		if string(out) != "value: " || found || err != nil {
			t.Errorf("%q, %v, %v", out, found, err)
		}
	}
	mustWrite(t, s, at(""), `"waits"`)
	if out, found, err := s.AppendValue(t.Context(), at(""), begin); string(out) != `value: "waits"` || !found || err != nil {
		t.Errorf("%q, %v, %v", out, found, err)
	}
	mustWrite(t, s, at("a"), `{"n": 1}`)
	short := make([]byte, 1, 3)
	if out, found, err := s.AppendValue(t.Context(), at("a"), short); string(out[1:]) != `{"n": 1}` || !found || err != nil || short[:3][1] != 0 {
		t.Errorf("%q, %v, %v, % x", out, found, err, short[:3])
	}
	if _, found, err := s.AppendValue(t.Context(), At("", "a", nil), nil); found || schema.CodeOf(err) != schema.Invalid {
		t.Errorf("%v, %v", found, err)
	}
	room, place := make([]byte, 0, 100), at("a")
	if n := testing.AllocsPerRun(100, func() { _, _, _ = s.AppendValue(t.Context(), place, room) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
