package sessionstate

import (
	"errors"
	"fmt"
	"testing"

	"pistate/schema"
)

// mapNodes is a tree as plain as can be: the parent of each id.
type mapNodes map[string]string

func (m mapNodes) Parent(id string) (string, bool) {
	parent, ok := m[id]
	return parent, ok
}

func (m mapNodes) ChildCount(id string) int {
	n := 0
	for child, parent := range m {
		if parent == id && child != id {
			n++
		}
	}
	return n
}

// index returns an Index of the same tree, built parents last in about half of the cases.
func (m mapNodes) index(t *testing.T) *Index {
	x := NewIndex()
	for id, parent := range m {
		if err := x.Add(id, parent); err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// Y2, Y3: the rule and the ascent on hand-made trees, directly and through an Index.
func TestBranchKeyRule(t *testing.T) {
	tests := []struct {
		name string
		tree mapNodes
		keys map[string]string // leaf → key
		up   map[string]string // key → key of the run above; "" at a root
	}{
		{
			name: "one chain is one run",
			tree: mapNodes{"a": "", "b": "a", "c": "b"},
			keys: map[string]string{"a": "a", "b": "a", "c": "a"},
			up:   map[string]string{"a": ""},
		},
		{
			name: "a fork begins a run at each child",
			tree: mapNodes{"a": "", "b": "a", "c": "b", "d": "b", "e": "d"},
			keys: map[string]string{"a": "a", "b": "a", "c": "c", "d": "d", "e": "d"},
			up:   map[string]string{"a": "", "c": "a", "d": "a"},
		},
		{
			name: "forks within forks",
			tree: mapNodes{"a": "", "b": "a", "c": "a", "d": "c", "e": "d", "f": "d", "g": "f"},
			keys: map[string]string{"b": "b", "c": "c", "d": "c", "e": "e", "f": "f", "g": "f"},
			up:   map[string]string{"e": "c", "f": "c", "c": "a", "b": "a"},
		},
		{
			// C10: a branch made before the first entry. Nothing leads from one root to another.
			name: "several roots",
			tree: mapNodes{"a": "", "b": "a", "r": "", "s": "r", "t": "r"},
			keys: map[string]string{"a": "a", "b": "a", "r": "r", "s": "s", "t": "t"},
			up:   map[string]string{"a": "", "r": "", "s": "r", "t": "r"},
		},
		{
			// C01: the parent was lost with its line. The entry is a root, and is not bound to anything by guess.
			name: "a missing parent",
			tree: mapNodes{"a": "", "c": "lost", "d": "c"},
			keys: map[string]string{"a": "a", "c": "c", "d": "c"},
			up:   map[string]string{"a": "", "c": ""},
		},
		{
			name: "two entries of one missing parent are two roots",
			tree: mapNodes{"c": "lost", "d": "lost"},
			keys: map[string]string{"c": "c", "d": "d"},
			up:   map[string]string{"c": "", "d": ""},
		},
		{
			name: "its own parent",
			tree: mapNodes{"a": "a", "b": "a"},
			keys: map[string]string{"a": "a", "b": "a"},
			up:   map[string]string{"a": ""},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for kind, tree := range map[string]Tree{"TreeOf": TreeOf(test.tree), "Index": test.tree.index(t)} {
				for leaf, want := range test.keys {
					if got, err := tree.BranchKey(leaf); got != want || err != nil {
						t.Errorf("%s: BranchKey(%q) = %q, %v, want %q", kind, leaf, got, err, want)
					}
				}
				for key, want := range test.up {
					got, ok, err := tree.ParentKey(key)
					if got != want || ok != (want != "") || err != nil {
						t.Errorf("%s: ParentKey(%q) = %q, %v, %v, want %q", kind, key, got, ok, err, want)
					}
				}
			}
		})
	}
}

// Y2: no leaf, no key; and an entry that isn't there has none.
func TestUnknownEntriesHaveNoKey(t *testing.T) {
	m := mapNodes{"a": "", "b": "missing"}
	for kind, tree := range map[string]Tree{"TreeOf": TreeOf(m), "Index": m.index(t)} {
		for _, id := range []string{"", "zzz", "missing"} {
			if key, err := tree.BranchKey(id); !errors.Is(err, schema.NotFound) || key != "" {
				t.Errorf("%s: BranchKey(%q) = %q, %v, want not_found", kind, id, key, err)
			}
			if key, ok, err := tree.ParentKey(id); !errors.Is(err, schema.NotFound) || ok || key != "" {
				t.Errorf("%s: ParentKey(%q) = %q, %v, %v, want not_found", kind, id, key, ok, err)
			}
		}
	}
}

// C03: when somebody else forks above a leaf, the leaf's key moves, and the ascent still leads to the old one.
func TestForkAboveALeafMovesItsKey(t *testing.T) {
	x := NewIndex()
	add := func(id, parent string) {
		if err := x.Add(id, parent); err != nil {
			t.Fatal(err)
		}
	}
	add("a", "")
	add("c", "a")
	add("d", "c") // the first process, at leaf c
	if key, err := x.BranchKey("d"); key != "a" || err != nil {
		t.Fatalf("before the fork: %q, %v", key, err)
	}
	add("e", "c") // the second process, also at leaf c
	for _, leaf := range []string{"d", "e"} {
		key, err := x.BranchKey(leaf)
		if key != leaf || err != nil {
			t.Errorf("BranchKey(%q) = %q, %v, want itself", leaf, key, err)
		}
		if above, ok, err := x.ParentKey(key); above != "a" || !ok || err != nil {
			t.Errorf("ParentKey(%q) = %q, %v, %v, want a", key, above, ok, err)
		}
	}
}

// Y11: a cycle is an error and never a hang, with and without forks on it.
func TestCyclesAreErrors(t *testing.T) {
	long := mapNodes{}
	for i := range 1000 {
		long[fmt.Sprint(i)] = fmt.Sprint((i + 1) % 1000)
	}
	long["leaf"] = "7"
	tests := []struct {
		name string
		tree mapNodes
		leaf string
	}{
		{"two", mapNodes{"a": "b", "b": "a"}, "a"},
		{"three", mapNodes{"a": "b", "b": "c", "c": "a"}, "b"},
		{"below one", mapNodes{"a": "b", "b": "a", "c": "b", "d": "c"}, "d"},
		{"forks on it", mapNodes{"a": "b", "b": "a", "x": "a", "y": "b"}, "x"},
		{"long", long, "leaf"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for kind, tree := range map[string]Tree{"TreeOf": TreeOf(test.tree), "Index": test.tree.index(t)} {
				if key, err := tree.BranchKey(test.leaf); !errors.Is(err, schema.Corrupt) {
					t.Errorf("%s: BranchKey(%q) = %q, %v, want corrupt", kind, test.leaf, key, err)
				}
			}
		})
	}
	if _, _, err := TreeOf(mapNodes{"a": "b", "b": "a"}).ParentKey("a"); !errors.Is(err, schema.Corrupt) {
		t.Errorf("TreeOf: ParentKey on a run without a top = %v, want corrupt", err)
	}
	x := tests[0].tree.index(t)
	if _, _, err := x.ParentKey("a"); !errors.Is(err, schema.Corrupt) {
		t.Errorf("Index: ParentKey = %v, want corrupt", err)
	}
	// The entry that breaks the circle mends the tree.
	if err := x.Add("b", ""); err != nil {
		t.Fatal(err)
	}
	if key, err := x.BranchKey("a"); key != "b" || err != nil {
		t.Errorf("after b became a root: BranchKey(a) = %q, %v, want b", key, err)
	}
}
