// Package hostlock lets one host process at a time work for a project, and remembers the processes that it
// has started (R12).
//
// Everything is plain files in the directory hosts beside the workflow database, named by the project's id,
// which is a hash of its path: hosts of different projects have nothing to do with each other. A lock belongs
// to a process, not to a file handle. It is known by its pid and the time at which it started, so that a lock
// whose process is gone can be taken over, also when another process has got the pid since.
//
//	lock, err := hostlock.Acquire(ctx, filepath.Dir(s.Path()), project, time.Now())
//	defer lock.Release(ctx)
//
// The lock says who is the host. It gives no authority over what the database holds: that is what leases are
// for.
package hostlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"pistate/schema"
	"pistate/store"
)

// Holder is who holds the lock of a project.
type Holder struct {
	Process
	Project string       `json:"project"` // its id
	Path    string       `json:"path"`    // its directory
	Since   store.Millis `json:"since"`
	Nonce   string       `json:"nonce"` // tells this holding of the lock from every other
}

// HeldError says who holds the lock that was asked for: [schema.Locked].
type HeldError struct {
	Holder Holder
	Lives  Liveness // Yes, or Unknown
	File   string   // in which the lock is kept
}

func (e *HeldError) Error() string {
	text := fmt.Sprintf("a host of %s runs already: process %d, since %s",
		e.Holder.Path, e.Holder.PID, e.Holder.Since.Time().UTC().Format(time.RFC3339))
	if e.Lives == Unknown {
		text += fmt.Sprintf(". Nobody can tell from here whether that process lives (%s); if it does not, remove %s", e.Holder.unknown(), e.File)
	}
	return text
}

// Lock is the lock of a project, held by this process. Its methods are safe for concurrent use.
type Lock struct {
	files  files
	holder Holder
	before *Holder
}

// Acquire takes the lock of a project. stateDir is the directory of the workflow database; hosts is created
// in it if it is missing, with mode 0700.
//
// Errors: [schema.Locked] with a [*HeldError] while another process holds the lock, or this one does;
// [schema.Busy] if other processes keep the directory busy for seconds; [schema.Corrupt] for a file that
// can't be a lock; [schema.Invalid], [schema.Canceled], [schema.Storage].
func Acquire(ctx context.Context, stateDir string, project store.Project, now time.Time) (*Lock, error) {
	f, err := filesOf(stateDir, project.ID)
	if err != nil {
		return nil, err
	}
	self, err := Find(os.Getpid())
	if err != nil {
		return nil, err
	}
	lock := &Lock{files: f, holder: Holder{self, project.ID, project.Path, store.MillisOf(now), rand.Text()}}
	err = f.guarded(ctx, func() error {
		held, found, err := f.holder()
		if err != nil {
			return err
		}
		if found {
			if lives := held.Lives(); lives != No {
				refused := &HeldError{held, lives, f.lock()}
				return &schema.Error{Code: schema.Locked, Detail: refused.Error(), Err: refused}
			}
			lock.before = &held
		}
		return f.write(f.lock(), lock.holder)
	})
	if err != nil {
		return nil, err
	}
	return lock, nil
}

// Holder returns what the lock file says of this process.
func (l *Lock) Holder() Holder { return l.holder }

// TookOver returns the holder whose process was gone, or nil if nobody held the lock. What that host left
// behind is the new one's to look after: see [Lock.Children].
func (l *Lock) TookOver() *Holder { return l.before }

// Release gives the lock back. Releasing twice is harmless.
//
// Errors: [schema.StaleClaim] if the lock is somebody else's by now, which is left alone; [schema.Busy],
// [schema.Canceled], [schema.Storage].
func (l *Lock) Release(ctx context.Context) error {
	return l.files.guarded(ctx, func() error {
		held, found, err := l.files.holder()
		if err != nil || !found {
			return err
		}
		if held.Nonce != l.holder.Nonce {
			return l.lost(&held)
		}
		return l.files.remove(l.files.lock())
	})
}

// whileHeld calls fn while nobody can take the lock, and refuses if somebody has.
func (l *Lock) whileHeld(ctx context.Context, fn func() error) error {
	return l.files.guarded(ctx, func() error {
		held, found, err := l.files.holder()
		switch {
		case err != nil:
			return err
		case !found:
			return l.lost(nil)
		case held.Nonce != l.holder.Nonce:
			return l.lost(&held)
		}
		return fn()
	})
}

func (l *Lock) lost(to *Holder) error {
	if to == nil {
		return schema.Errorf(schema.StaleClaim, "this process does not hold the host lock of %s any more: it was released, or its file removed", l.holder.Path)
	}
	return schema.Errorf(schema.StaleClaim, "this process does not hold the host lock of %s any more: process %d does", l.holder.Path, to.PID)
}

// Look returns who holds the lock of a project, without touching anything. found is false if nobody does;
// Lives tells whether the process that is named can be taken for the holder.
func Look(stateDir, project string) (h Holder, found bool, err error) {
	f, err := filesOf(stateDir, project)
	if err != nil {
		return h, false, err
	}
	return f.holder()
}

// files are the files of one project.
type files struct {
	dir     string // hosts
	project string
}

var projectID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

func filesOf(stateDir, project string) (files, error) {
	switch {
	case !filepath.IsAbs(stateDir):
		return files{}, schema.Errorf(schema.Invalid, "state directory %q is relative: give an absolute path", stateDir)
	case !projectID.MatchString(project):
		return files{}, schema.Errorf(schema.Invalid, "project id %q: letters, digits, - and _ are expected", project)
	}
	return files{filepath.Join(stateDir, "hosts"), project}, nil
}

func (f files) lock() string { return filepath.Join(f.dir, f.project+".json") }

// holder reads the lock.
func (f files) holder() (h Holder, found bool, err error) {
	found, err = read(f.lock(), &h)
	if found && (h.PID <= 0 || h.Project != f.project || h.Nonce == "") {
		err = unreadable(f.lock(), errors.New("it does not say who holds it"))
	}
	return h, found && err == nil, err
}

// guarded calls fn while no other process or goroutine is in here, which makes looking and taking one step.
// The operating system ends the exclusion of a process that dies.
func (f files) guarded(ctx context.Context, fn func() error) (err error) {
	if err := makeDir(f.dir); err != nil {
		return storage(err)
	}
	release, err := guard(ctx, filepath.Join(f.dir, "guard"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, storage(release())) }()
	return fn()
}

// storage gives an error of the operating system its code.
func storage(err error) error {
	if err == nil {
		return nil
	}
	return schema.Errorf(schema.Storage, "host lock: %w", err)
}

// makeDir makes a directory with mode 0700, whatever the umask. One that exists is left as it is.
func makeDir(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(filepath.Dir(path)); err != nil {
			return err
		}
		err = os.Mkdir(path, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(path, 0o700)
}
