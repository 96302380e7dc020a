package sessionstate

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// scanLine scans a line in pieces of at most size bytes.
func scanLine(line []byte, first bool, size int) *lineScanner {
	var s lineScanner
	s.reset(first)
	for len(line) > 0 {
		piece := line[:min(size, len(line))]
		if n := s.scan(piece); n < len(piece) {
			break
		}
		line = line[len(piece):]
	}
	return &s
}

// Y11: what one line is, whole and byte by byte.
func TestLineKinds(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 100_000) + "1" + strings.Repeat("]}", 100_000)
	tests := []struct {
		line string
		want lineKind
	}{
		{"", lineBlank}, {" \t\r", lineBlank}, {"\v\f\u00a0\u2028\ufeff", lineBlank},
		{`{}`, lineObject}, {` { } `, lineObject}, {"{}\r", lineObject}, {`{"a":{"b":[{},[],[[]]]}}`, lineObject},
		{deep, lineObject},
		{`{"a":1,"a":-0.5e+10,"b":[true,false,null,"\u00Ff\\"]}`, lineObject},
		{"{\"a\":\"\xff\x7f\"}", lineObject}, // invalid UTF-8 and DEL are allowed in strings
		{`[]`, lineOther}, {`[{"id":"a"}]`, lineOther}, {`null`, lineOther}, {`true`, lineOther}, {`"x"`, lineOther},
		{`0`, lineOther}, {`-0`, lineOther}, {`10`, lineOther}, {`1.5`, lineOther}, {`1e5`, lineOther}, {`1E-05 `, lineOther},
		{`01`, lineBroken}, {`-a`, lineBroken}, {`1.e5`, lineBroken}, {`+1`, lineBroken}, {`.5`, lineBroken}, {`1e+x`, lineBroken},
		{`{"a":1.}`, lineBroken}, {`{"a":1e}`, lineBroken}, {`{"a":-}`, lineBroken}, {`{"a":00}`, lineBroken},
		{`nul`, lineCut}, {`nulL`, lineBroken}, {`truee`, lineBroken}, {`None`, lineBroken},
		{`{,}`, lineBroken}, {`{"a"}`, lineBroken}, {`{"a":}`, lineBroken}, {`{"a":1,}`, lineBroken}, {`{a:1}`, lineBroken},
		{`{"a":1 "b":2}`, lineBroken}, {`[1,]`, lineBroken}, {`[,1]`, lineBroken}, {`[1 2]`, lineBroken}, {`[}`, lineBroken}, {`{]`, lineBroken},
		{`{"a":[1}`, lineBroken}, {`[{"a":1]`, lineBroken},
		{`{}{}`, lineBroken}, {`{} x`, lineBroken}, {`{}]`, lineBroken}, {`]`, lineBroken}, {`}`, lineBroken},
		{`{"a":"\x"}`, lineBroken}, {`{"a":"\u00g0"}`, lineBroken}, {"{\"a\":\"\t\"}", lineBroken}, {"{\"a\":\"\x00\"}", lineBroken},
		{"{\u00a0}", lineBroken}, {"{\v}", lineBroken}, {`// comment`, lineBroken}, {"\xff", lineBroken},
		{"\u00a0{}", lineBroken}, {"\v{}", lineBroken}, // only the file's first line may begin so
		{`{`, lineCut}, {`{"a`, lineCut}, {`{"a"`, lineCut}, {`{"a":`, lineCut}, {`{"a":1`, lineCut}, {`{"a":1,`, lineCut}, {`[1,`, lineCut},
		{`{"a":"\`, lineCut}, {`{"a":"\u12`, lineCut}, {`-`, lineCut}, {`1.`, lineCut}, {`1e`, lineCut}, {`1e-`, lineCut}, {`[1`, lineCut},
		// White space after the value that only the end of the file may have: trimmed is set.
		{"{}\u00a0", lineObject}, {"{} \v\f", lineObject}, {"1\u2003", lineOther}, {"{}\u00a0x", lineBroken},
		{"{}\xe2\x80", lineCut}, {"{}\xe2\x80x", lineBroken}, {"{}\xe2\x41", lineBroken},
		{"\xe2\x80", lineBlank}, // so far
	}
	for _, test := range tests {
		for _, size := range []int{1, 7, len(test.line) + 1} {
			s := scanLine([]byte(test.line), false, size)
			if got := s.kind(); got != test.want {
				t.Errorf("%.60q in pieces of %d: %d, want %d", test.line, size, got, test.want)
			}
			if int(s.read) != len(test.line) {
				t.Errorf("%.60q in pieces of %d: read %d bytes of %d", test.line, size, s.read, len(test.line))
			}
		}
	}
}

// Y11: the first line may begin with what JavaScript's trim removes, and that is no reason to doubt it.
func TestFirstLine(t *testing.T) {
	for _, line := range []string{"\ufeff{}", "\u00a0\v\u2028 {}", "\f{}\r"} {
		for _, size := range []int{1, 100} {
			if s := scanLine([]byte(line), true, size); s.kind() != lineObject || s.trimmed {
				t.Errorf("%q: kind %d, trimmed %v", line, s.kind(), s.trimmed)
			}
		}
	}
	if s := scanLine([]byte("\ufeff{}\ufeff"), true, 1); s.kind() != lineObject || !s.trimmed {
		t.Errorf("white space after the value: kind %d, trimmed %v", s.kind(), s.trimmed)
	}
}

// Y11: a newline ends the line wherever it stands, and is not consumed.
func TestNewlineEndsALine(t *testing.T) {
	for _, head := range []string{"", " ", "\xe2\x80", "{", `{"a`, `{"a\`, `{"a\u0`, `{"a"`, `{"a":`, `{"a":1`, `{"a":-`, `{"a":1.`, `{"a":tr`,
		`{"a":[`, `{"a":[1`, `{"a":[1,`, `{}`, "{}\xe2", "}", "12", "{\"a\":1}x"} {
		var s lineScanner
		s.reset(false)
		if n := s.scan([]byte(head + "\n" + `{"b":2}`)); n != len(head) {
			t.Errorf("%q and a newline: %d bytes scanned, want %d", head, n, len(head))
		}
	}
}

// Y11: the members that count are the top-level ones, the last of each, wherever they stand and however written.
func TestWantedMembers(t *testing.T) {
	const notThere = "(none)"
	long := strings.Repeat("x", maxRaw+1)
	tests := []struct{ line, typ, id, parent, version string }{
		{`{"type":"message","id":"a","parentId":null}`, `"message`, `"a`, `n`, notThere},
		{`{"message":{"id":"no","parentId":"no"},"list":[{"id":"no"},"id"],"id":"a","parentId":"b"}`, notThere, `"a`, `"b`, notThere},
		{`{"id":"a","id":"b","parentId":"x","parentId":null}`, notThere, `"b`, `n`, notThere},
		{`{"id":"a","id":5}`, notThere, `05`, notThere, notThere},
		{`{"id":{"id":"x"},"parentId":["y"]}`, notThere, `{`, `{`, notThere},
		{`{"\u0069d":"\u0061","par\u0065ntId":"\"\\"}`, notThere, `"\u0061`, `"\"\\`, notThere},
		{`{"\\u0069d":"a","\\\\u0069d":"b","\\id":"c"}`, notThere, notThere, notThere, notThere},
		{`{"version":3,"type":"session"}`, `"session`, notThere, notThere, `03`},
		{`{"version":-3.25E+1}`, notThere, notThere, notThere, `0-3.25E+1`},
		{`{"version":0.5,"id":""}`, notThere, `"`, notThere, `00.5`},
		{`{"version":true,"id":false}`, notThere, `{`, notThere, `{`},
		{`{"ID":"a","Id":"b","id ":"c","type":"t"}`, `"t`, notThere, notThere, notThere},
		{`[{"id":"a"}]`, notThere, notThere, notThere, notThere},
		{`{"id":"` + long + `","parentId":"p"}`, notThere, `"` + long[:maxRaw] + `+`, `"p`, notThere},
		{`{"` + long + `":1,"id":"a"}`, notThere, `"a`, notThere, notThere},
	}
	show := func(m *member) string {
		switch {
		case m.kind == kindNone:
			return notThere
		case m.long:
			return string(m.kind) + string(m.raw) + "+"
		}
		return string(m.kind) + string(m.raw)
	}
	for _, test := range tests {
		for _, size := range []int{1, 3, 1 << 20} {
			s := scanLine([]byte(test.line), false, size)
			for k, want := range [numMembers]string{test.typ, test.id, test.parent, test.version} {
				if got := show(&s.members[k]); got != want {
					t.Errorf("%.80s in pieces of %d: %s is %.80q, want %.80q", test.line, size, memberNames[k], got, want)
				}
			}
		}
	}
}

// The scanner forgets a line, and the memory of an extremely nested one, when the next begins.
func TestScannerReset(t *testing.T) {
	var s lineScanner
	s.reset(true)
	s.scan([]byte(`{"id":"a","parentId":"b","type":"c","version":3,"x":` + strings.Repeat("[", 1<<17)))
	s.reset(false)
	if cap(s.stack) > 1024 {
		t.Errorf("%d words of nesting kept", cap(s.stack))
	}
	s.scan([]byte(`{}`))
	for k, m := range s.members {
		if m.kind != kindNone || len(m.raw) > 0 {
			t.Errorf("%s left over: %q", memberNames[k], m.raw)
		}
	}
	if s.kind() != lineObject || s.bad != 0 || s.read != 2 {
		t.Errorf("kind %d, bad %d, read %d", s.kind(), s.bad, s.read)
	}
}

// isJSSpace is ECMAScript's WhiteSpace and LineTerminator, written from its definition.
func isJSSpace(r rune) bool {
	return r == '\t' || r == '\n' || r == '\v' || r == '\f' || r == '\r' || r == 0xfeff || r == 0x2028 || r == 0x2029 ||
		unicode.Is(unicode.Zs, r)
}

// tooDeep reports whether encoding/json, which gives up at 10,000 levels, may not judge p.
func tooDeep(p []byte) bool { return bytes.Count(p, []byte("["))+bytes.Count(p, []byte("{")) > 9000 }

// unpaired finds escapes of surrogates, in pairs or not.
var unpaired = regexp.MustCompile(`\\u[dD][89a-fA-F]`)

// FuzzEntryLine compares the scanner with encoding/json on one line, whole and in pieces.
func FuzzEntryLine(f *testing.F) {
	for _, seed := range []string{
		``, ` `, `{}`, `[]`, `{"type":"message","id":"a1","parentId":null,"message":{"role":"user","content":[{"type":"text","text":"hi \"x\" \\ \u00e9"}]}}`,
		`{"id":"a","id":"b"}`, `{"\u0069d":"\ud83d\ude00"}`, `{"parentId":"x","n":[-0.5e+10,1,0,true,false,null]}`, "\ufeff{}", "{}\u00a0", "{\"a\":\"\xff\"}",
		`{"id":"torn`, `{"a":1}{"b":2}`, `{"version":3,"type":"session","id":"s"}`, "{\"a\":\"b\x01\"}", "\v\f{}", "12.5e3", `{"id":1,"type":{}}`,
	} {
		f.Add([]byte(seed), uint8(1), false)
		f.Add([]byte(seed), uint8(5), true)
	}
	f.Fuzz(func(t *testing.T, line []byte, size uint8, first bool) {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		if tooDeep(line) {
			return
		}
		s := scanLine(line, first, len(line)+1)
		if pieces := scanLine(line, first, int(size)+1); pieces.kind() != s.kind() || pieces.trimmed != s.trimmed || pieces.bad != s.bad {
			t.Fatalf("whole: %d %v %d, in pieces: %d %v %d", s.kind(), s.trimmed, s.bad, pieces.kind(), pieces.trimmed, pieces.bad)
		} else {
			for k := range s.members {
				if a, b := &s.members[k], &pieces.members[k]; a.kind != b.kind || !bytes.Equal(a.raw, b.raw) || a.long != b.long {
					t.Fatalf("%s: whole %q, in pieces %q", memberNames[k], a.raw, b.raw)
				}
			}
		}

		text := line
		if first {
			text = bytes.TrimLeftFunc(text, isJSSpace)
		}
		trimmed := bytes.TrimRightFunc(text, isJSSpace)
		kind := s.kind()
		whole := kind == lineObject || kind == lineOther
		switch blank := len(bytes.TrimFunc(line, isJSSpace)) == 0; {
		case blank != (kind == lineBlank) && !(kind == lineBlank && len(s.rune) > 0):
			t.Fatalf("blank %v, kind %d", blank, kind)
		case blank:
			return
		case whole != json.Valid(trimmed):
			t.Fatalf("kind %d, but encoding/json says %v", kind, !whole)
		case whole && s.trimmed == json.Valid(text):
			t.Fatalf("trimmed %v, but encoding/json says %v of the whole text", s.trimmed, json.Valid(text))
		case whole && (kind == lineObject) != (bytes.TrimLeft(trimmed, " \t\r")[0] == '{'):
			t.Fatalf("kind %d of %q", kind, trimmed)
		}
		if !whole {
			return
		}
		for n := range line { // no beginning of a whole line is beyond hope
			if kind := scanLine(line[:n], first, n+1).kind(); kind == lineBroken {
				t.Fatalf("the first %d bytes are broken", n)
			}
			if n > 256 {
				break
			}
		}
		if kind == lineObject {
			checkMembers(t, s, trimmed)
		}
	})
}

// checkMembers compares the wanted members with what encoding/json finds.
func checkMembers(t *testing.T, s *lineScanner, object []byte) {
	if unpaired.Match(object) {
		return // encoding/json can't tell one unpaired surrogate from another
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(appendUTF8(nil, object), &want); err != nil {
		t.Fatal(err)
	}
	for k, name := range memberNames {
		m := &s.members[k]
		value, found := want[name]
		if found != (m.kind != kindNone) {
			t.Fatalf("%s found: %v, encoding/json says %v", name, m.kind != kindNone, found)
		}
		if !found || m.long {
			continue
		}
		switch c := value[0]; {
		case c == '"':
			var text string
			if err := json.Unmarshal(value, &text); err != nil {
				t.Fatal(err)
			}
			if got := string(appendDecoded(nil, m.raw)); m.kind != kindString || got != text {
				t.Fatalf("%s is %q (%q), encoding/json says %q", name, got, m.kind, text)
			}
		case c == 'n':
			if m.kind != kindNull {
				t.Fatalf("%s is %q, want null", name, m.kind)
			}
		case c == '-' || isDigit(c):
			if m.kind != kindNumber || string(m.raw) != string(value) {
				t.Fatalf("%s is %q (%q), encoding/json says %s", name, m.raw, m.kind, value)
			}
		case m.kind != kindOther:
			t.Fatalf("%s is %q, encoding/json says %s", name, m.kind, value)
		}
	}
}
