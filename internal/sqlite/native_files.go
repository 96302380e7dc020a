//go:build !wasip1

package sqlite

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// openConn opens a database of the file system at a resolved path. The context is used until the caller sets
// another one.
func openConn(ctx context.Context, path string, o opening) (*conn, error) {
	c, err := openFile(ctx, path, o)
	if err != nil {
		return nil, err
	}
	return &conn{chosen: c, path: path}, nil
}

func openFile(ctx context.Context, path string, o opening) (*native, error) {
	mode := "rw"
	if o.role != writer && !o.check {
		mode = "ro"
	}
	return openNative(ctx, path, uri(path, "mode", mode, roleParam, string(o.role)), o)
}

// openUnknown opens a file for writing of which it is not known whether it is ours: until it is adopted, closing it
// must not write to it either.
func openUnknown(ctx context.Context, path string) (*native, error) {
	c, err := openFile(ctx, path, opening{role: writer})
	if err != nil {
		return nil, err
	}
	if err := c.config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
		return nil, join(err, c.close())
	}
	return c, nil
}

func (c *native) adopt() error {
	if err := c.config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, false); err != nil {
		return err
	}
	return restrict(c.path)
}

// file returns the database file that is open. It is called within try.
func (c *native) file() (osFile, error) {
	file, err := c.db.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	if err != nil {
		return nil, err
	}
	if opened, ok := file.(vfs.File); ok {
		// go-sqlite3 wraps every main database in a layer that checks checksums.
		if inner, ok := vfsutil.UnwrapFile[osFile](opened); ok {
			return inner, nil
		}
	}
	return nil, fmt.Errorf("sqlite: %T is no file of the operating system", file)
}

// identify notes which file is open.
func (c *native) identify() error {
	file, err := c.file()
	if err == nil {
		c.id, err = file.Stat()
	}
	return err
}

// moved reports whether another file, or none, is at the path of the database or of its WAL.
func (c *native) moved() (bool, error) {
	file, err := c.file()
	if err != nil {
		return false, err
	}
	return file.HasMoved()
}

func (c *native) measure(s *Stat) error {
	for _, f := range []struct {
		path  string
		bytes *int64
	}{{c.path, &s.Bytes}, {c.path + "-wal", &s.WALBytes}} {
		id, err := identify(f.path)
		if err != nil {
			return translate(f.path, err)
		}
		*f.bytes = id.size()
	}
	return nil
}
