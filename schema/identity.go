package schema

import (
	"crypto/sha256"
	"embed"
	"fmt"
	"path"
	"strings"
)

// What tells a workflow-state database from any other file (S3). The session-state database has no such
// marks: other programs create it too, from the same two statements.
const (
	StateApplicationID = 0x50495746 // "PIWF"
	StateUserVersion   = 1
	StateName          = "pi-workflows.state" // in schema_meta
)

//go:embed sql/state/*.sql sql/session/states.sql
var files embed.FS

var (
	stateDDL    lazy[string]
	stateDigest lazy[[32]byte]
)

// StateDDL returns the text that creates every table, index and trigger of the workflow-state database: the
// files of sql/state in the order of their names.
func StateDDL() string {
	return stateDDL.get(func() string { return join("sql/state") })
}

// StateDigest returns the SHA-256 of StateDDL. Two builds with the same digest share databases (S4).
func StateDigest() [32]byte {
	return stateDigest.get(func() [32]byte { return sha256.Sum256([]byte(StateDDL())) })
}

// SessionDDL returns the text that creates the session-state database and leaves an existing one alone (Y4).
func SessionDDL() string { return read("sql/session/states.sql") }

// join returns the files of a directory as one text.
func join(dir string) string {
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(err) // the directory is part of the program
	}
	var ddl strings.Builder
	for i, entry := range entries { // sorted by name
		if i > 0 {
			ddl.WriteByte('\n')
		}
		ddl.WriteString(read(path.Join(dir, entry.Name())))
	}
	return ddl.String()
}

func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return string(text)
}

// Creator is a write transaction in an empty database.
type Creator interface {
	Script(sql string) error                                 // runs statements without parameters
	Exec(sql string, args ...any) (changed int64, err error) // runs one statement
}

const insMeta = `
INSERT INTO schema_meta (name, version, ddl_digest, app_version, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)`

// CreateState makes the workflow-state schema and its identity (S3). appVersion names the program that
// creates it, nowMS is the time in epoch milliseconds. The caller owns the transaction: an error leaves it
// half done, to be rolled back.
func CreateState(tx Creator, appVersion string, nowMS int64) error {
	if err := tx.Script(StateDDL()); err != nil {
		return err
	}
	marks := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", StateApplicationID, StateUserVersion)
	if err := tx.Script(marks); err != nil {
		return err
	}
	digest := StateDigest()
	_, err := tx.Exec(insMeta, StateName, StateUserVersion, digest[:], appVersion, nowMS)
	return err
}
