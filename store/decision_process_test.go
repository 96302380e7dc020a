package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

func init() {
	roles["resolve"] = playWays
	roles["answer"] = playAnswers
	roles["attend"] = playAttend
}

// playWays resolves decisions in one way: WAY START TOKEN COUNT. The file START says when to begin; a moment for
// each decision follows. It prints the winner of each.
func playWays(s *Store, args []string) error {
	i := slices.IndexFunc(ways, func(w way) bool { return w.name == args[0] })
	count, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	claim, err := ParseClaim(runID("r1"), 1, args[2])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var begin int64
	for {
		if text, err := os.ReadFile(args[1]); err == nil {
			if begin, err = strconv.ParseInt(string(text), 10, 64); err != nil {
				return err
			}
			break
		}
		time.Sleep(time.Millisecond)
	}
	for n := range count {
		d, err := s.Decision(context.Background(), decisionID("r1", fmt.Sprint("q", n), 1))
		if err != nil {
			return err
		}
		time.Sleep(time.Until(time.UnixMilli(begin).Add(time.Duration(n) * 8 * time.Millisecond)))
		got, err := ways[i].do(context.Background(), s, &d.Decision, claim)
		winner := "-" // none that the way could have been or lost to
		var lost *ConflictError
		switch {
		case err == nil:
			winner = mustJSONOf(got.Resolution)
		case errors.Is(err, schema.AlreadyResolved) && errors.As(err, &lost):
			winner = mustJSONOf(lost.Winner)
		case !errors.Is(err, schema.IllegalTransition):
			return err
		}
		fmt.Println(winner)
	}
	return nil
}

func mustJSONOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Four processes, each with its own way, race through the same decisions: all of them get the one winner of
// each, and all see the same state afterwards.
func TestProcessesResolveDecisions(t *testing.T) { // D9, V1, C54
	count := rounds(t, 20)
	s := openAt(t, newPath(t), Options{})
	a := askingIn(flowOf(t, s, nil))
	var asked []*Decision
	for n := range count {
		q := a.question()
		q.Key, q.DeadlineAt = fmt.Sprint("q", n), MillisOf(time.Now())+200
		if n%2 == 0 {
			q.Default = defaultApprove
		}
		asked = append(asked, mustDo(t, s, Permit{Actor: host1, Claim: a.claim}, q).Result)
	}
	file := filepath.Join(t.TempDir(), "start")
	var procs []*process
	for _, w := range ways {
		procs = append(procs, start(t, "resolve", s.Path(), w.name, file, a.claim.Token(), strconv.Itoa(count)))
	}
	for _, p := range procs {
		<-p.some
	}
	begin := max(asked[count-1].DeadlineAt, MillisOf(time.Now())) + 50
	written := file + ".written"
	if err := os.WriteFile(written, []byte(strconv.FormatInt(int64(begin), 10)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(written, file); err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for i, p := range procs {
		lines := <-p.lines
		if len(lines) != count+1 || !p.cmd.ProcessState.Success() {
			t.Fatalf("%s: %d lines, %v", ways[i].name, len(lines), p.cmd.ProcessState)
		}
		all = append(all, lines[1:])
	}
	won := map[DecisionReason]int{}
	for n, d := range asked {
		v := a.view(d.ID)
		won[v.Resolution.Reason]++
		a.checkResolved(d.ID, v.Resolution)
		for i, w := range ways {
			if got := all[i][n]; got != mustJSONOf(v.Resolution) && (got != "-" || w.legal(d)) {
				t.Errorf("q%d: %s got %s, the winner is %s", n, w.name, got, mustJSONOf(v.Resolution))
			}
		}
	}
	t.Logf("won: %v", won)
	if n := s.mustCount(t, "continuations"); n != won[ReasonHuman]+won[ReasonTimeoutPolicy] {
		t.Errorf("%d continuations of %v", n, won)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	mustPassDeep(t, s.Path())
}

func (s *Store) mustCount(t *testing.T, table string) int {
	t.Helper()
	status, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int(status.Rows[table])
}

const attendTTL = 100 * time.Millisecond

// playAnswers answers decisions of parked runs, FIRST to LAST, and acknowledges each.
func playAnswers(s *Store, args []string) error {
	first, _ := strconv.Atoi(args[0])
	last, _ := strconv.Atoi(args[1])
	for n := first; n < last; n++ {
		d, err := s.Decision(context.Background(), decisionID(fmt.Sprint("p", n), "q", 1))
		if err != nil {
			return err
		}
		done, err := Do(context.Background(), s, Permit{Actor: ann, Expected: AnyRevision}, SubmitDecision{
			Decision: d.ID, Submission: "answer to " + d.ID, RequestDigest: d.RequestDigest, Response: json.RawMessage(approve)})
		if err != nil {
			return err
		}
		fmt.Println(d.ID, done.Result.Submission.Outcome)
	}
	return nil
}

// playAttend attends to the runs of PROJECT as the host NAME for ever, and acknowledges what it admitted.
func playAttend(s *Store, args []string) error {
	for {
		n, err := attendAll(context.Background(), s, Actor{HostActor, args[1]}, args[0], func(run string) { fmt.Println("admitting", run) })
		if err != nil {
			return err
		}
		if n == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// attendAll does what is due for the unattended runs of a project: their deadlines, and the runs that they go
// on in. It returns for how many it did something.
func attendAll(ctx context.Context, s *Store, host Actor, project string, admitting func(run string)) (attended int, err error) {
	runs, err := s.UnattendedRuns(ctx, project, "", 20)
	if err != nil {
		return 0, err
	}
	for _, run := range runs {
		err := Attend(ctx, s, host, run, attendTTL, func(ctx context.Context, claim *Claim) error {
			if _, err := ApplyDuePolicies(ctx, s, host, []*Claim{claim}, 10); err != nil {
				return err
			}
			w := &EffectWorker{
				Store: s, Actor: host, Scope: Scope{RunScope, run}, Claim: claim, Lease: attendTTL,
				Handlers: map[string]EffectHandler{EffectContinuationAdmit: ContinuationHandler(s, host, claim, func(ctx context.Context, c Continuation) (*RunSpec, error) {
					parent, err := s.Run(ctx, c.Parent)
					if err != nil {
						return nil, err
					}
					admitting(c.Run)
					return &RunSpec{
						Project: parent.Project, Parent: parent.ID, Definition: parent.Definition, Source: parent.Source, Title: parent.Title,
						Input: json.RawMessage(`{}`), Mode: parent.Mode, Session: parent.Session, Queue: &QueuePlace{}, Continues: true,
					}, nil
				})},
			}
			report, err := w.Run(ctx, 10)
			attended += report.Applied
			return err
		})
		switch {
		case err == nil:
		case errors.Is(err, schema.Locked), errors.Is(err, schema.StaleClaim), errors.Is(err, schema.Canceled), errors.Is(err, context.Canceled): // another one attends to it
		default:
			return attended, err
		}
	}
	return attended, nil
}

// People answer and hosts carry on, and all of them are killed at random moments. Whatever was acknowledged
// holds; in the end each decision has one outcome, each accepted one went on in one run, in the session of
// its parent, and nobody has reserved that twice.
func TestDecisionsSurviveSIGKILL(t *testing.T) { // W6, D2, D9, D10, R8
	const each = 4
	total := each * rounds(t, 2)
	s := openAt(t, newPath(t), Options{})
	a := askingIn(flowOf(t, s, nil))
	for n := range total {
		a.park(n)
	}
	acked := map[string]string{}
	for first := 0; first < total; first += each {
		procs := []*process{
			start(t, "answer", s.Path(), strconv.Itoa(first), strconv.Itoa(first+each)),
			start(t, "answer", s.Path(), strconv.Itoa(first), strconv.Itoa(first+each)), // the same, again
			start(t, "attend", s.Path(), a.project, "h1"),
			start(t, "attend", s.Path(), a.project, "h2"),
		}
		select { // somebody is about to admit a run
		case <-procs[2].some:
		case <-procs[3].some:
		}
		time.Sleep(time.Duration(first/each%5) * 5 * time.Millisecond)
		for i, p := range procs {
			p.kill(t)
			for _, line := range <-p.lines {
				if id, outcome, _ := strings.Cut(line, " "); i < 2 {
					if before := acked[id]; before != "" && before != outcome {
						t.Errorf("the answer to %s was %s, and when repeated %s", id, before, outcome)
					}
					acked[id] = outcome
				}
			}
		}
		mustPassDeep(t, s.Path())
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := attendAll(t.Context(), s, host1, a.project, func(string) {}); err != nil {
			t.Fatal(err)
		}
		if a.allWentOn(total) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("some runs did not go on")
		}
	}
	for id, outcome := range acked {
		if v := a.view(id); outcome == string(AnswerWon) && (v.Resolution.Reason != ReasonHuman || v.Resolution.Choice != "approve") {
			t.Errorf("%s was acknowledged to a person: %+v", id, v.Resolution)
		}
	}
	for n := range total {
		a.checkWentOn(n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	mustPassDeep(t, s.Path())
}

// park makes the run p<n>, which waits in its session for an answer that every third gets by the deadline.
func (a *asking) park(n int) {
	a.Helper()
	id, pi := fmt.Sprint("p", n), fmt.Sprint("pi", n)
	a.create(a.interactive(id, pi))
	got := mustDo(a, a.Store, Permit{Actor: host1}, ClaimNext{Project: a.project, Session: pi, TTLMS: 60_000}).Result
	mustDo(a, a.Store, a.permit(host1, got.Claim, id), StartRun{id})
	q := a.question()
	q.Run, q.Key, q.DeadlineAt, q.Default = id, "q", MillisOf(time.Now())+2000+Millis(n), defaultApprove
	if n%3 == 0 {
		q.DeadlineAt = MillisOf(time.Now()) + 100
	}
	mustDo(a, a.Store, Permit{Actor: host1, Claim: got.Claim}, q)
	mustDo(a, a.Store, a.permit(host1, got.Claim, id), ParkRun{Run: id})
}

func (a *asking) allWentOn(total int) bool {
	a.Helper()
	for n := range total {
		if v := a.view(decisionID(fmt.Sprint("p", n), "q", 1)); !v.Settled() {
			return false
		}
	}
	return true
}

// checkWentOn checks that the run p<n> went on in exactly one other.
func (a *asking) checkWentOn(n int) {
	a.Helper()
	id := fmt.Sprint("p", n)
	v := a.view(decisionID(id, "q", 1))
	if v.Status != DecisionAccepted || v.Continuation.Status != ContinuationAdmitted || v.Effects[0].Status != EffectApplied {
		a.Errorf("%s: %+v", id, v)
	}
	child, err := a.Run(context.Background(), v.Continuation.Run)
	if err != nil || child.Parent != id {
		a.Errorf("%+v, %v", child, err)
	}
	if q := a.queueRow(id); q.Status != QueueDone || q.SettledAt == 0 {
		a.Errorf("%+v", q)
	}
	if q := a.queueRow(child.ID); q.Status != QueueQueued || q.Session != fmt.Sprint("pi", n) {
		a.Errorf("%+v", q)
	}
	list, err := a.ContinuationsOfRun(context.Background(), id, Place{}, 10)
	if err != nil || len(list) != 1 || !reflect.DeepEqual(&list[0], v.Continuation) {
		a.Errorf("%+v, %v", list, err)
	}
}
