// Package wasmcheck looks through a WebAssembly module before a compiler does. wazero takes the counts in a
// module at their word: a dozen bytes that announce four thousand million data segments, locals or names
// make it ask for more memory than there is, which ends the process and not the load, and deeply nested
// blocks keep its compiler busy for minutes. A file needs no bad intent for the first, one wrong bit will do.
//
// What passes has the structure of WebAssembly 2.0: its sections, vectors and instructions are where and as
// long as they say. That they make sense together is for the compiler to find.
package wasmcheck

import (
	"bytes"

	"pistate/schema"
)

// Limits are what a module may ask for.
type Limits struct {
	Pages    uint32 // of memory, at its start
	Elements uint32 // of its tables together, at their start, or as far as its code can make them grow
	Locals   uint32 // of one function
	Depth    int    // of blocks in one function
}

// The sections, in the order that they must have; a custom section can be anywhere.
const (
	custom = iota
	types
	imports
	functions
	tables
	memories
	globals
	exports
	start
	elements
	code
	data
	dataCount // by number the last, by place before code
)

// header is the magic number and version of a core module.
var header = []byte("\x00asm\x01\x00\x00\x00")

// Check returns a copy of the module without its custom sections, which mean nothing to the code: names,
// debug information and whatever else a toolchain leaves there. Errors: [schema.Invalid] for what is not a
// module, [schema.Limit] for one that asks for too much.
func Check(wasm []byte, limits Limits) ([]byte, error) {
	rest, ok := bytes.CutPrefix(wasm, header)
	if !ok {
		return nil, schema.Errorf(schema.Invalid, "it is not a WebAssembly module: it does not begin as one of version 1 does")
	}
	c := &checker{limits: limits}
	bare := make([]byte, 0, len(wasm))
	bare = append(bare, header...)
	for r := (reader{b: rest}); len(r.b) > 0; {
		whole := r.b
		id := r.byte()
		content := r.take(r.count())
		if r.err != nil {
			return nil, malformed(id, r.err)
		}
		if id == custom {
			continue
		}
		s := reader{b: content}
		c.section(&s, id)
		if s.err == nil && len(s.b) > 0 {
			s.fail("%d bytes too long", len(s.b))
		}
		if s.err != nil {
			return nil, malformed(id, s.err)
		}
		bare = append(bare, whole[:len(whole)-len(r.b)]...)
	}
	if c.grows && c.elements > uint64(limits.Elements) {
		return nil, schema.Errorf(schema.Limit,
			"the module can grow its tables to %d elements, over the limit of %d: give each table a maximum", c.elements, limits.Elements)
	}
	return bare, nil
}

// malformed says in which section an error is.
func malformed(id byte, err error) error {
	if schema.CodeOf(err) == schema.Limit {
		return err
	}
	names := [...]string{"custom", "type", "import", "function", "table", "memory", "global", "export", "start",
		"element", "code", "data", "data count"}
	name := "unknown"
	if int(id) < len(names) {
		name = names[id]
	}
	return schema.Errorf(schema.Invalid, "the module is malformed: %s section: %w", name, err)
}

// checker is what is known of a module so far.
type checker struct {
	limits   Limits
	elements uint64 // that its tables can come to have
	grows    bool   // its code has an instruction for that
}

func (c *checker) section(r *reader, id byte) {
	switch id {
	case types:
		r.each(c.functionType)
	case imports:
		r.each(c.imported)
	case functions:
		r.each(func(r *reader) { r.u32() })
	case tables:
		r.each(c.table)
	case memories:
		r.each(c.memory)
	case globals:
		r.each(func(r *reader) {
			r.valueType()
			r.byte() // whether it can change
			r.constant()
		})
	case exports:
		r.each(func(r *reader) {
			r.take(r.count())
			r.byte()
			r.u32()
		})
	case start, dataCount:
		r.u32()
	case elements:
		r.each(c.element)
	case code:
		r.each(c.function)
	case data:
		r.each(c.data)
	default:
		r.fail("no such section: %d", id)
	}
}

func (c *checker) functionType(r *reader) {
	if form := r.byte(); form != 0x60 {
		r.fail("type form %#x is none of WebAssembly 2.0", form)
	}
	r.each((*reader).valueType) // parameters
	r.each((*reader).valueType) // results
}

func (c *checker) imported(r *reader) {
	r.take(r.count()) // module
	r.take(r.count()) // name
	switch kind := r.byte(); kind {
	case 0:
		r.u32()
	case 1:
		c.table(r)
	case 2:
		c.memory(r)
	case 3:
		r.valueType()
		r.byte()
	default:
		r.fail("import of kind %d is none of WebAssembly 2.0", kind)
	}
}

func (c *checker) table(r *reader) {
	r.valueType()
	least, most := r.limits()
	if least > uint64(c.limits.Elements) {
		r.over("a table starts with %d elements, over the limit of %d", least, c.limits.Elements)
	}
	c.elements += most
}

func (c *checker) memory(r *reader) {
	if least, _ := r.limits(); least > uint64(c.limits.Pages) {
		r.over("the module starts with %d memory pages, over the limit of %d", least, c.limits.Pages)
	}
}

// element reads a segment of a table. Three flag bits say what there is of it: whether it is not copied into
// the table at the start; a table's number, or that it only declares; expressions instead of functions.
func (c *checker) element(r *reader) {
	flags := r.u32()
	if flags > 7 {
		r.fail("element segment with flags %d", flags)
	}
	active, explicit, expressions := flags&1 == 0, flags&2 != 0, flags&4 != 0
	if active {
		if explicit {
			r.u32() // table
		}
		r.constant() // offset
	}
	if !active || explicit {
		r.byte() // kind, or type
	}
	if expressions {
		r.each((*reader).constant)
	} else {
		r.each(func(r *reader) { r.u32() })
	}
}

func (c *checker) data(r *reader) {
	switch flags := r.u32(); flags {
	case 0:
		r.constant() // offset
	case 1:
	case 2:
		r.u32() // memory
		r.constant()
	default:
		r.fail("data segment with flags %d", flags)
	}
	r.take(r.count())
}

// function reads the locals and instructions of one function.
func (c *checker) function(r *reader) {
	body := reader{b: r.take(r.count())}
	var locals uint64
	body.each(func(r *reader) {
		locals += uint64(r.u32())
		r.valueType()
	})
	if locals > uint64(c.limits.Locals) {
		body.over("a function has %d locals, over the limit of %d", locals, c.limits.Locals)
	}
	c.instructions(&body)
	if body.err == nil && len(body.b) > 0 {
		body.fail("a function goes on after its end")
	}
	if r.err == nil {
		r.err = body.err
	}
}
