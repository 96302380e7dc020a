package host

import (
	"context"
	"encoding/json"

	"pistate/schema"
	"pistate/sessionstate"
)

// Config says under whose name an extension runs, and what it may use.
type Config struct {
	// PluginID is the namespace of the extension's state: one or more of a-z, 0-9, '.' and '-'. It comes
	// from the embedder's own records, never from the module.
	PluginID string

	Limits Limits
	Grants Grants
}

// Grants are powers beyond session state. The zero value gives none.
type Grants struct {
	// Clock lets the extension tell the time and sleep. Without it the time is a made-up one: it starts at
	// the same instant in every call, moves on a little with every look at it, and a sleep moves it on
	// without waiting.
	Clock bool

	// Random gives it the operating system's random bytes. Without it the bytes look random and are the same
	// in every call.
	Random bool
}

// Extension is a loaded module under a plugin id. It is safe for concurrent use.
type Extension struct {
	host   *Host
	cfg    Config
	states states
	code   *module
	users  users
}

// Result is what came out of a call.
type Result struct {
	Output json.RawMessage // nil if the extension set none, or the call failed
	Stdout Printed
	Stderr Printed
}

// Call runs the extension once, at the place of the session that sc names when the call begins. input is a
// JSON document; nil means null. The extension runs in a new instance, which is gone when Call returns: it
// keeps nothing but what it stored. What it stored stays, also when the call fails afterwards.
//
// Errors: [schema.Extension] if the extension trapped, exited or returned a failure (a failure that it put
// down to an error of the host also matches that error's code); [schema.Limit]; [schema.Canceled] when ctx
// ended first; [schema.Invalid] for a context without session id and for an input that isn't JSON;
// [schema.Closed]; [schema.Storage] if the host's side of the call panicked. The Result has what was printed
// in every case.
func (x *Extension) Call(ctx context.Context, sc sessionstate.SessionContext, input json.RawMessage) (Result, error) {
	result, err := x.call(ctx, sc, input)
	if err != nil {
		return result, wrap(err, "extension.call", x.cfg.PluginID)
	}
	return result, nil
}

func (x *Extension) call(ctx context.Context, sc sessionstate.SessionContext, input json.RawMessage) (Result, error) {
	if !x.users.enter() {
		return Result{}, schema.Errorf(schema.Closed, "it is closed")
	}
	defer x.users.leave()
	if len(input) == 0 {
		input = json.RawMessage("null")
	}
	if n, limit := len(input), x.cfg.Limits.InputBytes; n > limit {
		return Result{}, schema.Errorf(schema.Limit, "an input of %d bytes is over the limit of %d", n, limit)
	}
	if !json.Valid(input) {
		return Result{}, schema.Errorf(schema.Invalid, "the input is not JSON")
	}
	grant, err := newGrant(x.states, sc, x.cfg.Limits)
	if err != nil {
		return Result{}, err
	}
	g := &guest{grant: grant, limits: x.cfg.Limits, input: input}
	g.stdout.limit, g.stderr.limit = x.cfg.Limits.PrintBytes, x.cfg.Limits.PrintBytes
	err = x.code.run(ctx, g, x.cfg)
	result := Result{Stdout: g.stdout.Printed, Stderr: g.stderr.Printed}
	if err == nil {
		result.Output = g.output
	}
	return result, err
}

// PluginID returns the namespace of the extension's state.
func (x *Extension) PluginID() string { return x.cfg.PluginID }

// Close refuses further calls, waits for those that are running and gives the compiled code back. Closing
// twice is harmless.
func (x *Extension) Close() error {
	x.host.forget(x)
	return x.close()
}

func (x *Extension) close() error {
	if !x.users.close() {
		return nil
	}
	return x.code.close()
}
