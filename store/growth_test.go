package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pistate/internal/sqlite"
)

// bytes returns the size of the database, without what only waits to be used again.
func (f *flow) bytes() int64 {
	f.Helper()
	var stat sqlite.Stat
	err := f.view(context.Background(), func(rx *sqlite.Rx) (err error) {
		stat, err = rx.Stat()
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return (stat.Pages - stat.FreePages) * stat.PageSize
}

// bigInput is what each step of the growth tests gets.
var bigInput = json.RawMessage(`{"diff":"` + strings.Repeat("- old line\\n+ new line\\n", 2200) + `"}`)

// grow makes one more step of a run.
func (o *owner) grow() {
	o.Helper()
	a := must(o, BeginAttempt{Run: o.run, Node: "test", Input: bigInput})
	must(o, FinishAttempt{Run: o.run, Attempt: a.ID, Output: json.RawMessage(`{"ok":true}`)})
}

// What is said again is not stored again: not by the steps of a run, not when it is resumed, not by the run
// that continues it.
func TestGrowth(t *testing.T) { // R9
	const perStep = 3000 // bytes
	steps := 300
	if raceDetector {
		steps = 30
	}
	f := newFlow(t)
	f.create(f.queued("r1"))
	o := f.take(host1).start()
	if len(bigInput) < 50_000 {
		t.Fatal(len(bigInput))
	}
	o.grow()
	before := f.bytes()
	for range steps {
		o.grow()
	}
	grown := f.bytes() - before
	if grown > int64(steps)*perStep {
		t.Errorf("%d steps took %d bytes, more than %d each", steps, grown, perStep)
	}
	t.Logf("%d bytes per step", grown/int64(steps))

	a := must(o, BeginAttempt{Run: "r1", Node: "test", Input: bigInput})
	must(o, RetryRun{Run: "r1", Code: "crash", DelayMS: new(int64)})
	o = f.take(host2).start()
	a = must(o, ResumeAttempt{Run: "r1", Attempt: a.ID})
	must(o, WaitAttempt{"r1", a.ID, ""})
	must(o, ParkRun{Run: "r1"})
	before = f.bytes()
	child := f.queued("r2")
	child.Parent, child.Continues, child.Input = "r1", true, bigInput
	parent := f.own(host1, "r1")
	mustDo(t, f.Store, Permit{Actor: host1, Claim: parent.claim}, CreateRun{RunSpec: child})
	if grown := f.bytes() - before; grown > 16_384 {
		t.Errorf("a continuation took %d bytes", grown)
	}
	if n := sqlite3CLI(t, f.Path(), "SELECT count(*) FROM blobs WHERE length > 50000"); n != "1\n" {
		t.Errorf("the input is stored %s times", strings.TrimSpace(n))
	}
}

// BenchmarkStep begins and finishes an attempt with an input of 50 KB, and tells how much the database grows.
func BenchmarkStep(b *testing.B) {
	s, c := newStore(b)
	f := flowOf(b, s, c)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	o.grow()
	before := f.bytes()
	for b.Loop() {
		o.grow()
	}
	b.ReportMetric(float64(f.bytes()-before)/float64(b.N), "B-stored/op")
}

// BenchmarkClaimNext claims from a queue of a thousand runs and gives back what it gets.
func BenchmarkClaimNext(b *testing.B) {
	s, c := newStore(b)
	f := flowOf(b, s, c)
	for i := range 1000 {
		f.create(f.queued(fmt.Sprint("r", i)))
	}
	for b.Loop() {
		o := f.take(host1)
		must(o, RetryRun{Run: o.run, Code: "again", DelayMS: new(int64)})
	}
}

// BenchmarkRunDocument reads the state of a run of a thousand steps.
func BenchmarkRunDocument(b *testing.B) {
	s, c := newStore(b)
	f := flowOf(b, s, c)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	for range 1000 {
		o.grow()
	}
	for b.Loop() {
		if doc := f.document("r1"); len(doc.Steps) != 3 {
			b.Fatal(len(doc.Steps))
		}
	}
}
