//go:build wasip1 && sqliteinside

package sqlite

import (
	"context"
	"fmt"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// chosen is the engine of this build.
type chosen = *native

var _ engine = chosen(nil)

// inMemory says that the one database of this build is in memory. Else it is the file that the host has granted.
var inMemory bool

// KeepInMemory makes the database that is opened next one in memory, which is gone when it is closed.
func KeepInMemory() { inMemory = true }

// inspect verifies an existing database, which nothing may change yet (S4). The file opens for a reader without
// being changed, whatever SQLite does with it.
func inspect(ctx context.Context, path string, verifyUnlessNew func(*Rx) (bool, error)) error {
	exists, _, err := Beside(path)
	if err != nil || !exists { // nor anything in memory
		return err
	}
	engine, err := openNative(ctx, path, uri(path, "mode", "rw", roleParam, string(reader)), opening{role: reader, alone: true})
	if err != nil {
		return err
	}
	c := &conn{chosen: engine, path: path}
	err = c.view(ctx, func(rx *Rx) error {
		_, err := verifyUnlessNew(rx)
		return err
	})
	return join(err, c.close())
}

// openWriting opens the database for writing, and creates it if it is missing.
func openWriting(ctx context.Context, path string) (*conn, error) {
	name, o := uri(path, "mode", "rwc"), opening{role: writer, alone: true}
	if inMemory {
		name, o.alone = ":memory:", false
	}
	c, err := openNative(ctx, path, name, o)
	if err != nil {
		return nil, err
	}
	if err := c.config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true); err != nil {
		return nil, join(err, c.close())
	}
	return &conn{chosen: c, path: path, memory: inMemory}, nil
}

// measure can't see the files: the database is as large as its pages.
func (c *native) measure(s *Stat) error {
	s.Bytes = s.Pages * s.PageSize
	return nil
}

func (c *native) adopt() error { return c.config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, false) }

// identify has nothing to note: the host knows which file it has granted.
func (c *native) identify() error { return nil }

// moved asks the host whether the file is no longer the one that it has granted.
func (c *native) moved() (bool, error) {
	if inMemory {
		return false, nil
	}
	file, err := c.db.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	if err != nil {
		return false, err
	}
	if opened, ok := file.(vfs.File); ok {
		// go-sqlite3 wraps every main database in a layer that checks checksums.
		if granted, ok := vfsutil.UnwrapFile[vfs.FileHasMoved](opened); ok {
			return granted.HasMoved()
		}
	}
	return false, fmt.Errorf("sqlite: %T is no granted file", file)
}

// surroundings is what a VFS can also tell of the place of its database.
type surroundings interface {
	Beside() (exists bool, names []string, err error)
}

// Beside reports whether there is a database at a resolved path that isn't empty, and returns the names in its
// directory, sorted.
func Beside(path string) (exists bool, names []string, err error) {
	if s, ok := vfs.Find(vfsName).(surroundings); ok && !inMemory {
		exists, names, err = s.Beside()
	}
	return exists, names, translate(path, err)
}
