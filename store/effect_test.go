package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

var everybody = Scope{SystemScope, "all"}

func spec(key string, external bool) EffectSpec {
	return EffectSpec{Type: "mail.send", Key: key, Payload: json.RawMessage(`{"to":"x"}`), External: external, Scope: everybody}
}

// effectSource is a channel c1, owned by host1, that effects follow from.
type effectSource struct {
	store    *Store
	claim    *Claim
	revision int64
}

func newSource(t testing.TB, s *Store) *effectSource {
	t.Helper()
	mustCreate(t, s, "c1")
	return &effectSource{s, mustClaim(t, s, host1, channel("c1"), 24*time.Hour), 2}
}

// add records an effect and returns its id.
func (src *effectSource) add(t testing.TB, sp EffectSpec) string {
	t.Helper()
	done := mustDo(t, src.store, Permit{Actor: host1, Expected: src.revision, Claim: src.claim}, EnsureEffect{channel("c1"), sp})
	src.revision++
	return done.Result.ID
}

// newEffects makes a source with effects, and returns their ids.
func newEffects(t testing.TB, s *Store, specs ...EffectSpec) (ids []string) {
	t.Helper()
	src := newSource(t, s)
	for _, sp := range specs {
		ids = append(ids, src.add(t, sp))
	}
	return ids
}

func effect(id string) ResourceID { return NewResourceID(EffectResource, id) }

func mustBegin(t *testing.T, s *Store, id string) *Begun {
	t.Helper()
	e, err := s.Effect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return mustDo(t, s, Permit{Actor: host1, Expected: e.Revision}, BeginEffect{id, 60_000}).Result
}

func TestEnsureEffect(t *testing.T) { // R6, W5
	s, _ := openStore(t)
	mustCreate(t, s, "c1", "c2")
	claim := mustClaim(t, s, host1, channel("c1"), time.Hour)
	permit := Permit{Actor: host1, Expected: 2, Claim: claim}
	first := mustDo(t, s, permit, EnsureEffect{channel("c1"), spec("k", true)})
	e := first.Result
	if e.SourceRevision != 3 || e.Revision != 1 || e.Sequence != 1 || e.Status != EffectPending || first.Revision != 3 || first.Adopted {
		t.Errorf("%+v", e)
	}
	if e.ID != effectID("channel:c1", "mail.send", "k") {
		t.Errorf("id %s", e.ID)
	}
	stored, err := s.Effect(t.Context(), e.ID)
	if err != nil || stored != *e {
		t.Errorf("answered %+v\nstored %+v, %v", *e, stored, err)
	}
	again := mustDo(t, s, permit, EnsureEffect{channel("c1"), spec("k", true)})
	if !again.Adopted || again.Result.ID != e.ID || again.Revision != 3 {
		t.Errorf("%+v", again)
	}
	for name, other := range map[string]EffectSpec{
		"payload":  {Type: "mail.send", Key: "k", Payload: json.RawMessage(`{"to":"y"}`), External: true, Scope: everybody},
		"external": spec("k", false),
		"scope":    {Type: "mail.send", Key: "k", Payload: json.RawMessage(`{"to":"x"}`), External: true, Scope: Scope{SystemScope, "b"}},
	} {
		_, err := Do(t.Context(), s, permit, EnsureEffect{channel("c1"), other})
		if !errors.Is(err, schema.Conflict) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if winner := cause[*ConflictError](t, err).Winner.(Effect); winner != stored {
			t.Errorf("%s: winner %+v", name, winner)
		}
	}
	// Another source has effects of its own.
	claim2 := mustClaim(t, s, host1, channel("c2"), time.Hour)
	if done := mustDo(t, s, Permit{Actor: host1, Expected: 2, Claim: claim2}, EnsureEffect{channel("c2"), spec("k", true)}); done.Adopted {
		t.Error("the effect of another source was adopted")
	}
	for _, bad := range []EffectSpec{
		{},
		{Type: "t", Key: "k", Payload: json.RawMessage(`1`)},
		{Type: "t", Key: "k", Payload: json.RawMessage(`1`), Scope: Scope{"galaxy", "g"}},
		{Type: "t", Key: "", Payload: json.RawMessage(`1`), Scope: everybody},
		{Type: "t", Key: "k", Scope: everybody},
	} {
		_, err := Do(t.Context(), s, permit, EnsureEffect{channel("c1"), bad})
		wantCode(t, err, schema.Invalid)
	}
	_, err = Do(t.Context(), s, Permit{Actor: session1, Expected: 3}, EnsureEffect{channel("c1"), spec("z", false)})
	wantCode(t, err, schema.Denied)
}

// Each way for an attempt to end, and what then is stored.
func TestSettleEffect(t *testing.T) { // R7
	s, c := openStore(t)
	src := newSource(t, s)
	retry := int64(5000)
	fault := json.RawMessage(`{"message":"no"}`)
	for name, tc := range map[string]struct {
		external bool
		cmd      SettleEffect
		status   EffectStatus
		outcome  Outcome
		code     schema.Code
	}{
		"applied":              {true, SettleEffect{Outcome: OutcomeApplied, Result: json.RawMessage(`{"id":7}`), ExternalRef: "m-7"}, EffectApplied, OutcomeApplied, ""},
		"applied, no result":   {false, SettleEffect{Outcome: OutcomeApplied}, EffectApplied, OutcomeApplied, ""},
		"rejected":             {true, SettleEffect{Outcome: OutcomeRejected, Error: fault}, EffectRejected, OutcomeRejected, ""},
		"try again":            {true, SettleEffect{Outcome: OutcomeRejected, Error: fault, RetryAfterMS: &retry}, EffectPending, OutcomeRejected, ""},
		"ambiguous":            {true, SettleEffect{Outcome: OutcomeAmbiguous, Error: fault}, EffectAmbiguous, OutcomeAmbiguous, ""},
		"ambiguous but local":  {false, SettleEffect{Outcome: OutcomeAmbiguous}, "", "", schema.IllegalTransition},
		"rejected without why": {true, SettleEffect{Outcome: OutcomeRejected}, "", "", schema.Invalid},
		"interrupted":          {true, SettleEffect{Outcome: OutcomeInterrupted}, "", "", schema.Invalid},
		"applied with error":   {true, SettleEffect{Outcome: OutcomeApplied, Error: fault}, "", "", schema.Invalid},
		"retry of the applied": {true, SettleEffect{Outcome: OutcomeApplied, RetryAfterMS: &retry}, "", "", schema.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			id := src.add(t, spec(name, tc.external))
			begun := mustBegin(t, s, id)
			tc.cmd.Effect = id
			done, err := Do(t.Context(), s, as(host1, begun.Claim), tc.cmd)
			if tc.code != "" {
				wantCode(t, err, tc.code)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			e, err := s.Effect(t.Context(), id)
			if err != nil || fmt.Sprint(e) != fmt.Sprint(*done.Result) && e.Result == nil && e.Error == nil {
				t.Errorf("answered %+v\nstored %+v, %v", *done.Result, e, err)
			}
			if e.Status != tc.status || e.Attempts != 1 || e.Revision != 3 || e.ExternalRef != tc.cmd.ExternalRef ||
				(e.SettledAt != 0) != (tc.status == EffectApplied || tc.status == EffectRejected) ||
				(e.Result != nil) != (tc.cmd.Result != nil) || (e.Error != nil) != (tc.cmd.Error != nil) {
				t.Errorf("%+v", e)
			}
			if tc.status == EffectPending && e.AvailableAt != c.millis()+5000 {
				t.Errorf("available at %d, now %d", e.AvailableAt, c.millis())
			}
			attempts, err := s.EffectAttempts(t.Context(), id, 0, 10)
			if err != nil || len(attempts) != 1 || attempts[0].Outcome != tc.outcome || attempts[0].Generation != 1 || attempts[0].Number != 1 {
				t.Errorf("%+v, %v", attempts, err)
			}
			if l, err := s.Lease(t.Context(), effect(id)); err != nil || l.Owner != nil { // C52
				t.Errorf("%+v, %v", l, err)
			}
			_, err = Do(t.Context(), s, as(host1, begun.Claim), tc.cmd) // the claim ended with the attempt
			wantCode(t, err, schema.StaleClaim)
		})
	}
}

// Each command on an effect is allowed in its own statuses, and changes nothing in the others.
func TestEffectTransitions(t *testing.T) { // R7
	reach := map[EffectStatus]func(t *testing.T, s *Store, c *clock, id string){
		EffectPending:  func(*testing.T, *Store, *clock, string) {},
		EffectApplying: func(t *testing.T, s *Store, c *clock, id string) { mustBegin(t, s, id); c.move(2 * time.Minute) },
		EffectAmbiguous: func(t *testing.T, s *Store, c *clock, id string) {
			mustDo(t, s, as(host1, mustBegin(t, s, id).Claim), SettleEffect{Effect: id, Outcome: OutcomeAmbiguous})
		},
		EffectApplied: func(t *testing.T, s *Store, c *clock, id string) {
			mustDo(t, s, as(host1, mustBegin(t, s, id).Claim), SettleEffect{Effect: id, Outcome: OutcomeApplied})
		},
		EffectRejected: func(t *testing.T, s *Store, c *clock, id string) {
			mustDo(t, s, as(host1, mustBegin(t, s, id).Claim), SettleEffect{Effect: id, Outcome: OutcomeRejected, Error: json.RawMessage(`1`)})
		},
		EffectCancelled: func(t *testing.T, s *Store, c *clock, id string) {
			mustDo(t, s, Permit{Actor: host1, Expected: 1}, CancelEffect{id, "not wanted"})
		},
	}
	commands := map[Op]struct {
		from EffectStatus
		to   EffectStatus
		send func(s *Store, id string, revision int64) error
	}{
		OpEffectBegin: {EffectPending, EffectApplying, func(s *Store, id string, revision int64) error {
			return second(Do(context.Background(), s, Permit{Actor: host2, Expected: revision}, BeginEffect{id, 1000}))
		}},
		OpEffectRecover: {EffectApplying, EffectAmbiguous, func(s *Store, id string, revision int64) error {
			return second(Do(context.Background(), s, Permit{Actor: host2, Expected: revision}, RecoverEffect{Effect: id}))
		}},
		OpEffectObserve: {EffectAmbiguous, EffectRejected, func(s *Store, id string, revision int64) error {
			return second(Do(context.Background(), s, Permit{Actor: Actor{HumanActor, ""}, Expected: revision}, ObserveEffect{Effect: id}))
		}},
		OpEffectCancel: {EffectPending, EffectCancelled, func(s *Store, id string, revision int64) error {
			return second(Do(context.Background(), s, Permit{Actor: host2, Expected: revision}, CancelEffect{id, "r"}))
		}},
	}
	s, c := openStore(t)
	src := newSource(t, s)
	for from, arrive := range reach {
		for op, cmd := range commands {
			t.Run(fmt.Sprint(from, " ", op), func(t *testing.T) {
				id := src.add(t, spec(t.Name(), true))
				arrive(t, s, c, id)
				before, err := s.Effect(t.Context(), id)
				if err != nil || before.Status != from {
					t.Fatalf("%+v, %v", before, err)
				}
				err = cmd.send(s, id, before.Revision)
				after, getErr := s.Effect(t.Context(), id)
				if getErr != nil {
					t.Fatal(getErr)
				}
				if from == cmd.from {
					if err != nil || after.Status != cmd.to {
						t.Errorf("%v: %s, want %s", err, after.Status, cmd.to)
					}
					return
				}
				wantCode(t, err, schema.IllegalTransition)
				if e := cause[*TransitionError](t, err); e.From != string(from) || e.Op != op {
					t.Errorf("%+v", e)
				}
				if after.Revision != before.Revision {
					t.Error("the refused command moved the revision")
				}
			})
		}
	}
}

func TestRecoverEffect(t *testing.T) { // R7
	s, c := openStore(t)
	src := newSource(t, s)
	for name, tc := range map[string]struct {
		external bool
		seen     *Observation
		want     EffectStatus
	}{
		"local":                           {false, nil, EffectPending},
		"external":                        {true, nil, EffectAmbiguous},
		"external, seen to have happened": {true, &Observation{Applied: true, Result: json.RawMessage(`1`), ExternalRef: "m"}, EffectApplied},
		"external, seen not to have":      {true, &Observation{}, EffectPending},
		"local, seen to have happened":    {false, &Observation{Applied: true}, EffectApplied},
	} {
		t.Run(name, func(t *testing.T) {
			id := src.add(t, spec(name, tc.external))
			begun := mustBegin(t, s, id)
			permit := Permit{Actor: host2, Expected: 2}
			_, err := Do(t.Context(), s, permit, RecoverEffect{Effect: id, Seen: tc.seen})
			wantCode(t, err, schema.Locked) // its worker may still be at it
			c.move(time.Minute)
			done := mustDo(t, s, permit, RecoverEffect{Effect: id, Seen: tc.seen})
			if done.Result.Status != tc.want {
				t.Errorf("%s, want %s", done.Result.Status, tc.want)
			}
			attempts, err := s.EffectAttempts(t.Context(), id, 0, 10)
			if err != nil || attempts[0].Outcome != OutcomeInterrupted {
				t.Errorf("%+v, %v", attempts, err)
			}
			_, err = Do(t.Context(), s, as(host1, begun.Claim), SettleEffect{Effect: id, Outcome: OutcomeApplied})
			wantCode(t, err, schema.StaleClaim) // the worker that comes back is too late
			if tc.want == EffectPending {
				if again := mustBegin(t, s, id); again.Claim.Generation != 2 || again.Effect.Attempts != 2 {
					t.Errorf("%+v", again)
				}
			}
		})
	}
}

// Each command on an effect can be sent twice.
func TestEffectCommandsRepeat(t *testing.T) { // W5
	s, _ := openStore(t)
	src := newSource(t, s)
	ensure := Permit{Actor: host1, Expected: src.revision, Claim: src.claim, Request: "ensure"}
	id := mustDo(t, s, ensure, EnsureEffect{channel("c1"), spec("k", true)}).Result.ID
	if again := mustDo(t, s, ensure, EnsureEffect{channel("c1"), spec("k", true)}); !again.Adopted || again.Result.ID != id {
		t.Errorf("%+v", again)
	}
	begin := Permit{Actor: host1, Expected: 1, Request: "begin"}
	begun := mustDo(t, s, begin, BeginEffect{id, 1000}).Result
	_, err := Do(t.Context(), s, begin, BeginEffect{id, 1000}) // its claim was handed out once
	wantCode(t, err, schema.Conflict)
	settle := as(host1, begun.Claim)
	settle.Request = "settle"
	cmd := SettleEffect{Effect: id, Outcome: OutcomeAmbiguous, Error: json.RawMessage(`{"a":1}`)}
	mustDo(t, s, settle, cmd)
	mustDo(t, s, Permit{Actor: host1, Expected: 3}, ObserveEffect{id, Observation{Applied: true}})
	again := mustDo(t, s, settle, cmd)
	if !again.Adopted || again.Revision != 3 || again.Result.Status != EffectApplied { // as it is by now
		t.Errorf("%+v %+v", again, again.Result)
	}
	cmd.Error = json.RawMessage(`{"a":2}`)
	_, err = Do(t.Context(), s, settle, cmd)
	wantCode(t, err, schema.Conflict)
}

// A worker that slept goes on if nobody declared its attempt interrupted.
func TestSleptWorkerRenews(t *testing.T) { // R3, R7
	s, c := openStore(t)
	id := newEffects(t, s, spec("k", true))[0]
	begun := mustBegin(t, s, id)
	c.move(time.Hour)
	_, err := Do(t.Context(), s, as(host1, begun.Claim), SettleEffect{Effect: id, Outcome: OutcomeApplied})
	wantCode(t, err, schema.StaleClaim)
	mustDo(t, s, as(host1, begun.Claim), RenewLease{effect(id), 1000})
	mustDo(t, s, as(host1, begun.Claim), SettleEffect{Effect: id, Outcome: OutcomeApplied})
}

// An ambiguous effect stays so until somebody has looked; then it is settled either way.
func TestObserveEffect(t *testing.T) { // R7
	s, c := openStore(t)
	src := newSource(t, s)
	for name, tc := range map[string]struct {
		seen Observation
		want EffectStatus
	}{
		"it happened": {Observation{Applied: true, Result: json.RawMessage(`{"id":1}`), ExternalRef: "m-1"}, EffectApplied},
		"it did not":  {Observation{}, EffectRejected},
	} {
		t.Run(name, func(t *testing.T) {
			id := src.add(t, spec(name, true))
			mustBegin(t, s, id)
			c.move(time.Minute)
			mustDo(t, s, Permit{Actor: host1, Expected: 2}, RecoverEffect{Effect: id})
			_, err := Do(t.Context(), s, Permit{Actor: host1, Expected: 3}, BeginEffect{id, 1000})
			wantCode(t, err, schema.IllegalTransition)
			done := mustDo(t, s, Permit{Actor: Actor{HumanActor, "me"}, Expected: 3, Request: "seen " + name}, ObserveEffect{id, tc.seen})
			if done.Result.Status != tc.want || done.Result.SettledAt == 0 || done.Result.ExternalRef != tc.seen.ExternalRef {
				t.Errorf("%+v", done.Result)
			}
			if again := mustDo(t, s, Permit{Actor: Actor{HumanActor, "me"}, Expected: 3, Request: "seen " + name}, ObserveEffect{id, tc.seen}); !again.Adopted || again.Result.Status != tc.want {
				t.Errorf("%+v", again)
			}
			other := tc.seen
			other.Applied, other.Result, other.ExternalRef = !other.Applied, nil, ""
			_, err = Do(t.Context(), s, Permit{Actor: Actor{HumanActor, "me"}, Expected: 4}, ObserveEffect{id, other})
			wantCode(t, err, schema.IllegalTransition)
		})
	}
	id := src.add(t, spec("absent", true))
	_, err := Do(t.Context(), s, Permit{Actor: host1, Expected: 1}, ObserveEffect{id, Observation{ExternalRef: "x"}})
	wantCode(t, err, schema.Invalid)
}

func TestEffectOwners(t *testing.T) { // R6
	s, _ := openStore(t)
	mustCreate(t, s, "c1", "c2")
	claim := mustClaim(t, s, host1, channel("c1"), time.Hour)
	other := mustClaim(t, s, host1, channel("c2"), time.Hour)
	sp := spec("k", true)
	sp.Scope = Scope{ChannelScope, "c1"}
	id := mustDo(t, s, Permit{Actor: host1, Expected: 2, Claim: claim}, EnsureEffect{channel("c1"), sp}).Result.ID
	for _, p := range []Permit{
		{Actor: host1, Expected: 1},
		{Actor: host1, Expected: 1, Claim: other},
		{Actor: host2, Expected: 1, Claim: claim},
		{Actor: Actor{HumanActor, ""}, Expected: 1, Claim: claim},
	} {
		_, err := Do(t.Context(), s, p, BeginEffect{id, 1000})
		wantCode(t, err, schema.Denied)
	}
	begun := mustDo(t, s, Permit{Actor: host1, Expected: 1, Claim: claim}, BeginEffect{id, 1000}).Result
	_, err := Do(t.Context(), s, as(host1, claim), SettleEffect{Effect: id, Outcome: OutcomeApplied}) // the scope's claim is not the effect's
	wantCode(t, err, schema.Denied)
	_, err = Do(t.Context(), s, as(host1, begun.Claim), ReleaseLease{effect(id)})
	wantCode(t, err, schema.Denied)
	_, err = Do(t.Context(), s, as(host1, nil), ClaimLease{effect(id), 1000})
	wantCode(t, err, schema.Denied)
	mustDo(t, s, as(host1, begun.Claim), SettleEffect{Effect: id, Outcome: OutcomeApplied})
	_, err = Do(t.Context(), s, Permit{Actor: host1, Expected: 1}, BeginEffect{"eff_none", 1000})
	wantCode(t, err, schema.NotFound)
}

func TestListEffects(t *testing.T) { // V2
	s, _ := openStore(t)
	var specs []EffectSpec
	for i := range 7 {
		sp := spec(fmt.Sprint("k", i), true)
		sp.Scope.ID = []string{"even", "odd"}[i%2]
		specs = append(specs, sp)
	}
	ids := newEffects(t, s, specs...)
	mustDo(t, s, Permit{Actor: host1, Expected: 1}, CancelEffect{ids[0], "r"})
	for _, tc := range []struct {
		filter EffectFilter
		want   string
	}{
		{EffectFilter{}, "k0 k1 k2 k3 k4 k5 k6"},
		{EffectFilter{Status: EffectPending}, "k1 k2 k3 k4 k5 k6"},
		{EffectFilter{Scope: Scope{SystemScope, "even"}}, "k0 k2 k4 k6"},
		{EffectFilter{Scope: Scope{SystemScope, "even"}, Status: EffectPending}, "k2 k4 k6"},
		{EffectFilter{Status: EffectApplied}, ""},
	} {
		var got []string
		for after := int64(0); ; {
			page, err := s.Effects(t.Context(), tc.filter, after, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				got, after = append(got, e.Key), e.Sequence
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%+v: %v, want %s", tc.filter, got, tc.want)
		}
	}
	for _, limit := range []int{0, -1, MaxPage + 1} {
		_, err := s.Effects(t.Context(), EffectFilter{}, 0, limit)
		wantCode(t, err, schema.Invalid)
	}
}
