package sessionstate

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pistate/schema"
)

// Y8, C23: a value is any JSON, as encoding/json sees it, and nothing else.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{
		`null`, ` true `, `"\ud800"`, `"\udc00\ud800"`, `{"a":1,"a":2}`, `{"a":{"a":1,"a":[]}}`, `1e400`, `-0`, `01`, `1.`, `.5`, `+1`,
		`"` + "\x1f" + `"`, `"` + "\u2028" + `"`, `"\u00zz"`, `"\x"`, `[1,]`, `{"a":1,}`, `{,}`, `[`, `]`, `"`, `1 2`, "\ufeff1", "\x00", ``,
		`{"a" :1}`, `{1:2}`, `NaN`, `nul`, strings.Repeat(`[`, 9999) + strings.Repeat(`]`, 9999),
		strings.Repeat(`[`, 10000) + strings.Repeat(`]`, 10000), strings.Repeat(`[`, 10001) + strings.Repeat(`]`, 10001),
		strings.Repeat(`{"a":`, 10000) + `1` + strings.Repeat(`}`, 10000), strings.Repeat(`{"a":`, 10001) + `1` + strings.Repeat(`}`, 10001),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		want := json.Valid(value) && utf8.Valid(value)
		err := checkValue(value)
		if want != (err == nil) {
			t.Fatalf("%.100q: %v, and encoding/json says %v", value, err, json.Valid(value))
		}
		if err != nil && schema.CodeOf(err) != schema.Invalid {
			t.Fatalf("%.100q: %v", value, err)
		}
	})
}
