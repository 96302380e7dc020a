package sessionstate

import (
	"context"
	"path/filepath"
	"sync"

	"pistate/schema"
)

// DefaultMaxLine is the longest line that a SessionFile accepts unless MaxLine says otherwise: 64 MiB.
const DefaultMaxLine = 64 << 20

// SessionVersion is the version of Pi's session format that a SessionFile reads.
const SessionVersion = 3

// A SessionFile is the tree of one of Pi's session files, which Sync keeps up to date as the file grows (rule Y11).
//
// The file is a header line ({"type":"session","version":3,"id":...}) and then one entry a line, each with an id
// and the parentId of the entry before it on its branch. A SessionFile builds the tree that Pi builds from
// the same bytes, damaged ones included:
//
//   - A line that isn't a JSON object is skipped; a BOM, carriage returns and blank lines are harmless.
//   - A last line without its newline counts if it is whole, and is looked at again when more arrives.
//   - Of entries with the same id the last one counts, as one entry.
//   - An entry whose parentId is null, missing, its own id, or the id of no entry is a root. There may be many
//     roots. A parent may come after its children.
//   - The type of an entry doesn't matter, except that a later "session" line is none.
//   - The leaf is the last entry.
//
// An entry without an id that could name it (no string, empty, or over 4,096 bytes) is skipped, also as the leaf.
// Whatever Pi wouldn't have written is reported by Problems.
//
// It holds the ids and parents and not the lines, so that its memory depends on the number of entries only. All
// methods may be called by several goroutines at once. As a Tree with a session id and a leaf it is a
// SessionContext.
type SessionFile struct {
	path    string
	session string

	mu     sync.RWMutex
	source *follower
	log    *sessionLog
	failed error // what ended the following for good
	closed bool
}

// A SessionFileOption changes how OpenSessionFile reads.
type SessionFileOption func(*sessionFileOptions)

type sessionFileOptions struct{ maxLine int64 }

// MaxLine sets the greatest length of a line, in bytes without its newline. A longer one is schema.Limit.
// Lines are not kept in memory, so that this is a guard against a file gone wrong and no more.
func MaxLine(bytes int64) SessionFileOption {
	return func(o *sessionFileOptions) { o.maxLine = bytes }
}

// OpenSessionFile reads the whole session file at path, and keeps it open for Sync until Close.
//
// A file that doesn't exist, or has nothing in it yet, is schema.NotFound: Pi writes a session's file with its first
// answer. A first entry that is no session header, or a cycle among the entries, is schema.Corrupt; a
// version other than 3 is schema.Incompatible; a line that is too long is schema.Limit; what is no regular file is
// schema.Invalid; a file that can't be read is schema.Storage.
func OpenSessionFile(path string, opts ...SessionFileOption) (*SessionFile, error) {
	if path == "" {
		return nil, schema.Errorf(schema.Invalid, "the path of the session file is empty")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, schema.Errorf(schema.Storage, "session file %s: %w", path, err)
	}
	o := sessionFileOptions{maxLine: DefaultMaxLine}
	for _, opt := range opts {
		opt(&o)
	}
	if o.maxLine <= 0 {
		return nil, schema.Errorf(schema.Invalid,
			"session file %s: the limit for a line is %d bytes; it must be positive", abs, o.maxLine)
	}
	source, err := openFollower(abs)
	if err != nil {
		return nil, err
	}
	f := &SessionFile{path: abs, source: source, log: newSessionLog(o.maxLine)}
	if err := f.catchUp(context.Background()); err != nil {
		_ = source.file.Close() // it was only read; the first error is the one that matters
		return nil, err
	}
	f.session = f.log.session
	return f, nil
}

// catchUp reads what is new.
func (f *SessionFile) catchUp(ctx context.Context) error {
	if f.failed != nil {
		return f.failed
	}
	err := f.source.readNew(ctx, func(p []byte) error {
		if err := f.log.feed(p); err != nil {
			f.failed = f.wrap(err)
			return f.failed
		}
		return nil
	})
	if err != nil {
		f.log.tree.settle() // the questions go on with what there is
		return err
	}
	return f.wrap(f.log.end())
}

// Close ends the use of the file. Afterwards Sync and the questions of a Tree return schema.Closed.
func (f *SessionFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	if err := f.source.file.Close(); err != nil {
		return schema.Errorf(schema.Storage, "session file %s: %w", f.path, err)
	}
	return nil
}

// Path returns the absolute path of the file.
func (f *SessionFile) Path() string { return f.path }

// SessionID returns the id in the header. The name of the file is not evidence: a forked session keeps its own.
func (f *SessionFile) SessionID() string { return f.session }

// Leaf returns the id of the last entry, "" before the first.
func (f *SessionFile) Leaf() string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.log.leaf == noParent {
		return ""
	}
	return f.log.tree.nodes[f.log.leaf].id
}

// Tree returns f itself.
func (f *SessionFile) Tree() Tree { return f }

// BranchKey implements Tree.
func (f *SessionFile) BranchKey(leaf string) (string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return "", f.errClosed()
	}
	key, err := f.log.tree.branchKey(leaf)
	return key, f.wrap(err)
}

// ParentKey implements Tree.
func (f *SessionFile) ParentKey(key string) (parent string, ok bool, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return "", false, f.errClosed()
	}
	parent, ok, err = f.log.tree.parentKey(key)
	return parent, ok, f.wrap(err)
}

// Len returns the number of entries. An id that occurs twice counts once.
func (f *SessionFile) Len() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.log.tree.order)
}

// Entries returns the ids of all entries in the order in which they first occur in the file.
func (f *SessionFile) Entries() []string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	ids := make([]string, len(f.log.tree.order))
	for k, n := range f.log.tree.order {
		ids[k] = f.log.tree.nodes[n].id
	}
	return ids
}

// Contains reports whether id is the id of an entry.
func (f *SessionFile) Contains(id string) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	_, ok := f.log.tree.find(id)
	return ok
}

// Sync reads what was appended to the file since the last Sync, and returns how many entries that was. It costs
// a few system calls when nothing was, and otherwise what the new bytes cost; damage that
// changes the tree of earlier entries adds at most one pass over them.
//
// Each of these is an error, and the tree stays as it was: the file was removed, replaced, shortened or rewritten
// in place (schema.Replaced: open it anew). A rewrite is noticed if it changes the file's first or latest
// kilobyte. A cycle is schema.Corrupt, for the questions of the Tree too, until an entry breaks it. A
// line that is too long is schema.Limit. A fault of the disk is schema.Storage, an ended ctx schema.Canceled; the next
// Sync goes on from there.
//
// The questions of other goroutines wait while Sync works.
func (f *SessionFile) Sync(ctx context.Context) (added int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, f.errClosed()
	}
	if err := f.source.checkSame(); err != nil {
		return 0, err
	}
	before := f.log.entries
	err = f.catchUp(ctx)
	return f.log.entries - before, err
}

// Problems returns what Pi wouldn't have written, by line: at most a thousand, and then one that counts the
// rest. It costs a pass over all entries.
func (f *SessionFile) Problems() []Problem {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.log.problems()
}

func (f *SessionFile) wrap(err error) error {
	if err == nil {
		return nil
	}
	return schema.Errorf(schema.CodeOf(err), "session file %s: %w", f.path, err)
}

func (f *SessionFile) errClosed() error {
	return schema.Errorf(schema.Closed, "session file %s: used after Close", f.path)
}
