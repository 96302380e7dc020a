package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// M1: the query for rows without a parent is used only where it says the same as SQLite's own check,
// whatever the tables and their rows are.
func TestOrphansAsSQLite(t *testing.T) {
	dir := tempDir(t)
	n, asked, violated := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		types := rapid.SampledFrom([]string{"INTEGER", "INT", "TEXT", "REAL", "BLOB", "ANY"})
		values := rapid.SampledFrom([]string{"NULL", "0", "1", "2", "1.0", "2.5", "'1'", "'a'", "'A'", "'é'", "'É'", "x'61'", "x'31'", "9007199254740993", "9007199254740992.0"})
		columns := rapid.IntRange(1, 2).Draw(t, "columns")
		strict := func(name string) string {
			return rapid.SampledFrom([]string{" STRICT", " STRICT", " STRICT", " STRICT", ""}).Draw(t, name)
		}
		kinds := make([]string, columns)
		parent, child, ref, key := "", "", "", ""
		for i := range columns {
			kinds[i] = types.Draw(t, "parent type")
			kind := kinds[i]
			if rapid.IntRange(0, 7).Draw(t, "other type") == 7 {
				kind = types.Draw(t, "child type")
			}
			collate := rapid.SampledFrom([]string{"", "", "", "", "", " COLLATE NOCASE"}).Draw(t, "collation")
			parent += fmt.Sprintf("K%d %s%s, ", i, kinds[i], collate)
			child += fmt.Sprintf("f%d %s%s, ", i, kind, rapid.SampledFrom([]string{"", "", " COLLATE NOCASE"}).Draw(t, "child collation"))
			ref += fmt.Sprintf("k%d, ", i)
			key += fmt.Sprintf("F%d, ", i)
		}
		ref, key = strings.TrimSuffix(ref, ", "), strings.TrimSuffix(key, ", ")
		unique := rapid.SampledFrom([]string{
			"PRIMARY KEY (" + ref + ")", "PRIMARY KEY (" + ref + ")", "UNIQUE (" + ref + ")", "CHECK (1)",
		}).Draw(t, "unique")
		index := rapid.SampledFrom([]string{
			"", "", "CREATE UNIQUE INDEX p_key ON parent (" + ref + ")", "CREATE UNIQUE INDEX p_part ON parent (" + ref + ") WHERE k0 > 1",
			"CREATE UNIQUE INDEX p_nocase ON parent (k0 COLLATE NOCASE)", "CREATE UNIQUE INDEX p_binary ON parent (k0 COLLATE BINARY)",
		}).Draw(t, "index")
		target := rapid.SampledFrom([]string{"parent (" + ref + ")", "PARENT (" + ref + ")", "parent (" + ref + ")", "parent", "parent", "nobody (x)", "child (id)"}).Draw(t, "target")
		without := rapid.SampledFrom([]string{"", ", WITHOUT ROWID"}).Draw(t, "rowid")
		if !strings.HasPrefix(unique, "PRIMARY") {
			without = ""
		}
		tail := strings.TrimPrefix(strict("strict parent")+without, ", ")
		script := []string{
			"PRAGMA foreign_keys = OFF", "PRAGMA synchronous = OFF",
			fmt.Sprintf("CREATE TABLE parent (%s%s)%s", parent, unique, tail),
			index,
			fmt.Sprintf("CREATE TABLE child (id INTEGER PRIMARY KEY, %sFOREIGN KEY (%s) REFERENCES %s)%s", child, key, target, strict("strict child")),
		}
		for range rapid.IntRange(0, 6).Draw(t, "rows") {
			for _, table := range []string{"parent", "child"} {
				var row []string
				if table == "child" {
					row = append(row, "NULL")
				}
				for range columns {
					row = append(row, values.Draw(t, "value"))
				}
				script = append(script, fmt.Sprintf("INSERT OR IGNORE INTO %s VALUES (%s)", table, strings.Join(row, ", ")))
			}
		}
		c, err := openRaw(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range script {
			_ = c.Exec(sql) // what a table can't have, it does not get
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}

		r := &Reader{path: path, own: true, verify: func(*Rx) error { return nil }}
		defer r.Close()
		err = r.Read(t.Context(), func(rx *Rx) error {
			keys, err := readForeignKeys(rx, "child")
			if err != nil || len(keys) == 0 {
				return err
			}
			query, err := keys[0].orphans(rx)
			if err != nil || query == "" {
				return err
			}
			asked++
			found, err := rx.QueryRow(query, func(Row) error { return nil })
			if err != nil {
				return err
			}
			want := false
			err = rx.Query("PRAGMA foreign_key_check(child)", func(Row) error { want = true; return nil })
			if found != want || err != nil {
				t.Errorf("found %v, SQLite %v (%v):\n%s\n%s", found, want, err, strings.Join(script, ";\n"), query)
			}
			if want {
				violated++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	if violated == 0 || violated == asked {
		t.Errorf("of %d schemas %d were asked, %d of them violated: that means nothing", n, asked, violated)
	}
	t.Logf("of %d schemas %d were asked, %d of them violated", n, asked, violated)
}

// The tables of this product are all checked by query.
func TestOrphansAreAsked(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	openTest(t, path)
	r, err := OpenReader(t.Context(), path, verifyTest)
	must(t, err)
	defer r.Close()
	must(t, r.Read(t.Context(), func(rx *Rx) error {
		keys, err := readForeignKeys(rx, "part")
		must(t, err)
		query, err := keys[0].orphans(rx)
		if query == "" || err != nil || len(keys) != 1 {
			t.Errorf("%q, %v", query, err)
		}
		return nil
	}))
}

// What the query depends on: where any of it is missing, SQLite's own check is asked.
func TestOrphansConditions(t *testing.T) {
	for _, test := range []struct {
		parent, child, index, to string
		asked                    bool
	}{
		{"k INTEGER PRIMARY KEY) STRICT", "f INTEGER) STRICT", "", "(k)", true},
		{"k INTEGER PRIMARY KEY) STRICT", "f INTEGER) STRICT", "", "", true},
		{"k INTEGER PRIMARY KEY) STRICT, WITHOUT ROWID", "F INTEGER) STRICT", "", "(K)", true},
		{"k TEXT UNIQUE) STRICT", "f TEXT COLLATE NOCASE) STRICT", "", "(k)", true},
		{"k TEXT) STRICT", "f TEXT) STRICT", "CREATE UNIQUE INDEX i ON parent (k)", "(k)", true},
		{"k INTEGER PRIMARY KEY)", "f INTEGER) STRICT", "", "(k)", false},
		{"k INTEGER PRIMARY KEY) STRICT", "f INTEGER)", "", "(k)", false},
		{"k INTEGER PRIMARY KEY) STRICT", "f INT) STRICT", "", "(k)", false},
		{"k TEXT UNIQUE) STRICT", "f INTEGER) STRICT", "", "(k)", false}, // 1 is '1' and not '1.0' here, but both in a comparison
		{"k ANY UNIQUE) STRICT", "f ANY) STRICT", "", "(k)", false},
		{"k TEXT UNIQUE COLLATE NOCASE) STRICT", "f TEXT) STRICT", "", "(k)", false},
		{"k TEXT COLLATE NOCASE) STRICT", "f TEXT) STRICT", "CREATE UNIQUE INDEX i ON parent (k COLLATE BINARY)", "(k)", false},
		{"k TEXT) STRICT", "f TEXT) STRICT", "CREATE UNIQUE INDEX i ON parent (k COLLATE NOCASE)", "(k)", false},
		{"k TEXT) STRICT", "f TEXT) STRICT", "CREATE UNIQUE INDEX i ON parent (k) WHERE k > 'a'", "(k)", false},
		{"k TEXT) STRICT", "f TEXT) STRICT", "CREATE INDEX i ON parent (k)", "(k)", false},
		{"k TEXT) STRICT", "f TEXT) STRICT", "CREATE UNIQUE INDEX i ON parent (k || 'x')", "(k)", false},
		{"k TEXT, l TEXT) STRICT", "f TEXT) STRICT", "CREATE UNIQUE INDEX i ON parent (k, l)", "(k)", false},
		{"k TEXT, l TEXT, PRIMARY KEY (k, l)) STRICT", "f TEXT) STRICT", "", "", false},
		{"x TEXT) STRICT", "f TEXT) STRICT", "", "(k)", false},
	} {
		path := filepath.Join(tempDir(t), "x.db")
		child := strings.Replace(test.child, ")", " REFERENCES parent "+test.to+")", 1)
		rawExec(t, path, "PRAGMA foreign_keys = OFF", "CREATE TABLE parent ("+test.parent, test.index, "CREATE TABLE child ("+child)
		r := &Reader{path: path, own: true, verify: func(*Rx) error { return nil }}
		must(t, r.Read(t.Context(), func(rx *Rx) error {
			keys, err := readForeignKeys(rx, "child")
			must(t, err)
			query, err := keys[0].orphans(rx)
			if (query != "") != test.asked || err != nil {
				t.Errorf("%+v: %q, %v", test, query, err)
			}
			return nil
		}))
		must(t, r.Close())
	}
}

// A foreign key that SQLite can't check makes the check unknown (M6).
func TestForeignKeyMismatch(t *testing.T) {
	path := filepath.Join(tempDir(t), "x.db")
	rawExec(t, path, "PRAGMA foreign_keys = OFF", "CREATE TABLE parent (k)", "CREATE TABLE child (f REFERENCES parent (k))", "INSERT INTO child VALUES (1)")
	report, err := Check(t.Context(), path, CheckOptions{}, func(*Rx) error { return nil })
	must(t, err)
	if o := outcome(t, report, CheckForeignKeys); o.Status != Unknown || !strings.Contains(o.Note, "mismatch") {
		t.Errorf("%+v", o)
	}
}
