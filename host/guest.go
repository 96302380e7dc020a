package host

import (
	"context"
	"encoding/json"

	"pistate/schema"
	"pistate/wasm/abi"
)

// guest is the host's side of one call: what the functions of the import module act on. It is used by one
// goroutine, the one that runs the guest's code, and ends with the call.
//
// Each method below is one import of ABI.md. It returns the function's result, or the error whose number
// the guest gets; an error with code Limit ends the call instead (see hostFunc.call).
type guest struct {
	grant    *grant
	limits   Limits
	input    []byte
	output   []byte // nil until the guest sets one
	reason   string // what it passed to fail
	retained []byte // the value that the last read was too large for; nil if there is none
	lastErr  error  // the last error that the guest was told of
	stopped  error  // why the host ended the call; nil if it did not

	stdout, stderr printed
}

func (g *guest) read(ctx context.Context, mem memory, p params) (int64, error) {
	g.retained = nil
	buf, err := mem.window(p.u32(1), p.u32(2))
	if err != nil {
		return 0, err
	}
	value, found, err := g.grant.read(ctx, p.i32(0))
	if err != nil {
		return 0, err
	}
	if !found {
		return int64(abi.Absent), nil
	}
	if len(value) > len(buf) {
		g.retained = value
	}
	return abi.Give(buf, value), nil
}

func (g *guest) fetch(_ context.Context, mem memory, p params) (int64, error) {
	buf, err := mem.window(p.u32(0), p.u32(1))
	if err != nil {
		return 0, err
	}
	if g.retained == nil {
		return 0, schema.Errorf(schema.Invalid, "there is nothing to fetch: the last read gave its whole value")
	}
	n := abi.Give(buf, g.retained)
	if n <= int64(len(buf)) {
		g.retained = nil
	}
	return n, nil
}

func (g *guest) write(ctx context.Context, mem memory, p params) (int64, error) {
	value, err := mem.window(p.u32(1), p.u32(2))
	if err != nil {
		return 0, err
	}
	return 0, g.grant.write(ctx, p.i32(0), value)
}

func (g *guest) drop(ctx context.Context, _ memory, p params) (int64, error) {
	return 0, g.grant.drop(ctx, p.i32(0))
}

func (g *guest) compareAndWrite(ctx context.Context, mem memory, p params) (int64, error) {
	var old []byte
	if n := p.u32(2); n != abi.AbsentLength {
		var err error
		if old, err = mem.window(p.u32(1), n); err != nil {
			return 0, err
		}
	}
	value, err := mem.window(p.u32(3), p.u32(4))
	if err != nil {
		return 0, err
	}
	return 0, g.grant.compareAndWrite(ctx, p.i32(0), old, value)
}

func (g *guest) branchKey(_ context.Context, mem memory, p params) (int64, error) {
	buf, err := mem.window(p.u32(0), p.u32(1))
	if err != nil {
		return 0, err
	}
	key, ok, err := g.grant.branchKey()
	if err != nil {
		return 0, err
	}
	if !ok {
		return int64(abi.Absent), nil
	}
	return abi.Give(buf, []byte(key)), nil
}

func (g *guest) readInput(_ context.Context, mem memory, p params) (int64, error) {
	buf, err := mem.window(p.u32(0), p.u32(1))
	if err != nil {
		return 0, err
	}
	return abi.Give(buf, g.input), nil
}

func (g *guest) setOutput(_ context.Context, mem memory, p params) (int64, error) {
	value, err := mem.window(p.u32(0), p.u32(1))
	if err != nil {
		return 0, err
	}
	if len(value) > g.limits.OutputBytes {
		return 0, schema.Errorf(schema.Limit, "an output of %d bytes is over the limit of %d", len(value), g.limits.OutputBytes)
	}
	if !json.Valid(value) {
		return 0, schema.Errorf(schema.Invalid, "the output is not JSON")
	}
	g.output = append([]byte{}, value...)
	return 0, nil
}

func (g *guest) fail(_ context.Context, mem memory, p params) (int64, error) {
	text, err := mem.window(p.u32(0), p.u32(1))
	if err != nil {
		return 0, err
	}
	g.reason = abi.Message(string(text[:min(len(text), abi.MaxMessage)]))
	return 0, nil
}

func (g *guest) errorMessage(_ context.Context, mem memory, p params) (int64, error) {
	buf, err := mem.window(p.u32(0), p.u32(1))
	if err != nil {
		return 0, err
	}
	return abi.Give(buf, []byte(guestText(g.lastErr))), nil
}

// guestText is what a guest may know of an error. What it got wrong itself it is told in full. What went
// wrong on the host's side it learns in kind only: the full text names files, processes and sessions.
func guestText(err error) string {
	if err == nil {
		return ""
	}
	switch schema.CodeOf(err) {
	case schema.Invalid, schema.Limit, schema.Conflict:
		return abi.Message(err.Error())
	case schema.Locked:
		return "another process holds the session: try again later"
	case schema.Busy:
		return "the state store is busy: try again later"
	case schema.Canceled:
		return "the call is ending"
	case schema.NotFound:
		return "the session's tree lacks the entry that the call is at"
	}
	return "the state store failed; the host knows the details"
}
