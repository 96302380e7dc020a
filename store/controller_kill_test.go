package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func init() {
	roles["merger"] = playMerger // PROJECT PROVIDER: merge at the provider, and hang before anybody hears of it
}

// provider is a service outside: a file with a line for each merge.
type provider string

func (p provider) merge() error {
	f, err := os.OpenFile(string(p), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("merged\n")
	return errors.Join(err, f.Close())
}

func (p provider) merges(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile(string(p))
	if err != nil {
		t.Fatal(err)
	}
	return len(b) / len("merged\n")
}

// merger is a controller that merges a pull request through an effect, and says so in the status.
func merger(s *Store, project string, apply func() (Applied, error)) *ControllerWorker {
	return &ControllerWorker{
		Store: s, Actor: merger1, Project: project, Lease: 100 * time.Millisecond,
		Reconcile: func(ctx context.Context, w *ControllerWork) (time.Duration, error) {
			uid := w.Controller.UID
			permit := w.Permit()
			permit.Expected = w.Controller.Revision
			done, err := Do(ctx, s, permit, EnsureEffect{w.Controller.Resource(), EffectSpec{
				Type: "pr.merge", Key: "1", Payload: w.Spec, External: true, Scope: Scope{ControllerScope, uid},
			}})
			if err != nil {
				return 0, err
			}
			merged := ControllerCondition{Type: "merged", Status: ConditionUnknown, Reason: string(done.Result.Status)}
			if done.Result.Status == EffectApplied {
				merged.Status = ConditionTrue
			}
			_, err = Do(ctx, s, w.Permit(), SetControllerStatus{uid, w.Controller.Generation, ControllerStatus{Conditions: []ControllerCondition{merged}}})
			if err != nil || merged.Status == ConditionTrue {
				return 0, err
			}
			return 10 * time.Millisecond, nil
		},
		Handlers: map[string]EffectHandler{"pr.merge": {
			Apply: func(context.Context, Begun, json.RawMessage) (Applied, error) { return apply() },
		}},
	}
}

func playMerger(s *Store, args []string) error {
	w := merger(s, args[0], func() (Applied, error) {
		if err := provider(args[1]).merge(); err != nil {
			return Applied{}, err
		}
		fmt.Println("merged")
		select {}
	})
	_, err := w.Run(context.Background(), 10)
	return err
}

// The first try dies between the provider's success and the receipt. The merge is not done again: where the
// provider can tell, the effect is applied by what it says; where nobody can, it stays ambiguous until
// somebody looks.
func TestKilledControllerMergesOnce(t *testing.T) { // R7, D11, V1, C53
	for name, canTell := range map[string]bool{"the provider can tell": true, "nobody can tell": false} {
		t.Run(name, func(t *testing.T) {
			f := realFlow(t)
			pr := provider(filepath.Join(t.TempDir(), "pr"))
			c := f.controller("pr-1", `{"pr":1}`)
			first := start(t, "merger", f.Path(), f.project, string(pr))
			<-first.some
			first.kill(t)
			<-first.lines

			w := merger(f.Store, f.project, func() (Applied, error) { return Applied{ExternalRef: "again"}, pr.merge() })
			if canTell {
				h := w.Handlers["pr.merge"]
				h.Observe = func(context.Context, Effect, json.RawMessage) (Observation, error) {
					if pr.merges(t) == 0 {
						return Observation{}, nil
					}
					return Observation{Applied: true, ExternalRef: "merge-1"}, nil
				}
				w.Handlers["pr.merge"] = h
			}
			effect := effectID(c.Resource(), "pr.merge", "1")
			want := EffectApplied
			if !canTell {
				want = EffectAmbiguous
			}
			f.lookUntil(w, effect, want)
			if !canTell {
				if v := f.viewed(c.UID); v.Unsettled[EffectAmbiguous] != 1 {
					t.Errorf("the doubt is not shown: %+v", v)
				}
				e, err := f.Effect(t.Context(), effect)
				if err != nil {
					t.Fatal(err)
				}
				seen := Observation{Applied: true, ExternalRef: "merge-1"}
				mustDo(t, f.Store, Permit{Actor: control, Expected: e.Revision}, ObserveEffect{effect, seen}) // somebody has looked
				mustDo(t, f.Store, anybody, EnqueueController{Controller: c.UID})
			}
			for {
				runWorker(t, w)
				v := f.viewed(c.UID)
				b, err := f.Blob(t.Context(), *v.Status)
				if err != nil {
					t.Fatal(err)
				}
				if string(b.Bytes) == `{"conditions":[{"reason":"applied","status":"true","type":"merged"}]}` {
					break
				}
				time.Sleep(5 * time.Millisecond)
			}
			e, err := f.Effect(t.Context(), effect)
			if err != nil || e.ExternalRef != "merge-1" || e.Attempts != 1 || pr.merges(t) != 1 {
				t.Errorf("%+v, %v, %d merges", e, err, pr.merges(t))
			}
			attempts, err := f.EffectAttempts(t.Context(), effect, 0, 10)
			if err != nil || len(attempts) != 1 || attempts[0].Outcome != OutcomeInterrupted {
				t.Errorf("%+v, %v", attempts, err)
			}
		})
	}
}

// lookUntil lets a controller look until an effect has a status.
func (f *flow) lookUntil(w *ControllerWorker, effect string, want EffectStatus) {
	f.Helper()
	for {
		runWorker(f, w)
		if _, err := w.Wake(context.Background(), 10); err != nil {
			f.Fatal(err)
		}
		e, err := f.Effect(context.Background(), effect)
		if err != nil {
			f.Fatal(err)
		}
		if e.Status == want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}
