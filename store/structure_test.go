package store

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// source is this package without its tests, by file name.
func source(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if files[name], err = parser.ParseFile(token.NewFileSet(), name, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// called returns the name of what a call calls: "sha256.Sum256", "d.json" or "putBlob".
func called(call *ast.CallExpr) string {
	fun := call.Fun
	if index, ok := fun.(*ast.IndexExpr); ok { // an explicit type argument
		fun = index.X
	}
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
		return "." + f.Sel.Name
	}
	return ""
}

func calls(node ast.Node, found func(name string)) {
	ast.Inspect(node, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			found(called(call))
		}
		return true
	})
}

// Only the contract opens a write transaction, so no command gets around it; and every BEGIN is IMMEDIATE,
// because no file here has one of its own.
func TestOneWayToWrite(t *testing.T) { // W1, W7
	writers := 0
	for name, file := range source(t) {
		calls(file, func(call string) {
			if strings.HasSuffix(call, "db.Write") || call == ".Write" {
				writers++
				if name != "contract.go" {
					t.Errorf("%s calls %s", name, call)
				}
			}
			if strings.HasSuffix(call, ".Script") {
				t.Errorf("%s calls %s", name, call)
			}
		})
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text := strings.TrimLeft(lit.Value, "`\" \t\n")
				for _, word := range []string{"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "PRAGMA", "ATTACH"} {
					if strings.HasPrefix(text, word+" ") || strings.HasPrefix(text, word+"`") || strings.HasPrefix(text, word+`"`) {
						t.Errorf("%s has the statement %s", name, lit.Value)
					}
				}
			}
			return true
		})
	}
	if writers != 1 {
		t.Errorf("%d places open a write transaction", writers)
	}
}

// The shared tables are written in one place each.
func TestSharedTablesHaveOneWriter(t *testing.T) { // W1
	owners := map[string]string{
		"resources": "resource.go", "leases": "lease.go", "events": "event.go", "blobs": "blob.go",
		"effects": "effect.go", "effect_attempts": "attempt.go", "projects": "project.go",
	}
	for name, file := range source(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			words := strings.Fields(strings.Trim(lit.Value, "`\""))
			for i, word := range words {
				target := ""
				switch {
				case i+2 < len(words) && (word == "INSERT" || word == "DELETE" || word == "REPLACE"):
					target = words[i+2]
				case i+1 < len(words) && word == "UPDATE" && words[i+1] != "SET":
					target = words[i+1]
				}
				if owner, ok := owners[strings.Trim(target, "();")]; ok && owner != name {
					t.Errorf("%s writes to %s, which is for %s", name, target, owner)
				}
			}
			return true
		})
	}
}

// hashing is what must not happen between BEGIN and COMMIT: canonical forms, digests and randomness.
var hashing = []string{
	"sha256.Sum256", "sha256.New", "canonicalJSON", "jsonContent", "textContent", "newContent", "mediaTypeOf",
	"json.Marshal", "json.MarshalIndent", "findSecret", "redactSecrets", "v.Canonicalize",
}

// cheap hashes what is always short: the parts of an id.
const cheap = "derivedID"

// inTransaction reports whether a function runs inside a transaction that writes: it gets one, or facts, or
// is the part of a plan that reads.
func inTransaction(f *ast.FuncType, inPlan bool) bool {
	for _, field := range f.Params.List {
		star, ok := field.Type.(*ast.StarExpr)
		if !ok {
			continue
		}
		switch x := star.X.(type) {
		case *ast.Ident:
			if x.Name == "facts" {
				return true
			}
		case *ast.SelectorExpr:
			if x.Sel.Name == "Tx" || x.Sel.Name == "Rx" && inPlan {
				return true
			}
		}
	}
	return false
}

// Canonicalising and hashing come before the transaction. Functions are followed through their calls, by
// name: one is expensive if all that have its name are. The deep check is no transaction that anybody waits
// for.
func TestNothingIsHashedInATransaction(t *testing.T) { // W4
	files := source(t)
	for name := range files {
		if strings.HasPrefix(name, "deep") {
			delete(files, name)
		}
	}
	bodies := map[string][][]string{} // what each function calls, by its name
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				bodies[f.Name.Name] = append(bodies[f.Name.Name], callsOutsideTransactions(f))
			}
		}
	}
	expensive := map[string]bool{}
	costs := func(call string) bool {
		return slices.Contains(hashing, call) || expensive[call[strings.LastIndex(call, ".")+1:]]
	}
	for grown := true; grown; {
		grown = false
		for name, functions := range bodies {
			all := name != cheap && !slices.ContainsFunc(functions, func(calls []string) bool { return !slices.ContainsFunc(calls, costs) })
			if all && !expensive[name] {
				expensive[name], grown = true, true
			}
		}
	}
	if !expensive["json"] || !expensive["secret"] || expensive["putBlob"] {
		t.Errorf("the expensive functions are %v", expensive)
	}
	checked := 0
	for name, file := range files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			for _, body := range transactionBodies(f) {
				checked++
				calls(body, func(call string) {
					if costs(call) {
						t.Errorf("%s: %s calls %s inside a transaction", name, f.Name.Name, call)
					}
				})
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d functions were found to run in transactions", checked)
	}
}

// makesPlan reports whether a function returns a plan.
func makesPlan(f *ast.FuncDecl) bool {
	if f.Type.Results == nil || len(f.Type.Results.List) != 1 {
		return false
	}
	star, ok := f.Type.Results.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	index, ok := star.X.(*ast.IndexExpr)
	if !ok {
		return false
	}
	name, ok := index.X.(*ast.Ident)
	return ok && name.Name == "plan"
}

// transactionBodies returns the function, or the function literals in it, that run in a transaction.
func transactionBodies(f *ast.FuncDecl) (bodies []ast.Node) {
	if inTransaction(f.Type, false) {
		return []ast.Node{f.Body}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		lit, ok := n.(*ast.FuncLit)
		if ok && inTransaction(lit.Type, makesPlan(f)) {
			bodies = append(bodies, lit.Body)
			return false
		}
		return true
	})
	return bodies
}

// callsOutsideTransactions returns what a function calls, without the function literals in it that run in a
// transaction, which are judged by themselves.
func callsOutsideTransactions(f *ast.FuncDecl) (names []string) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if lit, ok := n.(*ast.FuncLit); ok && inTransaction(lit.Type, makesPlan(f)) {
			return false
		}
		if call, ok := n.(*ast.CallExpr); ok {
			names = append(names, called(call))
		}
		return true
	})
	return names
}

// The store's clock and randomness come from its options.
func TestNoAmbientTimeOrRandomness(t *testing.T) {
	for name, file := range source(t) {
		calls(file, func(call string) {
			if call == "time.Now" || call == "time.Since" || strings.HasPrefix(call, "rand.") {
				t.Errorf("%s calls %s", name, call)
			}
		})
		for _, imp := range file.Imports {
			if path := strings.Trim(imp.Path.Value, `"`); strings.HasPrefix(path, "math/rand") || path == "pistate/sessionstate" {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

// Every SQL statement is valid for the schema, and the plan of each query is as it was reviewed.
func TestSQL(t *testing.T) { // V2
	db := rawOpen(t, newPath(t))
	consts := map[string]ast.Expr{}
	for _, file := range source(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == len(spec.Names) {
				for i, name := range spec.Names {
					consts[name.Name] = spec.Values[i]
				}
			}
			return true
		})
	}
	var eval func(e ast.Expr) (string, bool)
	eval = func(e ast.Expr) (string, bool) {
		switch x := e.(type) {
		case *ast.BasicLit:
			return strings.Trim(x.Value, "`\""), x.Kind == token.STRING
		case *ast.Ident:
			value, ok := consts[x.Name]
			if !ok {
				return "", false
			}
			return eval(value)
		case *ast.BinaryExpr:
			a, ok := eval(x.X)
			b, ok2 := eval(x.Y)
			return a + b, ok && ok2 && x.Op == token.ADD
		}
		return "", false
	}
	var text strings.Builder
	names := make([]string, 0, len(consts))
	for name := range consts {
		names = append(names, name)
	}
	slices.Sort(names)
	found := 0
	for _, name := range names {
		sql, ok := eval(consts[name])
		first, _, _ := strings.Cut(strings.TrimSpace(sql), "\n")
		verb, _, _ := strings.Cut(first, " ")
		if !ok || !slices.Contains([]string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}, verb) {
			continue
		}
		found++
		if plan := queryPlan(t, db, name, sql); verb == "SELECT" || verb == "WITH" {
			fmt.Fprintf(&text, "%s\n%s", name, plan)
		}
	}
	if found < 40 {
		t.Errorf("only %d statements were found", found)
	}
	golden(t, "plans.golden", text.String())
}

// queryPlan returns how SQLite would carry out a statement.
func queryPlan(t *testing.T, db *sqlite3.Conn, name, sql string) string {
	t.Helper()
	var out strings.Builder
	stmt, tail, err := db.Prepare("EXPLAIN QUERY PLAN " + sql)
	if err != nil || strings.TrimSpace(tail) != "" {
		t.Errorf("%s: %v %s", name, err, tail)
		return ""
	}
	defer stmt.Close()
	for stmt.Step() {
		fmt.Fprintf(&out, "    %s\n", stmt.ColumnText(3))
	}
	if err := stmt.Err(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return out.String()
}
