package main

import (
	"testing"

	"pgregory.net/rapid"
)

// Z3: a window is good exactly if it lies within one live allocation, or is empty, whatever was allocated and
// freed before.
func TestArenaModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		next := uint32(0)
		gap := rapid.Uint32Range(0, 1).Draw(t, "gap") // with 0, allocations touch each other
		a := arena{address: func(b []byte) uint32 {
			at := next
			next += uint32(len(b)) + gap
			return at
		}}
		live := map[uint32]uint32{} // length by address
		total := 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0, 1:
				n := rapid.Uint32Range(0, 9).Draw(t, "n")
				live[a.alloc(n)] = max(n, 1)
				total += int(max(n, 1))
			case 2:
				ptr := rapid.Uint32Range(0, next+2).Draw(t, "ptr")
				n, is := live[ptr]
				if a.free(ptr) != is {
					t.Fatalf("freeing %d: %v", ptr, !is)
				}
				total -= int(n)
				delete(live, ptr)
			case 3:
				ptr, n := rapid.Uint32Range(0, next+2).Draw(t, "ptr"), rapid.Uint32Range(0, 12).Draw(t, "n")
				want := n == 0
				for begin, size := range live {
					want = want || begin <= ptr && ptr+n <= begin+size
				}
				b, ok := a.window(ptr, n)
				if ok != want || ok && len(b) != int(n) || cap(b) != len(b) {
					t.Fatalf("window of %d at %d: %d bytes, %v, want %v of %v", n, ptr, len(b), ok, want, live)
				}
			}
			if a.bytes != total || len(a.items) != len(live) {
				t.Fatalf("%d bytes in %d pieces, want %d in %d", a.bytes, len(a.items), total, len(live))
			}
		}
	})
}

// Windows at the ends of what 32 bits can say are refused, not wrapped around.
func TestArenaEdges(t *testing.T) {
	next := uint32(0xfffffff0)
	a := arena{address: func([]byte) uint32 { return next }}
	ptr := a.alloc(15)
	for _, w := range []struct {
		ptr, n uint32
		ok     bool
	}{
		{ptr, 15, true},
		{ptr, 16, false},
		{ptr + 14, 1, true},
		{ptr + 15, 1, false},
		{ptr - 1, 2, false},
		{0, 1, false},
		{0, 0xffffffff, false},
		{ptr, 0xffffffff, false},
		{0xffffffff, 0, true},
		{0xffffffff, 0xffffffff, false},
	} {
		if _, ok := a.window(w.ptr, w.n); ok != w.ok {
			t.Errorf("window of %#x at %#x: %v", w.n, w.ptr, ok)
		}
	}
}

// What can't be had is refused before it is taken, and can be had once something was freed.
func TestArenaLimits(t *testing.T) {
	next := uint32(0)
	a := arena{address: func(b []byte) uint32 {
		next += 1 << 26
		return next
	}}
	for _, n := range []uint32{arenaBytes + 1, 0x7fffffff, 0xffffffff} {
		if ptr := a.alloc(n); ptr != 0 {
			t.Errorf("%d bytes at %#x", n, ptr)
		}
	}
	var first uint32
	for i := range 4 {
		ptr := a.alloc(arenaBytes / 4)
		if ptr == 0 {
			t.Fatalf("quarter %d is refused", i)
		}
		first = ptr
	}
	if !a.isFull() || a.alloc(1) != 0 {
		t.Error("more than all")
	}
	if !a.free(first) || a.isFull() || a.alloc(1) == 0 {
		t.Error("what was freed can't be had again")
	}

	many := arena{address: func(b []byte) uint32 {
		next += 8
		return next
	}}
	for range arenaItems {
		if many.alloc(0) == 0 {
			t.Fatal("refused too early")
		}
	}
	if !many.isFull() || many.alloc(0) != 0 {
		t.Error("more pieces than all")
	}
}
