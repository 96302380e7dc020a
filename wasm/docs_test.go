package wasm_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/store"
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

// G5: ABI.md gives every import under its exact signature and every number under its name, and no others.
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

// G5: the WIT file knows the functions that are not only there for the core form, and all codes in their order.
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

// storeTables are the sections of STORE.md that describe functions, with what is in them.
var storeTables = []struct {
	section string
	funcs   []abi.Func
}{
	{"Exports", abi.StoreExports()},
	{abi.SQLModule, abi.SQLImports()},
	{abi.HostModule, abi.HostImports()},
	{abi.FileModule, abi.FileImports()},
}

// STORE.md gives every export and import under its exact signature, in its section, and no others.
func TestStorePage(t *testing.T) {
	page := read(t, "STORE.md")
	sections := map[string]string{}
	for _, s := range strings.Split(page, "\n## ")[1:] {
		title, text, _ := strings.Cut(s, "\n")
		sections[title] = text
	}
	heading := regexp.MustCompile(`(?m)^### (.+)$`)
	all := 0
	for _, table := range storeTables {
		var have, want []string
		for _, m := range heading.FindAllStringSubmatch(sections[table.section], -1) {
			have = append(have, m[1])
		}
		for _, f := range table.funcs {
			want = append(want, f.String())
		}
		all += len(want)
		if fmt.Sprint(have) != fmt.Sprint(want) {
			t.Errorf("STORE.md has under %s\n%s\nwant\n%s", table.section, strings.Join(have, "\n"), strings.Join(want, "\n"))
		}
	}
	if n := len(heading.FindAllString(page, -1)); n != all {
		t.Errorf("STORE.md describes %d functions, there are %d", n, all)
	}
	for _, title := range regexp.MustCompile(`(?m)^- \[(.+)\]\(#`).FindAllStringSubmatch(page, -1) {
		if _, ok := sections[strings.Trim(title[1], "`")]; !ok {
			t.Errorf("STORE.md lists %s, which it does not have", title[1])
		}
	}
	for _, what := range []string{
		fmt.Sprintf("# The store modules, version %d", abi.Version),
		fmt.Sprintf("returns %d.", abi.Version),
		fmt.Sprintf("| -1 to %d | minus an extended result code", abi.SQLiteLast),
		fmt.Sprintf("%d is `replaced`, %d `not_found`", number(schema.Replaced), number(schema.NotFound)),
		fmt.Sprintf("else %d, `replaced`", number(schema.Replaced)),
		fmt.Sprintf("`not_found` (%d)", number(schema.NotFound)),
		fmt.Sprintf("`denied` (%d)", abi.Number(schema.Denied)),
		fmt.Sprintf("at most %d bytes of UTF-8", abi.MaxMessage),
		fmt.Sprintf("| %d | none: session scope", abi.TreeNone),
		fmt.Sprintf("| %d | the host's, asked through", abi.TreeHost),
		fmt.Sprintf("| %d | the instance's own", abi.TreeOwn),
		fmt.Sprintf("| %d | nothing: NULL", abi.TagNull),
		fmt.Sprintf("| %d | 8 bytes: INTEGER", abi.TagInteger),
		fmt.Sprintf("| %d | 8 bytes: REAL", abi.TagReal),
		fmt.Sprintf("| %d | 4 bytes: a length; and that many bytes: TEXT", abi.TagText),
		fmt.Sprintf("| %d | 4 bytes: a length; and that many bytes: BLOB", abi.TagBlob),
		fmt.Sprintf("of at most %d MiB", store.MaxRequestBytes>>20),
		fmt.Sprintf("more than %d MiB", sessionstate.MaxValueBytes>>20),
	} {
		if !strings.Contains(page, what) {
			t.Errorf("STORE.md lacks %q", what)
		}
	}
}

// number returns the result of pistate_sql_v1 and pistate_file_v1 for a code.
func number(code schema.Code) int64 { return abi.CodeBase + int64(abi.Number(code)) }

// store.wit has the exports and imports that are not only there for the core form, in their interfaces.
func TestStoreWIT(t *testing.T) {
	wit := read(t, "store.wit")
	core := map[string]bool{
		abi.ABIVersion: true, abi.Alloc: true, abi.Free: true, abi.Fetch: true, abi.ErrorMessage: true, abi.ErrorDocument: true, abi.ErrorText: true,
		abi.Next: true, abi.Reset: true, abi.Finalize: true,
	}
	for _, table := range []struct {
		name  string
		funcs []abi.Func
	}{{"store", abi.StoreExports()}, {"sql", abi.SQLImports()}, {"host", abi.HostImports()}, {"file", abi.FileImports()}} {
		_, text, found := strings.Cut(wit, "\ninterface "+table.name+" {")
		text, _, _ = strings.Cut(text, "\n}")
		if !found {
			t.Errorf("store.wit lacks the interface %s", table.name)
			continue
		}
		have := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^ +([a-z-]+): func\(`).FindAllStringSubmatch(text, -1) {
			have[strings.ReplaceAll(m[1], "-", "_")] = true
		}
		for _, f := range table.funcs {
			if have[f.Name] == core[f.Name] {
				t.Errorf("%s is in %s of store.wit: %v", f.Name, table.name, have[f.Name])
			}
			delete(have, f.Name)
		}
		for name := range have {
			t.Errorf("store.wit has %s in %s, which there is not", name, table.name)
		}
	}
}
