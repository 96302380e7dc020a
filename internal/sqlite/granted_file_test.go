//go:build !wasip1

package sqlite

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"pgregory.net/rapid"

	"pistate/schema"
	"pistate/wasm/abi"
)

// numberOf is what a guest gets for an error with a code.
func numberOf(code schema.Code) int64 { return codeOffset + int64(abi.Number(code)) }

func wantResult(t testing.TB, what string, got, want int64) {
	t.Helper()
	if got != want {
		t.Errorf("%s: result %d, want %d", what, got, want)
	}
}

// openMain grants a new database and opens it.
func openMain(t testing.TB, level ...int32) *GrantedFile {
	t.Helper()
	g := GrantFile(filepath.Join(tempDir(t), "x.db"))
	t.Cleanup(func() { must(t, g.Close()) })
	wantResult(t, "open", g.OpenFile(grantedMain, 1), 0)
	for _, l := range level {
		wantResult(t, "lock", g.Lock(t.Context(), l), 0)
	}
	return g
}

// Whatever numbers a guest comes with, it gets an error for what can't be, and no file grows beyond reason.
func TestGrantedHostileNumbers(t *testing.T) {
	g := openMain(t, 1, 4)
	ctx, byte1 := t.Context(), []byte{1}
	invalid, limit := numberOf(schema.Invalid), numberOf(schema.Limit)
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"file -1", g.OpenFile(-1, 1), invalid},
		{"file 3", g.OpenFile(3, 1), invalid},
		{"file of all bits", g.Exists(math.MinInt32), invalid},
		{"opening twice", g.OpenFile(grantedMain, 0), invalid},
		{"closing what is closed", g.CloseFile(grantedWAL), invalid},
		{"deleting the database", g.Delete(grantedMain), invalid},
		{"reading what is closed", g.Read(ctx, grantedWAL, byte1, 0), invalid},
		{"size of what is closed", g.Size(grantedJournal), invalid},
		{"syncing what is closed", g.Sync(grantedJournal), invalid},
		{"reading before the file", g.Read(ctx, grantedMain, byte1, -1), invalid},
		{"reading at the end of all numbers", g.Read(ctx, grantedMain, byte1, math.MaxInt64), 0},
		{"reading nothing", g.Read(ctx, grantedMain, nil, 0), 0},
		{"writing before the file", g.Write(ctx, grantedMain, byte1, math.MinInt64), invalid},
		{"writing at 2^60", g.Write(ctx, grantedMain, byte1, 1<<60), limit},
		{"writing at the end of all numbers", g.Write(ctx, grantedMain, byte1, math.MaxInt64), limit},
		{"writing one too far", g.Write(ctx, grantedMain, byte1, maxGranted), limit},
		{"a negative size", g.Truncate(grantedMain, -1), invalid},
		{"a size of 2^60", g.Truncate(grantedMain, 1<<60), limit},
		{"a lock of level 3", g.Lock(ctx, 3), invalid},
		{"a lock of level -1", g.Lock(ctx, -1), invalid},
		{"a lock of level 5", g.Lock(ctx, 5), invalid},
		{"down to reserved", g.Lock(ctx, 2), invalid},
		{"opening a WAL that isn't there", g.OpenFile(grantedWAL, 0), -int64(sqlite3.CANTOPEN)},
		{"deleting a WAL that isn't there", g.Delete(grantedWAL), -int64(sqlite3.IOERR_DELETE_NOENT)},
		{"the size of it all", g.Size(grantedMain), 0},
	} {
		wantResult(t, c.what, c.got, c.want)
	}
	if n := g.Error(make([]byte, 10)); n <= 10 {
		t.Errorf("the last text has %d bytes", n)
	}
	must(t, g.Close())
	wantResult(t, "after the end", g.Size(grantedMain), numberOf(schema.Closed))
}

// Only the owner changes anything, in whatever way.
func TestGrantedNeedsTheLock(t *testing.T) {
	for _, levels := range [][]int32{{}, {1}, {1, 2}, {1, 4, 1}, {1, 4, 0}} {
		t.Run(fmt.Sprint(levels), func(t *testing.T) {
			g := openMain(t, levels...)
			must(t, os.WriteFile(g.path+"-journal", []byte("somebody's"), 0o600))
			before := files(t, filepath.Dir(g.path))
			denied := numberOf(schema.Denied)
			wantResult(t, "write", g.Write(t.Context(), grantedMain, []byte("x"), 0), denied)
			wantResult(t, "truncate", g.Truncate(grantedMain, 4096), denied)
			wantResult(t, "create", g.OpenFile(grantedWAL, 1), denied)
			wantResult(t, "delete", g.Delete(grantedJournal), denied)
			wantUnchanged(t, filepath.Dir(g.path), before)
		})
	}
}

// S9, S10: a file that took the place of the granted one is neither used nor are the files beside it deleted, and
// no link is followed that has come since.
func TestGrantedReplaced(t *testing.T) {
	t.Run("database", func(t *testing.T) {
		g := openMain(t, 1, 4)
		wantResult(t, "in place", g.InPlace(), 0)
		must(t, os.Rename(g.path, g.path+".old"))
		wantResult(t, "no file", g.InPlace(), numberOf(schema.Replaced))
		must(t, os.WriteFile(g.path, []byte("another"), 0o600))
		must(t, os.WriteFile(g.path+"-wal", []byte("another's"), 0o600))
		wantResult(t, "another file", g.InPlace(), numberOf(schema.Replaced))
		wantResult(t, "delete", g.Delete(grantedWAL), numberOf(schema.Replaced))
		if got := listed(t, filepath.Dir(g.path)); !slices.Equal(got, []string{"x.db", "x.db-wal", "x.db.old"}) {
			t.Errorf("files: %v", got)
		}
	})
	t.Run("WAL", func(t *testing.T) {
		path := filepath.Join(tempDir(t), "x.db")
		host := GrantFile(path)
		c, err := guestConn(hostPort{host, t.Context()}, path, writer)
		must(t, err)
		must(t, c.Exec("CREATE TABLE t (x)"))
		must(t, os.Remove(path+"-wal"))
		must(t, os.WriteFile(path+"-wal", []byte("another's"), 0o600))
		wantResult(t, "in place", host.InPlace(), numberOf(schema.Replaced))
		before := files(t, filepath.Dir(path))
		must(t, c.Close()) // without its checkpoint, which SQLite does on what is in place alone
		must(t, host.Close())
		wantUnchanged(t, filepath.Dir(path), before)
	})
	for _, link := range []string{"", "-wal", "directory"} {
		t.Run("link "+link, func(t *testing.T) {
			dir := tempDir(t)
			path, other := filepath.Join(dir, "d", "x.db"), filepath.Join(dir, "other")
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			must(t, os.WriteFile(other, []byte("precious"), 0o644))
			g := GrantFile(path)
			defer g.Close()
			file := grantedMain
			switch link {
			case "":
				must(t, os.Symlink(other, path))
			case "directory":
				must(t, os.Rename(filepath.Dir(path), filepath.Join(dir, "e")))
				must(t, os.Symlink(filepath.Join(dir, "e"), filepath.Dir(path)))
			default:
				wantResult(t, "open", g.OpenFile(grantedMain, 1), 0)
				wantResult(t, "lock", join2(g.Lock(t.Context(), 1), g.Lock(t.Context(), 4)), 0)
				must(t, os.Symlink(other, path+link))
				file = grantedWAL
			}
			before := files(t, dir)
			for _, create := range []int32{1, 0} {
				wantResult(t, "open", g.OpenFile(file, create), numberOf(schema.Replaced))
			}
			wantUnchanged(t, dir, before)
		})
	}
	t.Run("directory in its place", func(t *testing.T) {
		g := GrantFile(filepath.Join(tempDir(t), "x.db"))
		must(t, os.Mkdir(g.path, 0o700))
		wantResult(t, "open", g.OpenFile(grantedMain, 1), numberOf(schema.Invalid))
	})
}

func join2(a, b int64) int64 { return min(a, b) }

// What the host says, SQLite says: its codes stay what they are, and those of the product come through.
func TestGrantedErrorsComeThrough(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	must(t, os.Mkdir(path, 0o700))
	host := GrantFile(path)
	_, err := guestConn(hostPort{host, t.Context()}, path, writer)
	err = translate(path, reported(err))
	wantCode(t, err, schema.Invalid)
	if !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("it says %v", err)
	}
	for result, want := range map[int64]sqlite3.ExtendedErrorCode{
		-int64(sqlite3.FULL):   sqlite3.ExtendedErrorCode(sqlite3.FULL),
		numberOf(schema.Limit): sqlite3.ExtendedErrorCode(sqlite3.FULL),
		-65535:                 65535,
		-65536:                 sqlite3.IOERR_READ,
		math.MinInt64:          sqlite3.IOERR_READ,
	} {
		v := &grantedVFS{port: hostPort{GrantFile(path), t.Context()}}
		if got := fmt.Sprintf("%v", v.failure(result, sqlite3.IOERR_READ)); v.failure(result, sqlite3.IOERR_READ) == nil {
			t.Errorf("result %d is no error, want %v (%s)", result, want, got)
		}
	}
}

// C42: a full disk is one, and not a failing one.
func TestGrantedDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	g := openMain(t, 1, 4)
	g.files[grantedMain].file.Close()
	g.files[grantedMain].file = full
	wantResult(t, "write", g.Write(t.Context(), grantedMain, []byte("x"), 0), -int64(sqlite3.FULL))
}

// A sync is one of the operating system: what can't be synced is not said to be.
func TestGrantedSync(t *testing.T) {
	g := openMain(t, 1, 4)
	wantResult(t, "sync", g.Sync(grantedMain), 0)
	in, out, err := os.Pipe()
	must(t, err)
	defer in.Close()
	g.files[grantedMain].file.Close()
	g.files[grantedMain].file = out
	wantResult(t, "sync of a pipe", g.Sync(grantedMain), -int64(sqlite3.IOERR_FSYNC))
}

// S6: the names beside the database come in order, with what is no text, and in pieces of any size.
func TestGrantedBeside(t *testing.T) {
	path := filepath.Join(tempDir(t), "d", "x.db")
	v := &grantedVFS{port: hostPort{GrantFile(path), t.Context()}}
	want := []string(nil)
	check := func(exists bool) {
		t.Helper()
		if e, names, err := v.Beside(); e != exists || err != nil || !slices.Equal(names, want) {
			t.Errorf("got %v %d names %v, want %v %d", e, len(names), err, exists, len(want))
		}
	}
	check(false)
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	for i := range 300 {
		want = append(want, fmt.Sprintf("%03d \xff %s", i, strings.Repeat("n", i%50)))
		must(t, os.WriteFile(filepath.Join(filepath.Dir(path), want[i]), nil, 0o600))
	}
	check(false)
	want = append(want, "x.db")
	must(t, os.WriteFile(path, nil, 0o600))
	check(false) // it is empty
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	check(true)
}

// Any sequence of calls with any numbers gives results that mean something, touches nothing but the three files,
// and ends with the lock.
func TestGrantedAnyCalls(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "x.db")
	rapid.Check(t, func(t *rapid.T) {
		g := GrantFile(path)
		defer g.Close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		file := rapid.OneOf(rapid.Int32Range(-1, 3), rapid.Int32())
		number := rapid.OneOf(rapid.Int64Range(-1, 9000), rapid.Int64())
		meaningful := func(result int64) {
			if result >= 0 || result > codeOffset {
				return
			}
			if _, ok := abi.CodeOf(int32(result - codeOffset)); !ok {
				t.Fatalf("result %d", result)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"open":     func(t *rapid.T) { meaningful(g.OpenFile(file.Draw(t, "file"), rapid.Int32().Draw(t, "create"))) },
			"close":    func(t *rapid.T) { meaningful(g.CloseFile(file.Draw(t, "file"))) },
			"delete":   func(t *rapid.T) { meaningful(g.Delete(file.Draw(t, "file"))) },
			"truncate": func(t *rapid.T) { meaningful(g.Truncate(file.Draw(t, "file"), number.Draw(t, "size"))) },
			"lock": func(t *rapid.T) {
				meaningful(g.Lock(ctx, rapid.OneOf(rapid.Int32Range(-1, 5), rapid.Int32()).Draw(t, "level")))
			},
			"read": func(t *rapid.T) {
				meaningful(g.Read(ctx, file.Draw(t, "file"), make([]byte, rapid.IntRange(0, 5000).Draw(t, "n")), number.Draw(t, "off")))
			},
			"write": func(t *rapid.T) {
				meaningful(g.Write(ctx, file.Draw(t, "file"), make([]byte, rapid.IntRange(0, 5000).Draw(t, "n")), number.Draw(t, "off")))
			},
			"beside": func(t *rapid.T) { meaningful(g.Beside(make([]byte, rapid.IntRange(0, 100).Draw(t, "cap")))) },
			"": func(t *rapid.T) {
				entries, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if suffix, _ := strings.CutPrefix(e.Name(), "x.db"); !slices.Contains(grantedSuffixes[:], suffix) {
						t.Fatalf("%s was made", e.Name())
					}
				}
			},
		})
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		next := GrantFile(path)
		defer next.Close()
		for _, result := range []int64{next.OpenFile(grantedMain, 1), next.Lock(ctx, 1), next.Lock(ctx, 4)} {
			if result != 0 {
				t.Fatalf("the next owner gets %d", result)
			}
		}
	})
}
