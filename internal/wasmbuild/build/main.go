// Build puts the store modules into a directory. With -verify it builds them a second time, from a copy of the
// sources in another directory and with an empty build cache, and compares.
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"pistate/internal/wasmbuild"
)

func main() {
	dir := flag.String("o", "dist", "the directory that the modules are put into")
	verify := flag.Bool("verify", false, "build a second time elsewhere, and compare")
	flag.Parse()
	err := build(*dir)
	if err == nil && *verify {
		err = again(*dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func build(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, m := range wasmbuild.Modules() {
		out := filepath.Join(dir, m.Name)
		if err := m.Build("", out); err != nil {
			return err
		}
		wasm, err := os.ReadFile(out)
		if err != nil {
			return err
		}
		fmt.Printf("%x  %s (%d bytes)\n", sha256.Sum256(wasm), out, len(wasm))
	}
	return nil
}

// again builds the modules where nothing is as it was, and compares them with those in a directory.
func again(dir string) error {
	scratch, err := os.MkdirTemp("", "pistate-again-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	tree := filepath.Join(scratch, "somewhere", "else")
	if err := copySources(tree); err != nil {
		return err
	}
	if err := os.Setenv("GOCACHE", filepath.Join(scratch, "cache")); err != nil {
		return err
	}
	for _, m := range wasmbuild.Modules() {
		out := filepath.Join(scratch, m.Name)
		if err := m.Build(tree, out); err != nil {
			return err
		}
		first, err := os.ReadFile(filepath.Join(dir, m.Name))
		if err != nil {
			return err
		}
		second, err := os.ReadFile(out)
		if err != nil {
			return err
		}
		if !bytes.Equal(first, second) {
			return fmt.Errorf("%s: built in %s with an empty cache it has other bytes (%x) than in this tree (%x)",
				m.Name, tree, sha256.Sum256(second), sha256.Sum256(first))
		}
		fmt.Printf("%s: the same bytes again\n", m.Name)
	}
	return nil
}

// copySources copies the source tree that the working directory is in.
func copySources(to string) error {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return err
	}
	from := strings.TrimSpace(string(root))
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "dist" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o644)
	})
}
