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

	"pgregory.net/rapid"

	"pistate/schema"
)

// handle is a worker's handler for the effects of these tests.
func handle(apply func(Effect) (Applied, error)) map[string]EffectHandler {
	return map[string]EffectHandler{"mail.send": {
		Apply: func(_ context.Context, b Begun, _ json.RawMessage) (Applied, error) { return apply(b.Effect) },
	}}
}

func run(t *testing.T, w *EffectWorker) EffectReport {
	t.Helper()
	report, err := w.Run(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestWorkerAppliesInOrder(t *testing.T) { // R6
	s, c := openStore(t)
	late := spec("late", true)
	late.NotBefore = c.millis() + 60_000
	soon := spec("soon", true)
	soon.NotBefore = c.millis() + 1000
	other := spec("other", true)
	other.Type = "pr.merge"
	newEffects(t, s, late, spec("a", true), soon, other, spec("b", false))
	var order []string
	w := &EffectWorker{Store: s, Actor: host1, Scope: everybody, Handlers: handle(func(e Effect) (Applied, error) {
		order = append(order, e.Key)
		return Applied{Result: json.RawMessage(`{"done":true}`), ExternalRef: "ref-" + e.Key}, nil
	})}
	if report := run(t, w); report != (EffectReport{Applied: 2}) {
		t.Errorf("%+v", report)
	}
	c.move(2 * time.Minute)
	if report := run(t, w); report != (EffectReport{Applied: 2}) {
		t.Errorf("%+v", report)
	}
	if got := strings.Join(order, " "); got != "a b soon late" {
		t.Errorf("order %s", got)
	}
	effects, err := s.Effects(t.Context(), EffectFilter{}, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range effects {
		switch {
		case e.Type == "pr.merge":
			if e.Status != EffectPending {
				t.Errorf("an effect without a handler is %s", e.Status)
			}
		case e.Status != EffectApplied || e.ExternalRef != "ref-"+e.Key:
			t.Errorf("%+v", e)
		default:
			if b, err := s.Blob(t.Context(), *e.Result); err != nil || string(b.Bytes) != `{"done":true}` {
				t.Errorf("%s, %v", b.Bytes, err)
			}
		}
	}
	if report, err := w.Run(t.Context(), 0); err != nil || report != (EffectReport{}) {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestWorkerOutcomes(t *testing.T) { // R7
	broken := errors.New("the line is dead, token ghp_" + strings.Repeat("a1", 18))
	yes := func(context.Context, Effect, json.RawMessage) (Observation, error) {
		return Observation{Applied: true, ExternalRef: "seen"}, nil
	}
	no := func(context.Context, Effect, json.RawMessage) (Observation, error) { return Observation{}, nil }
	unknown := func(context.Context, Effect, json.RawMessage) (Observation, error) { return Observation{}, broken }
	s, c := openStore(t)
	src := newSource(t, s)
	for name, tc := range map[string]struct {
		external bool
		err      error
		observe  func(context.Context, Effect, json.RawMessage) (Observation, error)
		want     EffectStatus
	}{
		"external, uncertain":                {true, broken, nil, EffectAmbiguous},
		"external, uncertain, seen":          {true, broken, yes, EffectApplied},
		"external, uncertain, seen absent":   {true, broken, no, EffectPending},
		"external, uncertain, can't be told": {true, broken, unknown, EffectAmbiguous},
		"external, certainly not":            {true, NotApplied(broken), yes, EffectPending},
		"external, never":                    {true, Rejected(broken), yes, EffectRejected},
		"local":                              {false, broken, nil, EffectPending},
		"local, never":                       {false, fmt.Errorf("wrapped: %w", Rejected(broken)), nil, EffectRejected},
	} {
		t.Run(name, func(t *testing.T) {
			id := src.add(t, spec(name, tc.external))
			w := &EffectWorker{Store: s, Actor: host1, Scope: everybody, Handlers: handle(func(Effect) (Applied, error) { return Applied{}, tc.err })}
			h := w.Handlers["mail.send"]
			h.Observe = tc.observe
			w.Handlers["mail.send"] = h
			run(t, w)
			e, err := s.Effect(t.Context(), id)
			if err != nil || e.Status != tc.want {
				t.Fatalf("%s (%v), want %s", e.Status, err, tc.want)
			}
			if e.Error != nil {
				b, err := s.Blob(t.Context(), *e.Error)
				if err != nil || !strings.Contains(string(b.Bytes), "the line is dead") || strings.Contains(string(b.Bytes), "ghp_") {
					t.Errorf("error %s, %v", b.Bytes, err)
				}
			}
			if wait := e.AvailableAt - c.millis(); tc.want == EffectPending && (wait < 500 || wait > 1000) {
				t.Errorf("tried again after %d ms", wait)
			}
		})
	}
}

// What happened is recorded, whatever its handler says about it.
func TestWorkerWithholdsABadResult(t *testing.T) { // R7, R11
	s, _ := openStore(t)
	src := newSource(t, s)
	for name, applied := range map[string]Applied{
		"secret":           {Result: json.RawMessage(`"ghp_` + strings.Repeat("a1", 18) + `"`)},
		"no JSON":          {Result: json.RawMessage(`{`)},
		"secret reference": {ExternalRef: "ghp_" + strings.Repeat("a1", 18)},
		"long reference":   {ExternalRef: strings.Repeat("x", 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			id := src.add(t, spec(name, true))
			w := &EffectWorker{Store: s, Actor: host1, Scope: everybody, Handlers: handle(func(Effect) (Applied, error) { return applied, nil })}
			if report := run(t, w); report != (EffectReport{Applied: 1}) {
				t.Errorf("%+v", report)
			}
			e, err := s.Effect(t.Context(), id)
			if err != nil || e.Status != EffectApplied || e.Result == nil || e.ExternalRef != "" {
				t.Fatalf("%+v, %v", e, err)
			}
			if b, err := s.Blob(t.Context(), *e.Result); err != nil || !strings.HasPrefix(string(b.Bytes), `{"withheld":`) {
				t.Errorf("%s, %v", b.Bytes, err)
			}
		})
	}
}

func TestBackoff(t *testing.T) { // R6
	b := Backoff{Base: time.Second, Max: 10 * time.Second}
	for n, want := range map[int]int64{1: 1000, 2: 2000, 3: 4000, 4: 8000, 5: 10_000, 6: 10_000, 1000: 10_000} {
		if got := b.after(n, 0); got != want {
			t.Errorf("attempt %d waits %d ms, want %d", n, got, want)
		}
		if got := b.after(n, 0.999999); got < want/2 || got > want/2+1 {
			t.Errorf("attempt %d waits at least %d ms, want %d", n, got, want/2)
		}
	}
	s, c := openStore(t)
	id := newEffects(t, s, spec("k", false))[0]
	w := &EffectWorker{
		Store: s, Actor: host1, Scope: everybody, Backoff: Backoff{Base: time.Minute, Max: time.Hour, MaxAttempts: 3},
		Handlers: handle(func(Effect) (Applied, error) { return Applied{}, errors.New("no") }),
	}
	for n := 1; n <= 3; n++ {
		run(t, w)
		e, err := s.Effect(t.Context(), id)
		if err != nil || e.Attempts != n {
			t.Fatalf("%+v, %v", e, err)
		}
		c.move(3 * time.Hour)
	}
	if e, err := s.Effect(t.Context(), id); err != nil || e.Status != EffectRejected {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestWorkersShareTheWork(t *testing.T) { // R7
	s, c := openStore(t)
	var specs []EffectSpec
	for i := range 12 {
		specs = append(specs, spec(fmt.Sprint("k", i), true))
	}
	newEffects(t, s, specs...)
	var mu sync.Mutex
	times := map[string]int{}
	var wg sync.WaitGroup
	for i := range 3 {
		st := openAt(t, s.Path(), Options{Now: c.Now, Random: seeded(uint64(10 + i))})
		w := &EffectWorker{Store: st, Actor: Actor{HostActor, fmt.Sprint("w", i)}, Scope: everybody, Handlers: handle(func(e Effect) (Applied, error) {
			mu.Lock()
			defer mu.Unlock()
			times[e.Key]++
			return Applied{}, nil
		})}
		wg.Go(func() {
			if _, err := w.Run(context.Background(), 100); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for key, n := range times {
		if n != 1 {
			t.Errorf("%s was applied %d times", key, n)
		}
	}
	if len(times) != 12 {
		t.Errorf("%d effects were applied", len(times))
	}
}

// The worker of a scope stops when its claim on the scope is lost.
func TestWorkerLosesItsScope(t *testing.T) { // R6
	s, c := openStore(t)
	mustCreate(t, s, "c1")
	claim := mustClaim(t, s, host1, channel("c1"), time.Minute)
	for i := range 2 {
		sp := spec(fmt.Sprint("k", i), true)
		sp.Scope = Scope{ChannelScope, "c1"}
		mustDo(t, s, Permit{Actor: host1, Expected: int64(2 + i), Claim: claim}, EnsureEffect{channel("c1"), sp})
	}
	calls := 0
	w := &EffectWorker{Store: s, Actor: host1, Scope: Scope{ChannelScope, "c1"}, Claim: claim, Handlers: handle(func(Effect) (Applied, error) {
		calls++
		c.move(2 * time.Minute)
		mustClaim(t, s, host2, channel("c1"), time.Hour)
		return Applied{}, nil
	}), Lease: time.Hour}
	report, err := w.Run(t.Context(), 10)
	wantCode(t, err, schema.StaleClaim)
	if calls != 1 || report.Applied != 1 { // what was begun under the claim was done, and is recorded
		t.Errorf("%d calls, %+v", calls, report)
	}
}

func TestWorkerObserves(t *testing.T) { // R7
	s, c := openStore(t)
	ids := newEffects(t, s, spec("yes", true), spec("no", true), spec("unknown", true))
	for _, id := range ids {
		mustBegin(t, s, id)
	}
	c.move(time.Hour)
	h := EffectHandler{Apply: func(context.Context, Begun, json.RawMessage) (Applied, error) {
		t.Error("applied again")
		return Applied{}, nil
	}}
	w := &EffectWorker{Store: s, Actor: host1, Scope: everybody, Handlers: map[string]EffectHandler{"mail.send": h}}
	if report := run(t, w); report != (EffectReport{Interrupted: 3, Ambiguous: 3}) {
		t.Errorf("%+v", report)
	}
	h.Observe = func(_ context.Context, e Effect, payload json.RawMessage) (Observation, error) {
		if string(payload) != `{"to":"x"}` {
			t.Errorf("payload %s", payload)
		}
		if e.Key == "unknown" {
			return Observation{}, errors.New("no answer")
		}
		return Observation{Applied: e.Key == "yes"}, nil
	}
	w.Handlers["mail.send"] = h
	report, err := w.Observe(t.Context(), 10)
	if err != nil || report != (EffectReport{Applied: 1, Rejected: 1, Ambiguous: 1}) {
		t.Errorf("%+v, %v", report, err)
	}
}

// What an attempt did is recorded even when the caller's context ended in its middle.
func TestWorkerIsStopped(t *testing.T) { // R7
	s, _ := openStore(t)
	ids := newEffects(t, s, spec("a", true), spec("b", true))
	ctx, cancel := context.WithCancel(t.Context())
	w := &EffectWorker{Store: s, Actor: host1, Scope: everybody, Handlers: handle(func(Effect) (Applied, error) {
		cancel()
		return Applied{}, nil
	})}
	report, err := w.Run(ctx, 10)
	wantCode(t, err, schema.Canceled)
	if report.Applied != 1 {
		t.Errorf("%+v", report)
	}
	for i, want := range []EffectStatus{EffectApplied, EffectPending} {
		if e, err := s.Effect(t.Context(), ids[i]); err != nil || e.Status != want {
			t.Errorf("%s, %v", e.Status, err)
		}
	}
}

// effectModel is what an effect should be.
type effectModel struct {
	status    EffectStatus
	external  bool
	attempts  int
	available Millis
	leaseEnds Millis
	claim     *Claim
	revision  int64
}

func TestEffectModel(t *testing.T) { // R6, R7
	s, c := openStore(t)
	mustCreate(t, s, "c1")
	owner := mustClaim(t, s, host1, channel("c1"), time.Hour)
	source := int64(2)
	games := 0
	rapid.Check(t, func(r *rapid.T) {
		games++
		models := map[string]*effectModel{}
		var ids []string
		var old []*Claim // of attempts that are over
		ctx := context.Background()
		r.Repeat(map[string]func(*rapid.T){
			"time passes": func(r *rapid.T) { c.move(time.Duration(rapid.IntRange(0, 40).Draw(r, "seconds")) * time.Second) },
			"ensure": func(r *rapid.T) {
				mustDo(t, s, as(host1, owner), RenewLease{channel("c1"), 3_600_000})
				sp := spec(fmt.Sprintf("g%d-%d", games, rapid.IntRange(0, 3).Draw(r, "key")), rapid.Bool().Draw(r, "external"))
				id := effectID("channel:c1", sp.Type, sp.Key)
				done, err := Do(ctx, s, Permit{Actor: host1, Expected: source, Claim: owner}, EnsureEffect{channel("c1"), sp})
				m := models[id]
				switch {
				case m == nil:
					if err != nil || done.Adopted {
						r.Fatalf("%+v, %v", done, err)
					}
					source++
					ids = append(ids, id)
					models[id] = &effectModel{status: EffectPending, external: sp.External, available: c.millis(), revision: 1}
				case m.external != sp.External:
					if !errors.Is(err, schema.Conflict) {
						r.Fatalf("%v", err)
					}
				case err != nil || !done.Adopted:
					r.Fatalf("%+v, %v", done, err)
				}
			},
			"act": func(r *rapid.T) {
				if len(ids) == 0 {
					r.Skip("no effect yet")
				}
				id := rapid.SampledFrom(ids).Draw(r, "effect")
				m := models[id]
				now := c.millis()
				permit := Permit{Actor: host1, Expected: m.revision}
				var err error
				want, next := schema.Code(""), *m
				next.revision++
				end := func(status EffectStatus) {
					next.status, next.claim = status, nil
					if m.claim != nil {
						old = append(old, m.claim)
					}
				}
				claim := m.claim
				if claim == nil && len(old) > 0 {
					claim = rapid.SampledFrom(old).Draw(r, "old claim")
				}
				settleCode := func() schema.Code {
					switch {
					case claim == nil || claim.Resource != effect(id):
						return schema.Denied
					case m.claim == nil || now >= m.leaseEnds:
						return schema.StaleClaim
					}
					return ""
				}
				switch rapid.SampledFrom([]string{"begin", "applied", "retry", "ambiguous", "recover", "observe", "cancel"}).Draw(r, "command") {
				case "begin":
					var done Done[*Begun]
					done, err = Do(ctx, s, permit, BeginEffect{id, 30_000})
					if m.status != EffectPending || m.available > now {
						want = schema.IllegalTransition
						break
					}
					next.status, next.attempts, next.leaseEnds = EffectApplying, m.attempts+1, now+30_000
					if err == nil {
						next.claim = done.Result.Claim
					}
				case "applied":
					_, err = Do(ctx, s, as(host1, claim), SettleEffect{Effect: id, Outcome: OutcomeApplied})
					want = settleCode()
					end(EffectApplied)
				case "retry":
					wait := int64(10_000)
					_, err = Do(ctx, s, as(host1, claim), SettleEffect{Effect: id, Outcome: OutcomeRejected, Error: json.RawMessage(`1`), RetryAfterMS: &wait})
					want = settleCode()
					end(EffectPending)
					next.available = now + 10_000
				case "ambiguous":
					_, err = Do(ctx, s, as(host1, claim), SettleEffect{Effect: id, Outcome: OutcomeAmbiguous})
					if want = settleCode(); want == "" && !m.external {
						want = schema.IllegalTransition
					}
					end(EffectAmbiguous)
				case "recover":
					_, err = Do(ctx, s, permit, RecoverEffect{Effect: id})
					switch {
					case m.status != EffectApplying:
						want = schema.IllegalTransition
					case now < m.leaseEnds:
						want = schema.Locked
					case m.external:
						end(EffectAmbiguous)
					default:
						end(EffectPending)
						next.available = now
					}
				case "observe":
					_, err = Do(ctx, s, permit, ObserveEffect{id, Observation{Applied: true}})
					if m.status != EffectAmbiguous {
						want = schema.IllegalTransition
					}
					end(EffectApplied)
				case "cancel":
					_, err = Do(ctx, s, permit, CancelEffect{id, "r"})
					if m.status != EffectPending {
						want = schema.IllegalTransition
					}
					end(EffectCancelled)
				}
				if schema.CodeOf(err) != want {
					r.Fatalf("%v: code %q, want %q", err, schema.CodeOf(err), want)
				}
				if err == nil {
					*m = next
				}
				e, err := s.Effect(ctx, id)
				if err != nil || e.Status != m.status || e.Attempts != m.attempts || e.Revision != m.revision || m.status == EffectPending && e.AvailableAt != m.available {
					r.Fatalf("%+v (%v), want %+v", e, err, m)
				}
			},
		})
	})
}
