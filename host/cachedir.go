package host

import (
	"os"
	"path/filepath"

	"pistate/schema"
)

// prepareCacheDir makes the directory, or checks that nobody else can put code into it, or has.
func prepareCacheDir(dir string) error {
	if dir == "" {
		return nil
	}
	if !filepath.IsAbs(dir) {
		return schema.Errorf(schema.Invalid, "cache directory %q is relative: give an absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return schema.Errorf(schema.Storage, "cache directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return schema.Errorf(schema.Storage, "cache directory: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return schema.Errorf(schema.Invalid,
			"cache directory %s has mode %04o: others can write to it, and its content is executed; use chmod go-w", dir, mode)
	}
	if owner, ok := ownerOf(info); ok && owner != os.Geteuid() && owner != 0 {
		return schema.Errorf(schema.Invalid,
			"cache directory %s belongs to the user with the id %d: its content is executed, so it must be this user's own; use another directory", dir, owner)
	}
	return nil
}
