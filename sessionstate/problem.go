package sessionstate

import (
	"cmp"
	"fmt"
	"slices"
)

// A Problem is something in a session file that Pi would not have written. Pi, and so SessionFile, has an
// answer to each and goes on; the Problem says where and what, for people who want to know or to be strict.
type Problem struct {
	Line   int         `json:"line"` // 1-based; 0 for ProblemOmitted
	Kind   ProblemKind `json:"kind"`
	Detail string      `json:"detail"` // for people; may change
}

// String returns the problem in one line, without the file's name.
func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.Kind, p.Detail)
	}
	return fmt.Sprintf("line %d: %s: %s", p.Line, p.Kind, p.Detail)
}

// ProblemKind is the stable name of a kind of problem.
type ProblemKind string

// The kinds of problems, each with what is done about it.
const (
	ProblemNotJSON       ProblemKind = "not_json"       // the line is skipped
	ProblemNotObject     ProblemKind = "not_object"     // a JSON value, but no object: skipped
	ProblemUnterminated  ProblemKind = "unterminated"   // nothing ends the last line: it counts if it is whole, until more comes
	ProblemExtraHeader   ProblemKind = "extra_header"   // another "type":"session" line: not an entry, and the first one holds
	ProblemBadID         ProblemKind = "bad_id"         // no id that could name the entry: skipped
	ProblemDuplicateID   ProblemKind = "duplicate_id"   // the later line is the entry
	ProblemOddID         ProblemKind = "odd_id"         // an id with half a surrogate pair has no UTF-8 form: kept, as WTF-8
	ProblemBadParent     ProblemKind = "bad_parent"     // parentId is no id and not null: the entry is a root
	ProblemOwnParent     ProblemKind = "own_parent"     // parentId is the entry's own id: it is a root
	ProblemMissingParent ProblemKind = "missing_parent" // parentId names no entry of the file: the entry is a root
	ProblemLateParent    ProblemKind = "late_parent"    // the entry comes after entries that name it as their parent: they are its children
	ProblemOmitted       ProblemKind = "omitted"        // how many more there are
)

// maxProblems bounds the problems that are kept of one file.
const maxProblems = 1000

// problemList keeps the first problems and counts the rest.
type problemList struct {
	kept    []Problem
	omitted int
}

func (l *problemList) add(p Problem) {
	if len(l.kept) == maxProblems {
		l.omitted++
		return
	}
	l.kept = append(l.kept, p)
}

// sorted returns the problems by line.
func (l problemList) sorted() []Problem {
	all := slices.Clone(l.kept)
	slices.SortStableFunc(all, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	if l.omitted > 0 {
		all = append(all, Problem{
			Kind:   ProblemOmitted,
			Detail: fmt.Sprintf("the file has %d more problems than the %d listed", l.omitted, len(l.kept)),
		})
	}
	return all
}

// quoteID returns an id for an error text: quoted, and shortened if it is long.
func quoteID(id string) string {
	const most = 64
	if len(id) > most {
		return fmt.Sprintf("%.*q...", most, id)
	}
	return fmt.Sprintf("%q", id)
}
