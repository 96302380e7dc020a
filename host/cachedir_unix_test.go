//go:build unix

package host

import (
	"os"
	"testing"

	"pistate/schema"
)

// What lies in a cache directory is executed: one that another user has made is refused, though that user alone can
// write to it.
func TestCacheDirOfAnother(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 54321, -1); err != nil {
		t.Skipf("directories can't be given away here: %v", err)
	}
	wantFailure(t, prepareCacheDir(dir), schema.Invalid, dir, "54321")
	if err := os.Chown(dir, os.Geteuid(), -1); err != nil {
		t.Fatal(err)
	}
	if err := prepareCacheDir(dir); err != nil {
		t.Error(err)
	}
}
