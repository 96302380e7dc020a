package sessionstate_test

import (
	"fmt"
	"log"

	"pistate/sessionstate"
)

// The bundled session forks once: the two branches have keys of their own, below the run that they share.
func ExampleOpenSessionFile() {
	file, err := sessionstate.OpenSessionFile("../testdata/pi-sessions/fork.jsonl")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()

	leaf := file.Leaf()
	key, err := file.BranchKey(leaf)
	if err != nil {
		log.Fatal(err)
	}
	above, _, err := file.ParentKey(key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(file.Len(), "entries, leaf", leaf)
	fmt.Println("key", key, "below", above)
	// Output:
	// 14 entries, leaf 98131768
	// key a1c09576 below 42638205
}
