package sessionstate

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Y11: the text of a JSON string is what Node makes of the file's bytes; the right column was computed with it,
// an unpaired surrogate being written as its three bytes.
func TestAppendDecoded(t *testing.T) {
	tests := []struct{ raw, want string }{
		{``, ""},
		{`plain`, "plain"},
		{`\"\\\/\b\f\n\r\t`, "\"\\/\b\f\n\r\t"},
		{`\u0069\u0064`, "id"},
		{`\u00e9\u20AC`, "é€"},
		{`x\ud83d\ude00y`, "x😀y"},
		{`\ud83d`, "\xed\xa0\xbd"},
		{`\ude00\ud83d`, "\xed\xb8\x80\xed\xa0\xbd"},
		{`\ud83d\ud83d\ude00`, "\xed\xa0\xbd😀"},
		{`\ud83dx`, "\xed\xa0\xbdx"},
		{`\ud83d\n`, "\xed\xa0\xbd\n"},
		{`\ud83d\u0041`, "\xed\xa0\xbdA"},
		{`\u0041\ude00`, "A\xed\xb8\x80"},
		{`\ude00\ude00`, "\xed\xb8\x80\xed\xb8\x80"},
		{`\u0000`, "\x00"},
		{"é\\u00e9", "éé"},
		// Bytes that aren't UTF-8: one replacement for each maximal part.
		{"a\xe2\x82", "a\ufffd"},
		{"\xe2\x82a", "\ufffda"},
		{"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
		{"\xf0\x9f\x98", "\ufffd"},
		{"\xf0\x9f\x98\x80\xf0\x9f", "😀\ufffd"},
		{"\xf5\x80", "\ufffd\ufffd"},
		{"\xc0\x80", "\ufffd\ufffd"},
		{"\xe0\x9f\xbf", "\ufffd\ufffd\ufffd"},
		{"\xf0\x80\x80", "\ufffd\ufffd\ufffd"},
		{"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},
		{"\xff\xfe", "\ufffd\ufffd"},
		{"\x80\xbf", "\ufffd\ufffd"},
		{"\xe2\\u0041", "\ufffdA"},
		{"\ufffd", "\ufffd"},
	}
	for _, test := range tests {
		if got := string(appendDecoded([]byte("before:"), []byte(test.raw))); got != "before:"+test.want {
			t.Errorf("%q: %q, want %q", test.raw, got, "before:"+test.want)
		}
	}
}

// Y11: where Unicode is well-formed, decoding is encoding/json's.
func TestAppendDecodedAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var quoted bytes.Buffer
		enc := json.NewEncoder(&quoted)
		enc.SetEscapeHTML(rapid.Bool().Draw(t, "escapes")) // encodes <, > and & as \u escapes
		if err := enc.Encode(text); err != nil {
			t.Fatal(err)
		}
		raw := strings.TrimSuffix(quoted.String(), "\n")
		if got := string(appendDecoded(nil, []byte(raw[1:len(raw)-1]))); got != text {
			t.Fatalf("%s decodes to %q, want %q", raw, got, text)
		}
	})
}

// Y11: every byte at every place of a word is told from the plain ones, whatever stands around it.
func TestSkipPlain(t *testing.T) {
	for _, filler := range []byte{' ', 'a', '!', '#', '[', ']', 0x7f, 0x80, 0xa2, 0xdc, 0xff} {
		for c := range 256 {
			for at := range 20 {
				p := bytes.Repeat([]byte{filler}, 21)
				p[at] = byte(c)
				want := at
				if c >= ' ' && c != '"' && c != '\\' {
					want = len(p)
				}
				for from := range min(at+1, 9) {
					if got := skipPlain(p, from); got != want {
						t.Fatalf("byte %#x at %d among %#x, from %d: %d, want %d", c, at, filler, from, got, want)
					}
				}
			}
		}
	}
}

// Y11: the white space beyond JSON's own is ECMAScript's: Zs, the BOM and the two line separators.
func TestJSSpaces(t *testing.T) {
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		want := unicode.Is(unicode.Zs, r) || r == 0xfeff || r == 0x2028 || r == 0x2029
		if _, whole := jsSpace([]byte(string(r))); whole != want {
			t.Fatalf("%U is white space: %v, want %v", r, whole, want)
		}
	}
}
