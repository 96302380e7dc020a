package host

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"pistate/schema"
	"pistate/wasm/abi"
)

// run makes an instance, runs one call in it and throws it away. nil means that the extension said so.
func (m *module) run(ctx context.Context, g *guest, cfg Config) error {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, cfg.Limits.CallTime)
	defer cancel()
	ctx = context.WithValue(ctx, guestKey{}, g)

	status, err := m.enter(ctx, g, cfg.Grants)
	switch exit := (*sys.ExitError)(nil); {
	case g.stopped != nil:
		return g.stopped
	case err == nil && status == abi.OK:
		return nil
	case caller.Err() != nil: // whatever it did about it
		return schema.Errorf(schema.Canceled, "the call was canceled: %w", context.Cause(caller))
	case ctx.Err() != nil:
		return schema.Errorf(schema.Limit, "it ran longer than its call time of %v", cfg.Limits.CallTime)
	case err == nil:
		return failed(g, status)
	case errors.As(err, &exit):
		return broken(g, fmt.Sprintf("exited with code %d before the call returned", exit.ExitCode()), err)
	}
	first, _, _ := strings.Cut(err.Error(), "\n") // the rest is a stack trace, which the cause keeps
	return broken(g, "trapped: "+printable(first), err)
}

// enter runs the guest's code: a start function if it has one, its initialisation, the call. The error is
// wazero's.
func (m *module) enter(ctx context.Context, g *guest, grants Grants) (status int32, err error) {
	instance, err := m.runtime.InstantiateModule(ctx, m.compiled, sandbox(ctx, g, grants))
	if err != nil {
		return 0, err
	}
	defer instance.Close(context.WithoutCancel(ctx))
	if m.initialize {
		if _, err := instance.ExportedFunction(abi.Initialize).Call(ctx); err != nil {
			return 0, err
		}
	}
	result, err := instance.ExportedFunction(abi.Call).Call(ctx)
	if err != nil {
		return 0, err
	}
	return api.DecodeI32(result[0]), nil
}

// failed is the error of a call that returned a failure. If the extension returned the number of an error
// code, it says that this error made it fail: the cause is then the host's own error, if it was the last
// that the guest was told of, and the code alone otherwise.
func failed(g *guest, status int32) error {
	failure := &schema.Error{Code: schema.Extension, Detail: fmt.Sprintf("failed with status %d", status)}
	code, ok := abi.CodeOf(status)
	if ok {
		failure.Detail += " (" + string(code) + ")"
		failure.Err = code
	}
	if g.reason != "" {
		failure.Detail += ": " + printable(g.reason)
	}
	if ok && g.lastErr != nil && schema.CodeOf(g.lastErr) == code {
		failure.Err = g.lastErr
		if full := g.lastErr.Error(); guestText(g.lastErr) != full { // the guest could not say more
			failure.Detail += "; " + full
		}
	}
	return failure
}

// broken is the error of a call that did not return. What it printed is often the only explanation.
func broken(g *guest, what string, cause error) error {
	const enough = 400 // bytes: the first lines of a panic
	if text := strings.TrimSpace(string(g.stderr.Text)); text != "" {
		what += "; it printed: " + printable(text[:min(len(text), enough)])
	}
	return &schema.Error{Code: schema.Extension, Detail: what, Err: cause}
}

// printable makes a text that comes from a module fit for a person's terminal: one that has anything but
// visible characters and spaces in it is quoted, a long one is cut.
func printable(text string) string {
	const enough = 1000 // bytes
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + " ..."
	}
	if quoted := strconv.QuoteToGraphic(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

// wrap says which extension an error is about, and in what.
func wrap(err error, op, plugin string) error {
	return &schema.Error{
		Code:   schema.CodeOf(err),
		Op:     op,
		Detail: fmt.Sprintf("extension %q: %v", plugin, err),
		Err:    err,
	}
}
