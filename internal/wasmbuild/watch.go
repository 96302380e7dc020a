package wasmbuild

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// guestSources are what the store modules are made of, by their place in the tree.
var guestSources = []string{"go.mod", "schema", "internal/sqlite", "sessionstate", "store", "wasm/abi", "wasm/store"}

// WatchGuests is [Watch] for the sources of the store modules.
func WatchGuests(tb testing.TB) { tb.Helper(); Watch(tb, guestSources...) }

// Watch makes go test run a test again, and not answer from its cache, when a file below one of paths has changed.
// It knows of its own what is compiled into a test; what a test builds or runs it has to be shown. Paths are
// relative to the root of the tree.
func Watch(tb testing.TB, paths ...string) {
	tb.Helper()
	root, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(root, "go.mod")); missing == nil {
			break
		}
		if root == filepath.Dir(root) {
			tb.Fatal("the test does not run in the source tree")
		}
		root = filepath.Dir(root)
	}
	for _, path := range paths {
		if err != nil {
			break
		}
		err = filepath.WalkDir(filepath.Join(root, path), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "node_modules":
				return filepath.SkipDir
			case d.IsDir():
				return nil
			}
			_, err = os.Stat(path) // which go test notes
			return err
		})
	}
	if err != nil {
		tb.Fatal(err)
	}
}
