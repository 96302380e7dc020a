package host

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// number is the wire number of a code as the driver returns it.
func number(code schema.Code) int64 { return int64(abi.Number(code)) }

// window is what reading and writing imports take: the arguments around buf and cap, or ptr and len.
var windowed = []struct {
	name string
	args func(ptr, n uint32) []uint32
}{
	{abi.Read, func(p, n uint32) []uint32 { return []uint32{0, p, n} }},
	{abi.Fetch, func(p, n uint32) []uint32 { return []uint32{p, n} }},
	{abi.Write, func(p, n uint32) []uint32 { return []uint32{0, p, n} }},
	{abi.CompareAndWrite, func(p, n uint32) []uint32 { return []uint32{0, p, n, 0, 1} }},
	{abi.CompareAndWrite, func(p, n uint32) []uint32 { return []uint32{0, 0, 1, p, n} }},
	{abi.CompareAndWrite, func(p, n uint32) []uint32 { return []uint32{0, 0, abi.AbsentLength, p, n} }},
	{abi.BranchKey, func(p, n uint32) []uint32 { return []uint32{p, n} }},
	{abi.Input, func(p, n uint32) []uint32 { return []uint32{p, n} }},
	{abi.Output, func(p, n uint32) []uint32 { return []uint32{p, n} }},
	{abi.Fail, func(p, n uint32) []uint32 { return []uint32{p, n} }},
	{abi.ErrorMessage, func(p, n uint32) []uint32 { return []uint32{p, n} }},
}

// C74, G3: a window that is not in the memory is refused, whatever is to be read or written there.
func TestHostilePointers(t *testing.T) {
	path := databasePath(t)
	x := load(t, nativeHost(t, path), watGuest(t, "driver"), Config{PluginID: "driver"})
	store(t, path, "driver", sessionstate.ScopeSession, at("a"), `"kept"`)
	const size = 65536
	for _, w := range [][2]uint32{
		{0xfffffff0, 0x20},       // wraps around
		{0xfffffff0, 0x10},       // ends where 32 bits do
		{0, size + 1},            // one byte too many
		{size, 1},                // begins behind the end
		{size - 1, 2},            // crosses the end
		{size + 1, 0},            // empty, but beyond
		{0xffffffff, 0},          //
		{0, 0x7fffffff},          //
		{0, 0xfffffffe},          //
		{0x80000000, 0x80000000}, // negative as signed numbers
	} {
		for _, f := range windowed {
			i := drive(t, x, at("a"))
			if n := i.call(f.name, f.args(w[0], w[1])...); n != number(schema.Invalid) {
				t.Errorf("%s with %d bytes at %#x: %d, want invalid", f.name, w[1], w[0], n)
			}
			i.wantMemory(f.name, nil)
			if f.name != abi.ErrorMessage && !strings.Contains(i.message(), "memory of 65536 bytes") {
				t.Errorf("%s: message %q", f.name, i.message())
			}
		}
	}
	if have := stored(t, path, "driver", sessionstate.ScopeSession, at("a")); have != `"kept"` {
		t.Errorf("a refused import stored %s", have)
	}

	// 0xffffffff bytes: of an old value this says "absent", of all else that it isn't in the memory.
	for k, f := range windowed {
		i := drive(t, x, at("a"))
		want := number(schema.Invalid)
		if k == 3 {
			want = number(schema.Conflict)
			i.put(0, "1")
		}
		if n := i.call(f.name, f.args(0, 0xffffffff)...); n != want {
			t.Errorf("%s with 0xffffffff bytes: %d, want %d", f.name, n, want)
		}
	}

	// The end of the memory is in the memory, for windows of no bytes.
	i := drive(t, x, at("a"))
	if n := i.call(abi.Read, 0, size, 0); n != int64(len(`"kept"`)) {
		t.Errorf("asking for the length at the end: %d", n)
	}
	if n := i.call(abi.Write, 0, size, 0); n != number(schema.Invalid) || !strings.Contains(i.message(), "empty") {
		t.Errorf("writing nothing: %d, %s", n, i.message())
	}
}

// What an import writes is what it says, where it says, and not a byte more.
func TestMemoryPictures(t *testing.T) {
	path := databasePath(t)
	x := load(t, nativeHost(t, path), watGuest(t, "driver"), Config{PluginID: "driver"})
	store(t, path, "driver", sessionstate.ScopeSession, at("a"), `{"n":1}`)
	i := drive(t, x, at("c"))

	check := func(want int64, pieces map[uint32]string, name string, args ...uint32) {
		t.Helper()
		if n := i.call(name, args...); n != want {
			t.Errorf("%s%v: %d, want %d", name, args, n, want)
		}
		i.wantMemory(name, pieces)
		i.fill()
	}
	whole := map[uint32]string{16: `{"n":1}`}
	check(7, whole, abi.Read, 0, 16, 7)
	check(number(schema.Invalid), nil, abi.Fetch, 16, 7) // it was given: nothing is kept
	check(7, whole, abi.Read, 0, 16, 8)
	check(7, whole, abi.Read, 0, 16, 65520) // the rest of the buffer is left alone
	check(7, map[uint32]string{65529: `{"n":1}`}, abi.Read, 0, 65529, 7)

	check(7, nil, abi.Read, 0, 16, 6) // too small: nothing is written, the value is kept
	check(7, nil, abi.Fetch, 16, 6)
	check(7, nil, abi.Fetch, 0, 0)
	check(7, whole, abi.Fetch, 16, 7)
	check(number(schema.Invalid), nil, abi.Fetch, 16, 7) // and was given once

	check(7, nil, abi.Read, 0, 0, 0)
	check(int64(abi.Absent), nil, abi.Read, 1, 16, 64) // another read gives it up
	check(number(schema.Invalid), nil, abi.Fetch, 16, 7)

	check(1, map[uint32]string{5: "c"}, abi.BranchKey, 5, 100)
	check(1, nil, abi.BranchKey, 5, 0)
	check(8, map[uint32]string{9: `{"in":1}`}, abi.Input, 9, 8)
	check(8, nil, abi.Input, 9, 7)
	check(8, map[uint32]string{9: `{"in":1}`}, abi.Input, 9, 9) // as often as it likes

	i = drive(t, x, at(""))
	check(int64(abi.Absent), nil, abi.BranchKey, 5, 100)
	check(0, nil, abi.ErrorMessage, 0, 100) // absence is no error
	check(number(schema.Invalid), nil, abi.Drop, 9)
	text := i.message()
	i.fill()
	check(int64(len(text)), map[uint32]string{7: text}, abi.ErrorMessage, 7, uint32(len(text)))
	check(number(schema.Invalid), nil, abi.ErrorMessage, 65536, 1)
	check(int64(len(text)), map[uint32]string{7: text}, abi.ErrorMessage, 7, 5000) // its own error doesn't replace it
}

// A value too large for the buffer is kept by the host: fetching it does not ask the store again.
func TestFetchReadsOnce(t *testing.T) {
	path := databasePath(t)
	reads := 0
	engine := spy(openStore(t, path), func(op string) {
		if op == "read" {
			reads++
		}
	})
	x := load(t, hostOver(t, engine), watGuest(t, "driver"), Config{PluginID: "driver"})
	value := `"` + strings.Repeat("v", 50000) + `"`
	store(t, path, "driver", sessionstate.ScopeSession, at("a"), value)
	i := drive(t, x, at("a"))
	if n := i.call(abi.Read, 0, 0, 4096); n != int64(len(value)) {
		t.Fatalf("read: %d", n)
	}
	if n := i.call(abi.Fetch, 100, 65436); n != int64(len(value)) {
		t.Fatalf("fetch: %d", n)
	}
	i.wantMemory("fetch", map[uint32]string{100: value})
	if reads != 1 {
		t.Errorf("the store was read %d times", reads)
	}

	// What was kept is the value of that read, also when it is written over in between.
	i.fill()
	i.call(abi.Read, 0, 0, 0)
	i.put(0, "1")
	i.call(abi.Write, 0, 0, 1)
	i.fill()
	i.call(abi.Fetch, 100, 65436)
	i.wantMemory("fetch", map[uint32]string{100: value})
}

// C74: the host has its own copy of what it was given before it returns.
func TestHostCopies(t *testing.T) {
	path := databasePath(t)
	x := load(t, nativeHost(t, path), watGuest(t, "driver"), Config{PluginID: "driver"})
	i := drive(t, x, at("a"))
	i.put(0, `"first"`)
	i.put(100, `{"out":1}`)
	i.put(200, "because")
	for _, n := range []int64{i.call(abi.Write, 0, 0, 7), i.call(abi.Output, 100, 9), i.call(abi.Fail, 200, 7)} {
		if n != 0 {
			t.Fatal(n, i.message())
		}
	}
	i.fill()
	if have := stored(t, path, "driver", sessionstate.ScopeSession, at("a")); have != `"first"` {
		t.Errorf("stored %s", have)
	}
	if string(i.g.output) != `{"out":1}` || i.g.reason != "because" {
		t.Errorf("output %s, reason %s", i.g.output, i.g.reason)
	}

	// Windows that overlap are read as they are.
	i.put(0, `"first"`)
	if n := i.call(abi.CompareAndWrite, 0, 0, 7, 0, 7); n != 0 {
		t.Errorf("compare_and_write of one window with itself: %d, %s", n, i.message())
	}
	if n := i.call(abi.CompareAndWrite, 0, 1, 6, 0, 7); n != number(schema.Conflict) {
		t.Errorf("compare_and_write with another old value: %d", n)
	}
	if n := i.call(abi.CompareAndWrite, 0, 0, 0, 0, 7); n != number(schema.Conflict) {
		t.Errorf("compare_and_write with an empty old value, which is not absence: %d", n)
	}
}

func TestOutputMustBeJSON(t *testing.T) {
	x := load(t, nativeHost(t, databasePath(t)), watGuest(t, "driver"), Config{PluginID: "driver"})
	i := drive(t, x, at("a"))
	i.put(0, `{"a":1}x`)
	if n := i.call(abi.Output, 0, 7); n != 0 {
		t.Fatal(n)
	}
	for _, w := range [][2]uint32{{0, 8}, {0, 6}, {0, 0}, {20, 4}} {
		if n := i.call(abi.Output, w[0], w[1]); n != number(schema.Invalid) {
			t.Errorf("output of %d bytes at %d: %d", w[1], w[0], n)
		}
	}
	if string(i.g.output) != `{"a":1}` {
		t.Errorf("a refused output replaced the one before: %s", i.g.output)
	}
}

// Messages are bounded and valid text, in both directions.
func TestMessages(t *testing.T) {
	x := load(t, nativeHost(t, databasePath(t)), watGuest(t, "driver"), Config{PluginID: "driver"})
	i := drive(t, x, at("a"))
	i.put(0, "bad \xff byte")
	i.call(abi.Fail, 0, 10)
	if i.g.reason != "bad \uFFFD byte" {
		t.Errorf("reason %q", i.g.reason)
	}
	i.put(0, strings.Repeat("x", abi.MaxMessage-1)+"ü and more")
	i.call(abi.Fail, 0, abi.MaxMessage+11)
	if want := strings.Repeat("x", abi.MaxMessage-1); i.g.reason != want && i.g.reason != want+"\uFFFD" {
		t.Errorf("reason of %d bytes ends with %q", len(i.g.reason), i.g.reason[len(i.g.reason)-8:])
	}
	if len(i.g.reason) > abi.MaxMessage {
		t.Errorf("reason has %d bytes", len(i.g.reason))
	}

	i.g.lastErr = schema.Errorf(schema.Invalid, "%s", strings.Repeat("ü", abi.MaxMessage))
	if text := i.message(); len(text) > abi.MaxMessage || !strings.HasPrefix(text, "üü") {
		t.Errorf("message of %d bytes", len(text))
	}

	// Of the host's own failures the guest learns the kind.
	for _, code := range schema.Codes() {
		err := schema.Errorf(code, "open /home/someone/states.sqlite, pid 4711")
		text := guestText(err)
		told := code == schema.Invalid || code == schema.Limit || code == schema.Conflict
		if strings.Contains(text, "someone") != told || text == "" {
			t.Errorf("%s: guest is told %q", code, text)
		}
	}
}

// The host writes only what fits, also after the memory has grown.
func TestGrownMemory(t *testing.T) {
	path := databasePath(t)
	x := load(t, nativeHost(t, path), watGuest(t, "driver"), Config{PluginID: "driver", Limits: Limits{MemoryPages: 3}})
	store(t, path, "driver", sessionstate.ScopeSession, at("a"), `"v"`)
	i := drive(t, x, at("a"))
	if n := i.call(abi.Read, 0, 65536, 3); n != number(schema.Invalid) {
		t.Errorf("before: %d", n)
	}
	if n := i.call("grow", 1); n != 1 {
		t.Fatalf("grow: %d", n)
	}
	i.fill()
	if n := i.call(abi.Read, 0, 65536, 3); n != 3 {
		t.Errorf("after: %d", n)
	}
	i.wantMemory("read", map[uint32]string{65536: `"v"`})
	if n := i.call("grow", 2); n != -1 { // C68
		t.Errorf("growing beyond the limit: %d", n)
	}
}

// G2, C17: the place of a call is the one at its beginning, even if the embedder's session moves on.
func TestPlaceIsFixed(t *testing.T) {
	path := databasePath(t)
	x := load(t, nativeHost(t, path), watGuest(t, "driver"), Config{PluginID: "driver"})
	moving := &movingSession{id: "s1", leaf: "a"}
	i := drive(t, x, moving)
	moving.id, moving.leaf = "s2", "f"
	i.put(0, "1")
	for scope := range uint32(2) {
		if n := i.call(abi.Write, scope, 0, 1); n != 0 {
			t.Fatal(n, i.message())
		}
	}
	for _, scope := range []sessionstate.Scope{sessionstate.ScopeSession, sessionstate.ScopeBranch} {
		if have := stored(t, path, "driver", scope, at("a")); have != "1" {
			t.Errorf("%s of the call's place holds %q", scope, have)
		}
		if have := stored(t, path, "driver", scope, moving); have != "" {
			t.Errorf("%s of the new place holds %q", scope, have)
		}
	}
}

type movingSession struct{ id, leaf string }

func (s *movingSession) SessionID() string       { return s.id }
func (s *movingSession) Leaf() string            { return s.leaf }
func (s *movingSession) Tree() sessionstate.Tree { return tree }

// A panic on the host's side, here in the embedder's own tree, ends the call and nothing else.
func TestHostPanic(t *testing.T) {
	path := databasePath(t)
	h := nativeHost(t, path)
	x := load(t, h, counterWasm, Config{PluginID: "counter"})
	_, err := x.Call(t.Context(), sessionstate.At("s1", "a", brokenTree{}), json.RawMessage("1"))
	wantFailure(t, err, schema.Storage, `extension "counter"`, "panicked in read", "the tree fell over")
	mustCall(t, x, at("a"), "1", `{"session":1,"branch":1}`)
	if n := lockRows(t, path); n != 0 {
		t.Errorf("%d lock rows are left", n)
	}
}

type brokenTree struct{ sessionstate.Tree }

func (brokenTree) BranchKey(string) (string, error) { panic("the tree fell over") }

// FuzzHostImports calls imports with any arguments: the host answers, with a length or a known number, and
// writes nowhere but into the window that it was given.
func FuzzHostImports(f *testing.F) {
	f.Add(byte(0), uint32(0), uint32(0), uint32(8), uint32(0), uint32(0))
	f.Add(byte(1), uint32(0xfffffff0), uint32(0x20), uint32(0), uint32(0), uint32(0))
	f.Add(byte(2), uint32(1), uint32(0), uint32(3), uint32(0), uint32(0))
	f.Add(byte(4), uint32(0), uint32(0), uint32(0xffffffff), uint32(0), uint32(3))
	f.Add(byte(7), uint32(65536), uint32(0), uint32(0), uint32(0), uint32(0))
	path := databasePath(f)
	x := load(f, nativeHost(f, path), watGuest(f, "driver"), Config{PluginID: "driver"})
	imports := abi.Imports()
	f.Fuzz(func(t *testing.T, which byte, a, b, c, d, e uint32) {
		fn := imports[int(which)%len(imports)]
		args := []uint32{a, b, c, d, e}[:len(fn.Params)]
		i := drive(t, x, at("a"))
		i.put(0, `[1]`)
		before, _ := i.mod.Memory().Read(0, i.mod.Memory().Size())
		before = bytes.Clone(before)
		n, err := i.try(fn.Name, args...)
		if err != nil {
			t.Fatalf("%s%v: %v", fn.Name, args, err)
		}
		if _, known := abi.CodeOf(int32(n)); n < int64(abi.Absent) && !known {
			t.Fatalf("%s%v: %d is no number of the ABI", fn.Name, args, n)
		}
		if fn.Result == abi.I32 && n > 0 {
			t.Fatalf("%s%v: %d", fn.Name, args, n)
		}
		var ptr, length uint32 // what may have changed
		if k := len(args); fn.Result == abi.I64 && n > 0 && n <= int64(args[k-1]) {
			ptr, length = args[k-2], uint32(n)
		}
		after, _ := i.mod.Memory().Read(0, i.mod.Memory().Size())
		for k := range after {
			if after[k] != before[k] && (uint32(k) < ptr || uint32(k) >= ptr+length) {
				t.Fatalf("%s%v: %d, and memory changed at %d", fn.Name, args, n, k)
			}
		}
	})
}
