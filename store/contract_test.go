package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// attempted is a command with everything that the contract looks at, and what its tests break.
type attempted struct {
	store  *Store
	clock  *clock
	permit Permit
	cmd    touch
}

func goodAttempt(t *testing.T) *attempted {
	s, c := newStore(t)
	mustCreate(t, s, "c1", "c2")
	claim := mustClaim(t, s, host1, channel("c1"), time.Minute)
	return &attempted{
		store:  s,
		clock:  c,
		permit: Permit{Actor: host1, Expected: 2, Claim: claim, Request: "req-1"},
		cmd: touch{
			Channel: "c1", Data: json.RawMessage(`{"n": 1}`), Also: []string{"c2"},
			Effects: []EffectSpec{{Type: "mail.send", Key: "k1", Payload: json.RawMessage(`{"to":"x"}`), External: true, Scope: Scope{SystemScope, "all"}}},
		},
	}
}

func (a *attempted) do() error {
	_, err := Do(context.Background(), a.store, a.permit, a.cmd)
	return err
}

// contractSteps are the steps of the write contract, in their order, each with a way to break it and the
// code that then comes out.
var contractSteps = []struct {
	name string
	code schema.Code
	fail func(*testing.T, *attempted)
}{
	{"canonical form", schema.Invalid, func(_ *testing.T, a *attempted) { a.cmd.Data = json.RawMessage(`{"n":1,"n":2}`) }},
	{"exact schema", schema.Incompatible, func(t *testing.T, a *attempted) { plant(t, a.store.Path(), "CREATE TABLE extra (a TEXT) STRICT") }},
	{"actor and operation", schema.Denied, func(_ *testing.T, a *attempted) { a.permit.Actor = Actor{HumanActor, "me"} }},
	{"repetition", schema.Conflict, func(t *testing.T, a *attempted) {
		mustDo(t, a.store, Permit{Actor: session1, Expected: 1, Request: "req-1"}, touch{Channel: "c2"})
	}},
	{"expected revision", schema.StaleRevision, func(_ *testing.T, a *attempted) { a.permit.Expected = 1 }},
	{"claim", schema.StaleClaim, func(_ *testing.T, a *attempted) { a.clock.move(2 * time.Minute) }},
	{"domain transition", schema.IllegalTransition, func(_ *testing.T, a *attempted) { a.cmd.Refuse = "closed" }},
	{"blobs", schema.Corrupt, func(t *testing.T, a *attempted) {
		c, err := jsonContent("data", a.cmd.Data)
		if err != nil {
			t.Fatal(err)
		}
		plant(t, a.store.Path(), fmt.Sprintf("INSERT INTO blobs VALUES (x'%s', 'application/json', 2, x'3132', 0)", c.digest))
	}},
	{"revision", schema.NotFound, func(_ *testing.T, a *attempted) { a.cmd.Also = []string{"nowhere"} }},
	{"event", schema.Invalid, func(t *testing.T, a *attempted) {
		plant(t, a.store.Path(), "UPDATE events SET event_id = 'req-1/1' WHERE event_type = 'lease.claimed'")
	}},
	{"domain row", schema.Storage, func(_ *testing.T, a *attempted) {
		a.cmd.row = func(*sqlite.Tx) error { return errors.New("the domain's own row") }
	}},
	{"effects", schema.Conflict, func(t *testing.T, a *attempted) {
		permit := Permit{Actor: host1, Expected: 2, Claim: a.permit.Claim}
		spec := a.cmd.Effects[0]
		spec.Payload = json.RawMessage(`{"to":"y"}`)
		mustDo(t, a.store, permit, EnsureEffect{channel("c1"), spec})
		a.permit.Expected++
	}},
	{"commit", schema.Invalid, func(_ *testing.T, a *attempted) {
		a.cmd.row = func(tx *sqlite.Tx) error { // a deferred foreign key that stays violated
			_, err := tx.Exec("UPDATE resources SET revision = revision + 1 WHERE resource_id = 'channel:c1'")
			return err
		}
	}},
}

func TestContractGoodCommand(t *testing.T) { // W1
	a := goodAttempt(t)
	done := mustDo(t, a.store, a.permit, a.cmd)
	if done.Result != 2 || done.Revision != 3 || done.Sequence != 4 || done.Adopted {
		t.Errorf("%+v", done)
	}
	events, err := a.store.Events(t.Context(), EventFilter{}, 3, 10)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprint(e.Sequence, " ", e.ID, " ", e.Resource.Type(), " ", e.Revision, " ", e.Type, " ", e.Actor, " ", e.Generation))
	}
	want := []string{
		"4 req-1 channel 3 test.touched {host h1} 1",
		"5 req-1/1 channel 2 test.touched_too {host h1} 1",
		"6 req-1/2 effect 1 effect.recorded {host h1} 1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("events:\n%s", strings.Join(got, "\n"))
	}
	effects, err := a.store.Effects(t.Context(), EffectFilter{}, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(effects) != 1 || effects[0].SourceRevision != 3 || effects[0].Revision != 1 || effects[0].Status != EffectPending {
		t.Errorf("effects %+v", effects)
	}
	mustPassDeep(t, a.store.Path())
}

// Each step is broken, alone and together with all that come after it: the code is that of the first, and
// nothing of the command is left.
func TestContractOrder(t *testing.T) { // W1, W2
	for i, first := range contractSteps {
		t.Run(first.name, func(t *testing.T) {
			for _, last := range []int{len(contractSteps) - 1, i} {
				if raceDetector && (last == i || i%3 != 0) {
					continue
				}
				a := goodAttempt(t)
				for j := last; j >= i; j-- { // so that what an earlier step breaks doesn't stop the later ones' preparation
					contractSteps[j].fail(t, a)
				}
				before := dump(t, a.store.Path())
				err := a.do()
				wantCode(t, err, first.code)
				if !strings.HasPrefix(err.Error(), "test.touch: ") {
					t.Errorf("the error does not name the operation: %v", err)
				}
				if after := dump(t, a.store.Path()); after != before {
					t.Errorf("broken steps %d to %d left something behind", i, last)
				}
			}
		})
	}
}

func TestPermitIsNoAuthority(t *testing.T) { // W3
	s, c := openStore(t)
	mustCreate(t, s, "c1", "c2")
	claim := mustClaim(t, s, host1, channel("c1"), time.Minute)
	forged, err := ParseClaim(channel("c1"), 1, (&Claim{}).Token())
	if err != nil {
		t.Fatal(err)
	}
	other := mustClaim(t, s, host1, channel("c2"), time.Minute)
	future := *claim
	future.Generation++
	try := func(p Permit) error {
		_, err := Do(t.Context(), s, p, touch{Channel: "c1"})
		return err
	}
	for name, tc := range map[string]struct {
		permit Permit
		code   schema.Code
	}{
		"no claim":            {Permit{Actor: host1, Expected: 2}, schema.Denied},
		"claim on another":    {Permit{Actor: host1, Expected: 2, Claim: other}, schema.Denied},
		"another's claim":     {Permit{Actor: host2, Expected: 2, Claim: claim}, schema.Denied},
		"forged token":        {Permit{Actor: host1, Expected: 2, Claim: forged}, schema.StaleClaim},
		"future generation":   {Permit{Actor: host1, Expected: 2, Claim: &future}, schema.StaleClaim},
		"future revision":     {Permit{Actor: host1, Expected: 3, Claim: claim}, schema.StaleRevision},
		"no revision":         {Permit{Actor: host1, Expected: AnyRevision, Claim: claim}, schema.Invalid},
		"class of its own":    {Permit{Actor: Actor{"root", "r"}, Expected: 2, Claim: claim}, schema.Invalid},
		"class without right": {Permit{Actor: Actor{ControlActor, ""}, Expected: 2, Claim: claim}, schema.Denied},
		"nameless host":       {Permit{Actor: Actor{HostActor, ""}, Expected: 2, Claim: claim}, schema.Invalid},
	} {
		if err := try(tc.permit); !errors.Is(err, tc.code) {
			t.Errorf("%s: %v, want code %s", name, err, tc.code)
		}
	}
	if err := try(Permit{Actor: host1, Expected: 2, Claim: claim}); err != nil {
		t.Error(err)
	}
	c.move(time.Minute)
	if err := try(Permit{Actor: host1, Expected: 3, Claim: claim}); !errors.Is(err, schema.StaleClaim) {
		t.Errorf("expired: %v", err)
	}
}

func TestErrorsCarryTheFacts(t *testing.T) { // W2
	s, c := openStore(t)
	mustCreate(t, s, "c1")
	_, err := Do(t.Context(), s, Permit{Actor: session1, Expected: 7}, touch{Channel: "c1"})
	wantCode(t, err, schema.StaleRevision)
	if e := cause[*RevisionError](t, err); *e != (RevisionError{channel("c1"), 7, 1}) {
		t.Errorf("%+v", e)
	}
	claim := mustClaim(t, s, host1, channel("c1"), time.Minute)
	_, err = Do(t.Context(), s, Permit{Actor: host2, Expected: AnyRevision}, ClaimLease{channel("c1"), 1000})
	wantCode(t, err, schema.Locked)
	if e := cause[*HeldError](t, err); *e != (HeldError{channel("c1"), host1, 1, c.millis() + 60_000}) {
		t.Errorf("%+v", e)
	}
	c.move(time.Minute)
	mustClaim(t, s, host2, channel("c1"), time.Minute)
	_, err = Do(t.Context(), s, Permit{Actor: host1, Expected: 3, Claim: claim}, touch{Channel: "c1"})
	wantCode(t, err, schema.StaleClaim)
	if e := cause[*ClaimError](t, err); e.Generation != 1 || e.Current != 2 {
		t.Errorf("%+v", e)
	}
	_, err = Do(t.Context(), s, Permit{Actor: session1, Expected: 3}, touch{Channel: "c1", Refuse: "closed"})
	if e := cause[*TransitionError](t, err); *e != (TransitionError{channel("c1"), "closed", "test.touch"}) {
		t.Errorf("%+v", e)
	}
	_, err = Do(t.Context(), s, Permit{Actor: Actor{PolicyActor, ""}, Expected: 3}, touch{Channel: "c1"})
	if e := cause[*DeniedError](t, err); e.Op != "test.touch" || e.Class != PolicyActor {
		t.Errorf("%+v", e)
	}
	_, err = Do(t.Context(), s, Permit{Actor: session1, Expected: 3}, touch{Channel: "c9"})
	wantCode(t, err, schema.NotFound)
	_, err = Do(t.Context(), s, Permit{Actor: session1}, create{"c1"})
	wantCode(t, err, schema.Conflict)
	if e := cause[*ConflictError](t, err); e.Winner.(Resource).Revision != 3 {
		t.Errorf("%+v", e)
	}
}

func TestRepeatedCommandAdopts(t *testing.T) { // W5
	s, _ := openStore(t)
	mustCreate(t, s, "c1", "c2")
	permit := Permit{Actor: session1, Expected: 1, Request: "req-7"}
	cmd := touch{Channel: "c1", Data: json.RawMessage(`{"b":1,"a":2}`), Also: []string{"c2"}}
	first := mustDo(t, s, permit, cmd)
	mustDo(t, s, Permit{Actor: session1, Expected: 2}, touch{Channel: "c1"}) // life goes on
	before := dump(t, s.Path())

	cmd.Data = json.RawMessage(`{ "a": 2.0, "b": 1e0 }`) // the same canonical form
	again := mustDo(t, s, permit, cmd)
	if !again.Adopted || again.Result != first.Result || again.Revision != first.Revision || again.Sequence != first.Sequence {
		t.Errorf("first %+v, again %+v", first, again)
	}
	permit.Expected = 3 // a caller that has read again
	if again := mustDo(t, s, permit, cmd); !again.Adopted {
		t.Errorf("%+v", again)
	}
	cmd.Also = nil
	_, err := Do(t.Context(), s, permit, cmd)
	wantCode(t, err, schema.Conflict)
	if e := cause[*ConflictError](t, err); e.Winner.(Event).Sequence != first.Sequence {
		t.Errorf("%+v", e)
	}
	permit.Actor = Actor{PolicyActor, ""} // a repetition is no way around the table
	_, err = Do(t.Context(), s, permit, cmd)
	wantCode(t, err, schema.Denied)
	if dump(t, s.Path()) != before {
		t.Error("a repetition or a conflict changed the database")
	}
}

// Repetitions of one command race: one of them counts.
func TestRepeatedCommandsRace(t *testing.T) { // W5
	s, _ := openStore(t)
	mustCreate(t, s, "c1")
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for range 40 {
		wg.Go(func() {
			done, err := Do(context.Background(), s, Permit{Actor: session1, Expected: 1, Request: "once"}, touch{Channel: "c1"})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if !done.Adopted {
				fresh++
			}
			if done.Revision != 2 {
				t.Errorf("revision %d", done.Revision)
			}
		})
	}
	wg.Wait()
	if fresh != 1 {
		t.Errorf("%d of the repetitions were accepted as new", fresh)
	}
}

// Commands that share a transaction stay apart: one's failure is not the others'.
func TestCommandsTogether(t *testing.T) { // W2
	s, _ := openStore(t)
	mustCreate(t, s, "c1")
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			id := fmt.Sprint("n", i/2)
			_, err := Do(context.Background(), s, Permit{Actor: session1}, create{id})
			if err != nil && !errors.Is(err, schema.Conflict) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	status, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.Rows["channels"] != 31 || status.Rows["events"] != 31 {
		t.Errorf("%d channels, %d events", status.Rows["channels"], status.Rows["events"])
	}
}

func TestCommandAfterTheContextEnded(t *testing.T) {
	s, _ := openStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Do(ctx, s, Permit{Actor: session1}, create{"c1"})
	wantCode(t, err, schema.Canceled)
	mustCreate(t, s, "c1")
}

// A command whose row in the table doesn't fit it is refused, not carried out in part.
func TestCommandAgainstItsRow(t *testing.T) { // W1
	s, _ := openStore(t)
	mustCreate(t, s, "c1")
	good := operations["test.touch"]
	defer func() { operations["test.touch"] = good }()
	before := dump(t, s.Path())
	for name, row := range map[string]Operation{
		"eventless":     {Op: "test.touch", Eventless: true, Rights: rights(Right{}, SessionActor)},
		"foreign lease": {Op: "test.touch", Rights: rights(Right{Own: OwnRun}, SessionActor)},
	} {
		operations["test.touch"] = row
		_, err := Do(t.Context(), s, Permit{Actor: session1, Expected: 1}, touch{Channel: "c1"})
		if !errors.Is(err, schema.Storage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if dump(t, s.Path()) != before {
		t.Error("something was written")
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	var dumps [2]string
	for i := range dumps {
		s, c := openStore(t)
		mustCreate(t, s, "c1")
		claim := mustClaim(t, s, host1, channel("c1"), time.Minute)
		c.move(time.Second)
		mustDo(t, s, Permit{Actor: host1, Expected: 2, Claim: claim}, touch{Channel: "c1", Data: json.RawMessage(`[1]`)})
		dumps[i] = dump(t, s.Path())
	}
	if dumps[0] != dumps[1] {
		t.Error("the same clock and seed made different databases")
	}
}
