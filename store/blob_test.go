package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The samples of RFC 8785, appendix B: a double's bits, and its canonical form.
var rfc8785Numbers = []struct {
	bits uint64
	want string
}{
	{0x0000000000000000, "0"},
	{0x8000000000000000, "0"},
	{0x0000000000000001, "5e-324"},
	{0x8000000000000001, "-5e-324"},
	{0x7fefffffffffffff, "1.7976931348623157e+308"},
	{0xffefffffffffffff, "-1.7976931348623157e+308"},
	{0x4340000000000000, "9007199254740992"},
	{0xc340000000000000, "-9007199254740992"},
	{0x4430000000000000, "295147905179352830000"},
	{0x44b52d02c7e14af5, "9.999999999999997e+22"},
	{0x44b52d02c7e14af6, "1e+23"},
	{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
	{0x444b1ae4d6e2ef4e, "999999999999999700000"},
	{0x444b1ae4d6e2ef4f, "999999999999999900000"},
	{0x444b1ae4d6e2ef50, "1e+21"},
	{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
	{0x3eb0c6f7a0b5ed8d, "0.000001"},
	{0x41b3de4355555553, "333333333.3333332"},
	{0x41b3de4355555554, "333333333.33333325"},
	{0x41b3de4355555555, "333333333.3333333"},
	{0x41b3de4355555556, "333333333.3333334"},
	{0x41b3de4355555557, "333333333.33333343"},
	{0xbecbf647612f3696, "-0.0000033333333333333333"},
	{0x43143ff3c1cb0959, "1424953923781206.2"},
}

func TestCanonicalNumbers(t *testing.T) { // R9
	for _, tc := range rfc8785Numbers {
		f := math.Float64frombits(tc.bits)
		for _, literal := range []string{tc.want, strconv.FormatFloat(f, 'e', 17, 64), strconv.FormatFloat(f, 'e', -1, 64)} {
			got, err := canonicalJSON([]byte(literal))
			if err != nil || string(got) != tc.want {
				t.Errorf("%s: %s, %v; want %s", literal, got, err, tc.want)
			}
		}
	}
	// Any double, from any exact spelling of it, comes back as the same double.
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		f := math.Float64frombits(r.Uint64())
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		got, err := canonicalJSON([]byte(strconv.FormatFloat(f, 'e', 17, 64)))
		if err != nil {
			t.Fatal(err)
		}
		if back, err := strconv.ParseFloat(string(got), 64); err != nil || back != f {
			t.Fatalf("%v became %s", f, got)
		}
		if again, err := canonicalJSON(got); err != nil || string(again) != string(got) {
			t.Fatalf("%s became %s (%v)", got, again, err)
		}
	}
}

func TestCanonicalJSON(t *testing.T) { // R9
	for _, tc := range []struct{ in, want string }{
		// The RFC's examples: section 3.2.2 and 3.2.3.
		{"{\n \"numbers\": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],\n" +
			` "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`},
		{`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"},
		{" null ", "null"},
		{`"a\/b\b\f\t\u0000\u001f\u007f<>&` + "\u2028" + `"`, `"a/b\b\f\t\u0000\u001f` + "\x7f<>&\u2028" + `"`},
		{`{"b":1,"a":{"d":[],"c":{}}}`, `{"a":{"c":{},"d":[]},"b":1}`},
		{"-0", "0"}, {"-0.0", "0"}, {"0e400", "0"}, {"1e6", "1000000"}, {"1000000", "1000000"}, {"1.0", "1"},
		{"9007199254740991", "9007199254740991"}, {"-9007199254740992", "-9007199254740992"},
		{"9007199254740994", "9007199254740994"},
	} {
		got, err := canonicalJSON([]byte(tc.in))
		if err != nil || string(got) != tc.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", tc.in, got, err, tc.want)
		}
	}
}

func TestNotCanonicalJSON(t *testing.T) { // R9
	for _, in := range []string{
		"", " ", "{", "nul", "1 2", "[1,]", "{\"a\":1,}", "'a'", "01", "+1", ".5", "NaN", "Infinity", "// c\n1", "\ufeff1",
		`"\ud800"`, `"\udc00"`, `"\ud800\ud800"`, `"\udc00\ud800"`, `{"\ud800":1}`, "\"\xff\"", "\"\xed\xa0\x80\"", "\"\n\"",
		`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `[{"x":{"b":1,"b":2}}]`,
		"1e400", "-1e400", "1e-400", "0.0000e1" + strings.Repeat("0", 400) + "1x",
		"9007199254740993", "-9007199254740993", "12345678901234567890", "[{\"id\":10000000000000000001}]",
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
	} {
		c, err := jsonContent("field", []byte(in))
		if !errors.Is(err, schema.Invalid) || !strings.HasPrefix(err.Error(), "field: ") {
			t.Errorf("%.40q: %v, %v", in, c, err)
		}
	}
	if _, err := jsonContent("field", make([]byte, MaxContentBytes+1)); !errors.Is(err, schema.Limit) {
		t.Error(err)
	}
	if _, err := textContent("field", "\xff"); !errors.Is(err, schema.Invalid) {
		t.Error(err)
	}
}

// Names sort by their UTF-16 code units, whatever they are.
func TestCanonicalOrder(t *testing.T) { // R9
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		object := map[string]int{}
		for range 8 {
			var name strings.Builder
			for range r.IntN(3) {
				name.WriteRune([]rune{'a', 'é', '\ue000', '\uffff', '\U00010000', '\U0001f600', '\U0010ffff', '0'}[r.IntN(8)])
			}
			object[name.String()] = 1
		}
		names := make([]string, 0, len(object))
		for name := range object {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))) })
		var want strings.Builder
		for i, name := range names {
			quoted, _ := json.Marshal(name)
			fmt.Fprintf(&want, "%s%s:1", []string{",", "{"}[b2i(i == 0)], quoted)
		}
		want.WriteByte('}')
		in, _ := json.Marshal(object)
		if got, err := canonicalJSON(in); err != nil || string(got) != want.String() {
			t.Fatalf("%s, %v; want %s", got, err, want.String())
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{`{"b":[1,2.50,"\u00e9"],"a":null}`, `"\ud83d\ude00"`, `[1e21,-0,1E-7]`, `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := jsonContent("field", in)
		if err != nil {
			if !errors.Is(err, schema.Invalid) {
				t.Fatal(err)
			}
			return
		}
		var was, is any
		if json.Unmarshal(in, &was) != nil || json.Unmarshal(c.bytes, &is) != nil || !reflect.DeepEqual(was, is) {
			t.Fatalf("%q became %q", in, c.bytes)
		}
		again, err := jsonContent("field", c.bytes)
		if err != nil || again.digest != c.digest {
			t.Fatalf("%q is not stable: %v", c.bytes, err)
		}
		if text, err := textContent("field", string(c.bytes)); err != nil || text.media != JSONMedia {
			t.Fatalf("%q as text is %v, %v", c.bytes, text, err)
		}
	})
}

// store1 puts content into a database as a command would.
func store1(t *testing.T, s *Store, c *content) error {
	t.Helper()
	return s.db.Write(t.Context(), func(tx *sqlite.Tx) error { return putBlob(tx, c, 1) }, nil)
}

func TestBlobs(t *testing.T) { // R9
	s, _ := openStore(t)
	for _, text := range []string{"", "x", "{\"a\":1}", "{ \"a\":1}", "1", "1.0", "null", "nothing", "[link](x)", "\x00\n\u2028", strings.Repeat("é", 100_000)} {
		c, err := textContent("text", text)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is adopted
			if err := store1(t, s, c); err != nil {
				t.Fatal(err)
			}
		}
		b, err := s.Blob(t.Context(), c.digest)
		if err != nil || string(b.Bytes) != text || b.MediaType != c.media {
			t.Errorf("%.20q: %+v, %v", text, b, err)
		}
	}
	status, err := s.Status(t.Context())
	if err != nil || status.Rows["blobs"] != 11 {
		t.Errorf("%d blobs, %v", status.Rows["blobs"], err)
	}
	// Text and JSON with the same bytes are the same blob.
	text, _ := textContent("text", `{"a":1}`)
	value, err := jsonContent("value", []byte(`{ "a": 1 }`))
	if err != nil || text.digest != value.digest || text.media != value.media {
		t.Errorf("%v, %v, %v", text, value, err)
	}
	_, err = s.Blob(t.Context(), Digest{1})
	wantCode(t, err, schema.NotFound)
}

func TestDigestText(t *testing.T) {
	want := newContent(TextMedia, []byte("x")).digest
	wire, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Digest
	if err := json.Unmarshal(wire, &got); err != nil || got != want {
		t.Errorf("%s became %s, %v", want, got, err)
	}
	for _, bad := range []string{"", "00", strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("g", 64)} {
		if err := new(Digest).UnmarshalText([]byte(bad)); !errors.Is(err, schema.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A row that differs under the same digest is corruption, not a conflict.
func TestCorruptBlob(t *testing.T) { // R9
	for i, row := range []string{
		"'text/plain', 2, x'3132'",         // other bytes
		"'text/plain', 3, x'616263'",       // of the same length
		"'application/json', 3, x'78797a'", // other media type
		"'text/plain', 4, x'78797a'",       // other length
	} {
		if raceDetector && i > 0 {
			break
		}
		s, _ := newStore(t)
		c, err := textContent("text", "xyz")
		if err != nil {
			t.Fatal(err)
		}
		plant(t, s.Path(), fmt.Sprintf("INSERT INTO blobs VALUES (x'%s', %s, 0)", c.digest, row))
		wantCode(t, store1(t, s, c), schema.Corrupt)
		if !strings.Contains(row, "json") { // the bytes are right there: reading them is fine
			_, err = s.Blob(t.Context(), c.digest)
			wantCode(t, err, schema.Corrupt)
		}
	}
}

// A value that many commands carry is stored once.
func TestEqualContentIsStoredOnce(t *testing.T) { // R9
	s, _ := openStore(t)
	mustCreate(t, s, "c1")
	big, err := json.Marshal(strings.Repeat("a history ", 20_000))
	if err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		status, err := s.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return status.File.Pages * status.File.PageSize
	}
	mustDo(t, s, Permit{Actor: session1, Expected: 1}, carry{"c1", big})
	before := size()
	for i := range int64(50) {
		mustDo(t, s, Permit{Actor: session1, Expected: 2 + i}, carry{"c1", big})
	}
	if grown := size() - before; grown > int64(len(big)) {
		t.Errorf("50 more commands with the same value took %d bytes; it has %d", grown, len(big))
	}
}

// carry is a command with a large value, which its payload names by its digest.
type carry struct {
	Channel string
	Value   json.RawMessage
}

func (carry) Op() Op { return "test.touch" }

func (c carry) prepare(d *draft) *plan[struct{}] {
	id := NewResourceID(ChannelResource, c.Channel)
	return &plan[struct{}]{
		subject: id,
		payload: map[string]any{"channel": c.Channel, "value": d.json("value", c.Value)},
		decide: func(*facts) (*change[struct{}], error) {
			return &change[struct{}]{steps: []step{{resource: id, event: "test.carried"}}}, nil
		},
	}
}
