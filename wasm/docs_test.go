package wasm_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"pistate/schema"
	"pistate/wasm/abi"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ABI.md gives every import under its exact signature and every number under its name, and no others.
func TestPage(t *testing.T) {
	page := read(t, "ABI.md")
	var have []string
	for _, m := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(page, -1) {
		have = append(have, m[1])
	}
	var want []string
	for _, f := range abi.Imports() {
		want = append(want, f.String())
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("ABI.md has\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	for _, export := range []string{abi.Memory, abi.Call, abi.Initialize} {
		if !strings.Contains(page, "| `"+export+"` |") {
			t.Errorf("ABI.md lacks the export %s", export)
		}
	}
	rows := regexp.MustCompile("(?m)^\\| (-\\d+) \\| `?(\\w+)`? \\|").FindAllStringSubmatch(page, -1)
	if len(rows) != len(schema.Codes())+1 {
		t.Errorf("ABI.md has %d numbers, want one for each code and absent", len(rows))
	}
	for _, row := range rows {
		number := abi.Absent
		if row[2] != "absent" {
			number = abi.Number(schema.Code(row[2]))
		}
		if fmt.Sprint(number) != row[1] {
			t.Errorf("ABI.md gives %s to %s, which has %d", row[1], row[2], number)
		}
	}
	if !strings.Contains(page, fmt.Sprintf("at most %d\nbytes", abi.MaxMessage)) {
		t.Errorf("ABI.md lacks the longest message, %d bytes", abi.MaxMessage)
	}
}

// The WIT file knows the functions that are not only there for the core form, and all codes in their order.
func TestWIT(t *testing.T) {
	wit := read(t, "pistate.wit")
	core := map[string]bool{abi.Fetch: true, abi.ErrorMessage: true, abi.Fail: true}
	for _, f := range abi.Imports() {
		name := strings.ReplaceAll(f.Name, "_", "-")
		if has := strings.Contains(wit, "\n  "+name+": func("); has == core[f.Name] {
			t.Errorf("%s is in pistate.wit: %v", f.Name, has)
		}
	}
	_, codes, _ := strings.Cut(wit, "enum code {")
	codes, _, _ = strings.Cut(codes, "}")
	var want []string
	for _, code := range schema.Codes() {
		want = append(want, strings.ReplaceAll(string(code), "_", "-"))
	}
	if have := strings.Fields(strings.ReplaceAll(codes, ",", "")); fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("pistate.wit has the codes %v, want %v", have, want)
	}
	if !strings.Contains(wit, "\n  export call: func() ->") {
		t.Error("pistate.wit lacks the export call")
	}
}

// The SDK imports every function of the ABI, with its types, and exports the call.
func TestSDKDirectives(t *testing.T) {
	source := read(t, "sdk/host_wasip1.go")
	types := map[string]abi.Type{"int32": abi.I32, "uint32": abi.I32, "unsafe.Pointer": abi.I32, "int64": abi.I64}
	declared := map[string]abi.Func{}
	pattern := regexp.MustCompile(`//go:wasmimport (\S+) (\S+)\n//go:noescape\nfunc \w+\(([^)]*)\) (\w+)`)
	for _, m := range pattern.FindAllStringSubmatch(source, -1) {
		if m[1] != abi.Module {
			t.Errorf("%s is imported from %s", m[2], m[1])
		}
		f := abi.Func{Name: m[2], Result: types[m[4]]}
		for _, p := range strings.Split(m[3], ", ") {
			name, typ, _ := strings.Cut(p, " ")
			f.Params = append(f.Params, abi.Param{Name: name, Type: types[typ]})
		}
		declared[f.Name] = f
	}
	if len(declared) != len(abi.Imports()) {
		t.Errorf("the SDK imports %d functions, the ABI has %d", len(declared), len(abi.Imports()))
	}
	for _, want := range abi.Imports() {
		have := declared[want.Name]
		if have.Result != want.Result || len(have.Params) != len(want.Params) {
			t.Errorf("the SDK has %s, the ABI %s", have, want)
			continue
		}
		for i := range want.Params {
			if have.Params[i].Type != want.Params[i].Type {
				t.Errorf("the SDK has %s, the ABI %s", have, want)
			}
		}
	}
	if !strings.Contains(source, "//go:wasmexport "+abi.Call+"\n") {
		t.Errorf("the SDK does not export %s", abi.Call)
	}
}
