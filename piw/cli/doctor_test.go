package cli

import (
	"strings"
	"testing"

	"pistate/internal/sqlite"
)

// Silence about what was not looked at is said to be that.
func TestMoreThanIsLookedAt(t *testing.T) {
	for n, want := range map[int]string{0: "", maxLooked - 1: "", maxLooked: "note only the first 1000 runs at work were looked at"} {
		w := &ward{examination: &examination{}}
		w.looked("runs", "runs at work", n)
		got := ""
		for _, f := range w.Findings {
			got = string(f.Level) + " " + f.Text
		}
		if got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// All that is wrong is counted, by name or not.
func TestEachThingCounts(t *testing.T) {
	w := &ward{examination: &examination{}}
	each(w, make([]int, 12), "runs", "", func(int) string { return "one" })
	total := 0
	for _, f := range w.Findings {
		total += f.things
	}
	if last := w.Findings[len(w.Findings)-1]; total != 12 || len(w.Findings) != maxNamed+1 || last.Text != "and 7 more like this" {
		t.Errorf("%d things in %+v", total, w.Findings)
	}
}

func TestMostRows(t *testing.T) {
	got := mostRows(map[string]int64{"runs": 3, "events": 90, "blobs": 90, "leases": 0, "effects": 5, "projects": 1})
	if want := "90 blobs, 90 events, 5 effects, 3 runs"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := mostRows(map[string]int64{}); got != "" {
		t.Errorf("%q of nothing", got)
	}
}

func TestSizesAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		stat sqlite.Stat
		want string // of what is not fine
	}{
		"small":              {sqlite.Stat{Bytes: 1 << 20, WALBytes: 4 << 20, PageSize: 4096, Pages: 256, FreePages: 200}, ""},
		"large WAL":          {sqlite.Stat{Bytes: 1 << 20, WALBytes: 120 << 20, PageSize: 4096, Pages: 256}, "wrong the WAL has 120.0 MiB"},
		"WAL at its limit":   {sqlite.Stat{WALBytes: 64 << 20}, ""},
		"mostly free":        {sqlite.Stat{Bytes: 4 << 30, PageSize: 4096, Pages: 1 << 20, FreePages: 1 << 19}, "note 2.0 GiB of the file hold nothing"},
		"many free, of more": {sqlite.Stat{Bytes: 4 << 30, PageSize: 4096, Pages: 1 << 20, FreePages: 1 << 16}, ""},
	} {
		e := &examination{}
		e.sizes(c.stat)
		got := ""
		for _, f := range e.Findings {
			if f.Level != good {
				got += string(f.Level) + " " + f.Text
			}
		}
		if got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
