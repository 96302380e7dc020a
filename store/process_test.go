package store

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

// play is the life of another process of the product: PATH and what the role takes.
func play(role string, args []string) error {
	s, err := Open(context.Background(), args[0], Options{})
	if err != nil {
		return err
	}
	switch role {
	case "open":
	case "claim": // NAME COUNT: claim r0, r1, ... and print what was won
		err = playClaims(s, args[1], args[2])
	case "random": // NAME FIRST: random commands for ever, from the FIRST of them
		err = playRandom(s, args[1], args[2])
	case "effect": // hang in the middle of an external effect
		err = playEffect(s)
	case "work": // PROJECT SESSIONS SEED: run what is queued, for ever
		err = playWork(s, args[1], args[2], args[3])
	default:
		life, ok := roles[role]
		if !ok {
			life = func(*Store, []string) error { return fmt.Errorf("unknown role %q", role) }
		}
		err = life(s, args[1:])
	}
	return errors.Join(err, s.Close())
}

// roles are the lives that the tests of the domains add.
var roles = map[string]func(s *Store, args []string) error{}

// process is another process.
type process struct {
	cmd   *exec.Cmd
	some  chan struct{} // closed with the first line
	lines chan []string // gets all lines when the process has ended
}

func start(t testing.TB, role string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, some: make(chan struct{}), lines: make(chan []string, 1)}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	go p.follow(out)
	return p
}

func (p *process) follow(out io.Reader) {
	var all []string
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadString('\n')
		if err != nil { // a line that was cut off was not acknowledged
			break
		}
		if all = append(all, strings.TrimSpace(line)); len(all) == 1 {
			close(p.some)
		}
	}
	_ = p.cmd.Wait() // a killed process is expected to have failed
	if len(all) == 0 {
		close(p.some)
	}
	p.lines <- all
}

func (p *process) kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
}

// rounds is how often a test with random kills repeats; the soak recipe raises it.
func rounds(t testing.TB, usual int) int {
	t.Helper()
	if s := os.Getenv("PISTATE_ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("PISTATE_ROUNDS: %v", err)
		}
		return n
	}
	return usual
}

func TestProcessesCreateOneDatabase(t *testing.T) { // S7
	path := filepath.Join(t.TempDir(), "workflows", "state.sqlite")
	var procs []*process
	for range 8 {
		procs = append(procs, start(t, "open", path))
	}
	for _, p := range procs {
		<-p.lines
		if !p.cmd.ProcessState.Success() {
			t.Error(p.cmd.ProcessState)
		}
	}
	mustPassDeep(t, path)
}

func playClaims(s *Store, name, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	for i := range n {
		resource := channel(fmt.Sprint("r", i))
		done, err := Do(context.Background(), s, Permit{Actor: Actor{HostActor, name}, Expected: AnyRevision}, ClaimLease{resource, MaxLeaseMS})
		switch {
		case err == nil:
			fmt.Println(resource, done.Result.Generation)
		case !errors.Is(err, schema.Locked):
			return err
		}
	}
	return nil
}

func TestProcessesClaimAHundredTimes(t *testing.T) { // R4
	const count = 100
	s, _ := openStore(t)
	for i := range count {
		mustCreate(t, s, fmt.Sprint("r", i))
	}
	a := start(t, "claim", s.Path(), "a", strconv.Itoa(count))
	b := start(t, "claim", s.Path(), "b", strconv.Itoa(count))
	won := append(<-a.lines, <-b.lines...)
	slices.Sort(won)
	if distinct := slices.Compact(slices.Clone(won)); len(won) != count || len(distinct) != count {
		t.Errorf("%d wins of %d leases: %v", len(won), len(distinct), won)
	}
	for i := range count {
		if l, err := s.Lease(t.Context(), channel(fmt.Sprint("r", i))); err != nil || l.Generation != 1 {
			t.Errorf("r%d: %+v, %v", i, l, err)
		}
	}
}

const playedChannels = 3

// playRandom sends random commands, each under a request of its own, and prints those that were accepted.
// What a number stands for depends on the process's name alone, so that a successor repeats it exactly.
func playRandom(s *Store, name, first string) error {
	n, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	ctx := context.Background()
	host := Actor{HostActor, name}
	var claim *Claim
	for ; ; n++ {
		h := derivedID("n", name, strconv.Itoa(n))
		ch := fmt.Sprintf("c%d", h[2]%playedChannels)
		request := name + "-" + strconv.Itoa(n)
		res, err := s.Resource(ctx, channel(ch))
		if err != nil {
			return err
		}
		permit := Permit{Actor: host, Expected: res.Revision, Request: request}
		var revision int64
		switch h[3] % 8 {
		case 0, 1: // take a lease; short, so that others take it over
			permit.Expected = AnyRevision
			var done Done[*Claim]
			if done, err = Do(ctx, s, permit, ClaimLease{channel(ch), 5}); err == nil {
				claim = done.Result
			}
			revision = done.Revision
		case 2:
			permit.Expected, permit.Claim, permit.Request = AnyRevision, claim, ""
			_, err = Do(ctx, s, permit, RenewLease{channel(ch), 5})
		case 3:
			permit.Expected, permit.Claim = AnyRevision, claim
			var done Done[struct{}]
			done, err = Do(ctx, s, permit, ReleaseLease{channel(ch)})
			revision = done.Revision
		case 4, 5: // as the owner
			permit.Claim = claim
			var done Done[int]
			done, err = Do(ctx, s, permit, playedTouch(ch, n))
			revision = done.Revision
		default:
			permit.Actor = Actor{SessionActor, name}
			var done Done[int]
			done, err = Do(ctx, s, permit, playedTouch(ch, n))
			revision = done.Revision
		}
		switch {
		case err == nil && revision > 0:
			fmt.Println(n, ch, revision)
		case err == nil, refused(err):
		default:
			return err
		}
	}
}

func playedTouch(ch string, n int) touch {
	data := json.RawMessage(strconv.Itoa(n % 7))
	return touch{Channel: ch, Data: data, Effects: []EffectSpec{{Type: "t", Key: strconv.Itoa(n % 20), Payload: json.RawMessage(`1`), Scope: Scope{SystemScope, "all"}}}}
}

// refused reports whether an error is the contract's answer to a command that comes too late.
func refused(err error) bool {
	for _, code := range []schema.Code{schema.StaleRevision, schema.StaleClaim, schema.Denied, schema.Locked, schema.Conflict} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// After each kill the database passes the deep check, everything that was acknowledged is there, and the
// events tell a story that the model allows. The successors of the killed repeat their last commands.
func TestCommandsSurviveSIGKILL(t *testing.T) { // W6, W5
	const processes = 3
	path := newPath(t)
	s := openAt(t, path, Options{})
	for i := range playedChannels {
		mustCreate(t, s, fmt.Sprint("c", i))
	}
	next := make([]int, processes)
	acked := map[string]string{} // by request
	usual := 4
	if raceDetector {
		usual = 2
	}
	for round := range rounds(t, usual) {
		var procs []*process
		for i := range processes {
			procs = append(procs, start(t, "random", path, fmt.Sprint("p", i), strconv.Itoa(next[i])))
		}
		<-procs[round%processes].some
		time.Sleep(time.Duration(round%7) * 7 * time.Millisecond)
		for i, p := range procs {
			p.kill(t)
			lines := <-p.lines
			mustPassDeep(t, path) // while the others go on
			for _, line := range lines {
				n, rest, _ := strings.Cut(line, " ")
				request := fmt.Sprintf("p%d-%s", i, n)
				if before, repeated := acked[request]; repeated && before != rest {
					t.Errorf("%s was accepted as %q, and when repeated as %q", request, before, rest)
				}
				acked[request] = rest
				last, _ := strconv.Atoi(n)
				next[i] = max(last-5, 0) // the successor repeats some of it
			}
		}
	}
	checkStory(t, s, acked)
}

// checkStory replays the events through a model of channels and leases.
func checkStory(t *testing.T, s *Store, acked map[string]string) {
	type state struct {
		revision, generation int64
		owner                string
	}
	model := map[ResourceID]*state{}
	found, kinds := 0, map[string]int{}
	for after := int64(0); ; {
		events, err := s.Events(t.Context(), EventFilter{}, after, MaxPage)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			after = e.Sequence
			m := model[e.Resource]
			if m == nil {
				m = &state{}
				model[e.Resource] = m
			}
			if m.revision++; e.Revision != m.revision {
				t.Fatalf("event %d: revision %d of %s, want %d", e.Sequence, e.Revision, e.Resource, m.revision)
			}
			kinds[e.Type+" by a "+string(e.Actor.Class)]++
			switch e.Type {
			case "lease.claimed", "lease.taken_over":
				if free := m.owner == ""; free != (e.Type == "lease.claimed") {
					t.Errorf("event %d: %s while the owner is %q", e.Sequence, e.Type, m.owner)
				}
				if m.generation++; e.Generation != m.generation {
					t.Errorf("event %d: generation %d, want %d", e.Sequence, e.Generation, m.generation)
				}
				m.owner = e.Actor.ID
			case "lease.released":
				if e.Actor.ID != m.owner || e.Generation != m.generation {
					t.Errorf("event %d: released by %s as %d, owned by %q as %d", e.Sequence, e.Actor.ID, e.Generation, m.owner, m.generation)
				}
				m.owner = ""
			case "test.touched":
				if e.Actor.Class == HostActor && (e.Actor.ID != m.owner || e.Generation != m.generation) {
					t.Errorf("event %d: written by %s as %d, owned by %q as %d", e.Sequence, e.Actor.ID, e.Generation, m.owner, m.generation)
				}
			}
			if want, ok := acked[e.ID]; ok {
				found++
				if got := fmt.Sprint(e.Resource.Aggregate(), " ", e.Revision); got != want {
					t.Errorf("event %s: %q, acknowledged as %q", e.ID, got, want)
				}
			}
		}
	}
	t.Logf("%d commands were acknowledged; events: %v", len(acked), kinds)
	if found != len(acked) {
		t.Errorf("%d commands were acknowledged, %d are stored", len(acked), found)
	}
	for id, m := range model {
		if res, err := s.Resource(t.Context(), id); err != nil || res.Revision != m.revision {
			t.Errorf("%s: %+v (%v), the model has revision %d", id, res, err, m.revision)
		}
		if l, err := s.Lease(t.Context(), id); err != nil || l.Generation != m.generation || (l.Owner == nil) != (m.owner == "") {
			t.Errorf("%s: %+v (%v), the model has %+v", id, l, err, m)
		}
	}
}

func playEffect(s *Store) error {
	w := &EffectWorker{
		Store: s, Actor: host1, Scope: Scope{SystemScope, "all"}, Lease: 50 * time.Millisecond,
		Handlers: map[string]EffectHandler{"pr.merge": {
			Apply: func(context.Context, Begun, json.RawMessage) (Applied, error) {
				fmt.Println("applying")
				select {}
			},
		}},
	}
	_, err := w.Run(context.Background(), 1)
	return err
}

// A worker is killed between the provider's success and the receipt.
func TestKilledWorkersEffect(t *testing.T) { // R7
	for name, tc := range map[string]struct {
		observe func(context.Context, Effect, json.RawMessage) (Observation, error)
		want    EffectStatus
	}{
		"nobody can tell": {nil, EffectAmbiguous},
		"it was seen to happen": {func(context.Context, Effect, json.RawMessage) (Observation, error) {
			return Observation{Applied: true, ExternalRef: "pr-1"}, nil
		}, EffectApplied},
	} {
		t.Run(name, func(t *testing.T) {
			s := openAt(t, newPath(t), Options{})
			mustCreate(t, s, "c1")
			claim := mustClaim(t, s, host1, channel("c1"), time.Hour)
			e := mustDo(t, s, Permit{Actor: host1, Expected: 2, Claim: claim}, EnsureEffect{channel("c1"), EffectSpec{
				Type: "pr.merge", Key: "1", Payload: json.RawMessage(`{"pr":1}`), External: true, Scope: Scope{SystemScope, "all"},
			}}).Result
			p := start(t, "effect", s.Path())
			<-p.some
			p.kill(t)
			<-p.lines
			again := 0
			w := &EffectWorker{
				Store: s, Actor: host2, Scope: e.Scope,
				Handlers: map[string]EffectHandler{"pr.merge": {
					Apply:   func(context.Context, Begun, json.RawMessage) (Applied, error) { again++; return Applied{}, nil },
					Observe: tc.observe,
				}},
			}
			for {
				report, err := w.Run(t.Context(), 10)
				if err != nil {
					t.Fatal(err)
				}
				if report.Interrupted > 0 {
					break
				}
				time.Sleep(5 * time.Millisecond) // until the killed worker's ownership has expired
			}
			if _, err := w.Run(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
			got, err := s.Effect(t.Context(), e.ID)
			if err != nil || got.Status != tc.want || again != 0 {
				t.Errorf("%s after %d more tries (%v), want %s", got.Status, again, err, tc.want)
			}
			mustPassDeep(t, s.Path())
		})
	}
}
