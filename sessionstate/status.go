package sessionstate

import (
	"context"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// Status is what can be said of the database without showing a value (Y10).
type Status struct {
	Path    string
	Locks   []Lock       // by session
	Plugins []PluginRows // by plugin
}

// Lock is one row of write_lock.
type Lock struct {
	Session  string
	Holder   string
	Alive    Liveness  // whether the holder's process lives
	Acquired time.Time // when it was acquired, by the holder's clock
	Expired  bool      // whether its age alone lets others take it over
}

// PluginRows counts the rows of one plugin.
type PluginRows struct {
	Plugin   string
	Sessions int64
	Rows     int64
	Bytes    int64 // of all values
}

// Row is one value of the database, as an outsider sees it.
type Row struct {
	Plugin  string
	Session string
	Branch  string // "" for session scope
	Bytes   int64
	Value   []byte // nil unless asked for
}

// Filter narrows what is read; empty fields match everything.
type Filter struct{ Plugin, Session string }

const (
	selectLocks = `
		SELECT session_id, holder, acquired_at
		  FROM write_lock
		 WHERE ?1 = '' OR session_id = ?1
		 ORDER BY session_id`

	countRows = `
		SELECT plugin_id, count(DISTINCT session_id), count(*), coalesce(sum(octet_length(value)), 0)
		  FROM state
		 WHERE ?1 = '' OR session_id = ?1
		 GROUP BY plugin_id
		 ORDER BY plugin_id`

	// The row values make each page a range of the primary key.
	selectRows = `
		SELECT plugin_id, session_id, branch_id, octet_length(value), CASE WHEN ?6 THEN value END
		  FROM state
		 WHERE (plugin_id, session_id, branch_id) > (?1, ?2, ?3)
		   AND (?4 = '' OR plugin_id  = ?4)
		   AND (?5 = '' OR session_id = ?5)
		 ORDER BY plugin_id, session_id, branch_id
		 LIMIT ?7`
)

// Status reads the lock rows and row counts, of one session if one is named.
func (st *Store) Status(ctx context.Context, session string) (status Status, err error) {
	err = st.db.Read(ctx, func(rx *sqlite.Rx) error {
		status, err = readStatus(rx, st.Path(), session, st.now())
		return err
	})
	return status, err
}

func readStatus(rx *sqlite.Rx, path, session string, now time.Time) (Status, error) {
	s := Status{Path: path}
	err := rx.Query(selectLocks, func(r sqlite.Row) error {
		l := Lock{Session: r.Text(0), Holder: r.Text(1), Acquired: time.UnixMilli(r.Int64(2))}
		l.Alive = liveness(l.Holder)
		l.Expired = expired(l.Acquired, now)
		s.Locks = append(s.Locks, l)
		return nil
	}, session)
	if err != nil {
		return Status{}, err
	}
	err = rx.Query(countRows, func(r sqlite.Row) error {
		s.Plugins = append(s.Plugins, PluginRows{r.Text(0), r.Int64(1), r.Int64(2), r.Int64(3)})
		return nil
	}, session)
	return s, err
}

// Reader looks at a session-state database without ever writing to it: beside its writers, in a read-only
// directory, or at a backup (I1). It is for one goroutine at a time.
type Reader struct{ r *sqlite.Reader }

// OpenReader opens an existing database. Errors: [schema.NotFound] where there is none, and nothing is
// created; [schema.Incompatible], [schema.Corrupt], [schema.Storage].
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	resolved, err := sqlite.Resolve(path)
	if err != nil {
		return nil, err
	}
	r, err := sqlite.OpenReader(ctx, resolved, verify)
	if err != nil {
		return nil, err
	}
	return &Reader{r}, nil
}

// Path returns the database's path with every link followed.
func (r *Reader) Path() string { return r.r.Path() }

// Close closes the database.
func (r *Reader) Close() error { return r.r.Close() }

// Status reads the lock rows and row counts, of one session if one is named.
func (r *Reader) Status(ctx context.Context, session string) (status Status, err error) {
	err = r.r.Read(ctx, func(rx *sqlite.Rx) error {
		status, err = readStatus(rx, r.Path(), session, time.Now())
		return err
	})
	return status, err
}

// Rows returns at most limit rows that match the filter and come after a row, in the order of plugin,
// session and branch. Their values are read only if asked for.
func (r *Reader) Rows(ctx context.Context, f Filter, after Row, limit int, values bool) (rows []Row, err error) {
	if limit <= 0 {
		return nil, schema.Errorf(schema.Invalid, "limit %d: at least 1 is expected", limit)
	}
	err = r.r.Read(ctx, func(rx *sqlite.Rx) error {
		rows = nil
		return rx.Query(selectRows, func(q sqlite.Row) error {
			rows = append(rows, Row{q.Text(0), q.Text(1), q.Text(2), q.Int64(3), q.Bytes(4)})
			return nil
		}, after.Plugin, after.Session, after.Branch, f.Plugin, f.Session, values, limit)
	})
	return rows, err
}
