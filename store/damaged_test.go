package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pistate/schema"
)

// use does to a file what programs do, and checks that each way ends with a coded error that names the file,
// or in success.
func use(t *testing.T, path string) (failed bool) {
	t.Helper()
	judge := func(what string, err error) {
		t.Helper()
		if err == nil {
			return
		}
		failed = true
		var coded *schema.Error
		if !errors.As(err, &coded) {
			t.Errorf("%s: %v has no code", what, err)
		} else if !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("%s: %v does not name the file", what, err)
		}
	}
	report, err := Check(t.Context(), path, CheckOptions{Deep: true})
	judge("check", err)
	if err == nil {
		judge("report", report.Err())
	}
	r, err := OpenReader(t.Context(), path)
	judge("reader", err)
	if err == nil {
		_, err := r.Status(t.Context())
		judge("status", err)
		_, err = r.Events(t.Context(), EventFilter{}, 0, MaxPage)
		judge("events", err)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	target := filepath.Join(t.TempDir(), filepath.Base(path))
	if _, err := Backup(t.Context(), path, target, nil); err != nil {
		judge("backup", err)
		if _, err := os.Lstat(target); !os.IsNotExist(err) {
			t.Error("a failed backup left its target")
		}
	}
	s, err := Open(t.Context(), path, Options{})
	judge("open", err)
	if err == nil {
		_, err := Do(t.Context(), s, Permit{Actor: session1}, create{"late"})
		if !errors.Is(err, schema.Conflict) {
			judge("write", err)
		}
		_ = s.Close() // of a damaged database this may fail too
	}
	return failed
}

func TestDamagedFiles(t *testing.T) { // M6
	good, err := os.ReadFile(populated(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"empty file":     func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"not a database": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("hello ", 1000)), 0o600) },
		"header only":    func(path string) error { return os.WriteFile(path, good[:100], 0o600) },
		"half a header":  func(path string) error { return os.WriteFile(path, good[:16], 0o600) },
		"half a file":    func(path string) error { return os.WriteFile(path, good[:len(good)/2], 0o600) },
		"half a page":    func(path string) error { return os.WriteFile(path, good[:len(good)-1000], 0o600) },
		"a directory":    func(path string) error { return os.Mkdir(path, 0o700) },
		"a wild WAL": func(path string) error {
			return errors.Join(os.WriteFile(path, good, 0o600), os.WriteFile(path+"-wal", []byte(strings.Repeat("wild", 5000)), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.sqlite")
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			if failed := use(t, path); !failed && name != "a wild WAL" { // SQLite takes it for no WAL, rightly
				t.Error("nothing noticed the damage")
			}
		})
	}
}

func TestFlippedBytes(t *testing.T) { // M6
	good, err := os.ReadFile(populated(t))
	if err != nil {
		t.Fatal(err)
	}
	tries := rounds(t, 25)
	if raceDetector {
		tries = 1
	}
	r := rand.New(rand.NewPCG(uint64(tries), 1))
	for i := range tries {
		bad := append([]byte{}, good...)
		var where []string
		for range 1 + r.IntN(20) {
			at := r.IntN(len(bad))
			bad[at] ^= byte(1 + r.IntN(255))
			where = append(where, fmt.Sprint(at))
		}
		path := filepath.Join(t.TempDir(), "state.sqlite")
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		use(t, path) // most flips are in unused space: not each of them is damage
		if t.Failed() {
			t.Fatalf("try %d: flipped %s", i, strings.Join(where, " "))
		}
	}
}

// A WAL that is cut off holds fewer commands, each of them whole.
func TestTruncatedWAL(t *testing.T) { // W6
	s, _ := newStore(t)
	mustCreate(t, s, "c1", "c2", "c3", "c4", "c5")
	main, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile(s.Path() + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	last := int64(-1)
	step := 20_000
	if raceDetector {
		step = 90_000
	}
	for size := 0; size <= len(wal); size += step {
		path := filepath.Join(t.TempDir(), "state.sqlite")
		if err := errors.Join(os.WriteFile(path, main, 0o600), os.WriteFile(path+"-wal", wal[:size], 0o600)); err != nil {
			t.Fatal(err)
		}
		mustPassDeep(t, path)
		st := openAt(t, path, Options{})
		status, err := st.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rows := status.Rows
		if rows["channels"] != rows["events"] || rows["events"] < last {
			t.Errorf("%d bytes of WAL: %d channels, %d events", size, rows["channels"], rows["events"])
		}
		last = rows["events"]
		mustCreate(t, st, "after")
	}
}
