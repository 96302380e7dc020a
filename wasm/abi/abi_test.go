package abi

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"pistate/schema"
)

var update = flag.Bool("update", false, "rewrite the golden files: only ever to add lines")

// The wire never changes: names, signatures and numbers are those that the golden file has had since the
// first version.
func TestFrozen(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "module %s\n", Module)
	for _, f := range Imports() {
		fmt.Fprintf(&b, "import %s\n", f)
	}
	fmt.Fprintf(&b, "export %s\nexport %s\nexport %s\n", Memory, Call, Initialize)
	fmt.Fprintf(&b, "scope %d session\nscope %d branch\n", ScopeSession, ScopeBranch)
	fmt.Fprintf(&b, "number %d ok\nnumber %d absent\n", OK, Absent)
	for _, n := range numbers {
		fmt.Fprintf(&b, "number %d %s\n", n.number, n.code)
	}
	wantGolden(t, "testdata/abi.golden", b.String())
}

func wantGolden(t *testing.T, golden, have string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if have != string(want) {
		t.Errorf("the ABI is\n%s\nand was\n%s\nA new line may be added (go test ./wasm/abi -update); no line may change.", have, want)
	}
}

// Each code has one number, each number one code, and none is 0 or Absent.
func TestNumbersCoverTheCodes(t *testing.T) {
	for _, code := range schema.Codes() {
		back, ok := CodeOf(Number(code))
		if !ok || back != code {
			t.Errorf("%q has the number %d, which means %q", code, Number(code), back)
		}
	}
	if len(numbers) != len(schema.Codes()) {
		t.Errorf("%d numbers for %d codes", len(numbers), len(schema.Codes()))
	}
	seen := map[int32]bool{OK: true, Absent: true}
	for _, n := range numbers {
		if seen[n.number] || n.number >= 0 {
			t.Errorf("number %d of %q is taken", n.number, n.code)
		}
		seen[n.number] = true
	}
	for _, n := range []int32{OK, Absent, 1, -20, -1000, 1 << 30} {
		if code, ok := CodeOf(n); ok {
			t.Errorf("number %d means %q", n, code)
		}
	}
	if n := Number("no such code"); n != Number(schema.Storage) {
		t.Errorf("a code without a number has %d", n)
	}
}
