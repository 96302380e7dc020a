package wasmbuild

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
)

// cacheBytes is how much compiled code the tests keep, in bytes: about 140 MB for each of the last few builds.
const cacheBytes = 600 << 20

// CacheDir returns the directory in which the tests of all packages keep the code that wazero makes of the
// modules, from one run to the next, with the code of the given ones in it. Compiling store-sqlite.wasm takes all
// processors half a minute, so that packages which need it at the same time wait for the first one.
func CacheDir(tb testing.TB, modules ...[]byte) string {
	tb.Helper()
	dir, err := cacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	if dir == "" {
		return tb.TempDir()
	}
	for _, wasm := range modules {
		if err := compileInto(dir, wasm); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// cacheDir returns the directory for the wazero that this tree requires, "" if there is nowhere to keep anything. The
// code of another version must not be used, and wazero can't see its own in a test binary, unless the package is a
// program: such a one would compile for itself.
var cacheDir = sync.OnceValues(func() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", nil
	}
	version, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		return "", fmt.Errorf("the version of wazero: %w", err)
	}
	base = filepath.Join(base, "pistate", "wazero-test")
	dir := filepath.Join(base, strings.TrimSpace(string(version)))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, trim(base, cacheBytes)
})

// compileInto puts the code of a module into a directory, unless it is there. One process at a time does so, with a
// file for each module that is the lock and, once there is something in it, says that the code is there. If the
// code was trimmed since, that costs time and nothing else.
func compileInto(dir string, wasm []byte) error {
	mark, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%x.compiled", sha256.Sum256(wasm))), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer mark.Close() // and the lock ends
	if done, err := isMarked(mark); done || err != nil {
		return err
	}
	if err := lock(mark); err != nil {
		return err
	}
	if done, err := isMarked(mark); done || err != nil {
		return err
	}
	if err := compile(dir, wasm); err != nil {
		return err
	}
	_, err = mark.WriteString("compiled\n")
	return err
}

func isMarked(mark *os.File) (bool, error) {
	info, err := mark.Stat()
	return err == nil && info.Size() > 0, err
}

func compile(dir string, wasm []byte) error {
	ctx := experimental.WithCompilationWorkers(context.Background(), runtime.GOMAXPROCS(0))
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return err
	}
	defer cache.Close(ctx)
	machine := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache))
	defer machine.Close(ctx)
	_, err = machine.CompileModule(ctx, wasm)
	return err
}

// trim removes the oldest files below a directory until the others have no more than so many bytes. Other
// processes may do the same, and a file that one of them has open stays what it is to that one.
func trim(dir string, most int64) error {
	type file struct {
		path string
		info fs.FileInfo
	}
	var files []file
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				files = append(files, file{path, info})
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(b.info.ModTime().Compare(a.info.ModTime()), strings.Compare(a.path, b.path))
	})
	var kept int64
	for _, f := range files {
		if kept += f.info.Size(); kept > most {
			_ = os.Remove(f.path) // where it is in use and can't be removed, another run will
		}
	}
	return nil
}
