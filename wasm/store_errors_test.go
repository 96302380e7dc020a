package wasm_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// Every code has its number as the result of an export, whichever of them the host's answers mean, and a failure
// passes as what caused it does.
func TestStoreErrorNumbers(t *testing.T) {
	h := newStoreHost(t, lentModule)
	h.open(lentModule, "sessions")
	h.at("", abi.TreeNone)
	h.wrote(h.write(abi.ScopeSession, "1"))
	fails := func(fault int64, code schema.Code) {
		t.Helper()
		h.do(`{"op":"session.refresh"}`)
		h.fault = fault
		h.fails(code, abi.Read, 0, 0, 0)
		if n := h.write(abi.ScopeSession, "2"); n != int64(abi.Number(code)) {
			t.Errorf("write while the host answers %d: %d, want that of %s", fault, n, code)
		}
		h.fault = 0
		h.wants(abi.ScopeSession, "1")
	}
	for _, code := range schema.Codes() {
		fails(number(code), code)
	}
	for fault, code := range map[int64]schema.Code{
		-5:          schema.Busy,     // SQLITE_BUSY
		-9:          schema.Canceled, // SQLITE_INTERRUPT
		-11:         schema.Corrupt,  // SQLITE_CORRUPT
		-13:         schema.Storage,  // SQLITE_FULL
		-26:         schema.Corrupt,  // SQLITE_NOTADB
		-10 - 15<<8: schema.Storage,  // SQLITE_IOERR_LOCK
		-19 - 8<<8:  schema.Conflict, // SQLITE_CONSTRAINT_UNIQUE
		-65535:      schema.Storage,  // no code that there is
		-65536:      schema.Storage,  // the number of no code
		-1 << 40:    schema.Storage,  // nor this
	} {
		fails(fault, code)
	}
}

// Y5: a session that another process holds is refused with the facts of that, and free once that process is gone.
func TestStoreLocked(t *testing.T) {
	h := newStoreHost(t, lentModule)
	h.open(lentModule, "sessions")
	h.at("", abi.TreeNone)
	for holder, locked := range map[string]bool{"pid:4712": true, "pid:4713": false, "pid:4711": false} {
		h.holdAs(holder)
		n := h.write(abi.ScopeSession, `"`+holder+`"`)
		if !locked {
			h.wrote(n)
			continue
		}
		if n != int64(abi.Number(schema.Locked)) {
			t.Errorf("write while %s holds the session: %d", holder, n)
		}
		doc, _ := h.get(abi.ErrorDocument)
		var refusal struct {
			Code  schema.Code
			Facts sessionstate.LockError
		}
		if err := json.Unmarshal([]byte(doc), &refusal); err != nil {
			t.Fatal(err)
		}
		f := refusal.Facts
		if refusal.Code != schema.Locked || f.Holder != holder || f.Initiator != "pid:4711" || f.Object != "s1" || f.Since.UnixMilli() == 0 {
			t.Errorf("error_document: %s", doc)
		}
	}
	h.holdAs("pid:4712")
	if status := h.do(`{"op":"session.status"}`); !strings.Contains(status, `"holder":"pid:4712","alive":"yes"`) {
		t.Errorf("session.status: %s", status)
	}
	h.do(`{"op":"session.force_refresh","args":{"session":"s1"}}`)
	h.wrote(h.write(abi.ScopeSession, "1"))
}

// holdAs makes the lock row of session s1 as another program would.
func (h *storeHost) holdAs(holder string) {
	h.t.Helper()
	db := h.lender.Open(h.ctx, 1)
	if db < 0 {
		h.t.Fatal(db)
	}
	defer h.lender.Close(db)
	sql := "DELETE FROM write_lock; INSERT INTO write_lock VALUES ('s1', '" + holder + "', CAST(unixepoch('subsec') * 1000 AS INTEGER))"
	if n := h.lender.Script(h.ctx, db, []byte(sql)); n != 0 {
		h.t.Fatal(n)
	}
}

// S9: a database that was replaced under the module is not written to.
func TestStoreReplaced(t *testing.T) {
	h := newStoreHost(t, lentModule)
	h.open(lentModule, "sessions")
	h.at("", abi.TreeNone)
	h.wrote(h.write(abi.ScopeSession, "1"))
	if err := os.Rename(h.path, h.path+".away"); err != nil {
		t.Fatal(err)
	}
	if n := h.write(abi.ScopeSession, "2"); n != int64(abi.Number(schema.Replaced)) {
		t.Errorf("write: %d, %s", n, h.message())
	}
}

// The end of a call's context ends waiting for another writer, and the instance goes on.
func TestStoreCanceled(t *testing.T) {
	h := newStoreHost(t, lentModule)
	h.open(lentModule, "sessions")
	h.at("", abi.TreeNone)
	h.wrote(h.write(abi.ScopeSession, "1"))
	other := newStoreHostAt(t, lentModule, h.path)
	db := other.lender.Open(other.ctx, 1)
	if n := other.lender.Script(other.ctx, db, []byte("BEGIN IMMEDIATE")); n != 0 {
		t.Fatal(n)
	}
	whole := h.ctx
	var cancel func()
	h.ctx, cancel = context.WithTimeout(whole, 50*time.Millisecond)
	defer cancel()
	// SQLite says that it was interrupted, or that what it waited for was still busy.
	if n := h.write(abi.ScopeSession, "2"); n != int64(abi.Number(schema.Canceled)) && n != int64(abi.Number(schema.Busy)) {
		t.Errorf("write: %d, %s", n, h.message())
	}
	h.ctx = whole
	if n := other.lender.Script(other.ctx, db, []byte("ROLLBACK")); n != 0 {
		t.Fatal(n)
	}
	h.wrote(h.write(abi.ScopeSession, "3"))
}

// A value over the limit is refused, and so is what is no JSON.
func TestStoreValues(t *testing.T) {
	h := newStoreHost(t, lentModule)
	h.open(lentModule, "sessions")
	h.at("", abi.TreeNone)
	for _, value := range []string{"", "{", "1 2", "\xff", "\"\xff\"", "nul", "\x00"} {
		if n := h.write(abi.ScopeSession, value); n != int64(abi.Number(schema.Invalid)) {
			t.Errorf("write of %q: %d", value, n)
		}
	}
	ptr := h.alloc(sessionstate.MaxValueBytes + 1)
	if text := h.fails(schema.Limit, abi.Write, 0, ptr, sessionstate.MaxValueBytes+1); !strings.Contains(text, "at most") {
		t.Error(text)
	}
	h.wants(abi.ScopeSession, "")
}

// An export that an import calls is refused, and the call that it is in goes on. A trap leaves an instance that refuses
// everything: a Go program would otherwise answer with a broken runtime.
func TestStoreOneAtATime(t *testing.T) {
	h := newStoreHost(t, lentModule)
	h.open(lentModule, "sessions")
	tree := &meddling{h: h}
	h.tree = tree
	h.at("leaf", abi.TreeHost)
	if key, _ := h.get(abi.BranchKey); key != "key" || tree.asked == 0 {
		t.Errorf("branch_key: %q", key)
	}
	h.at("", abi.TreeNone)
	h.wrote(h.write(abi.ScopeSession, "1"))

	h.at("leaf", abi.TreeHost)
	tree.falls = true
	if _, err := h.mod.ExportedFunction(abi.BranchKey).Call(h.ctx, 0, 0); err == nil || !strings.Contains(err.Error(), "the host fell") {
		t.Fatalf("branch_key in a host that fell: %v", err)
	}
	tree.refused()
	if v := h.call(abi.ABIVersion); v != abi.Version {
		t.Errorf("version %d", v)
	}
}

// meddling is a host's tree that calls exports while it is asked.
type meddling struct {
	h     *storeHost
	asked int
	falls bool
}

func (m *meddling) BranchKey(string) (string, error) {
	if m.falls {
		panic("the host fell")
	}
	m.asked++
	m.refused()
	return "key", nil
}

func (m *meddling) ParentKey(string) (string, bool, error) { return "", false, nil }

// refused fails the test unless every export is refused.
func (m *meddling) refused() {
	for _, f := range abi.StoreExports() {
		results, err := m.h.mod.ExportedFunction(f.Name).Call(m.h.ctx, make([]uint64, len(f.Params))...)
		switch {
		case err != nil:
			m.h.t.Errorf("%s: %v", f.Name, err)
		case f.Name == abi.ABIVersion, f.Name == abi.Free:
		case f.Name == abi.Alloc, f.Name == abi.CallJSON:
			if results[0] != 0 {
				m.h.t.Errorf("%s: %#x", f.Name, results[0])
			}
		case int32(results[0]) != abi.Number(schema.Invalid):
			m.h.t.Errorf("%s: %d", f.Name, int32(results[0]))
		}
	}
}
