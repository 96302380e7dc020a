package sessionstate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"pistate/schema"
)

// hasCycle reports whether any entry's parents lead back to it.
func (m mapNodes) hasCycle() bool {
	sound := map[string]bool{} // leads to a root
	for id := range m {
		path := map[string]bool{}
		for at := id; at != "" && !sound[at]; at = (nodeTree{m}).parent(at) {
			if path[at] {
				return true
			}
			path[at] = true
		}
		maps.Copy(sound, path)
	}
	return false
}

// checkPromises fails unless every node that isn't a break keeps the promise that forest describes.
func checkPromises(t *rapid.T, f *forest) {
	for c, chain := range f.chains {
		for pos, n := range chain.nodes {
			nd := &f.nodes[n]
			if nd.chain != int32(c) || nd.pos != int32(pos) {
				if f.present(n) || nd.chain != unplaced {
					t.Fatalf("%q is in chain %d at %d and thinks %d, %d", nd.id, c, pos, nd.chain, nd.pos)
				}
				continue
			}
			if pos == 0 || chain.breaks.before(pos) == pos {
				continue
			}
			before := chain.nodes[pos-1]
			if f.parentOf(n) != before || f.nodes[before].kids != 1 {
				t.Fatalf("%q is not the only child of %q, the node before it", nd.id, f.nodes[before].id)
			}
		}
	}
}

// Y2, Y11: any sequence of declarations, late parents, repeated ids and withdrawals gives the keys that the
// plain rule gives for the tree as it is then.
func TestForestIsTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.IntRange(2, 40).Draw(t, "names")
		name := rapid.Custom(func(t *rapid.T) string {
			return strconv.Itoa(rapid.IntRange(1, names).Draw(t, "name"))
		})
		var f forest
		model := mapNodes{}
		var order []string
		var last step
		undo := func() {} // takes back the latest add in the model
		line := 0
		check := func(t *rapid.T) {
			checkPromises(t, &f)
			f.settle()
			if !f.settled() {
				t.Fatal("not settled after settle")
			}
			checkPromises(t, &f)
			if model.hasCycle() {
				if f.cycle == nil {
					t.Fatalf("the cycle in %v was not found", model)
				}
				for k, n := range f.cycle {
					if next := f.cycle[(k+1)%len(f.cycle)]; f.parentOf(n) != next {
						t.Fatalf("%v is no cycle", f.cycle)
					}
				}
				if _, err := f.branchKey(order[0]); !errors.Is(err, schema.Corrupt) {
					t.Fatalf("BranchKey in a cyclic tree: %v", err)
				}
				return
			}
			if f.cycle != nil {
				t.Fatalf("%v is said to have a cycle", model)
			}
			rule := TreeOf(model)
			for id := range model {
				want, _ := rule.BranchKey(id)
				if got, err := f.branchKey(id); got != want || err != nil {
					t.Fatalf("BranchKey(%q) = %q, %v, want %q in %v", id, got, err, want, model)
				}
				want, wantOK, _ := rule.ParentKey(id)
				if got, ok, err := f.parentKey(id); got != want || ok != wantOK || err != nil {
					t.Fatalf("ParentKey(%q) = %q, %v, %v, want %q in %v", id, got, ok, err, want, model)
				}
			}
			if len(f.order) != len(order) {
				t.Fatalf("%d entries, want %d", len(f.order), len(order))
			}
			for k, id := range order {
				if got := f.nodes[f.order[k]].id; got != id {
					t.Fatalf("entry %d is %q, want %q", k, got, id)
				}
			}
		}
		add := func(id, parent string) {
			line++
			last = f.add([]byte(id), []byte(parent), line)
			old, had := model[id]
			if had == last.isNew() {
				t.Fatalf("add(%q): new is %v", id, last.isNew())
			}
			if !had {
				order = append(order, id)
			}
			model[id] = parent
			undo = func() {
				if had {
					model[id] = old
				} else {
					delete(model, id)
					order = order[:len(order)-1]
				}
				undo = nil
			}
		}
		undo = nil
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { // as Pi does
				id := strconv.Itoa(100 + line)
				parent := ""
				if len(order) > 0 {
					parent = order[len(order)-1]
				}
				add(id, parent)
			},
			"fork": func(t *rapid.T) {
				id := strconv.Itoa(100 + line)
				parent := ""
				if len(order) > 0 {
					parent = rapid.SampledFrom(order).Draw(t, "parent")
				}
				add(id, parent)
			},
			"any": func(t *rapid.T) { add(name.Draw(t, "id"), name.Draw(t, "parent")) },
			"again": func(t *rapid.T) {
				if len(order) > 0 {
					add(rapid.SampledFrom(order).Draw(t, "id"), rapid.SampledFrom(order).Draw(t, "parent"))
				}
			},
			"undo": func(t *rapid.T) {
				if undo != nil {
					f.undo(last)
					undo()
				}
			},
			"ask": check,
		})
		if len(order) > 0 {
			check(t)
		}
	})
}

// Y11: an entry that is taken back after its children were laid out behind it leaves them as roots.
func TestUndoAfterSettle(t *testing.T) {
	var f forest
	f.add([]byte("child"), []byte("late"), 1)
	f.undo(f.add([]byte("other"), []byte("child"), 2))
	s := f.add([]byte("late"), nil, 3)
	f.settle()
	if key, err := f.branchKey("child"); key != "late" || err != nil {
		t.Fatalf("key %q, %v", key, err)
	}
	f.undo(s)
	f.settle()
	if key, err := f.branchKey("child"); key != "child" || err != nil {
		t.Errorf("key %q, %v", key, err)
	}
}

// Y11: an Index says what the plain rule says of itself, and lists its entries in order.
func TestIndexAgreesWithItsNodes(t *testing.T) {
	x := NewIndex()
	if err := x.Add("", "a"); !errors.Is(err, schema.Invalid) {
		t.Errorf("an empty id: %v, want invalid", err)
	}
	want := []string{"b", "a", "c", "d", "own"}
	for _, e := range [][2]string{{"b", "a"}, {"a", ""}, {"c", "b"}, {"d", "gone"}, {"c", "a"}, {"own", "own"}} {
		if err := x.Add(e[0], e[1]); err != nil {
			t.Fatal(err)
		}
	}
	if got := slices.Collect(x.All()); !slices.Equal(got, want) || x.Len() != len(want) {
		t.Errorf("entries %v (%d), want %v", got, x.Len(), want)
	}
	for range x.All() {
		break // an iteration may end early
	}
	rule := TreeOf(x)
	for id := range x.All() {
		want, err := rule.BranchKey(id)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := x.BranchKey(id); got != want || err != nil {
			t.Errorf("BranchKey(%q) = %q, %v, want %q", id, got, err, want)
		}
	}
	for id, parent := range map[string]string{"a": "", "b": "a", "c": "a", "d": "", "own": ""} {
		if got, ok := x.Parent(id); got != parent || !ok {
			t.Errorf("Parent(%q) = %q, %v, want %q", id, got, ok, parent)
		}
	}
	if _, ok := x.Parent("gone"); ok || x.ChildCount("gone") != 0 {
		t.Error("an id that is only named as a parent counts as an entry")
	}
	if n := x.ChildCount("a"); n != 2 {
		t.Errorf("ChildCount(a) = %d, want 2", n)
	}
}

// C15: a chain of 100,000 entries, in order and in the opposite order, costs no recursion and no quadratic time.
func TestDeepChains(t *testing.T) {
	const n = 100_000
	ordered, reversed := NewIndex(), NewIndex()
	for i := range n {
		addNumbered(t, ordered, i)
		addNumbered(t, reversed, n-1-i)
	}
	for kind, x := range map[string]*Index{"ordered": ordered, "reversed": reversed} {
		for _, leaf := range []int{0, 1, n / 2, n - 1} {
			if key, err := x.BranchKey(strconv.Itoa(leaf)); key != "0" || err != nil {
				t.Errorf("%s: BranchKey(%d) = %q, %v, want 0", kind, leaf, key, err)
			}
		}
	}
}

// Y11: damage after damage with a question after each: every entry is the late parent of the one before it.
func TestQuestionsBetweenLateParents(t *testing.T) {
	const n = 20_000
	x := NewIndex()
	for i := n - 1; i >= 0; i-- {
		addNumbered(t, x, i)
		if key, err := x.BranchKey(strconv.Itoa(n - 1)); key != strconv.Itoa(i) || err != nil {
			t.Fatalf("the key of the deepest entry is %q, %v, want %d", key, err, i)
		}
	}
}

// addNumbered adds the entry i of a chain, whose parent is i-1.
func addNumbered(t *testing.T, x *Index, i int) {
	t.Helper()
	parent := ""
	if i > 0 {
		parent = strconv.Itoa(i - 1)
	}
	if err := x.Add(strconv.Itoa(i), parent); err != nil {
		t.Fatal(err)
	}
}

// Y11: above sixty-four runs the look for a cycle gives up, and the pass over all nodes decides.
func TestCycleBelowManyForks(t *testing.T) {
	const depth = 3 * lookHops
	build := func() *Index {
		x := NewIndex()
		for i := range depth {
			parent := ""
			if i > 0 {
				parent = fmt.Sprint("n", i-1)
			}
			if err := errors.Join(x.Add(fmt.Sprint("n", i), parent), x.Add(fmt.Sprint("side", i), fmt.Sprint("n", i))); err != nil {
				t.Fatal(err)
			}
		}
		return x
	}
	bottom := fmt.Sprint("n", depth-1)
	x := build()
	if err := x.Add("n0", bottom); err != nil { // the root below its own deepest descendant
		t.Fatal(err)
	}
	if _, err := x.BranchKey(bottom); !errors.Is(err, schema.Corrupt) {
		t.Errorf("the cycle was not found: %v", err)
	}
	x = build()
	if err := errors.Join(x.Add("new", bottom), x.Add("child", "new"), x.Add("other", ""), x.Add("leaf", "other"), x.Add("other", "new")); err != nil {
		t.Fatal(err)
	}
	if key, err := x.BranchKey("leaf"); key != "other" || err != nil {
		t.Errorf("a subtree moved below many forks: %q, %v, want other", key, err)
	}
}

// Y11: an Index may be asked and added to by several goroutines at once.
func TestIndexConcurrently(t *testing.T) {
	x := NewIndex()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			prev := ""
			for i := range 500 {
				id := fmt.Sprint(g, "-", i)
				parent := prev
				if i%7 == 3 {
					parent = fmt.Sprint(g, "-", i+1) // which comes late, between prev and this entry
				} else {
					prev = id
				}
				if err := x.Add(id, parent); err != nil {
					t.Error(err)
				}
				if _, err := x.BranchKey(id); err != nil {
					t.Error(err)
				}
				for range x.All() {
					break
				}
			}
		})
	}
	wg.Wait()
	if x.Len() != 4*500 {
		t.Errorf("%d entries, want 2000", x.Len())
	}
}

// An Index knows no lines, and names none.
func TestIndexCycleHasNoLine(t *testing.T) {
	x := NewIndex()
	for _, e := range [][2]string{{"a", "c"}, {"b", "a"}, {"c", "b"}} {
		if err := x.Add(e[0], e[1]); err != nil {
			t.Fatal(err)
		}
	}
	_, err := x.BranchKey("a")
	expectCode(t, err, schema.Corrupt, `the parents of 3 entries lead in a circle: `)
	if strings.Contains(err.Error(), "line") {
		t.Errorf("got %v", err)
	}
}
