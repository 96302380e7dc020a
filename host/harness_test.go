package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"pistate/schema"
	"pistate/sessionstate"
)

// scratch holds what the tests of one process share: the Go guests, and the code that wazero makes of them.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "host-test-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch)
		return m.Run()
	}())
}

// goGuest builds a Go extension, once for each package path.
func goGuest(t testing.TB, path string) []byte {
	t.Helper()
	build, _ := goGuests.LoadOrStore(path, sync.OnceValues(func() ([]byte, error) {
		out := filepath.Join(scratch, filepath.Base(path)+".wasm")
		cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o", out, path)
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOWASM=")
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%v: %v\n%s", cmd, err, text)
		}
		return os.ReadFile(out)
	}))
	wasm, err := build.(func() ([]byte, error))()
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

var goGuests sync.Map // path to func() ([]byte, error)

func goCounter(t testing.TB) []byte { t.Helper(); return goGuest(t, "pistate/wasm/examples/counter") }
func goProbe(t testing.TB) []byte   { t.Helper(); return goGuest(t, "./testdata/probe") }

// watGuest returns one of the assembled guests.
func watGuest(t testing.TB, name string) []byte {
	t.Helper()
	wasm, err := os.ReadFile(filepath.Join("testdata", name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func openStore(t testing.TB, path string) *sessionstate.Store {
	t.Helper()
	store, err := sessionstate.Open(context.Background(), path, sessionstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func databasePath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "states.sqlite")
}

// nativeHost is a host in this process over the database at a path.
func nativeHost(t testing.TB, path string) *Host {
	t.Helper()
	return hostOver(t, Native(openStore(t, path)))
}

func hostOver(t testing.TB, engine Engine) *Host {
	t.Helper()
	h, err := New(Options{Engine: engine, Isolation: InProcess, CacheDir: filepath.Join(scratch, "cache")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// patient is for tests in which nothing is to run out of time on a slow machine.
var patient = Limits{CallTime: time.Minute, CompileTime: 5 * time.Minute}

func load(t testing.TB, h *Host, wasm []byte, cfg Config) *Extension {
	t.Helper()
	if cfg.Limits.CallTime == 0 {
		cfg.Limits.CallTime = patient.CallTime
	}
	cfg.Limits.CompileTime = patient.CompileTime
	x, err := h.Load(context.Background(), wasm, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// tree is a - b, which forks into c - d and e - f. The keys are a, c and e.
var tree = func() *sessionstate.Index {
	index := sessionstate.NewIndex()
	for _, entry := range [][2]string{{"a", ""}, {"b", "a"}, {"c", "b"}, {"d", "c"}, {"e", "b"}, {"f", "e"}} {
		if err := index.Add(entry[0], entry[1]); err != nil {
			panic(err)
		}
	}
	return index
}()

// placesOf gives the places of a session that is the test's own.
func placesOf(t *testing.T) func(leaf string) sessionstate.SessionContext {
	return func(leaf string) sessionstate.SessionContext { return sessionstate.At(t.Name(), leaf, tree) }
}

// at is a place in session s1.
func at(leaf string) sessionstate.SessionContext { return sessionstate.At("s1", leaf, tree) }

// mustCall fails the test unless the call succeeds with this output.
func mustCall(t testing.TB, x *Extension, sc sessionstate.SessionContext, input, want string) {
	t.Helper()
	result, err := x.Call(context.Background(), sc, json.RawMessage(input))
	if err != nil {
		t.Fatalf("call with %s: %v\n%s", input, err, result.Stderr.Text)
	}
	if string(result.Output) != want {
		t.Fatalf("call with %s: %s, want %s", input, result.Output, want)
	}
}

// wantFailure fails the test unless the error has the code, and its text each of the parts.
func wantFailure(t testing.TB, err error, code schema.Code, parts ...string) {
	t.Helper()
	if schema.CodeOf(err) != code {
		t.Fatalf("error is %v (%q), want code %q", err, schema.CodeOf(err), code)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error is %q, want %q in it", err, part)
		}
	}
}

// stored returns what a plugin's scope holds at a place, "" if nothing.
func stored(t testing.TB, path, plugin string, scope sessionstate.Scope, sc sessionstate.SessionContext) string {
	t.Helper()
	value, found, err := stateOf(t, path, plugin, scope).Read(context.Background(), sc)
	if err != nil {
		t.Fatal(err)
	}
	if found != (value != nil) {
		t.Fatalf("found is %v with value %q", found, value)
	}
	return string(value)
}

func store(t testing.TB, path, plugin string, scope sessionstate.Scope, sc sessionstate.SessionContext, value string) {
	t.Helper()
	if err := stateOf(t, path, plugin, scope).Write(context.Background(), sc, json.RawMessage(value)); err != nil {
		t.Fatal(err)
	}
}

func stateOf(t testing.TB, path, plugin string, scope sessionstate.Scope) *sessionstate.State {
	t.Helper()
	s, err := sessionstate.New(openStore(t, path), sessionstate.Config{PluginID: plugin, Scope: scope})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// spy is an engine of real states that tells of each use before it happens.
func spy(store *sessionstate.Store, use func(op string)) Engine {
	return Engine{open: func(plugin string) (states, error) {
		real, err := Native(store).open(plugin)
		return states{session: spied{real.session, use}, branch: spied{real.branch, use}}, err
	}}
}

type spied struct {
	state
	use func(op string)
}

func (s spied) Read(ctx context.Context, sc sessionstate.SessionContext) (json.RawMessage, bool, error) {
	s.use("read")
	return s.state.Read(ctx, sc)
}

func (s spied) Write(ctx context.Context, sc sessionstate.SessionContext, value json.RawMessage) error {
	s.use("write")
	return s.state.Write(ctx, sc, value)
}

// instance is a running instance of the driver guest, whose imports a test calls one by one.
type instance struct {
	t   testing.TB
	g   *guest
	ctx context.Context
	mod api.Module
}

// drive makes an instance of the driver as a call at a place of session s1 would.
func drive(t testing.TB, x *Extension, sc sessionstate.SessionContext) *instance {
	t.Helper()
	grant, err := newGrant(x.states, sc, x.cfg.Limits)
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{grant: grant, limits: x.cfg.Limits, input: []byte(`{"in":1}`)}
	ctx := context.WithValue(context.Background(), guestKey{}, g)
	mod, err := x.code.runtime.InstantiateModule(ctx, x.code.compiled, sandbox(ctx, g, x.cfg.Grants))
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{t: t, g: g, ctx: ctx, mod: mod}
	i.fill()
	t.Cleanup(func() { mod.Close(context.Background()) })
	return i
}

// fill makes every byte of the guest's memory a question mark.
func (i *instance) fill() {
	all, _ := i.mod.Memory().Read(0, i.mod.Memory().Size())
	copy(all, bytes.Repeat([]byte("?"), len(all)))
}

// put places bytes in the guest's memory.
func (i *instance) put(at uint32, text string) {
	i.t.Helper()
	if !i.mod.Memory().WriteString(at, text) {
		i.t.Fatalf("%d bytes at %d do not fit", len(text), at)
	}
}

// garbage fills the upper halves of the parameters, which belong to nobody.
const garbage = uint64(0xdeadbeef) << 32

// call calls an import through the driver. Results are sign-extended.
func (i *instance) call(name string, args ...uint32) int64 {
	i.t.Helper()
	n, err := i.try(name, args...)
	if err != nil {
		i.t.Fatalf("%s%v: %v", name, args, err)
	}
	return n
}

func (i *instance) try(name string, args ...uint32) (int64, error) {
	params := make([]uint64, len(args))
	for k, a := range args {
		params[k] = garbage | uint64(a)
	}
	f := i.mod.ExportedFunction(name)
	if f == nil {
		return 0, errors.New("the driver has no " + name)
	}
	result, err := f.Call(i.ctx, params...)
	if err != nil {
		return 0, err
	}
	if f.Definition().ResultTypes()[0] == 0x7f { // i32
		return int64(int32(uint32(result[0]))), nil
	}
	return int64(result[0]), nil
}

// message returns the text of the last error.
func (i *instance) message() string {
	i.t.Helper()
	const buf, room = 60000, 5000
	n := i.call("error_message", buf, room)
	text, ok := i.mod.Memory().Read(buf, uint32(n))
	if !ok {
		i.t.Fatalf("error_message says %d", n)
	}
	return string(text)
}

// wantMemory fails unless the memory holds these bytes at these places and question marks everywhere else.
func (i *instance) wantMemory(what string, pieces map[uint32]string) {
	i.t.Helper()
	size := i.mod.Memory().Size()
	want := bytes.Repeat([]byte("?"), int(size))
	for at, text := range pieces {
		copy(want[at:], text)
	}
	have, _ := i.mod.Memory().Read(0, size)
	for k := range want {
		if have[k] != want[k] {
			from, to := max(0, k-8), min(len(want), k+24)
			i.t.Fatalf("%s: memory differs at %d: %q, want %q", what, k, have[from:to], want[from:to])
		}
	}
}
