package wasm_test

import (
	"fmt"
	"strings"
	"testing"

	"pistate/schema"
	"pistate/wasm/abi"
)

// windowed are the exports that take windows, with the windows as the arguments.
var windowed = []struct {
	name   string
	number int64 // of an empty window
	args   func(ptr, n uint32) []uint32
}{
	{abi.Open, int64(abi.Number(schema.Invalid)), func(p, n uint32) []uint32 { return []uint32{p, n} }},
	{abi.Read, int64(abi.Absent), func(p, n uint32) []uint32 { return []uint32{0, p, n} }},
	{abi.Fetch, int64(abi.Number(schema.Invalid)), func(p, n uint32) []uint32 { return []uint32{p, n} }},
	{abi.Write, int64(abi.Number(schema.Invalid)), func(p, n uint32) []uint32 { return []uint32{0, p, n} }},
	{abi.CompareAndWrite, int64(abi.Number(schema.Invalid)), func(p, n uint32) []uint32 { return []uint32{0, 0, abi.AbsentLength, p, n} }},
	{abi.BranchKey, int64(abi.Absent), func(p, n uint32) []uint32 { return []uint32{p, n} }},
	{abi.ErrorMessage, -99, func(p, n uint32) []uint32 { return []uint32{p, n} }},
	{abi.ErrorDocument, -99, func(p, n uint32) []uint32 { return []uint32{p, n} }},
	{abi.Entries, int64(abi.Number(schema.Invalid)), func(p, n uint32) []uint32 { return []uint32{p, n, 0, 0} }},
	{abi.Forget, int64(abi.Number(schema.Invalid)), func(p, n uint32) []uint32 { return []uint32{p, n} }},
}

// Z3: a window that is not within one live allocation is refused, whatever is to be read or written there, and the
// memory beyond is not touched.
func TestStoreHostileWindows(t *testing.T) {
	eachModule(t, func(t *testing.T, m *storeModule) {
		h := newStoreHost(t, m)
		h.open(m, "sessions")
		h.at("", abi.TreeNone)
		ptr := h.alloc(64)
		freed := h.alloc(64)
		h.free(freed)
		size := h.mod.Memory().Size()
		for _, w := range [][2]uint32{
			{ptr, 65}, {ptr - 1, 2}, {ptr + 64, 1}, {ptr + 63, 2}, {freed, 1}, {freed, 64}, {0, 1}, {8, 8}, {0, 0xffffffff}, {ptr, 0xffffffff},
			{size, 1}, {size - 1, 2}, {0xfffffff0, 0x20}, {0xffffffff, 1}, {0x80000000, 0x80000000}, {0, size},
		} {
			for _, f := range windowed {
				if n := h.call(f.name, f.args(w[0], w[1])...); n != int64(abi.Number(schema.Invalid)) {
					t.Errorf("%s with %d bytes at %#x: %d, want invalid", f.name, w[1], w[0], n)
				}
			}
			answer := uint64(h.call(abi.CallJSON, w[0], w[1]))
			if text := h.text(uint32(answer>>32), int64(uint32(answer))); !strings.Contains(text, `"code":"invalid"`) {
				t.Errorf("call with %d bytes at %#x: %s", w[1], w[0], text)
			}
			h.free(uint32(answer >> 32))
		}
		for _, f := range windowed { // an empty window is nowhere, and so no danger
			if n := h.call(f.name, f.args(0xffffffff, 0)...); f.number != -99 && n != f.number {
				t.Errorf("%s with no bytes: %d, want %d", f.name, n, f.number)
			}
		}
		h.free(ptr)
		h.free(ptr) // double
		h.free(ptr + 1)
		h.free(0xffffffff)
		if text := h.message(); !strings.Contains(text, "no allocation") {
			t.Errorf("free of nothing: %s", text)
		}
		for _, n := range []uint32{0xffffffff, 0x80000000, 0x7fffffff, 1 << 30, 256<<20 + 1} {
			if ptr := h.call(abi.Alloc, n); ptr != 0 {
				t.Errorf("alloc of %d: %#x", n, ptr)
			}
		}
		h.wrote(h.write(abi.ScopeSession, "1")) // all is well
	})
}

// Answers are the caller's: they stay as they are whatever happens until they are freed, which takes them away.
func TestStoreAnswersAreTheCallers(t *testing.T) {
	h := newStoreHost(t, lentModule)
	h.open(lentModule, "sessions")
	request, n := h.put(`{"op":"session.status"}`)
	var answers []uint64
	for range 50 {
		answers = append(answers, uint64(h.call(abi.CallJSON, request, n)))
	}
	first := h.text(uint32(answers[0]>>32), int64(uint32(answers[0])))
	seen := map[uint32]bool{}
	for _, a := range answers {
		if seen[uint32(a>>32)] {
			t.Fatalf("two answers at %#x", a>>32)
		}
		seen[uint32(a>>32)] = true
	}
	h.at("", abi.TreeNone)
	for i := range 200 { // much garbage
		h.wrote(h.write(abi.ScopeSession, `"`+strings.Repeat("x", 10_000)+fmt.Sprint(i)+`"`))
	}
	for _, a := range answers {
		if text := h.text(uint32(a>>32), int64(uint32(a))); text != first {
			t.Fatalf("an answer became %.100q", text)
		}
		h.free(uint32(a >> 32))
		h.fails(schema.Invalid, abi.ErrorMessage, uint32(a>>32), 1)
	}
}

// A hundred thousand calls leave the memory as large as ten thousand did, but for what a garbage collector needs to
// find its size.
func TestStoreMemoryStays(t *testing.T) {
	h := newStoreHost(t, lentModule)
	h.open(lentModule, "sessions")
	h.at("", abi.TreeNone)
	h.wrote(h.write(abi.ScopeSession, `{"some":"value of a usual length, as extensions have it"}`))
	request, n := h.put(`{"op":"session.nothing"}`)
	buf := h.alloc(128)
	round := func(i int) {
		switch i % 4 {
		case 0:
			answer := uint64(h.call(abi.CallJSON, request, n))
			h.free(uint32(answer >> 32))
		case 1:
			h.free(h.alloc(uint32(i % 5000)))
		default:
			if h.call(abi.Read, 0, buf, 128) < 0 {
				t.Fatal(h.message())
			}
		}
	}
	for i := range 10_000 {
		round(i)
	}
	before := h.mod.Memory().Size()
	for i := range 90_000 {
		round(i)
	}
	if after := h.mod.Memory().Size(); after > before+2<<20 {
		t.Errorf("the memory grew from %d to %d bytes", before, after)
	}
}
