package schema

import (
	"slices"
	"strings"
	"testing"
)

// The expected shape is read off the DDL without SQLite. SQLite must agree to the byte. (S4, Y4)
func TestExpectedShape(t *testing.T) {
	for name, c := range map[string]struct {
		ddl  string
		want Shape
	}{
		"state":   {StateDDL(), stateShape()},
		"session": {SessionDDL(), sessionShape()},
	} {
		t.Run(name, func(t *testing.T) {
			got := readShape(t, openMemory(t, c.ddl))
			if slices.Equal(c.want, got) {
				return
			}
			for _, line := range Diff(c.want, got) {
				t.Error(line)
			}
			t.Errorf("\n got %q\nwant %q", got, c.want)
		})
	}
}

// What our DDL may come to contain, read without SQLite as SQLite stores it.
func TestShapeOf(t *testing.T) {
	for name, ddl := range map[string]string{
		"if not exists":          `create table if not exists t (a text) ; create unique  index if not exists i on t(a);`,
		"comments":               "CREATE /* x */ TABLE -- y\n t /* z */ (a -- b\n, c) -- d\n;",
		"no last semicolon":      `CREATE TABLE t (a)`,
		"other statements":       `PRAGMA user_version = 1; ;; CREATE TABLE t (a); INSERT INTO t VALUES ('CREATE TABLE x (a);')`,
		"quoted names":           "CREATE TABLE [t] (\"a\" TEXT, `b` TEXT); CREATE INDEX \"i\" ON [t] (a);",
		"case":                   `CREATE TABLE T (A); CREATE INDEX I ON T (A); CREATE VIEW V AS SELECT * FROM T;`,
		"partial index":          `CREATE TABLE t (a, b); CREATE UNIQUE INDEX i ON t (a DESC, b COLLATE NOCASE) WHERE a > 1 AND b IS NOT NULL;`,
		"column keys":            `CREATE TABLE t (a TEXT PRIMARY KEY, b TEXT NOT NULL UNIQUE CHECK (b <> ''), c UNIQUE REFERENCES t (a));`,
		"rowid":                  `CREATE TABLE t (a INTEGER PRIMARY KEY, b INT UNIQUE); CREATE TABLE u (a INTEGER NOT NULL, b UNIQUE, PRIMARY KEY (a));`,
		"INT is no rowid":        `CREATE TABLE t (a INT PRIMARY KEY);`,
		"autoincrement":          `CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT);`,
		"without rowid":          `CREATE TABLE t (a TEXT PRIMARY KEY, b UNIQUE) WITHOUT ROWID; CREATE TABLE u (a INTEGER PRIMARY KEY, b INT UNIQUE) STRICT, WITHOUT ROWID;`,
		"table keys":             `CREATE TABLE t (a, b, c, PRIMARY KEY (a, b), UNIQUE (b, c), CONSTRAINT x UNIQUE (c)) ;`,
		"table keys, no rowid":   `CREATE TABLE t (a, b, c UNIQUE, PRIMARY KEY (a, b), UNIQUE (b, c)) WITHOUT ROWID;`,
		"constraints, no commas": `CREATE TABLE t (a, b, UNIQUE (a) CHECK (a > 0) CONSTRAINT x UNIQUE (b) PRIMARY KEY (a, b));`,
		"trigger": `CREATE TABLE t (a, b);
			CREATE TRIGGER g BEFORE UPDATE OF a, b ON t WHEN NEW.a > CASE WHEN 1 THEN 2 END BEGIN
				SELECT CASE WHEN OLD.a THEN RAISE(ABORT, 'no; END;') END; DELETE FROM t; END; CREATE INDEX i ON t (b);`,
		"generated": `CREATE TABLE t (a, b AS (a + 1), c TEXT GENERATED ALWAYS AS (upper(a)) STORED UNIQUE);`,
	} {
		t.Run(name, func(t *testing.T) {
			want, got := readShape(t, openMemory(t, ddl)), shapeOf(ddl)
			if !slices.Equal(got, want) {
				t.Errorf("%s\n got %q\nwant %q", ddl, got, want)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	table := func(sql string) string { return "CREATE TABLE t " + sql + ";" }
	for _, c := range []struct {
		name, want, got string
		lines           []string
	}{
		{"same", table("(a TEXT)"), table("(a TEXT)"), nil},
		{"spacing, comments and keyword case", table("(a TEXT NOT NULL,  -- x\n  CHECK (a <> 'A  b')) STRICT"),
			"create table t(a text not  null,check(a<>'A  b'))strict", nil},
		{"quotes", table("(a TEXT, b INT, PRIMARY KEY (a, b))"), "CREATE TABLE [t] (\"a\" TEXT, `b` INT, PRIMARY KEY (\"a\", [b]))", nil},

		{"type", table("(a TEXT NOT NULL, b)"), table("(a INTEGER NOT NULL, b)"), []string{"table t: column a: expected TEXT NOT NULL, found INTEGER NOT NULL"}},
		{"no type", table("(a TEXT)"), table("(a)"), []string{"table t: column a: expected TEXT, found nothing"}},
		{"default", table("(a DEFAULT 'x')"), table("(a DEFAULT 'X')"), []string{"table t: column a: expected DEFAULT 'x', found DEFAULT 'X'"}},
		{"column added", table("(a)"), table("(a, b INT)"), []string{"table t: column b: unexpected"}},
		{"column dropped", table("(a, b INT)"), table("(a)"), []string{"table t: column b: missing"}},
		{"column renamed", table("(a, b INT)"), table("(a, c INT)"), []string{"table t: column b: missing", "table t: column c: unexpected"}},
		{"case of a column's name", table("(a, key INT)"), table("(a, KEY INT)"), []string{"table t: column key: missing", "table t: column KEY: unexpected"}},
		{"a column that is a quoted keyword", table(`(a, "key" INT)`), table("(a, key INT)"), nil},
		{"a column named like a constraint", table("(a, UNIQUE (a))"), table(`(a, "UNIQUE" (a))`), []string{"table t: UNIQUE (a): missing", "table t: column UNIQUE: unexpected"}},
		{"columns in another order", table("(a, b)"), table("(b, a)"), []string{"table t: the order of its parts: expected (a, b), found (b, a)"}},
		{"generated", table("(a, b AS (a + 1))"), table("(a, b AS (a + 1) STORED)"), []string{"table t: column b: expected AS (a + 1), found AS (a + 1) STORED"}},
		{"collation", table("(a TEXT COLLATE NOCASE)"), table("(a TEXT)"), []string{"table t: column a: expected TEXT COLLATE NOCASE, found TEXT"}},

		{"check of a column", table("(a CHECK (a > 0) NOT NULL)"), table("(a CHECK (a >= 0) NOT NULL)"), []string{"table t: column a: CHECK: expected (a > 0), found (a >= 0)"}},
		{"check dropped", table("(a, CHECK (a > 0))"), table("(a)"), []string{"table t: CHECK (a > 0): missing"}},
		{"check added", table("(a)"), table("(a, CHECK (a > 0))"), []string{"table t: CHECK (a > 0): unexpected"}},
		{"one check of two", table("(a, CHECK (a > 0), CHECK (a < 9))"), table("(a, CHECK (a > 0), CHECK (a < 8))"), []string{"table t: CHECK: expected (a < 9), found (a < 8)"}},
		{"named check", table("(a, CONSTRAINT c CHECK (a > 0))"), table("(a, CONSTRAINT c CHECK (a > 1))"), []string{"table t: constraint c: expected CHECK (a > 0), found CHECK (a > 1)"}},
		{"named check of a column", table("(a INT CONSTRAINT c CHECK (a > 0))"), table("(a INT)"), []string{"table t: column a: constraint c: missing"}},
		{"the same check twice", table("(a, CHECK (a > 0))"), table("(a, CHECK (a > 0), CHECK (a > 0))"), []string{"table t: CHECK (a > 0): unexpected"}},

		{"foreign key", table("(a, FOREIGN KEY (a) REFERENCES t (b) ON DELETE CASCADE)"), table("(a, FOREIGN KEY (a) REFERENCES t (b))"),
			[]string{"table t: FOREIGN KEY: expected (a) REFERENCES t(b) ON DELETE CASCADE, found (a) REFERENCES t(b)"}},
		{"foreign keys", table("(a, FOREIGN KEY (a) REFERENCES t, FOREIGN KEY (b) REFERENCES t)"), table("(a)"),
			[]string{"table t: FOREIGN KEY (a) REFERENCES t: missing", "table t: FOREIGN KEY (b) REFERENCES t: missing"}},
		{"unique", table("(a, UNIQUE (a))"), table("(a)"), []string{"table t: UNIQUE (a): missing"}},
		{"primary key", table("(a, b, PRIMARY KEY (a, b))"), table("(a, b, PRIMARY KEY (b, a))"), []string{"table t: PRIMARY KEY: expected (a, b), found (b, a)"}},
		{"strict", table("(a TEXT) STRICT, WITHOUT ROWID"), table("(a TEXT) WITHOUT ROWID"), []string{"table t: STRICT: missing"}},
		{"rowid", table("(a TEXT)"), table("(a TEXT) WITHOUT ROWID"), []string{"table t: WITHOUT ROWID: unexpected"}},

		{"table renamed", table("(a UNIQUE)"), "CREATE TABLE u (a UNIQUE)", []string{"table t: missing", "table u: unexpected"}},
		{"case of a table's name", table("(a)"), "CREATE TABLE T (a)", []string{"table T: unexpected", "table t: missing"}},
		{"order of objects", table("(a)"), "CREATE TRIGGER g BEFORE INSERT ON u BEGIN SELECT 1; END; CREATE INDEX i ON u (a); CREATE VIEW v AS SELECT 1; CREATE TABLE u (a)",
			[]string{"table t: missing", "table u: unexpected", "view v: unexpected", "index i: unexpected", "trigger g: unexpected"}},
		{"index", "CREATE UNIQUE INDEX i ON t (a) WHERE a > 1", "CREATE INDEX i ON t (a, b)", []string{"index i: expected UNIQUE ON t(a) WHERE a > 1, found ON t(a, b)"}},
		{"index of another table", "CREATE INDEX i ON t (a)", "CREATE INDEX i ON u (a)",
			[]string{"index i: expected to belong to table t, belongs to u", "index i: expected ON t(a), found ON u(a)"}},
		{"trigger", "CREATE TRIGGER g BEFORE DELETE ON t BEGIN SELECT RAISE(ABORT, 'no'); END;", "CREATE TRIGGER g BEFORE UPDATE ON t BEGIN SELECT RAISE(ABORT, 'no'); END;",
			[]string{"trigger g: expected BEFORE DELETE ON t BEGIN SELECT RAISE (ABORT, 'no'); END, found BEFORE UPDATE ON t BEGIN SELECT RAISE (ABORT, 'no'); END"}},
		{"virtual table", table("(a)"), "CREATE VIRTUAL TABLE t USING fts5 (a); CREATE VIRTUAL TABLE w USING fts5 (a)",
			[]string{"virtual table w: unexpected", "table t: expected (a), found VIRTUAL USING fts5(a)"}},

		{"no table at all", table("(a)"), "", []string{"table t: missing"}},
		{"a text that is no list", table("(a)"), table("(a"), []string{"table t: expected (a), found (a"}},
		{"an empty column", table("(a, b)"), table("(a,, b)"), []string{"table t: expected (a, b), found (a,, b)"}},
		{"what could disturb a terminal", table("(a)"), "CREATE TABLE t (a, \"\x1b[2J\n\" TEXT)", []string{`table t: "column \"\x1b[2J\n\"": unexpected`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if lines := Diff(shapeOf(c.want), shapeOf(c.got)); !slices.Equal(lines, c.lines) {
				t.Errorf("%s\n%s\n got %q\nwant %q", c.want, c.got, lines, c.lines)
			}
		})
	}
}

// SQLite goes by the SQL, whatever the other columns of sqlite_schema say.
func TestDiffOfContradictions(t *testing.T) {
	want := Shape{{"table", "t", "t", "CREATE TABLE t (a)"}}
	for sql, line := range map[string]string{
		"CREATE TABLE u (a)":              "table t: its SQL defines table u",
		"CREATE VIEW t (a)":               "table t: its SQL defines view t",
		"CREATE TABLE \"t\" (a)":          "",
		"CREATE TABLE IF NOT EXISTS t(a)": "",
		"CREATE TABLE main.t (a)":         "table t: its SQL defines table main, table t: expected (a), found .t(a)",
		"CREATE TEMP TABLE t (a)":         "table t: expected (a), found CREATE TEMP TABLE t(a)",
		"DROP TABLE t":                    "table t: expected (a), found DROP TABLE t",
		"":                                "table t: expected (a), found nothing",
	} {
		if lines := Diff(want, Shape{{"table", "t", "t", sql}}); strings.Join(lines, ", ") != line {
			t.Errorf("%s\n got %q\nwant %q", sql, lines, line)
		}
	}
	twice := slices.Concat(want, want)
	if lines := Diff(want, twice); !slices.Equal(lines, []string{"table t: unexpected"}) {
		t.Errorf("%q", lines)
	}
}

func TestDiffIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1000)
	words := strings.Repeat("'some words' AND ", 100)
	for _, c := range []struct {
		name, want, got, line string
	}{
		{"definition", "CREATE TABLE t (a)", "CREATE TABLE t (a DEFAULT '" + strings.Repeat(" ", maxDefinition) + "')", "table t: its definition has 65565 bytes, expected 18"},
		{"word", "CREATE TABLE t (a INT)", "CREATE TABLE t (a " + long + ")", "table t: column a: expected INT, found " + long[:maxExcerpt] + "…"},
		{"name", "CREATE TABLE t (a)", "CREATE TABLE t (a); CREATE VIEW " + long + " AS SELECT 1", "view " + long[:maxExcerpt] + "…: unexpected"},
		{"text", "CREATE VIEW v AS SELECT " + words + "2", "CREATE VIEW v AS SELECT " + words + "3",
			"view v: expected … words' AND 'some words' AND 'some words' AND 2, found … words' AND 'some words' AND 'some words' AND 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if lines := Diff(shapeOf(c.want), shapeOf(c.got)); !slices.Equal(lines, []string{c.line}) {
				t.Errorf("\n got %q\nwant %q", lines, c.line)
			}
		})
	}
}
