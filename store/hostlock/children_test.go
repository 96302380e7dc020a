//go:build unix

package hostlock

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

func pids(children []Child) (pids []int) {
	for _, c := range children {
		pids = append(pids, c.PID)
	}
	return pids
}

func mustChildren(t testing.TB, lock *Lock) []Child {
	t.Helper()
	children, err := lock.Children()
	if err != nil {
		t.Fatal(err)
	}
	return children
}

func TestChildren(t *testing.T) { // R12
	dir := t.TempDir()
	lock, other := mustAcquire(t, dir, here), mustAcquire(t, dir, there)
	one, two := start(t, "sleep"), start(t, "sleep")
	first, err := lock.AddChild(t.Context(), one.pid(), "run r1", begin)
	if err != nil {
		t.Fatal(err)
	}
	if first.Label != "run r1" || first.Host != lock.Holder().Nonce || first.Since.Time() != begin || first.Lives() != Yes {
		t.Errorf("%+v", first)
	}
	if _, err := lock.AddChild(t.Context(), two.pid(), "run r2", begin); err != nil {
		t.Fatal(err)
	}
	if _, err := other.AddChild(t.Context(), os.Getpid(), "", begin); err != nil {
		t.Fatal(err)
	}
	want := []int{one.pid(), two.pid()}
	slices.Sort(want)
	if got := pids(mustChildren(t, lock)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}

	two.kill()
	for _, c := range mustChildren(t, lock) {
		if lives := c.Lives(); (lives == Yes) != (c.PID == one.pid()) {
			t.Errorf("%d: %s", c.PID, lives)
		}
	}
	gone, err := lock.Clean(t.Context())
	if err != nil || !slices.Equal(pids(gone), []int{two.pid()}) {
		t.Errorf("%v, %v", pids(gone), err)
	}
	for range 2 {
		if err := lock.RemoveChild(t.Context(), first); err != nil {
			t.Fatal(err)
		}
	}
	if left := mustChildren(t, lock); len(left) != 0 {
		t.Errorf("%v", left)
	}
	if others := mustChildren(t, other); !slices.Equal(pids(others), []int{os.Getpid()}) {
		t.Errorf("the other project has %v", others)
	}
}

// The next host finds what a killed one has left at work.
func TestOrphans(t *testing.T) { // R12
	dir := t.TempDir()
	orphan := start(t, "sleep")
	lock := mustAcquire(t, dir, here)
	if _, err := lock.AddChild(t.Context(), orphan.pid(), "run r1", begin); err != nil {
		t.Fatal(err)
	}
	dead := lock.Holder()
	dead.Process = Process{dead.PID, dead.Start + "0", dead.Space}
	plantHolder(t, dir, dead)

	next := mustAcquire(t, dir, here)
	children := mustChildren(t, next)
	if len(children) != 1 || children[0].Host != next.TookOver().Nonce || children[0].Host == next.Holder().Nonce || children[0].Lives() != Yes {
		t.Errorf("%+v", children)
	}
	if _, err := lock.AddChild(t.Context(), os.Getpid(), "", begin); !errors.Is(err, schema.StaleClaim) {
		t.Errorf("the earlier host is one still: %v", err)
	}
	if err := lock.RemoveChild(t.Context(), children[0]); !errors.Is(err, schema.StaleClaim) {
		t.Errorf("the earlier host is one still: %v", err)
	}
}

// A pid is registered for the process that has it now, and the record of an earlier one can't remove it.
func TestChildWithAReusedPID(t *testing.T) { // R12
	dir := t.TempDir()
	lock := mustAcquire(t, dir, here)
	earlier := Child{Process{os.Getpid(), "1", pidSpace()}, "earlier", "n", 1}
	if err := lock.files.write(lock.files.child(os.Getpid()), earlier); err != nil {
		t.Fatal(err)
	}
	if children := mustChildren(t, lock); len(children) != 1 || children[0].Lives() == Yes {
		t.Errorf("%+v", children)
	}
	now, err := lock.AddChild(t.Context(), os.Getpid(), "now", begin)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.RemoveChild(t.Context(), earlier); err != nil {
		t.Fatal(err)
	}
	if children := mustChildren(t, lock); len(children) != 1 || children[0] != now {
		t.Errorf("%+v", children)
	}
}

func TestChildArguments(t *testing.T) {
	dir := t.TempDir()
	lock := mustAcquire(t, dir, here)
	ended := start(t, "sleep")
	ended.kill()
	for _, test := range []struct {
		pid   int
		label string
		want  schema.Code
	}{
		{0, "", schema.Invalid},
		{ended.pid(), "", schema.NotFound},
		{os.Getpid(), "\xff", schema.Invalid},
		{os.Getpid(), strings.Repeat("x", maxLabel+1), schema.Invalid},
	} {
		if _, err := lock.AddChild(t.Context(), test.pid, test.label, time.Now()); !errors.Is(err, test.want) {
			t.Errorf("pid %d: %v", test.pid, err)
		}
	}
	if left := mustChildren(t, lock); len(left) != 0 {
		t.Errorf("%v", left)
	}
	plantFile(t, dir, here.ID+".child.5.json", `{"pid":6}`)
	if _, err := lock.Children(); !errors.Is(err, schema.Corrupt) {
		t.Errorf("a record of another process: %v", err)
	}
}
