package wasm_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pistate/schema"
	"pistate/store"
	"pistate/wasm/abi"
)

// fuzzTexts are what a program that uses a module might have in its memory.
var fuzzTexts = []string{
	`{"database":"sessions","name":"/somewhere/states.sqlite"}`,
	`{"database":"sessions","name":"/somewhere/states.sqlite","coherent":true,"cache_bytes":100}`,
	`{"database":"workflow","name":"/somewhere/state.sqlite"}`,
	`{"database":"sessions","name":"/somewhere/states.sqlite","memory":true}`,
	`{"op":"session.status"}`, `{"op":"session.refresh"}`, `{"op":"session.force_refresh","args":{"session":"s1"}}`,
	`{"op":"state.status"}`, `{"op":"project.list"}`,
	"plugin", "s1", "a", "b", `[1]`, `{"n":1}`, "\xff\x00",
	packTexts("a", "", "b", "a", "c", "a"), packTexts("a"), packTexts("r", "r", "b", "c", "c", "b"),
}

// exportsProgram turns fuzzed bytes into calls of exports.
type exportsProgram struct {
	h     *storeHost
	code  []byte
	known [][2]uint32 // windows that were good when they came to be known
}

func (p *exportsProgram) byte() byte {
	if len(p.code) == 0 {
		return 0
	}
	b := p.code[0]
	p.code = p.code[1:]
	return b
}

// param makes an argument: mostly one that makes sense somewhere.
func (p *exportsProgram) param() uint32 {
	kind := p.byte()
	if len(p.known) > 0 && kind >= 64 {
		w := p.known[int(kind)%len(p.known)]
		return w[kind/16%2]
	}
	switch kind % 5 {
	case 0, 1:
		return uint32(p.byte() % 4)
	case 2:
		return 0xffffffff - uint32(p.byte())
	case 3:
		var b [4]byte
		for i := range b {
			b[i] = p.byte()
		}
		return binary.LittleEndian.Uint32(b[:])
	}
	if len(p.known) == 0 {
		return 0
	}
	w := p.known[int(p.byte())%len(p.known)]
	return w[0] + uint32(p.byte()) - 16
}

// know puts a text into memory of its own. The texts are few, so that the memory stays small.
func (p *exportsProgram) know(text string) {
	if ptr := uint32(p.h.call(abi.Alloc, uint32(len(text)))); ptr != 0 {
		if !p.h.mod.Memory().WriteString(ptr, text) {
			p.h.t.Fatalf("alloc gave %#x, which is not in the memory", ptr)
		}
		p.known = append(p.known, [2]uint32{ptr, uint32(len(text))})
	}
}

// step makes one call, and fails on a trap or on a result that no export has.
func (p *exportsProgram) step() {
	exports := abi.StoreExports()
	n := int(p.byte())
	if n%4 == 0 {
		p.know(fuzzTexts[n/4%len(fuzzTexts)])
		return
	}
	f := exports[n%len(exports)]
	params := make([]uint32, len(f.Params))
	for i := range params {
		params[i] = p.param()
	}
	result := p.h.call(f.Name, params...)
	switch f.Name {
	case abi.Alloc:
		if result != 0 {
			p.known = append(p.known, [2]uint32{uint32(result), params[0]})
		}
	case abi.Free:
	case abi.CallJSON:
		p.know(p.h.text(uint32(uint64(result)>>32), int64(uint32(result))))
		p.h.free(uint32(uint64(result) >> 32))
	default:
		if result < int64(abi.Absent) {
			if _, ok := abi.CodeOf(int32(result)); !ok {
				p.h.t.Errorf("%s%v: %d is the number of no error", f.Name, params, result)
			}
		}
	}
}

// Z3, fuzzed on the module itself: whatever is called in whatever order with whatever arguments, there is a result and
// never a trap.
func FuzzExports(f *testing.F) {
	lentModule.compile(f)
	// Open session state, go to a place, write and read: the texts get known as 0, 1, ..., the others are params.
	f.Add([]byte{0, 32, 36, 40, 48, 3, 64, 85, 6, 68, 84, 66, 81, 67, 84, 0, 2, 7, 0, 1, 68, 84, 9, 0, 1, 68, 84})
	f.Add([]byte{8, 28, 3, 64, 80, 5, 65, 81, 5, 65, 81, 21, 4, 4})
	f.Add([]byte{1, 3, 0xff, 0xff, 0xff, 0x0f, 1, 3, 0, 0, 0, 0x10, 2, 64, 2, 64})
	f.Add([]byte(strings.Repeat("\x00\x03\x40\x55\x04", 20)))
	f.Fuzz(func(t *testing.T, code []byte) {
		h := newStoreHost(t, lentModule)
		p := &exportsProgram{h: h, code: code[:min(len(code), 200)]}
		for len(p.code) > 0 {
			p.step()
		}
		if v := h.call(abi.ABIVersion); v != abi.Version {
			t.Errorf("at the end the version is %d", v)
		}
	})
}

// Z3: the same at some length, in one instance of each module.
func TestStoreRandomExports(t *testing.T) {
	eachModule(t, func(t *testing.T, m *storeModule) {
		random := rand.New(rand.NewPCG(1, 2))
		h := newStoreHost(t, m)
		p := &exportsProgram{h: h}
		for range 30 {
			p.code = make([]byte, 100)
			for i := range p.code {
				p.code[i] = byte(random.Uint32())
			}
			for len(p.code) > 0 {
				p.step()
			}
			for len(p.known) > 50 { // so that there is always room
				at := random.IntN(len(p.known))
				h.free(p.known[at][0])
				p.known = slices.Delete(p.known, at, at+1)
			}
		}
		h.ok(abi.Close)
	})
}

// Z3, fuzzed on the module itself: every request gets an answer, which is JSON and says either that it was carried
// out or why not.
func FuzzCall(f *testing.F) {
	hosts := map[string]*storeHost{}
	for _, database := range []string{"sessions", "workflow"} {
		h := newStoreHost(f, lentModule)
		h.open(lentModule, database)
		hosts[database] = h
	}
	f.Add([]byte(`{"op":"session.status","args":{"session":"s1"}}`))
	f.Add([]byte(`{"op":"session.force_refresh","args":{"session":"\u0000"}}`))
	f.Add([]byte(`{"op":"session.refresh","args":null}`))
	for _, e := range store.Protocol() {
		f.Add(fmt.Appendf(nil, `{"op":%q,"args":{}}`, e.Op))
		f.Add(fmt.Appendf(nil, `{"op":%q,"actor":{"class":"session","id":"x"},"expected":0,"request":"r","args":{"id":"a","limit":1,"path":"/tmp"}}`, e.Op))
	}
	for _, text := range []string{"", "{", "\xff", "[]", "1e999", strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 20_000)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		for _, h := range hosts {
			h.t = t
			var answer struct {
				OK     *bool
				Code   schema.Code
				Detail string
			}
			text := h.do(string(request))
			if err := json.Unmarshal([]byte(text), &answer); err != nil {
				t.Fatal(err)
			}
			if answer.OK == nil || *answer.OK == (answer.Code != "") || !*answer.OK && answer.Detail == "" {
				t.Errorf("%.300q: %.500s", request, text)
			}
			if strings.Contains(answer.Detail, "has a fault") {
				t.Errorf("%.300q: %.500s", request, text)
			}
		}
	})
}
