package sessionstate

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// G4: what an error says survives a boundary between processes or builds, byte for byte.
func TestFacts(t *testing.T) {
	since := time.UnixMilli(1_700_000_000_123)
	for text, e := range map[string]error{
		`{"initiator":"pid:1","action":"write","object":"s","reason":"why","holder":"pid:2","since":1700000000123,"until":1700000060123}`: &LockError{
			"pid:1", "write", "s", "why", "pid:2", since, since.Add(Lease)},
		`{"found":null}`:                      &ConflictError{},
		`{"found":null,"found_bytes":"Iv8i"}`: &ConflictError{json.RawMessage("\"\xff\"")},
		`{"found":"null"}`:                    &ConflictError{json.RawMessage("null")},
		`{"found":"{ \"a\": 1.0 }"}`:          &ConflictError{json.RawMessage(`{ "a": 1.0 }`)},
		`{"found":"\"\u003c\u2028é\""}`:       &ConflictError{json.RawMessage("\"<\u2028é\"")},
	} {
		got, err := json.Marshal(e)
		if err != nil || string(got) != text {
			t.Errorf("%v became %s, %v, not %s", e, got, err, text)
		}
		back := reflect.New(reflect.TypeOf(e).Elem()).Interface()
		if err := json.Unmarshal(got, back); err != nil || !reflect.DeepEqual(back, e) {
			t.Errorf("%s became %#v, %v, not %#v", got, back, err, e)
		}
		for _, damaged := range []string{`[]`, `{"found":1,"since":"x"}`} {
			if err := json.Unmarshal([]byte(damaged), back); err == nil {
				t.Errorf("%s became %#v", damaged, back)
			}
		}
	}
}
