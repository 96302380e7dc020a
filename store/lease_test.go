package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pistate/schema"
)

func as(actor Actor, claim *Claim) Permit {
	return Permit{Actor: actor, Expected: AnyRevision, Claim: claim}
}

func TestClaimHidesItsToken(t *testing.T) { // R4
	s, _ := openStore(t)
	mustCreate(t, s, "c1")
	claim := mustClaim(t, s, host1, channel("c1"), time.Minute)
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "claim", claim, "value", *claim)
	wire, err := json.Marshal(struct{ A, B any }{claim, *claim})
	if err != nil {
		t.Fatal(err)
	}
	printed := []string{log.String(), string(wire)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		printed = append(printed, fmt.Sprintf(verb, claim), fmt.Sprintf(verb, *claim), fmt.Sprintf(verb, Permit{Claim: claim}))
	}
	raw := string(claim.token[:])
	for _, text := range printed {
		if strings.Contains(text, claim.Token()) || strings.Contains(text, raw) ||
			strings.Contains(text, fmt.Sprintf("%x", raw)) || strings.Contains(text, fmt.Sprint(claim.token[:5])) {
			t.Errorf("the token is in %q", text)
		}
	}
	d := dump(t, s.Path())
	if strings.Contains(strings.ToLower(d), fmt.Sprintf("%x", raw)) || strings.Contains(d, claim.Token()) {
		t.Error("the token is in the database")
	}
}

func TestParseClaim(t *testing.T) {
	s, _ := openStore(t)
	mustCreate(t, s, "c1")
	claim := mustClaim(t, s, host1, channel("c1"), time.Minute)
	again, err := ParseClaim(claim.Resource, claim.Generation, claim.Token())
	if err != nil {
		t.Fatal(err)
	}
	mustDo(t, s, Permit{Actor: host1, Expected: 2, Claim: again}, touch{Channel: "c1"})
	var sent Claim
	wire := fmt.Sprintf(`{"resource":"channel:c1","generation":1,"token":%q}`, claim.Token())
	if err := json.Unmarshal([]byte(wire), &sent); err != nil {
		t.Fatal(err)
	}
	mustDo(t, s, Permit{Actor: host1, Expected: 3, Claim: &sent}, touch{Channel: "c1"})
	for _, token := range []string{"", "x", claim.Token() + "A", claim.Token()[1:], claim.Token()[:42] + "=", claim.Token() + "\n"} {
		if _, err := ParseClaim("channel:c1", 1, token); !errors.Is(err, schema.Invalid) {
			t.Errorf("%q: %v", token, err)
		} else if token != "" && strings.Contains(err.Error(), token) && len(token) > 2 {
			t.Errorf("the error repeats the token: %v", err)
		}
	}
}

func TestTwoClaimersAHundredTimes(t *testing.T) { // R3, R4
	s, c := openStore(t)
	other := openAt(t, s.Path(), Options{Now: c.Now})
	mustCreate(t, s, "c1")
	for round := range int64(100) {
		var claims [2]*Claim
		var wg sync.WaitGroup
		for i, st := range []*Store{s, other} {
			wg.Go(func() {
				actor := Actor{HostActor, fmt.Sprint("h", i)}
				if round%3 == 0 {
					actor = host1 // the same name on both sides
				}
				done, err := Do(context.Background(), st, Permit{Actor: actor, Expected: AnyRevision}, ClaimLease{channel("c1"), 1000})
				claims[i] = done.Result
				if err != nil && !errors.Is(err, schema.Locked) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if (claims[0] == nil) == (claims[1] == nil) {
			t.Fatalf("round %d: winners %v", round, claims)
		}
		winner := claims[0]
		if winner == nil {
			winner = claims[1]
		}
		if winner.Generation != round+1 {
			t.Fatalf("round %d has generation %d", round, winner.Generation)
		}
		c.move(time.Second)
	}
}

func TestExpiredClaim(t *testing.T) { // R3
	s, c := openStore(t)
	mustCreate(t, s, "c1")
	claim := mustClaim(t, s, host1, channel("c1"), time.Minute)
	c.move(10 * time.Minute) // a laptop that slept
	_, err := Do(t.Context(), s, Permit{Actor: host1, Expected: 2, Claim: claim}, touch{Channel: "c1"})
	wantCode(t, err, schema.StaleClaim)
	_, err = Do(t.Context(), s, as(host1, claim), ReleaseLease{channel("c1")})
	wantCode(t, err, schema.StaleClaim)
	renewed := mustDo(t, s, as(host1, claim), RenewLease{channel("c1"), 60_000}).Result
	if renewed.Generation != 1 || renewed.ExpiresAt != c.millis()+60_000 || renewed.Token() != claim.Token() {
		t.Errorf("%v expires at %d", renewed, renewed.ExpiresAt)
	}
	mustDo(t, s, Permit{Actor: host1, Expected: 2, Claim: claim}, touch{Channel: "c1"}) // the old copy is as good

	c.move(10 * time.Minute)
	taken := mustClaim(t, s, host1, channel("c1"), time.Minute) // by the same name: a new owner all the same (C50)
	if taken.Generation != 2 {
		t.Errorf("generation %d", taken.Generation)
	}
	for _, cmd := range []Command[*Claim]{RenewLease{channel("c1"), 1}} {
		_, err = Do(t.Context(), s, as(host1, claim), cmd)
		wantCode(t, err, schema.StaleClaim)
	}
	_, err = Do(t.Context(), s, Permit{Actor: host1, Expected: 4, Claim: claim}, touch{Channel: "c1"})
	wantCode(t, err, schema.StaleClaim)
	_, err = Do(t.Context(), s, as(host1, claim), ReleaseLease{channel("c1")})
	wantCode(t, err, schema.StaleClaim)
}

func TestRelease(t *testing.T) { // R3
	s, _ := openStore(t)
	mustCreate(t, s, "c1")
	for generation := range int64(3) {
		claim := mustClaim(t, s, host1, channel("c1"), time.Minute)
		if claim.Generation != generation+1 {
			t.Errorf("generation %d", claim.Generation)
		}
		mustDo(t, s, as(host1, claim), ReleaseLease{channel("c1")})
		l, err := s.Lease(t.Context(), channel("c1"))
		if err != nil || l.Owner != nil || l.Generation != generation+1 || l.ExpiresAt != 0 {
			t.Errorf("%+v, %v", l, err)
		}
		_, err = Do(t.Context(), s, as(host1, claim), RenewLease{channel("c1"), 1000})
		wantCode(t, err, schema.StaleClaim)
	}
}

// A renewal is no event, and stores nothing besides the new time.
func TestRenewalIsNoEvent(t *testing.T) { // R5
	s, c := openStore(t)
	mustCreate(t, s, "c1")
	claim := mustClaim(t, s, host1, channel("c1"), time.Minute)
	before, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		c.move(time.Second)
		done := mustDo(t, s, as(host1, claim), RenewLease{channel("c1"), 60_000})
		if done.Revision != 0 || done.Sequence != 0 {
			t.Fatalf("%+v", done)
		}
	}
	after, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(before.Rows) != fmt.Sprint(after.Rows) {
		t.Errorf("rows before %v, after %v", before.Rows, after.Rows)
	}
	mustDo(t, s, Permit{Actor: host1, Expected: 2, Claim: claim}, touch{Channel: "c1"})
}

func TestClockGoesBack(t *testing.T) { // R3, R4
	s, c := openStore(t)
	mustCreate(t, s, "c1")
	claim := mustClaim(t, s, host1, channel("c1"), time.Minute)
	c.move(-time.Hour)
	l, err := s.Lease(t.Context(), channel("c1"))
	if err != nil || l.Expired {
		t.Errorf("%+v, %v", l, err)
	}
	mustDo(t, s, Permit{Actor: host1, Expected: 2, Claim: claim}, touch{Channel: "c1"})
	if renewed := mustDo(t, s, as(host1, claim), RenewLease{channel("c1"), 1}).Result; renewed.ExpiresAt < claim.ExpiresAt {
		t.Errorf("a renewal took %d ms away", claim.ExpiresAt-renewed.ExpiresAt)
	}
	_, err = Do(t.Context(), s, as(host2, nil), ClaimLease{channel("c1"), 1000})
	wantCode(t, err, schema.Locked)
	events, err := s.Events(t.Context(), EventFilter{Resource: channel("c1")}, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(events); i++ {
		if events[i].At < events[i-1].At {
			t.Errorf("event %d is older than the one before it", events[i].Sequence)
		}
	}

	c.move(3 * time.Hour)
	taken := mustClaim(t, s, host2, channel("c1"), time.Minute)
	c.move(-3 * time.Hour) // the first owner's time comes again, and it stays stale
	_, err = Do(t.Context(), s, Permit{Actor: host1, Expected: 4, Claim: claim}, touch{Channel: "c1"})
	wantCode(t, err, schema.StaleClaim)
	mustDo(t, s, Permit{Actor: host2, Expected: 4, Claim: taken}, touch{Channel: "c1"})
}

func TestClaimsByTheTable(t *testing.T) { // R2
	s, _ := openStore(t)
	mustCreate(t, s, "c1")
	for _, actor := range []Actor{{ControllerActor, "k"}, {HumanActor, "me"}, {ControlActor, ""}, {PolicyActor, ""}} {
		_, err := Do(t.Context(), s, as(actor, nil), ClaimLease{channel("c1"), 1000})
		wantCode(t, err, schema.Denied)
	}
	for _, ttl := range []int64{0, -1, MaxLeaseMS + 1} {
		_, err := Do(t.Context(), s, as(host1, nil), ClaimLease{channel("c1"), ttl})
		wantCode(t, err, schema.Invalid)
	}
	_, err := Do(t.Context(), s, as(host1, nil), ClaimLease{"channel:none", 1000})
	wantCode(t, err, schema.NotFound)
	_, err = Do(t.Context(), s, as(host1, nil), ClaimLease{"thing:c1", 1000})
	wantCode(t, err, schema.Invalid)
	claim := mustClaim(t, s, Actor{ChannelActor, "telegram"}, channel("c1"), time.Minute)
	if l, err := s.Lease(t.Context(), channel("c1")); err != nil || *l.Owner != (Actor{ChannelActor, "telegram"}) {
		t.Errorf("%+v, %v", l, err)
	}
	repeat := Permit{Actor: Actor{ChannelActor, "telegram"}, Expected: AnyRevision, Claim: claim, Request: "give-back"}
	mustDo(t, s, repeat, ReleaseLease{channel("c1")})
	if !mustDo(t, s, repeat, ReleaseLease{channel("c1")}).Adopted {
		t.Error("a repeated release was not adopted")
	}
	once := Permit{Actor: host1, Expected: AnyRevision, Request: "mine"}
	mustDo(t, s, once, ClaimLease{channel("c1"), 1000})
	_, err = Do(t.Context(), s, once, ClaimLease{channel("c1"), 1000}) // the token can't be given again
	wantCode(t, err, schema.Conflict)
}

// leaseModel is what the leases of a few channels should be.
type leaseModel struct {
	generation, expires, revision int64
	owner                         Actor
}

func TestLeaseModel(t *testing.T) { // R2, R3, R4
	s, c := openStore(t)
	games := 0
	rapid.Check(t, func(r *rapid.T) {
		games++
		const count = 2
		var names [count]string
		var models [count]leaseModel
		var claims []*Claim
		for i := range count {
			names[i] = fmt.Sprintf("game%d-%d", games, i)
			mustCreate(t, s, names[i])
			models[i].revision = 1
		}
		actors := []Actor{host1, host2, {SessionActor, "s2"}}
		pick := func() (int, *leaseModel, ResourceID, Actor) {
			i := rapid.IntRange(0, count-1).Draw(r, "channel")
			return i, &models[i], channel(names[i]), rapid.SampledFrom(actors).Draw(r, "actor")
		}
		// owned tells what the contract must say to a claim.
		owned := func(m *leaseModel, resource ResourceID, actor Actor, claim *Claim, mayBeExpired bool) schema.Code {
			switch {
			case claim == nil || claim.Resource != resource:
				return schema.Denied
			case claim.Generation != m.generation || m.owner == Actor{}:
				return schema.StaleClaim
			case actor != m.owner:
				return schema.Denied
			case !mayBeExpired && int64(c.millis()) >= m.expires:
				return schema.StaleClaim
			}
			return ""
		}
		anyClaim := func() *Claim {
			if len(claims) == 0 {
				return nil
			}
			return rapid.SampledFrom(claims).Draw(r, "claim")
		}
		check := func(err error, want schema.Code) bool {
			if schema.CodeOf(err) != want {
				r.Fatalf("%v: code %q, want %q", err, schema.CodeOf(err), want)
			}
			return err == nil
		}
		r.Repeat(map[string]func(*rapid.T){
			"time passes": func(r *rapid.T) { c.move(time.Duration(rapid.IntRange(0, 90).Draw(r, "seconds")) * time.Second) },
			"claim": func(*rapid.T) {
				_, m, resource, actor := pick()
				done, err := Do(context.Background(), s, as(actor, nil), ClaimLease{resource, 60_000})
				want := schema.Code("")
				if m.owner != (Actor{}) && int64(c.millis()) < m.expires {
					want = schema.Locked
				}
				if check(err, want) {
					m.generation, m.owner, m.expires = m.generation+1, actor, int64(c.millis())+60_000
					m.revision++
					claims = append(claims, done.Result)
				}
			},
			"renew": func(*rapid.T) {
				_, m, resource, actor := pick()
				claim := anyClaim()
				_, err := Do(context.Background(), s, as(actor, claim), RenewLease{resource, 30_000})
				if check(err, owned(m, resource, actor, claim, true)) {
					m.expires = max(m.expires, int64(c.millis())+30_000)
				}
			},
			"release": func(*rapid.T) {
				_, m, resource, actor := pick()
				claim := anyClaim()
				_, err := Do(context.Background(), s, as(actor, claim), ReleaseLease{resource})
				if check(err, owned(m, resource, actor, claim, false)) {
					m.owner = Actor{}
					m.revision++
				}
			},
			"write": func(r *rapid.T) {
				i, m, resource, actor := pick()
				claim := anyClaim()
				expected := m.revision + int64(rapid.IntRange(-1, 1).Draw(r, "off"))
				_, err := Do(context.Background(), s, Permit{Actor: actor, Expected: expected, Claim: claim}, touch{Channel: names[i]})
				want := schema.Code("")
				if expected != m.revision {
					want = schema.StaleRevision
				} else if actor.Class == HostActor {
					want = owned(m, resource, actor, claim, false)
				}
				if check(err, want) {
					m.revision++
				}
			},
			"": func(r *rapid.T) {
				for i, m := range models {
					res, err := s.Resource(context.Background(), channel(names[i]))
					if err != nil || res.Revision != m.revision {
						r.Fatalf("%+v (%v), want revision %d", res, err, m.revision)
					}
					l, err := s.Lease(context.Background(), res.ID)
					if err != nil || l.Generation != m.generation || (l.Owner == nil) != (m.owner == Actor{}) || l.Owner != nil && *l.Owner != m.owner {
						r.Fatalf("%+v (%v), want %+v", l, err, m)
					}
				}
			},
		})
	})
}
