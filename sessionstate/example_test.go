package sessionstate_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"pistate/sessionstate"
)

// A plugin keeps one value per branch of a session that Pi writes.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := sessionstate.Open(ctx, filepath.Join(dir, "states.sqlite"), sessionstate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	todo, err := sessionstate.New(store, sessionstate.Config{PluginID: "todo", Scope: sessionstate.ScopeBranch})
	if err != nil {
		log.Fatal(err)
	}
	session, err := sessionstate.OpenSessionFile("../testdata/pi-sessions/fork.jsonl")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	// Before the fork, and then on both of its branches.
	at := func(leaf string) sessionstate.SessionContext {
		return sessionstate.At(session.SessionID(), leaf, session)
	}
	if err := todo.Write(ctx, at("29d7a3ed"), []byte(`["plan"]`)); err != nil {
		log.Fatal(err)
	}
	if err := todo.Write(ctx, at("98131768"), []byte(`["plan","build"]`)); err != nil {
		log.Fatal(err)
	}
	for _, leaf := range []string{"29d7a3ed", "98131768", "9ef0cf03"} {
		value, found, err := todo.Read(ctx, at(leaf))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(leaf, found, string(value))
	}
	// Output:
	// 29d7a3ed true ["plan"]
	// 98131768 true ["plan","build"]
	// 9ef0cf03 true ["plan"]
}
