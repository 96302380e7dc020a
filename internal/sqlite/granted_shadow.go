//go:build !wasip1 || sqliteinside

package sqlite

import (
	"io"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// shade is what has been written over a file that must not change: SQLite sees the file as it left it, and
// the file stays as it was found. It is kept in memory, and lives as long as the database is open.
type shade struct {
	base   *grantedFile     // nil: there is no file
	gone   bool             // it was deleted
	below  int64            // of the file, the bytes from here on are not part of it any more
	size   int64            // bytes
	blocks map[int64][]byte // what was written, by number of the block
}

const (
	shadeBlock = 4096    // bytes
	maxShade   = 1 << 30 // bytes; a shadow is as large as what a journal plays back
)

// block returns the bytes of one block, to be changed. The last one of the file is filled up with zeros.
func (s *shade) block(n int64) ([]byte, error) {
	if b := s.blocks[n]; b != nil {
		return b, nil
	}
	b := make([]byte, shadeBlock)
	if visible := s.below - n*shadeBlock; visible > 0 {
		if _, err := s.base.ReadAt(b[:min(visible, shadeBlock)], n*shadeBlock); err != nil && err != io.EOF {
			return nil, err
		}
	}
	if s.blocks == nil {
		s.blocks = map[int64][]byte{}
	}
	s.blocks[n] = b
	return b, nil
}

func (s *shade) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, sqlite3.IOERR_READ
	}
	end := min(int64(len(p)), max(s.size-off, 0))
	for done := int64(0); done < end; {
		n, from := (off+done)/shadeBlock, (off+done)%shadeBlock
		part := p[done:min(end, done+shadeBlock-from)]
		switch b := s.blocks[n]; {
		case b != nil:
			copy(part, b[from:])
		case off+done >= s.below:
			clear(part)
		default:
			visible := part[:min(int64(len(part)), s.below-off-done)]
			clear(part[len(visible):])
			if _, err := s.base.ReadAt(visible, off+done); err != nil && err != io.EOF {
				return 0, err
			}
		}
		done += int64(len(part))
	}
	if end < int64(len(p)) {
		return int(end), io.EOF
	}
	return len(p), nil
}

func (s *shade) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, sqlite3.IOERR_WRITE
	}
	if len(p) == 0 {
		return 0, nil
	}
	if off > maxGranted || int64(len(s.blocks))*shadeBlock+int64(len(p)) > maxShade {
		return 0, sqlite3.FULL
	}
	for done := 0; done < len(p); {
		at := off + int64(done)
		b, err := s.block(at / shadeBlock)
		if err != nil {
			return 0, err
		}
		done += copy(b[at%shadeBlock:], p[done:])
	}
	s.size = max(s.size, off+int64(len(p)))
	return len(p), nil
}

func (s *shade) Truncate(size int64) error {
	if size < 0 {
		return sqlite3.IOERR_TRUNCATE
	}
	s.below = min(s.below, size)
	for n, b := range s.blocks {
		switch keep := size - n*shadeBlock; {
		case keep <= 0:
			delete(s.blocks, n)
		case keep < shadeBlock:
			clear(b[keep:])
		}
	}
	s.size = size
	return nil
}

// shadowFile is a granted file whose content is its shade.
type shadowFile struct {
	*grantedFile
	shade *shade
}

// HasMoved is that of the file underneath.
var _ vfs.FileHasMoved = &shadowFile{}

func (f *shadowFile) ReadAt(p []byte, off int64) (int, error)  { return f.shade.ReadAt(p, off) }
func (f *shadowFile) WriteAt(p []byte, off int64) (int, error) { return f.shade.WriteAt(p, off) }
func (f *shadowFile) Truncate(size int64) error                { return f.shade.Truncate(size) }
func (f *shadowFile) Size() (int64, error)                     { return f.shade.size, nil }
func (f *shadowFile) Sync(vfs.SyncFlag) error                  { return nil }

// Close gives the database back, and all other files with it: until then their shades may be asked for again.
func (f *shadowFile) Close() error {
	if f.number != grantedMain {
		return nil
	}
	defer f.vfs.forget()
	var err error
	for n := grantedFiles - 1; n >= grantedMain; n-- { // the lock ends last
		if s := f.vfs.shades[n]; s != nil && s.base != nil {
			err = join(err, s.base.Close())
		}
	}
	return err
}

// openShadow opens a file that is not to be changed, or makes it up if SQLite wants to create it.
func (v *grantedVFS) openShadow(n int32, flags vfs.OpenFlag) (vfs.File, error) {
	file := &grantedFile{vfs: v, number: n}
	there, err := v.there(n)
	switch {
	case err != nil:
		return nil, err
	case !there && flags&vfs.OPEN_CREATE == 0:
		return nil, sqlite3.CANTOPEN
	case v.shades[n] != nil:
		v.shades[n].gone = false
	case !there:
		v.shades[n] = &shade{}
	default:
		if err := v.failure(v.port.OpenFile(n, 0), cantOpen); err != nil {
			return nil, err
		}
		size, err := file.Size()
		if err != nil {
			return nil, join(err, file.Close())
		}
		v.shades[n] = &shade{base: file, below: size, size: size}
	}
	return &shadowFile{file, v.shades[n]}, nil
}

// deleteShadow makes a file one that is gone.
func (v *grantedVFS) deleteShadow(n int32) error {
	s := v.shades[n]
	if s == nil {
		s = &shade{}
		v.shades[n] = s
	}
	s.gone = true
	return s.Truncate(0)
}
