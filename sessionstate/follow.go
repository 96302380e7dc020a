package sessionstate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"pistate/schema"
)

// A follower reads a file as it grows, each byte once, and notices when it is no longer the file that it read.
type follower struct {
	path   string
	file   *os.File // stays open, so that its identity can't pass to another file
	offset int64    // how far it was read
	head   []byte   // the file's first bytes
	tail   []byte   // the bytes before offset
}

// sampleSize is how many bytes at both ends of what was read are compared before more is read.
const sampleSize = 1 << 10

// pieces are the buffers between file and scanner. A big one makes fewer system calls; it is only needed
// for the time of a read, however many files are followed.
var pieces = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// openFollower opens a regular file. It looks before it opens: opening a pipe would wait for its writer.
func openFollower(path string) (*follower, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, schema.Errorf(schema.NotFound,
			"session file %s: no session yet: the file does not exist (Pi writes it with its first answer): %w", path, err)
	}
	if err != nil {
		return nil, schema.Errorf(schema.Storage, "session file %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, schema.Errorf(schema.Invalid,
			"session file %s: this is no regular file (mode %s); name one of Pi's .jsonl files", path, info.Mode())
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, schema.Errorf(schema.Storage, "session file %s: %w", path, err)
	}
	return &follower{path: path, file: file}, nil
}

// checkSame returns schema.Replaced unless the path still leads to the open file and that still begins with what
// was read of it.
func (f *follower) checkSame() error {
	there, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return f.replaced("it was removed")
	}
	if err != nil {
		return schema.Errorf(schema.Storage, "session file %s: %w", f.path, err)
	}
	own, err := f.file.Stat()
	if err != nil {
		return schema.Errorf(schema.Storage, "session file %s: %w", f.path, err)
	}
	if !os.SameFile(there, own) {
		return f.replaced("another file took its place")
	}
	for _, sample := range [...]struct {
		at    int64
		bytes []byte
	}{{0, f.head}, {f.offset - int64(len(f.tail)), f.tail}} {
		var buf [sampleSize]byte
		now := buf[:len(sample.bytes)]
		if _, err := f.file.ReadAt(now, sample.at); errors.Is(err, io.EOF) {
			return f.replaced("it became shorter")
		} else if err != nil {
			return schema.Errorf(schema.Storage, "session file %s: %w", f.path, err)
		}
		if !bytes.Equal(now, sample.bytes) {
			return f.replaced("it was rewritten in place")
		}
	}
	return nil
}

func (f *follower) replaced(how string) error {
	return schema.Errorf(schema.Replaced,
		"session file %s: %s while it was followed; open it again to use what is there now", f.path, how)
}

// readNew gives everything from offset to the end of the file to feed, in pieces that are valid during the call.
// An error of feed ends it and is returned as it is.
func (f *follower) readNew(ctx context.Context, feed func([]byte) error) error {
	buf := pieces.Get().(*[256 << 10]byte)
	defer pieces.Put(buf)
	for {
		if err := ctx.Err(); err != nil {
			return schema.Errorf(schema.Canceled, "session file %s: reading stopped at byte %d: %w", f.path, f.offset, err)
		}
		n, err := f.file.ReadAt(buf[:], f.offset)
		f.remember(buf[:n])
		if feedErr := feed(buf[:n]); feedErr != nil {
			return feedErr
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return schema.Errorf(schema.Storage, "session file %s: %w", f.path, err)
		}
	}
}

// remember moves offset behind p and keeps the samples.
func (f *follower) remember(p []byte) {
	f.offset += int64(len(p))
	if room := sampleSize - len(f.head); room > 0 {
		f.head = append(f.head, p[:min(room, len(p))]...)
	}
	if len(p) >= sampleSize {
		f.tail = append(f.tail[:0], p[len(p)-sampleSize:]...)
		return
	}
	if over := len(f.tail) + len(p) - sampleSize; over > 0 {
		f.tail = f.tail[:copy(f.tail, f.tail[over:])]
	}
	f.tail = append(f.tail, p...)
}
