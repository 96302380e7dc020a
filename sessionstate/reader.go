//go:build !wasip1

package sessionstate

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

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

// Scope returns the scope of the row.
func (r Row) Scope() Scope {
	if r.Branch == "" {
		return ScopeSession
	}
	return ScopeBranch
}

// Cursor returns text that [ParseCursor] turns into the place after this row in a list.
func (r Row) Cursor() string {
	key, _ := json.Marshal([]string{r.Plugin, r.Session, r.Branch}) // strings always marshal
	return base64.RawURLEncoding.EncodeToString(key)
}

// ParseCursor returns the row that a cursor stands for; "" stands for the beginning.
func ParseCursor(cursor string) (Row, error) {
	if cursor == "" {
		return Row{}, nil
	}
	var key []string
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(text, &key)
	}
	if err != nil || len(key) != 3 {
		return Row{}, schema.Errorf(schema.Invalid, "%q is no cursor of this list", cursor)
	}
	return Row{Plugin: key[0], Session: key[1], Branch: key[2]}, nil
}

// SessionRows counts the rows of one session.
type SessionRows struct {
	Session string
	Plugins int64
	Rows    int64
	Bytes   int64 // of all values
	Locked  bool  // whether there is a lock row
}

const (
	// The row values make each page a range of the primary key.
	selectRows = `
		SELECT plugin_id, session_id, branch_id, octet_length(value), CASE WHEN ?5 THEN value END
		  FROM state
		 WHERE (plugin_id, session_id, branch_id) > (?1, ?2, ?3)
		   AND (?4 = '' OR plugin_id = ?4)
		 ORDER BY plugin_id, session_id, branch_id
		 LIMIT ?6`

	selectRowsOfSession = withPlugins + `
		SELECT s.plugin_id, s.session_id, s.branch_id, octet_length(s.value), CASE WHEN ?5 THEN s.value END
		  FROM plugins AS p
		 CROSS JOIN state AS s ON s.plugin_id = p.id AND s.session_id = ?7
		 WHERE (s.plugin_id, s.session_id, s.branch_id) > (?1, ?2, ?3)
		   AND (?4 = '' OR p.id = ?4)
		 ORDER BY s.plugin_id, s.session_id, s.branch_id
		 LIMIT ?6`

	// The next session is the first one that any plugin has after the one before.
	selectSessions = withPlugins + `,
		     sessions (id) AS (
		     SELECT (SELECT min((SELECT min(session_id) FROM state WHERE plugin_id = p.id AND session_id > ?1)) FROM plugins AS p)
		      UNION ALL
		     SELECT (SELECT min((SELECT min(session_id) FROM state WHERE plugin_id = p.id AND session_id > sessions.id)) FROM plugins AS p)
		       FROM sessions
		      WHERE sessions.id IS NOT NULL
		      LIMIT ?2),
		     counted (session, rows, bytes) AS (
		     SELECT n.id,
		            (SELECT count(*)                 FROM state WHERE plugin_id = p.id AND session_id = n.id),
		            (SELECT sum(octet_length(value)) FROM state WHERE plugin_id = p.id AND session_id = n.id)
		       FROM sessions AS n
		      CROSS JOIN plugins AS p)
		SELECT session, count(*), sum(rows), sum(bytes),
		       EXISTS (SELECT 1 FROM write_lock AS l WHERE l.session_id = session)
		  FROM counted
		 WHERE rows > 0
		 GROUP BY session
		 ORDER BY session`
)

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
	query, args := selectRows, []any{after.Plugin, after.Session, after.Branch, f.Plugin, values, limit}
	if f.Session != "" {
		query, args = selectRowsOfSession, append(args, f.Session)
	}
	err = r.r.Read(ctx, func(rx *sqlite.Rx) error {
		rows = nil
		return rx.Query(query, func(q sqlite.Row) error {
			rows = append(rows, Row{q.Text(0), q.Text(1), q.Text(2), q.Int64(3), q.Bytes(4)})
			return nil
		}, args...)
	})
	return rows, err
}

// Sessions returns at most limit sessions that have rows and come after a session id.
func (r *Reader) Sessions(ctx context.Context, after string, limit int) (sessions []SessionRows, err error) {
	if limit <= 0 {
		return nil, schema.Errorf(schema.Invalid, "limit %d: at least 1 is expected", limit)
	}
	err = r.r.Read(ctx, func(rx *sqlite.Rx) error {
		sessions = nil
		return rx.Query(selectSessions, func(q sqlite.Row) error {
			sessions = append(sessions, SessionRows{q.Text(0), q.Int64(1), q.Int64(2), q.Int64(3), q.Bool(4)})
			return nil
		}, after, limit)
	})
	return sessions, err
}
