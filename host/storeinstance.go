package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"pistate/internal/sqlite"
	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// storeInstance is an instance of a store module with its database open, and the host's side of it: what the
// functions that it imports act on. It is used by one goroutine at a time, the one that has the database's turn.
type storeInstance struct {
	cfg     StoreConfig
	mod     api.Module
	exports storeExports
	printed printed
	random  switchedReader

	sql  *sqlite.Lender      // store.wasm
	file *sqlite.GrantedFile // store-sqlite.wasm; nil for a database in memory

	scratch window // of the guest's memory, for what goes in and comes out
	place   place  // the one that the guest was told last

	// Of the running call.
	ctx       context.Context // the caller's
	own       context.Context // what the guest's code runs under: the caller's, with the instance in it
	tree      sessionstate.Tree
	panicked  any    // what the embedder's tree panicked with
	hostError string // the text of the last failure of an import of the host module

	// lost is set while the guest's code runs, and stays set if that did not come back (it trapped, or the
	// goroutine ended in it) or broke its word. A Go guest would still answer after that, with a broken runtime.
	lost bool
}

// storeExports are the functions that the host calls. Those of the guest's own tree are for hosts without imports.
type storeExports struct {
	initialize, version, alloc, free, open, close, request, at   export
	read, fetch, write, drop, compareAndWrite, branchKey, failed export
}

// export is one function with room for its parameters and its result.
type export struct {
	function api.Function
	stack    [8]uint64
}

// printedByStore is how much is kept of what a store module prints: the first lines of a panic of Go's.
const printedByStore = 2048

// scratchBytes is the room that an instance has in the guest from the start; maxScratch is what it keeps of more.
const scratchBytes = 64 << 10

// window is a part of the guest's memory that is ours until it is freed.
type window struct{ ptr, size uint32 }

// newInstance makes an instance and opens its database.
func (c *storeCode) newInstance(ctx context.Context, cfg StoreConfig) (started *storeInstance, err error) {
	in := &storeInstance{cfg: cfg, printed: printed{limit: printedByStore}}
	switch {
	case c.kind == sqliteLent:
		if in.sql, err = sqlite.NewLender(cfg.Path); err != nil {
			return nil, err
		}
	case !cfg.Memory:
		in.file = sqlite.GrantFile(cfg.Path)
	}
	defer func() {
		if started == nil { // the goroutine may also have ended in the embedder's clock
			in.discard()
		}
	}()
	if err := in.start(ctx, c); err != nil {
		return nil, err
	}
	return in, nil
}

// start makes the instance proper. The clock for what is stored is the embedder's; the one for waiting is real, as
// SQLite waits for locks by it, and a wait ends with the call. Go's runtime draws from crypto/rand what it needs to
// start, so that the embedder's source begins with what the store draws.
func (in *storeInstance) start(ctx context.Context, c *storeCode) (err error) {
	in.begin(ctx)
	config := bareConfig().
		WithStdout(&in.printed).WithStderr(&in.printed).
		WithRandSource(&in.random).
		WithSysNanotime().WithNanosleep(in.sleep).WithSysWalltime()
	if in.cfg.Now != nil {
		config = config.WithWalltime(in.walltime, sys.ClockResolution(time.Microsecond))
	}
	if in.mod, err = c.runtime.InstantiateModule(in.own, c.compiled, config); err != nil {
		return in.broken("could not be started", err)
	}
	in.exports.find(in.mod)
	if _, err := in.call(&in.exports.initialize); err != nil {
		return err
	}
	version, err := in.call(&in.exports.version)
	if err != nil {
		return err
	}
	if have := api.DecodeI32(version); have != abi.Version {
		return schema.Errorf(schema.Invalid, "the store module has version %d of the ABI, and this host version %d: they belong to different releases", have, abi.Version)
	}
	if in.scratch, err = in.alloc(scratchBytes); err != nil {
		return err
	}
	if err := in.open(); err != nil {
		return err
	}
	in.random.source = in.cfg.Random
	return nil
}

// find looks the functions up; that they are there was checked when the module was compiled.
func (x *storeExports) find(mod api.Module) {
	for name, e := range map[string]*export{
		abi.Initialize: &x.initialize, abi.ABIVersion: &x.version, abi.Alloc: &x.alloc, abi.Free: &x.free,
		abi.Open: &x.open, abi.Close: &x.close, abi.CallJSON: &x.request, abi.At: &x.at,
		abi.Read: &x.read, abi.Fetch: &x.fetch, abi.Write: &x.write, abi.Drop: &x.drop,
		abi.CompareAndWrite: &x.compareAndWrite, abi.BranchKey: &x.branchKey, abi.ErrorDocument: &x.failed,
	} {
		e.function = mod.ExportedFunction(name)
	}
}

// begin is the start of a call.
func (in *storeInstance) begin(ctx context.Context) {
	in.ctx = ctx
	in.own = context.WithValue(ctx, instanceKey{}, in)
	in.printed.Printed = Printed{}
}

// end is the end of a call, and reports whether the instance can be used again.
func (in *storeInstance) end() bool {
	in.tree = nil
	if !in.lost && in.scratch.size > maxScratch {
		_ = in.resize(scratchBytes) // or else the instance is not used again
	}
	return !in.lost
}

// open opens the database, close closes it and gives the instance back.
func (in *storeInstance) open() error {
	document, err := json.Marshal(struct {
		Database   string `json:"database"`
		Name       string `json:"name"`
		Memory     bool   `json:"memory,omitempty"`
		Coherent   bool   `json:"coherent"`
		CacheBytes int64  `json:"cache_bytes,omitempty"`
		AppVersion string `json:"app_version,omitempty"`
	}{
		Database: in.cfg.Database,
		Name:     unixForm(in.cfg.Path),
		Memory:   in.cfg.Memory,
		// The only owner of a file has nobody to be coherent with.
		Coherent:   in.sql != nil && !in.cfg.Incoherent,
		CacheBytes: in.cfg.CacheBytes,
		AppVersion: in.cfg.AppVersion,
	})
	if err != nil {
		return schema.Errorf(schema.Invalid, "the store's configuration: %w", err)
	}
	if err := in.put(document); err != nil {
		return err
	}
	return in.status(in.call(&in.exports.open, uint64(in.scratch.ptr), uint64(len(document))))
}

// unixForm is how an absolute path looks to a guest, which knows only Unix.
func unixForm(path string) string {
	if path = filepath.ToSlash(path); !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}

func (in *storeInstance) close(ctx context.Context) error {
	in.begin(ctx)
	err := in.status(in.call(&in.exports.close))
	in.end()
	return errors.Join(err, in.discard())
}

// discard gives everything back that the instance had, whatever state it is in.
func (in *storeInstance) discard() error {
	var errs []error
	if in.mod != nil {
		errs = append(errs, in.mod.Close(context.Background()))
	}
	if in.sql != nil {
		errs = append(errs, in.sql.Revoke())
	}
	if in.file != nil {
		errs = append(errs, in.file.Close())
	}
	return errors.Join(errs...)
}

// call calls an export. An error means that the instance is not to be used again.
func (in *storeInstance) call(e *export, args ...uint64) (uint64, error) {
	if in.lost {
		return 0, in.broken("is not used any more", errors.New("an earlier call did not return"))
	}
	copy(e.stack[:], args)
	in.lost = true
	err := e.function.CallWithStack(in.own, e.stack[:])
	if err != nil {
		return 0, in.broken("stopped", err)
	}
	in.lost = false
	if v := in.panicked; v != nil {
		in.panicked = nil
		panic(v) // as it would have reached the caller of the native store
	}
	return e.stack[0], nil
}

// request carries out a request in its JSON form. The answer is the caller's to free.
func (in *storeInstance) request(text []byte) ([]byte, error) {
	if err := in.put(text); err != nil {
		return nil, err
	}
	result, err := in.call(&in.exports.request, uint64(in.scratch.ptr), uint64(len(text)))
	if err != nil {
		return nil, err
	}
	ptr, n := uint32(result>>32), uint32(result)
	if ptr == 0 {
		return nil, in.broken("gave no answer", errors.New("there was no memory for it"))
	}
	answer, err := in.take(ptr, n)
	if err != nil {
		return nil, err
	}
	_, err = in.call(&in.exports.free, uint64(ptr))
	return answer, err
}

// status makes an error of what an export returned.
func (in *storeInstance) status(result uint64, err error) error {
	if err != nil {
		return err
	}
	if n := api.DecodeI32(result); n < 0 {
		return in.failure(n)
	}
	return nil
}

// length is status for an export that gives bytes. found is false for what is absent.
func (in *storeInstance) length(result uint64, err error) (n uint32, found bool, _ error) {
	if err != nil {
		return 0, false, err
	}
	switch n := int64(result); {
	case n == int64(abi.Absent):
		return 0, false, nil
	case n < 0:
		return 0, false, in.failure(int32(n))
	case n > math.MaxUint32:
		return 0, false, in.broken("answered what can't be", fmt.Errorf("a length of %d bytes", n))
	default:
		return uint32(n), true, nil
	}
}

// put copies bytes into the scratch window, one after another, and makes it larger if it has to.
func (in *storeInstance) put(parts ...[]byte) error {
	total := 0
	for _, part := range parts {
		total += len(part)
	}
	if err := in.need(total); err != nil {
		return err
	}
	view, ok := in.mod.Memory().Read(in.scratch.ptr, in.scratch.size)
	if !ok {
		return in.broken("gave memory that it doesn't have", fmt.Errorf("%s", span(in.scratch.ptr, in.scratch.size)))
	}
	for _, part := range parts {
		view = view[copy(view, part):]
	}
	return nil
}

// take returns a copy of bytes of the guest's.
func (in *storeInstance) take(ptr, n uint32) ([]byte, error) {
	view, ok := in.mod.Memory().Read(ptr, n)
	if !ok {
		return nil, in.broken("gave memory that it doesn't have", fmt.Errorf("%s", span(ptr, n)))
	}
	return bytes.Clone(view), nil
}

// maxScratch is how much room an instance keeps from one call to the next.
const maxScratch = 1 << 20

// need makes the scratch window have room for n bytes.
func (in *storeInstance) need(n int) error {
	if n <= int(in.scratch.size) {
		return nil
	}
	if n > math.MaxInt32 {
		return schema.Errorf(schema.Limit, "%d bytes are more than a store module can be given", n)
	}
	size := uint32(n+scratchBytes-1) / scratchBytes * scratchBytes
	if size < maxScratch {
		size *= 2 // there will be more of that size
	}
	return in.resize(size)
}

// resize makes the scratch window anew; what was in it is gone.
func (in *storeInstance) resize(size uint32) (err error) {
	if in.scratch.size > 0 {
		if _, err := in.call(&in.exports.free, uint64(in.scratch.ptr)); err != nil {
			return err
		}
	}
	in.scratch = window{} // which will do until the next need, if there is no memory now
	in.scratch, err = in.alloc(size)
	return err
}

func (in *storeInstance) alloc(size uint32) (window, error) {
	result, err := in.call(&in.exports.alloc, uint64(size))
	if err != nil {
		return window{}, err
	}
	ptr := api.DecodeU32(result)
	if ptr == 0 {
		return window{}, schema.Errorf(schema.Limit, "the store module has no memory for %d bytes more: raise MemoryPages, which is %d", size, in.cfg.MemoryPages)
	}
	return window{ptr, size}, nil
}

// sleep ends with the running call's context, since nothing else interrupts a guest that sleeps.
func (in *storeInstance) sleep(ns int64) { sleeper(in.ctx)(ns) }

func (in *storeInstance) walltime() (sec int64, nsec int32) {
	now := in.cfg.Now()
	return now.Unix(), int32(now.Nanosecond())
}

// switchedReader is the operating system's randomness until it is given another source.
type switchedReader struct{ source io.Reader }

func (r *switchedReader) Read(b []byte) (int, error) {
	if r.source == nil {
		return rand.Read(b)
	}
	return io.ReadFull(r.source, b)
}
