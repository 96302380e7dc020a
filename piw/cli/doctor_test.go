package cli

import (
	"strings"
	"testing"

	"pistate/internal/sqlite"
)

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
