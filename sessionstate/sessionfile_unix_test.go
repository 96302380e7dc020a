//go:build unix

package sessionstate

import (
	"path/filepath"
	"syscall"
	"testing"

	"pistate/schema"
)

// Opening a pipe would wait for its writer; it is refused at once.
func TestOpenSessionFileRefusesAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe.jsonl")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	_, err := OpenSessionFile(path)
	expectCode(t, err, schema.Invalid, "no regular file")
}
