package sessionstate

import "pistate/schema"

// Tree answers the two questions that the branch key rule asks of a session. Index and SessionFile are
// Trees; an embedder with a tree of its own implements Tree, or Nodes and calls TreeOf.
//
// A run is a stretch of entries in which each has exactly one child, its successor. An entry's branch key
// is the id of the top of its run: go up while the parent has exactly one child (rule Y2).
type Tree interface {
	// BranchKey returns the id of the top of leaf's run. A leaf that is not in the tree is
	// schema.NotFound, a tree with a cycle schema.Corrupt.
	BranchKey(leaf string) (string, error)

	// ParentKey returns the key of the run above: the branch key of key's parent. ok is false where key
	// has no parent. A key that is not in the tree is schema.NotFound. Called again and again on its own
	// result it ascends to the root (rule Y3).
	ParentKey(key string) (parent string, ok bool, err error)
}

// Nodes is the little that TreeOf must know about a tree.
type Nodes interface {
	// Parent returns the id of the parent of the node called id: "" for a root. ok is false if there is
	// no such node. A parent that is no node, or is the node itself, counts as none.
	Parent(id string) (parent string, ok bool)

	// ChildCount returns how many nodes have id as their parent.
	ChildCount(id string) int
}

// TreeOf applies the rule to n directly, asking for one parent after another. BranchKey walks to the root,
// so that a cycle is an error and never a hang, and costs the depth of the leaf; ParentKey walks the one
// run and relies on BranchKey having seen the path above it. Long sessions are better kept in an Index.
//
// The Tree may be used by several goroutines at once if n may.
func TreeOf(n Nodes) Tree { return nodeTree{n} }

type nodeTree struct{ n Nodes }

func (t nodeTree) BranchKey(leaf string) (string, error) {
	if err := t.check(leaf); err != nil {
		return "", err
	}
	return t.walk(leaf, true)
}

func (t nodeTree) ParentKey(key string) (string, bool, error) {
	if err := t.check(key); err != nil {
		return "", false, err
	}
	parent := t.parent(key)
	if parent == "" {
		return "", false, nil
	}
	top, err := t.walk(parent, false)
	return top, err == nil, err
}

func (t nodeTree) check(id string) error {
	if _, ok := t.n.Parent(id); !ok || id == "" {
		return notInTree(id)
	}
	return nil
}

// parent returns id's parent if it is a node of its own, else "".
func (t nodeTree) parent(id string) string {
	parent, _ := t.n.Parent(id)
	if parent == "" || parent == id {
		return ""
	}
	if _, ok := t.n.Parent(parent); !ok {
		return ""
	}
	return parent
}

// walk returns the top of id's run, after going on to the root if toRoot is set. It finds a cycle without
// remembering the path (Brent's method): it looks out for one visited node, and moves on to a newer one each
// time the number of steps since has doubled.
func (t nodeTree) walk(id string, toRoot bool) (string, error) {
	top, node := "", id
	visited, steps, limit := id, 0, 1
	for {
		parent := t.parent(node)
		if top == "" && (parent == "" || t.n.ChildCount(parent) != 1) {
			top = node
		}
		if parent == "" || (top != "" && !toRoot) {
			return top, nil
		}
		node = parent
		if node == visited {
			return "", schema.Errorf(schema.Corrupt,
				"the session tree has a cycle through entry %s: its parents lead back to it", quoteID(node))
		}
		if steps++; steps == limit {
			visited, steps, limit = node, 0, 2*limit
		}
	}
}

func notInTree(id string) error {
	if id == "" {
		return schema.Errorf(schema.NotFound, "no entry is named: before a session's first entry there is no branch key")
	}
	return schema.Errorf(schema.NotFound, "entry %s is not in the session tree", quoteID(id))
}
