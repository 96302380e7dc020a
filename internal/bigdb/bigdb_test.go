package bigdb

import (
	"context"
	"path/filepath"
	"testing"

	"pistate/store"
)

// What is measured with is a database as the commands would have made it.
func TestSmallOneIsSound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.sqlite")
	ctx := context.Background()
	if err := Build(ctx, path, Size{Runs: 210, Attempts: 5, Events: 9}); err != nil {
		t.Fatal(err)
	}
	report, err := store.Check(ctx, path, store.CheckOptions{Deep: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range report.Outcomes {
		if o.Status != "ok" {
			t.Errorf("%s %s: %v", o.Status, o.Name, o.Findings)
		}
	}
}
