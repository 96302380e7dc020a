package sessionstate

import (
	"context"
	"time"

	"pistate/internal/sqlite"
)

// Status is what can be said of the database without showing a value (Y10).
type Status struct {
	Path    string
	File    FileStat     // sizes of the database's files
	Locks   []Lock       // by session
	Plugins []PluginRows // by plugin
}

// FileStat is the size of a database's files.
type FileStat = sqlite.Stat

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

const (
	// The primary key begins with the plugin. Of plugins there are few, so what is asked of a session is asked of
	// each of them: this finds the next one in the index, again and again, and reads no other row.
	withPlugins = `
		WITH RECURSIVE plugins (id) AS (
		     SELECT min(plugin_id)
		       FROM state
		      UNION ALL
		     SELECT (SELECT min(plugin_id) FROM state WHERE plugin_id > plugins.id)
		       FROM plugins
		      WHERE plugins.id IS NOT NULL)`

	selectLocks = `
		SELECT session_id, holder, acquired_at
		  FROM write_lock
		 ORDER BY session_id`

	selectLockOf = `
		SELECT session_id, holder, acquired_at
		  FROM write_lock
		 WHERE session_id = ?1`

	countRows = `
		SELECT plugin_id, count(DISTINCT session_id), count(*), coalesce(sum(octet_length(value)), 0)
		  FROM state
		 GROUP BY plugin_id
		 ORDER BY plugin_id`

	countRowsOfSession = withPlugins + `
		SELECT s.plugin_id, 1, count(*), sum(octet_length(s.value))
		  FROM plugins AS p
		 CROSS JOIN state AS s ON s.plugin_id = p.id AND s.session_id = ?1
		 GROUP BY s.plugin_id
		 ORDER BY s.plugin_id`
)

// Status reads the lock rows and row counts, of one session if one is named.
func (st *Store) Status(ctx context.Context, session string) (status Status, err error) {
	if err := st.checkOpen(); err != nil {
		return Status{}, err
	}
	err = st.db.Read(ctx, func(rx *sqlite.Rx) error {
		status, err = readStatus(rx, st.Path(), session, st.now())
		return err
	})
	return status, err
}

func readStatus(rx *sqlite.Rx, path, session string, now time.Time) (Status, error) {
	file, err := rx.Stat()
	if err != nil {
		return Status{}, err
	}
	s := Status{Path: path, File: file}
	locks, rows, args := selectLocks, countRows, []any(nil)
	if session != "" {
		locks, rows, args = selectLockOf, countRowsOfSession, []any{session}
	}
	err = rx.Query(locks, func(r sqlite.Row) error {
		l := Lock{Session: r.Text(0), Holder: r.Text(1), Acquired: time.UnixMilli(r.Int64(2))}
		l.Alive = liveness(l.Holder)
		l.Expired = expired(l.Acquired, now)
		s.Locks = append(s.Locks, l)
		return nil
	}, args...)
	if err != nil {
		return Status{}, err
	}
	err = rx.Query(rows, func(r sqlite.Row) error {
		s.Plugins = append(s.Plugins, PluginRows{r.Text(0), r.Int64(1), r.Int64(2), r.Int64(3)})
		return nil
	}, args...)
	return s, err
}
