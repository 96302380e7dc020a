package schema

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// maxDifferences is how many differences an error lists.
const maxDifferences = 20

// VerifyState checks that a database is the workflow-state database that this program would create:
// application id, user version, the one row of schema_meta with the digest of the DDL, and the exact shape
// (S3, S4). It only reads.
//
// The error of a mismatch is [Incompatible]; it lists the differences and tells what to do. An error of the
// query comes back as it is: SQLite itself refuses a schema that contradicts itself.
func VerifyState[R Row](q Queryer[R]) error {
	app, err := pragma(q, "application_id")
	if err != nil {
		return err
	}
	user, err := pragma(q, "user_version")
	if err != nil {
		return err
	}
	shape, err := ReadShape(q)
	if err != nil {
		return err
	}
	switch {
	case len(shape) == 0 && app == 0 && user == 0:
		return Errorf(Incompatible, "an empty database, without any table. %s", moveAway)
	case app != StateApplicationID && len(Diff(sessionShape(), shape)) == 0:
		return Errorf(Incompatible, "a session-state database, not a workflow database. %s", moveAway)
	case app != StateApplicationID:
		return Errorf(Incompatible, "application id 0x%08x, not 0x%08x: not a workflow database. %s", uint32(app), StateApplicationID, moveAway)
	}
	var lines []string
	if user != StateUserVersion {
		lines = append(lines, fmt.Sprintf("user version: expected %d, found %d", StateUserVersion, user))
	}
	differences := Diff(stateShape(), shape)
	if !slices.ContainsFunc(differences, func(line string) bool { return strings.HasPrefix(line, "table schema_meta:") }) {
		found, err := diffMeta(q)
		if err != nil {
			return err
		}
		lines = append(lines, found...)
	}
	if lines = append(lines, differences...); len(lines) == 0 {
		return nil
	}
	return Errorf(Incompatible, "a workflow database of another version:%s\n%s", list(lines), clearState)
}

// VerifySession checks that a database holds the two tables of session state as the DDL has them (Y4), and
// nothing else: a table, index or trigger more is another version's, whose rules this program doesn't know
// (S4). Any application id and user version will do, and whatever spacing, comments and quotes the program
// that created the tables has used. It only reads.
//
// The error of a mismatch is [Incompatible]; it lists the differences and tells what to do. An error of the
// query comes back as it is.
func VerifySession[R Row](q Queryer[R]) error {
	shape, err := ReadShape(q)
	if err != nil {
		return err
	}
	lines := Diff(sessionShape(), shape)
	if len(lines) == 0 {
		return nil
	}
	app, err := pragma(q, "application_id")
	if err != nil {
		return err
	}
	switch {
	case app == StateApplicationID:
		return Errorf(Incompatible, "a workflow database (application id 0x%08x), not session state. %s", StateApplicationID, ownFile)
	case len(shape) == 0:
		return Errorf(Incompatible, "an empty database, without any table. %s", ownFile)
	case !shape.has("table", "state") && !shape.has("table", "write_lock"):
		return Errorf(Incompatible, "no table state and no table write_lock: not a session-state database. %s", ownFile)
	}
	return Errorf(Incompatible, "other tables than those of session state:%s\n%s", list(lines), ownFile)
}

// SessionUnfinished reports whether a database is session state of which one table is still missing: another
// program creates the two in transactions of their own, and may be at it, or have died between them.
func SessionUnfinished[R Row](q Queryer[R]) (bool, error) {
	shape, err := ReadShape(q)
	if err != nil {
		return false, err
	}
	lines := Diff(sessionShape(), shape)
	return len(lines) == 1 && strings.HasPrefix(lines[0], "table ") && strings.HasSuffix(lines[0], ": missing"), nil
}

// What to do about a mismatch.
const (
	clearState = "Nothing was changed. To keep this state, use the program that made it. Alpha state is not converted: " +
		"to begin anew, stop every program that uses the file, and move it away together with its -wal and -shm files."
	moveAway = "Nothing was changed. Choose another path, or move the file away together with its -wal and -shm files."
	ownFile  = "Nothing was changed. Set sessionState.databasePath to a file that nothing else uses, or move this one " +
		"away together with its -wal and -shm files."
)

func list(lines []string) string {
	more := ""
	if extra := len(lines) - maxDifferences; extra > 0 {
		lines, more = lines[:maxDifferences], fmt.Sprintf("\n  and %d more", extra)
	}
	return "\n  " + strings.Join(lines, "\n  ") + more
}

// diffMeta compares the row of schema_meta with this program's.
func diffMeta[R Row](q Queryer[R]) (lines []string, err error) {
	rows := 0
	differ := func(column string, want, got any) {
		lines = append(lines, fmt.Sprintf("schema_meta: %s: expected %v, found %v", column, want, got))
	}
	err = q.Query("SELECT name, version, ddl_digest FROM main.schema_meta", func(r R) error {
		if rows++; rows > 1 {
			return nil
		}
		name, version, digest, want := r.Text(0), r.Int64(1), r.Bytes(2), StateDigest()
		if name != StateName {
			differ("name", StateName, printable(name))
		}
		if version != StateUserVersion {
			differ("version", StateUserVersion, version)
		}
		if !bytes.Equal(digest, want[:]) {
			differ("ddl_digest", fmt.Sprintf("%x", want), printable(fmt.Sprintf("%x", digest[:min(len(digest), maxExcerpt)])))
		}
		return nil
	})
	if rows != 1 && err == nil {
		lines = append(lines, fmt.Sprintf("schema_meta: expected 1 row, found %d", rows))
	}
	return lines, err
}

func pragma[R Row](q Queryer[R], name string) (value int64, err error) {
	err = q.Query("PRAGMA "+name, func(r R) error {
		value = r.Int64(0)
		return nil
	})
	return value, err
}
