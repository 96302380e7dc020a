package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// Y10: the operations on session state, in the envelope of the command protocol.
func TestSessionOperations(t *testing.T) {
	path := databasePath(t)
	c := newCaller(t, nil)
	c.openSessions(path)
	c.atLeaf("", abi.TreeNone)
	c.ok("write", c.write(abi.ScopeSession, c.put(`"abc"`)))

	var status struct {
		OK     bool
		Result struct {
			Path    string
			File    struct{ Bytes, Pages int64 }
			Locks   []struct{ Session, Holder, Alive string }
			Plugins []struct {
				Plugin                string
				Sessions, Rows, Bytes int64
			}
		}
	}
	text := c.do(`{"op":"session.status"}`)
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		t.Fatal(err)
	}
	r := status.Result
	if !status.OK || !strings.HasSuffix(r.Path, "states.sqlite") || r.File.Pages == 0 || len(r.Plugins) != 1 || r.Plugins[0].Bytes != 5 ||
		!strings.Contains(text, `"locks":[]`) {
		t.Errorf("session.status: %s", text)
	}
	if text := c.do(`{"op":"session.status","args":{"session":"other"}}`); !strings.Contains(text, `"plugins":[]`) {
		t.Errorf("session.status of another session: %s", text)
	}
	if text := c.do(`{"op":"session.refresh","args":{}}`); text != `{"ok":true,"result":{}}` {
		t.Errorf("session.refresh: %s", text)
	}
	if text := c.do(`{"op":"session.force_refresh","args":{"session":"s1"}}`); text != `{"ok":true,"result":{}}` {
		t.Errorf("session.force_refresh: %s", text)
	}
	if text := c.do(`{"op":"session.force_refresh"}`); !strings.Contains(text, `"code":"invalid","op":"session.force_refresh"`) {
		t.Errorf("session.force_refresh of no session: %s", text)
	}
}

// Y5: a session that another part of the process holds is refused with its facts, and can be freed by hand.
func TestLockedSession(t *testing.T) {
	ctx := context.Background()
	path := databasePath(t)
	other, err := sessionstate.Open(ctx, path, sessionstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	c := newCaller(t, nil)
	c.openSessions(path)
	c.atLeaf("", abi.TreeNone)
	err = other.Hold(ctx, "s1", func(context.Context) error {
		c.fails("write", c.write(abi.ScopeSession, c.put("1")), schema.Locked)
		buf := c.put(string(make([]byte, 2048)))
		doc := c.text(buf.ptr, c.ok("error_document", c.document(buf.ptr, buf.n)))
		var refusal struct {
			Code  schema.Code
			Facts sessionstate.LockError
		}
		if err := json.Unmarshal([]byte(doc), &refusal); err != nil {
			t.Fatal(err)
		}
		f := refusal.Facts
		if refusal.Code != schema.Locked || f.Object != "s1" || f.Action != "write" || f.Holder == "" || f.Until.Sub(f.Since) != sessionstate.Lease {
			t.Errorf("error_document: %s", doc)
		}
		if text := c.do(`{"op":"session.force_refresh","args":{"session":"s1"}}`); !strings.Contains(text, `"ok":true`) {
			t.Errorf("session.force_refresh: %s", text)
		}
		c.ok("write", c.write(abi.ScopeSession, c.put("1")))
		return nil
	})
	if schema.CodeOf(err) != schema.StaleClaim {
		t.Errorf("the hold that was cleared by hand: %v", err)
	}
}

// Z3: what is no request gets an answer that says what is wrong.
func TestMalformedRequests(t *testing.T) {
	c := newCaller(t, nil)
	c.openSessions(databasePath(t))
	for _, test := range []struct{ request, want string }{
		{``, "the request"},
		{`{`, "the request"},
		{`null`, "the request: null is no value"},
		{`[]`, "the request"},
		{`"session.refresh"`, "the request"},
		{`{}`, "no operation"},
		{`{"op":"session.nothing"}`, "session.nothing"},
		{`{"op":1}`, "op: a string is expected"},
		{`{"op":"session.refresh","op":"session.refresh"}`, "op: it occurs twice"},
		{`{"op":"session.refresh","extra":1}`, "extra"},
		{`{"op":"session.refresh","args":{"session":"x"}}`, "session"},
		{`{"op":"session.refresh","args":[]}`, "args"},
		{`{"op":"session.status","args":{"session":7}}`, "args"},
		{"\x00", "the request"},
		{"{\"op\":\"\xff\"}", "op: not JSON"},
		{strings.Repeat("[", 100_000), "the request"},
		{`{"op":"session.refresh","args":` + strings.Repeat(`{"a":`, 50_000), "a.a...: not JSON"},
	} {
		text := c.do(test.request)
		if !strings.HasPrefix(text, `{"ok":false,"code":"invalid",`) || !strings.Contains(text, test.want) {
			t.Errorf("%.60q: %.300s, want %q", test.request, text, test.want)
		}
	}
	if answer := c.call(0xffff, 10); answer == 0 || !strings.Contains(c.text(uint32(answer>>32), answer&0xffffffff), `"code":"invalid"`) {
		t.Error("a request that is nowhere")
	}
}
