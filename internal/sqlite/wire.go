package sqlite

import (
	"encoding/binary"
	"fmt"
	"math"

	"pistate/schema"
	"pistate/wasm/abi"
)

// What follows is the packing of pistate_sql_v1: parameters on their way to a [Lender], answers on their way
// back. Everything is little endian.
//
//	value:  tag u8, then by tag
//	        NULL nothing | INTEGER i64 | REAL f64 | TEXT, BLOB length u32 and that many bytes
//	params: one value after another
//	answer: done u8 | in_transaction u8 | columns u16 | rows u32 | changes i64 | the values, row by row

// The tags of packed values.
const (
	tagNull    = abi.TagNull
	tagInteger = abi.TagInteger
	tagReal    = abi.TagReal
	tagText    = abi.TagText
	tagBlob    = abi.TagBlob
)

// maxBeside bounds the list of names beside a database, in bytes.
const maxBeside = 64 << 20

// headerSize is the size of an answer without rows, in bytes.
const headerSize = 16

// header begins an answer.
type header struct {
	done          bool // the statement has finished, and was reset; else more rows wait
	inTransaction bool
	columns       int
	rows          int
	changes       int64 // rows changed by the last INSERT, UPDATE or DELETE that finished
}

// put writes the header to the first bytes of an answer.
func (h header) put(answer []byte) {
	answer[0], answer[1] = bit(h.done), bit(h.inTransaction)
	binary.LittleEndian.PutUint16(answer[2:], uint16(h.columns))
	binary.LittleEndian.PutUint32(answer[4:], uint32(h.rows))
	binary.LittleEndian.PutUint64(answer[8:], uint64(h.changes))
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// readHeader reads a header, and returns the values behind it.
func readHeader(answer []byte) (h header, values []byte, err error) {
	if len(answer) < headerSize {
		return h, nil, badPacking("an answer of %d bytes", len(answer))
	}
	h = header{
		done:          answer[0] != 0,
		inTransaction: answer[1] != 0,
		columns:       int(binary.LittleEndian.Uint16(answer[2:])),
		rows:          int(binary.LittleEndian.Uint32(answer[4:])),
		changes:       int64(binary.LittleEndian.Uint64(answer[8:])),
	}
	return h, answer[headerSize:], nil
}

// value is one packed value. Its bytes are a part of the packing.
type value struct {
	tag   byte
	bits  uint64 // of an INTEGER or a REAL
	bytes []byte // of a TEXT or a BLOB; not nil
}

func (v value) integer() int64 { return int64(v.bits) }
func (v value) real() float64  { return math.Float64frombits(v.bits) }

// nextValue takes the first value off a packing.
func nextValue(packed []byte) (v value, rest []byte, err error) {
	if len(packed) == 0 {
		return v, nil, badPacking("a value is missing")
	}
	v.tag, rest = packed[0], packed[1:]
	switch v.tag {
	case tagNull:
		return v, rest, nil
	case tagInteger, tagReal:
		if len(rest) < 8 {
			return v, nil, badPacking("a number of %d bytes", len(rest))
		}
		v.bits = binary.LittleEndian.Uint64(rest)
		return v, rest[8:], nil
	case tagText, tagBlob:
		if len(rest) < 4 {
			return v, nil, badPacking("a length of %d bytes", len(rest))
		}
		n := uint64(binary.LittleEndian.Uint32(rest))
		if rest = rest[4:]; n > uint64(len(rest)) {
			return v, nil, badPacking("a value of %d bytes in %d", n, len(rest))
		}
		v.bytes = rest[:n:n]
		return v, rest[n:], nil
	}
	return v, nil, badPacking("tag %d", v.tag)
}

func badPacking(format string, args ...any) error {
	return schema.Errorf(schema.Invalid, "packed values are damaged: "+format, args...)
}

func appendNull(packed []byte) []byte { return append(packed, tagNull) }

func appendInteger(packed []byte, v int64) []byte {
	return binary.LittleEndian.AppendUint64(append(packed, tagInteger), uint64(v))
}

func appendReal(packed []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(append(packed, tagReal), math.Float64bits(v))
}

func appendBytes[B string | []byte](packed []byte, tag byte, v B) []byte {
	packed = binary.LittleEndian.AppendUint32(append(packed, tag), uint32(len(v)))
	return append(packed, v...)
}

// appendParams packs the arguments of a statement.
func appendParams(packed []byte, args []any) ([]byte, error) {
	for i, arg := range args {
		if n := lengthOf(arg); n > maxRow {
			return packed, tooLong(n)
		}
		switch v := arg.(type) {
		case nil:
			packed = appendNull(packed)
		case int:
			packed = appendInteger(packed, int64(v))
		case int64:
			packed = appendInteger(packed, v)
		case bool:
			packed = appendInteger(packed, int64(bit(v)))
		case float64:
			packed = appendReal(packed, v)
		case string:
			packed = appendBytes(packed, tagText, v)
		case []byte:
			if v == nil {
				packed = appendNull(packed)
				continue
			}
			packed = appendBytes(packed, tagBlob, v)
		case Text:
			if v == nil {
				packed = appendNull(packed)
				continue
			}
			packed = appendBytes(packed, tagText, []byte(v))
		default:
			return packed, fmt.Errorf("sqlite: parameter %d: no binding for %T", i+1, arg)
		}
	}
	return packed, nil
}

func lengthOf(arg any) int {
	switch v := arg.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	case Text:
		return len(v)
	}
	return 0
}

// Results below zero are failures: minus a result code of SQLite, or the number that wasm/abi gives one of the
// product's codes, moved out of the way of those.
const codeOffset = abi.CodeBase

// result returns the number of a failure.
func result(err error) int32 {
	if f, ok := failureOf(err); ok && f.code > 0 && f.code < -codeOffset {
		return -int32(f.code)
	}
	return codeOffset + abi.Number(schema.CodeOf(err))
}

// crossedError returns the failure that a number and its text stand for.
func crossedError(path string, result int64, text string) error {
	if result > codeOffset {
		return translate(path, &failure{resultCode(-result), textError(text)})
	}
	code, ok := abi.CodeOf(int32(max(result-codeOffset, math.MinInt32)))
	if !ok {
		code = schema.Storage
	}
	return &schema.Error{Code: code, Detail: text}
}

// textError is an error of which only the text has crossed.
type textError string

func (e textError) Error() string { return string(e) }

// appendBeside packs what [Beside] returns.
func appendBeside(packed []byte, exists bool, names []string) []byte {
	packed = appendInteger(packed, int64(bit(exists)))
	for _, name := range names {
		packed = appendBytes(packed, tagText, name)
	}
	return packed
}

// readBeside is the opposite of appendBeside.
func readBeside(packed []byte) (exists bool, names []string, err error) {
	v, packed, err := nextValue(packed)
	if err == nil && v.tag != tagInteger {
		err = badPacking("tag %d, not an INTEGER", v.tag)
	}
	exists = v.integer() != 0
	for err == nil && len(packed) > 0 {
		v, packed, err = nextValue(packed)
		if err == nil && v.tag != tagText {
			err = badPacking("tag %d, not a TEXT", v.tag)
		}
		names = append(names, string(v.bytes))
	}
	if err != nil {
		return false, nil, err
	}
	return exists, names, nil
}
