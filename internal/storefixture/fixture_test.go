package storefixture

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"pistate/store"
)

func TestEveryStoryIsSoundAndAlwaysTheSame(t *testing.T) {
	for name := range stories {
		first, err := Bytes(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		second, err := Bytes(name)
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s: built twice, the bytes differ (%v)", name, err)
		}
		path := filepath.Join(t.TempDir(), name+".sqlite")
		if err := os.WriteFile(path, first, 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := store.Check(context.Background(), path, store.CheckOptions{Deep: true})
		if err != nil || !report.OK() {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
}
