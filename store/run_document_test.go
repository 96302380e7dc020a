package store

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

// scripted is a run that is worked on by a script of steps, each at its own time. Between them the owner may
// be lost.
type scripted struct {
	*owner
	steps []func(*scripted)
	last  *NodeAttempt
}

// story is the script: a message, a retry of a test, progress, a message again.
func story(o *owner) *scripted {
	at := func(node string) func(*scripted) {
		return func(s *scripted) { s.last = s.begin(node) }
	}
	say := func(s *scripted) {
		must(s.owner, FinishAttempt{Run: s.run, Attempt: s.last.ID, Message: &Message{Text: "the plan", EntryID: "e1", MaxChars: 20}})
	}
	return &scripted{owner: o, steps: []func(*scripted){
		at("plan"), say,
		at("test"), func(s *scripted) { must(s.owner, FailAttempt{s.run, s.last.ID, fault}) },
		at("test"), func(s *scripted) {
			must(s.owner, AppendUpdates{s.run, s.last.ID, 1, []NewUpdate{{Type: "progress", Data: json.RawMessage(`0.5`)}}})
			must(s.owner, FinishAttempt{Run: s.run, Attempt: s.last.ID, Output: json.RawMessage(`{"ok":true}`)})
		},
		at("work"), func(s *scripted) {
			must(s.owner, FinishAttempt{Run: s.run, Attempt: s.last.ID, Output: json.RawMessage(`{"files":[]}`)})
		},
		at("plan"), say,
		func(s *scripted) { must(s.owner, CompleteRun{Run: s.run, Output: json.RawMessage(`{"done":true}`)}) },
	}}
}

// tell plays the story of a run in the Pi session pi1, from process to process: before the steps in lost the
// owner vanishes, and another process takes over.
func tell(t *testing.T, lost ...int) RunDocument {
	s, c := openStore(t)
	f := flowOf(t, s, c)
	f.project = mustDo(t, s, Permit{Actor: host1}, RegisterProject{"/"}).Result.ID
	spec := f.spec("r1")
	spec.Session = "pi1"
	f.create(spec)
	p := story(f.own(pi1, "r1").start())
	for i, step := range p.steps {
		f.clock.move(2 * time.Minute)
		if slices.Contains(lost, i) {
			heir := openAt(t, s.Path(), Options{Now: c.Now, Random: seeded(uint64(i) + 2)})
			p.flow = flowOf(t, heir, c)
			p.owner = p.own(pi1, "r1")
			if active := p.document("r1").Current; active != nil {
				must(p.owner, InterruptAttempt{"r1", active.ID})
				p.last = must(p.owner, ResumeAttempt{Run: "r1", Attempt: active.ID})
			}
		} else {
			p.claim = mustDo(t, p.Store, as(pi1, p.claim), RenewLease{runID("r1"), 60_000}).Result
		}
		step(p)
	}
	return f.document("r1")
}

// The state of a run that has ended doesn't tell how many owners it took.
func TestSameDocumentWhoeverFinishes(t *testing.T) { // V1, D4
	want := tell(t)
	if want.Run.Status != RunCompleted || len(want.Outputs) != 3 || want.Current != nil || want.Owner != nil || len(want.Steps[2].Attempts) != 2 {
		t.Errorf("%s", pretty(want))
	}
	takeovers := [][]int{{1, 6, 9}, {2, 4, 10}, {1, 2, 4, 8, 9, 10}} // 1 and 9 are in the middle of a message
	if raceDetector {
		takeovers = takeovers[:1]
	}
	for _, lost := range takeovers {
		got := tell(t, lost...)
		if got.Run.Revision <= want.Run.Revision {
			t.Errorf("%d commands after losing owners before %v, %d without", got.Run.Revision, lost, want.Run.Revision)
		}
		got.Run.Revision = want.Run.Revision // which counts the commands
		if !reflect.DeepEqual(got, want) {
			t.Errorf("after losing owners before the steps %v:\n%s\nwithout:\n%s", lost, pretty(got), pretty(want))
		}
	}
}

func TestDocument(t *testing.T) { // V1
	f := newFlow(t)
	f.create(f.queued("r1"))
	if doc := f.document("r1"); doc.Owner != nil || doc.Current != nil || len(doc.Steps) != 3 || doc.Queue.Status != QueueQueued {
		t.Errorf("%s", pretty(doc))
	}
	o := f.take(host1).start()
	o.step("plan")
	a := o.begin("work")
	doc := f.document("r1")
	if doc.Owner == nil || *doc.Owner.Owner != host1 || doc.Queue.Status != QueueRunning {
		t.Errorf("%s", pretty(doc))
	}
	if doc.Current == nil || doc.Current.ID != a.ID { // the one that has not ended, not the last that did
		t.Errorf("%+v", doc.Current)
	}
	f.clock.move(time.Minute) // the lease expires; the attempt is still the one that has not ended
	if doc := f.document("r1"); doc.Owner != nil || doc.Current == nil {
		t.Errorf("%s", pretty(doc))
	}
	o = f.take(host2)
	must(o, FailRun{"r1", fault})
	if doc := f.document("r1"); doc.Queue.Status != QueueFailed || !doc.Queue.Unsettled || doc.Owner != nil || doc.Current != nil {
		t.Errorf("%s", pretty(doc))
	}
	f.create(f.spec("r2"))
	o = f.own(host1, "r2").start()
	for _, output := range []string{`1`, `2`, ``} {
		a := o.begin("test")
		if output == "" {
			must(o, FailAttempt{"r2", a.ID, fault})
		} else {
			must(o, FinishAttempt{Run: "r2", Attempt: a.ID, Output: json.RawMessage(output)})
		}
	}
	last := f.document("r2").Outputs["test"]
	if got := f.bytesOf(&last); got != "2" { // of the last attempt that was completed
		t.Errorf("the output of the node is %s", got)
	}
	_, err := f.RunDocument(t.Context(), "none", RunDocumentOptions{})
	wantCode(t, err, schema.NotFound)
	_, err = f.RunDocument(t.Context(), "r1", RunDocumentOptions{Limit: MaxPage + 1})
	wantCode(t, err, schema.Invalid)
}

func TestDocumentContent(t *testing.T) { // V2
	s, c := newStore(t)
	f := flowOf(t, s, c)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	for range 3 {
		o.step("plan")
	}
	doc := f.document("r1")
	if len(doc.Contents) != 6 { // definition, two inputs, prompt, message, receipt: each once
		t.Errorf("%s", pretty(doc.Contents))
	}
	for digest, info := range doc.Contents {
		if info.Value != nil || info.Text != nil || info.Length == 0 {
			t.Errorf("%s: %+v", digest, info)
		}
	}
	full, err := f.RunDocument(t.Context(), "r1", RunDocumentOptions{Payloads: true})
	if err != nil {
		t.Fatal(err)
	}
	message := full.Contents[full.Outputs["plan"]]
	if message.Text == nil || *message.Text != "done with plan" || string(full.Contents[full.Run.Input].Value) != `{"pr":1}` {
		t.Errorf("%s", pretty(full.Contents))
	}
	var back RunDocument // a document survives its own JSON
	if err := json.Unmarshal([]byte(pretty(doc)), &back); err != nil {
		t.Fatal(err)
	}
	back.Run.request = doc.Run.request
	if !reflect.DeepEqual(back, doc) {
		t.Errorf("%s\nbecame\n%s", pretty(doc), pretty(back))
	}
	plant(t, f.Path(), fmt.Sprintf("UPDATE blobs SET bytes = CAST('done with plot' AS BLOB) WHERE digest = x'%s'", full.Outputs["plan"]))
	_, err = f.RunDocument(t.Context(), "r1", RunDocumentOptions{Payloads: true})
	wantCode(t, err, schema.Corrupt)
	if f.document("r1").Outputs["plan"] != full.Outputs["plan"] { // no payload is read
		t.Error("another document")
	}
	_, err = f.BlobInfos(t.Context(), false, Digest{1})
	wantCode(t, err, schema.NotFound)
}

func TestDocumentPages(t *testing.T) { // V2
	f := newFlow(t)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	for i := range 7 {
		a := o.begin([]string{"plan", "work", "test"}[i%3])
		must(o, AppendUpdates{"r1", a.ID, 1, []NewUpdate{{Type: "t", Data: json.RawMessage(`1`)}}})
		must(o, CancelAttempt{Run: "r1", Attempt: a.ID})
	}
	var ordinals []int
	for after, more := 0, true; more; {
		doc, err := f.RunDocument(t.Context(), "r1", RunDocumentOptions{After: after, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		page := 0
		for _, s := range doc.Steps {
			for _, a := range s.Attempts {
				ordinals = append(ordinals, a.Ordinal)
				after, page = max(after, a.Ordinal), page+1
			}
		}
		if len(doc.Updates) != page {
			t.Errorf("%d updates of %d attempts", len(doc.Updates), page)
		}
		more = doc.More
	}
	slices.Sort(ordinals)
	if !slices.Equal(ordinals, []int{1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("%v", ordinals)
	}
	all, err := f.NodeAttempts(t.Context(), "r1", "plan", 1, 10)
	if err != nil || len(all) != 2 || all[0].Ordinal != 4 || all[1].Ordinal != 7 {
		t.Errorf("%+v, %v", all, err)
	}
	some, err := f.NodeAttempts(t.Context(), "r1", "", 5, 1)
	if err != nil || len(some) != 1 || some[0].Ordinal != 6 {
		t.Errorf("%+v, %v", some, err)
	}
}

// Lists come page by page, each run once, also while runs come and go.
func TestRunLists(t *testing.T) { // V2
	f := newFlow(t)
	other := mustDo(t, f.Store, Permit{Actor: host1}, RegisterProject{t.TempDir()}).Result.ID
	var parent *owner
	for i := range 12 {
		if i%3 == 0 {
			f.clock.move(time.Millisecond) // some are of the same moment
		}
		spec := f.spec(fmt.Sprintf("r%02d", i))
		switch {
		case i == 0:
			f.create(spec)
			parent = f.own(host1, spec.ID)
			continue
		case i%4 == 1:
			spec.Project = other
		case i%4 == 2:
			spec.Session = "pi1"
		case i%4 == 3:
			spec.Parent = parent.run
		}
		mustDo(t, f.Store, Permit{Actor: host1, Claim: parent.claim}, CreateRun{RunSpec: spec})
		if i%5 == 0 {
			mustDo(t, f.Store, Permit{Actor: control, Expected: AnyRevision}, RequestCancel{spec.ID})
		}
	}
	list := func(filter RunFilter) (ids []string) {
		for before := (Run{}); ; {
			page, err := f.Runs(t.Context(), filter, before, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				return ids
			}
			for _, r := range page {
				ids = append(ids, r.ID)
			}
			before = page[len(page)-1]
			if len(ids) == 2 { // a newcomer doesn't disturb those who have begun to read
				spec := f.spec(fmt.Sprint("new", f.clock.millis(), len(filter.Project+filter.Session+string(filter.Status))))
				f.clock.move(time.Hour)
				mustDo(t, f.Store, Permit{Actor: host1}, CreateRun{RunSpec: spec})
				f.clock.move(-time.Hour)
			}
		}
	}
	for name, tc := range map[string]struct {
		filter RunFilter
		want   []string
	}{
		"project":            {RunFilter{Project: other}, []string{"r09", "r05", "r01"}},
		"session":            {RunFilter{Session: "pi1"}, []string{"r10", "r06", "r02"}},
		"parent":             {RunFilter{Parent: "r00"}, []string{"r11", "r07", "r03"}},
		"status":             {RunFilter{Status: RunCancelled}, []string{"r10", "r05"}},
		"session and status": {RunFilter{Session: "pi1", Status: RunCancelled}, []string{"r10"}},
		"project and status": {RunFilter{Project: other, Status: RunQueued}, []string{"r09", "r01"}},
	} {
		if got := list(tc.filter); !slices.Equal(got, tc.want) {
			t.Errorf("by %s: %v, want %v", name, got, tc.want)
		}
	}
	got := list(RunFilter{})
	if rest := got[len(got)-12:]; rest[0] != "r11" || rest[11] != "r00" || !slices.IsSortedFunc(rest, func(a, b string) int { return -strings.Compare(a, b) }) {
		t.Errorf("%v", got)
	}
	_, err := f.Runs(t.Context(), RunFilter{Project: other, Session: "pi1"}, Run{}, 1)
	wantCode(t, err, schema.Invalid)
	_, err = f.Run(t.Context(), "none")
	wantCode(t, err, schema.NotFound)
}

func TestQueueLists(t *testing.T) { // V1, V2
	f := newFlow(t)
	for i := range 6 {
		f.create(f.queued(fmt.Sprint("r", i)))
	}
	list := func(filter QueueFilter) (got []string) {
		for after := (Queued{}); ; {
			page, err := f.Queue(t.Context(), filter, after, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				return got
			}
			after = page[0]
			got = append(got, fmt.Sprint(after.Run, " ", after.Status))
		}
	}
	r0, r1, r2, r3 := f.take(host1).start(), f.take(host1).start(), f.take(host1).start(), f.take(host1)
	must(r0, CompleteRun{Run: "r0"})
	must(r1, FailRun{"r1", fault})
	f.settle()
	must(r2, CompleteRun{Run: "r2"}) // not settled
	must(r3, CancelRun{Run: "r3"})   // neither
	for _, tc := range []struct {
		filter QueueFilter
		want   []string
	}{
		{QueueFilter{}, []string{"r4 queued", "r5 queued"}},
		{QueueFilter{Project: f.project}, []string{"r4 queued", "r5 queued"}},
		{QueueFilter{Project: "prj_other"}, nil},
		{QueueFilter{Status: QueueQueued}, []string{"r4 queued", "r5 queued"}},
		{QueueFilter{Status: QueueRunning}, nil},
		{QueueFilter{Status: QueueDone}, []string{"r0 done", "r2 done"}},
		{QueueFilter{Status: QueueFailed}, []string{"r1 failed"}},
		{QueueFilter{Status: QueueCancelled, Project: f.project}, []string{"r3 cancelled"}},
	} {
		if got := list(tc.filter); !slices.Equal(got, tc.want) {
			t.Errorf("%+v: %v, want %v", tc.filter, got, tc.want)
		}
	}
}

// A document is of one snapshot, whoever writes meanwhile, and a reader of another process gets the same.
func TestDocumentIsOneSnapshot(t *testing.T) { // V2, W7
	f := newFlow(t)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	r, err := OpenReader(t.Context(), f.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	done := make(chan error, 1)
	go func() {
		for range 40 {
			permit := Permit{Actor: host1, Expected: AnyRevision, Claim: o.claim}
			run, err := f.Run(context.Background(), "r1")
			if err != nil {
				done <- err
				return
			}
			permit.Expected = run.Revision
			a, err := Do(context.Background(), f.Store, permit, BeginAttempt{Run: "r1", Node: "test"})
			if err == nil {
				permit.Expected = AnyRevision
				_, err = Do(context.Background(), f.Store, permit, FinishAttempt{Run: "r1", Attempt: a.Result.ID, Output: json.RawMessage(`1`)})
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for reading := true; reading; {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			reading = false
		default:
		}
		doc, err := r.RunDocument(t.Context(), "r1", RunDocumentOptions{})
		if err != nil {
			t.Fatal(err)
		}
		open := 0
		attempts := doc.Steps[2].Attempts
		for _, a := range attempts {
			if a.EndedAt == 0 {
				open++
			}
		}
		// created, claimed, started, and two commands for each attempt that has ended
		if want := int64(3 + 2*(len(attempts)-open) + open); doc.Run.Revision != want || (doc.Current != nil) != (open == 1) {
			t.Fatalf("revision %d with %d attempts, %d of them open", doc.Run.Revision, len(attempts), open)
		}
	}
}
