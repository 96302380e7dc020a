package sessionstate

import (
	"bytes"
	"fmt"
	"strings"

	"pistate/schema"
)

// A forest holds the parent of every entry and finds the top of an entry's run without walking the run.
//
// The truth is nodes alone: who is whose parent, and how many children each has. Chains are only a quicker way
// to read it. A chain is a list of nodes, and a node in it that is not marked as a break promises that the node
// before it is its parent and has no other child, so that the rule says "go on" there. Finding a run's top is
// then: jump to the last break at or before the node, ask nodes whether the rule goes on from there, and
// if it does, jump again from the parent.
//
// An entry that becomes its parent's only child extends the parent's chain, any other begins a chain, and
// a parent's second child puts a break after the parent. Sessions as Pi writes them therefore cost one jump,
// however long and however forked they are. Damage can change what is already there: an entry may come
// after its children, or come again with another parent. The answer to both is to add breaks, which is always
// sound. Two things are left for settle, which costs a pass over all nodes: joining runs again once breaks have
// piled up, and finding a cycle where a bounded look could not rule one out.
//
// Every method but settle and the ones that change the tree may run concurrently with its like. A forest holds
// fewer than 2^31 entries; memory (100 to 150 bytes for each, with a short id) gives out long before.
type forest struct {
	index  map[string]int32
	nodes  []treeNode
	order  []int32 // the entries, in the order of their first appearance
	chains []chain
	scars  int     // breaks that a new layout might remove
	doubt  bool    // a cycle may have been closed
	cycle  []int32 // the entries of one, as of the last settle
}

type treeNode struct {
	id     string
	line   int   // where the entry was last declared; 0: not in a file
	parent int32 // a node, noParent or absent
	kids   int32 // how many entries name this node as parent, whether it is present or not
	chain  int32 // or unplaced
	pos    int32 // in the chain
}

const (
	noParent = -1
	absent   = -2 // in treeNode.parent: named as a parent, but no such entry so far
	unplaced = -1
)

type chain struct {
	nodes  []int32
	breaks marks // position 0 is a break without being marked
}

// lookHops bounds the look for an ancestor that decides whether a cycle is possible. Sixty-four runs deep is
// beyond what people fork by hand; deeper trees pay for damage with one pass over all nodes.
const lookHops = 64

// A step is what one add did: enough to report it and to take it back.
type step struct {
	node    int32
	parent  int32 // as it was before; absent if the entry is new
	line    int
	orphans int32 // entries before this one that named it as parent
}

func (s step) isNew() bool { return s.parent == absent }

// add declares an entry. A parent that is empty or the entry itself means none; one that is no entry yet counts
// from the moment it becomes one. An id that is an entry already takes the new parent (the last one wins).
func (f *forest) add(id, parent []byte, line int) step {
	n := f.intern(id)
	p := int32(noParent)
	if len(parent) > 0 && !bytes.Equal(parent, id) {
		p = f.intern(parent)
	}
	nd := &f.nodes[n]
	s := step{node: n, parent: nd.parent, line: nd.line, orphans: nd.kids}
	nd.line = line
	if s.isNew() {
		f.order = append(f.order, n)
	}
	f.move(n, p)
	return s
}

// undo takes back the latest add.
func (f *forest) undo(s step) {
	if s.isNew() {
		f.order = f.order[:len(f.order)-1]
	}
	f.nodes[s.node].line = s.line
	f.move(s.node, s.parent)
}

// intern returns the node of an id, made absent if it is new.
func (f *forest) intern(id []byte) int32 {
	// Nearly every entry names the one before it as its parent.
	if k := len(f.order); k > 0 && f.nodes[f.order[k-1]].id == string(id) {
		return f.order[k-1]
	}
	if n, ok := f.index[string(id)]; ok {
		return n
	}
	if f.index == nil {
		f.index = make(map[string]int32)
	}
	n, own := int32(len(f.nodes)), string(id)
	f.nodes = append(f.nodes, treeNode{id: own, parent: absent, chain: unplaced})
	f.index[own] = n
	return n
}

// find returns the node of an entry.
func (f *forest) find(id string) (int32, bool) {
	n, ok := f.index[id]
	return n, ok && f.present(n)
}

func (f *forest) present(n int32) bool { return f.nodes[n].parent != absent }

// parentOf returns the entry that is n's parent, or noParent.
func (f *forest) parentOf(n int32) int32 {
	if p := f.nodes[n].parent; p >= 0 && f.present(p) {
		return p
	}
	return noParent
}

// move gives n another parent; absent means that it is no entry any more.
func (f *forest) move(n, parent int32) {
	nd := &f.nodes[n]
	old := nd.parent
	if old == parent {
		return
	}
	if f.cycle != nil {
		f.doubt = true // perhaps n is on it
	}
	if old >= 0 {
		f.nodes[old].kids--
	}
	if nd.chain != unplaced {
		f.breakAt(nd.chain, nd.pos)
		f.scars++
	}
	if parent == absent {
		f.breakAfter(n) // a settle since n was added may have laid out its children behind it
		nd.parent = absent
		return
	}
	if nd.kids > 0 {
		nd.parent = noParent // look from the new parent at the tree in which n is a root
		f.scars++
		if parent >= 0 && f.present(parent) && f.mayBeBelow(parent, n) {
			f.doubt = true
		}
	}
	nd.parent = parent
	if parent >= 0 {
		if f.nodes[parent].kids++; f.nodes[parent].kids == 2 {
			f.breakAfter(parent)
		}
	}
	if nd.chain == unplaced {
		f.place(n)
	}
}

// place gives a node its position: behind its parent if it is the only child and the parent ends a chain.
func (f *forest) place(n int32) {
	nd := &f.nodes[n]
	if p := f.parentOf(n); p >= 0 && f.nodes[p].kids == 1 {
		above := &f.nodes[p]
		if c := &f.chains[above.chain]; int(above.pos) == len(c.nodes)-1 {
			nd.chain, nd.pos = above.chain, above.pos+1
			c.nodes = append(c.nodes, n)
			return
		}
	}
	nd.chain, nd.pos = int32(len(f.chains)), 0
	f.chains = append(f.chains, chain{nodes: []int32{n}})
}

func (f *forest) breakAt(c, pos int32) {
	if pos > 0 {
		f.chains[c].breaks.add(int(pos))
	}
}

// breakAfter ends the promise of the node behind n, if there is one.
func (f *forest) breakAfter(n int32) {
	nd := &f.nodes[n]
	if nd.chain != unplaced && int(nd.pos)+1 < len(f.chains[nd.chain].nodes) {
		f.breakAt(nd.chain, nd.pos+1)
	}
}

// jump returns the node at the last break at or before n: the rule leads from n to there.
func (f *forest) jump(n int32) int32 {
	nd := &f.nodes[n]
	c := &f.chains[nd.chain]
	return c.nodes[max(0, c.breaks.before(int(nd.pos)))]
}

// top returns the top of n's run. It ends in every settled forest without a cycle.
func (f *forest) top(n int32) int32 {
	for {
		n = f.jump(n)
		p := f.parentOf(n)
		if p < 0 || f.nodes[p].kids != 1 {
			return n
		}
		n = p
	}
}

// mayBeBelow reports whether n is above, or is, the entry low; and true if a bounded look can't tell.
func (f *forest) mayBeBelow(low, n int32) bool {
	for range lookHops {
		high := f.jump(low)
		a, b, at := &f.nodes[high], &f.nodes[low], &f.nodes[n]
		if at.chain == b.chain && a.pos <= at.pos && at.pos <= b.pos {
			return true
		}
		if low = f.parentOf(high); low < 0 {
			return false
		}
		if low == n {
			return true // n may be unplaced still
		}
	}
	return true
}

// settled reports whether settle would do nothing. Answers need a settled forest.
func (f *forest) settled() bool {
	return !f.doubt && (f.cycle != nil || f.scars*f.scars <= len(f.nodes))
}

// settle looks for a cycle if one is possible, and lays the runs out anew once there have been more scars than
// the square root of the number of nodes. That keeps a reader of a file in which every line does damage
// below n√n, and one who asks only at the end linear.
func (f *forest) settle() {
	if f.doubt {
		f.doubt, f.cycle = false, f.findCycle()
	}
	if !f.settled() {
		f.layOut()
		f.scars = 0
	}
}

// findCycle returns the entries of a cycle, each followed by its parent, or nil.
func (f *forest) findCycle() []int32 {
	walk := make([]int32, len(f.nodes)) // the number of the walk that came by; 0 for none
	for k, n := range f.order {
		for ; n >= 0 && walk[n] == 0; n = f.parentOf(n) {
			walk[n] = int32(k) + 1
		}
		if n < 0 || walk[n] != int32(k)+1 {
			continue
		}
		cycle := []int32{n}
		for p := f.parentOf(n); p != n; p = f.parentOf(p) {
			cycle = append(cycle, p)
		}
		return cycle
	}
	return nil
}

// layOut makes every run one chain without breaks. There must be no cycle.
func (f *forest) layOut() {
	only := make([]int32, len(f.nodes)) // 1 + the only child; 0 where there isn't exactly one
	for n := range f.nodes {
		f.nodes[n].chain = unplaced
		if p := f.parentOf(int32(n)); p >= 0 && f.nodes[p].kids == 1 {
			only[p] = int32(n) + 1
		}
	}
	f.chains = f.chains[:0]
	all := make([]int32, 0, len(f.order))
	for _, n := range f.order {
		if p := f.parentOf(n); p >= 0 && f.nodes[p].kids == 1 {
			continue // not the top of its run
		}
		begin := len(all)
		for m := n; ; m = only[m] - 1 {
			f.nodes[m].chain, f.nodes[m].pos = int32(len(f.chains)), int32(len(all)-begin)
			all = append(all, m)
			if only[m] == 0 {
				break
			}
		}
		// The chains share one array. Capping each makes it move out before it grows.
		f.chains = append(f.chains, chain{nodes: all[begin:len(all):len(all)]})
	}
}

func (f *forest) branchKey(leaf string) (string, error) {
	n, ok := f.find(leaf)
	if !ok {
		return "", notInTree(leaf)
	}
	if f.cycle != nil {
		return "", f.cycleError()
	}
	return f.nodes[f.top(n)].id, nil
}

func (f *forest) parentKey(key string) (string, bool, error) {
	n, ok := f.find(key)
	if !ok {
		return "", false, notInTree(key)
	}
	if f.cycle != nil {
		return "", false, f.cycleError()
	}
	p := f.parentOf(n)
	if p < 0 {
		return "", false, nil
	}
	return f.nodes[f.top(p)].id, true, nil
}

// cycleError names the cycle's entries and, in a file, the latest line at which one of them was declared, which is
// where it was closed or later.
func (f *forest) cycleError() error {
	const most = 6
	line := 0
	var names []string
	for k, n := range f.cycle {
		line = max(line, f.nodes[n].line)
		if k < most {
			names = append(names, quoteID(f.nodes[n].id))
		}
	}
	if len(f.cycle) > most {
		names = append(names, "...")
	}
	place := ""
	if line > 0 {
		place = fmt.Sprintf("line %d: ", line)
	}
	return schema.Errorf(schema.Corrupt, "%sthe parents of %d entries lead in a circle: %s",
		place, len(f.cycle), strings.Join(names, ", "))
}
