package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pistate/schema"
)

// history is a database with two runs and what belongs to them.
func history(t *testing.T) *flow {
	f := newFlow(t)
	for _, run := range []string{"r1", "r2"} {
		f.create(f.spec(run))
		o := f.own(host1, run).start()
		o.step("plan")
		o.step("work")
		f.clock.move(time.Minute)
	}
	return f
}

func sequencesOf(events []Event) (all []int64) {
	for _, e := range events {
		all = append(all, e.Sequence)
	}
	return all
}

// Whatever the filter is, the events are those that a plain look at all of them finds.
func TestEventLists(t *testing.T) { // R5, V2
	f := history(t)
	ctx := context.Background()
	all, err := f.Events(ctx, EventFilter{}, 0, MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []EventQuery{
		{}, {Type: "attempt.began"}, {Type: "no.such"},
		{EventFilter: EventFilter{Resource: "run:r1"}}, {EventFilter: EventFilter{Resource: "run:r2"}, Type: "attempt.began"},
		{EventFilter: EventFilter{Run: "r2"}}, {EventFilter: EventFilter{Run: "r1"}, Type: "attempt.finished"},
	} {
		var want []int64
		for _, e := range all {
			if (q.Type == "" || e.Type == q.Type) && (q.Resource == "" || e.Resource == q.Resource) && (q.Run == "" || e.Run == q.Run) {
				want = append(want, e.Sequence)
			}
		}
		for _, limit := range []int{1, 3, MaxPage} {
			var got []int64
			for after := int64(0); ; {
				page, err := f.EventsOf(ctx, q, after, limit)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, sequencesOf(page)...)
				if len(page) < limit {
					break
				}
				after = page[len(page)-1].Sequence
			}
			if !slices.Equal(got, want) {
				t.Errorf("%+v by %d: %v, want %v", q, limit, got, want)
			}
			last, err := f.LastEvents(ctx, q, limit)
			if tail := want[max(0, len(want)-limit):]; err != nil || !slices.Equal(sequencesOf(last), tail) {
				t.Errorf("the last %d of %+v: %v, want %v (%v)", limit, q, sequencesOf(last), tail, err)
			}
		}
	}
	for _, q := range []EventQuery{{EventFilter: EventFilter{Resource: "run:r1", Run: "r1"}, Type: "x"}, {EventFilter: EventFilter{Resource: "run:r1", Run: "r1"}}} {
		if _, err := f.LastEvents(ctx, q, 1); !errors.Is(err, schema.Invalid) {
			t.Errorf("%+v: %v", q, err)
		}
		if _, err := f.EventsOf(ctx, q, 0, 1); !errors.Is(err, schema.Invalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestEventsSince(t *testing.T) {
	f := history(t)
	ctx := context.Background()
	all, err := f.Events(ctx, EventFilter{}, 0, MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	last := all[len(all)-1]
	for at, want := range map[Millis]int64{0: 0, all[0].At: 0, all[0].At + 1: all[slices.IndexFunc(all, func(e Event) bool { return e.At > all[0].At })].Sequence - 1, last.At + 1: last.Sequence} {
		if got, err := f.EventsSince(ctx, at); err != nil || got != want {
			t.Errorf("%d: after %d, want %d (%v)", at, got, want, err)
		}
	}
	if got, err := f.LastSequence(ctx); err != nil || got != last.Sequence {
		t.Errorf("%d, want %d (%v)", got, last.Sequence, err)
	}
}

func TestLeaseLists(t *testing.T) { // R2, V1
	f := history(t)
	ctx := context.Background()
	f.create(f.spec("r3"))
	f.own(host2, "r3") // expires later than r1 and r2
	var got []string
	var after Lease
	for {
		page, err := f.Leases(ctx, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		after = page[0]
		got = append(got, fmt.Sprintf("%s %s expired=%v", after.Resource, after.Owner.ID, after.Expired))
	}
	want := []string{"run:r1 h1 expired=true", "run:r2 h1 expired=true", "run:r3 h2 expired=false"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	of, err := f.LeasesOf(ctx, host1, "run:r1", 10)
	if err != nil || len(of) != 1 || of[0].Resource != "run:r2" {
		t.Errorf("%+v, %v", of, err)
	}
}

func TestSituation(t *testing.T) { // V1
	a := newAsking(t)
	ctx := context.Background()
	situation := func() Situation {
		t.Helper()
		run, err := a.Run(ctx, a.run)
		if err != nil {
			t.Fatal(err)
		}
		s, err := a.Situation(ctx, run)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := situation(); s.Lease == nil || s.Lease.Expired || s.Current != nil || s.Question != nil || s.Queue != nil {
		t.Errorf("%+v", s)
	}
	second, first := a.ask("b", nil), a.ask("a", nil)
	if s := situation(); s.Questions != 2 || s.Question.ID != first.ID {
		t.Errorf("%+v", s)
	}
	a.mustSubmit(second, ann, "s1", approve)
	a.mustSubmit(first, ann, "s2", approve)
	if s := situation(); s.Questions != 0 || s.Question != nil || s.Due != 2 || s.Ambiguous != 0 { // the continuations
		t.Errorf("%+v", s)
	}
	a.clock.move(25 * time.Hour)
	if s := situation(); s.Lease == nil || !s.Lease.Expired {
		t.Errorf("%+v", s.Lease)
	}
}

func TestEffectAndDecisionLists(t *testing.T) { // R6, D8, V1
	a := newAsking(t)
	ctx := context.Background()
	first := a.ask("first", nil)
	a.clock.move(time.Second)
	second := a.ask("second", nil)
	a.mustSubmit(first, ann, "s1", approve) // which is followed by an effect for the run

	decisions, err := a.Decisions(ctx, Place{}, 10)
	if err != nil || len(decisions) != 2 || decisions[0].ID != second.ID || decisions[1].ID != first.ID {
		t.Errorf("%+v, %v", decisions, err)
	}
	rest, err := a.Decisions(ctx, decisions[0].Place(), 10)
	if err != nil || len(rest) != 1 || rest[0].ID != first.ID {
		t.Errorf("%+v, %v", rest, err)
	}
	unsettled, err := a.UnsettledEffects(ctx, 0, 10)
	if err != nil || len(unsettled) != 1 || unsettled[0].Type != EffectContinuationAdmit {
		t.Fatalf("%+v, %v", unsettled, err)
	}
	e := unsettled[0]
	ofRun, err := a.EffectsOfRun(ctx, a.run, 0, 10)
	if err != nil || len(ofRun) != 1 || ofRun[0].ID != e.ID {
		t.Errorf("%+v, %v", ofRun, err)
	}
	if got, err := a.EffectAt(ctx, e.Sequence); err != nil || got.ID != e.ID {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := a.EffectAt(ctx, 99); !errors.Is(err, schema.NotFound) {
		t.Error(err)
	}
	if none, err := a.UnsettledEffects(ctx, e.Sequence, 10); err != nil || none != nil {
		t.Errorf("%+v, %v", none, err)
	}
}

func TestFindBlob(t *testing.T) { // R9
	f := newFlow(t)
	ctx := context.Background()
	digest := f.definition.String()
	for _, prefix := range []string{digest, digest[:6], digest[:7], digest[:63]} {
		if got, err := f.FindBlob(ctx, prefix); err != nil || got != f.definition {
			t.Errorf("%s: %s, %v", prefix, got, err)
		}
	}
	for prefix, code := range map[string]schema.Code{
		digest[:5]: schema.Invalid, digest + "0": schema.Invalid, "nothex": schema.Invalid, "000000": schema.NotFound,
	} {
		if _, err := f.FindBlob(ctx, prefix); !errors.Is(err, code) {
			t.Errorf("%s: %v", prefix, err)
		}
	}
}

func TestBlobSizes(t *testing.T) {
	f := newFlow(t)
	largest, total, err := f.BlobSizes(context.Background(), 1)
	if err != nil || len(largest) != 1 || largest[0].Digest != f.definition || total < largest[0].Length {
		t.Errorf("%+v, %d, %v", largest, total, err)
	}
}
