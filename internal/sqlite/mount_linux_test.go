package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"pistate/schema"
)

func init() {
	helpers["mounted"] = helpMounted
	helpers["full"] = helpFull
	helpers["narrow"] = helpNarrow
}

// inNamespace makes a helper run with mounts of its own.
func inNamespace(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	cmd := helper(t, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	return cmd
}

// helpMounted mounts a directory read-only and reads there.
func helpMounted(args []string) error {
	dir := args[0]
	err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "")
	if err == nil {
		err = unix.Mount(dir, dir, "", unix.MS_BIND, "")
	}
	if err == nil {
		err = unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if err != nil {
		return fmt.Errorf("%w: mount: %v", errors.ErrUnsupported, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "try"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("the mount is not read-only: %v", err)
	}
	return helpRead(args[1:])
}

// C42: on a full disk a write fails as a whole, with an error that says so; so does a backup; and when
// there is space again, everything goes on.
func TestDiskFull(t *testing.T) {
	dir := tempDir(t)
	if out := output(t, inNamespace(t, "full", dir)); !strings.HasPrefix(out, "ok") {
		t.Error(out)
	}
}

func helpFull(args []string) error {
	dir := args[0]
	err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "")
	if err == nil {
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=700")
	}
	if err != nil {
		return fmt.Errorf("%w: mount: %v", errors.ErrUnsupported, err)
	}
	ctx := context.Background()
	path, ballast := filepath.Join(dir, "x.db"), filepath.Join(dir, "ballast")
	if err := openWithLittleSpace(ctx, path, ballast); err != nil {
		return err
	}
	if err := os.WriteFile(ballast, make([]byte, 400_000), 0o600); err != nil {
		return err
	}
	db, err := Open(ctx, path, testSchema)
	if err != nil {
		return err
	}
	kept := int64(0)
	for {
		if err = insert(ctx, db, fmt.Sprint(kept)); err != nil {
			break
		}
		kept++
	}
	if !errors.Is(err, codeFull) || schema.CodeOf(err) != schema.Storage || !strings.Contains(err.Error(), "no space left") {
		return fmt.Errorf("the write that found no space: %v", err)
	}
	for range 3 {
		if err := insert(ctx, db, "again"); schema.CodeOf(err) != schema.Storage {
			return fmt.Errorf("a write without space: %v", err)
		}
	}
	check := func() error {
		n, err := items(ctx, path)
		if err == nil && n != kept {
			err = fmt.Errorf("%d items, want %d", n, kept)
		}
		if err != nil {
			return err
		}
		report, err := Check(ctx, path, CheckOptions{}, verifyTest)
		return join(err, report.Err())
	}
	if err := check(); err != nil {
		return fmt.Errorf("while it is full: %w", err)
	}
	if _, err := Backup(ctx, path, filepath.Join(dir, "backup"), verifyTest, nil); schema.CodeOf(err) != schema.Storage || !errors.Is(err, sqlite3.FULL) {
		return fmt.Errorf("a backup without space: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		return fmt.Errorf("the backup left something: %v %v", entries, err)
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := insert(ctx, db, "new"); err != nil {
		return fmt.Errorf("after space was made: %w", err)
	}
	kept++
	if err := join(check(), db.Close()); err != nil {
		return err
	}
	fmt.Println("ok", kept)
	return check()
}

// openWithLittleSpace opens a new database with a page more of space each time, until there is enough of it.
func openWithLittleSpace(ctx context.Context, path, ballast string) error {
	for pages := 0; ; pages++ {
		file, err := os.Create(ballast)
		if err != nil {
			return err
		}
		size := int64(0)
		for n := 0; err == nil; size += int64(n) {
			n, err = file.Write(make([]byte, os.Getpagesize()))
		}
		if !errors.Is(err, unix.ENOSPC) {
			return err
		}
		if err := join(file.Truncate(size-int64(pages*os.Getpagesize())), file.Close()); err != nil {
			return err
		}
		db, err := Open(ctx, path, testSchema)
		if err == nil {
			if err = insert(ctx, db, "one"); err == nil && pages == 0 {
				return errors.New("there was space after all")
			}
			err = join(err, db.Close())
		}
		if err == nil {
			return errors.Join(os.Remove(path), os.Remove(ballast))
		}
		if schema.CodeOf(err) != schema.Storage || !strings.Contains(err.Error(), "no space left") {
			return fmt.Errorf("with %d pages of space: %w", pages, err)
		}
	}
}

// C45: where address space is limited, opening is an error and no panic.
func TestNarrowAddressSpace(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, openTest(t, path).Close())
	if out := output(t, helper(t, "narrow", path)); !strings.HasPrefix(out, "ok") {
		t.Error(out)
	}
}

func helpNarrow(args []string) error {
	ctx := context.Background()
	db, err := Open(ctx, args[0], testSchema) // so that nothing else has to grow afterwards
	if err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return fmt.Errorf("%w: %v", errors.ErrUnsupported, err)
	}
	var pages uint64
	if _, err := fmt.Sscan(string(status), &pages); err != nil {
		return err
	}
	limit := pages*uint64(os.Getpagesize()) + 100<<20
	if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return fmt.Errorf("%w: %v", errors.ErrUnsupported, err)
	}
	_, err = items(ctx, args[0])
	if schema.CodeOf(err) != schema.Storage || !strings.Contains(err.Error(), "ulimit") {
		return fmt.Errorf("a read: %v", err)
	}
	if _, err := Check(ctx, args[0], CheckOptions{}, verifyTest); schema.CodeOf(err) != schema.Storage {
		return fmt.Errorf("a check: %v", err)
	}
	if readersOpen {
		if err := db.Read(ctx, func(*Rx) error { return nil }); schema.CodeOf(err) != schema.Storage {
			return fmt.Errorf("a read of a DB: %v", err)
		}
	}
	// What is open goes on.
	if err := insert(ctx, db, "one"); err != nil {
		return err
	}
	fmt.Println("ok")
	return db.Close()
}
