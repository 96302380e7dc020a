package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/sys"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// refusal is the JSON form of an error: in answers to requests, and in the guest's error document.
type refusal struct {
	OK     bool            `json:"ok"` // false
	Code   schema.Code     `json:"code"`
	Detail string          `json:"detail"`
	Facts  json.RawMessage `json:"facts,omitempty"`
}

// refused is the answer to a request that did not get to the store, in the form of the store's own refusals.
func refused(err error) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(refusal{Code: schema.CodeOf(err), Detail: err.Error()}) // texts always encode
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// failure is the error that an export returned the number of: the same that the native store gives, with
// its cause where others look for one.
func (in *storeInstance) failure(number int32) error {
	code, ok := abi.CodeOf(number)
	if !ok {
		return in.broken("answered what can't be", fmt.Errorf("the number %d, which is none of an error", number))
	}
	text, found, err := in.bytesOf(&in.exports.failed, &in.exports.failed)
	if err != nil {
		return err
	}
	var told refusal
	if err := json.Unmarshal(text, &told); !found || err != nil || told.Code != code {
		return in.broken("answered what can't be", fmt.Errorf("%q about an error with code %q", text, code))
	}
	return &schema.Error{Code: code, Detail: told.Detail, Err: causeOf(in.ctx, told)}
}

// causeOf rebuilds an error's cause: the facts of what other parts of the product look for with errors.As.
func causeOf(ctx context.Context, told refusal) error {
	switch told.Code {
	case schema.Locked:
		cause := &sessionstate.LockError{}
		if json.Unmarshal(told.Facts, cause) == nil {
			return cause
		}
	case schema.Conflict:
		cause := &sessionstate.ConflictError{}
		if json.Unmarshal(told.Facts, cause) == nil {
			return cause
		}
	case schema.Canceled:
		return context.Cause(ctx)
	}
	return nil
}

// broken is the error of a call into the guest that did not come back as it has to. What the guest printed, which
// is what Go prints of a panic, is often the only explanation.
func (in *storeInstance) broken(what string, cause error) error {
	in.lost = true
	name := "store.wasm"
	if in.sql == nil {
		name = "store-sqlite.wasm"
	}
	first, _, _ := strings.Cut(cause.Error(), "\n") // the rest is a stack trace, which the cause keeps
	if exit := (*sys.ExitError)(nil); errors.As(cause, &exit) {
		first = fmt.Sprintf("it exited with code %d", exit.ExitCode())
	}
	detail := fmt.Sprintf("%s: %s %s: %s", in.cfg.Path, name, what, printable(first))
	if text := strings.TrimSpace(string(in.printed.Text)); text != "" {
		detail += "; it printed: " + printable(text)
	}
	return &schema.Error{Code: schema.Storage, Detail: detail + "; what was committed stays, and the next call begins anew", Err: cause}
}
