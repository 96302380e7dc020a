package host

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"pistate/internal/sqlite"
	"pistate/schema"
	"pistate/sessionstate"
	"pistate/wasm/abi"
)

// onePage is a module with a memory of one page, and nothing else.
var onePage = []byte("\x00asm\x01\x00\x00\x00\x05\x03\x01\x00\x01\x07\x0a\x01\x06memory\x02\x00")

// pageMemory is a guest's memory of 65536 bytes.
func pageMemory(t *testing.T) memory {
	t.Helper()
	runtime := wazero.NewRuntime(t.Context())
	t.Cleanup(func() { runtime.Close(context.Background()) })
	mod, err := runtime.Instantiate(t.Context(), onePage)
	if err != nil {
		t.Fatal(err)
	}
	return memory{mod.Memory()}
}

// dirty is an i32 parameter as it may come: the upper half is not the guest's.
func dirty(n int32) uint64 { return 0xdeadbeef<<32 | uint64(uint32(n)) }

func crossed(code schema.Code) int64 { return abi.CodeBase + int64(abi.Number(code)) }

// Every function of the module has an answer, reads its parameters at their width, and finds windows that are not
// in the memory.
func TestFileImports(t *testing.T) {
	for _, f := range abi.FileImports() {
		if fileAnswers[f.Name] == nil {
			t.Errorf("%s has no answer", f)
		}
	}
	if len(fileAnswers) != len(abi.FileImports()) {
		t.Errorf("%d answers for %d functions", len(fileAnswers), len(abi.FileImports()))
	}

	mem := pageMemory(t)
	path := filepath.Join(t.TempDir(), "x.db")
	f := sqlite.GrantFile(path)
	defer f.Close()
	call := func(f *sqlite.GrantedFile, name string, p ...uint64) int64 {
		t.Helper()
		return answerFile(name)(f, t.Context(), mem, p)
	}
	mem.WriteString(100, "written")
	window := func(ptr, n uint32) []uint64 { return []uint64{dirty(int32(ptr)), dirty(int32(n))} }
	for _, step := range []struct {
		name string
		want int64
		args []uint64
	}{
		{abi.Exists, 0, []uint64{dirty(0)}},
		{abi.Open, 0, []uint64{dirty(0), dirty(1)}},
		{abi.Exists, 1, []uint64{dirty(0)}},
		{abi.Lock, 0, []uint64{dirty(1)}},
		{abi.Lock, 0, []uint64{dirty(4)}},
		{abi.Write, 0, []uint64{dirty(0), dirty(100), dirty(7), 5}},
		{abi.Sync, 0, []uint64{dirty(0)}},
		{abi.Size, 12, []uint64{dirty(0)}},
		{abi.Read, 4, []uint64{dirty(0), dirty(200), dirty(50), 8}},
		{abi.Truncate, 0, []uint64{dirty(0), 6}},
		{abi.Size, 6, []uint64{dirty(0)}},
		{abi.Truncate, crossed(schema.Limit), []uint64{dirty(0), 1 << 60}},
		{abi.Write, crossed(schema.Limit), []uint64{dirty(0), dirty(100), dirty(7), 1 << 60}},
		{abi.Write, crossed(schema.Invalid), []uint64{dirty(0), dirty(100), dirty(7), 1 << 63}},
		{abi.Open, 0, []uint64{dirty(1), dirty(1)}},
		{abi.Delete, crossed(schema.Invalid), []uint64{dirty(1)}},
		{abi.Close, 0, []uint64{dirty(1)}},
		{abi.Delete, 0, []uint64{dirty(1)}},
		{abi.InPlace, 0, nil},
		{abi.Beside, 9 + 9, window(300, 64)},
		{abi.Close, 0, []uint64{dirty(0)}},
	} {
		if n := call(f, step.name, step.args...); n != step.want {
			t.Errorf("%s%x: %d, want %d", step.name, step.args, n, step.want)
		}
	}
	if got, _ := mem.Read(200, 5); string(got) != "tten\x00" {
		t.Errorf("read %q", got)
	}

	before, _ := mem.Read(0, mem.Size())
	before = bytes.Clone(before)
	for _, w := range [][2]uint32{{0xfffffff0, 0x20}, {0, 65537}, {65536, 1}, {65535, 2}, {65537, 0}, {0, math.MaxUint32}, {1 << 31, 1 << 31}} {
		for _, name := range []string{abi.Read, abi.Write, abi.Beside} {
			args := window(w[0], w[1])
			if name != abi.Beside {
				args = append(append([]uint64{dirty(0)}, args...), 0)
			}
			if n := call(f, name, args...); n != crossed(schema.Invalid) {
				t.Errorf("%s with %d bytes at %#x: %d", name, w[1], w[0], n)
			}
			n := call(f, abi.ErrorText, window(1000, 4096)...)
			if text, _ := mem.Read(1000, uint32(n)); !strings.Contains(string(text), "memory of 65536 bytes") {
				t.Errorf("%s: it says %q", name, text)
			}
			mem.Write(0, before)
		}
	}
	for _, fn := range abi.FileImports() {
		if n := call(nil, fn.Name, 0, 0, 0, 0); n != crossed(schema.Denied) {
			t.Errorf("%s without a file: %d", fn, n)
		}
	}
}

// What a guest with its own SQLite writes, a native store reads, and the other way round; each of them finds the
// database in use while the other has it (Y4, Z2, C78, C79).
func TestFileOneOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d", "states.sqlite")
	path, err := sqlite.Resolve(path)
	if err != nil {
		t.Fatal(err)
	}
	g := openInside(t, path)
	if err := g.write(`"from the guest"`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s, err := sessionstate.Open(ctx, path, sessionstate.Options{}); err == nil {
		s.Close()
		t.Error("a native store opened the file of another owner")
	} else if code := schema.CodeOf(err); code != schema.Busy && code != schema.Canceled {
		t.Errorf("a native store: %v", err)
	}
	second := &inside{ctx: ctx, file: sqlite.GrantFile(path)}
	if n := second.file.OpenFile(0, 0); n != 0 {
		t.Fatal(n)
	}
	if n := second.file.Lock(t.Context(), 1); n != -5 {
		t.Errorf("a second guest's lock: %d", n)
	}
	if err := second.file.Close(); err != nil {
		t.Fatal(err)
	}
	if program, err := exec.LookPath("sqlite3"); err == nil {
		out, _ := exec.CommandContext(t.Context(), program, path, "SELECT count(*) FROM state").CombinedOutput()
		if !strings.Contains(string(out), "locked") {
			t.Errorf("the sqlite3 program: %s", out)
		}
	}
	g.close(t)

	native, err := sessionstate.Open(t.Context(), path, sessionstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	state, err := sessionstate.New(native, sessionstate.Config{PluginID: "p", Scope: sessionstate.ScopeSession})
	if err != nil {
		t.Fatal(err)
	}
	sc := sessionstate.At("session", "", nil)
	if value, _, err := state.Read(t.Context(), sc); string(value) != `"from the guest"` {
		t.Errorf("the native store reads %s, %v", value, err)
	}
	if err := state.Write(t.Context(), sc, []byte(`"from the native store"`)); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newInside(t, ended, path); schema.CodeOf(err) != schema.Canceled {
		t.Errorf("a guest whose time is over: %v", err)
	}
	if err := native.Close(); err != nil {
		t.Fatal(err)
	}
	if value, err := openInside(t, path).read(100); value != `"from the native store"` {
		t.Errorf("the guest reads %s, %v", value, err)
	}
}

// S9: a guest notices that another file has taken the place of its own, and writes to neither.
func TestFileReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "states.sqlite")
	g := openInside(t, path)
	if err := g.write(`"kept"`); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.write(`"lost"`); schema.CodeOf(err) != schema.Replaced {
		t.Errorf("got %v", err)
	}
	g.close(t)
	if other, err := os.ReadFile(path); string(other) != "another" {
		t.Errorf("the other file holds %q, %v", other, err)
	}
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Errorf("the WAL, which holds what the old file lacks: %v", err)
	}
}

// S4: a database that is not the product's is refused, and neither it nor what lies beside it changes, though it may
// have a WAL that was left behind.
func TestFileForeign(t *testing.T) {
	dir := t.TempDir()
	live, path := filepath.Join(dir, "live"), filepath.Join(dir, "states.sqlite")
	mustExec(t, rawConn(t, live), "PRAGMA journal_mode = WAL; CREATE TABLE state (mine); INSERT INTO state VALUES (1)")
	before := map[string]string{}
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(live + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+suffix, content, 0o644); err != nil {
			t.Fatal(err)
		}
		before[suffix] = string(content)
	}
	if _, err := newInside(t, t.Context(), path); schema.CodeOf(err) != schema.Incompatible {
		t.Errorf("got %v", err)
	}
	for suffix, content := range before {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if now, _ := os.ReadFile(path + suffix); string(now) != content || info.Mode() != 0o644 {
			t.Errorf("states.sqlite%s was changed (%v)", suffix, info.Mode())
		}
	}
}

// SQLite's memory moves when it grows, and the guest's grows around it: what is read into it stays right.
func TestFileWhileMemoryGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "states.sqlite")
	g := openInside(t, path)
	want := map[int]string{}
	for i := range 9 {
		value := `"` + strings.Repeat(fmt.Sprintf("%d.", i), 1000<<i) + `"`
		want[i] = value
		g.at(t, fmt.Sprint("s", i))
		if err := g.write(value); err != nil {
			t.Fatal(i, err)
		}
	}
	g.close(t)
	again := openInside(t, path) // with nothing in a cache
	for _, i := range []int{0, 8, 1, 7, 3, 6, 2, 5, 4, 8, 0} {
		again.at(t, fmt.Sprint("s", i))
		if value, err := again.read(1 << 20); err != nil || value != want[i] {
			t.Errorf("session %d: %d bytes, want %d (%v)", i, len(value), len(want[i]), err)
		}
	}
}

// killedOwner names the database that this process, a copy of the test, writes until it is killed.
const killedOwner = "PISTATE_TEST_FILE_OWNER"

// W6: an owner that is killed in the middle of a write leaves all that it acknowledged, and a sound database, to the
// next one, whether that has SQLite inside or is native.
func TestFileOwnerKilled(t *testing.T) {
	if path := os.Getenv(killedOwner); path != "" {
		writeUntilKilled(t, path)
	}
	path := filepath.Join(t.TempDir(), "states.sqlite")
	openInside(t, path).close(t) // compiles before there is a hurry
	for round := range 3 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileOwnerKilled$")
		cmd.Env = append(os.Environ(), killedOwner+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged := -1
		lines := bufio.NewScanner(out)
		for n := 0; n < 10+7*round && lines.Scan(); {
			if _, err := fmt.Sscanf(lines.Text(), "written %d", &acknowledged); err == nil {
				n++
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			fmt.Sscanf(lines.Text(), "written %d", &acknowledged)
		}
		if err := cmd.Wait(); err == nil || acknowledged < 9 {
			t.Fatalf("round %d: the owner ended with %v after %d writes", round, err, acknowledged+1)
		}
		var value string
		if round%2 == 0 {
			g := openInside(t, path)
			if value, err = g.read(100_000); err != nil {
				t.Fatal(err)
			}
			g.close(t)
		} else {
			value = nativeValue(t, path)
		}
		var last int
		if _, err := fmt.Sscanf(value, `"%d `, &last); err != nil || last < acknowledged || len(value) != len(numbered(last)) {
			t.Errorf("round %d: found %.20s (%d bytes), and %d was acknowledged", round, value, len(value), acknowledged)
		}
		checkSound(t, path)
	}
}

// nativeValue reads the value of "session" with a native store, which is gone afterwards.
func nativeValue(t *testing.T, path string) string {
	t.Helper()
	s, err := sessionstate.Open(t.Context(), path, sessionstate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	state, err := sessionstate.New(s, sessionstate.Config{PluginID: "p", Scope: sessionstate.ScopeSession})
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := state.Read(t.Context(), sessionstate.At("session", "", nil))
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

// numbered is a value that says which it is, with a length of its own.
func numbered(i int) string {
	return fmt.Sprintf(`"%d %s"`, i, strings.Repeat("x", i*7919%60_000))
}

func writeUntilKilled(t *testing.T, path string) {
	g := openInside(t, path)
	for i := 0; ; i++ {
		if err := g.write(numbered(i)); err != nil {
			t.Fatal(err)
		}
		fmt.Println("written", i)
	}
}

func checkSound(t *testing.T, path string) {
	t.Helper()
	report, err := sqlite.Check(t.Context(), path, sqlite.CheckOptions{}, func(*sqlite.Rx) error { return nil })
	if err != nil || !report.OK() {
		t.Errorf("%v %v", report, err)
	}
}
