// Package node has no Go code: its test runs those of the npm package in this directory, so that go test ./... covers
// them.
package node_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pistate/internal/wasmbuild"
)

// findNode returns a Node.js that has node:sqlite: the one that PISTATE_NODE names, the one of the PATH, or the one
// that npm has installed here.
func findNode(t *testing.T) string {
	t.Helper()
	local, err := filepath.Abs("node_modules/.bin/node")
	if err != nil {
		t.Fatal(err)
	}
	var tried []string
	for _, bin := range []string{os.Getenv("PISTATE_NODE"), "node", local} {
		if bin == "" {
			continue
		}
		err := exec.CommandContext(t.Context(), bin, "-e", `require("node:sqlite")`).Run()
		if err == nil {
			return bin
		}
		tried = append(tried, fmt.Sprintf("%s (%v)", bin, err))
	}
	t.Skipf("no Node.js with node:sqlite among %s; PISTATE_NODE can name one of version 22.13 or later", strings.Join(tried, ", "))
	return ""
}

func TestNode(t *testing.T) {
	node := findNode(t)
	wasmbuild.Watch(t, "wasm/node", "host/pihost", "testdata")
	dir := t.TempDir()
	env := os.Environ()
	give := func(name, file string, content []byte) {
		path := filepath.Join(dir, file)
		if content != nil {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		env = append(env, name+"="+path)
	}
	give("PISTATE_STORE_WASM", "store.wasm", wasmbuild.Store(t))
	give("PISTATE_STORE_SQLITE_WASM", "store-sqlite.wasm", wasmbuild.StoreSQLite(t))
	give("PISTATE_SEED_1", "seed", seed(t))
	give("PISTATE_PIHOST", "pihost", nil)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "pihost"), "pistate/host/pihost")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}

	tests, err := filepath.Glob("test/*.test.js")
	if err != nil || len(tests) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	// Most of the tests wait most of the time. V8's optimising compiler takes seconds for SQLite's largest function, and no process ends before it is done.
	cmd := exec.CommandContext(t.Context(), node, append([]string{"--no-warnings", "--liftoff-only", "--test", "--test-concurrency=4", "--test-reporter=spec"}, tests...)...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, text)
	}
	passed := regexp.MustCompile(`(?m)^ℹ (pass|skipped) \d+$`).FindAllString(text, -1)
	if len(passed) != 2 {
		t.Fatalf("the runner does not say how many tests there were:\n%s", text)
	}
	t.Log(strings.Join(passed, ", "))
	for _, why := range regexp.MustCompile(`(?m)^\s*﹣ .*$`).FindAllString(text, -1) {
		t.Log(why)
	}
}

// seed returns the beginning of what pihost exec --seed 1 draws from.
func seed(t *testing.T) []byte {
	t.Helper()
	drawn := make([]byte, 1<<16)
	if _, err := io.ReadFull(rand.NewChaCha8([32]byte{1}), drawn); err != nil {
		t.Fatal(err)
	}
	return drawn
}
