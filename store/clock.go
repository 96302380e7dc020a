package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"time"

	"pistate/schema"
)

// Millis is a moment: UTC epoch milliseconds, as in columns and on wires.
type Millis int64

// MillisOf returns the moment of a time.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }

// Time returns the time of a moment.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)) }

// lockedReader makes a source of randomness safe for concurrent use.
type lockedReader struct {
	mu sync.Mutex
	r  io.Reader
}

func (l *lockedReader) read(n int) ([]byte, error) {
	b := make([]byte, n)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := io.ReadFull(l.r, b); err != nil {
		return nil, schema.Errorf(schema.Storage, "source of randomness: %w", err)
	}
	return b, nil
}

// fraction returns a number in [0, 1).
func (l *lockedReader) fraction() (float64, error) {
	b, err := l.read(8)
	if err != nil {
		return 0, err
	}
	return float64(binary.BigEndian.Uint64(b)>>11) / (1 << 53), nil
}

// derivedID returns the id that parts determine: the same in every process, and different for other parts,
// however they are cut.
func derivedID(prefix string, parts ...string) string {
	h := sha256.New()
	for _, part := range append([]string{prefix}, parts...) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a hash accepts every write
		_, _ = io.WriteString(h, part)
	}
	return prefix + "_" + hex.EncodeToString(h.Sum(nil)[:16])
}

// randomID returns an id that nobody else has.
func (l *lockedReader) randomID(prefix string) (string, error) {
	b, err := l.read(16)
	return fmt.Sprintf("%s_%x", prefix, b), err
}
