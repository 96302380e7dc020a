package sqlite

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"pistate/schema"
	"pistate/wasm/abi"
)

// anyArg is any argument of a statement, with the value that it comes back as.
func anyArg() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Int64().AsAny(),
		rapid.Float64().AsAny(),
		rapid.String().AsAny(),
		rapid.SliceOf(rapid.Byte()).AsAny(),
	)
}

// unpack is what packed values stand for.
func unpack(t interface{ Fatal(...any) }, packed []byte) []any {
	var values []any
	for len(packed) > 0 {
		v, rest, err := nextValue(packed)
		if err != nil {
			t.Fatal(err)
		}
		packed = rest
		switch v.tag {
		case tagNull:
			values = append(values, nil)
		case tagInteger:
			values = append(values, v.integer())
		case tagReal:
			values = append(values, v.real())
		case tagText:
			values = append(values, string(v.bytes))
		case tagBlob:
			values = append(values, v.bytes)
		}
	}
	return values
}

func TestParams(t *testing.T) {
	packed, err := appendParams(nil, []any{nil, -1, int64(2), true, false, 1.5, "é", []byte{}, []byte(nil), Text("x"), Text(nil), Text{}})
	must(t, err)
	want := []any{nil, int64(-1), int64(2), int64(1), int64(0), 1.5, "é", []byte{}, nil, "x", nil, ""}
	if got := unpack(t, packed); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := appendParams(nil, []any{struct{}{}}); err == nil {
		t.Error("anything can be packed")
	}
	for _, long := range []any{string(make([]byte, maxRow+1)), make([]byte, maxRow+1), Text(make([]byte, maxRow+1))} {
		_, err := appendParams(nil, []any{long})
		wantCode(t, err, schema.Limit)
	}
}

// The packing as the documents have it, byte for byte.
func TestPackingIsFrozen(t *testing.T) {
	packed, err := appendParams(nil, []any{nil, 258, -0.5, "ab", []byte{7}})
	must(t, err)
	want := []byte{
		0,
		1, 2, 1, 0, 0, 0, 0, 0, 0,
		2, 0, 0, 0, 0, 0, 0, 0xe0, 0xbf,
		3, 2, 0, 0, 0, 'a', 'b',
		4, 1, 0, 0, 0, 7,
	}
	if !bytes.Equal(packed, want) {
		t.Errorf("% x\nwant\n% x", packed, want)
	}
	h := header{done: true, inTransaction: true, columns: 0x0201, rows: 0x04030201, changes: -2}
	answer := make([]byte, headerSize)
	h.put(answer)
	if want := []byte{1, 1, 1, 2, 1, 2, 3, 4, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}; !bytes.Equal(answer, want) {
		t.Errorf("% x\nwant\n% x", answer, want)
	}
	back, values, err := readHeader(append(answer, 5))
	if err != nil || back != h || len(values) != 1 {
		t.Errorf("%+v, %v, %v", back, values, err)
	}
	if got := appendBeside(nil, true, []string{"b"}); !bytes.Equal(got, []byte{1, 1, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 0, 'b'}) {
		t.Errorf("% x", got)
	}
}

func TestDamagedPacking(t *testing.T) {
	for _, packed := range [][]byte{
		{}, {5}, {0xff}, {1}, {1, 0, 0, 0, 0, 0, 0, 0}, {2, 0}, {3}, {3, 1, 0, 0}, {3, 1, 0, 0, 0}, {4, 0xff, 0xff, 0xff, 0xff, 0},
	} {
		if _, _, err := nextValue(packed); !errors.Is(err, schema.Invalid) {
			t.Errorf("% x: %v", packed, err)
		}
	}
	for _, answer := range [][]byte{nil, make([]byte, headerSize-1)} {
		if _, _, err := readHeader(answer); !errors.Is(err, schema.Invalid) {
			t.Errorf("% x: %v", answer, err)
		}
	}
	for _, packed := range [][]byte{{}, {0}, {3, 0, 0, 0, 0}, appendNull(appendInteger(nil, 1)), {1, 2}} {
		if _, _, err := readBeside(packed); !errors.Is(err, schema.Invalid) {
			t.Errorf("% x: %v", packed, err)
		}
	}
}

// A failure keeps its code on the way, whether it is SQLite's or the product's.
func TestResults(t *testing.T) {
	for _, code := range []resultCode{codeBusy, codeFull, codeCantOpenSymlink, codeConstraintUnique} {
		n := result(translate("/p", &failure{code, textError("text")}))
		if n != -int32(code) {
			t.Errorf("%v has the number %d", code, n)
		}
		err := crossedError("/p", int64(n), "text")
		want := translate("/p", &failure{code, textError("text")})
		if !errors.Is(err, code) || err.Error() != want.Error() || schema.CodeOf(err) != schema.CodeOf(want) {
			t.Errorf("%v became %v", want, err)
		}
	}
	for _, code := range schema.Codes() {
		n := result(schema.Errorf(code, "text"))
		if n != -65536+abi.Number(code) {
			t.Errorf("%s has the number %d", code, n)
		}
		if err := crossedError("/p", int64(n), "text"); schema.CodeOf(err) != code || err.Error() != "text" {
			t.Errorf("%s became %v", code, err)
		}
	}
	for _, n := range []int64{-65536, -65537, -70000, math.MinInt32, math.MinInt64} {
		if err := crossedError("/p", n, "text"); schema.CodeOf(err) != schema.Storage {
			t.Errorf("%d became %v", n, err)
		}
	}
}

// Z3: whatever the bytes are, they are read or refused, and what is read is what was packed.
func FuzzWire(f *testing.F) {
	packed, _ := appendParams(nil, []any{nil, 1, 1.5, "text", []byte("blob")})
	f.Add(packed)
	f.Add(appendBeside(nil, true, []string{"a", ""}))
	f.Add([]byte{3, 0xff, 0xff, 0xff, 0x7f, 0})
	f.Fuzz(func(t *testing.T, packed []byte) {
		var again []byte
		rest := packed
		for len(rest) > 0 {
			v, r, err := nextValue(rest)
			if err != nil {
				wantCode(t, err, schema.Invalid)
				break
			}
			rest = r
			switch v.tag {
			case tagNull:
				again = appendNull(again)
			case tagInteger:
				again = appendInteger(again, v.integer())
			case tagReal:
				again = append(again, packed[len(again):len(again)+9]...) // a NaN need not survive
			default:
				again = appendBytes(again, v.tag, v.bytes)
			}
		}
		if !bytes.Equal(again, packed[:len(again)]) {
			t.Errorf("% x became % x", packed, again)
		}
		if exists, names, err := readBeside(packed); err == nil {
			if e, n, err := readBeside(appendBeside(nil, exists, names)); err != nil || e != exists || !reflect.DeepEqual(n, names) {
				t.Errorf("%v %q became %v %q, %v", exists, names, e, n, err)
			}
		}
		if h, values, err := readHeader(packed); err == nil && len(packed) != headerSize+len(values) {
			t.Errorf("%+v", h)
		}
	})
}
