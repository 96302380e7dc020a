package sqlite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// C28: no transaction that writes is begun in another way than immediately, and only reads begin otherwise.
func TestTransactionsBegin(t *testing.T) {
	begin := regexp.MustCompile(`"BEGIN[^"]*"`)
	found := map[string][]string{}
	for name, text := range sources(t) {
		for _, b := range begin.FindAllString(text, -1) {
			found[b] = append(found[b], name)
		}
	}
	want := map[string][]string{`"BEGIN IMMEDIATE"`: {"conn.go"}, `"BEGIN DEFERRED"`: {"conn.go"}}
	for b, where := range found {
		if !slices.Equal(where, want[b]) {
			t.Errorf("%s in %v", b, where)
		}
	}
	if len(found) != 2 {
		t.Errorf("found %v", found)
	}
}

// C36: closing any file of a live database drops the locks of another SQLite in the process. So files are
// opened only by these functions, which open files that are new, private, or of no database.
func TestFilesAreOpened(t *testing.T) {
	allowed := []string{
		"files.go: createFile: OpenFile",         // new
		"granted_open.go: openRegular: OpenFile", // by a host for a guest, which refuses what somebody else has locked
		"granted_open.go: syncNames: Open",       // a directory
		"reader.go: copyFile: Open",              // a database that nobody has open
		"reader.go: copyFile: OpenFile",          // new
		"backup.go: createTemp: CreateTemp",      // new
		"backup.go: removeLeftovers: OpenFile",   // a temporary file
		"backup.go: syncDir: Open",               // a directory
	}
	opens := []string{"Open", "OpenFile", "Create", "CreateTemp", "ReadFile", "WriteFile", "OpenInRoot", "OpenRoot", "NewFile", "Truncate", "CopyFS"}
	var found []string
	for name, text := range sources(t) {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		must(t, err)
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if pkg, ok := sel.X.(*ast.Ident); ok && slices.Contains([]string{"os", "unix", "syscall"}, pkg.Name) && slices.Contains(opens, sel.Sel.Name) {
					found = append(found, name+": "+fn.Name.Name+": "+sel.Sel.Name)
				}
				return true
			})
		}
	}
	slices.Sort(found)
	slices.Sort(allowed)
	if !slices.Equal(found, allowed) {
		t.Errorf("files are opened in\n%s\nbut only these may\n%s", strings.Join(found, "\n"), strings.Join(allowed, "\n"))
	}
}

func sources(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	must(t, fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		texts[path] = string(readFile(t, path))
		return nil
	}))
	return texts
}
