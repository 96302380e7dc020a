package host

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/sys"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/examples"
)

var counterWasm = examples.CounterWasm

// misbehaviour is what the misbehave guest does for an input, and what must come of it.
func TestMisbehaviour(t *testing.T) {
	path := databasePath(t)
	x := load(t, nativeHost(t, path), watGuest(t, "misbehave"), Config{
		PluginID: "misbehave",
		Limits:   Limits{MemoryPages: 16, OutputBytes: 1000, ValueBytes: 1000, PrintBytes: 100},
	})
	hasty := load(t, nativeHost(t, path), watGuest(t, "misbehave"), Config{
		PluginID: "misbehave",
		Limits:   Limits{CallTime: 500 * time.Millisecond}, // enough for what comes before the loop
	})
	for _, c := range []struct {
		name, input string
		x           *Extension
		code        schema.Code // "" for success
		parts       []string
		stored      string
	}{
		{"nothing", "0", x, "", nil, ""},
		{"loop", "1", hasty, schema.Limit, []string{"500ms"}, ""},
		{"trap", "2", x, schema.Extension, []string{"unreachable", "it printed: out of tune"}, ""},
		{"outside its memory", "3", x, schema.Extension, []string{"out of bounds memory access"}, ""},
		{"exit", "4", x, schema.Extension, []string{"exited with code 3"}, ""},
		{"recursion", "5", x, schema.Extension, []string{"stack overflow"}, ""},
		{"flood", "6", x, "", nil, ""},
		{"sleep without a clock", "7", x, "", nil, "true"},
		{"memory", "8", x, "", nil, ""},
		{"output over the limit", "9", x, schema.Limit, []string{"131072 bytes", "limit of 1000"}, ""}, // G3: stops at once
		{"value over the limit", "10", x, schema.Limit, []string{"131072 bytes", "limit of 1000"}, ""},
		{"output that is not JSON", "11", x, schema.Extension, []string{"status -2 (invalid)"}, ""},
		{"loop after a write", "12", hasty, schema.Limit, []string{"500ms"}, "true"},
		{"trap after a write", "13", x, schema.Extension, []string{"unreachable"}, "true"},
		{"says why", "14", x, schema.Extension, []string{"status 7", `: "\x1b[2J` + "\uFFFD" + ` said \u202e"`}, ""},
		{"claims a lock", "15", x, schema.Extension, []string{"status -11 (locked)"}, ""},
		{"unknown status", "16", x, schema.Extension, []string{"status -1000"}, ""},
		{"exit with 0", "17", x, schema.Extension, []string{"exited with code 0 before the call returned"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			sc := sessionstate.At("session "+c.input, "", nil)
			result, err := c.x.Call(t.Context(), sc, json.RawMessage(c.input))
			if c.code == "" && err != nil {
				t.Fatal(err)
			}
			if c.code != "" {
				wantFailure(t, err, c.code, append(c.parts, `extension.call: extension "misbehave": `)...)
				if result.Output != nil {
					t.Errorf("a failed call has the output %s", result.Output)
				}
			}
			if have := stored(t, path, "misbehave", sessionstate.ScopeSession, sc); have != c.stored {
				t.Errorf("stored %q, want %q", have, c.stored)
			}
			if n := lockRows(t, path); n != 0 {
				t.Errorf("%d lock rows are left", n)
			}
			switch c.name {
			case "flood": // C73
				for _, p := range []Printed{result.Stdout, result.Stderr} {
					if len(p.Text) != 100 || p.Dropped != 16<<20-100 {
						t.Errorf("kept %d bytes, dropped %d", len(p.Text), p.Dropped)
					}
				}
			case "trap":
				if string(result.Stderr.Text) != "out of tune\n" {
					t.Errorf("standard error has %q", result.Stderr.Text)
				}
			case "exit":
				if exit := (*sys.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 3 {
					t.Errorf("the cause of %v is not the exit", err)
				}
			case "claims a lock":
				wantCause(t, err, schema.Locked)
			}
			mustCall(t, c.x, at("a"), "0", "") // and it can be called again
		})
	}
}

// A start function and an initialisation are part of the call: they have its limits and its grant.
func TestBeforeTheCall(t *testing.T) {
	path := databasePath(t)
	h := nativeHost(t, path)

	x := load(t, h, watGuest(t, "initialize"), Config{PluginID: "x"})
	for range 2 { // C71: once in each instance. C77: nothing of the last one is there
		mustCall(t, x, at("a"), "null", "1")
	}

	x = load(t, h, watGuest(t, "initialize_trap"), Config{PluginID: "x"})
	_, err := x.Call(t.Context(), at("a"), nil)
	wantFailure(t, err, schema.Extension, "trapped", "unreachable")

	x = load(t, h, watGuest(t, "start_loop"), Config{PluginID: "x", Limits: Limits{CallTime: 50 * time.Millisecond}})
	_, err = x.Call(t.Context(), at("a"), nil)
	wantFailure(t, err, schema.Limit, "call time of 50ms")

	mustCall(t, load(t, h, watGuest(t, "both_starts"), Config{PluginID: "x"}), at("a"), "null", "")

	x = load(t, h, watGuest(t, "start_writes"), Config{PluginID: "x"})
	if have := stored(t, path, "x", sessionstate.ScopeSession, at("a")); have != "" {
		t.Errorf("loading ran the guest: it stored %s", have)
	}
	mustCall(t, x, at("a"), "null", "")
	if have := stored(t, path, "x", sessionstate.ScopeSession, at("a")); have != "1" {
		t.Errorf("stored %q", have)
	}
}

// C76: instances have no names that could collide, whatever the module calls itself.
func TestInstancesAtOnce(t *testing.T) {
	path := databasePath(t)
	inside := make(chan struct{})
	h := hostOver(t, spy(openStore(t, path), func(string) {
		select {
		case inside <- struct{}{}: // two instances have to be here at the same time
		case <-inside:
		}
	}))
	x := load(t, h, watGuest(t, "start_writes"), Config{PluginID: "x"})
	y := load(t, h, watGuest(t, "start_writes"), Config{PluginID: "y"})
	for _, other := range []*Extension{x, y} {
		errs := make(chan error)
		go func() {
			_, err := other.Call(context.Background(), at("a"), nil)
			errs <- err
		}()
		mustCall(t, x, sessionstate.At("s2", "", nil), "", "")
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// C75: when the caller's context ends, the call ends, wherever it is.
func TestCancel(t *testing.T) {
	path := databasePath(t)
	reason := errors.New("the user pressed escape")

	t.Run("before", func(t *testing.T) {
		x := load(t, nativeHost(t, path), counterWasm, Config{PluginID: "x"})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(reason)
		_, err := x.Call(ctx, at("a"), json.RawMessage("1"))
		wantFailure(t, err, schema.Canceled, reason.Error())
		if !errors.Is(err, reason) {
			t.Error("the cause is lost")
		}
		if have := stored(t, path, "x", sessionstate.ScopeSession, at("a")); have != "" {
			t.Errorf("stored %s", have)
		}
	})
	t.Run("deadline of the caller", func(t *testing.T) {
		x := load(t, nativeHost(t, path), watGuest(t, "misbehave"), Config{PluginID: "x"})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := x.Call(ctx, at("a"), json.RawMessage("1"))
		wantFailure(t, err, schema.Canceled)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the cause of %v is lost", err)
		}
	})
	t.Run("in a loop", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		// The guest stores a value and then loops.
		h := hostOver(t, spy(openStore(t, path), func(string) { cancel(reason) }))
		x := load(t, h, watGuest(t, "misbehave"), Config{PluginID: "x"})
		_, err := x.Call(ctx, at("a"), json.RawMessage("12"))
		wantFailure(t, err, schema.Canceled, reason.Error())
	})
	t.Run("between imports, without a loop", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		writes := 0
		h := hostOver(t, spy(openStore(t, path), func(op string) {
			if op == "read" {
				cancel(reason)
				return
			}
			writes++
		}))
		x := load(t, h, counterWasm, Config{PluginID: "y"})
		_, err := x.Call(ctx, at("a"), json.RawMessage("1"))
		wantFailure(t, err, schema.Canceled, reason.Error())
		if writes != 0 {
			t.Errorf("the guest wrote %d times after the end", writes)
		}
	})
	t.Run("in a write that waits", func(t *testing.T) {
		conn := rawConn(t, path)
		ctx, cancel := context.WithCancelCause(t.Context())
		h := hostOver(t, spy(openStore(t, path), func(op string) {
			if op == "write" {
				mustExec(t, conn, `BEGIN IMMEDIATE`)
				time.AfterFunc(20*time.Millisecond, func() { cancel(reason) })
			}
		}))
		x := load(t, h, watGuest(t, "start_writes"), Config{PluginID: "z"})
		_, err := x.Call(ctx, at("a"), nil)
		wantFailure(t, err, schema.Canceled, reason.Error())
		mustExec(t, conn, `ROLLBACK`)
		if n := lockRows(t, path); n != 0 {
			t.Errorf("%d lock rows are left", n)
		}
		if have := stored(t, path, "z", sessionstate.ScopeSession, at("a")); have != "" {
			t.Errorf("stored %s", have)
		}
	})
	t.Run("asleep", func(t *testing.T) {
		x := load(t, nativeHost(t, path), watGuest(t, "misbehave"), Config{
			PluginID: "w",
			Limits:   Limits{CallTime: 50 * time.Millisecond},
			Grants:   Grants{Clock: true},
		})
		_, err := x.Call(t.Context(), at("a"), json.RawMessage("7")) // an hour
		wantFailure(t, err, schema.Limit, "call time of 50ms")
		if have := stored(t, path, "w", sessionstate.ScopeSession, at("a")); have != "" {
			t.Errorf("it woke up and stored %s", have)
		}
	})
}

// G1: without grants there is nothing of the machine to see, and every call sees the same.
func TestGrants(t *testing.T) {
	h := nativeHost(t, databasePath(t))
	t.Setenv("HOST_TEST_SECRET", "x")
	bare := load(t, h, goProbe(t), Config{PluginID: "bare"})
	granted := load(t, h, goProbe(t), Config{PluginID: "granted", Grants: Grants{Clock: true, Random: true}})
	for _, x := range []*Extension{bare, granted} {
		mustCall(t, x, at("a"), `["world"]`, `{"args":0,"env":0,"stdin":0,"files":false}`)
	}

	for range 2 {
		mustCall(t, bare, at("a"), `["clock"]`, `[1577836800,true]`) // slept an hour in no time
	}
	mustCall(t, bare, at("a"), `["spin"]`, `{}`)
	random := func(x *Extension) string {
		t.Helper()
		result, err := x.Call(t.Context(), at("a"), json.RawMessage(`["random"]`))
		if err != nil {
			t.Fatal(err)
		}
		return string(result.Output)
	}
	if a, b := random(bare), random(bare); a != b || strings.Trim(a, `"0`) == "" {
		t.Errorf("random bytes of two calls: %s, %s", a, b)
	}
	if a, b := random(granted), random(granted); a == b {
		t.Errorf("random bytes of two calls are the same: %s", a)
	}
}

// The made-up clock takes any duration.
func TestMadeUpClock(t *testing.T) {
	c := &madeUpClock{}
	for _, ns := range []int64{5, 1 << 62, 1 << 62, -1, 1<<63 - 1} {
		before := c.elapsed
		c.sleep(ns)
		if c.elapsed < before {
			t.Fatalf("a sleep of %d turned the clock back", ns)
		}
	}
	if sec, nsec := c.walltime(); sec < madeUpStart || nsec < 0 {
		t.Errorf("walltime %d, %d", sec, nsec)
	}
}

// How the end of a Go guest looks to the embedder.
func TestGoGuestEnds(t *testing.T) {
	h := nativeHost(t, databasePath(t))
	x := load(t, h, goProbe(t), Config{PluginID: "probe"})
	for input, parts := range map[string][]string{
		`["panic"]`:    {"trapped", "panic: probe was told to panic"},
		`["exit"]`:     {"exited with code 4"},
		`["allocate"]`: {"trapped", "out of memory"}, // C68
	} {
		result, err := x.Call(t.Context(), at("a"), json.RawMessage(input))
		wantFailure(t, err, schema.Extension, parts...)
		if input == `["exit"]` && string(result.Stdout.Text) != "leaving\n" {
			t.Errorf("standard output has %q", result.Stdout.Text)
		}
	}
	mustCall(t, x, at("a"), `["read",0]`, `{"found":false}`)
}

func TestCallRefuses(t *testing.T) {
	x := load(t, nativeHost(t, databasePath(t)), counterWasm, Config{PluginID: "counter", Limits: Limits{InputBytes: 10}})
	for _, c := range []struct {
		name  string
		sc    sessionstate.SessionContext
		input string
		code  schema.Code
		text  string
	}{
		{"no context", nil, "1", schema.Invalid, "no session context"},
		{"no session id", sessionstate.At("", "a", tree), "1", schema.Invalid, "no session id"},
		{"not JSON", at("a"), "one", schema.Invalid, "input is not JSON"},
		{"two documents", at("a"), "1 2", schema.Invalid, "input is not JSON"},
		{"too long", at("a"), "          1", schema.Limit, "11 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := x.Call(t.Context(), c.sc, json.RawMessage(c.input))
			wantFailure(t, err, c.code, c.text)
		})
	}
}
