package abi

import (
	"fmt"
	"strings"
	"testing"

	"pistate/schema"
)

// Z3: the store modules' side of the wire never changes either.
func TestStoreFrozen(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "version %d\n", Version)
	fmt.Fprintf(&b, "export %s\nexport %s()\n", Memory, Initialize)
	for _, f := range StoreExports() {
		fmt.Fprintf(&b, "export %s\n", f)
	}
	for _, m := range []struct {
		name  string
		funcs []Func
	}{{SQLModule, SQLImports()}, {HostModule, HostImports()}, {FileModule, FileImports()}} {
		for _, f := range m.funcs {
			fmt.Fprintf(&b, "import %s %s\n", m.name, f)
		}
	}
	fmt.Fprintf(&b, "tree %d none\ntree %d host\ntree %d own\n", TreeNone, TreeHost, TreeOwn)
	fmt.Fprintf(&b, "tag %d null\ntag %d integer\ntag %d real\ntag %d text\ntag %d blob\n", TagNull, TagInteger, TagReal, TagText, TagBlob)
	fmt.Fprintf(&b, "sqlite -1 to %d\n", SQLiteLast)
	for _, n := range numbers {
		fmt.Fprintf(&b, "result %d %s\n", CodeBase+int64(n.number), n.code)
	}
	wantGolden(t, "testdata/store.golden", b.String())
}

// Within one module no name occurs twice, and a function that gives bytes, and only such a one, returns an i64.
func TestStoreSignatures(t *testing.T) {
	for _, funcs := range [][]Func{StoreExports(), SQLImports(), HostImports(), FileImports()} {
		seen := map[string]bool{}
		for _, f := range funcs {
			if seen[f.Name] {
				t.Errorf("%s occurs twice", f.Name)
			}
			seen[f.Name] = true
			buffers := len(f.Params) >= 2 && f.Params[len(f.Params)-1].Name == "cap"
			number := f.Name == CallJSON || f.Name == Size
			if (f.Result == I64) != (buffers || number) {
				t.Errorf("%s: what gives bytes returns an i64", f)
			}
		}
	}
}

// What an extension imports of its state, a store module exports under the same name and with the same
// signature: one description serves both.
func TestStoreExportsTheStateFunctions(t *testing.T) {
	exports := map[string]string{}
	for _, f := range StoreExports() {
		exports[f.Name] = f.String()
	}
	for _, f := range Imports() {
		switch f.Name {
		case Input, Output, Fail: // of an extension's call, not of its state
		default:
			if exports[f.Name] != f.String() {
				t.Errorf("an extension imports %s, a store module exports %q", f, exports[f.Name])
			}
		}
	}
}

// A result tells SQLite's codes from the product's, whatever they are.
func TestResultsAreApart(t *testing.T) {
	for _, code := range schema.Codes() {
		if n := CodeBase + int64(Number(code)); n >= SQLiteLast {
			t.Errorf("%s as a result is %d, which may be a code of SQLite", code, n)
		}
	}
	if CodeBase+int64(Number(schema.Replaced)) != -65552 {
		t.Error("replaced as a result is not -65552")
	}
}
