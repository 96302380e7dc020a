package sqlite

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

// pool is a few reading connections, opened when needed and kept.
type pool struct {
	open func() (*conn, error)

	mu     sync.Mutex
	idle   []*conn
	slots  chan struct{} // one token per connection in use
	closed error
}

func (p *pool) with(ctx context.Context, fn func(*Rx) error) error {
	c, err := p.get(ctx)
	if err != nil {
		return err
	}
	defer p.put(c)
	return c.view(ctx, fn)
}

func (p *pool) get(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	if p.slots == nil {
		p.slots = make(chan struct{}, maxReaders)
	}
	slots := p.slots
	p.mu.Unlock()
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, schema.Errorf(schema.Canceled, "read was not begun: %w", ctx.Err())
	}
	c, err := p.pop()
	if c == nil && err == nil {
		c, err = p.open()
	}
	if err != nil {
		<-slots
		return nil, err
	}
	return c, nil
}

func (p *pool) pop() (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil || len(p.idle) == 0 {
		return nil, p.closed
	}
	c := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return c, nil
}

func (p *pool) put(c *conn) {
	p.mu.Lock()
	closed := p.closed != nil
	if !closed {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if closed {
		_ = c.close() // a reading connection holds nothing that could be lost
	}
	<-p.slots
}

func (p *pool) close(reason error) error {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, reason
	p.mu.Unlock()
	var errs []error
	for _, c := range idle {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// view runs fn on one snapshot of the connection.
func (c *conn) view(ctx context.Context, fn func(*Rx) error) (err error) {
	c.db.SetInterrupt(ctx)
	defer c.db.SetInterrupt(context.Background())
	if err := c.exec("BEGIN DEFERRED"); err != nil {
		return err
	}
	defer func() {
		c.db.SetInterrupt(context.Background())
		err = errors.Join(err, c.rollback())
	}()
	return fn(&Rx{c})
}

// openLive opens a connection that shares a database with writers and creates no file.
func openLive(path string) (*conn, error) { return openReading(path, readerParam, "1") }

// openImmutable opens a database that no process has open and that has no WAL: no lock, no other file.
func openImmutable(path string) (*conn, error) { return openReading(path, "immutable", "1") }

func openReading(path string, params ...string) (*conn, error) {
	c, err := openConn(context.Background(), path, sqlite3.OPEN_READONLY, params...)
	if err != nil {
		return nil, err
	}
	err = c.db.BusyTimeout(busyTimeout)
	if err == nil {
		err = c.exec("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY")
	}
	if err == nil {
		_, err = c.pragma("schema_version") // SQLite opens the file only now
	}
	if err != nil {
		return nil, errors.Join(translate(path, err), c.close())
	}
	return c, nil
}

// Reader reads a database and never writes to it, to its -wal and -shm, or to its directory (I1). It is
// for one goroutine at a time.
//
// Where a writer has the database open, or left its -shm file, it reads beside it as any other connection.
// A database at rest is read as an immutable file; should a writer come and change it in the middle of a
// read, the read is done again. A WAL that can't be read in place (its -shm is gone, or may not be opened)
// is read from a private copy.
type Reader struct {
	path    string
	verify  func(*Rx) error
	conn    *conn
	atRest  map[string]fileID // the files when an immutable or private connection was opened; nil for a live one
	scratch string            // directory of a private copy
}

// errChanged says that the files changed while they were being read without a lock.
var errChanged = errors.New("sqlite: the file changed during the read")

// OpenReader opens the database at a resolved path and verifies it.
func OpenReader(ctx context.Context, path string, verify func(*Rx) error) (*Reader, error) {
	r := &Reader{path: path, verify: verify}
	if err := r.Read(ctx, func(*Rx) error { return nil }); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Path returns the resolved path.
func (r *Reader) Path() string { return r.path }

// attempts bounds how often a read is done again because the file changed under it.
const attempts = 5

// Read runs fn on one consistent snapshot. fn may run several times, so it must start afresh each time.
// It should not wait for anything: on a live database an open snapshot keeps the WAL from being reset.
func (r *Reader) Read(ctx context.Context, fn func(*Rx) error) error {
	for range attempts {
		err := r.open(ctx)
		if err == nil {
			err = r.conn.view(ctx, func(rx *Rx) error {
				if err := r.verify(rx); err != nil {
					return err
				}
				return fn(rx)
			})
		}
		if err == nil || !errors.Is(err, errChanged) {
			changed, cerr := r.changedInRead()
			if cerr != nil {
				return cerr
			}
			if !changed {
				return err
			}
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	return schema.Errorf(schema.Busy, "%s: the file changed during each of %d reads; try again", r.path, attempts)
}

// changedInRead reports whether what was just read may mix two states of an immutable file. Only the main
// file was read, so a WAL that has appeared since does no harm.
func (r *Reader) changedInRead() (bool, error) {
	if r.atRest == nil || r.scratch != "" {
		return false, nil
	}
	now, err := identify(r.path)
	return err == nil && !now.same(r.atRest[""]), translate(r.path, err)
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
	switch {
	case main.info == nil:
		return schema.Errorf(schema.NotFound, "%s: no such database", r.path)
	case main.info.IsDir():
		return schema.Errorf(schema.Invalid, "%s is a directory, not a database file", r.path)
	case !main.info.Mode().IsRegular():
		return schema.Errorf(schema.Invalid, "%s is not a regular file", r.path)
	case main.size() == 0:
		return schema.Errorf(schema.Incompatible, "%s is empty (0 bytes): its first writer did not finish, or it is no database", r.path)
	}
	return r.connect(ctx)
}

func (r *Reader) connect(ctx context.Context) (err error) {
	files, err := r.identifyAll()
	if err != nil {
		return err
	}
	if files["-shm"].info != nil && files["-wal"].info != nil {
		if r.conn, err = openLive(r.path); err == nil || !cannotShare(err) {
			return err
		}
	}
	if files["-wal"].size() == 0 && files["-journal"].size() == 0 {
		r.conn, err = openImmutable(r.path)
	} else {
		err = r.copyAndOpen(ctx, files)
	}
	r.atRest = files
	return err
}

func (r *Reader) identifyAll() (map[string]fileID, error) {
	files := map[string]fileID{}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		id, err := identify(r.path + suffix)
		if err != nil {
			return nil, translate(r.path+suffix, err)
		}
		files[suffix] = id
	}
	return files, nil
}

// cannotShare reports whether an error means that the -wal or -shm file can't be used from here.
func cannotShare(err error) bool {
	for _, code := range []sqlite3.ErrorCode{sqlite3.CANTOPEN, sqlite3.READONLY, sqlite3.PERM, sqlite3.IOERR} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// copied are the files that make up the content of a database.
var copied = []string{"", "-wal", "-journal"}

// copyAndOpen reads the database with its WAL or journal from a private copy, which is a snapshot itself.
func (r *Reader) copyAndOpen(ctx context.Context, before map[string]fileID) (err error) {
	if r.scratch, err = os.MkdirTemp("", "pistate-read-"); err != nil {
		return schema.Errorf(schema.Storage, "private copy of %s: %w", r.path, err)
	}
	private := filepath.Join(r.scratch, "copy.sqlite")
	for _, suffix := range copied {
		err := copyFile(ctx, private+suffix, r.path+suffix)
		if err != nil && (suffix == "" || !errors.Is(err, os.ErrNotExist)) {
			return schema.Errorf(schema.Storage, "private copy of %s: %w", r.path+suffix, err)
		}
	}
	after, err := r.identifyAll()
	if err != nil {
		return err
	}
	if !sameContent(before, after) {
		return errChanged
	}
	if r.conn, err = openConn(context.Background(), private, sqlite3.OPEN_READWRITE); err != nil {
		return err
	}
	r.conn.path = r.path // errors name the file that the user knows
	if _, err = r.conn.pragma("schema_version"); err == nil {
		err = r.conn.exec("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY")
	}
	return err
}

func sameContent(a, b map[string]fileID) bool {
	for _, suffix := range copied {
		if !a[suffix].same(b[suffix]) {
			return false
		}
	}
	return true
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
	defer func() { err = errors.Join(err, out.Close()) }()
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

// moved reports whether another file is at the path than the one that is open.
func (r *Reader) moved() (bool, error) {
	if r.atRest != nil {
		now, err := r.identifyAll()
		return err == nil && !sameContent(now, r.atRest), err
	}
	return r.conn.hasMoved()
}

// DataVersion returns a number that changes when anybody has committed to the database.
func (r *Reader) DataVersion(ctx context.Context) (int64, error) {
	if err := r.open(ctx); err != nil {
		return 0, err
	}
	return r.conn.pragma("data_version")
}

// Close closes the connection and removes a private copy. The Reader can be used again.
func (r *Reader) Close() error {
	var errs []error
	if r.conn != nil {
		errs = append(errs, r.conn.close())
		r.conn = nil
	}
	if r.scratch != "" {
		errs = append(errs, os.RemoveAll(r.scratch))
		r.scratch = ""
	}
	r.atRest = nil
	return errors.Join(errs...)
}
