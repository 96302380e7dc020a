package store

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"pistate/internal/sqlite"
	"pistate/schema"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// roleEnv makes the test binary play another process.
const roleEnv = "PISTATE_TEST_ROLE"

func TestMain(m *testing.M) {
	for _, row := range testOperations {
		operations[row.Op] = row
	}
	if role := os.Getenv(roleEnv); role != "" {
		if err := play(role, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if raceDetector {
		if err := flag.Set("rapid.checks", "5"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// The aggregate of these tests is a channel, which has the fewest columns of all.
var testOperations = []Operation{
	{Op: "test.create", Rights: rights(Right{}, SessionActor, HostActor)},
	{Op: "test.touch", Rights: map[ActorClass]Right{SessionActor: {}, HostActor: {Own: OwnSubject}}},
}

// create makes a channel.
type create struct {
	Channel string `json:"channel"`
}

func (create) Op() Op { return "test.create" }

func (c create) prepare(d *draft) *plan[struct{}] {
	d.id("channel", c.Channel)
	id := NewResourceID(ChannelResource, c.Channel)
	return &plan[struct{}]{
		subject: id,
		creates: true,
		payload: c,
		decide: func(f *facts) (*change[struct{}], error) {
			return &change[struct{}]{
				steps: []step{{resource: id, creates: true, event: "test.created"}},
				rows: func(tx *sqlite.Tx) error {
					_, err := tx.Exec(`INSERT INTO channels (channel_id, adapter_type, profile, created_at, updated_at)
						VALUES (?1, 'test', ?1, ?2, ?2)`, c.Channel, int64(f.now))
					return err
				},
			}, nil
		},
	}
}

// touch moves a channel, and others with it. It does all that a command can.
type touch struct {
	Channel string          `json:"channel"`
	Data    json.RawMessage `json:"data,omitempty"`
	Also    []string        `json:"also,omitempty"`    // other channels that it moves
	Effects []EffectSpec    `json:"effects,omitempty"` // that follow
	Refuse  string          `json:"refuse,omitempty"`  // the state that doesn't allow it

	row func(tx *sqlite.Tx) error // of the domain, besides the channel's
}

func (touch) Op() Op { return "test.touch" }

func (c touch) prepare(d *draft) *plan[int] {
	d.id("channel", c.Channel)
	id := NewResourceID(ChannelResource, c.Channel)
	if c.Data != nil {
		d.json("data", c.Data)
	}
	var effects []*effectDraft
	for _, spec := range c.Effects {
		effects = append(effects, d.effect(id, spec))
	}
	steps := []step{{resource: id, event: "test.touched"}}
	for _, other := range c.Also {
		steps = append(steps, step{resource: NewResourceID(ChannelResource, other), event: "test.touched_too"})
	}
	return &plan[int]{
		subject:  id,
		payload:  c,
		repeated: func(*sqlite.Rx, Event) (int, error) { return len(steps), nil },
		decide: func(f *facts) (*change[int], error) {
			if c.Refuse != "" {
				return nil, illegal(f, c.Refuse)
			}
			return &change[int]{
				result:  len(steps),
				steps:   steps,
				effects: effects,
				rows: func(tx *sqlite.Tx) error {
					for _, channel := range append([]string{c.Channel}, c.Also...) {
						if _, err := tx.Exec("UPDATE channels SET updated_at = ?2 WHERE channel_id = ?1", channel, int64(f.now)); err != nil {
							return err
						}
					}
					if c.row == nil {
						return nil
					}
					return c.row(tx)
				},
			}, nil
		},
	}
}

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.UnixMilli(1_800_000_000_000)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *clock) millis() Millis { return MillisOf(c.Now()) }

// seeded is a repeatable source of randomness.
func seeded(seed uint64) io.Reader {
	var b [32]byte
	b[0], b[1] = byte(seed), byte(seed>>8)
	return rand.NewChaCha8(b)
}

// empty returns the bytes of an empty database, which takes less time to copy than to create.
var empty = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "pistate-store-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "state.sqlite")
	s, err := Open(context.Background(), path, Options{Now: newClock().Now})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// newPath returns the path of an empty database.
func newPath(t testing.TB) string {
	t.Helper()
	bytes, err := empty()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state.sqlite")
	if err := os.WriteFile(path, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newStore opens an empty database with a clock of its own.
func newStore(t testing.TB) (*Store, *clock) {
	t.Helper()
	c := newClock()
	return openAt(t, newPath(t), Options{Now: c.Now, Random: seeded(1)}), c
}

// openStore is newStore for a test that damages nothing: at its end the database passes every check.
func openStore(t testing.TB) (*Store, *clock) {
	t.Helper()
	s, c := newStore(t)
	t.Cleanup(func() {
		if t.Failed() || raceDetector {
			return
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		mustPassDeep(t, s.Path())
	})
	return s, c
}

func openAt(t testing.TB, path string, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // closing twice is harmless
	return s
}

func mustPassDeep(t testing.TB, path string) {
	t.Helper()
	report, err := Check(context.Background(), path, CheckOptions{Deep: true})
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		t.Error(err)
	}
}

var (
	session1 = Actor{SessionActor, "s1"}
	host1    = Actor{HostActor, "h1"}
	host2    = Actor{HostActor, "h2"}
	system   = Actor{SystemActor, "upkeep"}
)

func channel(id string) ResourceID { return NewResourceID(ChannelResource, id) }

// mustDo carries out a command that must be accepted.
func mustDo[R any](t testing.TB, s *Store, p Permit, cmd Command[R]) Done[R] {
	t.Helper()
	done, err := Do(context.Background(), s, p, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func mustCreate(t testing.TB, s *Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		mustDo(t, s, Permit{Actor: session1}, create{id})
	}
}

func mustClaim(t testing.TB, s *Store, actor Actor, resource ResourceID, ttl time.Duration) *Claim {
	t.Helper()
	return mustDo(t, s, Permit{Actor: actor, Expected: AnyRevision}, ClaimLease{resource, ttl.Milliseconds()}).Result
}

// wantCode fails unless an error has a code, and a cause of type C if there is one to return.
func wantCode(t testing.TB, err error, code schema.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("%v (code %q), want code %q", err, schema.CodeOf(err), code)
	}
}

func cause[C error](t testing.TB, err error) C {
	t.Helper()
	var c C
	if !errors.As(err, &c) {
		t.Fatalf("%v has no %T", err, c)
	}
	return c
}

// dump returns everything that is in a database, as the C program prints it.
func dump(t testing.TB, path string) string {
	t.Helper()
	return sqlite3CLI(t, path, ".dump")
}

func sqlite3CLI(t testing.TB, path, sql string) string {
	t.Helper()
	cmd := exec.Command("sqlite3", "-readonly", "-bail", path)
	cmd.Stdin = strings.NewReader(".timeout 5000\n" + sql + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("sqlite3: %v\n%s", err, out)
	}
	return string(out)
}

// plant changes a database behind the product's back: without triggers, CHECKs and foreign keys.
func plant(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(sql string) {
		t.Helper()
		if err := db.Exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec("PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; BEGIN IMMEDIATE")
	triggers := map[string]string{}
	list, _, err := db.Prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
	if err != nil {
		t.Fatal(err)
	}
	for list.Step() {
		triggers[list.ColumnText(0)] = list.ColumnText(1)
	}
	if err := list.Close(); err != nil {
		t.Fatal(err)
	}
	for name := range triggers {
		exec("DROP TRIGGER " + name)
	}
	for _, sql := range statements {
		exec(sql)
	}
	for _, sql := range triggers {
		exec(sql)
	}
	exec("COMMIT")
}

// rawOpen opens a database without the product.
func rawOpen(t testing.TB, path string) *sqlite3.Conn {
	t.Helper()
	db, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs (go test ./store -update rewrites it):\n%s", path, got)
	}
}
