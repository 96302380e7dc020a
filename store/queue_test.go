package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pistate/schema"
)

func (f *flow) claim(actor Actor, cmd ClaimNext) (*QueueClaim, error) {
	if cmd.Project == "" {
		cmd.Project = f.project
	}
	cmd.TTLMS = 60_000
	done, err := Do(context.Background(), f.Store, Permit{Actor: actor}, cmd)
	return done.Result, err
}

// wantRun fails unless a run was claimed.
func (f *flow) wantRun(actor Actor, cmd ClaimNext, run string) *QueueClaim {
	f.Helper()
	got, err := f.claim(actor, cmd)
	if err != nil {
		f.Fatalf("want %s: %v", run, err)
	}
	if got.Run.ID != run || got.Queue.Run != run || got.Claim.Resource != runID(run) {
		f.Fatalf("claimed %s (%+v), want %s", got.Run.ID, got.Queue, run)
	}
	return got
}

// wantNothing fails unless nothing is due until a moment.
func (f *flow) wantNothing(actor Actor, cmd ClaimNext, next Millis) {
	f.Helper()
	_, err := f.claim(actor, cmd)
	wantCode(f, err, schema.NotFound)
	if e := cause[*NothingDueError](f, err); e.Next != next || e.Project != f.project && e.Project != cmd.Project {
		f.Errorf("%+v, want %d", e, next)
	}
}

func TestClaimOrder(t *testing.T) { // D2
	f := newFlow(t)
	now := f.clock.millis()
	later := f.queued("later")
	later.Queue.AvailableAt = now + 5000
	picky := f.queued("picky")
	picky.Queue.Affinity = "gpu"
	f.create(later)
	f.create(picky)
	f.clock.move(time.Second)
	f.create(f.queued("b"))
	f.create(f.queued("a"))
	f.create(f.spec("direct"))

	got := f.wantRun(host1, ClaimNext{}, "a") // of those that are due equally long, by id
	if got.Queue.Status != QueueStarting || got.TakenOver || got.Claim.Generation != 1 || got.Run.Revision != 2 || got.Run.Status != RunQueued {
		t.Errorf("%+v", got)
	}
	f.wantRun(host2, ClaimNext{}, "b")
	f.wantNothing(host1, ClaimNext{}, now+5000)
	f.wantNothing(host1, ClaimNext{Affinity: "cpu"}, now+5000)
	f.wantRun(host1, ClaimNext{Affinity: "gpu"}, "picky")
	f.wantNothing(host1, ClaimNext{Project: "prj_other"}, 0)
	f.clock.move(4 * time.Second)
	f.wantRun(host1, ClaimNext{Affinity: "gpu"}, "later")
	f.wantNothing(host1, ClaimNext{}, 0)
	l, err := f.Lease(t.Context(), runID("later"))
	if err != nil || *l.Owner != host1 || l.ExpiresAt != f.clock.millis()+60_000 {
		t.Errorf("%+v, %v", l, err)
	}
}

// A session has one reservation, whatever becomes of it.
func TestSessionReservation(t *testing.T) { // D2
	f := newFlow(t)
	wantReserved := func(err error, run string, status QueueStatus) {
		t.Helper()
		wantCode(t, err, schema.Locked)
		if e := cause[*ReservedError](t, err); *e != (ReservedError{"pi1", run, status}) {
			t.Errorf("%+v", e)
		}
	}
	f.create(f.interactive("r1", "pi1"))
	f.create(f.queued("h1"))
	wantReserved(f.tryCreate(host1, nil, f.interactive("r2", "pi1")), "r1", QueueQueued)
	f.create(f.interactive("r3", "pi2"))

	f.wantRun(host1, ClaimNext{}, "h1") // nobody's session
	f.wantNothing(host1, ClaimNext{}, 0)
	_, err := f.claim(pi1, ClaimNext{Session: "pi2"})
	wantCode(t, err, schema.Denied)
	claim := f.wantRun(pi1, ClaimNext{}, "r1").Claim
	_, err = f.claim(pi1, ClaimNext{})
	wantReserved(err, "r1", QueueStarting)
	_, err = f.claim(host1, ClaimNext{Session: "pi1"})
	wantReserved(err, "r1", QueueStarting)
	o := &owner{f, pi1, "r1", claim}
	o.start()
	wantReserved(f.tryCreate(host1, nil, f.interactive("r2", "pi1")), "r1", QueueRunning)

	must(o, RetryRun{Run: "r1", Code: "busy", DelayMS: new(int64)})
	wantReserved(f.tryCreate(host1, nil, f.interactive("r2", "pi1")), "r1", QueueQueued)
	o.claim = f.wantRun(host1, ClaimNext{Session: "pi1"}, "r1").Claim // a host that runs the session
	o.actor = host1
	o.start()
	must(o, ParkRun{"r1", "for a decision"}) // a parked run doesn't count
	f.create(f.interactive("r2", "pi1"))
	o = f.own(host1, "r1")
	_, err = send(o, EnqueueRun{Run: "r1"})
	wantReserved(err, "r2", QueueQueued)
	must(f.own(pi1, "r2"), CancelRun{Run: "r2"})
	must(o, EnqueueRun{Run: "r1"}) // r2 has ended, settled or not
	if row := f.queueRow("r2"); row.Status != QueueCancelled || row.Unsettled {
		t.Errorf("%+v", row)
	}
	f.wantRun(pi1, ClaimNext{}, "r1")
}

// A session that is free gets a headless run, and is reserved for it while it runs.
func TestSessionTakesHeadlessRun(t *testing.T) { // D2
	f := newFlow(t)
	f.create(f.queued("h1"))
	f.create(f.queued("h2"))
	got := f.wantRun(pi1, ClaimNext{}, "h1")
	if got.Queue.Session != "pi1" {
		t.Errorf("%+v", got.Queue)
	}
	wantCode(t, f.tryCreate(host1, nil, f.interactive("r1", "pi1")), schema.Locked)
	o := &owner{f, pi1, "h1", got.Claim}
	o.start()
	row := must(o, RetryRun{Run: "h1", Code: "busy", DelayMS: new(int64)})
	if row.Session != "" { // anybody may run it now
		t.Errorf("%+v", row)
	}
	f.create(f.interactive("r1", "pi1"))
	f.wantRun(pi2, ClaimNext{}, "h1")
	f.clock.move(2 * time.Minute)
	if got := f.wantRun(host1, ClaimNext{}, "h1"); !got.TakenOver || got.Queue.Session != "" {
		t.Errorf("%+v", got)
	}
	f.wantRun(pi2, ClaimNext{}, "h2") // and pi2 is free again
}

// Its own reservation is all that a session gets, due or not.
func TestReservationNotDue(t *testing.T) { // D2
	f := newFlow(t)
	now := f.clock.millis()
	spec := f.interactive("r1", "pi1")
	spec.Queue = &QueuePlace{AvailableAt: now + 1000, Affinity: "big"}
	f.create(spec)
	f.create(f.queued("h1"))
	f.wantNothing(pi1, ClaimNext{}, 0) // another affinity
	f.wantNothing(pi1, ClaimNext{Affinity: "big"}, now+1000)
	f.clock.move(time.Second)
	mustDo(t, f.Store, Permit{Actor: control, Expected: AnyRevision}, PauseRun{"r1"})
	f.wantNothing(pi1, ClaimNext{Affinity: "big"}, 0)
	mustDo(t, f.Store, Permit{Actor: control, Expected: AnyRevision}, ResumeRun{"r1"})
	o := f.own(host1, "r1") // who does something else with it
	f.wantNothing(pi1, ClaimNext{Affinity: "big"}, 0)
	mustDo(t, f.Store, as(host1, o.claim), ReleaseLease{runID("r1")})
	f.wantRun(pi1, ClaimNext{Affinity: "big"}, "r1")
}

// A continuation takes the place of its parked parent, or nothing changes.
func TestContinuationSettlesParkedParent(t *testing.T) { // D2
	f := newFlow(t)
	f.create(f.interactive("parent", "pi1"))
	o := f.take(pi1).start()
	child := f.interactive("child", "pi1")
	child.Parent, child.Continues = "parent", true
	wantCode(t, f.tryCreate(pi1, o.claim, child), schema.IllegalTransition) // not parked

	must(o, ParkRun{Run: "parent"})
	f.create(f.interactive("other", "pi1"))
	o = f.own(pi1, "parent")
	before := f.rowsOf("parent")
	wantCode(t, f.tryCreate(pi1, o.claim, child), schema.Locked) // the session is taken
	wantCode(t, f.tryCreate(pi2, nil, child), schema.Denied)
	if f.rowsOf("parent") != before {
		t.Error("a reservation that failed changed the parent")
	}
	mustDo(t, f.Store, Permit{Actor: control, Expected: AnyRevision}, RequestCancel{"other"})
	if err := f.tryCreate(pi1, o.claim, child); err != nil {
		t.Fatal(err)
	}
	if row := f.queueRow("parent"); row.Status != QueueDone || row.SettledAt == 0 {
		t.Errorf("%+v", row)
	}
	if row := f.queueRow("child"); row.Status != QueueQueued || row.Session != "pi1" {
		t.Errorf("%+v", row)
	}
	must(o, CompleteRun{Run: "parent"})
	if report := f.settle(); report.Applied != 1 { // other's; the parent's place was settled
		t.Errorf("%+v", report)
	}
}

func TestRetryBacksOff(t *testing.T) { // D2
	f := newFlow(t)
	f.create(f.queued("r1"))
	for n := 1; n <= 12; n++ {
		o := f.take(host1).start()
		a := o.begin("test")
		row := must(o, RetryRun{Run: "r1", Code: "crash"})
		most := min(time.Second<<(n-1), 5*time.Minute)
		wait := (row.AvailableAt - f.clock.millis()).Time().Sub(time.UnixMilli(0))
		if wait > most || wait < most/2 || row.Errors != n || row.ErrorCode != "crash" || row.Status != QueueQueued {
			t.Fatalf("after error %d a wait of %v (at most %v): %+v", n, wait, most, row)
		}
		left, err := f.NodeAttempt(t.Context(), a.ID)
		if err != nil || left.state() != StateInterrupted {
			t.Fatalf("%+v, %v", left, err)
		}
		if l, err := f.Lease(t.Context(), runID("r1")); err != nil || l.Owner != nil {
			t.Fatalf("%+v, %v", l, err)
		}
		f.wantNothing(host1, ClaimNext{}, row.AvailableAt)
		f.clock.move(wait)
		o = f.take(host2).start()
		must(o, CancelAttempt{Run: "r1", Attempt: a.ID})
		must(o, ParkRun{Run: "r1"}) // another round
		must(f.own(host1, "r1"), EnqueueRun{Run: "r1"})
	}
}

// Abandoned runs come first, and count an error.
func TestTakeOver(t *testing.T) { // D2, R4
	f := newFlow(t)
	for _, run := range []string{"r1", "r2", "r3"} {
		f.create(f.queued(run))
	}
	one, two := f.take(host1), f.take(host1).start()
	f.clock.move(59 * time.Second)
	mustDo(t, f.Store, as(host1, two.claim), RenewLease{runID("r2"), 60_000})
	f.clock.move(2 * time.Second)
	if got := f.wantRun(host2, ClaimNext{}, "r1"); !got.TakenOver || got.Queue.Status != QueueStarting || got.Queue.Errors != 1 || got.Queue.ErrorCode != "owner_lost" || got.Claim.Generation != 2 {
		t.Errorf("%+v", got)
	}
	_, err := send(one, StartRun{"r1"})
	wantCode(t, err, schema.StaleClaim)
	f.wantRun(host2, ClaimNext{}, "r3") // r2 is not lost
	f.clock.move(time.Minute)
	if got := f.wantRun(host2, ClaimNext{}, "r1"); got.Claim.Generation != 3 { // by the same host, and yet another owner
		t.Errorf("%+v", got)
	}
	got := f.wantRun(host2, ClaimNext{}, "r2")
	if got.Queue.Status != QueueRunning || got.Run.Status != RunRunning {
		t.Errorf("%+v", got)
	}
	o := &owner{f, host2, "r2", got.Claim}
	o.step("test")
	must(o, CompleteRun{Run: "r2"})
}

// A clock that goes back neither revives an owner nor makes a run due again.
func TestQueueClockGoesBack(t *testing.T) { // D2
	f := newFlow(t)
	f.create(f.queued("r1"))
	f.clock.move(-time.Hour)
	f.wantNothing(host1, ClaimNext{}, f.clock.millis()+Millis(time.Hour.Milliseconds()))
	f.clock.move(time.Hour)
	o := f.take(host1).start()
	f.clock.move(-time.Hour)
	f.wantNothing(host2, ClaimNext{}, 0)
	must(o, CompleteRun{Run: "r1"})
	if run, err := f.Run(t.Context(), "r1"); err != nil || run.EndedAt < run.CreatedAt {
		t.Errorf("%+v, %v", run, err)
	}

	f.create(f.queued("r2"))
	f.clock.move(2 * time.Hour)
	mustDo(t, f.Store, Permit{Actor: control, Expected: AnyRevision}, PauseRun{"r2"})
	resumed := mustDo(t, f.Store, Permit{Actor: control, Expected: AnyRevision}, ResumeRun{"r2"}).Result
	f.clock.move(-time.Hour)
	got := f.wantRun(host1, ClaimNext{}, "r2")
	if l, err := f.Lease(t.Context(), runID("r2")); err != nil || got.Run.UpdatedAt != resumed.UpdatedAt || l.AcquiredAt != resumed.UpdatedAt {
		t.Errorf("claimed at %d and %d (%v), after an update at %d", got.Run.UpdatedAt, l.AcquiredAt, err, resumed.UpdatedAt)
	}
}

// Of those who claim at the same time, each gets another run.
func TestClaimersRace(t *testing.T) { // D2, R4
	f := newFlow(t)
	const runs, claimers = 40, 8
	for i := range runs {
		f.create(f.queued(fmt.Sprint("r", i)))
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	winners := map[string]int{}
	for i := range claimers {
		wg.Go(func() {
			for {
				got, err := f.claim(Actor{HostActor, fmt.Sprint("h", i)}, ClaimNext{})
				if errors.Is(err, schema.NotFound) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				winners[got.Run.ID]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for run, n := range winners {
		if n != 1 {
			t.Errorf("%s was claimed %d times", run, n)
		}
	}
	if len(winners) != runs {
		t.Errorf("%d of %d runs were claimed", len(winners), runs)
	}
}

// Settlements follow from the ends of queued runs and of no others, once each.
func TestQueueSettlement(t *testing.T) { // R8, V1, W5
	f := newFlow(t)
	ends := map[string]func(o *owner){
		"completed": func(o *owner) { must(o, CompleteRun{Run: o.run}) },
		"failed":    func(o *owner) { must(o, FailRun{o.run, fault}) },
		"timed_out": func(o *owner) { must(o, TimeOutRun{Run: o.run}) },
		"cancelled": func(o *owner) { must(o, CancelRun{Run: o.run}) },
	}
	want := map[string]QueueStatus{"completed": QueueDone, "failed": QueueFailed, "timed_out": QueueFailed, "cancelled": QueueCancelled}
	for end, do := range ends {
		direct, queued := f.spec("direct "+end), f.queued(end)
		direct.DeadlineAt, queued.DeadlineAt = 1, 1
		f.create(direct)
		do(f.own(host1, direct.ID).start())
		f.create(queued)
		do(f.take(host1).start())
		if row := f.queueRow(end); row.Status != want[end] || !row.Unsettled || row.SettledAt != 0 { // the run overrides it
			t.Errorf("%+v", row)
		}
	}
	effects, err := f.Effects(t.Context(), EffectFilter{}, 0, 100)
	if err != nil || len(effects) != len(ends) {
		t.Fatalf("%d effects, %v", len(effects), err)
	}
	for _, e := range effects {
		if want[e.Source.Aggregate()] == "" || e.Type != SettleQueueEffect || e.External || e.Scope != (Scope{SystemScope, f.project}) {
			t.Errorf("%+v", e)
		}
	}
	f.clock.move(time.Second)
	if report := f.settle(); report.Applied != len(ends) {
		t.Errorf("%+v", report)
	}
	for end, status := range want {
		row := f.queueRow(end)
		if row.Status != status || row.Unsettled || row.SettledAt != f.clock.millis() || (row.ErrorCode != "") != (status == QueueFailed) {
			t.Errorf("%s: %+v", end, row)
		}
	}
	if report := f.settle(); report != (EffectReport{}) {
		t.Errorf("%+v", report)
	}
	_, err = Do(t.Context(), f.Store, Permit{Actor: host1, Expected: AnyRevision}, SettleQueue{"completed"})
	if err != nil {
		t.Errorf("a settled place is not found again: %v", err)
	}
}

// A worker that dies between the settlement and its receipt leaves nothing undone, and nothing done twice.
func TestSettlementRepeats(t *testing.T) { // R7, W5
	f := newFlow(t)
	f.create(f.queued("r1"))
	must(f.take(host1).start(), CompleteRun{Run: "r1"})
	e, err := f.Effect(t.Context(), effectID(runID("r1"), SettleQueueEffect, settleKey))
	if err != nil {
		t.Fatal(err)
	}
	claim := mustDo(t, f.Store, Permit{Actor: host1, Expected: e.Revision}, BeginEffect{e.ID, 1000}).Result.Claim
	mustDo(t, f.Store, Permit{Actor: host1, Expected: AnyRevision, Claim: claim}, SettleQueue{"r1"})
	settled := f.queueRow("r1")
	f.clock.move(time.Minute)
	report, err := f.worker(host2).Run(t.Context(), 10)
	if err != nil || report.Interrupted != 1 || report.Applied != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if e, err = f.Effect(t.Context(), e.ID); err != nil || e.Status != EffectApplied || e.Attempts != 2 {
		t.Errorf("%+v, %v", e, err)
	}
	if again := f.queueRow("r1"); again != settled {
		t.Errorf("settled again: %+v, before %+v", again, settled)
	}
}
