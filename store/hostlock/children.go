package hostlock

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"pistate/schema"
	"pistate/store"
)

// Child is a process that a host of the project has started.
type Child struct {
	Process
	// Label says what it is for, as in "run r1". It is shown: no credentials.
	Label string       `json:"label"`
	Host  string       `json:"host"` // the nonce of the lock under which it was registered
	Since store.Millis `json:"since"`
}

// maxLabel is the longest label, in bytes.
const maxLabel = 1000

// AddChild remembers a process that this host has started. Whatever was remembered under its pid is gone, and
// is forgotten.
//
// Errors: [schema.NotFound] if there is no such process; [schema.StaleClaim] if this process is not the host
// any more; [schema.Invalid], [schema.Busy], [schema.Canceled], [schema.Storage].
func (l *Lock) AddChild(ctx context.Context, pid int, label string, now time.Time) (Child, error) {
	if !utf8.ValidString(label) || len(label) > maxLabel {
		return Child{}, schema.Errorf(schema.Invalid, "label: at most %d bytes of UTF-8 are expected", maxLabel)
	}
	process, err := Find(pid)
	if err != nil {
		return Child{}, err
	}
	child := Child{process, label, l.holder.Nonce, store.MillisOf(now)}
	return child, l.whileHeld(ctx, func() error { return l.files.write(l.files.child(pid), child) })
}

// RemoveChild forgets a process. Forgetting one that is not remembered is harmless, and so is one whose pid
// was remembered again for another process.
//
// Errors: [schema.StaleClaim], [schema.Busy], [schema.Canceled], [schema.Storage].
func (l *Lock) RemoveChild(ctx context.Context, child Child) error {
	return l.whileHeld(ctx, func() error {
		var current Child
		found, err := read(l.files.child(child.PID), &current)
		if err != nil || !found || current != child {
			return err
		}
		return l.files.remove(l.files.child(child.PID))
	})
}

// Children returns the processes that are remembered, by pid: those of this host, and those that an earlier
// one has left, whose Host is another. See [Process.Lives].
func (l *Lock) Children() ([]Child, error) { return l.files.children() }

// Clean forgets the processes that are gone, whoever started them, and returns them.
//
// Errors: [schema.StaleClaim], [schema.Busy], [schema.Canceled], [schema.Storage].
func (l *Lock) Clean(ctx context.Context) (gone []Child, err error) {
	err = l.whileHeld(ctx, func() error {
		children, err := l.files.children()
		if err != nil {
			return err
		}
		for _, c := range children {
			if c.Lives() != No {
				continue
			}
			if err := l.files.remove(l.files.child(c.PID)); err != nil {
				return err
			}
			gone = append(gone, c)
		}
		return l.files.removeTemps()
	})
	return gone, err
}

// Children returns the processes that the hosts of a project have registered, by pid, without touching
// anything.
func Children(stateDir, project string) ([]Child, error) {
	f, err := filesOf(stateDir, project)
	if err != nil {
		return nil, err
	}
	return f.children()
}

const childInfix = ".child."

func (f files) child(pid int) string {
	return filepath.Join(f.dir, f.project+childInfix+strconv.Itoa(pid)+".json")
}

func (f files) children() (children []Child, err error) {
	names, err := f.names(".json")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		var c Child
		found, err := read(filepath.Join(f.dir, name), &c)
		if err == nil && found && f.child(c.PID) != filepath.Join(f.dir, name) {
			err = unreadable(filepath.Join(f.dir, name), errors.New("it tells of another process"))
		}
		if err != nil {
			return nil, err
		}
		if found { // else forgotten meanwhile
			children = append(children, c)
		}
	}
	slices.SortFunc(children, func(a, b Child) int { return cmp.Compare(a.PID, b.PID) })
	return children, nil
}

// removeTemps removes what interrupted writes of child files have left. It is called inside the guard, so
// none of them is under way.
func (f files) removeTemps() error {
	names, err := f.names(".tmp")
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := removeIfThere(filepath.Join(f.dir, name)); err != nil {
			return storage(err)
		}
	}
	return nil
}

// names returns the names of the project's child files with a suffix.
func (f files) names(suffix string) (names []string, err error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, storage(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), f.project+childInfix) && strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
