package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

func TestDefaultPath(t *testing.T) { // S1
	home := t.TempDir()
	t.Setenv("HOME", home)
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		"":             filepath.Join(home, ".pi", "agent"),
		"~":            home,
		"~/x":          filepath.Join(home, "x"),
		"/srv/agent/":  "/srv/agent",
		"agent":        filepath.Join(cwd, "agent"),
		"~other/agent": filepath.Join(cwd, "~other", "agent"),
	} {
		t.Setenv(schema.AgentDirEnv, dir)
		got, err := DefaultPath()
		if want := filepath.Join(want, "workflows", "state.sqlite"); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", dir, got, err, want)
		}
	}
	t.Setenv("HOME", "")
	t.Setenv(schema.AgentDirEnv, "")
	_, err = DefaultPath()
	wantCode(t, err, schema.Invalid)
}

func TestOpenCreates(t *testing.T) { // S3, S5
	path := filepath.Join(t.TempDir(), "workflows", "state.sqlite")
	c := newClock()
	s := openAt(t, path, Options{Now: c.Now, AppVersion: "9.9"})
	status, err := s.Status(t.Context())
	if err != nil || status.AppVersion != "9.9" || status.CreatedAt != c.millis() || status.Path != path {
		t.Errorf("%+v, %v", status, err)
	}
	mustCreate(t, s, "c1")
	for name, mode := range map[string]os.FileMode{"": 0o700, "state.sqlite": 0o600, "state.sqlite-wal": 0o600, "state.sqlite-shm": 0o600} {
		if info, err := os.Stat(filepath.Join(filepath.Dir(path), name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	_, err = Do(t.Context(), s, Permit{Actor: session1}, create{"c2"})
	wantCode(t, err, schema.Closed)
	_, err = s.Resource(t.Context(), channel("c1"))
	wantCode(t, err, schema.Closed)

	r, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if res, err := r.Resource(t.Context(), channel("c1")); err != nil || res.Revision != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	_, err = r.Resource(t.Context(), channel("c2"))
	wantCode(t, err, schema.NotFound)
	before, err := r.DataVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again := openAt(t, path, Options{})
	mustCreate(t, again, "c2")
	if after, err := r.DataVersion(t.Context()); err != nil || after == before {
		t.Errorf("data version %d, then %d, %v", before, after, err)
	}
	if res, err := r.Resource(t.Context(), channel("c2")); err != nil || res.Revision != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	mustPassDeep(t, path)
}

func TestOpenRefuses(t *testing.T) {
	_, err := Open(t.Context(), "state.sqlite", Options{})
	wantCode(t, err, schema.Invalid)
	_, err = OpenReader(t.Context(), "state.sqlite")
	wantCode(t, err, schema.Invalid)
	_, err = Check(t.Context(), "state.sqlite", CheckOptions{})
	wantCode(t, err, schema.Invalid)
	_, err = Backup(t.Context(), "state.sqlite", "/tmp/x", nil)
	wantCode(t, err, schema.Invalid)
	_, err = Open(t.Context(), "", Options{})
	wantCode(t, err, schema.Invalid)
	dir := t.TempDir()
	missing := filepath.Join(dir, "deeper", "state.sqlite")
	_, err = OpenReader(t.Context(), missing)
	wantCode(t, err, schema.NotFound)
	_, err = Check(t.Context(), missing, CheckOptions{Deep: true})
	wantCode(t, err, schema.NotFound)
	if _, err := os.Stat(filepath.Dir(missing)); !os.IsNotExist(err) {
		t.Error("looking for a database made a directory")
	}
}

// Another version's database is refused by writers and readers, and its bytes stay as they are.
func TestIncompatibleDatabase(t *testing.T) { // S4
	for name, change := range map[string]string{
		"user version":   "PRAGMA user_version = 2",
		"application id": "PRAGMA application_id = 1",
		"digest":         "UPDATE schema_meta SET ddl_digest = zeroblob(32)",
		"column":         "ALTER TABLE channels ADD COLUMN extra TEXT",
		"index":          "DROP INDEX leases_by_owner",
		"trigger":        "CREATE TRIGGER extra BEFORE UPDATE ON channels BEGIN SELECT 1; END",
		"view":           "CREATE VIEW extra AS SELECT 1",
	} {
		if raceDetector && name != "column" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			plant(t, path, change)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Open(t.Context(), path, Options{})
			wantCode(t, err, schema.Incompatible)
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move") {
				t.Errorf("the error does not say which file, and what to do: %v", err)
			}
			_, err = OpenReader(t.Context(), path)
			wantCode(t, err, schema.Incompatible)
			report, err := Check(t.Context(), path, CheckOptions{})
			if err == nil {
				err = report.Err()
			}
			wantCode(t, err, schema.Incompatible)
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

// The shape changes under a writer: its next command notices.
func TestSchemaChangesUnderAWriter(t *testing.T) { // S8
	s, _ := newStore(t)
	mustCreate(t, s, "c1")
	plant(t, s.Path(), "CREATE TABLE extra (a TEXT) STRICT")
	_, err := Do(t.Context(), s, Permit{Actor: session1}, create{"c2"})
	wantCode(t, err, schema.Incompatible)
	plant(t, s.Path(), "DROP TABLE extra")
	mustCreate(t, s, "c2")
}

func TestReplacedUnderAWriter(t *testing.T) { // S9
	s, _ := newStore(t)
	mustCreate(t, s, "c1")
	if err := os.Rename(newPath(t), s.Path()); err != nil {
		t.Fatal(err)
	}
	_, err := Do(t.Context(), s, Permit{Actor: session1}, create{"c2"})
	wantCode(t, err, schema.Replaced)
}

func TestOlderStateBeside(t *testing.T) { // S6
	mkdir := func(path string) error { return os.MkdirAll(path, 0o755) }
	file := func(path string) error { return os.WriteFile(path, []byte("old"), 0o644) }
	for name, tc := range map[string]struct {
		make    func(string) error
		refused bool
	}{
		"runs":                {mkdir, true},
		"decisions":           {mkdir, true},
		"controllers":         {mkdir, true},
		"project-1.sqlite":    {file, true},
		"channel.SQLITE":      {file, true},
		"state-backup.sqlite": {file, true},
		"hosts":               {mkdir, false},
		"notes.txt":           {file, false},
		"x.sqlite-journal":    {file, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "workflows")
			path := filepath.Join(dir, "state.sqlite")
			if err := mkdir(dir); err != nil {
				t.Fatal(err)
			}
			older := filepath.Join(dir, name)
			if err := tc.make(older); err != nil {
				t.Fatal(err)
			}
			s, err := Open(t.Context(), path, Options{})
			if !tc.refused {
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			wantCode(t, err, schema.Incompatible)
			if !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), dir) {
				t.Errorf("the error does not say what lies where: %v", err)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Errorf("the directory now holds %v (%v)", entries, err)
			}
			if err := file(path); err != nil { // no database yet, so its creation is what is at stake
				t.Fatal(err)
			}
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			_, err = Open(t.Context(), path, Options{})
			wantCode(t, err, schema.Incompatible)

			if err := os.Rename(newPath(t), path); err != nil { // both exist: only the database is live
				t.Fatal(err)
			}
			if s, err = Open(t.Context(), path, Options{}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The C program reads the file while writers run, and finds nothing wrong.
func TestOutsideReader(t *testing.T) { // S2, W6
	s, _ := openStore(t)
	other := openAt(t, s.Path(), Options{})
	mustCreate(t, s, "c0", "c1")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i, st := range []*Store{s, other} {
		wg.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				effects := []EffectSpec{spec(fmt.Sprint("k", n), true)}
				_, err := Do(context.Background(), st, Permit{Actor: session1, Expected: n}, touch{Channel: fmt.Sprint("c", i), Effects: effects})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 10 {
		got := sqlite3CLI(t, s.Path(), `PRAGMA integrity_check; PRAGMA foreign_key_check;
			SELECT count(*) FROM resources AS r WHERE revision <> (SELECT max(revision) FROM events AS e WHERE e.resource_id = r.resource_id);`)
		if got != "ok\n0\n" {
			t.Error(got)
		}
	}
	cancel()
	wg.Wait()
}

func TestBackupWhileWritersRun(t *testing.T) { // M2, M3, M5
	s, _ := openStore(t)
	mustCreate(t, s, "c1")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := int64(1); ctx.Err() == nil; n++ {
			if _, err := Do(context.Background(), s, Permit{Actor: session1, Expected: n}, touch{Channel: "c1"}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	dir := t.TempDir()
	last := int64(0)
	backups := 3
	if raceDetector {
		backups = 1
	}
	for i := range backups {
		target := filepath.Join(dir, fmt.Sprint(i, ".sqlite"))
		result, err := Backup(t.Context(), s.Path(), target, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustPassDeep(t, target)
		r, err := OpenReader(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		status, err := r.Status(t.Context())
		if err != nil || status.Rows["events"] != result.Rows["events"] || status.Rows["events"] <= last {
			t.Errorf("%d events in the copy, %d were reported (%v)", status.Rows["events"], result.Rows["events"], err)
		}
		last = status.Rows["events"]
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err = Backup(t.Context(), s.Path(), target, nil); !errors.Is(err, schema.Conflict) {
			t.Error(err)
		}
	}
	cancel()
	wg.Wait()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != backups {
		t.Errorf("the backups left %v (%v)", entries, err)
	}
}

// The pinned SQLite has the fix for the race that reset a WAL in use.
func TestSQLiteVersion(t *testing.T) {
	db, err := sqlite3.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	stmt, _, err := db.Prepare("SELECT sqlite_version()")
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	var major, minor, patch int
	if !stmt.Step() {
		t.Fatal(stmt.Err())
	}
	if _, err := fmt.Sscanf(stmt.ColumnText(0), "%d.%d.%d", &major, &minor, &patch); err != nil {
		t.Fatal(err)
	}
	if version := major*1_000_000 + minor*1000 + patch; version < 3_051_003 {
		t.Errorf("SQLite %s is older than 3.51.3", stmt.ColumnText(0))
	}
}
