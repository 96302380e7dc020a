package wasm_test

import (
	"strconv"
	"testing"

	"pistate/wasm/abi"
)

// What a caller of the module pays for its exports, crossing included.
func BenchmarkStoreModule(b *testing.B) {
	h := newStoreHost(b, lentModule)
	h.open(lentModule, "sessions")
	entries, n := h.put(packTexts("a", "", "b", "a", "c", "b", "d", "b"))
	s, sn := h.put("0198c5d2-7a54-7a9e-b3b2-2f9a4b6f1c11")
	h.ok(abi.Entries, s, sn, entries, n)
	plugin, pn := h.put("plugin")
	leaf, ln := h.put("d")
	at := func(tree int32) { h.ok(abi.At, plugin, pn, s, sn, leaf, ln, uint32(tree)) }
	buf := h.alloc(8192)

	b.Run("version", func(b *testing.B) {
		for b.Loop() {
			h.call(abi.ABIVersion)
		}
	})
	b.Run("at", func(b *testing.B) {
		for b.Loop() {
			at(abi.TreeOwn)
		}
	})
	for _, size := range []int{10, 100, 1000} {
		value := make([]byte, size)
		for i := range value {
			value[i] = '0' + byte(i%9+1)
		}
		b.Run("read/"+strconv.Itoa(size), func(b *testing.B) {
			at(abi.TreeOwn)
			for scope, name := range map[int32]string{abi.ScopeSession: "session", abi.ScopeBranch: "branch"} {
				h.wrote(h.write(scope, string(value)))
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						if h.call(abi.Read, uint32(scope), buf, 8192) != int64(size) {
							b.Fatal(h.message())
						}
					}
				})
			}
		})
	}
	b.Run("write", func(b *testing.B) {
		at(abi.TreeOwn)
		i := 0
		for b.Loop() {
			i++
			h.wrote(h.write(abi.ScopeSession, strconv.Itoa(i)))
		}
	})
	b.Run("call", func(b *testing.B) {
		request, n := h.put(`{"op":"session.refresh"}`)
		for b.Loop() {
			answer := uint64(h.call(abi.CallJSON, request, n))
			h.free(uint32(answer >> 32))
		}
	})
}
