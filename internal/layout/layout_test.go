// Package layout holds the tests of the repository's own rules: which package may know which, and that what
// the documents say of the tree is so.
package layout

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mayImport is the picture of docs/architecture.md: for each package, the packages of this module that it may
// import. Calls go down this list and never up.
var mayImport = map[string][]string{
	"pistate/schema":          {},
	"pistate/wasm/abi":        {"pistate/schema"},
	"pistate/internal/sqlite": {"pistate/schema", "pistate/wasm/abi"},
	"pistate/sessionstate":    {"pistate/internal/sqlite", "pistate/schema"},
	"pistate/store":           {"pistate/internal/sqlite", "pistate/schema"},
	"pistate/store/hostlock":  {"pistate/schema", "pistate/store"},
	"pistate/wasm":            {},
	"pistate/wasm/sdk":        {"pistate/schema", "pistate/wasm/abi"},
	"pistate/wasm/examples":   {},
	"pistate/wasm/examples/counter": {
		"pistate/schema", "pistate/wasm/sdk",
	},
	"pistate/wasm/store": {
		"pistate/internal/sqlite", "pistate/schema", "pistate/sessionstate", "pistate/store", "pistate/wasm/abi",
	},
	"pistate/wasm/node":               {},
	"pistate/host/internal/wasmcheck": {"pistate/schema"},
	"pistate/host": {
		"pistate/host/internal/wasmcheck", "pistate/internal/sqlite", "pistate/schema", "pistate/sessionstate",
		"pistate/wasm/abi",
	},
	"pistate/internal/cli": {"pistate/internal/sqlite", "pistate/schema", "pistate/sessionstate", "pistate/store"},
	"pistate/piw/cli": {
		"pistate/internal/cli", "pistate/internal/sqlite", "pistate/schema", "pistate/sessionstate", "pistate/store",
		"pistate/store/hostlock",
	},
	"pistate/piw":         {"pistate/piw/cli"},
	"pistate/host/pihost": {"pistate/host/pihost/cli"},
	"pistate/host/pihost/cli": {
		"pistate/host", "pistate/internal/cli", "pistate/piw/cli", "pistate/schema", "pistate/sessionstate", "pistate/store",
		"pistate/wasm/examples",
	},
	"pistate/internal/cli/clitest":     {"pistate/internal/cli"},
	"pistate/internal/layout":          {},
	"pistate/internal/protocoldoc":     {"pistate/schema", "pistate/store"}, // prints a document
	"pistate/internal/bigdb":           {"pistate/store"},                   // for benchmarks alone
	"pistate/internal/storefixture":    {"pistate/store"},                   // for tests alone
	"pistate/internal/sharing":         {},                                  // a test alone
	"pistate/internal/wasmbuild":       {},                                  // for tests and recipes alone
	"pistate/internal/wasmbuild/build": {"pistate/internal/wasmbuild"},
}

func TestImportsFollowThePicture(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "pistate/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var pkg struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		allowed, known := mayImport[pkg.ImportPath]
		if !known {
			t.Errorf("%s is not in the picture", pkg.ImportPath)
		}
		for _, imported := range pkg.Imports {
			if strings.HasPrefix(imported, "pistate/") && !slices.Contains(allowed, imported) {
				t.Errorf("%s may not import %s", pkg.ImportPath, imported)
			}
		}
	}
}

// Z1: the logic that is lent its SQL brings no SQLite, and the other one does.
func TestWhichBuildsLinkSQLite(t *testing.T) {
	for tags, want := range map[string]bool{"": false, "sqliteinside": true} {
		cmd := exec.Command("go", "list", "-deps", "-tags", tags, "pistate/store", "pistate/sessionstate")
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out), "sqlite3") != want {
			t.Errorf("with tags %q, linking SQLite is %v", tags, !want)
		}
	}
}

// link matches the target of a Markdown link.
var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

func TestDocumentsLinkToWhatExists(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".git") || d.Name() == "node_modules" || d.Name() == "dist"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if target := m[1]; !strings.Contains(target, "://") {
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), target)); err != nil {
					t.Errorf("%s links to %s, which does not exist", path, target)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
