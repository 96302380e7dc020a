package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pistate/schema"
)

// keyModel is what the model knows of a controller resource.
type keyModel struct {
	uid        string
	version    int64
	available  Millis // 0: nothing to do
	errors     int
	generation int64 // of the lease
	ends       Millis
	owner      *looking // who has a claim, expired or not; nil: nobody
	wanted     bool     // somebody wants a look that has not begun
	finalizers int
	deleting   bool
	deleted    bool
}

// The queue of controllers against a model, with owners that vanish and come back: a look that is wanted
// comes, nobody but the last owner writes, and what was deleted stays so.
func TestControllerQueueModel(t *testing.T) { // D11, R3, C50
	f := newFlow(t)
	games := 0
	rapid.Check(t, func(r *rapid.T) {
		games++
		name := fmt.Sprint("game-", games)
		models := map[string]*keyModel{} // by key, the live ones
		var keys []string
		var before []*looking // owners of the past
		ctx := context.Background()
		any1 := func(r *rapid.T) *keyModel {
			if len(keys) == 0 {
				r.Skip("no resource yet")
			}
			return models[rapid.SampledFrom(keys).Draw(r, "key")]
		}
		check := func(err error, want schema.Code) {
			if schema.CodeOf(err) != want {
				r.Fatalf("%v: code %q, want %q", err, schema.CodeOf(err), want)
			}
		}
		enqueue := func(m *keyModel, at Millis) {
			if m.available == 0 || at < m.available {
				m.available = at
			}
			m.version++
			m.wanted = true
		}
		claimable := func(now Millis) *keyModel {
			var first *keyModel
			for _, key := range keys {
				m := models[key]
				due := !m.deleted && m.available != 0 && m.available <= now && (m.owner == nil || now >= m.ends)
				if due && (first == nil || m.available < first.available || m.available == first.available && m.uid < first.uid) {
					first = m
				}
			}
			return first
		}
		claim := func(r *rapid.T) *keyModel {
			now := f.clock.millis()
			done, err := Do(ctx, f.Store, Permit{Actor: merger1, Expected: AnyRevision}, ClaimController{f.project, []string{name}, 30_000})
			m := claimable(now)
			if m == nil {
				check(err, schema.NotFound)
				return nil
			}
			check(err, "")
			if m.owner != nil {
				before = append(before, m.owner)
				m.errors++
			}
			m.generation++
			if done.Result.Controller.UID != m.uid || done.Result.Claim.Generation != m.generation || done.Result.TakenOver != (m.owner != nil) {
				r.Fatalf("%+v, want %+v", done.Result, m)
			}
			m.owner, m.ends, m.wanted = &looking{f, merger1, m.uid, done.Result.Controller.Queue.Version, done.Result.Claim}, now+30_000, false
			return m
		}
		// owned says what comes of a command of the owner.
		owned := func(m *keyModel) schema.Code {
			if m.owner == nil || f.clock.millis() >= m.ends {
				return schema.StaleClaim
			}
			return ""
		}
		release := func(m *keyModel) {
			before = append(before, m.owner)
			m.owner = nil
		}
		end := func(m *keyModel) {
			if m.deleting && m.finalizers == 0 {
				if m.owner != nil {
					release(m)
				}
				m.deleted, m.available, m.wanted = true, 0, false
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"time passes": func(r *rapid.T) { f.clock.move(time.Duration(rapid.IntRange(0, 40).Draw(r, "seconds")) * time.Second) },
			"apply": func(r *rapid.T) {
				key := fmt.Sprint("k", rapid.IntRange(0, 2).Draw(r, "key"))
				done, err := Do(ctx, f.Store, anybody, ApplyController{f.project, name, key, []byte(fmt.Sprint(rapid.IntRange(0, 1).Draw(r, "spec")))})
				m := models[key]
				switch {
				case m == nil || m.deleted:
					check(err, "")
					if done.Adopted || m != nil && done.Result.UID == m.uid {
						r.Fatalf("%+v", done)
					}
					if m == nil {
						keys = append(keys, key)
					}
					models[key] = &keyModel{uid: done.Result.UID, version: 1, available: f.clock.millis(), wanted: true}
				case m.deleting:
					check(err, schema.IllegalTransition)
				default:
					check(err, "")
					if !done.Adopted {
						enqueue(m, f.clock.millis())
					}
				}
			},
			"enqueue": func(r *rapid.T) {
				m := any1(r)
				delay := rapid.SampledFrom([]Millis{0, 5000}).Draw(r, "delay")
				done, err := Do(ctx, f.Store, anybody, EnqueueController{m.uid, int64(delay)})
				if m.deleted {
					check(err, schema.IllegalTransition)
					return
				}
				check(err, "")
				at := f.clock.millis() + delay
				if coming := m.owner == nil && m.available != 0 && m.available <= at; coming != done.Adopted {
					r.Fatalf("adopted %v: %+v", done.Adopted, m)
				}
				if !done.Adopted {
					enqueue(m, at)
				}
			},
			"claim": func(r *rapid.T) { claim(r) },
			"end a look": func(r *rapid.T) {
				m := any1(r)
				l := m.owner
				if l == nil {
					r.Skip("nobody looks")
				}
				now, want := f.clock.millis(), owned(m)
				var err error
				again := Millis(0)
				errorsInARow := 0
				switch rapid.SampledFrom([]string{"settle", "requeue", "back off"}).Draw(r, "how") {
				case "settle":
					_, err = act(l, SettleController{m.uid, l.version})
				case "requeue":
					_, err = act(l, RequeueController{m.uid, l.version, 7000})
					again = now + 7000
				case "back off":
					var c *Controller
					c, err = act(l, BackOffController{Controller: m.uid, Version: l.version, Code: "x", BaseMS: 1000, MaxMS: 1000})
					errorsInARow = m.errors + 1
					if again = now + 1000; err == nil {
						again = c.Queue.AvailableAt
					}
					if again > now+1000 || again < now && m.version == l.version {
						r.Fatalf("back off until %d, from %d", again, now)
					}
				}
				check(err, want)
				if err != nil {
					return
				}
				m.errors = errorsInARow
				if m.version == l.version || again != 0 && again < m.available {
					m.available = again
				}
				release(m)
			},
			"come back late": func(r *rapid.T) {
				if len(before) == 0 {
					r.Skip("nobody was there")
				}
				l := rapid.SampledFrom(before).Draw(r, "owner")
				_, err := act(l, RecordControllerEvent{l.uid, "late", []byte(`1`)})
				check(err, schema.StaleClaim)
			},
			"finalizer": func(r *rapid.T) {
				m := any1(r)
				l := m.owner
				if l == nil || m.finalizers == 0 && m.deleting {
					r.Skip("nobody looks")
				}
				want := owned(m)
				if m.finalizers == 0 {
					_, err := act(l, AddFinalizer{m.uid, "x"})
					check(err, want)
					if err == nil {
						m.finalizers = 1
					}
					return
				}
				_, err := act(l, RemoveFinalizer{m.uid, "x"})
				check(err, want)
				if err == nil {
					m.finalizers = 0
					end(m)
				}
			},
			"delete": func(r *rapid.T) {
				m := any1(r)
				if !rapid.Bool().Draw(r, "really") {
					r.Skip("not this time")
				}
				done, err := Do(ctx, f.Store, anybody, RequestControllerDeletion{m.uid})
				check(err, "")
				if done.Adopted != m.deleting {
					r.Fatalf("%+v", done)
				}
				if !m.deleting {
					m.deleting = true
					enqueue(m, f.clock.millis())
					end(m)
				}
			},
			"": func(r *rapid.T) {
				for _, key := range keys {
					m := models[key]
					v := f.viewed(m.uid)
					same := v.Queue.AvailableAt == m.available && v.Queue.Version == m.version && v.Queue.Errors == m.errors &&
						len(v.Finalizers) == m.finalizers && (v.DeletedAt != 0) == m.deleted && (v.Owner != nil) == (owned(m) == "")
					if !same {
						r.Fatalf("%s: %+v, want %+v", key, v, m)
					}
				}
			},
		})
		// Every look that is wanted comes.
		f.clock.move(time.Hour)
		for m := claim(r); m != nil; m = claim(r) {
			if _, err := act(m.owner, SettleController{m.uid, m.owner.version}); err != nil {
				r.Fatal(err)
			}
			m.available = 0
			m.errors = 0
			release(m)
		}
		if i := slices.IndexFunc(keys, func(key string) bool { return models[key].wanted }); i >= 0 {
			r.Fatalf("nobody looks at %s: %+v", keys[i], models[keys[i]])
		}
	})
}
