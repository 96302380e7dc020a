//go:build lent || (wasip1 && !sqliteinside)

package sqlite

import (
	"bytes"
	"math"
	"strconv"
)

// page is an answer of a lent SQLite and, as a row, the one of its rows that next went to. Values are decoded
// where they lie, when they are asked for.
type page struct {
	buf  []byte
	rest []byte  // the rows that follow
	left int     // how many those are
	row  []value // of the current row
	err  error   // the packing is damaged
}

// take begins with the answer that is in the buffer.
func (p *page) take(n int64) (h header, err error) {
	h, p.rest, err = readHeader(p.buf[:n])
	p.left, p.err = h.rows, nil
	if cap(p.row) < h.columns {
		p.row = make([]value, h.columns)
	}
	p.row = p.row[:h.columns]
	return h, err
}

// next goes to the next row.
func (p *page) next() bool {
	if p.left == 0 || p.err != nil {
		return false
	}
	p.left--
	for i := range p.row {
		p.row[i], p.rest, p.err = nextValue(p.rest)
		if p.err != nil {
			return false
		}
	}
	return true
}

func (p *page) at(col int) value {
	if col < 0 || col >= len(p.row) {
		return value{}
	}
	return p.row[col]
}

func (p *page) count() int { return len(p.row) }

func (p *page) kind(col int) byte { return p.at(col).tag }

func (p *page) integer(col int) int64 {
	v := p.at(col)
	switch v.tag {
	case tagInteger:
		return v.integer()
	case tagReal:
		return truncate(v.real())
	case tagText, tagBlob:
		return integerPrefix(v.bytes)
	}
	return 0
}

func (p *page) real(col int) float64 {
	switch v := p.at(col); v.tag {
	case tagReal:
		return v.real()
	case tagInteger:
		return float64(v.integer())
	}
	return 0
}

func (p *page) text(col int) string {
	v := p.at(col)
	switch v.tag {
	case tagInteger:
		return strconv.FormatInt(v.integer(), 10)
	case tagReal:
		return strconv.FormatFloat(v.real(), 'g', -1, 64)
	}
	return string(v.bytes)
}

func (p *page) bytes(col int) []byte {
	v := p.at(col)
	switch v.tag {
	case tagNull:
		return nil
	case tagInteger, tagReal:
		return []byte(p.text(col))
	}
	return append([]byte{}, v.bytes...)
}

// truncate is SQLite's conversion of a REAL to an INTEGER: towards zero, and to the nearest there is.
func truncate(v float64) int64 {
	switch {
	case math.IsNaN(v):
		return 0
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= math.MinInt64:
		return math.MinInt64
	}
	return int64(v)
}

// integerPrefix is SQLite's conversion of a TEXT to an INTEGER: the longest beginning that is one, or 0.
func integerPrefix(text []byte) int64 {
	text = bytes.TrimLeft(text, " \t\n\v\f\r")
	end := 0
	for end < len(text) && ('0' <= text[end] && text[end] <= '9' || end == 0 && (text[0] == '-' || text[0] == '+')) {
		end++
	}
	n, _ := strconv.ParseInt(string(text[:end]), 10, 64) // out of range: the nearest
	return n
}
