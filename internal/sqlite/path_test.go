package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pistate/schema"
)

// S10, C34: a path is followed as the operating system follows it.
func TestResolve(t *testing.T) {
	dir := tempDir(t)
	t.Chdir(dir)
	must(t, os.MkdirAll("real/deep", 0o700))
	must(t, os.WriteFile("real/x.db", nil, 0o600))
	must(t, os.Symlink("real", "dirlink"))
	must(t, os.Symlink("real/x.db", "link.db"))
	must(t, os.Symlink("real/deep", "deeplink"))
	must(t, os.Symlink("nowhere", "dangling"))
	must(t, os.Symlink("loop", "loop"))
	for _, test := range []struct {
		path string
		want string // below dir
		code schema.Code
	}{
		{path: "real/x.db", want: "real/x.db"},
		{path: "./real//x.db", want: "real/x.db"},
		{path: dir + "/real/x.db", want: "real/x.db"},
		{path: "/" + dir + "/real/x.db", want: "real/x.db"},
		{path: "dirlink/x.db", want: "real/x.db"},
		{path: "link.db", want: "real/x.db"},
		{path: "new.db", want: "new.db"},
		{path: "dirlink/new.db", want: "real/new.db"},
		{path: "dirlink/a/b/new.db", want: "real/a/b/new.db"},
		{path: "deeplink/../x.db", want: "real/x.db"}, // not ./x.db
		{path: "deeplink/../new.db", want: "real/new.db"},
		{path: "a/../new.db", want: "new.db"},
		{path: "", code: schema.Invalid},
		{path: "a\x00b", code: schema.Invalid},
		{path: "real/", code: schema.Invalid},
		{path: "new.db/", code: schema.Invalid},
		{path: "dangling", code: schema.Invalid},
		{path: "dangling/new.db", code: schema.Invalid},
		{path: "real/x.db/new.db", code: schema.Storage},
		{path: "loop", code: schema.Storage},
	} {
		got, err := Resolve(test.path)
		if test.code != "" {
			wantCode(t, err, test.code)
			continue
		}
		if want := filepath.Join(dir, test.want); got != want || err != nil {
			t.Errorf("Resolve(%q) = %q, %v; want %q", test.path, got, err, want)
		}
	}
}

// S10: every path means itself, for each way in which a database is opened.
func TestPathMeansItself(t *testing.T) {
	for _, name := range []string{
		"a?b.db", "a?mode=memory", "a#b", "a%20b", "a%", "a%00b", "a b", " ", "a\nb", "a&b=c", "a;b", "a'b\"c",
		"unicode-ü-本-\u202e", "\xff\xfe", "file:x", "file:x?mode=memory", ":memory:", "-wal", "a+b", `a\b`,
	} {
		dir := tempDir(t)
		path, err := Resolve(filepath.Join(dir, name))
		must(t, err)
		db, err := Open(t.Context(), path, testSchema)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		must(t, insert(t.Context(), db, "one"))
		must(t, os.Mkdir(filepath.Join(dir, "crashed"), 0o700))
		crash(t, path, filepath.Join(dir, "crashed", name), "", "-wal")
		wantItems(t, path, 1)
		_, err = Backup(t.Context(), path, path+"?backup#%41", verifyTest, nil)
		must(t, err)
		must(t, db.Close())
		wantItems(t, path, 1)
		wantItems(t, filepath.Join(dir, "crashed", name), 1)
		wantItems(t, path+"?backup#%41", 1)
		if _, err := Check(t.Context(), path, CheckOptions{}, verifyTest); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if e.Name() != name && e.Name() != name+"?backup#%41" && e.Name() != "crashed" {
				t.Errorf("%q: %q was created", name, e.Name())
			}
		}
	}
}

// S10: relative names that SQLite would take for something else.
func TestRelativePathMeansItself(t *testing.T) {
	dir := tempDir(t)
	t.Chdir(dir)
	for _, name := range []string{":memory:", "file:x.db", "file:x.db?mode=memory", "//x.db"} {
		path, err := Resolve(name)
		must(t, err)
		if strings.HasPrefix(name, "/") {
			if path != "/x.db" {
				t.Errorf("%q: %q", name, path)
			}
			continue
		}
		openTest(t, path)
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// S7: a file that another process makes or removes at this moment is no dangling link.
func TestResolveDuringCreation(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "made", "x.db")
	want, err := Resolve(path)
	must(t, err)
	over := make(chan bool)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(over)
	wg.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			if err := errors.Join(createDatabase(path), os.RemoveAll(filepath.Dir(path))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 3000 {
		if got, err := Resolve(path); err != nil || got != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
}

// C34: a link that takes the place of a resolved path is not followed, neither to read nor to write.
func TestLinkAfterResolve(t *testing.T) {
	dir := tempDir(t)
	other := openTest(t, filepath.Join(dir, "other.db"))
	must(t, other.Close())
	path, err := Resolve(filepath.Join(dir, "x.db"))
	must(t, err)
	must(t, os.Symlink("other.db", path))
	before := files(t, dir)
	_, err = Open(t.Context(), path, testSchema)
	if err == nil {
		t.Error("a link was followed")
	}
	_, err = OpenReader(t.Context(), path, verifyTest)
	wantCode(t, err, schema.Replaced)
	wantUnchanged(t, dir, before)
}
