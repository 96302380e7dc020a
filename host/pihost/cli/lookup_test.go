package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"pistate/internal/cli"
	"pistate/sessionstate"
)

// At every entry of a session with forks, the value that is looked up without writing is the one that a read finds.
func TestLookUpIsARead(t *testing.T) { // Y3
	file, err := sessionstate.OpenSessionFile("../../../testdata/pi-sessions/fork.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	env := &cli.Env{Context: context.Background(), Now: time.Now}
	for _, written := range [][]string{{}, {"29d7a3ed"}, {"98131768"}, {"29d7a3ed", "9ef0cf03"}} {
		db := filepath.Join(t.TempDir(), "states.sqlite")
		f := stateFlags{dbFlags: dbFlags{DB: db}, Plugin: "p", Scope: sessionstate.ScopeBranch}
		at := func(leaf string) sessionstate.SessionContext {
			return sessionstate.At(file.SessionID(), leaf, file)
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(f.use(env, func(s *sessionstate.State) error {
			for _, leaf := range written {
				must(s.Write(env, at(leaf), json.RawMessage(fmt.Sprintf("%q", "of "+leaf))))
			}
			return nil
		}))
		other := f
		other.Plugin = "other" // whose values are not to be taken for these
		must(other.use(env, func(s *sessionstate.State) error { return s.Write(env, at("98131768"), json.RawMessage(`0`)) }))

		looked := map[string]string{}
		for _, leaf := range file.Entries() {
			value, found, err := f.lookUp(env, file, at(leaf))
			must(err)
			looked[leaf] = fmt.Sprint(string(value), found)
		}
		must(f.use(env, func(s *sessionstate.State) error {
			for _, leaf := range file.Entries() {
				value, found, err := s.Read(env, at(leaf))
				must(err)
				if read := fmt.Sprint(string(value), found); read != looked[leaf] {
					t.Errorf("%v written, at %s: %s, and a read finds %s", written, leaf, looked[leaf], read)
				}
			}
			return nil
		}))
		session := f
		session.Scope = sessionstate.ScopeSession
		if _, found, err := session.lookUp(env, file, at("9ef0cf03")); err != nil || found {
			t.Errorf("a value of the session: %v, %v", found, err)
		}
		must(session.use(env, func(s *sessionstate.State) error { return s.Write(env, at(""), json.RawMessage(`7`)) }))
		if value, found, err := session.lookUp(env, file, at("9ef0cf03")); err != nil || !found || string(value) != "7" {
			t.Errorf("the value of the session: %s, %v, %v", value, found, err)
		}
	}
}
