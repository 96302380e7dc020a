package store

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// Options are the settings of a [Store]. With the same clock and source of randomness the same commands
// give the same bytes, in every build.
type Options struct {
	Now        func() time.Time // the clock; nil: time.Now
	Random     io.Reader        // ids, tokens and jitter come from it; nil: crypto/rand
	AppVersion string           // the program's version, noted in a database that it creates; "": unknown

	// FollowLinks returns the path of an existing directory with every symbolic link followed; nil:
	// filepath.EvalSymlinks. For builds that see no file system.
	FollowLinks func(path string) (string, error)
}

// Store is the workflow database, open for writing. It is safe for concurrent use: commands that arrive
// together share a transaction and its sync.
type Store struct {
	Queries
	db          *sqlite.DB
	random      *lockedReader
	followLinks func(string) (string, error)
}

// Queries are the reads that a [Store] and a [Reader] share. Each sees one snapshot and writes nothing (W7,
// V2).
type Queries struct {
	view func(context.Context, func(*sqlite.Rx) error) error
	path string
	now  func() time.Time
}

// Path returns the database's path with every link followed.
func (q *Queries) Path() string { return q.path }

// DefaultPath returns where the workflow database of this user is: workflows/state.sqlite in the agent
// directory (S1). Errors: [schema.Invalid] where there is no home directory to find it in.
func DefaultPath() (string, error) {
	dir, err := schema.AgentDir(os.Getenv, os.UserHomeDir)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "workflows", "state.sqlite"), nil
}

// Open opens the workflow database at an absolute path and creates it, with its directory, if it is missing.
//
// Errors: [schema.Invalid] for a path that can't be one; [schema.Incompatible] for a database of another
// version or kind, which is left as it is (S4), and for a new one beside older state (S6);
// [schema.Corrupt], [schema.Busy], [schema.Storage].
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	resolved, err := resolve(path)
	if err != nil {
		return nil, err
	}
	if err := refuseOlderState(resolved); err != nil {
		return nil, err
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	if opts.AppVersion == "" {
		opts.AppVersion = "unknown"
	}
	if opts.FollowLinks == nil {
		opts.FollowLinks = filepath.EvalSymlinks
	}
	db, err := sqlite.Open(ctx, resolved, sqlite.Schema{
		Create: func(tx *sqlite.Tx) error {
			return schema.CreateState(tx, opts.AppVersion, int64(MillisOf(opts.Now())))
		},
		Verify: verifyShape,
	})
	if err != nil {
		return nil, err
	}
	return &Store{
		Queries:     Queries{db.Read, resolved, opts.Now},
		db:          db,
		random:      &lockedReader{r: opts.Random},
		followLinks: opts.FollowLinks,
	}, nil
}

// Close closes the database, after the commands and reads that have begun. Closing twice is harmless.
func (s *Store) Close() error { return s.db.Close() }

func resolve(path string) (string, error) {
	if path != "" && !filepath.IsAbs(path) {
		return "", schema.Errorf(schema.Invalid, "database path %q is relative: give an absolute path", path)
	}
	return sqlite.Resolve(path)
}

// verifyShape checks identity and shape (S4).
func verifyShape(rx *sqlite.Rx) error { return schema.VerifyState(rx) }

// olderState are the directories in which earlier versions kept their state.
var olderState = []string{"runs", "decisions", "controllers"}

// refuseOlderState refuses to create a database where older state lies beside it (S6): files of earlier
// versions, which nothing here reads, or any other database, which may be a backup that was meant to be put
// in place.
func refuseOlderState(path string) error {
	exists, names, err := sqlite.Beside(path)
	if err != nil || exists {
		return err
	}
	var found []string
	for _, name := range names {
		older := slices.Contains(olderState, name)
		other := strings.EqualFold(filepath.Ext(name), ".sqlite") && name != filepath.Base(path)
		if older || other {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return schema.Errorf(schema.Incompatible, "%s does not exist, and %s holds older state: %s. Nothing was created or changed, and nothing is imported. To begin anew, move it out of the directory; to restore a backup, give it the name %s",
		path, filepath.Dir(path), strings.Join(found, ", "), filepath.Base(path))
}
