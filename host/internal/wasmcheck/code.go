package wasmcheck

// instructions reads a function's instructions up to the end of its outermost block.
func (c *checker) instructions(r *reader) {
	for depth := 1; depth > 0 && r.err == nil; {
		switch op := r.byte(); {
		case op == 0x02, op == 0x03, op == 0x04: // block, loop, if
			r.leb(33) // its type: empty, a value type or the number of a function type
			if depth++; depth > c.limits.Depth {
				r.over("a function nests its blocks more than %d deep", c.limits.Depth)
			}
		case op == 0x0b: // end
			depth--
		case op == 0x0e: // br_table
			r.each(func(r *reader) { r.u32() })
			r.u32()
		case op == 0x1c: // select with types
			r.each((*reader).valueType)
		case op == 0x41: // i32.const
			r.leb(32)
		case op == 0x42: // i64.const
			r.leb(64)
		case op == 0x43: // f32.const
			r.take(4)
		case op == 0x44: // f64.const
			r.take(8)
		case op == 0xd0: // ref.null
			r.valueType()
		case op == 0xfc:
			c.miscellaneous(r)
		case op == 0xfd:
			vector(r)
		default:
			n := immediates(op)
			if n < 0 {
				r.fail("instruction %#x is none of WebAssembly 2.0", op)
			}
			for ; n > 0; n-- {
				r.u32()
			}
		}
	}
}

// immediates returns how many 32-bit numbers follow an instruction of one byte; -1 if there is none such.
func immediates(op byte) int {
	switch {
	case op <= 0x01, op == 0x05, op == 0x0f: // unreachable, nop, else, return
		return 0
	case op == 0x0c, op == 0x0d, op == 0x10: // br, br_if, call
		return 1
	case op == 0x11: // call_indirect: type, table
		return 2
	case op == 0x1a, op == 0x1b: // drop, select
		return 0
	case op >= 0x20 && op <= 0x26: // local, global and table accesses
		return 1
	case op >= 0x28 && op <= 0x3e: // loads and stores: alignment, offset
		return 2
	case op == 0x3f, op == 0x40: // memory.size, memory.grow
		return 1
	case op >= 0x45 && op <= 0xc4: // comparisons, arithmetic, conversions
		return 0
	case op == 0xd1: // ref.is_null
		return 0
	case op == 0xd2: // ref.func
		return 1
	}
	return -1
}

// miscellaneous reads what comes after 0xfc.
func (c *checker) miscellaneous(r *reader) {
	switch sub := r.u32(); {
	case sub <= 7: // saturating conversions
	case sub == 8, sub == 10, sub == 12, sub == 14: // memory.init and copy, table.init and copy
		r.u32()
		r.u32()
	case sub == 15: // table.grow
		c.grows = true
		r.u32()
	case sub <= 17: // the drops, memory.fill, table.size, table.fill
		r.u32()
	default:
		r.fail("instruction 0xfc %d is none of WebAssembly 2.0", sub)
	}
}

// vector reads what comes after 0xfd: the instructions on 128-bit vectors.
func vector(r *reader) {
	switch sub := r.u32(); {
	case sub <= 11, sub == 92, sub == 93: // loads and the store
		r.u32()
		r.u32()
	case sub == 12, sub == 13: // v128.const, i8x16.shuffle
		r.take(16)
	case sub >= 21 && sub <= 34: // of one lane
		r.byte()
	case sub >= 84 && sub <= 91: // loads and stores of one lane
		r.u32()
		r.u32()
		r.byte()
	case sub > 255:
		r.fail("instruction 0xfd %d is none of WebAssembly 2.0", sub)
	}
}
