package sqlite

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// S5: directories that are made have mode 0700 and files 0600, whatever the umask. The umask belongs to
// the whole process, so each is tried in one of its own.
func TestModes(t *testing.T) {
	for _, umask := range []string{"0", "022", "077", "0777"} {
		t.Run(umask, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			if out := output(t, helper(t, "umask", umask, dir)); !strings.Contains(out, "8 files") {
				t.Errorf("it looked at other files than expected: %s", out)
			}
		})
	}
}

// helpUmask makes every file that the package makes, and checks the modes.
func helpUmask(args []string) error {
	umask, err := strconv.ParseInt(args[0], 8, 0)
	if err != nil {
		return err
	}
	dir := args[1]
	setUmask(int(umask))
	ctx := context.Background()
	path := filepath.Join(dir, "a", "b", "x.db")
	db, err := Open(ctx, path, testSchema)
	if err != nil {
		return err
	}
	if err := insert(ctx, db, "one"); err != nil {
		return err
	}
	seen := map[string]bool{}
	look := func() error {
		return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || p == dir {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			want := fileMode
			if d.IsDir() {
				want = fs.ModeDir | dirMode
			}
			if info.Mode() != want {
				return fmt.Errorf("umask %#o: %s has mode %v, want %v", umask, p, info.Mode(), want)
			}
			name := filepath.Base(p)
			if strings.HasSuffix(name, tempSuffix) {
				name = "temporary file"
			}
			seen[name] = true
			return nil
		})
	}
	var during error
	_, err = Backup(ctx, path, filepath.Join(dir, "a", "backup"), verifyTest, func(int, int) {
		during = join(during, look())
	})
	if err = join(err, during); err != nil {
		return err
	}
	if err := join(look(), db.Close()); err != nil {
		return err
	}
	// A journal is made when a database that is not in WAL mode becomes one.
	rw, err := openConn(ctx, path, opening{role: writer})
	if err != nil {
		return err
	}
	if err := rw.exec("PRAGMA journal_mode = DELETE; BEGIN; DELETE FROM item"); err != nil {
		return err
	}
	if err := join(look(), rw.close()); err != nil {
		return err
	}
	fmt.Println(len(seen), "files", seen)
	return nil
}

// S5: the files of a database of ours that another program left open to others are closed to them.
func TestModesOfExistingFiles(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, openTest(t, path).Close())
	other := raw(t, path, "INSERT INTO item (name) VALUES ('one')")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		must(t, os.Chmod(path+suffix, 0o664))
	}
	openTest(t, path)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		must(t, err)
		if info.Mode() != fileMode {
			t.Errorf("%s has mode %v", suffix, info.Mode())
		}
	}
	must(t, other.Exec("INSERT INTO item (name) VALUES ('two')"))
}

// What is no regular file is refused before SQLite waits for it.
func TestNoRegularFile(t *testing.T) {
	dir := tempDir(t)
	pipe := filepath.Join(dir, "pipe")
	makePipe(t, pipe)
	for _, path := range []string{dir, pipe, "/dev/zero"} {
		before := files(t, dir)
		_, err := Open(t.Context(), path, testSchema)
		wantCode(t, err, "invalid")
		_, err = OpenReader(t.Context(), path, verifyTest)
		wantCode(t, err, "invalid")
		_, err = Check(t.Context(), path, CheckOptions{}, verifyTest)
		wantCode(t, err, "invalid")
		_, err = Backup(t.Context(), path, filepath.Join(dir, "target"), verifyTest, nil)
		wantCode(t, err, "invalid")
		wantUnchanged(t, dir, before)
	}
}
