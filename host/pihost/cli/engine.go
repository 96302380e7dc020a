package cli

import (
	"context"
	"io"
	"os"
	"time"

	"pistate/host"
	"pistate/internal/cli"
	"pistate/schema"
	"pistate/store"
)

// engineFlags choose what runs the store.
type engineFlags struct {
	Engine    string `enum:"native,wasm" default:"native" placeholder:"ENGINE" help:"What runs the store: native (default), SQLite in this process; wasm, the module of --store-wasm."`
	StoreWasm string `placeholder:"PATH" help:"The store module of --engine wasm: store.wasm, which shares the database as native does, or store-sqlite.wasm, which has it to itself."`
}

func (f engineFlags) isNative() bool { return f.Engine == "native" }

// checkEngine refuses a module that nothing would use, and an engine that has none.
func (f engineFlags) checkEngine() error {
	switch {
	case f.isNative() && f.StoreWasm != "":
		return schema.Errorf(schema.Invalid, "--store-wasm is for --engine wasm: the native engine uses no module")
	case !f.isNative() && f.StoreWasm == "":
		return schema.Errorf(schema.Invalid, "--engine wasm needs a store module: give --store-wasm")
	}
	return nil
}

// openModule opens a database with the store module.
func (f engineFlags) openModule(env *cli.Env, cfg host.StoreConfig, cache string) (*host.WasmStore, error) {
	wasm, err := readModule("store module", f.StoreWasm)
	if err != nil {
		return nil, err
	}
	if cache != "" {
		if err := os.MkdirAll(cache, 0o700); err != nil { // which costs time and nothing else
			env.Warn("compiled code is not kept: %v", err)
			cache = ""
		}
	}
	cfg.CacheDir = cache
	return host.OpenStore(env, wasm, cfg)
}

// openEngine opens the database of session state as the engine of a host, which is to be closed before it.
func (f engineFlags) openEngine(env *cli.Env, db dbFlags, cache string) (host.Engine, io.Closer, error) {
	if err := f.checkEngine(); err != nil {
		return host.Engine{}, nil, err
	}
	if f.isNative() {
		s, err := db.open(env)
		if err != nil {
			return host.Engine{}, nil, err
		}
		return host.Native(s), s, nil
	}
	path, err := db.path(env)
	if err != nil {
		return host.Engine{}, nil, err
	}
	s, err := f.openModule(env, host.StoreConfig{Database: host.SessionsDatabase, Path: path}, cache)
	if err != nil {
		return host.Engine{}, nil, err
	}
	return s.Engine(), s, nil
}

// workflowStore is a workflow database that takes requests in their JSON form.
type workflowStore struct {
	io.Closer
	dispatch func(context.Context, []byte) []byte
}

// openWorkflow opens the workflow database. now and random are nil for the system's.
func (c *execCmd) openWorkflow(env *cli.Env, now func() time.Time, random io.Reader) (workflowStore, error) {
	if err := c.checkEngine(); err != nil {
		return workflowStore{}, err
	}
	if c.Memory && (c.isNative() || c.DB != "") {
		return workflowStore{}, schema.Errorf(schema.Invalid, "--memory is for --engine wasm with store-sqlite.wasm, instead of --db")
	}
	path := ""
	if !c.Memory {
		var err error
		if path, err = c.path(); err != nil {
			return workflowStore{}, err
		}
	}
	if c.isNative() {
		s, err := store.Open(env, path, store.Options{AppVersion: cli.BuildVersion(), Now: now, Random: random})
		if err != nil {
			return workflowStore{}, err
		}
		return workflowStore{s, s.Dispatch}, nil
	}
	s, err := c.openModule(env, host.StoreConfig{
		Database:   host.WorkflowDatabase,
		Path:       path,
		Memory:     c.Memory,
		AppVersion: cli.BuildVersion(),
		Now:        now,
		Random:     random,
	}, cacheDir(c.NoCache))
	if err != nil {
		return workflowStore{}, err
	}
	return workflowStore{s, s.Call}, nil
}
