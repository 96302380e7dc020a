package host_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"pistate/host"
	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/examples"
)

// An embedder opens the store, loads an extension under a plugin id, and calls it at places of a session.
// Here the session's tree is made up; sessionstate also reads it from a file of Pi's.
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

	h, err := host.New(host.Options{
		Engine:    host.Native(store),
		Isolation: host.InProcess, // the extension is our own
	})
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()

	counter, err := h.Load(ctx, examples.CounterWasm, host.Config{PluginID: "counter"})
	if err != nil {
		log.Fatal(err)
	}

	// One prompt, and two answers to it: the session forks below "prompt".
	tree := sessionstate.NewIndex()
	for _, entry := range [][2]string{{"prompt", ""}, {"answer-1", "prompt"}, {"answer-2", "prompt"}} {
		if err := tree.Add(entry[0], entry[1]); err != nil {
			log.Fatal(err)
		}
	}
	for _, call := range []struct{ leaf, input string }{
		{"prompt", "5"},
		{"answer-1", "1"}, // inherits the 5 of the branch above
		{"answer-2", "2"}, // so does this one
	} {
		result, err := counter.Call(ctx, sessionstate.At("session", call.leaf, tree), []byte(call.input))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", call.leaf, result.Output)
	}

	_, err = counter.Call(ctx, sessionstate.At("session", "answer-1", tree), []byte(`"many"`))
	fmt.Println(errors.Is(err, schema.Extension), err)

	// Output:
	// prompt: {"session":5,"branch":5}
	// answer-1: {"session":6,"branch":6}
	// answer-2: {"session":8,"branch":7}
	// true extension.call: extension "counter": failed with status 1: input is not a count from 0 to 9007199254740991
}
