package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// trial is a command that is tried in every situation.
type trial struct {
	op    Op
	actor Actor
	free  bool // nobody owns the run when it comes
	do    func(f *flow, p Permit, run, attempt string) error
	lines []string // the events of the lines of the table that it can come to, the first that accepts first
}

func trialOf[R any](actor Actor, free bool, cmd func(f *flow, run, attempt string) Command[R], lines ...string) trial {
	return trial{
		op: cmd(&flow{}, "", "").Op(), actor: actor, free: free, lines: lines,
		do: func(f *flow, p Permit, run, attempt string) error {
			_, err := Do(context.Background(), f.Store, p, cmd(f, run, attempt))
			return err
		},
	}
}

var fault = []byte(`{"message":"broken"}`)

// trials are all operations on runs, queue rows and attempts but those that bring a run into being.
var trials = []trial{
	trialOf(pi1, false, func(_ *flow, r, _ string) Command[*QueueRow] { return EnqueueRun{r, QueuePlace{Affinity: r}} }, "queue.enqueued"),
	trialOf(host1, true, func(f *flow, r, _ string) Command[*QueueClaim] {
		return ClaimNext{Project: f.project, Affinity: r, TTLMS: 1000}
	}, "queue.claimed", "queue.taken_over"),
	trialOf(pi1, false, func(_ *flow, r, _ string) Command[*QueueRow] { return RetryRun{Run: r, Code: "oops"} }, "queue.retried"),
	trialOf(host1, true, func(_ *flow, r, _ string) Command[*QueueRow] { return SettleQueue{r} }, "queue.done", "queue.failed", "queue.cancelled"),
	trialOf(pi1, false, func(_ *flow, r, _ string) Command[*Run] { return StartRun{r} }, "run.started"),
	trialOf(pi1, false, func(_ *flow, r, _ string) Command[*Run] { return ParkRun{r, "for a reason"} }, "run.parked"),
	trialOf(control, false, func(_ *flow, r, _ string) Command[*Run] { return PauseRun{r} }, "run.paused"),
	trialOf(control, false, func(_ *flow, r, _ string) Command[*Run] { return ResumeRun{r} }, "run.resumed"),
	trialOf(control, false, func(_ *flow, r, _ string) Command[*Run] { return RequestCancel{r} }, "run.cancel_requested"),
	trialOf(control, true, func(_ *flow, r, _ string) Command[*Run] { return RequestCancel{r} }, "run.cancelled", "run.cancel_requested"),
	trialOf(control, false, func(_ *flow, r, _ string) Command[*Run] { return RequestDeletion{r} }, "run.deletion_requested"),
	trialOf(pi1, false, func(_ *flow, r, _ string) Command[*Run] { return CompleteRun{Run: r} }, "run.completed"),
	trialOf(pi1, false, func(_ *flow, r, _ string) Command[*Run] { return FailRun{r, fault} }, "run.failed"),
	trialOf(pi1, false, func(_ *flow, r, _ string) Command[*Run] { return TimeOutRun{Run: r} }, "run.timed_out"),
	trialOf(pi1, false, func(_ *flow, r, _ string) Command[*Run] { return CancelRun{Run: r} }, "run.cancelled"),
	trialOf(pi1, false, func(_ *flow, r, _ string) Command[*NodeAttempt] { return BeginAttempt{Run: r, Node: "test"} }, "attempt.began"),
	trialOf(pi1, false, func(_ *flow, r, _ string) Command[*NodeAttempt] {
		return BeginAttempt{Run: r, Node: "test", Later: true}
	}, "attempt.prepared"),
	trialOf(pi1, false, func(_ *flow, r, a string) Command[*NodeAttempt] { return StartAttempt{Run: r, Attempt: a} }, "attempt.started"),
	trialOf(pi1, false, func(_ *flow, r, a string) Command[*NodeAttempt] { return WaitAttempt{Run: r, Attempt: a} }, "attempt.waited"),
	trialOf(pi1, false, func(_ *flow, r, a string) Command[*NodeAttempt] { return InterruptAttempt{r, a} }, "attempt.interrupted"),
	trialOf(pi1, false, func(_ *flow, r, a string) Command[*NodeAttempt] { return ResumeAttempt{Run: r, Attempt: a} }, "attempt.resumed"),
	trialOf(host1, false, func(_ *flow, r, a string) Command[*NodeAttempt] { return ResumeAttempt{Run: r, Attempt: a} }, "attempt.restarted", "attempt.resumed"),
	trialOf(pi1, false, func(_ *flow, r, a string) Command[*NodeAttempt] {
		return FinishAttempt{Run: r, Attempt: a, Message: &Message{Text: "x", MaxChars: 20}}
	}, "attempt.finished"),
	trialOf(pi1, false, func(_ *flow, r, a string) Command[*NodeAttempt] {
		return AdoptMessage{r, a, newContent(JSONMedia, []byte("{}")).digest, Message{Text: "x", EntryID: "e", MaxChars: 20}}
	}, "attempt.adopted"),
	trialOf(pi1, false, func(_ *flow, r, a string) Command[*NodeAttempt] { return FailAttempt{r, a, fault} }, "attempt.failed"),
	trialOf(pi1, false, func(_ *flow, r, a string) Command[*NodeAttempt] { return TimeOutAttempt{Run: r, Attempt: a} }, "attempt.timed_out"),
	trialOf(pi1, false, func(_ *flow, r, a string) Command[*NodeAttempt] { return CancelAttempt{Run: r, Attempt: a} }, "attempt.cancelled"),
	trialOf(pi1, false, func(_ *flow, r, a string) Command[*Appended] {
		return AppendUpdates{r, a, 1, []NewUpdate{{Type: "t", Data: []byte("1")}}}
	}, "update.appended"),
}

// namesAttempt reports whether the command is about an attempt that exists.
func (tr trial) namesAttempt() bool {
	return tr.op == OpUpdateAppend || strings.HasPrefix(string(tr.op), "attempt.") && tr.op != OpAttemptBegin
}

// needsOwner reports whether the command is for the owner of the run.
func (tr trial) needsOwner() bool {
	return operations[tr.op].Rights[tr.actor.Class].Own == OwnSubject
}

// expect returns what must come of a command: a line of the table, or a code, or that it is found to have
// been carried out.
func (tr trial) expect(s situation) (line *Transition, code schema.Code) {
	attempt := s.active()
	if tr.namesAttempt() {
		attempt = s.attempt
	}
	switch {
	case tr.op == OpRunRequestCancel && s.cancel, tr.op == OpQueueSettle && QueueStatus(s.queue).settled():
		return nil, "" // adopted
	case tr.op == OpQueueSettle && s.queue == StateNone:
		return nil, schema.Denied // no effect, and so no claim on one
	case tr.needsOwner() && s.ended():
		return nil, schema.StaleClaim // nobody owns what has ended
	case tr.namesAttempt() && attempt == StateNone:
		return nil, schema.NotFound
	}
	for _, event := range tr.lines {
		t := transitionOf(tr.op, event)
		_, run := t.Run.move(s.run)
		_, queue := t.Queue.move(s.queue)
		_, moved := t.Attempt.move(attempt)
		met := !(slices.Contains(t.Needs, IfPaused) && !s.paused || slices.Contains(t.Needs, IfNotPaused) && s.paused ||
			slices.Contains(t.Needs, IfNotCancelled) && s.cancel)
		if run && queue && moved && met {
			return t, ""
		}
	}
	if tr.op == OpQueueClaim {
		return nil, schema.NotFound // it is passed over
	}
	return nil, schema.IllegalTransition
}

// planted is a run in a situation.
type planted struct {
	*flow
	situation
	run   string
	claim *Claim
}

// ready returns the permit with which a command is to be sent to a planted run.
func (p *planted) ready(tr trial) Permit {
	permit := p.permit(tr.actor, p.claim, p.run)
	switch {
	case p.ended() || tr.actor == pi1 || tr.actor == control && !tr.free:
	case tr.free:
		mustDo(p, p.Store, as(pi1, p.claim), ReleaseLease{runID(p.run)})
		permit = p.permit(tr.actor, nil, p.run)
	default:
		mustDo(p, p.Store, as(pi1, p.claim), ReleaseLease{runID(p.run)})
		claim := mustClaim(p, p.Store, tr.actor, runID(p.run), time.Hour)
		permit = p.permit(tr.actor, claim, p.run)
	}
	if tr.op == OpQueueSettle && p.queue != StateNone {
		permit.Claim = p.beginSettlement(tr.actor)
	}
	return permit
}

func (p *planted) try(tr trial, permit Permit) error {
	return tr.do(p.flow, permit, p.run, attemptID(p.run, "plan", 1))
}

// repeat sends a command again that was accepted under a request's name, as by a caller who got no answer.
func (p *planted) repeat(tr trial, permit Permit) {
	p.Helper()
	before := p.rowsOf(p.run)
	err := p.try(tr, permit)
	if tr.op == OpQueueClaim {
		wantCode(p, err, schema.Conflict) // the claim was handed out once
	} else if err != nil {
		p.Errorf("%s: %s again: %v", p.situation, tr.op, err)
	}
	if p.rowsOf(p.run) != before {
		p.Errorf("%s: %s again had a second effect", p.situation, tr.op)
	}
}

func (p *planted) beginSettlement(actor Actor) *Claim {
	e, err := p.Effect(context.Background(), effectID(runID(p.run), SettleQueueEffect, settleKey))
	if err != nil {
		p.Fatal(err)
	}
	return mustDo(p, p.Store, Permit{Actor: actor, Expected: e.Revision}, BeginEffect{e.ID, 1000}).Result.Claim
}

// check compares a run with what a line of the table says.
func (p *planted) check(tr trial, line *Transition) {
	p.Helper()
	var w *work
	var event Event
	err := p.view(context.Background(), func(rx *sqlite.Rx) (err error) {
		if w, err = loadWork(&facts{Rx: rx}, p.run); err != nil {
			return err
		}
		if tr.namesAttempt() && line.Event != "attempt.restarted" {
			err = w.name(attemptID(p.run, "plan", 1))
		}
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
	for after := int64(0); ; {
		events, err := p.Events(context.Background(), EventFilter{Resource: runID(p.run)}, after, MaxPage)
		if err != nil {
			p.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		event = events[len(events)-1]
		after = event.Sequence
	}
	run, _ := line.Run.move(p.situation.run)
	queue, _ := line.Queue.move(p.queue)
	from := p.active()
	if tr.namesAttempt() {
		from = p.attempt
	}
	attempt, _ := line.Attempt.move(from)
	switch {
	case line.Event == "attempt.restarted":
		attempt = "running" // the fresh one
	case !tr.namesAttempt() && slices.Contains(endings, attempt):
		attempt = StateNone // no active one is left
	}
	paused := p.paused && w.run.EndedAt == 0 && line.Event != "run.resumed" || line.Event == "run.paused"
	got := situation{State(w.run.Status), w.queueState(), w.attempt.state(), w.run.Paused, w.run.CancelRequestedAt != 0}
	want := situation{run, queue, attempt, paused, p.cancel || tr.op == OpRunRequestCancel}
	if got != want || event.Type != line.Event {
		p.Errorf("%s: %s made %s (%s), want %s (%s)", p.situation, tr.op, got, event.Type, want, line.Event)
	}
	if w.run.EndedAt == 0 {
		return
	}
	_, err = p.Effect(context.Background(), effectID(runID(p.run), SettleQueueEffect, settleKey))
	if has := err == nil; has != (p.queue != StateNone) { // R8
		p.Errorf("%s: %s left a settlement: %v (%v)", p.situation, tr.op, has, err)
	}
}

// Every command is tried in every situation. Where the table has a line for it, it does what that says, and
// does it once; everywhere else it is refused, and the database is as it was.
func TestTransitions(t *testing.T) { // D1, D2, D3, D7, W2, W5
	all, parts, stride := situations(), 4, 1
	if raceDetector {
		stride = 40
	}
	f := newFlow(t)
	var legal sync.Map // the lines that were tried, by name
	t.Run("situations", func(t *testing.T) {
		for part := range parts { // at the same time, because most of the time is spent on waiting for the disk
			t.Run(strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				mine := *f
				mine.TB = t
				for i := part * stride; i < len(all); i += parts * stride {
					mine.tryAll(all[i], fmt.Sprintf("s%d", i), &legal)
				}
			})
		}
	})
	for _, line := range transitions {
		name := string(line.Op) + " " + line.Event
		if _, tried := legal.Load(name); !tried && line.Op != OpRunCreate && !raceDetector {
			t.Errorf("no situation came to the line %s", name)
		}
	}
}

// tryAll tries every command in one situation.
func (f *flow) tryAll(s situation, name string, legal *sync.Map) {
	f.Helper()
	// The first run is for all that is refused to its owner, each of the others for one command.
	ids, own := []string{name}, make([]int, len(trials))
	for j, tr := range trials {
		if _, code := tr.expect(s); code == "" || tr.free || tr.actor == host1 {
			own[j] = len(ids)
			ids = append(ids, fmt.Sprint(name, "-", j))
		}
	}
	claims := mustDo(f, f.Store, Permit{Actor: pi1}, plantRuns{s, ids, f.project, f.definition}).Result
	before := f.rowsOf(ids[0])
	for j, tr := range trials {
		line, code := tr.expect(s)
		p := &planted{f, s, ids[own[j]], claims[own[j]]}
		permit := p.ready(tr)
		permit.Request = fmt.Sprintf("%s by %d", p.run, j)
		err := p.try(tr, permit)
		switch {
		case code != "":
			if !errors.Is(err, code) {
				f.Errorf("%s: %s: %v, want code %s", s, tr.op, err, code)
			}
		case err != nil:
			f.Errorf("%s: %s: %v", s, tr.op, err)
		case line != nil:
			p.check(tr, line)
			if _, again := legal.LoadOrStore(string(line.Op)+" "+line.Event, true); !again {
				p.repeat(tr, permit)
			}
		}
	}
	if after := f.rowsOf(ids[0]); after != before {
		f.Errorf("%s: refused commands changed\n%sto\n%s", s, before, after)
	}
}

// rowsOf returns everything that is in the database about a run.
func (f *flow) rowsOf(run string) string {
	f.Helper()
	var b strings.Builder
	err := f.view(context.Background(), func(rx *sqlite.Rx) error {
		b.Reset()
		for _, table := range []struct{ name, where string }{
			{"runs", "run_id = ?1"}, {"run_bindings", "run_id = ?1"}, {"run_queue", "run_id = ?1"}, {"node_attempts", "run_id = ?1"},
			{"workflow_updates", "attempt_id IN (SELECT attempt_id FROM node_attempts WHERE run_id = ?1)"},
			{"resources", "resource_id = 'run:' || ?1"}, {"leases", "resource_id = 'run:' || ?1"},
			{"events", "run_id = ?1"}, {"effects", "source_resource_id = 'run:' || ?1"},
		} {
			err := rx.Query("SELECT * FROM "+table.name+" WHERE "+table.where, func(r sqlite.Row) error {
				b.WriteString(table.name)
				for i := range r.Columns() {
					fmt.Fprintf(&b, " %v", r.Value(i))
				}
				b.WriteByte('\n')
				return nil
			}, run)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	return b.String()
}
