package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pistate/schema"
)

// Whatever bytes a database has, everything ends, with a result or an error that has a code; nothing
// panics; and those that only read change nothing. The parts of the integrity check together find what
// SQLite finds in one.
func TestDamagedFiles(t *testing.T) {
	dir := tempDir(t)
	path := filepath.Join(dir, "x.db")
	db := openTest(t, path)
	fill(t, db, 120)
	must(t, db.Write(t.Context(), func(tx *Tx) error {
		return tx.Script("DELETE FROM part WHERE item < 30; DELETE FROM item WHERE id < 30; UPDATE item SET data = randomblob(9000) WHERE id = 50")
	}, nil))
	must(t, db.Close())
	whole := map[string][]byte{"": readFile(t, path)}
	live := openTest(t, path)
	must(t, live.Write(t.Context(), func(tx *Tx) error { return tx.Script("UPDATE item SET name = 'new ' || name WHERE id % 3") }, nil))
	withWAL := map[string][]byte{"": readFile(t, path), "-wal": readFile(t, path+"-wal"), "-shm": readFile(t, path+"-shm")}

	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			set := []map[string][]byte{whole, withWAL}[seed%2]
			var names []string
			for suffix := range set {
				names = append(names, suffix)
			}
			slices.Sort(names)
			victim := names[random.IntN(len(names))]
			dir := tempDir(t)
			path := filepath.Join(dir, "x.db")
			for suffix, content := range set {
				content = slices.Clone(content)
				if suffix == victim {
					content = mutilate(random, content)
				}
				must(t, os.WriteFile(path+suffix, content, 0o600))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ended := func(what string, err error) {
				t.Helper()
				code := schema.CodeOf(err)
				if err != nil && (code == "" || code == schema.Canceled || code == schema.Busy || code == schema.NotFound) {
					t.Errorf("%s of a damaged %q: %v", what, "x.db"+victim, err)
				}
			}
			before := files(t, dir)
			_, err := items(ctx, path)
			ended("a read", err)
			report, err := Check(ctx, path, CheckOptions{}, verifyTest)
			ended("a check", err)
			if err == nil {
				ended("a check", report.Err())
				wantSameIntegrity(t, path, outcome(t, report, CheckIntegrity))
			}
			_, err = Check(ctx, path, CheckOptions{Quick: true}, verifyTest)
			ended("a quick check", err)
			wantUnchanged(t, dir, before)
			_, err = Backup(ctx, path, filepath.Join(dir, "backup"), verifyTest, nil)
			ended("a backup", err)
			if err == nil {
				report, err := Check(ctx, filepath.Join(dir, "backup"), CheckOptions{}, verifyTest)
				if must(t, err); !report.OK() {
					t.Errorf("a bad backup was made: %+v", report)
				}
			}
			db, err := Open(ctx, path, testSchema)
			ended("opening", err)
			if err == nil {
				ended("a write", insert(ctx, db, "new"))
				ended("closing", db.Close())
			}
		})
	}
}

// mutilate damages the content of a file.
func mutilate(random *rand.Rand, content []byte) []byte {
	n := len(content)
	switch random.IntN(6) {
	case 0: // a few bytes anywhere
		for range 1 + random.IntN(30) {
			content[random.IntN(n)] ^= byte(1 + random.IntN(255))
		}
	case 1: // a few bytes where the structure is
		for range 1 + random.IntN(10) {
			page := random.IntN(n/4096) * 4096
			content[page+random.IntN(120)] = byte(random.IntN(256))
		}
	case 2: // cut off
		content = content[:random.IntN(n)]
	case 3: // cut off at a page
		content = content[:random.IntN(n/4096)*4096]
	case 4: // a page of zeros
		clear(content[random.IntN(n/4096)*4096:][:4096])
	case 5: // a page in the place of another
		copy(content[random.IntN(n/4096)*4096:][:4096], content[random.IntN(n/4096)*4096:][:4096])
	}
	return content
}

// wantSameIntegrity compares the findings of the parts with those of SQLite's own check of the whole.
func wantSameIntegrity(t *testing.T, path string, got Outcome) {
	t.Helper()
	r := &Reader{path: path, check: true, verify: func(*Rx) error { return nil }}
	defer r.Close()
	var want []string
	err := r.Read(t.Context(), func(rx *Rx) error {
		want = nil
		return pragmaCheck("integrity_check")(rx, func(format string, args ...any) { want = append(want, cut(fmt.Sprintf(format, args...))) })
	})
	if errors.Is(err, schema.Corrupt) {
		want = append(want, "")
	} else if err != nil {
		return // here the check is unknown, or failed by another of its parts
	}
	if (len(want) > 0) != (got.Status == Failed) {
		t.Errorf("the parts say %+v, the whole %q (%v)", got, want, err)
	}
	for _, w := range want {
		// Where pages are damaged, each part ends at another of the errors that it counts.
		if strings.HasPrefix(w, "Tree ") || strings.HasPrefix(w, "Page ") || strings.HasPrefix(w, "Freelist") {
			return
		}
	}
	for _, w := range want {
		if w != "" && got.More == 0 && !slices.Contains(got.Findings, w) {
			t.Errorf("the parts did not find %q but %q", w, got.Findings)
		}
	}
}
