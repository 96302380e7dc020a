package hostlock

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"pistate/schema"
)

// maxFile is the most that a file of this package holds.
const maxFile = 64 << 10

// read reads a file. Others replace it as a whole, so it needs no guard.
func read(path string, into any) (found bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, storage(err)
	}
	defer file.Close() // only read
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return false, storage(err)
	}
	if len(text) > maxFile {
		return false, unreadable(path, errors.New("it is too long"))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return false, unreadable(path, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return false, unreadable(path, errors.New("there is more behind it"))
	}
	return true, nil
}

// unreadable is the error for a file that this package has not written, or that somebody has changed.
func unreadable(path string, err error) error {
	return schema.Errorf(schema.Corrupt, "%s is not what it should be (%w): if no host of the project runs, remove it", path, err)
}

// write stores a file in one step: a crash leaves the old one or the new one. It is called inside the guard,
// so nobody else writes the temporary file, and one that lies there is what a crash has left.
func (f files) write(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	temp := path + ".tmp"
	if err := writeNew(temp, append(text, '\n')); err != nil {
		return storage(errors.Join(err, removeIfThere(temp)))
	}
	if err := os.Rename(temp, path); err != nil {
		return storage(errors.Join(err, removeIfThere(temp)))
	}
	return storage(syncDir(f.dir))
}

// writeNew makes a file of mode 0600, whatever the umask, and syncs it.
func writeNew(path string, text []byte) (err error) {
	if err := removeIfThere(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Chmod(0o600); err != nil {
		return err
	}
	if _, err := file.Write(text); err != nil {
		return err
	}
	return file.Sync()
}

func (f files) remove(path string) error {
	if err := removeIfThere(path); err != nil {
		return storage(err)
	}
	return storage(syncDir(f.dir))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(path string) (err error) {
	dir, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return dir.Sync()
}
