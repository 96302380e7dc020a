package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

// workedRuns is what the processes of these tests run.
type workedRuns struct {
	store    *Store
	project  string
	sessions int
	random   *rand.Rand
	actor    Actor
}

// playWork is the life of a process that runs what is queued, for ever. What it does is random; what it must
// not do, it is refused.
func playWork(s *Store, project, sessions, seed string) error {
	n, err := strconv.Atoi(sessions)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	w := &workedRuns{store: s, project: project, sessions: n, random: rand.New(rand.NewPCG(number, 1))}
	for {
		w.actor = Actor{HostActor, "h" + seed}
		if w.chance(70) {
			w.actor = Actor{SessionActor, fmt.Sprint("pi", w.random.IntN(n))}
		}
		for _, do := range []func(context.Context) error{w.settle, w.wake, w.work} {
			if err := do(context.Background()); err != nil && !late(err) {
				return err
			}
		}
	}
}

// late reports whether somebody else was faster, or owns by now what was owned.
func late(err error) bool {
	for _, code := range []schema.Code{schema.StaleRevision, schema.StaleClaim, schema.Locked, schema.IllegalTransition, schema.NotFound, schema.Busy} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

func (w *workedRuns) chance(percent int) bool { return w.random.IntN(100) < percent }

// workTTL is how long the leases last: not long, so that the killed are succeeded soon.
func workTTL() int64 {
	if raceDetector {
		return 2000
	}
	return 150
}

func (w *workedRuns) settle(ctx context.Context) error {
	worker := &EffectWorker{
		Store: w.store, Actor: w.actor, Scope: Scope{SystemScope, w.project}, Lease: time.Duration(workTTL()) * time.Millisecond,
		Handlers: map[string]EffectHandler{SettleQueueEffect: SettleQueueHandler(w.store, w.actor)},
	}
	_, err := worker.Run(ctx, 2)
	return err
}

// wake gives a parked run its place in the queue back, if its session is free.
func (w *workedRuns) wake(ctx context.Context) error {
	parked, err := w.store.Queue(ctx, QueueFilter{Project: w.project, Status: QueueParked}, Queued{}, 3)
	if err != nil || len(parked) == 0 {
		return err
	}
	run := parked[w.random.IntN(len(parked))].Run
	done, err := Do(ctx, w.store, Permit{Actor: w.actor, Expected: AnyRevision}, ClaimLease{runID(run), workTTL()})
	if err != nil {
		return err
	}
	permit := Permit{Actor: w.actor, Expected: done.Revision, Claim: done.Result}
	if _, err = Do(ctx, w.store, permit, EnqueueRun{Run: run}); errors.Is(err, schema.Locked) {
		_, err = Do(ctx, w.store, Permit{Actor: w.actor, Expected: AnyRevision, Claim: done.Result}, ReleaseLease{runID(run)})
	}
	return err
}

// work claims a run and works on it for a while.
func (w *workedRuns) work(ctx context.Context) error {
	done, err := Do(ctx, w.store, Permit{Actor: w.actor}, ClaimNext{Project: w.project, TTLMS: workTTL()})
	if errors.Is(err, schema.NotFound) {
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		return err
	}
	fmt.Println("claimed", done.Result.Run.ID)
	run := done.Result.Run.ID
	if done.Result.Run.Status == RunQueued {
		if _, err := w.do(ctx, done.Result, func(p Permit) error { return discard(Do(ctx, w.store, p, StartRun{run})) }); err != nil {
			return err
		}
	}
	for range 3 {
		if end, err := w.step(ctx, done.Result); end || err != nil {
			return err
		}
	}
	_, err = w.do(ctx, done.Result, func(p Permit) error { return w.end(ctx, p, run) })
	return err
}

func discard[R any](_ Done[R], err error) error { return err }

// do sends a command with the revision that the run has now.
func (w *workedRuns) do(ctx context.Context, c *QueueClaim, send func(Permit) error) (Run, error) {
	run, err := w.store.Run(ctx, c.Run.ID)
	if err == nil {
		err = send(Permit{Actor: w.actor, Expected: run.Revision, Claim: c.Claim})
	}
	return run, err
}

// step ends the attempt that is active, or makes one. end tells that the run was left.
func (w *workedRuns) step(ctx context.Context, c *QueueClaim) (end bool, err error) {
	doc, err := w.store.RunDocument(ctx, c.Run.ID, RunDocumentOptions{Limit: 1})
	if err != nil {
		return true, err
	}
	any := Permit{Actor: w.actor, Expected: AnyRevision, Claim: c.Claim}
	a := doc.Current
	if a == nil {
		p := any
		p.Expected = doc.Run.Revision
		begun, err := Do(ctx, w.store, p, BeginAttempt{Run: c.Run.ID, Node: []string{"plan", "test"}[w.random.IntN(2)], Input: json.RawMessage(`{}`), Prompt: "go"})
		if err != nil {
			return true, err
		}
		a = begun.Result
	}
	if c.TakenOver && a.InterruptedAt == 0 && a.Status == AttemptRunning {
		if err := discard(Do(ctx, w.store, any, InterruptAttempt{c.Run.ID, a.ID})); err != nil {
			return true, err
		}
		a.InterruptedAt = 1
	}
	if a.state() == StateInterrupted || a.state() == "waiting" {
		resumed, err := Do(ctx, w.store, any, ResumeAttempt{Run: c.Run.ID, Attempt: a.ID})
		if err != nil {
			return true, err
		}
		a = resumed.Result
	}
	c.TakenOver = false // what others left is resumed
	switch {
	case w.chance(10):
		return true, discard(Do(ctx, w.store, w.seen(ctx, c), RetryRun{Run: c.Run.ID, Code: "random", DelayMS: new(int64)}))
	case w.chance(10):
		if err := discard(Do(ctx, w.store, any, WaitAttempt{c.Run.ID, a.ID, ""})); err != nil {
			return true, err
		}
		return true, discard(Do(ctx, w.store, w.seen(ctx, c), ParkRun{Run: c.Run.ID}))
	case w.chance(10):
		return false, discard(Do(ctx, w.store, any, FailAttempt{c.Run.ID, a.ID, fault}))
	}
	finish := FinishAttempt{Run: c.Run.ID, Attempt: a.ID}
	if a.Expected == AssistantMessage {
		finish.Message = &Message{Text: "done", MaxChars: 20}
	}
	return false, discard(Do(ctx, w.store, any, finish))
}

func (w *workedRuns) seen(ctx context.Context, c *QueueClaim) Permit {
	run, _ := w.store.Run(ctx, c.Run.ID) // the zero revision is refused
	return Permit{Actor: w.actor, Expected: run.Revision, Claim: c.Claim}
}

func (w *workedRuns) end(ctx context.Context, p Permit, run string) error {
	switch w.random.IntN(5) {
	case 0:
		return discard(Do(ctx, w.store, p, FailRun{run, fault}))
	case 1:
		return discard(Do(ctx, w.store, p, CancelRun{Run: run}))
	}
	return discard(Do(ctx, w.store, p, CompleteRun{Run: run}))
}

// Four processes compete for queued runs and are killed at random.
func TestRunsSurviveSIGKILL(t *testing.T) { // D2, D3, D7, R8, W6
	runs, sessions := rounds(t, 40), 8
	if runs >= 200 {
		sessions = 20
	}
	if raceDetector {
		runs = min(runs, 10)
	}
	s := openAt(t, filepath.Join(t.TempDir(), "state.sqlite"), Options{})
	f := flowOf(t, s, nil)
	started := 0
	work := func() *process {
		started++
		return start(t, "work", s.Path(), f.project, strconv.Itoa(sessions), strconv.Itoa(started))
	}
	procs := []*process{work(), work(), work(), work()}
	random := rand.New(rand.NewPCG(uint64(runs), 2))
	kills := 0
	deadline := time.Now().Add(time.Duration(30+runs) * time.Second)
	for created, settled := 0, 0; settled < runs; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d runs are settled in time", settled, runs)
		}
		if created < runs && f.createSome(created, sessions) {
			created++
			continue
		}
		time.Sleep(10 * time.Millisecond)
		if i := random.IntN(4); kills < runs/6 && random.IntN(8) == 0 {
			procs[i].kill(t)
			<-procs[i].lines
			procs[i] = work()
			kills++
		}
		settled = f.settledRuns()
	}
	for _, p := range procs {
		p.kill(t)
		<-p.lines
	}
	mustPassDeep(t, s.Path())
	f.checkWork(runs, sessions)
	t.Logf("%d runs, %d processes, %d of them killed in the middle", runs, started, kills)
}

// createSome creates the i-th run, if its session is free.
func (f *flow) createSome(i, sessions int) bool {
	f.Helper()
	spec := f.queued(fmt.Sprint("r", i))
	if i%4 != 0 {
		spec = f.interactive(spec.ID, fmt.Sprint("pi", i%sessions))
	}
	err := f.tryCreate(host1, nil, spec)
	if err != nil && !errors.Is(err, schema.Locked) {
		f.Fatal(err)
	}
	return err == nil
}

func (f *flow) settledRuns() (n int) {
	f.Helper()
	for _, status := range []QueueStatus{QueueDone, QueueFailed, QueueCancelled} {
		rows, err := f.Queue(context.Background(), QueueFilter{Status: status}, Queued{}, MaxPage)
		if err != nil {
			f.Fatal(err)
		}
		for _, row := range rows {
			if !row.Unsettled {
				n++
			}
		}
	}
	return n
}

// checkWork reads the events: each run ended once, and no session was ever reserved for two runs.
func (f *flow) checkWork(runs, sessions int) {
	f.Helper()
	ends := map[string]int{}
	reserved := map[string]string{} // by session
	holds := map[string]string{}    // the session, by run
	home := map[string]string{}     // of interactive runs
	free := func(run string) {
		delete(reserved, holds[run])
		delete(holds, run)
	}
	reserve := func(e Event, session string) {
		free(e.Run)
		if session == "" {
			return
		}
		if other := reserved[session]; other != "" {
			f.Errorf("event %d: %s reserves %s, which is reserved for %s", e.Sequence, e.Run, session, other)
		}
		reserved[session], holds[e.Run] = e.Run, session
	}
	for after := int64(0); ; {
		events, err := f.Events(context.Background(), EventFilter{}, after, MaxPage)
		if err != nil {
			f.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			after = e.Sequence
			switch e.Type {
			case "run.queued":
				run, err := f.Run(context.Background(), e.Run)
				if err != nil {
					f.Fatal(err)
				}
				if run.Mode == InteractiveMode {
					home[e.Run] = run.Session
				}
				reserve(e, home[e.Run])
			case "queue.enqueued", "queue.retried":
				reserve(e, home[e.Run])
			case "queue.claimed", "queue.taken_over":
				session := ""
				if e.Actor.Class == SessionActor {
					session = e.Actor.ID
				}
				reserve(e, session)
			case "run.parked":
				free(e.Run)
			case "run.completed", "run.failed", "run.cancelled", "run.timed_out":
				ends[e.Run]++
				free(e.Run)
			}
		}
	}
	for run, n := range ends {
		if n != 1 {
			f.Errorf("run %s ended %d times", run, n)
		}
	}
	if len(ends) != runs {
		f.Errorf("%d runs ended, of %d", len(ends), runs)
	}
	effects, err := f.Effects(context.Background(), EffectFilter{}, 0, MaxPage)
	if err != nil || len(effects) > runs {
		f.Errorf("%d effects of %d runs, %v", len(effects), runs, err)
	}
	for _, e := range effects {
		if e.Type != SettleQueueEffect || !strings.HasPrefix(string(e.Source), "run:r") || e.Status != EffectApplied && e.Status != EffectApplying && e.Status != EffectPending {
			f.Errorf("%+v", e)
		}
	}
}
