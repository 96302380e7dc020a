package sessionstate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const piSessions = "../testdata/pi-sessions"

// largeSession returns a real session of 1,018 entries and 943 KiB.
func largeSession(b *testing.B) []byte {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(piSessions, "large-session-v3.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// BenchmarkScan compares the scanner with encoding/json's Valid, which also only checks, on a real session.
func BenchmarkScan(b *testing.B) {
	data := largeSession(b)
	b.Run("scanner", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		var s lineScanner
		for b.Loop() {
			for p := data; len(p) > 0; {
				s.reset(false)
				n := s.scan(p)
				if s.kind() != lineObject {
					b.Fatal("a line of the session is no object")
				}
				p = p[n+1:]
			}
		}
	})
	b.Run("json.Valid", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			for line := range bytes.Lines(data) {
				if !json.Valid(line) {
					b.Fatal("a line of the session is not JSON")
				}
			}
		}
	})
}

// BenchmarkLoad opens whole files: the real one, and made ones of short and of long lines.
func BenchmarkLoad(b *testing.B) {
	header := []byte(`{"type":"session","version":3,"id":"bench"}` + "\n")
	lines := func(n, text int) []byte {
		data := bytes.Clone(header)
		for i := range n {
			parent := "null"
			if i > 0 {
				parent = fmt.Sprintf(`"%08x"`, i-1)
			}
			data = fmt.Appendf(data, `{"type":"message","id":"%08x","parentId":%s,"message":{"role":"user","content":"%s"}}`+"\n",
				i, parent, bytes.Repeat([]byte("text "), text/5))
		}
		return data
	}
	for _, file := range []struct {
		name string
		data []byte
	}{
		{"real", largeSession(b)},
		{"short-lines-100k", lines(100_000, 40)},
		{"long-lines-1k", lines(1000, 100_000)},
	} {
		b.Run(file.name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "session.jsonl")
			if err := os.WriteFile(path, file.data, 0o600); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(file.data)))
			b.ReportAllocs()
			for b.Loop() {
				f, err := OpenSessionFile(path)
				if err != nil {
					b.Fatal(err)
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A shape says below which earlier entry the entry i comes: -1 for a root.
type shape struct {
	name   string
	parent func(r *rand.Rand, i int) int
}

var shapes = []shape{
	{"chain", func(_ *rand.Rand, i int) int { return i - 1 }},
	// Every third entry forks anywhere, so that runs are short and the tree is about 30 runs deep at 100,000.
	{"forked", func(r *rand.Rand, i int) int {
		if i > 0 && r.IntN(3) == 0 {
			return r.IntN(i)
		}
		return i - 1
	}},
	// A side branch at every entry of one long path, as deep in runs as a session can be.
	{"comb", func(_ *rand.Rand, i int) int { return i - 1 - (i+1)%2 }},
}

// BenchmarkAppendAndKey appends an entry and asks for its key, over and over until the session has n entries, and
// then from the beginning (Y11). The steps are the same for every n, but more memory means more cache misses: the
// yardstick is "only-map", which does nothing but keep the same ids in a map and look up each parent.
func BenchmarkAppendAndKey(b *testing.B) {
	for _, sh := range shapes {
		for _, n := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", sh.name, n), func(b *testing.B) {
				ids, parents := shapeEntries(sh, n)
				b.ReportAllocs()
				var x *Index
				for i := 0; b.Loop(); i++ {
					if i %= n; i == 0 {
						x = NewIndex()
					}
					if err := x.Add(ids[i], parents[i]); err != nil {
						b.Fatal(err)
					}
					if _, err := x.BranchKey(ids[i]); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(fmt.Sprintf("%s/%d/only-map", sh.name, n), func(b *testing.B) {
				ids, parents := shapeEntries(sh, n)
				var m map[string]int32
				for i := 0; b.Loop(); i++ {
					if i %= n; i == 0 {
						m = map[string]int32{}
					}
					if _, ok := m[ids[i]]; ok {
						b.Fatal("an id occurs twice")
					}
					m[strings.Clone(ids[i])] = int32(i)
					if _, ok := m[parents[i]]; ok != (parents[i] != "") {
						b.Fatal("a parent is missing")
					}
				}
			})
		}
	}
}

// BenchmarkDamageAndKey does what no sound session does to one of 100,000 entries, and asks for a key each time.
func BenchmarkDamageAndKey(b *testing.B) {
	const n = 100_000
	for _, sh := range shapes {
		ids, parents := shapeEntries(sh, n)
		build := func() *Index {
			x := NewIndex()
			for k := range ids {
				_ = x.Add(ids[k], parents[k])
			}
			return x
		}
		b.Run(sh.name+"/late-parent", func(b *testing.B) { // of the root, and then of that one
			x, root := build(), ids[0]
			_ = x.Add(root, "late0")
			for i := 0; b.Loop(); i++ {
				_ = x.Add(fmt.Sprint("late", i), fmt.Sprint("late", i+1))
				if _, err := x.BranchKey(ids[n-1]); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(sh.name+"/moved-subtree", func(b *testing.B) { // below the end of the session, and back
			x := build()
			_ = x.Add("moved", "")
			_ = x.Add("below", "moved")
			for i := 0; b.Loop(); i++ {
				_ = x.Add("moved", ids[n-1-i%2])
				if _, err := x.BranchKey("below"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func shapeEntries(sh shape, n int) (ids, parents []string) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		ids = append(ids, fmt.Sprintf("%08x", uint32(i)*2654435761))
		parent := ""
		if p := sh.parent(r, i); p >= 0 {
			parent = ids[p]
		}
		parents = append(parents, parent)
	}
	return ids, parents
}

// BenchmarkKey asks for the keys of entries all over a session.
func BenchmarkKey(b *testing.B) {
	for _, sh := range shapes {
		for _, n := range []int{1_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", sh.name, n), func(b *testing.B) {
				ids, parents := shapeEntries(sh, n)
				x := NewIndex()
				for k := range ids {
					_ = x.Add(ids[k], parents[k])
				}
				i := 0
				for b.Loop() {
					if _, err := x.BranchKey(ids[i]); err != nil {
						b.Fatal(err)
					}
					if i += 7919; i >= n {
						i %= n
					}
				}
			})
		}
	}
}

// BenchmarkSync appends a line to a file of n entries, reads it and asks for the leaf's key: level, and most of it
// the operating system's.
func BenchmarkSync(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "session.jsonl")
			var data []byte
			data = append(data, `{"type":"session","version":3,"id":"bench"}`+"\n"...)
			for i := range n {
				data = fmt.Appendf(data, `{"type":"message","id":"e%d","parentId":"e%d"}`+"\n", i+1, i)
			}
			if err := os.WriteFile(path, data, 0o600); err != nil {
				b.Fatal(err)
			}
			f, err := OpenSessionFile(path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			w, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer w.Close()
			for i := n + 1; b.Loop(); i++ {
				if _, err := fmt.Fprintf(w, `{"type":"message","id":"e%d","parentId":"e%d"}`+"\n", i, i-1); err != nil {
					b.Fatal(err)
				}
				if added, err := f.Sync(b.Context()); added != 1 || err != nil {
					b.Fatal(added, err)
				}
				if key, err := f.BranchKey(f.Leaf()); key != "e1" || err != nil {
					b.Fatal(key, err)
				}
			}
		})
	}
}
