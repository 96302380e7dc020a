package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pistate/internal/storefixture"
	"pistate/store"
)

// following is a command that goes on.
type following struct {
	t     *testing.T
	lines chan string
	code  chan int
	stop  context.CancelFunc

	mu     sync.Mutex
	stderr bytes.Buffer
}

func (f *following) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stderr.Write(p)
}

func (f *following) warned() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stderr.String()
}

func startFollowing(t *testing.T, args ...string) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f := &following{t: t, lines: make(chan string, 1000), code: make(chan int, 1), stop: cancel}
	go func() {
		defer close(f.lines)
		for r := bufio.NewReader(read); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				if err != io.EOF || line != "" {
					t.Errorf("the output ends with %q: %v", line, err)
				}
				return
			}
			f.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	go func() {
		f.code <- Program().Run(ctx, args, strings.NewReader(""), write, f)
		write.Close()
	}()
	t.Cleanup(func() {
		cancel()
		for range f.lines {
		}
		read.Close()
	})
	return f
}

// until waits for a line with a text in it and returns it.
func (f *following) until(text string) string {
	f.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case line, ok := <-f.lines:
			if !ok {
				f.t.Fatalf("the output ended before %q; %s", text, f.warned())
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-deadline:
			f.t.Fatalf("%q did not come; %s", text, f.warned())
		}
	}
}

// ends waits for the end of the command.
func (f *following) ends(want int) {
	f.t.Helper()
	select {
	case got := <-f.code:
		if got != want {
			f.t.Errorf("exit code %d, want %d: %s", got, want, f.warned())
		}
	case <-time.After(30 * time.Second):
		f.t.Fatal("the command goes on")
	}
}

// writer is somebody who writes to a database.
type writer struct {
	testing.TB
	*store.Store
}

func openWriter(t testing.TB, path string) *writer {
	t.Helper()
	s, err := store.Open(context.Background(), path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &writer{t, s}
}

func (w *writer) cancel(run string) {
	w.Helper()
	permit := store.Permit{Actor: store.Actor{Class: store.ControlActor}, Expected: store.AnyRevision}
	if _, err := store.Do(context.Background(), w.Store, permit, store.RequestCancel{Run: run}); err != nil {
		w.Fatal(err)
	}
}

func (w *writer) close() {
	w.Helper()
	if err := w.Store.Close(); err != nil {
		w.Fatal(err)
	}
}

func TestFollowEvents(t *testing.T) { // I1, I3
	db := seeded(t, "shop")
	f := startFollowing(t, "events", "--follow", "--limit", "1", "--db", db)
	f.until("update.appended")
	w := openWriter(t, db) // it was at rest, and becomes live
	w.cancel("run-part-1")
	f.until("run.cancelled")
	w.cancel("run-working")
	f.until("run.cancel_requested")
	w.close() // and is at rest again
	w = openWriter(t, db)
	w.cancel("run-lost")
	f.until("run:run-lost")
	w.close()
	f.stop()
	f.ends(130)
	if f.warned() != "" {
		t.Error(f.warned())
	}
}

func TestFollowWithAFilterAndAsJSON(t *testing.T) {
	db := seeded(t, "shop")
	f := startFollowing(t, "events", "--follow", "--json", "--run", "run-working", "--after", "0", "--db", db)
	for sequence := int64(0); ; {
		var e store.Event
		line := f.until("run-working")
		if err := json.Unmarshal([]byte(dropTimes(t, line)), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e.Sequence <= sequence || e.Run != "run-working" {
			t.Errorf("after %d: %+v", sequence, e)
		}
		sequence = e.Sequence
		if e.Type == "update.appended" {
			break
		}
	}
	w := openWriter(t, db)
	defer w.close()
	w.cancel("run-part-1") // another run's
	w.cancel("run-working")
	if line := f.until(""); !strings.Contains(line, "run.cancel_requested") {
		t.Error(line)
	}
	f.stop()
	f.ends(130)
}

// dropTimes takes the times out of a line, which have another form than in the store.
func dropTimes(t *testing.T, line string) string {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(line), &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc, "at")
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A database that is replaced is followed in its new place, as when a backup is put back.
func TestFollowSurvivesAReplacedDatabase(t *testing.T) { // I1
	db := seeded(t, "shop")
	older := filepath.Join(t.TempDir(), "older.sqlite")
	copyFile(t, db, older)
	w := openWriter(t, db)
	w.cancel("run-part-1")
	w.close()

	f := startFollowing(t, "events", "--follow", "--limit", "1", "--db", db)
	f.until("run.cancelled")
	if err := os.Remove(db); err != nil {
		t.Fatal(err)
	}
	f.untilWarned("no such database")
	if err := os.Rename(older, db); err != nil {
		t.Fatal(err)
	}
	f.untilWarned("another database has taken the place")
	// And again, by a rename at once. What has happened there before is not told as if it happened now.
	if err := os.Rename(seeded(t, "sick"), db); err != nil {
		t.Fatal(err)
	}
	f.untilWarned("goes on after its event 67")
	if err := os.Rename(seeded(t, "shop"), db); err != nil {
		t.Fatal(err)
	}
	f.untilWarned("67\npiw: warning: another database has taken the place of the one that was followed; this goes on after its event 90")
	w = openWriter(t, db)
	defer w.close()
	w.cancel("run-lost")
	if line := f.until(""); !strings.HasPrefix(line, "91 ") || !strings.Contains(line, "run:run-lost") {
		t.Errorf("the first event is told as %q", line)
	}
	f.stop()
	f.ends(130)
}

func (f *following) untilWarned(text string) {
	f.t.Helper()
	for end := time.Now().Add(30 * time.Second); !strings.Contains(f.warned(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("there was no warning %q: %s", text, f.warned())
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Whoever reads what is followed may have had enough before anything happens.
func TestFollowEndsWithItsReader(t *testing.T) {
	db := seeded(t, "shop")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	code := make(chan int)
	go func() {
		code <- Program().Run(context.Background(), []string{"events", "-f", "--db", db}, nil, write, io.Discard)
	}()
	if _, err := bufio.NewReader(read).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	read.Close()
	select {
	case got := <-code:
		if got != 0 {
			t.Errorf("exit code %d", got)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the command goes on")
	}
}

func TestFollowCapture(t *testing.T) { // D6
	db := filepath.Join(t.TempDir(), "state.sqlite")
	live, err := storefixture.Record(db)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	f := startFollowing(t, "capture", "run-live", "--follow", "--private", "--db", db)
	for _, said := range []string{"first", "second", "third"} {
		if err := live.Say(said); err != nil {
			t.Fatal(err)
		}
		f.until("said: " + said)
	}
	f.stop()
	f.ends(130)
}
