package wasmcheck

import (
	"math"

	"pistate/schema"
)

// reader takes a module apart. After its first error it gives zeros, and has nothing left.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(format string, args ...any) { r.stop(schema.Invalid, format, args...) }
func (r *reader) over(format string, args ...any) { r.stop(schema.Limit, format, args...) }

func (r *reader) stop(code schema.Code, format string, args ...any) {
	if r.err == nil {
		r.err = schema.Errorf(code, format, args...)
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("it ends too early")
		return 0
	}
	b := r.b[0]
	r.b = r.b[1:]
	return b
}

// take returns the next n bytes.
func (r *reader) take(n uint32) []byte {
	if uint64(n) > uint64(len(r.b)) {
		r.fail("it ends too early")
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

// leb reads over a number of at most size bits and returns its lower 64.
func (r *reader) leb(size int) (n uint64) {
	for shift := 0; shift < size; shift += 7 {
		b := r.byte()
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	r.fail("a number is longer than %d bits", size)
	return 0
}

func (r *reader) u32() uint32 {
	n := r.leb(32)
	if n > math.MaxUint32 {
		r.fail("a number is longer than 32 bits")
		return 0
	}
	return uint32(n)
}

// count reads how many of something follow, of which each has at least one byte.
func (r *reader) count() uint32 {
	n := r.u32()
	if uint64(n) > uint64(len(r.b)) {
		r.fail("it announces %d items, and has %d bytes", n, len(r.b))
		return 0
	}
	return n
}

// each reads a vector.
func (r *reader) each(item func(*reader)) {
	for n := r.count(); n > 0 && r.err == nil; n-- {
		item(r)
	}
}

// valueType reads a type of WebAssembly 2.0, which are single bytes.
func (r *reader) valueType() {
	switch t := r.byte(); t {
	case 0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f: // i32, i64, f32, f64, v128, funcref, externref
	default:
		r.fail("value type %#x is none of WebAssembly 2.0", t)
	}
}

// limits reads the sizes that a memory or a table starts with and can have; without a maximum, most is what
// 32 bits can count.
func (r *reader) limits() (least, most uint64) {
	flags := r.byte()
	least, most = uint64(r.u32()), math.MaxUint32
	switch flags {
	case 0:
	case 1:
		most = uint64(r.u32())
	default:
		r.fail("limits with flags %d are none of WebAssembly 2.0", flags)
	}
	return least, most
}

// constant reads the expression of an offset, an element or a global.
func (r *reader) constant() {
	for r.err == nil {
		switch op := r.byte(); op {
		case 0x0b: // end
			return
		case 0x41: // i32.const
			r.leb(32)
		case 0x42: // i64.const
			r.leb(64)
		case 0x43: // f32.const
			r.take(4)
		case 0x44: // f64.const
			r.take(8)
		case 0x23, 0xd2: // global.get, ref.func
			r.u32()
		case 0xd0: // ref.null
			r.valueType()
		case 0xfd: // v128.const is the only one of its kind
			if sub := r.u32(); sub != 12 {
				r.fail("instruction 0xfd %d is not constant", sub)
			}
			r.take(16)
		default:
			r.fail("instruction %#x is not constant", op)
		}
	}
}
