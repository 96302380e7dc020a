package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pistate/schema"
)

func (f *flow) tryCreate(actor Actor, claim *Claim, spec RunSpec) error {
	_, err := Do(context.Background(), f.Store, Permit{Actor: actor, Claim: claim}, CreateRun{RunSpec: spec})
	return err
}

func TestCreateRun(t *testing.T) { // D1
	f := newFlow(t)
	now := f.clock.millis()
	spec := f.interactive("r1", "pi1")
	spec.Source = RunSource{FileSource, "flows/review.ts", "abc"}
	spec.DeadlineAt = now + 1000
	spec.Queue = &QueuePlace{Affinity: "gpu", AvailableAt: now + 10}
	got := f.create(spec)
	want := Run{
		ID: "r1", Revision: 1, Project: f.project, Definition: f.definition, Source: spec.Source, Title: "Review r1",
		Mode: InteractiveMode, Session: "pi1", Status: RunQueued, Input: newContent(JSONMedia, []byte(`{"pr":1}`)).digest,
		CreatedAt: now, UpdatedAt: now, DeadlineAt: now + 1000,
	}
	want.request = got.request
	if got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if stored, err := f.Run(t.Context(), "r1"); err != nil || !reflect.DeepEqual(stored, want) {
		t.Errorf("%+v, %v", stored, err)
	}
	place := QueueRow{Run: "r1", Project: f.project, Session: "pi1", Affinity: "gpu", Status: QueueQueued, AvailableAt: now + 10, EnqueuedAt: now, UpdatedAt: now}
	if row := f.queueRow("r1"); row.QueueRow != place {
		t.Errorf("%+v", row)
	}
	f.create(f.spec("direct"))
	_, err := f.QueueRow(t.Context(), "direct")
	wantCode(t, err, schema.NotFound)
	f.create(f.queued("headless"))
	if row := f.queueRow("headless"); row.Session != "" || row.AvailableAt != now {
		t.Errorf("%+v", row)
	}
}

func TestCreateRunRefusals(t *testing.T) { // D1
	f := newFlow(t)
	f.create(f.spec("parent"))
	elsewhere := mustDo(t, f.Store, Permit{Actor: host1}, RegisterProject{t.TempDir()}).Result.ID
	for name, tc := range map[string]struct {
		code  schema.Code
		spoil func(*RunSpec)
	}{
		"no id":                  {schema.Invalid, func(s *RunSpec) { s.ID = "" }},
		"no input":               {schema.Invalid, func(s *RunSpec) { s.Input = nil }},
		"input that is no JSON":  {schema.Invalid, func(s *RunSpec) { s.Input = json.RawMessage(`{"a":1,"a":2}`) }},
		"no mode":                {schema.Invalid, func(s *RunSpec) { s.Mode = "" }},
		"interactive nowhere":    {schema.Invalid, func(s *RunSpec) { s.Mode = InteractiveMode }},
		"source of no type":      {schema.Invalid, func(s *RunSpec) { s.Source.Type = "url" }},
		"source of no name":      {schema.Invalid, func(s *RunSpec) { s.Source.Ref = "" }},
		"title of two lines":     {schema.Invalid, func(s *RunSpec) { s.Title = "a\nb" }},
		"long title":             {schema.Limit, func(s *RunSpec) { s.Title = strings.Repeat("x", maxTitleBytes+1) }},
		"secret title":           {schema.Invalid, func(s *RunSpec) { s.Title = "AKIA" + strings.Repeat("Z", 16) }},
		"deadline before time":   {schema.Invalid, func(s *RunSpec) { s.DeadlineAt = -1 }},
		"its own parent":         {schema.Invalid, func(s *RunSpec) { s.Parent = s.ID }},
		"continues nothing":      {schema.Invalid, func(s *RunSpec) { s.Continues = true }},
		"unknown project":        {schema.NotFound, func(s *RunSpec) { s.Project = "prj_x" }},
		"unknown definition":     {schema.NotFound, func(s *RunSpec) { s.Definition = Digest{1} }},
		"unknown parent":         {schema.NotFound, func(s *RunSpec) { s.Parent = "nobody" }},
		"parent owned by nobody": {schema.Denied, func(s *RunSpec) { s.Parent = "parent" }},
	} {
		spec := f.spec("r1")
		tc.spoil(&spec)
		before := dump(t, f.Path())
		if err := f.tryCreate(host1, nil, spec); !errors.Is(err, tc.code) {
			t.Errorf("%s: %v, want code %s", name, err, tc.code)
		}
		if dump(t, f.Path()) != before {
			t.Errorf("%s: something was left behind", name)
		}
	}
	o := f.own(host1, "parent")
	spec := f.spec("r1")
	spec.Parent, spec.Project = "parent", elsewhere
	wantCode(t, f.tryCreate(host1, o.claim, spec), schema.Invalid)
	wantCode(t, f.tryCreate(Actor{HumanActor, "me"}, nil, f.spec("r1")), schema.Denied)
	wantCode(t, f.tryCreate(control, nil, f.spec("r1")), schema.Denied)
}

func TestCreateRunAdopts(t *testing.T) { // W5
	f := newFlow(t)
	first := f.create(f.queued("r1"))
	f.take(host1).start() // life goes on
	again := mustDo(t, f.Store, Permit{Actor: host2, Expected: 9}, CreateRun{RunSpec: f.queued("r1")})
	if !again.Adopted || again.Result.Status != RunRunning || again.Result.request != first.request {
		t.Errorf("%+v", again)
	}
	for name, spoil := range map[string]func(*RunSpec){
		"input":   func(s *RunSpec) { s.Input = json.RawMessage(`{"pr":2}`) },
		"title":   func(s *RunSpec) { s.Title = "another" },
		"queue":   func(s *RunSpec) { s.Queue = nil },
		"session": func(s *RunSpec) { s.Session = "pi9" },
	} {
		spec := f.queued("r1")
		spoil(&spec)
		err := f.tryCreate(host1, nil, spec)
		if !errors.Is(err, schema.Conflict) {
			t.Errorf("another %s: %v", name, err)
		} else if winner := cause[*ConflictError](t, err).Winner.(Run); winner.ID != "r1" {
			t.Errorf("another %s: %+v", name, winner)
		}
	}
	request := Permit{Actor: host1, Request: "create-r2"}
	mustDo(t, f.Store, request, CreateRun{RunSpec: f.spec("r2")})
	if again := mustDo(t, f.Store, request, CreateRun{RunSpec: f.spec("r2")}); !again.Adopted || again.Result.ID != "r2" {
		t.Errorf("%+v", again)
	}
}

// Owners and outcomes race for the end of a run: one wins, and stays.
func TestTerminalOutcomesRace(t *testing.T) { // D7
	f := newFlow(t)
	for i := range 30 {
		run := fmt.Sprint("r", i)
		spec := f.queued(run)
		spec.DeadlineAt = 1
		f.create(spec)
		o := f.take(host1).start()
		permit := f.permit(host1, o.claim, run)
		outcomes := []func() (*Run, error){
			func() (*Run, error) {
				d, err := Do(context.Background(), f.Store, permit, CompleteRun{Run: run})
				return d.Result, err
			},
			func() (*Run, error) {
				d, err := Do(context.Background(), f.Store, permit, FailRun{run, fault})
				return d.Result, err
			},
			func() (*Run, error) {
				d, err := Do(context.Background(), f.Store, permit, TimeOutRun{Run: run})
				return d.Result, err
			},
			func() (*Run, error) {
				d, err := Do(context.Background(), f.Store, permit, CancelRun{Run: run})
				return d.Result, err
			},
		}
		var wg sync.WaitGroup
		won := make(chan RunStatus, len(outcomes))
		for _, outcome := range outcomes {
			wg.Go(func() {
				if r, err := outcome(); err == nil {
					won <- r.Status
				} else if !errors.Is(err, schema.StaleRevision) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d outcomes were accepted", len(won))
		}
		winner := <-won
		if r, err := f.Run(t.Context(), run); err != nil || r.Status != winner || r.EndedAt == 0 {
			t.Errorf("%s won, and the run is %+v (%v)", winner, r, err)
		}
	}
	if report := f.settle(); report.Applied != 30 {
		t.Errorf("%+v", report)
	}
}

func TestEndsWithItsAttempt(t *testing.T) { // D3, D7
	f := newFlow(t)
	for name, tc := range map[string]struct {
		end  func(o *owner) (*Run, error)
		want AttemptStatus
	}{
		"fail":     {func(o *owner) (*Run, error) { return send(o, FailRun{o.run, fault}) }, AttemptFailed},
		"time out": {func(o *owner) (*Run, error) { return send(o, TimeOutRun{o.run, fault}) }, AttemptTimedOut},
		"cancel":   {func(o *owner) (*Run, error) { return send(o, CancelRun{Run: o.run}) }, AttemptCancelled},
	} {
		spec := f.spec("run " + name)
		spec.DeadlineAt = 1
		f.create(spec)
		o := f.own(host1, spec.ID).start()
		a := o.begin("test")
		_, err := send(o, CompleteRun{Run: o.run})
		wantCode(t, err, schema.IllegalTransition)
		run, err := tc.end(o)
		if err != nil {
			t.Fatal(err)
		}
		ended, err := f.NodeAttempt(t.Context(), a.ID)
		if err != nil || ended.Status != tc.want || ended.EndedAt != run.EndedAt || !same(ended.Error, run.Error) {
			t.Errorf("%s: attempt %+v (%v) of run %+v", name, ended, err, run)
		}
		if l, err := f.Lease(t.Context(), runID(o.run)); err != nil || l.Owner != nil {
			t.Errorf("%s: somebody owns the ended run: %+v (%v)", name, l, err)
		}
	}
}

func TestRunDeadline(t *testing.T) { // D3, D7
	f := newFlow(t)
	spec := f.spec("r1")
	spec.DeadlineAt = f.clock.millis() + 1000
	f.create(spec)
	f.create(f.spec("r2"))
	o, endless := f.own(host1, "r1").start(), f.own(host1, "r2").start()
	for _, o := range []*owner{o, endless} {
		_, err := send(o, TimeOutRun{Run: o.run})
		wantCode(t, err, schema.IllegalTransition)
	}
	if overdue, err := f.OverdueRuns(t.Context(), Run{}, 10); err != nil || len(overdue) != 0 {
		t.Errorf("%v, %v", overdue, err)
	}
	f.clock.move(time.Second)
	overdue, err := f.OverdueRuns(t.Context(), Run{}, 10)
	if err != nil || len(overdue) != 1 || overdue[0].ID != "r1" {
		t.Errorf("%v, %v", overdue, err)
	}
	must(o, TimeOutRun{Run: "r1"})
	if overdue, err := f.OverdueRuns(t.Context(), Run{}, 10); err != nil || len(overdue) != 0 {
		t.Errorf("%v, %v", overdue, err)
	}
}

func TestControlCommands(t *testing.T) { // D7
	f := newFlow(t)
	f.create(f.queued("r1"))
	any := Permit{Actor: control, Expected: AnyRevision}
	mustDo(t, f.Store, any, PauseRun{"r1"})
	_, err := Do(t.Context(), f.Store, Permit{Actor: host1}, ClaimNext{Project: f.project, TTLMS: 1000})
	wantCode(t, err, schema.NotFound)
	mustDo(t, f.Store, any, ResumeRun{"r1"})
	o := f.take(host1)
	if run := mustDo(t, f.Store, any, RequestCancel{"r1"}).Result; run.Status != RunQueued || run.CancelRequestedAt == 0 {
		t.Errorf("an owned run: %+v", run)
	}
	if again := mustDo(t, f.Store, any, RequestCancel{"r1"}); !again.Adopted { // W5
		t.Errorf("%+v", again)
	}
	_, err = send(o, StartRun{"r1"})
	wantCode(t, err, schema.IllegalTransition)
	must(o, CancelRun{Run: "r1"})
	mustDo(t, f.Store, any, RequestDeletion{"r1"}) // also of what has ended
	if again := mustDo(t, f.Store, any, RequestDeletion{"r1"}); !again.Adopted {
		t.Errorf("%+v", again)
	}

	f.create(f.interactive("r2", "pi1"))
	if run := mustDo(t, f.Store, any, RequestCancel{"r2"}).Result; run.Status != RunCancelled { // it never began
		t.Errorf("%+v", run)
	}
	f.create(f.interactive("r3", "pi1")) // and its session is free at once, settled or not (V1)
	if row := f.queueRow("r2"); row.Status != QueueCancelled || row.Unsettled {
		t.Errorf("%+v", row)
	}
	if report := f.settle(); report.Applied != 2 { // r1, and r2 again
		t.Errorf("%+v", report)
	}
	for _, cmd := range []Command[*Run]{PauseRun{"none"}, RequestCancel{"none"}, RequestDeletion{"none"}} {
		_, err := Do(t.Context(), f.Store, any, cmd)
		wantCode(t, err, schema.NotFound)
	}
}

// While a run is paused, what is under way may end and nothing begins.
func TestPausedRun(t *testing.T) { // D7
	f := newFlow(t)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	a := o.begin("test")
	mustDo(t, f.Store, Permit{Actor: control, Expected: AnyRevision}, PauseRun{"r1"})
	must(o, FinishAttempt{Run: "r1", Attempt: a.ID})
	_, err := send(o, BeginAttempt{Run: "r1", Node: "test"})
	wantCode(t, err, schema.IllegalTransition)
	if e := cause[*TransitionError](t, err); e.From != "paused" || e.Op != OpAttemptBegin || e.Resource != runID("r1") {
		t.Errorf("%+v", e)
	}
	if run := must(o, CompleteRun{Run: "r1"}); run.Paused {
		t.Errorf("%+v", run)
	}
}

// A stale owner can't do anything, whatever it sends.
func TestStaleOwner(t *testing.T) { // R3, D2, D3
	f := newFlow(t)
	f.create(f.queued("r1"))
	o := f.take(host1).start()
	a := o.begin("test")
	f.clock.move(2 * time.Minute)
	heir := f.take(host2)
	if heir.run != "r1" || heir.claim.Generation != 2 {
		t.Fatalf("%+v", heir)
	}
	newer := *o.claim
	newer.Generation = 2
	stolen, err := ParseClaim(runID("r1"), 2, o.claim.Token())
	if err != nil {
		t.Fatal(err)
	}
	before := f.rowsOf("r1")
	for _, claim := range []*Claim{o.claim, &newer, stolen, nil} {
		for _, tr := range trials {
			if !tr.needsOwner() && tr.op != OpQueueSettle {
				continue
			}
			permit := f.permit(host1, claim, "r1")
			err := tr.do(f, permit, "r1", a.ID)
			if !errors.Is(err, schema.StaleClaim) && !errors.Is(err, schema.Denied) {
				t.Errorf("%s with %v: %v", tr.op, claim, err)
			}
		}
	}
	must(heir, InterruptAttempt{"r1", a.ID})
	must(heir, FailRun{"r1", fault})
	ended := f.rowsOf("r1")
	if before == ended {
		t.Error("the heir changed nothing")
	}
	_, err = Do(t.Context(), f.Store, f.permit(host1, o.claim, "r1"), SettleQueue{"r1"})
	wantCode(t, err, schema.Denied) // the claim is not on the effect
	_, err = Do(t.Context(), f.Store, f.permit(host1, o.claim, "r1"), CompleteRun{Run: "r1"})
	wantCode(t, err, schema.StaleClaim)
	if f.rowsOf("r1") != ended {
		t.Error("a stale owner changed something")
	}
}
