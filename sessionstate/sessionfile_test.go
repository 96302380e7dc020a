package sessionstate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pistate/schema"
)

var _ SessionContext = (*SessionFile)(nil)

const testHeader = `{"type":"session","version":3,"id":"test"}` + "\n"

// entryLine returns the line of an entry; parent "" is null.
func entryLine(id, parent string) string {
	if parent == "" {
		return fmt.Sprintf(`{"type":"message","id":%q,"parentId":null}`, id) + "\n"
	}
	return fmt.Sprintf(`{"type":"message","id":%q,"parentId":%q}`, id, parent) + "\n"
}

// chainLines returns the lines of a chain of entries.
func chainLines(ids ...string) string {
	var b strings.Builder
	parent := ""
	for _, id := range ids {
		b.WriteString(entryLine(id, parent))
		parent = id
	}
	return b.String()
}

// newSessionFile writes a session file and opens it.
func newSessionFile(t *testing.T, content string) (*SessionFile, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "session.jsonl")
	writeForTest(t, path, content)
	return openForTest(t, path), path
}

func writeForTest(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func appendForTest(t *testing.T, path, text string) {
	t.Helper()
	w, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// expectState checks the leaf, its key and the number of entries.
func expectState(t *testing.T, f *SessionFile, leaf, key string, entries int) {
	t.Helper()
	if f.Leaf() != leaf || f.Len() != entries {
		t.Errorf("leaf %q of %d entries, want %q of %d", f.Leaf(), f.Len(), leaf, entries)
	}
	if got, err := f.BranchKey(leaf); got != key || err != nil {
		t.Errorf("BranchKey(%q) = %q, %v, want %q", leaf, got, err, key)
	}
}

func expectSync(t *testing.T, f *SessionFile, added int) {
	t.Helper()
	if got, err := f.Sync(t.Context()); got != added || err != nil {
		t.Errorf("Sync = %d, %v, want %d", got, err, added)
	}
}

func expectCode(t *testing.T, err error, code schema.Code, mention string) {
	t.Helper()
	if !errors.Is(err, code) || !strings.Contains(fmt.Sprint(err), mention) {
		t.Errorf("error %v, want %s with %q", err, code, mention)
	}
}

// C11: what can't be opened, and why. A file that isn't there yet is told from all else.
func TestOpenSessionFileRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "session.jsonl")
	writeForTest(t, file, testHeader)
	link := filepath.Join(dir, "dangling.jsonl")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), link); err != nil {
		t.Logf("no symbolic links here: %v", err)
	}
	for _, test := range []struct {
		path    string
		opts    []SessionFileOption
		code    schema.Code
		mention string
	}{
		{"", nil, schema.Invalid, "empty"},
		{dir, nil, schema.Invalid, dir},
		{filepath.Join(dir, "missing.jsonl"), nil, schema.NotFound, "no session yet"},
		{filepath.Join(dir, "no", "such", "directory.jsonl"), nil, schema.NotFound, "no session yet"},
		{link, nil, schema.NotFound, link},
		{filepath.Join(file, "below-a-file.jsonl"), nil, schema.Storage, "below-a-file.jsonl"},
		{filepath.Join(dir, "nul\x00.jsonl"), nil, schema.Storage, "nul"},
		{file, []SessionFileOption{MaxLine(0)}, schema.Invalid, "must be positive"},
		{file, []SessionFileOption{MaxLine(-1)}, schema.Invalid, "must be positive"},
	} {
		f, err := OpenSessionFile(test.path, test.opts...)
		if f != nil {
			t.Errorf("%q was opened", test.path)
		}
		expectCode(t, err, test.code, test.mention)
	}
}

// C11: the session's identity is its header's; the file's name is no evidence. A relative path is made absolute.
func TestSessionFileIdentity(t *testing.T) {
	t.Chdir(t.TempDir())
	writeForTest(t, "2026-01-05T10-00-00-000Z_id-1.jsonl", `{"type":"session","version":3,"id":"id-2"}`+"\n")
	f := openForTest(t, "2026-01-05T10-00-00-000Z_id-1.jsonl")
	if f.SessionID() != "id-2" || !filepath.IsAbs(f.Path()) || filepath.Base(f.Path()) != "2026-01-05T10-00-00-000Z_id-1.jsonl" {
		t.Errorf("session %q at %q", f.SessionID(), f.Path())
	}
	if f.Tree() != Tree(f) {
		t.Error("Tree is not the file itself")
	}
	// C10, Y2: before the first entry there is no leaf and no key, and '' is no entry.
	if f.Leaf() != "" || f.Len() != 0 || len(f.Entries()) != 0 || f.Contains("") {
		t.Errorf("a header only: leaf %q, entries %q", f.Leaf(), f.Entries())
	}
	_, err := f.BranchKey(f.Leaf())
	expectCode(t, err, schema.NotFound, "first entry")
}

// Y11: the version is judged as Pi judges it.
func TestSessionVersions(t *testing.T) {
	for version, want := range map[string]schema.Code{
		`3`: "", `3.0`: "", `30e-1`: "", `"3"`: "", `" 3 "`: "",
		`2`: schema.Incompatible, `2.5`: schema.Incompatible, `0`: schema.Incompatible, `-1`: schema.Incompatible, `null`: schema.Incompatible,
		`4`: schema.Incompatible, `1e999`: schema.Incompatible, `"x"`: schema.Incompatible, `[3]`: schema.Incompatible, `true`: schema.Incompatible,
	} {
		l := newSessionLog(DefaultMaxLine)
		err := l.feed([]byte(`{"type":"session","id":"s","version":` + version + "}\n"))
		if got := schema.CodeOf(errors.Join(err, l.end())); err == nil && got != want || err != nil && schema.CodeOf(err) != want {
			t.Errorf("version %s: %v, want %q", version, err, want)
		}
	}
	l := newSessionLog(DefaultMaxLine)
	err := l.feed([]byte(`{"type":"session","id":"s","version":1}` + "\n"))
	expectCode(t, err, schema.Incompatible, "open it once in Pi")
}

// Y11: Sync reads what was appended; forks move keys (C03) and leave them to the ascent.
func TestSyncFollowsAFile(t *testing.T) {
	f, path := newSessionFile(t, testHeader)
	expectSync(t, f, 0)
	appendForTest(t, path, chainLines("a", "b"))
	expectSync(t, f, 2)
	expectState(t, f, "b", "a", 2)
	expectSync(t, f, 0)
	appendForTest(t, path, entryLine("c", "b")+"\n"+entryLine("d", "b"))
	expectSync(t, f, 2)
	expectState(t, f, "d", "d", 4)
	if key, err := f.BranchKey("c"); key != "c" || err != nil {
		t.Errorf("BranchKey(c) = %q, %v", key, err)
	}
	if above, ok, err := f.ParentKey("d"); above != "a" || !ok || err != nil {
		t.Errorf("ParentKey(d) = %q, %v, %v, want a", above, ok, err)
	}
	if _, ok, err := f.ParentKey("a"); ok || err != nil {
		t.Errorf("ParentKey(a): %v, %v", ok, err)
	}
	// An entry that came again is one entry, and one line read.
	appendForTest(t, path, entryLine("c", "a"))
	expectSync(t, f, 1)
	expectState(t, f, "c", "c", 4)
}

// C16: the last line is written in pieces, one of them cut inside a character.
func TestSyncDuringAnAppend(t *testing.T) {
	f, path := newSessionFile(t, testHeader+chainLines("a"))
	line := `{"type":"message","id":"é","parentId":"a","text":"caf` + "é\"}\n"
	for k := range len(line) - 2 {
		appendForTest(t, path, line[k:k+1])
		expectSync(t, f, 0)
		expectState(t, f, "a", "a", 1)
		if got := kindsOf(f.Problems()); got != "3 unterminated" {
			t.Fatalf("after %d bytes: problems %q", k+1, got)
		}
	}
	appendForTest(t, path, "}") // whole, though not yet ended
	expectSync(t, f, 1)
	expectState(t, f, "é", "a", 2)
	if got := kindsOf(f.Problems()); got != "3 unterminated" {
		t.Errorf("problems %q", got)
	}
	appendForTest(t, path, "\n")
	expectSync(t, f, 0)
	expectState(t, f, "é", "a", 2)
	if p := f.Problems(); len(p) > 0 {
		t.Errorf("problems %v", p)
	}
}

// C01: an entry that counted without its newline is taken back when the next entry lands on its line.
func TestSyncTakesBackATornLine(t *testing.T) {
	f, path := newSessionFile(t, testHeader+chainLines("a", "b")+strings.TrimSuffix(entryLine("c", "b"), "\n"))
	expectState(t, f, "c", "a", 3)
	appendForTest(t, path, entryLine("d", "c"))
	expectSync(t, f, -1)
	expectState(t, f, "b", "a", 2)
	if f.Contains("c") || f.Contains("d") {
		t.Error("a line with two values counts")
	}
	appendForTest(t, path, entryLine("e", "c"))
	expectSync(t, f, 1)
	expectState(t, f, "e", "e", 3) // its parent was lost: a root, not bound to b by guess
	if got := kindsOf(f.Problems()); got != "4 not_json, 5 missing_parent" {
		t.Errorf("problems %q", got)
	}
}

// Y11: taking back an entry that had moved another one restores the tree as it was.
func TestSyncTakesBackADuplicate(t *testing.T) {
	f, path := newSessionFile(t, testHeader+chainLines("a", "b", "c")+entryLine("x", "")+strings.TrimSuffix(entryLine("b", "x"), "\n"))
	expectState(t, f, "b", "x", 4)
	appendForTest(t, path, " junk\n")
	expectSync(t, f, -1)
	expectState(t, f, "x", "x", 4)
	if key, err := f.BranchKey("c"); key != "a" || err != nil {
		t.Errorf("BranchKey(c) = %q, %v, want a", key, err)
	}
	appendForTest(t, path, entryLine("b", "a"))
	expectSync(t, f, 1)
	if p := f.Problems(); len(p) != 2 || !strings.Contains(p[1].Detail, "declared on line 3 already") {
		t.Errorf("problems %v", p)
	}
}

// Y11: a header without its newline is provisional too.
func TestSyncLosesAProvisionalHeader(t *testing.T) {
	header := strings.TrimSuffix(testHeader, "\n")
	f, path := newSessionFile(t, header)
	appendForTest(t, path, entryLine("a", ""))
	for range 2 {
		_, err := f.Sync(t.Context())
		expectCode(t, err, schema.Corrupt, "no session header")
	}
	appendForTest(t, path, testHeader+chainLines("a"))
	expectSync(t, f, 1)
	expectState(t, f, "a", "a", 1)

	f, path = newSessionFile(t, header)
	appendForTest(t, path, "junk\n"+strings.Replace(testHeader, "test", "another", 1))
	_, err := f.Sync(t.Context())
	expectCode(t, err, schema.Replaced, `"another"`)
	if f.SessionID() != "test" {
		t.Errorf("the session became %q under the hands of its user", f.SessionID())
	}
}

// C13, Y11: a file that is no longer the one that was read. What was read stays answerable.
func TestSyncNoticesAnotherFile(t *testing.T) {
	content := testHeader + chainLines("a", "b", "c")
	long := testHeader + chainLines("a") + strings.Repeat(entryLine("b", "a"), 100) + entryLine("c", "b")
	for name, test := range map[string]struct {
		content string
		change  func(t *testing.T, path string)
		mention string
	}{
		"removed": {content, func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, "removed"},
		"removed and begun again without a header": {content, func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			writeForTest(t, path, chainLines("a", "b", "c", "d", "e", "f", "g", "h"))
		}, "another file"},
		"renamed over, with the same content": {content, func(t *testing.T, path string) {
			writeForTest(t, path+".new", content+entryLine("d", "c"))
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}, "another file"},
		"shortened":                          {content, func(t *testing.T, path string) { writeForTest(t, path, testHeader) }, "shorter"},
		"emptied":                            {content, func(t *testing.T, path string) { writeForTest(t, path, "") }, "shorter"},
		"another beginning":                  {content, func(t *testing.T, path string) { writeForTest(t, path, strings.Replace(content, "test", "tset", 1)) }, "rewritten"},
		"another beginning of a longer file": {long, func(t *testing.T, path string) { writeForTest(t, path, strings.Replace(long, "test", "tset", 1)) }, "rewritten"},
		"another end":                        {content, func(t *testing.T, path string) { writeForTest(t, path, strings.Replace(content, `"c"`, `"x"`, 1)) }, "rewritten"},
		"an early line gone": {long, func(t *testing.T, path string) {
			writeForTest(t, path, strings.Replace(long, entryLine("b", "a"), "", 1)+strings.Repeat(entryLine("d", "c"), 5))
		}, "rewritten"},
		"a directory in its place": {content, func(t *testing.T, path string) {
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, "another file"},
	} {
		t.Run(name, func(t *testing.T) {
			f, path := newSessionFile(t, test.content)
			test.change(t, path)
			for range 2 {
				added, err := f.Sync(t.Context())
				expectCode(t, err, schema.Replaced, test.mention)
				if added != 0 {
					t.Errorf("%d entries added", added)
				}
			}
			expectState(t, f, "c", "a", 3)
		})
	}
	t.Run("touched only", func(t *testing.T) {
		f, path := newSessionFile(t, long)
		writeForTest(t, path, long) // the same bytes in the same file
		expectSync(t, f, 0)
		appendForTest(t, path, entryLine("d", "c"))
		expectSync(t, f, 1)
	})
}

// Y11: a cycle that arrives is an error for the questions too, never a hang, until an entry breaks it.
func TestSyncWithACycle(t *testing.T) {
	f, path := newSessionFile(t, testHeader+chainLines("a", "b", "c"))
	appendForTest(t, path, entryLine("a", "c"))
	for range 2 {
		_, err := f.Sync(t.Context())
		expectCode(t, err, schema.Corrupt, `line 5: the parents of 3 entries lead in a circle: "a", "c", "b"`)
	}
	_, err := f.BranchKey("c")
	expectCode(t, err, schema.Corrupt, path)
	_, _, err = f.ParentKey("c")
	expectCode(t, err, schema.Corrupt, path)
	_, err = OpenSessionFile(path)
	expectCode(t, err, schema.Corrupt, path)
	appendForTest(t, path, entryLine("a", "")+entryLine("d", "c"))
	expectSync(t, f, 2)
	expectState(t, f, "d", "a", 4)
}

// C15: the limit for a line counts its bytes without the newline, at its beginning and when it grows.
func TestMaxLine(t *testing.T) {
	line := strings.TrimSuffix(entryLine("a", ""), "\n")
	limit := MaxLine(int64(len(line)))
	dir := t.TempDir()
	for name, test := range map[string]struct {
		content string
		code    schema.Code
	}{
		"at the limit":               {line + "\n", ""},
		"at the limit, unterminated": {line, ""},
		"over it":                    {line + " \n", schema.Limit},
		"over it, unterminated":      {line + " ", schema.Limit},
		"over it, and no JSON":       {strings.Repeat("x", len(line)+1), schema.Limit},
		"over it, and blank":         {strings.Repeat(" ", len(line)+1) + "\n", schema.Limit},
	} {
		path := filepath.Join(dir, name)
		writeForTest(t, path, testHeader+test.content)
		f, err := OpenSessionFile(path, limit)
		if schema.CodeOf(err) != test.code {
			t.Errorf("%s: %v, want %q", name, err, test.code)
		}
		if err != nil {
			expectCode(t, err, schema.Limit, "line 2 ")
		} else if err := f.Close(); err != nil {
			t.Error(err)
		}
	}

	path := filepath.Join(dir, "growing")
	writeForTest(t, path, testHeader+line+"\n"+line[:10])
	f, err := OpenSessionFile(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	appendForTest(t, path, strings.Repeat("x", 1000)+"\n"+entryLine("b", "a"))
	for range 2 {
		_, err := f.Sync(t.Context())
		expectCode(t, err, schema.Limit, "line 3 ")
	}
	expectState(t, f, "a", "a", 1)
}

// C15: memory doesn't grow with the length of lines: 32 MiB of one line, deep in a string, cost next to nothing.
func TestLongLinesAreNotKept(t *testing.T) {
	l := newSessionLog(DefaultMaxLine)
	chunk := bytes.Repeat([]byte("text with \\\"escapes\\\" "), 1<<15)
	feed := func(p []byte) {
		if err := l.feed(p); err != nil {
			t.Fatal(err)
		}
	}
	feed([]byte(testHeader + `{"type":"message","message":{"text":"`))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	size := 0
	for ; size < 32<<20; size += len(chunk) {
		feed(chunk)
	}
	runtime.ReadMemStats(&after)
	feed([]byte(`"},"id":"a","parentId":null}` + "\n"))
	if err := l.end(); err != nil || l.entries != 1 {
		t.Fatalf("%d entries, %v", l.entries, err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes allocated for %d bytes of a line", grown, size)
	}
}

// Y11: a context that has ended stops the reading; the next Sync goes on.
func TestSyncCanceled(t *testing.T) {
	f, path := newSessionFile(t, testHeader)
	appendForTest(t, path, chainLines("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Sync(ctx)
	expectCode(t, err, schema.Canceled, path)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v doesn't carry the cause", err)
	}
	expectSync(t, f, 1)
}

// C17: a closed file answers no questions.
func TestClosedSessionFile(t *testing.T) {
	f, _ := newSessionFile(t, testHeader+chainLines("a"))
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.Sync(t.Context())
	expectCode(t, err, schema.Closed, f.Path())
	_, err = f.BranchKey("a")
	expectCode(t, err, schema.Closed, f.Path())
	_, _, err = f.ParentKey("a")
	expectCode(t, err, schema.Closed, f.Path())
}

// Y11: a thousand problems are listed and the rest counted, so that a hostile file can't fill the memory.
func TestManyProblems(t *testing.T) {
	f, _ := newSessionFile(t, testHeader+strings.Repeat("junk\n", maxProblems+41)+entryLine("a", "gone"))
	p := f.Problems()
	if len(p) != maxProblems+1 {
		t.Fatalf("%d problems listed", len(p))
	}
	if first := p[0].String(); first != "line 2: not_json: skipped: it is not JSON from byte 1 on" {
		t.Errorf("the first is %q", first)
	}
	if last := p[maxProblems].String(); last != "omitted: the file has 42 more problems than the 1000 listed" {
		t.Errorf("the last is %q", last)
	}
}

// Y11: an id that can't be a key of the database is an entry all the same, and is reported; ids that differ for Pi
// differ here.
func TestOddIDs(t *testing.T) {
	f, _ := newSessionFile(t, testHeader+
		`{"id":"\ud800","parentId":null}`+"\n"+`{"id":"\ud801","parentId":"\ud800"}`+"\n"+`{"id":"n\u0000","parentId":"\ud801"}`+"\n"+
		`{"id":"plain","parentId":"n\u0000"}`+"\n")
	expectState(t, f, "plain", "\xed\xa0\x80", 4)
	if got := kindsOf(f.Problems()); got != "2 odd_id, 3 odd_id, 4 odd_id" {
		t.Errorf("problems %q", got)
	}
}

// Y11: ids are bounded after decoding: an id of 4,096 escapes is one, and a longer one is none, wherever it was cut.
func TestLongEscapedIDs(t *testing.T) {
	id := func(prefix string, n int) string { return prefix + strings.Repeat(`\u0061`, n) }
	f, _ := newSessionFile(t, testHeader+
		`{"id":"`+id("", maxID)+`","parentId":null}`+"\n"+
		`{"id":"`+id("", maxID+1)+`","parentId":null}`+"\n"+
		`{"id":"`+id("abc", maxID)+`","parentId":null}`+"\n"+
		`{"id":"b","parentId":"`+id("", maxID)+`"}`+"\n"+
		`{"id":"c","parentId":"`+id("x", maxID)+`"}`+"\n")
	expectState(t, f, "c", "c", 3)
	if key, err := f.BranchKey("b"); key != strings.Repeat("a", maxID) || err != nil {
		t.Errorf("BranchKey(b) = %.20q, %v", key, err)
	}
	if got := kindsOf(f.Problems()); got != "3 bad_id, 4 bad_id, 6 bad_parent" {
		t.Errorf("problems %q", got)
	}
}

// Y11: the questions of several goroutines while another one follows the file.
func TestSessionFileConcurrently(t *testing.T) {
	f, path := newSessionFile(t, testHeader+chainLines("e0"))
	const entries = 200
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if key, err := f.BranchKey(f.Leaf()); key != "e0" || err != nil {
					t.Errorf("BranchKey = %q, %v", key, err)
					return
				}
				if n := len(f.Entries()); n < 1 || n > entries || f.Len() < n {
					t.Errorf("%d entries", n)
				}
				f.Problems()
			}
		})
	}
	for i := 1; i < entries; i++ {
		appendForTest(t, path, entryLine(fmt.Sprint("e", i), fmt.Sprint("e", i-1)))
		expectSync(t, f, 1)
	}
	close(done)
	wg.Wait()
}
