//go:build !lent

// A read beside a write that waits takes a second connection, which the lent build doesn't have.

package sessionstate

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"pistate/internal/sqlite"
	"pistate/schema"
)

func TestCoherentReadDoesNotWaitForAWrite(t *testing.T) { // Y6, Y12
	st := openStore(t)
	s, err := New(st, Config{PluginID: "p", Scope: ScopeSession, Coherent: true})
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, s, at("a"), `1`)
	wantValue(t, s, at("a"), `1`)
	other, err := sqlite.Open(t.Context(), st.Path(), sqlite.Schema{Create: create, Unfinished: unfinished, Verify: verify})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	writing, over, wrote := make(chan bool), make(chan bool), make(chan error)
	go func() {
		wrote <- other.Write(context.Background(), func(tx *sqlite.Tx) error { close(writing); <-over; return nil }, nil)
	}()
	<-writing
	waits := make(chan error)
	go func() { waits <- s.Write(context.Background(), at("a"), json.RawMessage(`2`)) }()
	for known := true; known; {
		if _, known, err = st.db.DataVersion(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantValue(t, s, at("a"), `1`) // would never come if it waited for the write
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Read(ctx, at("a")); !errors.Is(err, schema.Canceled) {
		t.Errorf("a canceled read: %v", err)
	}
	close(over)
	if err := errors.Join(<-wrote, <-waits); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, at("a"), `2`)
}
