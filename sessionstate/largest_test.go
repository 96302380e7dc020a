package sessionstate

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// The largest value can be overwritten by another one of that size, and is then dropped: SQLite has memory for both of
// them, and the store is as good afterwards as before.
func TestLargestValue(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "states.sqlite"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	state, err := New(s, Config{PluginID: "p", Scope: ScopeSession})
	if err != nil {
		t.Fatal(err)
	}
	at := At("s", "", nil)
	value := json.RawMessage(`"` + strings.Repeat("v", MaxValueBytes-2) + `"`)
	for _, last := range []byte("ab") {
		value[1] = last
		if err := state.Write(t.Context(), at, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := state.CompareAndWrite(t.Context(), at, value, json.RawMessage("1")); err != nil {
		t.Fatal(err)
	}
	if have, _, err := state.Read(t.Context(), at); string(have) != "1" || err != nil {
		t.Errorf("read %.20q, %v", have, err)
	}
}
