package wasm_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// Z1, Z2, Z3: what the modules export and import is what package abi and STORE.md say, and nothing else: no way to a
// file but the one that was granted, none at all for the module that is lent a database.
func TestStoreModulesAreTheABI(t *testing.T) {
	imports := map[*storeModule][]string{
		lentModule:   {abi.SQLModule, abi.HostModule},
		insideModule: {abi.FileModule, abi.HostModule},
	}
	tables := map[string][]abi.Func{abi.SQLModule: abi.SQLImports(), abi.HostModule: abi.HostImports(), abi.FileModule: abi.FileImports()}
	for m, modules := range imports {
		t.Run(m.name, func(t *testing.T) {
			m.compile(t)
			var want, have []string
			for _, name := range modules {
				for _, f := range tables[name] {
					want = append(want, name+"."+signatureOf(f))
				}
			}
			for _, def := range m.code.ImportedFunctions() {
				module, name, _ := def.Import()
				if module != wasi_snapshot_preview1.ModuleName {
					have = append(have, module+"."+name+types(def.ParamTypes(), def.ResultTypes()))
				}
			}
			slices.Sort(want)
			slices.Sort(have)
			if !slices.Equal(have, slices.Compact(want)) {
				t.Errorf("it imports\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
			}
			if n := len(m.code.ImportedMemories()); n != 0 {
				t.Errorf("it imports %d memories", n)
			}

			want, have = []string{abi.Initialize + "()"}, nil
			for _, f := range abi.StoreExports() {
				want = append(want, signatureOf(f))
			}
			for name, def := range m.code.ExportedFunctions() {
				have = append(have, name+types(def.ParamTypes(), def.ResultTypes()))
			}
			slices.Sort(want)
			slices.Sort(have)
			if !slices.Equal(have, want) {
				t.Errorf("it exports\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
			}
			if memories := m.code.ExportedMemories(); len(memories) != 1 || memories[abi.Memory] == nil {
				t.Errorf("it exports the memories %v", memories)
			}
		})
	}
}

func signatureOf(f abi.Func) string {
	var params, results []api.ValueType
	for _, p := range f.Params {
		params = append(params, api.ValueType(p.Type))
	}
	if f.Result != 0 {
		results = append(results, api.ValueType(f.Result))
	}
	return f.Name + types(params, results)
}

func types(params, results []api.ValueType) string {
	var names []string
	for _, p := range params {
		names = append(names, api.ValueTypeName(p))
	}
	text := "(" + strings.Join(names, ", ") + ")"
	for _, r := range results {
		text += " -> " + api.ValueTypeName(r)
	}
	return text
}

// Every export does what it says, on session state.
func TestStoreSessions(t *testing.T) {
	eachModule(t, func(t *testing.T, m *storeModule) {
		h := newStoreHost(t, m)
		if v := h.call(abi.ABIVersion); v != abi.Version {
			t.Fatalf("version %d", v)
		}
		h.open(m, "sessions")
		h.at("", abi.TreeNone)
		if n := h.call(abi.Read, 0, 0, 0); n != int64(abi.Absent) {
			t.Errorf("read of nothing: %d", n)
		}
		h.wrote(h.write(abi.ScopeSession, `{"n":1}`))
		h.wants(abi.ScopeSession, `{"n":1}`)
		h.wrote(h.write(abi.ScopeSession, `null`)) // Y8: a value like any other
		h.wants(abi.ScopeSession, `null`)

		old, oldLen := h.put(`null`)
		value, n := h.put(`[2]`)
		h.fails(schema.Conflict, abi.CompareAndWrite, 0, 0, abi.AbsentLength, value, n)
		h.ok(abi.CompareAndWrite, 0, old, oldLen, value, n)
		h.wants(abi.ScopeSession, `[2]`)
		h.ok(abi.Drop, 0)
		h.wants(abi.ScopeSession, "")
		h.ok(abi.CompareAndWrite, 0, 0, abi.AbsentLength, value, n)
		h.wants(abi.ScopeSession, `[2]`)

		status := h.do(`{"op":"session.status"}`)
		if !strings.HasPrefix(status, `{"ok":true,`) || !strings.Contains(status, `"plugin":"plugin","sessions":1,"rows":1,"bytes":3`) {
			t.Errorf("session.status: %s", status)
		}
		for _, request := range []string{`{"op":"session.refresh"}`, `{"op":"session.force_refresh","args":{"session":"s1"}}`} {
			if answer := h.do(request); answer != `{"ok":true,"result":{}}` {
				t.Errorf("%s: %s", request, answer)
			}
		}
		h.wants(abi.ScopeSession, `[2]`)

		h.ok(abi.Close)
		h.ok(abi.Close)
		h.fails(schema.Invalid, abi.Read, 0, 0, 0) // at no place any more
		p, pn := h.put("plugin")
		h.fails(schema.Closed, abi.At, p, pn, p, pn, 0, 0, 0)
		if answer := h.do(`{"op":"session.status"}`); !strings.Contains(answer, `"code":"closed"`) {
			t.Errorf("call after close: %s", answer)
		}
		h.open(m, "sessions")
		h.at("", abi.TreeNone)
		want := `[2]`
		if m.inside {
			want = "" // it was in memory, and closing was its end
		}
		h.wants(abi.ScopeSession, want)
		if m.inside { // a file is never mistaken for what is gone at the end
			h.ok(abi.Close)
			ptr, n := h.put(`{"database":"sessions","name":"/x"}`)
			h.fails(schema.Invalid, abi.Open, ptr, n)
		}
	})
}

func (h *storeHost) wrote(n int64) {
	h.t.Helper()
	if n != 0 {
		h.t.Fatalf("write: %d, %s", n, h.message())
	}
}

// wants fails the test unless a scope has this value; "" stands for none.
func (h *storeHost) wants(scope int32, want string) {
	h.t.Helper()
	if text, found := h.get(abi.Read, uint32(scope)); text != want || found != (want != "") {
		h.t.Errorf("scope %d has %q, want %q", scope, text, want)
	}
}

// Y2, Y3: branches in the instance's own trees and in the host's: forks, several roots, inheritance.
func TestStoreBranches(t *testing.T) {
	entries := [][2]string{{"a", ""}, {"b", "a"}, {"c", "b"}, {"d", "b"}, {"r", ""}, {"q", "r"}}
	eachModule(t, func(t *testing.T, m *storeModule) {
		for kind, name := range map[int32]string{abi.TreeHost: "host", abi.TreeOwn: "own"} {
			t.Run(name, func(t *testing.T) {
				h := newStoreHost(t, m)
				h.open(m, "sessions")
				index := sessionstate.NewIndex()
				h.tree = index
				s, sn := h.put("s1")
				add := func(list ...[2]string) {
					t.Helper()
					var texts []string
					for _, e := range list {
						texts = append(texts, e[0], e[1])
						if err := index.Add(e[0], e[1]); err != nil {
							t.Fatal(err)
						}
					}
					if kind == abi.TreeOwn {
						ptr, n := h.put(packTexts(texts...))
						h.ok(abi.Entries, s, sn, ptr, n)
						h.free(ptr)
					}
				}
				at := func(leaf, key string) {
					t.Helper()
					h.at(leaf, kind)
					if have, found := h.get(abi.BranchKey); have != key || found != (key != "") {
						t.Errorf("the key at %q is %q, want %q", leaf, have, key)
					}
				}
				at("", "")
				h.wrote(h.write(abi.ScopeBranch, `"early"`)) // Y7: it waits for its key
				h.wants(abi.ScopeBranch, `"early"`)
				add(entries[0])
				at("a", "a")
				h.wants(abi.ScopeBranch, `"early"`)
				add(entries[1:]...)
				at("c", "c")
				h.wants(abi.ScopeBranch, `"early"`)
				h.wrote(h.write(abi.ScopeBranch, `"c"`))
				at("d", "d")
				h.wants(abi.ScopeBranch, `"early"`)
				at("q", "r")
				h.wants(abi.ScopeBranch, "")
				at("c", "c")
				h.wants(abi.ScopeBranch, `"c"`)
				h.ok(abi.Drop, uint32(abi.ScopeBranch))
				h.wants(abi.ScopeBranch, `"early"`)

				h.at("nobody", kind)
				h.fails(schema.NotFound, abi.Read, uint32(abi.ScopeBranch), 0, 0)
				h.at("c", abi.TreeNone)
				h.fails(schema.Invalid, abi.Read, uint32(abi.ScopeBranch), 0, 0)
				if kind == abi.TreeOwn {
					h.at("c", kind)
					h.ok(abi.Forget, s, sn)
					h.fails(schema.NotFound, abi.BranchKey, 0, 0)
				}
			})
		}
	})
}

// The command protocol works on a workflow database, and the state functions are refused there.
func TestStoreWorkflow(t *testing.T) {
	eachModule(t, func(t *testing.T, m *storeModule) {
		h := newStoreHost(t, m)
		h.open(m, "workflow")
		p, pn := h.put("plugin")
		h.fails(schema.Invalid, abi.At, p, pn, p, pn, 0, 0, 0)
		dir, err := json.Marshal(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		request := fmt.Sprintf(`{"op":"project.register","actor":{"class":"session","id":"x"},"args":{"path":%s}}`, dir)
		first := h.do(request)
		if !strings.HasPrefix(first, `{"ok":true,`) {
			t.Fatalf("project.register: %s", first)
		}
		if again := h.do(request); !strings.HasPrefix(again, `{"ok":true,`) {
			t.Errorf("project.register again: %s", again)
		}
		if answer := h.do(`{"op":"project.list"}`); !strings.Contains(answer, string(dir)) {
			t.Errorf("project.list: %s", answer)
		}
		missing := h.do(strings.Replace(request, string(dir), `"/no/such/directory"`, 1))
		if !strings.Contains(missing, `"ok":false`) || !strings.Contains(missing, "/no/such/directory") {
			t.Errorf("a project that isn't there: %s", missing)
		}
		if answer := h.do(`{"op":"session.status"}`); !strings.Contains(answer, `"code":"invalid"`) {
			t.Errorf("session.status: %s", answer)
		}
	})
}

// Z3: a configuration that can't be is refused, and so is a second database.
func TestStoreOpenRefusals(t *testing.T) {
	eachModule(t, func(t *testing.T, m *storeModule) {
		h := newStoreHost(t, m)
		for _, config := range []string{"", "{", "null", "{}", `{"database":"x"}`, `{"database":"sessions","unknown":1}`, "\x00", strings.Repeat("[", 20_000)} {
			ptr, n := h.put(config)
			h.fails(schema.Invalid, abi.Open, ptr, n)
			h.free(ptr)
		}
		if !m.inside {
			ptr, n := h.put(`{"database":"sessions","name":"/x","memory":true}`)
			if text := h.fails(schema.Invalid, abi.Open, ptr, n); !strings.Contains(text, "store-sqlite.wasm") {
				t.Error(text)
			}
		}
		h.open(m, "sessions")
		ptr, n := h.put(h.config(m, "sessions"))
		h.fails(schema.Invalid, abi.Open, ptr, n)
		h.at("", abi.TreeNone)
		h.wrote(h.write(abi.ScopeSession, "1"))
	})
}

// The lent module opens what other programs have made, and tells what it can't open by its code.
func TestStoreOpensOtherDatabases(t *testing.T) {
	h := newStoreHost(t, lentModule)
	h.open(lentModule, "sessions")
	h.at("", abi.TreeNone)
	h.wrote(h.write(abi.ScopeSession, `"there"`))

	other := newStoreHostAt(t, lentModule, h.path)
	other.open(lentModule, "sessions")
	other.at("", abi.TreeNone)
	other.wants(abi.ScopeSession, `"there"`)
	other.ok(abi.Close)
	ptr, n := other.put(other.config(lentModule, "workflow"))
	if text := other.fails(schema.Incompatible, abi.Open, ptr, n); !strings.Contains(text, other.path) {
		t.Error(text)
	}
	native, err := sessionstate.Open(t.Context(), h.path, sessionstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer native.Close()
	state, err := sessionstate.New(native, sessionstate.Config{PluginID: "plugin", Scope: sessionstate.ScopeSession})
	if err != nil {
		t.Fatal(err)
	}
	value, found, err := state.Read(t.Context(), sessionstate.At("s1", "", nil))
	if err != nil || !found || string(value) != `"there"` {
		t.Errorf("natively it is %s, %v, %v", value, found, err)
	}
}
