package host

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pistate/schema"
	"pistate/sessionstate"
)

// TestConformance runs everything that an extension can tell of its host on each kind of host (G4).
func TestConformance(t *testing.T) {
	for _, engine := range engines {
		t.Run(engine.name, func(t *testing.T) { exercise(t, engine.start(t)) })
	}
}

// exercise is the suite. What extensions store is checked from outside of the engine, as far as there is an
// outside (see the kinds of outside). Each part has sessions of its own.
func exercise(t *testing.T, s subject) {
	for name, wasm := range map[string][]byte{"go": goCounter(t), "wat": counterWasm} {
		t.Run("counter-"+name, func(t *testing.T) {
			x := load(t, s.host, wasm, Config{PluginID: "counter"})
			for name, exercise := range map[string]func(*testing.T, *Extension, outside){
				"branches":               exerciseBranches,
				"before the first entry": exerciseKeyless,
				"input":                  exerciseInput,
				"stored garbage":         exerciseGarbage,
				"refused by the store":   exerciseRefused,
				"at once":                exerciseAtOnce,
				"sessions":               exerciseSessions,
				"other processes":        exerciseOthers,
			} {
				t.Run(name, func(t *testing.T) { exercise(t, x, s.outside) })
			}
		})
	}
	x := load(t, s.host, goProbe(t), Config{PluginID: "probe"})
	t.Run("operations", func(t *testing.T) { exerciseOperations(t, x, s.outside) })
	t.Run("values", func(t *testing.T) { exerciseValues(t, x, s.outside) })
	t.Run("errors", func(t *testing.T) { exerciseErrors(t, x, s.outside) })
	t.Run("plugins", func(t *testing.T) { exercisePlugins(t, s.host) })
}

// Y12, C22: what another process stores is seen by the next call, though this one has read the value before.
func exerciseOthers(t *testing.T, x *Extension, o outside) {
	at := placesOf(t)("a")
	mustCall(t, x, at, "1", `{"session":1,"branch":1}`)
	added := o.add(t, t.Name(), 40)
	mustCall(t, x, at, "0", fmt.Sprintf(`{"session":%d,"branch":%[1]d}`, 1+added))
	mustCall(t, x, at, "1", fmt.Sprintf(`{"session":%d,"branch":%[1]d}`, 2+added))
}

// Y3: a branch sees what was counted above the fork, and counts on from there by itself.
func exerciseBranches(t *testing.T, x *Extension, o outside) {
	at := placesOf(t)
	for _, step := range []struct{ leaf, input, want string }{
		{"a", "0", `{"session":0,"branch":0}`},
		{"a", "2", `{"session":2,"branch":2}`},
		{"b", "1", `{"session":3,"branch":3}`},    // the same run as a
		{"c", "10", `{"session":13,"branch":13}`}, // inherits 3
		{"e", "0", `{"session":13,"branch":3}`},   // so does the sibling
		{"f", "100", `{"session":113,"branch":103}`},
		{"d", "0", `{"session":113,"branch":13}`},
		{"b", "0", `{"session":113,"branch":3}`}, // what came below does not change what is above
	} {
		mustCall(t, x, at(step.leaf), step.input, step.want)
	}
	for leaf, want := range map[string]string{"a": "3", "c": "13", "e": "103"} {
		if have := o.stored(t, "counter", sessionstate.ScopeBranch, at(leaf)); have != want {
			t.Errorf("branch %s holds %s, want %s", leaf, have, want)
		}
	}
	if have := o.stored(t, "counter", sessionstate.ScopeSession, at("a")); have != "113" {
		t.Errorf("session holds %s, want 113", have)
	}
}

// Y7: before there is a key, a branch's count is kept in memory and lands under the first key.
func exerciseKeyless(t *testing.T, x *Extension, o outside) {
	at := placesOf(t)
	mustCall(t, x, at(""), "4", `{"session":4,"branch":4}`)
	mustCall(t, x, at(""), "1", `{"session":5,"branch":5}`)
	mustCall(t, x, at("a"), "0", `{"session":5,"branch":5}`)
	if have := o.stored(t, "counter", sessionstate.ScopeBranch, at("a")); have != "5" {
		t.Errorf("branch a holds %q, want 5", have)
	}
}

func exerciseInput(t *testing.T, x *Extension, o outside) {
	at := placesOf(t)
	mustCall(t, x, at("a"), " \n\t7\r\n", `{"session":7,"branch":7}`)
	mustCall(t, x, at("a"), strings.Repeat(" ", 63)+"1", `{"session":8,"branch":8}`)
	for _, input := range []string{
		"", "null", "true", `"5"`, "-1", "-0", "1.0", "1e3", "[]", `{"n":1}`, "9007199254740992", "9007199254740993",
		"18446744073709551616", "99999999999999999999999999", strings.Repeat(" ", 64) + "1",
	} {
		_, err := x.Call(context.Background(), at("a"), json.RawMessage(input))
		wantFailure(t, err, schema.Extension, `extension "counter"`, "status 1", "input is not a count from 0 to 9007199254740991")
	}
	// The largest count, and not one more (C23).
	mustCall(t, x, at("a"), "9007199254740983", `{"session":9007199254740991,"branch":9007199254740991}`)
	mustCall(t, x, at("a"), "0", `{"session":9007199254740991,"branch":9007199254740991}`)
	_, err := x.Call(context.Background(), at("a"), json.RawMessage("1"))
	wantFailure(t, err, schema.Extension, "the sum exceeds 9007199254740991")
	if have := o.stored(t, "counter", sessionstate.ScopeSession, at("a")); have != "9007199254740991" {
		t.Errorf("session holds %s after a refused count", have)
	}
}

// What is stored may come from another program. It is left alone if it is no count, in both scopes.
func exerciseGarbage(t *testing.T, x *Extension, o outside) {
	at := placesOf(t)
	scopes := []sessionstate.Scope{sessionstate.ScopeSession, sessionstate.ScopeBranch}
	for k, value := range []string{
		`null`, `-1`, `1.5`, `"1"`, `{"count":1}`, `9007199254740992`, `18446744073709551617`,
		strings.Repeat(" ", 64) + "1", `"` + strings.Repeat("x", 5000) + `"`,
	} {
		for i, scope := range scopes {
			sc := sessionstate.At(fmt.Sprintf("%s %s %d", t.Name(), scope, k), "a", tree)
			o.store(t, "counter", scope, sc, value)
			_, err := x.Call(context.Background(), sc, json.RawMessage("1"))
			wantFailure(t, err, schema.Extension, "status 1", "the stored value is not a count")
			if have := o.stored(t, "counter", scope, sc); have != value {
				t.Errorf("%s holds %.40q, want it as it was", scope, have)
			}
			if have := o.stored(t, "counter", scopes[1-i], sc); have != "" {
				t.Errorf("%s counted %s although %s can't", scopes[1-i], have, scope)
			}
		}
	}
	// White space around a number is no garbage, only unusual. What isn't JSON can be in the file all the same.
	o.store(t, "counter", sessionstate.ScopeSession, at("a"), "\n 41\t")
	mustCall(t, x, at("a"), "1", `{"session":42,"branch":1}`)
	for k, value := range []string{"", " ", "1 2", "\x011", "0x10", "+1", "1_000", "٣"} {
		session := fmt.Sprintf("%s raw %d", t.Name(), k)
		if !o.plant(t, "counter", session, value) {
			continue
		}
		_, err := x.Call(context.Background(), sessionstate.At(session, "", nil), json.RawMessage("1"))
		wantFailure(t, err, schema.Extension, "the stored value is not a count")
	}
}

// An error of the store reaches the guest as number and text, and the embedder as code and cause.
func exerciseRefused(t *testing.T, x *Extension, o outside) {
	at := placesOf(t)
	if o.lock(t, t.Name()) {
		_, err := x.Call(context.Background(), at("a"), json.RawMessage("1"))
		wantFailure(t, err, schema.Extension, "status -11 (locked)", "another process holds the session", "pid:") // the embedder learns who
		wantCause(t, err, schema.Locked)
		wantLock(t, err, t.Name())
	}
	mustCall(t, x, at("a"), "0", `{"session":0,"branch":0}`) // reading takes no lock (Y6)
	mustCall(t, x, sessionstate.At(t.Name()+" other", "a", tree), "1", `{"session":1,"branch":1}`)
}

// C22: calls at the same time lose no count.
func exerciseAtOnce(t *testing.T, x *Extension, o outside) {
	at := placesOf(t)
	const callers, calls = 4, 6
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				if _, err := x.Call(context.Background(), at("a"), json.RawMessage("1")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want := fmt.Sprint(callers * calls)
	for _, scope := range []sessionstate.Scope{sessionstate.ScopeSession, sessionstate.ScopeBranch} {
		if have := o.stored(t, "counter", scope, at("a")); have != want {
			t.Errorf("%s holds %s, want %s", scope, have, want)
		}
	}
}

func exerciseOperations(t *testing.T, x *Extension, o outside) {
	at := placesOf(t)
	for _, step := range []struct{ leaf, input, want string }{
		{"", `["key"]`, `{"found":false}`},
		{"b", `["key"]`, `{"found":true,"value":"a"}`},
		{"f", `["key"]`, `{"found":true,"value":"e"}`},

		{"a", `["read",0]`, `{"found":false}`},
		{"a", `["read",1]`, `{"found":false}`},
		{"a", `["write",0,null]`, `{}`},
		{"a", `["read",0]`, `{"found":true,"value":null}`}, // Y8: a stored null is a value
		{"a", `["read",1]`, `{"found":false}`},
		{"a", `["drop",0]`, `{}`},
		{"a", `["read",0]`, `{"found":false}`},
		{"a", `["drop",0]`, `{}`}, // nothing to drop is no failure

		{"a", `["write",1,"above"]`, `{}`},
		{"c", `["read",1]`, `{"found":true,"value":"above"}`},
		{"c", `["write",1,"own"]`, `{}`},
		{"d", `["read",1]`, `{"found":true,"value":"own"}`},
		{"d", `["drop",1]`, `{}`},
		{"c", `["read",1]`, `{"found":true,"value":"above"}`}, // inherits again
		{"a", `["drop",1]`, `{}`},
		{"a", `["read",1]`, `{"found":false}`},

		{"a", `["cas",0,-1,null,1]`, `{}`},
		{"a", `["cas",0,1,1,2]`, `{}`},
		{"a", `["read",0]`, `{"found":true,"value":2}`},
		{"a", `["cas",0,1,2,"` + strings.Repeat("y", 6000) + `"]`, `{}`},
		{"a", `["read",0]`, `{"found":true,"value":"` + strings.Repeat("y", 6000) + `"}`}, // longer than the SDK's buffer
	} {
		mustCall(t, x, at(step.leaf), step.input, step.want)
	}
	if have := o.stored(t, "probe", sessionstate.ScopeSession, at("a")); len(have) != 6002 {
		t.Errorf("session holds %d bytes", len(have))
	}
}

// C23: what is read is byte for byte what was written, or the write is refused.
func exerciseValues(t *testing.T, x *Extension, o outside) {
	at := placesOf(t)
	for _, value := range []string{
		`9007199254740993`, `1e400`, `-0`, `1e6`, `1000000`, `0.10`, `{"a":1,"a":2}`, `{ "b":1, "a" : 2 }`,
		`"\ud800"`, `"\u0041"`, `"\u0000"`, `"ünïcödé \u2028"`, `[ ]`, `""`, `false`, ` 1 `,
	} {
		mustCall(t, x, at("a"), `["write",0,`+value+`]`, `{}`)
		mustCall(t, x, at("a"), `["read",0]`, `{"found":true,"value":`+value+`}`)
		if have := o.stored(t, "probe", sessionstate.ScopeSession, at("a")); have != value {
			t.Errorf("stored %q, want %q", have, value)
		}
	}
}

func exerciseErrors(t *testing.T, x *Extension, o outside) {
	at := placesOf(t)
	for _, step := range []struct {
		leaf, input string
		code        schema.Code
		text        string
	}{
		{"a", `["read",7]`, schema.Invalid, "scope 7"},
		{"a", `["read",-1]`, schema.Invalid, "scope -1"},
		{"a", `["write",2,1]`, schema.Invalid, "scope 2"},
		{"a", `["drop",2]`, schema.Invalid, "scope 2"},
		{"a", `["cas",2,-1,null,1]`, schema.Invalid, "scope 2"},
		{"a", `["write",0,1,2]`, schema.Invalid, "not JSON"}, // the probe passes "1,2"
		{"a", `["write",0]`, schema.Invalid, "value"},        // and here nothing
		{"a", `["cas",0,1,2,3]`, schema.Conflict, "read it"},
		{"x", `["read",1]`, schema.NotFound, "tree"},
		{"x", `["write",1,1]`, schema.NotFound, "tree"},
		{"x", `["key"]`, schema.NotFound, "tree"},
	} {
		result, err := x.Call(context.Background(), at(step.leaf), json.RawMessage(step.input))
		if err != nil {
			t.Fatalf("%s: %v", step.input, err)
		}
		var told struct {
			Code    schema.Code
			Message string
		}
		if err := json.Unmarshal(result.Output, &told); err != nil {
			t.Fatalf("%s: %v in %s", step.input, err, result.Output)
		}
		if told.Code != step.code || !strings.Contains(told.Message, step.text) {
			t.Errorf("%s at %q: guest got %q, %q; want %q, %q", step.input, step.leaf, told.Code, told.Message, step.code, step.text)
		}
	}
	if have := o.stored(t, "probe", sessionstate.ScopeSession, at("a")); have != "" {
		t.Errorf("a refused write stored %s", have)
	}

	// An error that a guest returns keeps its code on the way to the embedder.
	_, err := x.Call(context.Background(), at("a"), json.RawMessage(`["fail",0,1,2]`))
	wantFailure(t, err, schema.Extension, "status -2 (invalid)")
	wantCause(t, err, schema.Invalid)
	_, err = x.Call(context.Background(), at("a"), json.RawMessage(`["dance"]`))
	wantFailure(t, err, schema.Extension, "status 1", `no operation`, `dance`)

	// A failure on the host's side reaches the guest in kind only: no path, no process.
	if !o.lock(t, t.Name()) {
		return
	}
	result, err := x.Call(context.Background(), at("a"), json.RawMessage(`["write",0,1]`))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"code":"locked","message":"another process holds the session: try again later"}`; string(result.Output) != want {
		t.Errorf("guest got %s, want %s", result.Output, want)
	}
}

// C20: the namespace comes from the host alone. The same bytes under two ids see nothing of each other.
func exercisePlugins(t *testing.T, h *Host) {
	at := placesOf(t)
	one := load(t, h, goProbe(t), Config{PluginID: "one"})
	two := load(t, h, goProbe(t), Config{PluginID: "two"})
	mustCall(t, one, at("a"), `["write",0,"one's"]`, `{}`)
	mustCall(t, one, at("a"), `["write",1,"one's"]`, `{}`)
	mustCall(t, two, at("a"), `["read",0]`, `{"found":false}`)
	mustCall(t, two, at("a"), `["read",1]`, `{"found":false}`)
	mustCall(t, two, at("a"), `["write",0,"two's"]`, `{}`)
	mustCall(t, one, at("a"), `["read",0]`, `{"found":true,"value":"one's"}`)
	mustCall(t, two, at("a"), `["drop",1]`, `{}`)
	mustCall(t, one, at("a"), `["read",1]`, `{"found":true,"value":"one's"}`)

	// The same id, loaded again, is the same namespace.
	again := load(t, h, goProbe(t), Config{PluginID: "one"})
	mustCall(t, again, at("a"), `["read",0]`, `{"found":true,"value":"one's"}`)

	for _, id := range []string{"", "../one", "one\x00", "One", "o ne", "one/two", "öne"} {
		_, err := h.Load(context.Background(), goProbe(t), Config{PluginID: id})
		wantFailure(t, err, schema.Invalid, "extension.load", "plugin id")
	}
}

// C17: each call is about the session that it names, whatever the calls before were about.
func exerciseSessions(t *testing.T, x *Extension, o outside) {
	s1, s2 := sessionstate.At(t.Name()+" 1", "a", tree), sessionstate.At(t.Name()+" 2", "a", tree)
	for round := 1; round <= 3; round++ {
		mustCall(t, x, s1, "1", fmt.Sprintf(`{"session":%d,"branch":%d}`, round, round))
		mustCall(t, x, s2, "10", fmt.Sprintf(`{"session":%d,"branch":%d}`, 10*round, 10*round))
	}
	if have := o.stored(t, "counter", sessionstate.ScopeSession, s2); have != "30" {
		t.Errorf("the second session holds %s", have)
	}
	// Keyless values are their session's own, too.
	mustCall(t, x, sessionstate.At(t.Name()+" 3", "", tree), "7", `{"session":7,"branch":7}`)
	mustCall(t, x, sessionstate.At(t.Name()+" 4", "", tree), "0", `{"session":0,"branch":0}`)
}
