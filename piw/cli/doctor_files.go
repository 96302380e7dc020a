package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pistate/internal/cli"
	"pistate/internal/sqlite"
	"pistate/schema"
)

// What is too much.
const (
	largeWAL   = 64 << 20 // bytes: twice what a writer leaves
	largeFree  = 64 << 20 // bytes of free pages
	freeShare  = 4        // free pages are worth a word from one of so many on
	dueTooLong = 10 * time.Minute
	manyErrors = 5
	maxNamed   = 5    // of one sort of thing by name, the rest as a number
	maxLooked  = 1000 // of one sort of thing, see ward.looked
)

// files looks at what the file system says. Nothing is opened.
func (e *examination) files() error {
	e.modes()
	return e.neighbours()
}

// modes looks at who may read and write the files (S5).
func (e *examination) modes() {
	safe := true
	if info, err := os.Stat(filepath.Dir(e.Path)); err == nil {
		if mode := info.Mode(); mode.Perm()&0o022 != 0 && mode&fs.ModeSticky == 0 {
			safe = false
			e.add(wrong, "permissions", "chmod 0700 "+filepath.Dir(e.Path), "others than its owner can put files into %s (mode %04o)", filepath.Dir(e.Path), mode.Perm())
		}
	}
	there := false
	for _, suffix := range []string{"", "-wal", "-shm"} {
		path := e.Path + suffix
		info, err := os.Stat(path)
		if err != nil {
			continue // it is not there, or opening it will tell
		}
		there = true
		if info.Mode().Perm()&0o077 != 0 {
			safe = false
			e.add(wrong, "permissions", "chmod 0600 "+path, "others than its owner can get at %s (mode %04o)", path, info.Mode().Perm())
		}
	}
	if safe && there {
		e.add(good, "permissions", "", "nobody but the owner can get at the files")
	}
}

// olderState are the directories in which earlier versions kept the state of workflows (S6).
var olderState = []string{"runs", "decisions", "controllers"}

// neighbours looks at what else is in the directory.
func (e *examination) neighbours() error {
	dir := filepath.Dir(e.Path)
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil // opening the database will tell
	case err != nil:
		return schema.Errorf(schema.Storage, "%w", err)
	}
	_, err = os.Stat(e.Path)
	missing := err != nil
	var older, temporary []string
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case e.Kind == workflowKind.name && entry.IsDir() && slices.Contains(olderState, name):
			older = append(older, name)
		case e.Kind == workflowKind.name && missing && strings.EqualFold(filepath.Ext(name), ".sqlite") && name != filepath.Base(e.Path):
			older = append(older, name)
		case strings.Contains(name, ".backup-") && strings.HasSuffix(name, ".tmp"):
			temporary = append(temporary, name)
		}
	}
	switch {
	case len(older) > 0 && missing:
		e.add(wrong, "older state", "move it out of the directory to begin anew, or give a backup the name "+filepath.Base(e.Path),
			"%s holds older state, and no database will be created beside it: %s", dir, strings.Join(older, ", "))
	case len(older) > 0:
		e.add(note, "older state", "move it away once nothing of it is needed", "%s holds state of an earlier version, which is not used: %s", dir, strings.Join(older, ", "))
	}
	if len(temporary) > 0 {
		e.add(note, "leftovers", "remove them when no backup is being made; the next backup to the same place does so too", "interrupted backups have left files: %s", strings.Join(temporary, ", "))
	}
	return nil
}

// sizes judges the sizes of the files.
func (e *examination) sizes(s sqlite.Stat) {
	e.add(good, "size", "", "the file has %s, %s of it free, and its WAL %s", cli.Size(s.Bytes), cli.Size(s.FreePages*s.PageSize), cli.Size(s.WALBytes))
	if s.WALBytes > largeWAL {
		e.add(wrong, "WAL", "look for a program that keeps a read open for long, or for a writer that can't finish a checkpoint; the WAL is cut when the last program closes the database",
			"the WAL has %s: it has not been written back for long", cli.Size(s.WALBytes))
	}
	if free := s.FreePages * s.PageSize; free > largeFree && s.FreePages*freeShare > s.Pages {
		e.add(note, "free pages", "nothing: they are used again before the file grows", "%s of the file hold nothing", cli.Size(free))
	}
}
