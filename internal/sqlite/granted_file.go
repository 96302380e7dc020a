//go:build !wasip1

package sqlite

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"pistate/schema"
	"pistate/wasm/abi"
)

// GrantedFile is the host's side of one database file, and of the -wal and -journal beside it, that is granted
// to a guest which brings its own SQLite: the functions of the import module pistate_file_v1. It opens nothing
// else, follows no link that has come since the path was resolved (S10), creates files with mode 0600 and
// directories with mode 0700 (S5), and takes the locks that any other SQLite takes on the file.
//
// A guest changes nothing before it has the exclusive lock: every write is refused until then. So whatever the
// guest does, it harms no one who has the database open.
//
// The methods, but for Close, give what the guest gets: a result of 0 or more, or a negative number, which is
// either the negated result code of SQLite or, from -65537 down, -65536 with the number of a code in package
// abi added. Every parameter may be anything: a wrong one is answered with [schema.Invalid]'s number. Where
// there is a context, it is the running call's, and once it is over the answer is SQLite's INTERRUPT, so that
// waiting ends. All methods can be used by several goroutines, one after the other.
type GrantedFile struct {
	path string

	mu     sync.Mutex
	files  [grantedFiles]*granted
	level  vfs.LockLevel
	closed bool
	text   string // of the last error
}

// granted is a file that is open. There is one descriptor of each: where locks are POSIX locks, closing
// another one of the same file would drop them.
type granted struct {
	file *os.File
	openedFile
	unnamed bool // it was created, and its name is not durable yet
}

// GrantFile grants the database at a resolved path ([Resolve]), which need not exist. Nothing is opened yet.
func GrantFile(path string) *GrantedFile { return &GrantedFile{path: path} }

// Close closes all files, which ends the locks. What the guest has not finished is left as a crash would leave
// it. Closing twice is harmless.
func (g *GrantedFile) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	var err error
	for n := range g.files {
		err = join(err, g.closeFile(int32(n)))
	}
	if err != nil {
		return schema.Errorf(schema.Storage, "close %s: %w", g.path, err)
	}
	return nil
}

// do runs one function for the guest and turns its outcome into a result. unknown is SQLite's code for an
// error that says none.
func (g *GrantedFile) do(unknown sqlite3.ExtendedErrorCode, f func() (int64, error)) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return g.fail(schema.Errorf(schema.Closed, "%s: the file was taken back", g.path), unknown)
	}
	n, err := f()
	if err != nil {
		return g.fail(err, unknown)
	}
	return n
}

// Refuse keeps the text of an error that was found before anything of the file was asked for, such as a window
// outside the guest's memory, and returns its number.
func (g *GrantedFile) Refuse(err error) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fail(err, sqlite3.ExtendedErrorCode(sqlite3.IOERR))
}

// fail keeps the text of an error and returns its number.
func (g *GrantedFile) fail(err error, unknown sqlite3.ExtendedErrorCode) int64 {
	g.text = abi.Message(err.Error())
	_, said := failureOf(err)
	_, coded := errors.AsType[*schema.Error](err)
	switch {
	case said:
	case isFull(err):
		err = &failure{codeFull, err}
	case !coded:
		err = &failure{resultCode(unknown), err}
	}
	return int64(result(err))
}

// name returns the path of a file.
func (g *GrantedFile) name(file int32) (string, error) {
	if file < 0 || file >= grantedFiles {
		return "", schema.Errorf(schema.Invalid, "file %d: it is 0 for the database, 1 for its -wal or 2 for its -journal", file)
	}
	return g.path + grantedSuffixes[file], nil
}

// open returns a file that is open.
func (g *GrantedFile) open(file int32) (*granted, error) {
	name, err := g.name(file)
	if err != nil {
		return nil, err
	}
	if g.files[file] == nil {
		return nil, schema.Errorf(schema.Invalid, "%s is not open", name)
	}
	return g.files[file], nil
}

// owned returns a file that is open and may be changed: only the owner of the database changes anything.
func (g *GrantedFile) owned(file int32) (*granted, error) {
	f, err := g.open(file)
	if err != nil {
		return nil, err
	}
	return f, g.mustOwn()
}

func (g *GrantedFile) mustOwn() error {
	if g.level < vfs.LOCK_EXCLUSIVE {
		return schema.Errorf(schema.Denied, "%s: nothing is changed without the exclusive lock of the database", g.path)
	}
	return nil
}

// Exists returns 1 if there is something at the path of a file, else 0.
func (g *GrantedFile) Exists(file int32) int64 {
	return g.do(sqlite3.IOERR_ACCESS, func() (int64, error) {
		name, err := g.name(file)
		if err != nil {
			return 0, err
		}
		if _, err = os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		return 1, err
	})
}

// Size returns the size of a file in bytes.
func (g *GrantedFile) Size(file int32) int64 {
	return g.do(sqlite3.IOERR_FSTAT, func() (int64, error) {
		f, err := g.open(file)
		if err != nil {
			return 0, err
		}
		info, err := f.file.Stat()
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	})
}

// Truncate cuts a file to a size in bytes, or fills it up to that with zeros. A size over 1 TiB is refused with
// [schema.Limit].
func (g *GrantedFile) Truncate(file int32, size int64) int64 {
	return g.do(sqlite3.IOERR_TRUNCATE, func() (int64, error) {
		f, err := g.owned(file)
		if err != nil {
			return 0, err
		}
		if err := checkRange(f.path, size, 0); err != nil {
			return 0, err
		}
		return 0, f.file.Truncate(size)
	})
}

// checkRange refuses to make a file that ends beyond the largest size.
func checkRange(path string, off int64, n int) error {
	switch {
	case off < 0:
		return schema.Errorf(schema.Invalid, "%s: offset or size %d is negative", path, off)
	case off > maxGranted-int64(n):
		return schema.Errorf(schema.Limit, "%s: %d bytes at %d: a granted file has at most %d bytes", path, n, off, int64(maxGranted))
	}
	return nil
}

// Sync makes durable what was written to a file, and its name if it was created.
func (g *GrantedFile) Sync(file int32) int64 {
	return g.do(sqlite3.IOERR_FSYNC, func() (int64, error) {
		f, err := g.open(file)
		if err != nil {
			return 0, err
		}
		if err := syncData(f.file); err != nil {
			return 0, err
		}
		if f.unnamed {
			if err := syncNames(f.path); err != nil {
				return 0, err
			}
			f.unnamed = false
		}
		return 0, nil
	})
}

// Read reads a file at an offset and returns how many bytes there were: fewer than asked for at its end.
func (g *GrantedFile) Read(ctx context.Context, file int32, p []byte, off int64) int64 {
	return g.do(sqlite3.IOERR_READ, func() (int64, error) {
		f, err := g.open(file)
		if err != nil {
			return 0, err
		}
		if err := interrupted(ctx); err != nil {
			return 0, err
		}
		if off < 0 {
			return 0, schema.Errorf(schema.Invalid, "%s: offset %d is negative", f.path, off)
		}
		if off > maxGranted {
			return 0, nil // nothing is there, and the operating system may refuse to look
		}
		n, err := f.file.ReadAt(p, off)
		if err == io.EOF {
			err = nil
		}
		return int64(n), err
	})
}

// Write writes to a file at an offset. Where the file would end beyond 1 TiB it is refused with [schema.Limit];
// a full disk is SQLite's FULL.
func (g *GrantedFile) Write(ctx context.Context, file int32, p []byte, off int64) int64 {
	return g.do(sqlite3.IOERR_WRITE, func() (int64, error) {
		f, err := g.owned(file)
		if err != nil {
			return 0, err
		}
		if err := interrupted(ctx); err != nil {
			return 0, err
		}
		if err := checkRange(f.path, off, len(p)); err != nil {
			return 0, err
		}
		_, err = f.file.WriteAt(p, off)
		return 0, err
	})
}

func interrupted(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &failure{codeInterrupted, err}
	}
	return nil
}

// InPlace returns 0 if each file that is open is the one at its path, else the number of [schema.Replaced] (S9).
func (g *GrantedFile) InPlace() int64 {
	return g.do(sqlite3.IOERR_FSTAT, func() (int64, error) { return 0, g.mustBeInPlace() })
}

func (g *GrantedFile) mustBeInPlace() error {
	for _, f := range g.files {
		if f == nil {
			continue
		}
		if moved, err := f.moved(); err != nil {
			return err
		} else if moved {
			return replaced(g.path)
		}
	}
	return nil
}

// Beside copies, if there is room for it, and returns the length of what is at the path and beside it, as packed
// values: an INTEGER, 1 if the database exists and isn't empty, else 0, and a TEXT for each name in its
// directory, in order (S6). A directory that doesn't exist has none.
func (g *GrantedFile) Beside(p []byte) int64 {
	return g.do(sqlite3.IOERR_ACCESS, func() (int64, error) {
		exists, names, err := besideFile(g.path)
		if err != nil {
			return 0, err
		}
		return abi.Give(p, appendBeside(nil, exists, names)), nil
	})
}

// Error copies the text of the last error, of at most 4096 bytes, if there is room for all of it, and returns
// its length.
func (g *GrantedFile) Error(p []byte) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return abi.Give(p, []byte(g.text))
}
