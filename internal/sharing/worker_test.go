//go:build unix

package sharing

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"pistate/host"
	"pistate/schema"
	"pistate/sessionstate"
	"pistate/store"
	"pistate/wasm/examples"
)

// What the writers count, by one for each step: the session that they share, and one for each life of a writer.
const (
	counterID     = "counter"
	sharedSession = "shared"
)

// padding makes the WAL grow, so that every writer comes to make checkpoints.
var padding = strings.Repeat("x", 6000)

// workerEnv makes the test binary a writer of the kind that it names; cacheEnv says where compiled code is kept.
const (
	workerEnv = "PISTATE_TEST_WRITER"
	cacheEnv  = "PISTATE_TEST_CACHE"
)

func TestMain(m *testing.M) {
	kind := os.Getenv(workerEnv)
	if kind == "" {
		os.Exit(m.Run())
	}
	if err := work(context.Background(), kind, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", kind, err)
		os.Exit(1)
	}
}

// writer is how one kind of program writes.
type writer struct {
	count   func(ctx context.Context, session string) error
	command func(ctx context.Context, request string) (answer []byte)
	close   func() error
}

// work writes until standard input ends, and says which step of what has become durable.
func work(ctx context.Context, kind, dir, life string) (err error) {
	open := map[string]func(context.Context, string) (*writer, error){"native": openNative, "wasm": openWasm}[kind]
	w, err := open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var over atomic.Bool
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		over.Store(true)
	}()
	for i := 1; !over.Load(); i++ {
		for _, session := range []string{sharedSession, life} {
			if err := patiently(func() error { return w.count(ctx, session) }); err != nil {
				return fmt.Errorf("count in session %s: %w", session, err)
			}
			fmt.Println(session, i)
		}
		if err := patiently(func() error { return refused(w.command(ctx, registration(life, i))) }); err != nil {
			return fmt.Errorf("command: %w", err)
		}
		fmt.Println("command", i)
	}
	return nil
}

// patiently tries again while the database is busy: the only error that a writer may meet here.
func patiently(do func() error) error {
	for {
		if err := do(); !errors.Is(err, schema.Busy) {
			return err
		}
	}
}

// registration is a command that can be carried out once, under a name of its own.
func registration(life string, i int) string {
	return fmt.Sprintf(`{"op":"definition.register","actor":{"class":"system","id":"sharing"},"request":"%[1]s-%[2]d",`+
		`"args":{"definition":{"name":"%[1]s-%[2]d","nodes":[{"id":"a","type":"task"}],"padding":"%[3]s"}}}`, life, i, padding)
}

func refused(answer []byte) error {
	var a struct {
		OK     bool        `json:"ok"`
		Code   schema.Code `json:"code"`
		Detail string      `json:"detail"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return fmt.Errorf("%w in the answer %q", err, answer)
	}
	if a.OK {
		return nil
	}
	return &schema.Error{Code: a.Code, Detail: a.Detail}
}

func sessionsPath(dir string) string { return filepath.Join(dir, "sessions", "states.sqlite") }
func workflowPath(dir string) string { return filepath.Join(dir, "workflows", "state.sqlite") }

func openNative(ctx context.Context, dir string) (*writer, error) {
	sessions, err := sessionstate.Open(ctx, sessionsPath(dir), sessionstate.Options{})
	if err != nil {
		return nil, err
	}
	workflow, err := store.Open(ctx, workflowPath(dir), store.Options{})
	if err != nil {
		return nil, err
	}
	counter, err := sessionstate.New(sessions, sessionstate.Config{PluginID: counterID, Scope: sessionstate.ScopeSession, Coherent: true})
	if err != nil {
		return nil, err
	}
	return &writer{
		count:   func(ctx context.Context, session string) error { return countUp(ctx, counter, session) },
		command: func(ctx context.Context, request string) []byte { return workflow.Dispatch(ctx, []byte(request)) },
		close:   func() error { return errors.Join(sessions.Close(), workflow.Close()) },
	}, nil
}

// countUp is what the counter extension does.
func countUp(ctx context.Context, counter *sessionstate.State, session string) error {
	at := sessionstate.At(session, "", nil)
	for {
		old, _, err := counter.Read(ctx, at)
		if err != nil {
			return err
		}
		n := 0
		if old != nil {
			if n, err = strconv.Atoi(string(old)); err != nil {
				return err
			}
		}
		err = counter.CompareAndWrite(ctx, at, old, json.RawMessage(strconv.Itoa(n+1)))
		if !errors.Is(err, schema.Conflict) {
			return err
		}
	}
}

// openWasm writes through store.wasm: the counters by an extension, the rest by the command protocol.
func openWasm(ctx context.Context, dir string) (*writer, error) {
	module, err := os.ReadFile(filepath.Join(dir, "store.wasm"))
	if err != nil {
		return nil, err
	}
	cache := os.Getenv(cacheEnv)
	sessions, err := host.OpenStore(ctx, module, host.StoreConfig{Database: host.SessionsDatabase, Path: sessionsPath(dir), CacheDir: cache})
	if err != nil {
		return nil, err
	}
	workflow, err := host.OpenStore(ctx, module, host.StoreConfig{Database: host.WorkflowDatabase, Path: workflowPath(dir), CacheDir: cache})
	if err != nil {
		return nil, err
	}
	h, err := host.New(host.Options{Engine: sessions.Engine(), Isolation: host.InProcess, CacheDir: cache})
	if err != nil {
		return nil, err
	}
	counter, err := h.Load(ctx, examples.CounterWasm, host.Config{PluginID: counterID})
	if err != nil {
		return nil, err
	}
	return &writer{
		count: func(ctx context.Context, session string) error {
			// The extension counts in both scopes; without a leaf, the branch's count stays in memory.
			_, err := counter.Call(ctx, sessionstate.At(session, "", nil), json.RawMessage("1"))
			return err
		},
		command: func(ctx context.Context, request string) []byte { return workflow.Call(ctx, []byte(request)) },
		close:   func() error { return errors.Join(h.Close(), sessions.Close(), workflow.Close()) },
	}, nil
}
