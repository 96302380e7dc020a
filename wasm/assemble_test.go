package wasm_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pistate/wasm/examples"
)

// Each .wasm in the tree is what its .wat beside it assembles to.
func TestAssembled(t *testing.T) {
	wat2wasm, err := exec.LookPath("wat2wasm")
	if err != nil {
		t.Skip("wat2wasm is not installed (package wabt): the .wasm files are not compared with their sources")
	}
	for _, group := range []struct {
		pattern string
		flags   []string
	}{
		{"examples/counter-wat/*.wat", nil},
		{"../host/testdata/*.wat", []string{"--debug-names"}},
	} {
		sources, err := filepath.Glob(group.pattern)
		if err != nil || len(sources) == 0 {
			t.Fatalf("%s: %v, %v", group.pattern, sources, err)
		}
		for _, source := range sources {
			out := filepath.Join(t.TempDir(), "out.wasm")
			text, err := exec.Command(wat2wasm, append(group.flags, source, "-o", out)...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", source, err, text)
				continue
			}
			want, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			committed := source[:len(source)-len("wat")] + "wasm"
			have, err := os.ReadFile(committed)
			if err != nil {
				t.Error(err)
				continue
			}
			if !bytes.Equal(have, want) {
				t.Errorf("%s is not what %s assembles to: run go generate ./wasm", committed, source)
			}
		}
	}
}

// The example needs no more than some hundred bytes: that is its point.
func TestCounterIsSmall(t *testing.T) {
	if n := len(examples.CounterWasm); n > 1000 {
		t.Errorf("the counter has %d bytes", n)
	}
}
