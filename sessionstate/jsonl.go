package sessionstate

import "bytes"

// A lineScanner decides what one line of a session file is to JavaScript's JSON.parse, and picks the few top-level
// members that the tree needs, while the line's bytes arrive in pieces of any size. It keeps no line: its memory is
// those members and one bit per level of nesting.
//
// Every byte is checked against the whole grammar. Nesting may be of any depth, invalid UTF-8 is accepted
// where a string can contain it (Pi reads it as U+FFFD), and of a member that occurs twice the last counts.
type lineScanner struct {
	state scanState
	first bool // no line before it had anything in it: it may begin as only JavaScript's trim allows

	inObject bool     // the innermost open container is an object, not an array
	depth    int      // open containers
	stack    []uint64 // one bit for each: it is an object

	isKey   bool    // the current string is a key
	literal string  // the rest of true, false or null
	digits  int     // hex digits of a \u escape still to come
	key     []byte  // the latest top-level key
	member  int     // which wanted member it names, or numMembers
	into    *[]byte // where the current string or number is kept; nil for all but a few
	members [numMembers]member

	isObject bool // the line's value
	trimmed  bool // there are characters around the value that JavaScript's trim removes and JSON doesn't allow
	rune     []byte
	runeBuf  [4]byte // the beginning of such a character, if it has more than one byte

	read int64 // bytes of the line so far
	bad  int64 // 1 + the offset of the byte that broke the grammar; 0 for none
}

// The members that matter.
const (
	memberType = iota
	memberID
	memberParent
	memberVersion
	numMembers
)

var memberNames = [numMembers]string{"type", "id", "parentId", "version"}

// A member is the value of a wanted top-level member. Strings and numbers keep their text, strings as it stands
// between the quotes.
type member struct {
	kind memberKind
	raw  []byte
	long bool // the text goes on beyond raw
}

type memberKind byte

const (
	kindNone   memberKind = 0 // no such member
	kindString memberKind = '"'
	kindNumber memberKind = '0'
	kindNull   memberKind = 'n'
	kindOther  memberKind = '{'
)

// maxID bounds the ids of entries, in bytes of their decoded text. Pi's own have eight characters.
const maxID = 4096

// maxRaw holds every text of maxID decoded bytes: an escape spends at most six bytes on one.
const maxRaw = 6 * maxID

type scanState byte

const (
	atStart      scanState = iota // nothing but blanks so far
	atValue                       // a value must come
	atFirstValue                  // a value, or the end of an empty array
	atFirstKey                    // a key, or the end of an empty object
	atKey
	atColon
	atNext // after a value in a container
	inString
	inEscape
	inHex
	inLiteral
	afterMinus
	afterZero
	inInteger
	afterPoint
	inFraction
	afterE
	afterESign
	inExponent
	atEnd // the value is complete
	broken
)

// What a line is.
type lineKind byte

const (
	lineBlank  lineKind = iota
	lineObject          // a JSON object
	lineOther           // another JSON value
	lineBroken          // not JSON, and no continuation can make it so
	lineCut             // not JSON, but more bytes might complete it
)

// reset prepares for the next line.
func (s *lineScanner) reset(first bool) {
	const keep = 1024
	if cap(s.stack) > keep {
		s.stack = nil // one line nested 64 thousand deep is no reason to hold on to its memory
	}
	s.state, s.first = atStart, first
	s.depth, s.inObject = 0, false
	s.into, s.member = nil, numMembers
	for k := range s.members {
		m := &s.members[k]
		m.kind, m.long, m.raw = kindNone, false, m.raw[:0]
	}
	s.isObject, s.trimmed, s.rune = false, false, s.runeBuf[:0]
	s.read, s.bad = 0, 0
}

// kind says what the bytes so far are, if the line ends here.
func (s *lineScanner) kind() lineKind {
	switch {
	case s.state == broken:
		return lineBroken
	case s.state == atStart:
		return lineBlank
	case s.state == atEnd && len(s.rune) > 0:
		return lineCut
	case s.state == atEnd && s.isObject:
		return lineObject
	case s.state == atEnd, s.depth == 0 && numberMayEnd(s.state):
		return lineOther
	}
	return lineCut
}

func numberMayEnd(st scanState) bool {
	return st == afterZero || st == inInteger || st == inFraction || st == inExponent
}

// scan reads p up to its end, or up to the newline that ends the line, and returns the number of bytes before that.
func (s *lineScanner) scan(p []byte) int {
	n := s.run(p)
	s.read += int64(n)
	return n
}

// run is the pushdown automaton. Each case consumes at least one byte or changes the state; a newline is never
// consumed, and ends the line whatever the state, because no JSON text contains one inside a token.
func (s *lineScanner) run(p []byte) int {
	i := 0
	for i < len(p) {
		c := p[i]
		switch s.state {
		case inString:
			j := skipPlain(p, i)
			if s.into != nil {
				s.keep(p[i:j])
			}
			if i = j; i == len(p) {
				return i
			}
			switch c = p[i]; c {
			case '"':
				i++
				s.endString()
				// Compact JSON goes on at once.
				if s.state == atColon && i < len(p) && p[i] == ':' {
					i++
					s.state = atValue
				}
			case '\\':
				s.keep(p[i : i+1])
				i++
				s.state = inEscape
			default:
				if c == '\n' {
					return i
				}
				s.fail(i)
			}

		case inEscape:
			switch c {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				s.state = inString
			case 'u':
				s.state, s.digits = inHex, 4
			case '\n':
				return i
			default:
				s.fail(i)
				continue
			}
			s.keep(p[i : i+1])
			i++

		case inHex:
			if !isHex(c) {
				if c == '\n' {
					return i
				}
				s.fail(i)
				continue
			}
			s.keep(p[i : i+1])
			i++
			if s.digits--; s.digits == 0 {
				s.state = inString
			}

		case atNext:
			switch {
			case c == ',':
				i++
				if !s.inObject {
					s.state = atValue
				} else if s.state = atKey; i < len(p) && p[i] == '"' {
					i++
					s.beginKey()
				}
			case c == '}' && s.inObject, c == ']' && !s.inObject:
				i++
				s.pop()
			case isSpace(c):
				i++
			case c == '\n':
				return i
			default:
				s.fail(i)
			}

		case atFirstKey, atKey:
			switch {
			case c == '"':
				i++
				s.beginKey()
			case c == '}' && s.state == atFirstKey:
				i++
				s.pop()
			case isSpace(c):
				i++
			case c == '\n':
				return i
			default:
				s.fail(i)
			}

		case atColon:
			switch {
			case c == ':':
				i++
				s.state = atValue
			case isSpace(c):
				i++
			case c == '\n':
				return i
			default:
				s.fail(i)
			}

		case atValue, atFirstValue:
			switch {
			case c == '"':
				i++
				s.beginValue(kindString)
				s.state = inString
			case isDigit(c), c == '-':
				s.beginValue(kindNumber)
				s.keep(p[i : i+1])
				i++
				switch c {
				case '-':
					s.state = afterMinus
				case '0':
					s.state = afterZero
				default:
					s.state = inInteger
				}
			case c == '{':
				i++
				s.beginValue(kindOther)
				s.push(true)
				s.state = atFirstKey
			case c == '[':
				i++
				s.beginValue(kindOther)
				s.push(false)
				s.state = atFirstValue
			case c == 't', c == 'f', c == 'n':
				i++
				s.beginLiteral(c)
			case c == ']' && s.state == atFirstValue:
				i++
				s.pop()
			case isSpace(c):
				i++
			case c == '\n':
				return i
			default:
				s.fail(i)
			}

		case inLiteral:
			switch {
			case c == s.literal[0]:
				i++
				if s.literal = s.literal[1:]; s.literal == "" {
					s.endValue()
				}
			case c == '\n':
				return i
			default:
				s.fail(i)
			}

		case inInteger, inFraction, inExponent:
			j := i
			for j < len(p) && isDigit(p[j]) {
				j++
			}
			s.keep(p[i:j])
			if i = j; i == len(p) {
				return i
			}
			switch c = p[i]; {
			case c == '.' && s.state == inInteger:
				s.state = afterPoint
			case (c == 'e' || c == 'E') && s.state != inExponent:
				s.state = afterE
			default:
				s.endValue()
				continue
			}
			s.keep(p[i : i+1])
			i++

		case afterMinus, afterZero, afterPoint, afterE, afterESign:
			next := afterNumberPart(s.state, c)
			if next == broken {
				if c == '\n' {
					return i
				}
				s.fail(i)
				continue
			}
			if next == atEnd {
				s.endValue()
				continue
			}
			s.state = next
			s.keep(p[i : i+1])
			i++

		case atStart, atEnd:
			if c == '\n' && len(s.rune) == 0 {
				return i
			}
			if s.blank(c) {
				i++
			} else if s.state == atStart && len(s.rune) == 0 && (s.first || !s.trimmed) {
				s.state, s.trimmed = atValue, false
			} else {
				s.fail(i)
			}

		case broken:
			if j := bytes.IndexByte(p[i:], '\n'); j >= 0 {
				return i + j
			}
			return len(p)
		}
	}
	return i
}

// fail marks the line as broken by the byte at p[i] of the current piece.
func (s *lineScanner) fail(i int) {
	s.state, s.into = broken, nil
	s.bad = s.read + int64(i) + 1
}

// blank consumes c if it belongs to white space that JavaScript's trim removes from both ends of the file. What
// JSON itself allows can stand anywhere; the rest is noted, and may take several bytes.
func (s *lineScanner) blank(c byte) bool {
	switch {
	case len(s.rune) > 0 || c >= 0x80:
		s.rune = append(s.rune, c)
		space, whole := jsSpace(s.rune)
		if !space {
			return false
		}
		if whole {
			s.rune, s.trimmed = s.rune[:0], true
		}
		return true
	case c == '\v', c == '\f':
		s.trimmed = true
		return true
	}
	return isSpace(c)
}

// beginKey enters a key's string; at depth 1 the key is kept.
func (s *lineScanner) beginKey() {
	s.state, s.isKey = inString, true
	if s.depth == 1 {
		s.key = s.key[:0]
		s.into = &s.key
	}
}

// endString leaves the string of a key or a value.
func (s *lineScanner) endString() {
	if !s.isKey {
		s.endValue()
		return
	}
	s.state, s.into = atColon, nil
	if s.depth == 1 {
		s.member = wantedMember(s.key)
	}
}

// beginValue notes what kind of value follows, if it is that of a wanted member.
func (s *lineScanner) beginValue(kind memberKind) {
	s.isKey = false
	if s.depth != 1 || s.member == numMembers {
		return
	}
	m := &s.members[s.member]
	m.kind, m.long, m.raw = kind, false, m.raw[:0]
	if kind == kindString || kind == kindNumber {
		s.into = &m.raw
	}
}

func (s *lineScanner) beginLiteral(c byte) {
	s.state = inLiteral
	switch c {
	case 'n':
		s.beginValue(kindNull)
		s.literal = "ull"
	case 't':
		s.beginValue(kindOther)
		s.literal = "rue"
	default:
		s.beginValue(kindOther)
		s.literal = "alse"
	}
}

func (s *lineScanner) endValue() {
	s.into = nil
	if s.state = atNext; s.depth == 0 {
		s.state = atEnd
	}
}

func (s *lineScanner) push(object bool) {
	if s.depth == 0 {
		s.isObject = object
	}
	word, bit := s.depth/wordBits, uint64(1)<<(s.depth%wordBits)
	if word == len(s.stack) {
		s.stack = append(s.stack, 0)
	}
	s.stack[word] &^= bit
	if object {
		s.stack[word] |= bit
	}
	s.depth++
	s.inObject = object
}

func (s *lineScanner) pop() {
	if s.depth--; s.depth > 0 {
		top := s.depth - 1
		s.inObject = s.stack[top/wordBits]>>(top%wordBits)&1 == 1
	}
	s.endValue()
}

// keep adds b to the string or number that is being kept, if any.
func (s *lineScanner) keep(b []byte) {
	if s.into == nil {
		return
	}
	if room := maxRaw - len(*s.into); len(b) > room {
		b = b[:room]
		if !s.isKey {
			s.members[s.member].long = true
		}
	}
	*s.into = append(*s.into, b...)
}

// wantedMember returns the member that a key names, given as it stands between the quotes.
func wantedMember(key []byte) int {
	if len(key) >= len(`\u0069d`) && bytes.IndexByte(key, '\\') >= 0 {
		key = appendDecoded(nil, key)
	}
	for k, name := range memberNames {
		if string(key) == name {
			return k
		}
	}
	return numMembers
}

// afterNumberPart returns the state that c leads to after a sign, a point, an E or a leading zero; atEnd if the
// number ends before c.
func afterNumberPart(st scanState, c byte) scanState {
	switch {
	case st == afterZero:
		switch c {
		case '.':
			return afterPoint
		case 'e', 'E':
			return afterE
		}
		return atEnd
	case st == afterMinus && c == '0':
		return afterZero
	case st == afterE && (c == '+' || c == '-'):
		return afterESign
	case !isDigit(c):
		return broken
	case st == afterMinus:
		return inInteger
	case st == afterPoint:
		return inFraction
	}
	return inExponent
}
