package main

import (
	"math"
	"slices"
)

// What a caller may have at once. A request of the largest size, its answer and two values of the largest
// size fit; a caller that asks for more gets none, where the runtime would give up the whole instance.
const (
	arenaBytes = 256 << 20
	arenaItems = 1 << 16
)

// arena is the memory that callers have: what alloc gave and what call answered with. Everything else in the
// instance's memory is not theirs, and a window that leaves an allocation is refused before it is touched.
type arena struct {
	address func([]byte) uint32 // where the bytes lie in the instance's memory

	items []allocation // by address
	last  int          // the one that was found last: most callers use one buffer again and again
	bytes int
}

type allocation struct {
	ptr   uint32
	bytes []byte // all that was allocated, never empty
}

// alloc returns the address of n zeroed bytes, or 0 if it can't have them.
func (a *arena) alloc(n uint32) uint32 {
	if len(a.items) >= arenaItems || int64(a.bytes)+int64(n) > arenaBytes {
		return 0
	}
	return a.adopt(make([]byte, max(n, 1))) // one byte, so that no two have the same address
}

// isFull reports whether nothing can be allocated before something is freed.
func (a *arena) isFull() bool { return len(a.items) >= arenaItems || a.bytes >= arenaBytes }

// adopt makes bytes that aren't empty the caller's, whatever it has already.
func (a *arena) adopt(b []byte) uint32 {
	item := allocation{a.address(b), b}
	at, _ := a.search(item.ptr)
	a.items = slices.Insert(a.items, at, item)
	a.bytes += len(b)
	return item.ptr
}

// free takes an allocation back. It reports whether there is one at the address.
func (a *arena) free(ptr uint32) bool {
	at, found := a.search(ptr)
	if !found {
		return false
	}
	a.bytes -= len(a.items[at].bytes)
	a.items = slices.Delete(a.items, at, at+1)
	return true
}

// search returns the place of an address among the items. It is written out because the library's, which calls a
// function for each comparison, costs a module more than all the rest of going to a place.
func (a *arena) search(ptr uint32) (at int, found bool) {
	low, high := 0, len(a.items)
	for low < high {
		middle := int(uint(low+high) / 2)
		if a.items[middle].ptr < ptr {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < len(a.items) && a.items[low].ptr == ptr
}

// window returns the n bytes at ptr. ok is false unless they lie within one allocation; a window of no bytes is
// nowhere, and so always good.
func (a *arena) window(ptr, n uint32) (b []byte, ok bool) {
	if n == 0 {
		return []byte{}, true
	}
	if a.last < len(a.items) {
		if b, ok = a.items[a.last].window(ptr, n); ok {
			return b, true
		}
	}
	at, found := a.search(ptr)
	if !found {
		at-- // the one that begins before it
	}
	if at < 0 {
		return nil, false
	}
	a.last = at
	return a.items[at].window(ptr, n)
}

// window returns a part of the allocation, which can't be appended to beyond its end.
func (item *allocation) window(ptr, n uint32) ([]byte, bool) {
	begin := int64(ptr) - int64(item.ptr)
	end := begin + int64(n)
	if begin < 0 || end > int64(len(item.bytes)) {
		return nil, false
	}
	return item.bytes[begin:end:end], true
}

// packed is a window as one result: its address in the upper and its length in the lower half.
func packed(ptr uint32, n int) int64 {
	if n > math.MaxUint32 {
		panic("a window larger than the memory")
	}
	return int64(uint64(ptr)<<32 | uint64(n))
}
