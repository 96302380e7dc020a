package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

func (f *flow) claimNone() *NoKeyDueError {
	f.Helper()
	_, err := Do(context.Background(), f.Store, anybody, ClaimController{Project: f.project, TTLMS: 1000})
	wantCode(f, err, schema.NotFound)
	return cause[*NoKeyDueError](f, err)
}

func TestClaimController(t *testing.T) { // D11, R4
	f := newFlow(t)
	if e := f.claimNone(); e.Next != 0 {
		t.Errorf("%+v", e)
	}
	first := f.controller("pr-1", `1`)
	f.clock.move(time.Second)
	second := f.controller("pr-2", `1`)
	mustDo(t, f.Store, anybody, ApplyController{f.project, "gardener", "main", []byte(`1`)})
	_, err := Do(t.Context(), f.Store, anybody, ClaimController{Project: f.project, Names: []string{"nobody"}, TTLMS: 1000})
	wantCode(t, err, schema.NotFound)
	_, err = Do(t.Context(), f.Store, anybody, ClaimController{Project: "elsewhere", TTLMS: 1000})
	wantCode(t, err, schema.NotFound)

	got := mustDo(t, f.Store, anybody, ClaimController{Project: f.project, Names: []string{"merger", "x"}, TTLMS: 60_000}).Result
	if got.Controller.UID != first.UID || got.TakenOver || got.Controller.Queue.Version != 1 || got.Claim.Resource != first.Resource() {
		t.Fatalf("%+v", got)
	}
	if v := f.viewed(first.UID); v.Phase != ControllerWorking || v.Owner == nil || *v.Owner.Owner != host1 {
		t.Errorf("%+v", v)
	}
	got = mustDo(t, f.Store, anybody, ClaimController{Project: f.project, Names: []string{"merger"}, TTLMS: 60_000}).Result
	if got.Controller.UID != second.UID {
		t.Errorf("the next one is %s", got.Controller.Key)
	}
	_, err = Do(t.Context(), f.Store, anybody, ClaimController{Project: f.project, Names: []string{"merger"}, TTLMS: 1000})
	wantCode(t, err, schema.NotFound)

	f.clock.move(2 * time.Minute)                                             // both are lost
	if v := f.viewed(first.UID); v.Phase != ControllerDue || v.Owner != nil { // V1
		t.Errorf("who vanished is shown: %+v", v)
	}
	got = mustDo(t, f.Store, anybody, ClaimController{Project: f.project, Names: []string{"merger"}, TTLMS: 60_000}).Result
	if got.Controller.UID != first.UID || !got.TakenOver || got.Claim.Generation != 2 || got.Controller.Queue.Errors != 1 || got.Controller.Queue.ErrorCode != "owner_lost" {
		t.Errorf("%+v", got)
	}
	for names, code := range map[string]schema.Code{strings.Repeat("n", 257): schema.Limit, "": schema.Invalid} {
		_, err := Do(t.Context(), f.Store, anybody, ClaimController{Project: f.project, Names: []string{names}, TTLMS: 1000})
		wantCode(t, err, code)
	}
	_, err = Do(t.Context(), f.Store, anybody, ClaimController{Project: f.project, Names: make([]string, 101), TTLMS: 1000})
	wantCode(t, err, schema.Limit)
}

func TestClaimControllerOnce(t *testing.T) { // W5, R4
	f := newFlow(t)
	f.controller("pr-1", `1`)
	permit := Permit{Actor: host1, Expected: AnyRevision, Request: "claim-1"}
	cmd := ClaimController{Project: f.project, TTLMS: 60_000}
	mustDo(t, f.Store, permit, cmd)
	_, err := Do(t.Context(), f.Store, permit, cmd)
	wantCode(t, err, schema.Conflict)
}

func TestEnqueueController(t *testing.T) { // D11, W5
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	enqueue := func(delay time.Duration) Done[*Controller] {
		t.Helper()
		return mustDo(t, f.Store, anybody, EnqueueController{c.UID, delay.Milliseconds()})
	}
	if again := enqueue(0); !again.Adopted {
		t.Error("it was due already")
	}
	l := f.look(merger1)
	if again := enqueue(0); again.Adopted || again.Result.Queue.Version != 2 {
		t.Errorf("while somebody looks: %+v", again)
	}
	if v := mustAct(l, SettleController{c.UID, l.version}); v.Queue.AvailableAt == 0 { // what came meanwhile is not lost
		t.Errorf("%+v", v.Queue)
	}
	l = f.look(merger1)
	if v := mustAct(l, SettleController{c.UID, l.version}); v.Queue.AvailableAt != 0 {
		t.Errorf("%+v", v.Queue)
	}
	f.claimNone()
	now := f.clock.millis()
	if v := enqueue(time.Hour).Result; v.Queue.AvailableAt != now+3_600_000 || v.Queue.Version != 3 {
		t.Errorf("%+v", v.Queue)
	}
	if e := f.claimNone(); e.Next != now+3_600_000 {
		t.Errorf("%+v", e)
	}
	if again := enqueue(2 * time.Hour); !again.Adopted || again.Result.Queue.AvailableAt != now+3_600_000 {
		t.Errorf("a later look: %+v", again)
	}
	if sooner := enqueue(time.Minute).Result; sooner.Queue.AvailableAt != now+60_000 {
		t.Errorf("%+v", sooner.Queue)
	}
	if v := f.viewed(c.UID); v.Phase != ControllerLater {
		t.Errorf("phase %s", v.Phase)
	}
	for _, delay := range []int64{-1, maxDelayMS + 1} {
		_, err := Do(t.Context(), f.Store, anybody, EnqueueController{c.UID, delay})
		wantCode(t, err, schema.Invalid)
	}
	_, err := Do(t.Context(), f.Store, anybody, EnqueueController{"ctl_none", 0})
	wantCode(t, err, schema.NotFound)
}

// Whoever is at work, even with an expired lease, may have read everything before: an enqueued look is not
// taken for done.
func TestEnqueueWhileAnOwnerSleeps(t *testing.T) { // D11, R3
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	l := f.look(merger1)
	f.clock.move(10 * time.Minute)
	if done := mustDo(t, f.Store, anybody, EnqueueController{c.UID, 0}); done.Adopted {
		t.Error("adopted")
	}
	mustDo(t, f.Store, l.permit(), RenewLease{c.Resource(), 60_000})
	if v := mustAct(l, SettleController{c.UID, l.version}); v.Queue.AvailableAt == 0 {
		t.Error("the look that was wanted is lost")
	}
}

func TestControllerBacksOff(t *testing.T) { // D11
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	var waits []Millis
	for errorsInARow := 1; errorsInARow <= 12; errorsInARow++ {
		l := f.look(merger1)
		v := mustAct(l, BackOffController{Controller: c.UID, Version: l.version, Code: "http_502", Error: []byte(`{"n":1}`), BaseMS: 1000, MaxMS: 60_000})
		if v.Queue.Errors != errorsInARow || v.Queue.ErrorCode != "http_502" {
			t.Fatalf("%+v", v.Queue)
		}
		wait, most := v.Queue.AvailableAt-f.clock.millis(), Millis(min(1000<<(errorsInARow-1), 60_000))
		if wait <= most/2-1 || wait > most {
			t.Errorf("error %d: a wait of %d ms, expected more than half of %d, and no more than that", errorsInARow, wait, most)
		}
		waits = append(waits, most-wait)
		f.claimNone()
		f.clock.move(time.Duration(wait) * time.Millisecond)
	}
	if slices.Max(waits) == 0 {
		t.Error("no wait was shortened at random")
	}
	l := f.look(merger1)
	if v := mustAct(l, RequeueController{c.UID, l.version, 5000}); v.Queue.Errors != 0 || v.Queue.ErrorCode != "" || v.Queue.AvailableAt != f.clock.millis()+5000 {
		t.Errorf("%+v", v.Queue)
	}
	f.clock.move(5 * time.Second)
	l = f.look(merger1)
	mustDo(t, f.Store, anybody, EnqueueController{c.UID, 0})
	if v := mustAct(l, BackOffController{Controller: c.UID, Version: l.version, Code: "x"}); v.Queue.AvailableAt > f.clock.millis() {
		t.Errorf("what was enqueued meanwhile has to wait: %+v", v.Queue)
	}
	l = f.look(merger1)
	for _, cmd := range []Command[*Controller]{
		SettleController{c.UID, 0}, SettleController{c.UID, l.version + 1}, RequeueController{c.UID, l.version, -1},
		BackOffController{Controller: c.UID, Version: l.version},
		BackOffController{Controller: c.UID, Version: l.version, Code: "x", BaseMS: -1},
		BackOffController{Controller: c.UID, Version: l.version, Code: "x", MaxMS: maxDelayMS + 1},
		BackOffController{Controller: c.UID, Version: l.version, Code: "x", Error: []byte(`{`)},
	} {
		_, err := act(l, cmd)
		wantCode(t, err, schema.Invalid)
	}
}

// A clock that goes back makes no wait negative, loses no look, and gives nobody's claim back (C51).
func TestControllerQueueClockGoesBack(t *testing.T) { // R3, D11
	f := newFlow(t)
	c := f.controller("pr-1", `1`)
	l := f.look(merger1)
	f.clock.move(-time.Hour)
	v := mustAct(l, RequeueController{c.UID, l.version, 1000})
	if wait := v.Queue.AvailableAt - v.UpdatedAt; wait != 1000 || v.UpdatedAt < c.UpdatedAt {
		t.Errorf("a wait of %d ms from %d on", wait, v.UpdatedAt)
	}
	f.claimNone()
	f.clock.move(time.Hour + time.Second)
	f.look(merger1)
	f.clock.move(time.Hour) // lost
	f.look(merger2)
	f.clock.move(-time.Hour)
	_, err := act(l, SettleController{c.UID, l.version})
	wantCode(t, err, schema.StaleClaim)
	f.claimNone()
}

const playedKeys = 40

func init() {
	roles["keys"] = playKeys // NAME PROJECT: claim every key of the project and print what was won
}

func playKeys(s *Store, args []string) error {
	name, project := args[0], args[1]
	for {
		done, err := Do(context.Background(), s, Permit{Actor: Actor{HostActor, name}, Expected: AnyRevision}, ClaimController{Project: project, TTLMS: MaxLeaseMS})
		var nothing *NoKeyDueError
		if errors.As(err, &nothing) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Println(done.Result.Controller.UID, done.Result.Claim.Generation)
	}
}

// realFlow is newFlow by the clock that other processes have too.
func realFlow(t testing.TB) *flow {
	t.Helper()
	s := openAt(t, filepath.Join(t.TempDir(), "state.sqlite"), Options{})
	t.Cleanup(func() { mustPassDeep(t, s.Path()) })
	return flowOf(t, s, nil)
}

func TestProcessesClaimKeys(t *testing.T) { // D11, R4
	f := realFlow(t)
	for i := range playedKeys {
		f.controller(fmt.Sprint("pr-", i), `1`)
	}
	a := start(t, "keys", f.Path(), "a", f.project)
	b := start(t, "keys", f.Path(), "b", f.project)
	won := append(<-a.lines, <-b.lines...)
	slices.Sort(won)
	if len(won) != playedKeys || len(slices.Compact(slices.Clone(won))) != playedKeys {
		t.Errorf("%d claims: %v", len(won), won)
	}
	for _, line := range won {
		if !strings.HasSuffix(line, " 1") {
			t.Errorf("claimed twice: %s", line)
		}
	}
}
