//go:build !wasip1

package sqlite

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"pistate/schema"
)

// Reader reads a database and never writes to it, to its -wal, or to its directory (I1). It is for one
// goroutine at a time.
//
// Where somebody has the database open, it reads beside them as any other connection, and only then does
// it touch the -shm file, which is where connections note what they are reading. A database at rest is
// read without locks, with its WAL if it was left one; should a writer come and change the files in the
// middle of a read, the read is done again. Only a journal that would have to be played back first makes
// the Reader work on a private copy.
type Reader struct {
	path   string
	verify func(*Rx) error
	check  bool // see opening
	own    bool // the file is nobody else's: no need to look out for others

	conn     *conn
	atRest   map[string]fileID // the files when a connection without locks was opened; nil for a live one
	private  bool              // the connection is to a copy
	opened   int64             // counts connections
	verified bool              // with the schema cookie that follows
	cookie   int64
}

// errChanged says that the files changed while they were being read without a lock.
var errChanged = errors.New("sqlite: the file changed during the read")

// OpenReader opens the database at a resolved path and verifies it.
//
// Errors: [schema.NotFound] where there is no file, [schema.Invalid] for what can't be a database,
// [schema.Incompatible] for an empty file, [schema.Corrupt], [schema.Busy], [schema.Storage], and those
// of verify.
func OpenReader(ctx context.Context, path string, verify func(*Rx) error) (*Reader, error) {
	r := &Reader{path: path, verify: verify}
	if err := r.Read(ctx, func(*Rx) error { return nil }); err != nil {
		return nil, join(err, r.Close())
	}
	return r, nil
}

// Path returns the resolved path.
func (r *Reader) Path() string { return r.path }

// Read runs fn on one consistent snapshot. fn may run several times, so it must start afresh each time.
// It should not wait for anything: on a live database an open snapshot keeps the WAL from being reset.
func (r *Reader) Read(ctx context.Context, fn func(*Rx) error) error {
	return r.repeat(ctx, func() error {
		return r.conn.view(ctx, func(rx *Rx) error {
			if err := r.verifyOnce(rx); err != nil {
				return err
			}
			return fn(rx)
		})
	})
}

// verifyOnce verifies a connection's database, and again whenever its schema has changed.
func (r *Reader) verifyOnce(rx *Rx) error {
	cookie, err := rx.c.integer("PRAGMA schema_version")
	if err != nil || r.verified && cookie == r.cookie {
		return err
	}
	r.verified = false
	if err := r.verify(rx); err != nil {
		return located(r.path, err)
	}
	r.verified, r.cookie = true, cookie
	return nil
}

// DataVersion returns a number that changes when anybody has committed to the database.
func (r *Reader) DataVersion(ctx context.Context) (version int64, err error) {
	err = r.repeat(ctx, func() error {
		r.conn.interrupt(ctx)
		defer r.conn.interrupt(context.Background())
		version, err = r.conn.integer("PRAGMA data_version")
		version += r.opened << 32 // each connection counts from 1
		return err
	})
	return version, err
}

// Close closes the connection. The Reader can be used again.
func (r *Reader) Close() error {
	var err error
	if r.conn != nil {
		err = r.conn.close()
	}
	r.conn, r.atRest, r.private, r.verified = nil, nil, false, false
	return err
}

// attempts bounds how often a read is done again because the file changed under it.
const attempts = 5

// repeat calls use with a connection to the file that is at the path now, and again if it turns out that
// the files changed meanwhile.
func (r *Reader) repeat(ctx context.Context, use func() error) error {
	for range attempts {
		kept := r.conn != nil
		err := r.open(ctx)
		if err == nil {
			err = use()
		}
		again, cerr := r.mustRepeat(err, kept)
		if cerr == nil && !again && r.conn != nil && r.conn.broken() == nil {
			return err
		}
		cerr = join(cerr, r.Close())
		if cerr != nil || !again {
			return join(err, cerr)
		}
	}
	return schema.Errorf(schema.Busy, "%s: the file changed during each of %d reads; try again", r.path, attempts)
}

// mustRepeat reports whether the outcome of a read is worthless.
func (r *Reader) mustRepeat(err error, kept bool) (bool, error) {
	switch {
	case errors.Is(err, errChanged):
		return true, nil
	case errors.Is(err, schema.Canceled):
		return false, nil
	case r.atRest == nil:
		// A connection that was kept may have been overtaken: by a change of the journal mode, or by all
		// others having gone.
		return kept && err != nil && cannotShare(err), nil
	case r.own || r.private:
		return false, nil
	}
	// New files beside the database do no harm. What was read must be as it was.
	for _, suffix := range []string{"", "-wal"} {
		before := r.atRest[suffix]
		if suffix != "" && before.size() == 0 {
			continue
		}
		now, err := identify(r.path + suffix)
		if err != nil || !now.same(before) {
			return true, translate(r.path+suffix, err)
		}
	}
	return false, nil
}

// open makes sure that there is a connection to the file that is at the path now.
func (r *Reader) open(ctx context.Context) error {
	if r.conn != nil {
		if moved, err := r.moved(); err != nil || !moved {
			return err
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	main, err := identify(r.path)
	if err != nil {
		return translate(r.path, err)
	}
	if main.info == nil {
		return schema.Errorf(schema.NotFound, "%s: no such database", r.path)
	}
	if err := mustBeFile(r.path, main.info); err != nil {
		return err
	}
	if main.size() == 0 {
		return schema.Errorf(schema.Incompatible, "%s is empty (0 bytes): its first writer did not finish, or it is no database", r.path)
	}
	r.opened++
	return r.connect(ctx)
}

func (r *Reader) connect(ctx context.Context) (err error) {
	if !r.own {
		if r.conn, err = openReading(ctx, r.path, opening{role: reader, check: r.check}); err == nil || !cannotShare(err) {
			return err
		}
	}
	files, err := r.settled(ctx)
	if err != nil {
		return err
	}
	r.atRest = files
	if r.private = files["-journal"].size() > 0 && !r.own; r.private {
		r.conn, err = r.openCopy(ctx, files)
	} else {
		r.conn, err = openReading(ctx, r.path, opening{role: frozen, check: r.check})
	}
	return err
}

func openReading(ctx context.Context, path string, o opening) (*conn, error) {
	c, err := openConn(ctx, path, o)
	if err != nil {
		return nil, err
	}
	if _, err := c.integer("PRAGMA schema_version"); err != nil { // the first access, which may fail in many ways
		return nil, join(err, c.close())
	}
	c.interrupt(context.Background())
	return c, nil
}

// moved reports whether the open connection is not what open would choose now.
func (r *Reader) moved() (bool, error) {
	if r.atRest != nil {
		now, err := r.identifyAll()
		return err == nil && !sameContent(now, r.atRest), err
	}
	err := r.conn.inPlace()
	if errors.Is(err, schema.Replaced) {
		return true, nil
	}
	return false, err
}

// copied are the files that make up the content of a database.
var copied = []string{"", "-wal", "-journal"}

func (r *Reader) identifyAll() (map[string]fileID, error) {
	files := map[string]fileID{}
	for _, suffix := range copied {
		id, err := identify(r.path + suffix)
		if err != nil {
			return nil, translate(r.path+suffix, err)
		}
		files[suffix] = id
	}
	return files, nil
}

func sameContent(a, b map[string]fileID) bool {
	for _, suffix := range copied {
		if !a[suffix].same(b[suffix]) {
			return false
		}
	}
	return true
}

// tick is longer than the steps of the clock that dates files: two changes within one step can't be told
// apart.
const tick = 20 * time.Millisecond

// settled returns the state of files that are to be read without a lock. It waits until their last change is
// so long ago that the next one will show.
func (r *Reader) settled(ctx context.Context) (map[string]fileID, error) {
	for range attempts {
		files, err := r.identifyAll()
		if err != nil || r.own {
			return files, err
		}
		wait := time.Duration(0)
		for _, f := range files {
			if f.info != nil {
				wait = max(wait, min(tick, tick-time.Since(f.info.ModTime())))
			}
		}
		if wait == 0 {
			return files, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, translate(r.path, ctx.Err())
		}
		if now, err := r.identifyAll(); err != nil || sameContent(now, files) {
			return now, err
		}
	}
	return nil, errChanged
}

// openCopy copies the files, and opens the copy so that SQLite can play back the journal in it. The copy has
// no name any more when openCopy returns, so nothing is left of it whatever happens to the process.
func (r *Reader) openCopy(ctx context.Context, before map[string]fileID) (c *conn, err error) {
	dir, err := os.MkdirTemp("", "pistate-read-")
	if err == nil {
		defer func() { err = join(err, os.RemoveAll(dir)) }()
		err = os.Chmod(dir, dirMode)
	}
	if err != nil {
		return nil, schema.Errorf(schema.Storage, "private copy of %s: %w", r.path, err)
	}
	private := filepath.Join(dir, "copy.sqlite")
	for _, suffix := range copied {
		err := copyFile(ctx, private+suffix, r.path+suffix)
		if err != nil && (suffix == "" || !errors.Is(err, os.ErrNotExist)) {
			if ctx.Err() != nil {
				return nil, translate(r.path, ctx.Err())
			}
			return nil, schema.Errorf(schema.Storage, "private copy of %s: %w", r.path+suffix, err)
		}
	}
	after, err := r.identifyAll()
	if err != nil {
		return nil, err
	}
	if !sameContent(before, after) {
		return nil, errChanged
	}
	if c, err = openReading(ctx, private, opening{role: writer, check: r.check}); err != nil {
		return nil, err
	}
	c.path, c.native().path = r.path, r.path // errors name the file that the user knows
	if err := c.exec("PRAGMA query_only = ON"); err != nil {
		return nil, join(err, c.close())
	}
	return c, nil
}

func copyFile(ctx context.Context, dst, src string) (err error) {
	// Opening the file directly is safe here alone: no connection of this process holds it.
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer func() { err = join(err, out.Close()) }()
	if err := out.Chmod(fileMode); err != nil {
		return err
	}
	_, err = io.Copy(out, contextReader{ctx, in})
	return err
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
