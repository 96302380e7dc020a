package sessionstate

import (
	"iter"
	"sync"

	"pistate/schema"
)

// An Index is the tree of one session, kept up to date one entry at a time (rule Y11). Adding an entry and asking
// for its key cost O(1) amortised however long and however forked the session is: a map look-up, and a jump over
// words of 64 entries that takes one more level each time the session grows 64-fold.
//
// Entries may also come as no sound session has them: before their parents, or again with another parent. Then
// the next question may cost a pass over all entries, and at most one such pass, however many of
// those were added since the last.
//
// The zero Index is empty and ready. All methods may be called by several goroutines at once.
type Index struct {
	mu   sync.RWMutex
	tree forest
}

// NewIndex returns an empty Index.
func NewIndex() *Index { return new(Index) }

// Add declares an entry and its parent; parentID is "" for a root. A parent that is the entry itself counts as
// none, and so does one that isn't in the Index, until it is added. An entry that is declared again
// takes the parent of its last declaration. Add closes cycles without complaint, because the entry that
// breaks one may be the next; the questions return schema.Corrupt while there is one.
//
// An empty id is schema.Invalid.
func (x *Index) Add(id, parentID string) error {
	if id == "" {
		return schema.Errorf(schema.Invalid, "an entry needs an id that isn't empty")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tree.add([]byte(id), []byte(parentID), 0)
	return nil
}

// BranchKey implements Tree.
func (x *Index) BranchKey(leaf string) (string, error) {
	x.rlockSettled()
	defer x.mu.RUnlock()
	return x.tree.branchKey(leaf)
}

// ParentKey implements Tree.
func (x *Index) ParentKey(key string) (parent string, ok bool, err error) {
	x.rlockSettled()
	defer x.mu.RUnlock()
	return x.tree.parentKey(key)
}

func (x *Index) rlockSettled() {
	x.mu.RLock()
	for !x.tree.settled() {
		x.mu.RUnlock()
		x.mu.Lock()
		x.tree.settle()
		x.mu.Unlock()
		x.mu.RLock()
	}
}

// Len returns the number of entries. An entry that was declared twice counts once.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.tree.order)
}

// All yields the entries' ids in the order in which they were first added. Entries may be added meanwhile; they
// are yielded too.
func (x *Index) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for k := 0; ; k++ {
			id, ok := x.at(k)
			if !ok || !yield(id) {
				return
			}
		}
	}
}

func (x *Index) at(k int) (string, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if k >= len(x.tree.order) {
		return "", false
	}
	return x.tree.nodes[x.tree.order[k]].id, true
}

// Parent implements Nodes: the entry's parent as the tree counts it, so "" if the declared one is missing.
func (x *Index) Parent(id string) (parent string, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n, ok := x.tree.find(id)
	if !ok {
		return "", false
	}
	if p := x.tree.parentOf(n); p >= 0 {
		parent = x.tree.nodes[p].id
	}
	return parent, true
}

// ChildCount implements Nodes: how many entries have id as their parent, 0 if it isn't in the Index.
func (x *Index) ChildCount(id string) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n, ok := x.tree.find(id)
	if !ok {
		return 0
	}
	return int(x.tree.nodes[n].kids)
}
