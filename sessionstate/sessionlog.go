package sessionstate

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"pistate/schema"
)

// A sessionLog is what the bytes of a session file mean, as far as they are known: feed adds bytes, end says that
// these are all for now. It does no I/O.
//
// Pi reads a whole file, removes white space at both of its ends, and takes each line by itself. So
// what the last line means can depend on it being the last: it may lack its newline, or be followed by
// white space that JSON doesn't know. Such a line is held: it counts, and what it did is taken back if
// more bytes make it something else.
type sessionLog struct {
	maxLine int64

	session string // the id that the first successful end found; it never changes
	id      string // the header's
	headed  bool   // there is a header
	leaf    int32  // the last entry, or noParent
	tree    forest
	entries int // lines that count as entries
	probs   problemList

	line    int  // the number of the line being scanned
	started bool // a line before it was not blank
	scan    lineScanner
	held    heldLine
	text    [2][]byte // scratch for decoding
}

// A heldLine is the latest line that was taken, as long as it might have to be taken back.
type heldLine struct {
	line     int // 0: none
	isHeader bool
	isEntry  bool
	step     step
	leaf     int32 // before it
	problems []Problem
	err      error // what is wrong with the file if the line stays
}

func newSessionLog(maxLine int64) *sessionLog {
	l := &sessionLog{maxLine: maxLine, leaf: noParent, line: 1}
	l.scan.reset(true)
	return l
}

// feed takes the next bytes. An error is final: the file is none that can be read.
func (l *sessionLog) feed(p []byte) error {
	for len(p) > 0 {
		n := l.scan.scan(p)
		if l.scan.read > l.maxLine {
			return schema.Errorf(schema.Limit, "line %d is longer than %d bytes, the limit for a line", l.line, l.maxLine)
		}
		if n == len(p) {
			break
		}
		p = p[n+1:]
		if err := l.lineEnds(true); err != nil {
			return err
		}
		l.line++
		l.scan.reset(!l.started)
	}
	return nil
}

// end takes the bytes so far for the whole file, and returns what is wrong with it. More bytes may follow, and
// may set it right.
func (l *sessionLog) end() error {
	if err := l.lineEnds(false); err != nil {
		return err
	}
	l.tree.settle()
	switch {
	case l.held.err != nil:
		return l.held.err
	case !l.headed && len(l.probs.kept) > 0:
		return schema.Errorf(schema.Corrupt,
			"it has no session header: %s; restore the file or start a new session in Pi", l.probs.kept[0])
	case !l.headed:
		return schema.Errorf(schema.NotFound, "no session yet: the file has no complete line")
	case l.tree.cycle != nil:
		return l.tree.cycleError()
	}
	l.session = l.id
	return nil
}

// lineEnds takes the line up to here; final says that its newline was reached, else the file ends.
func (l *sessionLog) lineEnds(final bool) error {
	kind := l.scan.kind()
	if kind == lineBlank {
		return nil // also to Pi's trim, so that a held line is still the last one
	}
	l.started = true
	whole := kind == lineObject || kind == lineOther
	if h := &l.held; h.line == l.line && whole {
		if final && !l.scan.trimmed {
			return l.confirm()
		}
		return nil
	} else if h.line != 0 {
		l.takeBack()
		if h.line < l.line {
			l.probs.add(Problem{h.line, ProblemNotJSON,
				"skipped: white space after the value that only the end of the file may have"})
		}
		h.line = 0
	}
	if !whole {
		if final {
			l.probs.add(Problem{l.line, ProblemNotJSON, l.whyNotJSON()})
		}
		return nil
	}
	l.take(kind)
	if final && !l.scan.trimmed {
		return l.confirm()
	}
	return nil
}

func (l *sessionLog) whyNotJSON() string {
	if l.scan.bad > 0 {
		return fmt.Sprintf("skipped: it is not JSON from byte %d on", l.scan.bad)
	}
	return "skipped: it ends in the middle of a JSON value"
}

// take does what a whole line says, and holds it.
func (l *sessionLog) take(kind lineKind) {
	l.held = heldLine{line: l.line, leaf: l.leaf, problems: l.held.problems[:0]}
	isSession := false
	if kind == lineObject {
		t, ok := l.memberText(memberType, 0)
		isSession = ok && string(t) == "session"
	}
	switch {
	case !l.headed && isSession:
		l.takeHeader()
	case !l.headed:
		l.held.err = schema.Errorf(schema.Corrupt, "line %d: the first entry is not a session header "+
			`({"type":"session","version":%d,"id":...}); restore the file or start a new session in Pi`, l.line, SessionVersion)
	case kind == lineOther:
		l.problem(ProblemNotObject, "skipped: a JSON value, but not an object")
	case isSession:
		l.problem(ProblemExtraHeader, "ignored: the header is the first entry of the file")
	default:
		l.takeEntry()
	}
}

// confirm makes the held line final.
func (l *sessionLog) confirm() error {
	for _, p := range l.held.problems {
		l.probs.add(p)
	}
	l.held.line, l.held.problems = 0, l.held.problems[:0]
	return l.held.err
}

// takeBack undoes the held line.
func (l *sessionLog) takeBack() {
	h := &l.held
	if h.isHeader {
		l.headed = false
	}
	if h.isEntry {
		l.tree.undo(h.step)
		l.entries--
	}
	l.leaf, h.err, h.problems = h.leaf, nil, h.problems[:0]
}

func (l *sessionLog) problem(kind ProblemKind, format string, args ...any) {
	l.held.problems = append(l.held.problems, Problem{l.line, kind, fmt.Sprintf(format, args...)})
}

func (l *sessionLog) takeHeader() {
	id, ok := l.memberText(memberID, 0)
	switch {
	case !ok || len(id) == 0:
		l.held.err = schema.Errorf(schema.Corrupt,
			"line %d: the session header's id is not a string of 1 to %d bytes; restore the file or start a new session in Pi",
			l.line, maxID)
	case l.session != "" && l.session != string(id):
		l.held.err = schema.Errorf(schema.Replaced,
			"line %d: the header was of session %s and is now of %s; open the file again",
			l.line, quoteID(l.session), quoteID(string(id)))
	default:
		l.held.err = l.checkVersion()
		l.id = string(id)
		l.headed, l.held.isHeader = true, true
	}
}

// checkVersion judges the header's version as Pi does: none is 1, and a string counts as its number.
func (l *sessionLog) checkVersion() error {
	version := 1.0
	switch m := l.scan.members[memberVersion]; m.kind {
	case kindNone, kindNull:
	case kindNumber, kindString:
		text, _ := l.memberText(memberVersion, 1)
		var err error
		if version, err = strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err != nil {
			version = math.NaN()
		}
	default:
		version = math.NaN()
	}
	switch {
	case version == SessionVersion:
		return nil
	case version < SessionVersion:
		return schema.Errorf(schema.Incompatible, "line %d: the session has format version %v, whose entries have no "+
			"lasting ids; open it once in Pi, which rewrites it as version %d", l.line, version, SessionVersion)
	case version > SessionVersion:
		return schema.Errorf(schema.Incompatible, "line %d: the session has format version %v, written by a newer Pi; "+
			"this program reads version %d", l.line, version, SessionVersion)
	}
	return schema.Errorf(schema.Incompatible, "line %d: the session header's version is not a number; "+
		"this program reads version %d", l.line, SessionVersion)
}

func (l *sessionLog) takeEntry() {
	id, ok := l.memberText(memberID, 0)
	if !ok || len(id) == 0 {
		l.problem(ProblemBadID, "skipped: its id is %s; an id is a string of 1 to %d bytes", l.describe(memberID), maxID)
		return
	}
	parent, ok := l.memberText(memberParent, 1)
	switch {
	case l.scan.members[memberParent].kind == kindNull:
	case !ok || len(parent) == 0:
		parent = nil
		l.problem(ProblemBadParent, "the parentId of %s is %s; it is a root", quoteID(string(id)), l.describe(memberParent))
	case bytes.Equal(parent, id):
		l.problem(ProblemOwnParent, "%s names itself as its parent; it is a root", quoteID(string(id)))
	}
	if !utf8.Valid(id) || bytes.IndexByte(id, 0) >= 0 {
		l.problem(ProblemOddID, "the id %s has half a surrogate pair or a NUL, and can't be the key of a state", quoteID(string(id)))
	}
	s := l.tree.add(id, parent, l.line)
	switch {
	case !s.isNew():
		l.problem(ProblemDuplicateID, "%s was declared on line %d already; this line counts", quoteID(string(id)), s.line)
	case s.orphans > 0:
		l.problem(ProblemLateParent, "%s comes after entries that name it as their parent (%d of them)", quoteID(string(id)), s.orphans)
	}
	l.leaf = s.node
	l.entries++
	l.held.step, l.held.isEntry = s, true
}

// memberText returns the text of a wanted member that is a string or a number, until the next call with the same
// scratch buffer. ok is false for any other value, and for a text of more than maxID bytes.
func (l *sessionLog) memberText(which, scratch int) (text []byte, ok bool) {
	m := &l.scan.members[which]
	switch {
	case m.long:
		return nil, false
	case m.kind == kindNumber:
		return m.raw, which == memberVersion
	case m.kind != kindString:
		return nil, false
	}
	text = appendDecoded(l.text[scratch][:0], m.raw)
	l.text[scratch] = text
	return text, len(text) <= maxID
}

// describe says what a wanted member is that can't be used.
func (l *sessionLog) describe(which int) string {
	switch m := &l.scan.members[which]; {
	case m.kind == kindNone:
		return "absent"
	case m.kind == kindNull:
		return "null"
	case m.kind != kindString:
		return "not a string"
	case len(m.raw) == 0:
		return "empty"
	}
	return "too long"
}

// lastLine describes what is unusual about the end of the file, if anything is.
func (l *sessionLog) lastLine() (Problem, bool) {
	const untilMore = "it counts until more is written"
	switch l.scan.kind() {
	case lineBlank:
		if l.held.line == 0 {
			return Problem{}, false
		}
		return Problem{l.held.line, ProblemUnterminated, "white space that is none in JSON ends the file; " + untilMore}, true
	case lineObject, lineOther:
		return Problem{l.line, ProblemUnterminated, "the last line has no newline; " + untilMore}, true
	}
	return Problem{l.line, ProblemUnterminated, "the last line has no newline; it is not a whole JSON value yet and does not count"}, true
}

// problems returns what Pi wouldn't have written, by line.
func (l *sessionLog) problems() []Problem {
	all := problemList{kept: slices.Clone(l.probs.kept), omitted: l.probs.omitted}
	for _, p := range l.held.problems {
		all.add(p)
	}
	for _, n := range l.tree.order {
		nd := &l.tree.nodes[n]
		if nd.parent >= 0 && !l.tree.present(nd.parent) {
			all.add(Problem{nd.line, ProblemMissingParent, fmt.Sprintf("%s has the parentId %s, which is no entry; it is a root",
				quoteID(nd.id), quoteID(l.tree.nodes[nd.parent].id))})
		}
	}
	if p, ok := l.lastLine(); ok {
		all.add(p)
	}
	return all.sorted()
}
