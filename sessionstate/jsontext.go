package sessionstate

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' } // JSON's, but for the newline
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isHex(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// skipPlain returns the index of the first byte from p[i:] on that is special in a JSON string (a quote, a
// backslash or a control character), or len(p). It looks at eight bytes at a time, and at sixteen in long strings.
func skipPlain(p []byte, i int) int {
	for ; i+16 <= len(p); i += 16 {
		q := p[i : i+16]
		if special := specialBytes(binary.LittleEndian.Uint64(q)); special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
		if special := specialBytes(binary.LittleEndian.Uint64(q[8:])); special != 0 {
			return i + 8 + bits.TrailingZeros64(special)/8
		}
	}
	for ; i+8 <= len(p); i += 8 {
		if special := specialBytes(binary.LittleEndian.Uint64(p[i:])); special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for ; i < len(p); i++ {
		if c := p[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// specialBytes sets the top bit of the lowest special byte of eight, and perhaps of bytes above that one.
func specialBytes(w uint64) uint64 {
	const (
		low  = 0x0101010101010101
		high = 0x8080808080808080
	)
	// b-1 borrows from the top bit only if b is 0, b-' ' only if b < ' ', and b's own top bit must be clear.
	quote, slash := w^('"'*low), w^('\\'*low)
	return ((quote-low)&^quote | (slash-low)&^slash | (w-' '*low)&^w) & high
}

// jsSpace reports whether r begins (space) or is (whole) the UTF-8 form of a non-ASCII character that JavaScript's
// trim removes.
func jsSpace(r []byte) (space, whole bool) {
	for _, s := range jsSpaces {
		if len(r) <= len(s) && s[:len(r)] == string(r) {
			return true, len(r) == len(s)
		}
	}
	return false, false
}

var jsSpaces = [...]string{
	"\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008",
	"\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "\ufeff",
}

// appendDecoded appends to dst the text of a valid JSON string, given without its quotes, as Pi sees it. A
// sequence that isn't UTF-8 becomes U+FFFD, one for each maximal part of a character as the Encoding Standard
// counts them. An unpaired surrogate from an escape keeps its identity as the three bytes that it would have in UTF-8,
// so that ids that differ for Pi differ here.
func appendDecoded(dst, raw []byte) []byte {
	for len(raw) > 0 {
		plain := raw
		if k := bytes.IndexByte(raw, '\\'); k >= 0 {
			plain = raw[:k]
		}
		dst = appendUTF8(dst, plain)
		if raw = raw[len(plain):]; len(raw) == 0 {
			break
		}
		c := raw[1]
		if raw = raw[2:]; c != 'u' {
			dst = append(dst, unescape(c))
			continue
		}
		u := hex4(raw)
		raw = raw[4:]
		if isHigh(u) && len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' && isLow(hex4(raw[2:])) {
			dst = utf8.AppendRune(dst, 0x10000+(u-0xd800)<<10+hex4(raw[2:])-0xdc00)
			raw = raw[6:]
		} else if isHigh(u) || isLow(u) {
			dst = append(dst, 0xe0|byte(u>>12), 0x80|byte(u>>6)&0x3f, 0x80|byte(u)&0x3f)
		} else {
			dst = utf8.AppendRune(dst, u)
		}
	}
	return dst
}

func isHigh(u rune) bool { return 0xd800 <= u && u < 0xdc00 }
func isLow(u rune) bool  { return 0xdc00 <= u && u < 0xe000 }

// unescape returns the character that \c stands for.
func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // a quote, a slash or a backslash
}

func hex4(b []byte) rune {
	var u rune
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			u = u<<4 | rune(c-'0')
		default:
			u = u<<4 | rune(c|0x20-'a'+10)
		}
	}
	return u
}

// appendUTF8 appends b with every ill-formed part replaced.
func appendUTF8(dst, b []byte) []byte {
	if utf8.Valid(b) {
		return append(dst, b...)
	}
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			size = illFormed(b)
		}
		dst = utf8.AppendRune(dst, r)
		b = b[size:]
	}
	return dst
}

// illFormed returns the length of the part at the start of b that one U+FFFD replaces: the longest beginning of a
// character that could have become one, or else one byte.
func illFormed(b []byte) int {
	lo, hi, want := byte(0x80), byte(0xbf), 0
	switch c := b[0]; {
	case 0xc2 <= c && c <= 0xdf:
		want = 1
	case 0xe0 <= c && c <= 0xef:
		want = 2
	case 0xf0 <= c && c <= 0xf4:
		want = 3
	}
	switch b[0] { // no overlong forms, no surrogates, nothing beyond U+10FFFF
	case 0xe0:
		lo = 0xa0
	case 0xed:
		hi = 0x9f
	case 0xf0:
		lo = 0x90
	case 0xf4:
		hi = 0x8f
	}
	n := 1
	for ; n <= want && n < len(b) && lo <= b[n] && b[n] <= hi; n++ {
		lo, hi = 0x80, 0xbf
	}
	return n
}
