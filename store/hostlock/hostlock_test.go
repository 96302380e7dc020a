//go:build unix

package hostlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pistate/schema"
	"pistate/store"
)

var (
	here  = store.Project{ID: "prj_here", Path: "/the/prj_here"}
	there = store.Project{ID: "prj_there", Path: "/the/prj_there"}
	begin = time.UnixMilli(1_800_000_000_000)
)

func mustAcquire(t testing.TB, dir string, p store.Project) *Lock {
	t.Helper()
	lock, err := Acquire(t.Context(), dir, p, begin)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// wantHeld fails unless an error says who holds the lock.
func wantHeld(t testing.TB, err error, pid int) *HeldError {
	t.Helper()
	var held *HeldError
	if !errors.As(err, &held) || !errors.Is(err, schema.Locked) || held.Holder.PID != pid {
		t.Fatalf("%v; process %d holds it", err, pid)
	}
	return held
}

// plantHolder writes a lock as another process would have.
func plantHolder(t testing.TB, dir string, h Holder) {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	plantFile(t, dir, h.Project+".json", string(text))
}

func plantFile(t testing.TB, dir, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "hosts"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "hosts", name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A second host of a project is refused and told who holds it, the host of another project isn't, and a
// killed host is taken over from.
func TestTwoProcesses(t *testing.T) { // R12
	dir := t.TempDir()
	first := start(t, "hold", dir, here.ID)
	if first.said != "held" {
		t.Fatalf("%q", first.said)
	}
	second := start(t, "hold", dir, here.ID)
	if want := fmt.Sprintf("refused a host of %s runs already: process %d, since ", here.Path, first.pid()); !strings.HasPrefix(second.said, want) {
		t.Errorf("%q, want %q...", second.said, want)
	}
	if other := start(t, "hold", dir, there.ID); other.said != "held" {
		t.Errorf("the host of another project: %q", other.said)
	}
	if _, err := Acquire(t.Context(), dir, here, begin); err != nil {
		wantHeld(t, err, first.pid())
	} else {
		t.Error("a third process was let in")
	}
	first.kill()
	third := start(t, "hold", dir, here.ID)
	if want := fmt.Sprint("took over from ", first.pid()); third.said != want {
		t.Errorf("%q, want %q", third.said, want)
	}
	h, found, err := Look(dir, here.ID)
	if err != nil || !found || h.PID != third.pid() || h.Lives() != Yes {
		t.Errorf("%+v, %v, %v", h, found, err)
	}
}

// A process that was killed and whose parent has not noticed is gone all the same.
func TestZombie(t *testing.T) { // R12
	dir := t.TempDir()
	p := start(t, "hold", dir, here.ID)
	if err := p.cmd.Process.Kill(); err != nil { // and don't wait for it
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		lock, err := Acquire(t.Context(), dir, here, begin)
		if err == nil {
			if lock.TookOver() == nil || lock.TookOver().PID != p.pid() {
				t.Errorf("took over from %+v", lock.TookOver())
			}
			return
		}
		wantHeld(t, err, p.pid()) // the signal has not arrived yet
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// The pid of a lock's process belongs to another process by now.
func TestReusedPID(t *testing.T) { // R12
	self, err := Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if self.Start == "" {
		t.Skip("this system does not tell when a process started")
	}
	neighbour := start(t, "sleep")
	living, err := Find(neighbour.pid())
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]Process{
		"ours":      {self.PID, self.Start + "0", self.Space},
		"a start":   {self.PID, living.Start, self.Space},
		"another's": {living.PID, "00000000-0000-0000-0000-000000000000/1", living.Space},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			plantHolder(t, dir, Holder{p, here.ID, here.Path, 1, "n"})
			if name == "a start" && living.Start == self.Start {
				t.Skip("both processes started at the same moment")
			}
			lock := mustAcquire(t, dir, here)
			if b := lock.TookOver(); b == nil || b.Process != p {
				t.Errorf("took over from %+v", b)
			}
			_, err := Acquire(t.Context(), dir, here, begin)
			wantHeld(t, err, os.Getpid())
		})
	}
}

// Where nobody can tell whether a process lives, it is taken for alive, and the error says what to do.
func TestUnknownHolder(t *testing.T) { // R12
	self, err := Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		p    Process
		want string
	}{
		"another container": {Process{1, self.Start, self.Space + "x"}, "another container"},
		"no start":          {Process{self.PID, "", self.Space}, "when it started"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			plantHolder(t, dir, Holder{test.p, here.ID, here.Path, 1, "n"})
			_, err := Acquire(t.Context(), dir, here, begin)
			held := wantHeld(t, err, test.p.PID)
			if held.Lives != Unknown || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "remove "+held.File) {
				t.Errorf("%s: %v", held.Lives, err)
			}
			if err := os.Remove(held.File); err != nil {
				t.Fatal(err)
			}
			mustAcquire(t, dir, here)
		})
	}
}

// Of many processes that find the lock of a killed one, one takes it over.
func TestProcessesRaceForALockOfADeadOne(t *testing.T) { // R12
	dir := t.TempDir()
	dead := start(t, "hold", dir, here.ID)
	for range 6 {
		dead.kill()
		var racers []*process
		for range 5 {
			racers = append(racers, launch(t, "hold", dir, here.ID))
		}
		winners := 0
		for _, r := range racers {
			r.wait(t)
			switch {
			case r.said == fmt.Sprint("took over from ", dead.pid()):
				winners++
			case !strings.HasPrefix(r.said, "refused"):
				t.Errorf("%q", r.said)
			}
		}
		if winners != 1 {
			t.Fatalf("%d processes took over", winners)
		}
		h, _, err := Look(dir, here.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range racers {
			if r.pid() == h.PID {
				dead = r
			} else {
				r.kill()
			}
		}
	}
}

func TestGoroutinesRace(t *testing.T) { // R12
	dir := t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var won []*Lock
	for range 30 {
		wg.Go(func() {
			lock, err := Acquire(context.Background(), dir, here, begin)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won = append(won, lock)
			} else if !errors.Is(err, schema.Locked) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("%d goroutines hold the lock", len(won))
	}
}

// Whenever a host is killed, what it leaves can be read and taken over.
func TestKilledAnywhere(t *testing.T) { // R12
	dir := t.TempDir()
	for range 40 {
		p := start(t, "churn", dir, here.ID)
		time.Sleep(time.Duration(rand.IntN(15_000)) * time.Microsecond)
		p.kill()
		if _, _, err := Look(dir, here.ID); err != nil {
			t.Fatal(err)
		}
		children, err := Children(dir, here.ID)
		if err != nil || len(children) > 1 {
			t.Fatalf("%+v, %v", children, err)
		}
		lock := mustAcquire(t, dir, here)
		gone, err := lock.Clean(t.Context())
		if err != nil || len(gone) != len(children) {
			t.Fatalf("%d of %d were cleaned, %v", len(gone), len(children), err)
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(dir, "hosts"))
		if err != nil || len(entries) != 1 || entries[0].Name() != "guard" {
			t.Fatalf("left behind: %v, %v", entries, err)
		}
	}
}

func TestRelease(t *testing.T) { // R12
	dir := t.TempDir()
	lock := mustAcquire(t, dir, here)
	for range 2 {
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lock.AddChild(t.Context(), os.Getpid(), "x", begin); !errors.Is(err, schema.StaleClaim) {
		t.Errorf("a child of a host that is none: %v", err)
	}
	next := mustAcquire(t, dir, here)
	if next.TookOver() != nil {
		t.Errorf("a released lock was taken over from %+v", next.TookOver())
	}
	// The first one can't take the second one's lock away.
	if err := lock.Release(t.Context()); !errors.Is(err, schema.StaleClaim) {
		t.Errorf("%v", err)
	}
	if _, err := lock.Clean(t.Context()); !errors.Is(err, schema.StaleClaim) {
		t.Errorf("%v", err)
	}
	h, found, err := Look(dir, here.ID)
	if err != nil || !found || h != next.Holder() {
		t.Errorf("%+v, %v, %v", h, found, err)
	}
}

func TestModes(t *testing.T) { // S5, R12
	for _, mask := range []string{"000", "022", "077", "0277"} {
		t.Run(mask, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "new", "workflows")
			p := launch(t, "umask", dir, here.ID, mask)
			if err := p.cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			want := map[string]fs.FileMode{
				"new": 0o700, "workflows": 0o700, "hosts": 0o700, "guard": 0o600, here.ID + ".json": 0o600,
				fmt.Sprintf("%s.child.%d.json", here.ID, os.Getpid()): 0o600,
			}
			err := filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := d.Info()
				if err != nil {
					return err
				}
				if info.Mode().Perm() != want[d.Name()] {
					t.Errorf("%s has mode %v", d.Name(), info.Mode().Perm())
				}
				delete(want, d.Name())
				return nil
			})
			if err != nil || len(want) != 0 {
				t.Errorf("missing: %v, %v", want, err)
			}
		})
	}
}

// What a crash of another program, or a hand, has left is not guessed at.
func TestDamagedLock(t *testing.T) { // R12
	for name, text := range map[string]string{
		"empty": "", "junk": "\x00\x01", "cut": `{"pid": 1`, "trailing": `{"pid":1,"project":"prj_here","nonce":"n"} x`,
		"unknown field": `{"pid":1,"project":"prj_here","nonce":"n","x":1}`, "no pid": `{"project":"prj_here","nonce":"n"}`,
		"other project": `{"pid":1,"project":"prj_there","nonce":"n"}`, "no nonce": `{"pid":1,"project":"prj_here"}`,
		"endless": strings.Repeat(" ", maxFile+1),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := plantFile(t, dir, here.ID+".json", text)
			_, err := Acquire(t.Context(), dir, here, begin)
			if !errors.Is(err, schema.Corrupt) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v", err)
			}
			if _, _, err := Look(dir, here.ID); !errors.Is(err, schema.Corrupt) {
				t.Errorf("%v", err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != text {
				t.Errorf("it was changed to %q, %v", after, err)
			}
			mustAcquire(t, dir, there)
		})
	}
}

func TestLeftTemporaryFile(t *testing.T) { // R12
	dir := t.TempDir()
	temp := plantFile(t, dir, here.ID+".json.tmp", "half")
	lock := mustAcquire(t, dir, here)
	if _, err := os.Stat(temp); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	child := plantFile(t, dir, here.ID+".child.77.json.tmp", "half")
	if _, err := lock.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(child); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestArguments(t *testing.T) {
	dir := t.TempDir()
	for _, id := range []string{"", ".", "../x", "a/b", "a.b", "a\x00", strings.Repeat("x", 129)} {
		_, err := Acquire(t.Context(), dir, store.Project{ID: id}, begin)
		if !errors.Is(err, schema.Invalid) {
			t.Errorf("project %q: %v", id, err)
		}
		if _, err := Children(dir, id); !errors.Is(err, schema.Invalid) {
			t.Errorf("project %q: %v", id, err)
		}
	}
	if _, _, err := Look("relative", here.ID); !errors.Is(err, schema.Invalid) {
		t.Errorf("%v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Acquire(t.Context(), file, here, begin); !errors.Is(err, schema.Storage) {
		t.Errorf("a file as the directory: %v", err)
	}
}

// Looking creates nothing.
func TestLookAtNothing(t *testing.T) { // R12, W7
	dir := t.TempDir()
	if _, found, err := Look(dir, here.ID); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if children, err := Children(dir, here.ID); len(children) > 0 || err != nil {
		t.Errorf("%v, %v", children, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A stopped process inside the guard does not keep a caller for longer than it wants to wait.
func TestGuardIsKept(t *testing.T) {
	dir := t.TempDir()
	lock := mustAcquire(t, dir, here)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	err := lock.whileHeld(t.Context(), func() error {
		_, err := Acquire(ctx, dir, there, begin)
		return err
	})
	if !errors.Is(err, schema.Canceled) {
		t.Errorf("%v", err)
	}
	mustAcquire(t, dir, there)
}

func TestFind(t *testing.T) {
	for _, pid := range []int{0, -1} {
		if _, err := Find(pid); !errors.Is(err, schema.Invalid) {
			t.Errorf("%d: %v", pid, err)
		}
	}
	p := start(t, "sleep")
	found, err := Find(p.pid())
	if err != nil || found.Lives() != Yes {
		t.Errorf("%+v, %v", found, err)
	}
	if again, err := Find(p.pid()); err != nil || again != found {
		t.Errorf("%+v, then %+v, %v", found, again, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil { // stopped is not gone
		t.Fatal(err)
	}
	if found.Lives() != Yes {
		t.Errorf("stopped: %s", found.Lives())
	}
	p.kill()
	if found.Lives() != No {
		t.Errorf("killed: %s", found.Lives())
	}
	if _, err := Find(p.pid()); !errors.Is(err, schema.NotFound) {
		t.Errorf("%v", err)
	}
}
