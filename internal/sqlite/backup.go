//go:build !wasip1

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

// Result says what a backup holds.
type Result struct {
	Path  string           `json:"path"`
	Bytes int64            `json:"bytes"`
	Pages int              `json:"pages"`
	Rows  map[string]int64 `json:"rows"` // by table
}

// Backup copies the database at the resolved path src, live or at rest, into a new file at the absolute
// path target (M2). The copy is the one snapshot that was current when it began, whatever writers do
// meanwhile (M3), and it is self-contained: it opens read-only without making any file beside it (M5). It is
// verified and synced before it gets its name; until then, and if anything fails, nothing is at target.
//
// progress, if it isn't nil, is called now and then, from one goroutine at a time; total is twice the
// number of pages, as the copy is also verified.
//
// Errors: [schema.Invalid] for a target that can't be one, [schema.Conflict] for one that exists, is the
// database itself or one of its files, or has the -wal or -journal of another database beside it,
// [schema.NotFound] without a source, [schema.Corrupt] or [schema.Incompatible] if the copy doesn't pass,
// [schema.Canceled], [schema.Busy], [schema.Storage].
func Backup(ctx context.Context, src, target string, verify func(*Rx) error, progress func(done, total int)) (Result, error) {
	target, err := backupTarget(src, target)
	if err != nil {
		return Result{}, err
	}
	b := &backup{target: target, verify: verify, progress: progress}
	if b.progress == nil {
		b.progress = func(int, int) {}
	}
	return b.run(ctx, src)
}

// backupTarget resolves the directory of the target and refuses what must not be written to.
func backupTarget(src, target string) (string, error) {
	switch {
	case !filepath.IsAbs(target):
		return "", schema.Errorf(schema.Invalid, "backup target %q is relative: give an absolute path", target)
	case strings.ContainsRune(target, 0):
		return "", schema.Errorf(schema.Invalid, "backup target %q holds a NUL byte", target)
	case os.IsPathSeparator(target[len(target)-1]):
		return "", schema.Errorf(schema.Invalid, "backup target %q names a directory: give the path of a new file", target)
	}
	dir, base := filepath.Split(target)
	if base == "." || base == ".." {
		return "", schema.Errorf(schema.Invalid, "backup target %q names a directory: give the path of a new file", target)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", schema.Errorf(schema.Invalid, "backup directory %s does not exist: create it first", dir)
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return "", schema.Errorf(schema.Invalid, "backup directory %s is not a directory", dir)
	}
	if err != nil {
		return "", schema.Errorf(schema.Storage, "backup directory %s: %w", dir, err)
	}
	target = filepath.Join(resolved, base)
	for _, suffix := range sideFiles {
		if target == src+suffix || sameFile(target, src+suffix) {
			return "", schema.Errorf(schema.Conflict, "backup target %s is the database itself or one of its files: choose another name", target)
		}
	}
	for _, suffix := range sideFiles {
		if _, err := os.Lstat(target + suffix); err == nil {
			return "", schema.Errorf(schema.Conflict, "%s exists: a backup never replaces a file, nor is it put beside the -wal or -journal of another; choose another name", target+suffix)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", schema.Errorf(schema.Storage, "backup target: %w", err)
		}
	}
	return target, nil
}

// sideFiles are the endings of all files that belong to one database.
var sideFiles = []string{"", "-wal", "-shm", "-journal"}

func sameFile(a, b string) bool {
	ia, err := os.Stat(a)
	if err != nil {
		return false
	}
	ib, err := os.Stat(b)
	return err == nil && os.SameFile(ia, ib)
}

// backup is one backup being made.
type backup struct {
	target   string
	verify   func(*Rx) error
	progress func(done, total int)

	file *os.File // the temporary file, marked as in work
	temp string   // its path
	rows map[string]int64
	stat Stat
}

func (b *backup) run(ctx context.Context, src string) (result Result, err error) {
	removeLeftovers(b.target)
	source := &Reader{path: src, verify: b.verify}
	defer func() { err = join(err, source.Close()) }()
	defer func() { err = join(err, b.discard()) }()
	if err := source.Read(ctx, func(rx *Rx) error { return b.copy(ctx, rx) }); err != nil {
		return Result{}, err
	}
	if err := b.finish(ctx); err != nil {
		return Result{}, err
	}
	return Result{b.target, b.stat.PageSize * b.stat.Pages, int(b.stat.Pages), b.rows}, nil
}

// pagesPerStep is how much is copied between two looks at the context.
const pagesPerStep = 256

// copy makes the temporary file and copies the source's snapshot into it. As the source's transaction is
// open already, no write to it makes the copy begin again. It may be called again.
func (b *backup) copy(ctx context.Context, rx *Rx) (err error) {
	if err := b.discard(); err != nil {
		return err
	}
	if err := b.createTemp(); err != nil {
		return err
	}
	if b.rows, err = rowCounts(rx); err != nil {
		return err
	}
	if b.stat, err = rx.Stat(); err != nil {
		return err
	}
	// Nobody else sees the copy before it is complete, so it needs no journal, no lock, and one sync at the
	// end.
	dst := uri(b.temp, "mode", "rw", "nolock", "1",
		"_pragma", "journal_mode(OFF)", "_pragma", "synchronous(OFF)",
		"_pragma", "locking_mode(EXCLUSIVE)", "_pragma", "cache_size(-65536)")
	if err := b.copyPages(ctx, rx.c.native(), dst); err != nil {
		return schema.Errorf(schema.CodeOf(err), "backup %s: %w", b.target, err)
	}
	return nil
}

func (b *backup) copyPages(ctx context.Context, c *native, dst string) (err error) {
	var api *sqlite3.Backup
	err = c.try(func() (err error) {
		api, err = c.db.BackupInit("main", dst)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = join(err, c.try(api.Close)) }()
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return translate(c.path, err)
		}
		err := c.try(func() (err error) {
			done, err = api.Step(pagesPerStep)
			return err
		})
		if err != nil {
			return err
		}
		total := api.PageCount()
		b.progress(total-api.Remaining(), 2*total)
	}
	return nil
}

// rowCounts counts the rows of every table.
func rowCounts(rx *Rx) (map[string]int64, error) {
	tables, err := readTables(rx)
	rows := map[string]int64{}
	for _, t := range tables {
		rows[t.name] = int64(t.rows)
	}
	return rows, err
}

// finish verifies the copy and gives it its name.
func (b *backup) finish(ctx context.Context) error {
	// The copy still says that it has a WAL, and opening it would make one. These two bytes of the header
	// are what SQLite itself changes at the end of WAL mode: version 1 is the rollback journal.
	if _, err := b.file.WriteAt([]byte{1, 1}, 18); err != nil {
		return b.fault(err)
	}
	pages := int(b.stat.Pages)
	report, err := check(ctx, b.temp, CheckOptions{
		Extra:    []CheckFunc{{"rows", b.compareRows}},
		Progress: func(done, total int) { b.progress(pages+int(int64(pages)*int64(done)/int64(total)), 2*pages) },
	}, b.verify, true)
	if err == nil {
		report.Path = b.target
		err = report.Err()
	}
	if err != nil {
		return schema.Errorf(schema.CodeOf(err), "the copy did not pass verification, and was deleted: %w", err)
	}
	if err := b.file.Sync(); err != nil {
		return b.fault(err)
	}
	if err := ctx.Err(); err != nil {
		return translate(b.target, err)
	}
	if !isOpen(b.file, b.temp) {
		return b.fault(errors.New("somebody removed or replaced the temporary file"))
	}
	if err := moveNew(b.temp, b.target); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return schema.Errorf(schema.Conflict, "%s came into being meanwhile, and is not replaced", b.target)
		}
		return b.fault(err)
	}
	b.temp = b.target // so that a failure from here on removes it
	if err := syncDir(filepath.Dir(b.target)); err != nil {
		return b.fault(err)
	}
	b.temp = ""
	return nil
}

func (b *backup) compareRows(rx *Rx, report func(string, ...any)) error {
	rows, err := rowCounts(rx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b.rows)) {
		if rows[name] != b.rows[name] {
			report("table %s: %d rows in the copy, %d in the database", name, rows[name], b.rows[name])
		}
	}
	return nil
}

func (b *backup) fault(err error) error {
	return schema.Errorf(schema.Storage, "backup %s: %w", b.target, err)
}

// tempPrefix begins the names of the temporary files for a target: with its name, which is cut so that any
// target has one. The process id and a random number follow.
func tempPrefix(target string) string {
	base := filepath.Base(target)
	return base[:min(len(base), 200)] + ".backup-"
}

const tempSuffix = ".tmp"

// isTemp reports whether a name is one that createTemp gives.
func isTemp(name, target string) bool {
	middle, ok := strings.CutPrefix(name, tempPrefix(target))
	middle, isTemp := strings.CutSuffix(middle, tempSuffix)
	pid, random, both := strings.Cut(middle, "-")
	return ok && isTemp && both && isNumber(pid) && isNumber(random)
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// errOwned says that another process has a temporary file in work.
var errOwned = errors.New("in work elsewhere")

// createTemp creates the temporary file and marks it as in work. A backup that looks for leftovers may come
// between the two, and take it away.
func (b *backup) createTemp() error {
	pattern := fmt.Sprintf("%s%d-*%s", tempPrefix(b.target), os.Getpid(), tempSuffix)
	for range attempts {
		f, err := os.CreateTemp(filepath.Dir(b.target), pattern)
		if err != nil {
			return b.fault(err)
		}
		b.file, b.temp = f, f.Name()
		if err := f.Chmod(fileMode); err != nil {
			return b.fault(err)
		}
		if err := own(f); !errors.Is(err, errOwned) && isOpen(f, b.temp) {
			return nil
		}
		_ = f.Close()
	}
	b.file, b.temp = nil, ""
	return b.fault(errors.New("the temporary file disappeared each time it was made"))
}

// isOpen reports whether a file is the one at a path.
func isOpen(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(open, there)
}

// discard removes the temporary file, if there is one.
func (b *backup) discard() error {
	var err error
	if b.temp != "" {
		err = os.Remove(b.temp)
		b.temp = ""
	}
	if b.file != nil {
		err = join(err, b.file.Close())
		b.file = nil
	}
	if err != nil {
		return b.fault(err)
	}
	return nil
}

// removeLeftovers deletes the temporary files of backups to the same target that were killed. It does what
// it can: a leftover is untidy, and does no harm.
func removeLeftovers(target string) {
	dir := filepath.Dir(target)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !isTemp(e.Name(), target) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if own(f) == nil && isOpen(f, path) {
			_ = os.Remove(path)
		}
		_ = f.Close() // not earlier: owning it keeps others away
	}
}

// linkNew gives a file another name, which must be free, and takes its old one away.
func linkNew(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return join(d.Sync(), d.Close())
}
