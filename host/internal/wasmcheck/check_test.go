package wasmcheck

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pistate/schema"
)

var usual = Limits{Pages: 1024, Elements: 1 << 20, Locals: 50_000, Depth: 10_000}

// module puts sections together.
func module(sections ...[]byte) []byte {
	return slices.Concat(append([][]byte{header}, sections...)...)
}

func section(id byte, content ...byte) []byte {
	return slices.Concat([]byte{id}, number(len(content)), content)
}

func number(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

// function makes a code section of one function.
func codeSection(locals []byte, body ...byte) []byte {
	content := append(slices.Clone(locals), body...)
	return section(code, slices.Concat([]byte{1}, number(len(content)), content)...)
}

var noLocals = []byte{0}

func guests(t testing.TB) [][]byte {
	t.Helper()
	var all [][]byte
	for _, pattern := range []string{"../../testdata/*.wasm", "../../../wasm/examples/*/*.wasm"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range paths {
			wasm, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, wasm)
		}
	}
	return all
}

// Real modules pass, and lose nothing but their custom sections.
func TestRealModules(t *testing.T) {
	for _, wasm := range guests(t) {
		generous := usual
		generous.Pages = 2000
		bare, err := Check(wasm, generous)
		if err != nil {
			t.Error(err)
			continue
		}
		if again, err := Check(bare, generous); err != nil || !bytes.Equal(again, bare) {
			t.Errorf("the bare module is another one when it is checked: %v", err)
		}
		names := section(custom, slices.Concat([]byte{4}, []byte("name"), []byte{1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f})...)
		if stripped, err := Check(slices.Concat(header, names, bare[8:], names), generous); err != nil || !bytes.Equal(stripped, bare) {
			t.Errorf("custom sections are not dropped: %v", err)
		}
	}
}

// C66, G3: what would make the compiler ask for too much is refused before.
func TestTooMuch(t *testing.T) {
	blocks := func(n int) []byte {
		return append(bytes.Repeat([]byte{0x02, 0x40}, n), bytes.Repeat([]byte{0x0b}, n+1)...)
	}
	grow := codeSection(noLocals, 0xd0, 0x70, 0x41, 1, 0xfc, 15, 0, 0x1a, 0x0b)
	for _, c := range []struct {
		name string
		wasm []byte
		text string // "" if it is not too much
	}{
		{"pages", module(section(memories, 1, 0, 0x80, 8)), ""},
		{"pages over", module(section(memories, 1, 0, 0x81, 8)), "1025 memory pages, over the limit of 1024"},
		{"imported pages", module(section(imports, 1, 1, 'e', 1, 'm', 2, 0, 0x81, 8)), "1025 memory pages"},
		{"locals", module(codeSection(slices.Concat([]byte{1}, number(50_000), []byte{0x7f}), 0x0b)), ""},
		{"locals over", module(codeSection(slices.Concat([]byte{2, 1, 0x7e}, number(50_000), []byte{0x7f}), 0x0b)), "50001 locals"},
		{"all locals", module(codeSection([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f}, 0x0b)), "4294967295 locals"},
		{"locals that would wrap", module(codeSection(slices.Concat([]byte{2}, bytes.Repeat([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f}, 2)), 0x0b)), "8589934590 locals"},
		{"depth", module(codeSection(noLocals, blocks(9_999)...)), ""},
		{"depth over", module(codeSection(noLocals, blocks(10_000)...)), "more than 10000 deep"},
		{"compile bomb", module(codeSection(noLocals, blocks(100_000)...)), "more than 10000 deep"},
		{"table", module(section(tables, 1, 0x70, 0, 0x80, 0x80, 0x40)), ""},
		{"table over", module(section(tables, 1, 0x70, 0, 0x81, 0x80, 0x40)), "1048577 elements"},
		{"table that can't grow", module(section(tables, 1, 0x70, 0, 1), codeSection(noLocals, 0x0b)), ""},
		{"table that grows to a maximum", module(section(tables, 1, 0x70, 1, 1, 10), grow), ""},
		{"table that grows", module(section(tables, 1, 0x70, 0, 1), grow), "give each table a maximum"},
		{"tables that grow together", module(section(tables, 2, 0x70, 1, 0, 0x80, 0x80, 0x20, 0x70, 1, 0, 0x81, 0x80, 0x20), grow), "1048577 elements"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Check(c.wasm, usual)
			if c.text == "" && err != nil {
				t.Error(err)
			}
			if c.text != "" && (schema.CodeOf(err) != schema.Limit || !strings.Contains(err.Error(), c.text)) {
				t.Errorf("error is %v, want one of code limit with %q", err, c.text)
			}
		})
	}
}

// A vector that announces more than there are bytes for is refused, wherever it is.
func TestCounts(t *testing.T) {
	many := []byte{0xff, 0xff, 0xff, 0xff, 0x07}
	with := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	for id := byte(types); id <= data; id++ {
		if id == start {
			continue
		}
		wantInvalid(t, module(section(id, many...)), "announces 2147483647 items")
	}
	for name, wasm := range map[string][]byte{
		"parameters":           module(section(types, with([]byte{1, 0x60}, many)...)),
		"results":              module(section(types, with([]byte{1, 0x60, 0}, many)...)),
		"import module name":   module(section(imports, with([]byte{1}, many)...)),
		"import name":          module(section(imports, with([]byte{1, 0}, many)...)),
		"export name":          module(section(exports, with([]byte{1}, many)...)),
		"element functions":    module(section(elements, with([]byte{1, 0, 0x41, 0, 0x0b}, many)...)),
		"passive functions":    module(section(elements, with([]byte{1, 1, 0}, many)...)),
		"element expressions":  module(section(elements, with([]byte{1, 4, 0x41, 0, 0x0b}, many)...)),
		"declared expressions": module(section(elements, with([]byte{1, 7, 0x70}, many)...)),
		"element with table":   module(section(elements, with([]byte{1, 2, 0, 0x41, 0, 0x0b, 0}, many)...)),
		"data":                 module(section(data, with([]byte{1, 0, 0x41, 0, 0x0b}, many)...)),
		"passive data":         module(section(data, with([]byte{1, 1}, many)...)),
		"data with memory":     module(section(data, with([]byte{1, 2, 0, 0x41, 0, 0x0b}, many)...)),
		"code":                 module(section(code, with([]byte{1}, many)...)),
		"groups of locals":     module(section(code, with([]byte{1, 6}, many, []byte{0x0b})...)),
		"targets of br_table":  module(codeSection(noLocals, with([]byte{0x0e}, many, []byte{0x0b})...)),
		"types of select":      module(codeSection(noLocals, with([]byte{0x1c}, many, []byte{0x0b})...)),
		"custom section":       module(with([]byte{custom}, many)),
		"code behind its own":  module(section(code, 1, 5, 0, 0x0b)),
		"function of no bytes": module(section(code, 1, 0)),
		"constant without end": module(section(data, 1, 0, 0x41)),
		"function without end": module(codeSection(noLocals, 0x01)),
		"block without end":    module(codeSection(noLocals, 0x02, 0x40, 0x0b)),
	} {
		t.Run(name, func(t *testing.T) { wantInvalid(t, wasm, "") })
	}
}

func TestMalformed(t *testing.T) {
	for text, wasm := range map[string][]byte{
		"does not begin as":              []byte("\x00asm\x02\x00\x00\x00"),
		"no such section: 13":            module(section(13, 0)),
		"no such section: 200":           module(section(200)),
		"1 bytes too long":               module(section(functions, 0, 0)),
		"longer than 32 bits":            module(section(start, 0x80, 0x80, 0x80, 0x80, 0x80, 0)),
		"a number is longer than 32":     module(section(start, 0xff, 0xff, 0xff, 0xff, 0x7f)),
		"type form 0x50":                 module(section(types, 1, 0x50)),
		"value type 0x69":                module(section(types, 1, 0x60, 1, 0x69, 0)),
		"import of kind 4":               module(section(imports, 1, 0, 0, 4)),
		"limits with flags 3":            module(section(memories, 1, 3, 1, 1)),
		"element segment with flags 8":   module(section(elements, 1, 8)),
		"data segment with flags 3":      module(section(data, 1, 3)),
		"instruction 0x10 is not const":  module(section(data, 1, 0, 0x10)),
		"instruction 0xfd 0 is not":      module(section(data, 1, 0, 0xfd, 0, 0, 0)),
		"instruction 0x6 is none":        module(codeSection(noLocals, 0x06, 0x0b)),
		"instruction 0xfc 18 is none":    module(codeSection(noLocals, 0xfc, 18, 0x0b)),
		"instruction 0xfd 256 is none":   module(codeSection(noLocals, 0xfd, 0x80, 2, 0x0b)),
		"goes on after its end":          module(codeSection(noLocals, 0x0b, 0x0b)),
		"code section: it ends too":      module(codeSection(noLocals, 0x41)),
		"a number is longer than 64":     module(codeSection(noLocals, 0x42, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0x0b)),
		"export section: it announces 2": module(section(exports, 2, 0)),
	} {
		t.Run(text, func(t *testing.T) { wantInvalid(t, wasm, text) })
	}
}

// Each kind of instruction is as long as its immediates say.
func TestInstructions(t *testing.T) {
	for name, body := range map[string][]byte{
		"control":   {0x02, 0x40, 0x03, 0x7f, 0x04, 0x00, 0x05, 0x0b, 0x0b, 0x0b, 0x0c, 0, 0x0d, 0, 0x0e, 1, 0, 0, 0x0f, 0x10, 0, 0x11, 0, 0},
		"values":    {0x41, 0x7f, 0x42, 0x80, 0x7f, 0x43, 0, 0, 0, 0x0b, 0x44, 0, 0, 0, 0, 0, 0, 0, 0x0b, 0x1a, 0x1b, 0x1c, 1, 0x7f},
		"variables": {0x20, 0, 0x21, 0, 0x22, 0, 0x23, 0, 0x24, 0, 0x25, 0, 0x26, 0},
		"memory":    {0x28, 2, 0x0b, 0x3e, 0, 0x80, 1, 0x3f, 0, 0x40, 0, 0x45, 0xc4},
		"refs":      {0xd0, 0x70, 0xd1, 0xd2, 0x0b},
		"bulk":      {0xfc, 0, 0xfc, 8, 0x0b, 0, 0xfc, 9, 0x0b, 0xfc, 10, 0, 0, 0xfc, 11, 0, 0xfc, 12, 0, 0, 0xfc, 13, 0, 0xfc, 14, 0, 0, 0xfc, 15, 0, 0xfc, 16, 0, 0xfc, 17, 0},
		"vectors": slices.Concat([]byte{0xfd, 0, 4, 0x0b, 0xfd, 12}, bytes.Repeat([]byte{0x0b}, 16), []byte{0xfd, 13}, bytes.Repeat([]byte{0x0b}, 16),
			[]byte{0xfd, 21, 0x0b, 0xfd, 84, 0, 0x0b, 0x0b, 0xfd, 92, 0, 0x0b, 0xfd, 0xff, 1}),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Check(module(codeSection(noLocals, append(body, 0x0b)...)), usual); err != nil {
				t.Error(err)
			}
			wantInvalid(t, module(codeSection(noLocals, body...)), "ends too early")
		})
	}
}

func wantInvalid(t *testing.T, wasm []byte, text string) {
	t.Helper()
	_, err := Check(wasm, usual)
	if schema.CodeOf(err) != schema.Invalid || !strings.Contains(err.Error(), text) {
		t.Errorf("error is %v, want one of code invalid with %q", err, text)
	}
}

// FuzzCheck: anything is answered, and what passes stays as it is.
func FuzzCheck(f *testing.F) {
	for _, wasm := range guests(f) {
		f.Add(wasm)
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		bare, err := Check(wasm, Limits{Pages: math.MaxUint32, Elements: math.MaxUint32, Locals: math.MaxUint32, Depth: math.MaxInt})
		if err != nil {
			if code := schema.CodeOf(err); code != schema.Invalid && code != schema.Limit {
				t.Fatal(err)
			}
			return
		}
		if len(bare) > len(wasm) || !bytes.HasPrefix(bare, header) {
			t.Fatalf("%d bytes became %d", len(wasm), len(bare))
		}
		if again, err := Check(bare, usual); err == nil && !bytes.Equal(again, bare) {
			t.Fatal("the bare module is another one when it is checked")
		}
	})
}
