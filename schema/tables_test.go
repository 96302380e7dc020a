package schema

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tableNames are the tables of the product, by area.
var tableNames = []string{
	"schema_meta", "projects",
	"blobs",
	"resources", "leases", "events",
	"workflow_definitions", "runs", "run_bindings", "run_queue", "node_attempts", "workflow_updates",
	"session_segments", "session_entries", "session_events",
	"human_decisions", "human_decision_resolutions", "human_decision_submissions", "continuations",
	"controller_resources", "controller_finalizers", "controller_queue", "controller_workflows",
	"effects", "effect_attempts",
	"notifications", "turn_intents",
	"channels", "channel_cursors", "channel_inbox", "channel_messages", "channel_message_parts",
}

// TestTables: exactly the tables of the product, each STRICT, each with a specimen. (S3)
func TestTables(t *testing.T) {
	b := openBench(t)
	found, want := b.tables(t), slices.Clone(tableNames)
	slices.Sort(found)
	slices.Sort(want)
	if !slices.Equal(found, want) {
		t.Errorf("tables:\n%q\nexpected:\n%q", found, want)
	}
	const loose = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND name <> 'sqlite_schema' AND NOT strict"
	b.each(t, loose, func(r memoryRow) {
		t.Errorf("table %s is not STRICT", r.Text(0))
	})
	for _, table := range found {
		if table != "schema_meta" {
			specimenOf(table)
		}
	}
}

// TestColumns holds the columns to the naming rules of 00_meta.sql and keeps out what could hold a secret. (R11)
func TestColumns(t *testing.T) {
	b := openBench(t)
	all := checks(t)
	checked := func(table, expr string) bool {
		return slices.ContainsFunc(all, func(c check) bool { return c.table == table && strings.Contains(c.expr, expr) })
	}
	for _, table := range b.tables(t) {
		keys := b.foreignKeys(t, table)
		references := func(column, parent string) bool {
			return slices.ContainsFunc(keys, func(k foreignKey) bool { return k.parent == parent && slices.Contains(k.from, column) })
		}
		for _, c := range b.columns(t, table) {
			where := table + "." + c.name
			switch {
			case strings.HasSuffix(c.name, "_at"), strings.HasSuffix(c.name, "_count"), strings.HasPrefix(c.name, "is_"):
				if c.kind != "INTEGER" {
					t.Errorf("%s is %s, expected INTEGER", where, c.kind)
				}
			case strings.HasSuffix(c.name, "_blob"):
				if c.kind != "BLOB" || !references(c.name, "blobs") {
					t.Errorf("%s is no BLOB that references blobs", where)
				}
			case c.name == "definition_digest": // a definition's digest is that of its content
				if !references(c.name, "blobs") && !references(c.name, "workflow_definitions") {
					t.Errorf("%s references nothing", where)
				}
			case c.kind == "BLOB" && where != "blobs.bytes":
				if !checked(table, "length("+c.name+") = 32") {
					t.Errorf("%s: no CHECK makes it 32 bytes", where)
				}
			case strings.HasSuffix(c.name, "_id") && c.kind != "TEXT":
				t.Errorf("%s is %s, expected TEXT", where, c.kind)
			}
			if strings.HasPrefix(c.name, "is_") && !checked(table, c.name+" IN (0, 1)") {
				t.Errorf("%s: no CHECK makes it 0 or 1", where)
			}
			for _, word := range []string{"secret", "password", "credential", "private_key", "api_key"} {
				if strings.Contains(c.name, word) {
					t.Errorf("%s: a column for a secret", where)
				}
			}
			if strings.Contains(c.name, "token") && c.name != "token_digest" {
				t.Errorf("%s: only the digest of a token may be stored", where)
			}
		}
	}
}

// TestColumnTypes sees each column refuse a value of another type, and NULL where it may not be. (S3)
func TestColumnTypes(t *testing.T) {
	b := openBench(t)
	b.dropInsertTriggers(t)
	wrong := map[string]any{"INTEGER": "text", "TEXT": raw("x'00'"), "BLOB": "text"}
	for _, s := range specimens {
		for _, c := range b.columns(t, s.table) {
			where := s.table + "." + c.name
			switch {
			case c.computed:
			case s.another()[c.name] == nil && c.notNull: // the rowid, which SQLite makes of NULL
				b.refuses(t, s.insertAnother(row{c.name: "text"}), "datatype mismatch")
			default:
				b.refuses(t, s.insertAnother(row{c.name: wrong[c.kind]}), "value in "+c.kind+" column "+where)
				if c.notNull {
					b.refuses(t, s.insertAnother(row{c.name: nil}), "NOT NULL constraint failed: "+where)
				}
			}
		}
	}
}

// TestDocumentation: the map in docs names each table once and each closed set as it is.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/schema.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, table := range tableNames {
		if strings.Count(text, " | `"+table+"` | ") != 1 {
			t.Errorf("table %s has not one line", table)
		}
	}
	var want []string
	for _, c := range checks(t) {
		if column, words, ok := c.set(); ok {
			want = append(want, "| `"+c.table+"."+column+"` | "+strings.Join(words, ", ")+" |")
		}
	}
	found := regexp.MustCompile("(?m)^\\| `\\w+\\.\\w+` .*$").FindAllString(text, -1)
	if !slices.Equal(found, want) {
		t.Errorf("closed sets:\n%s\nexpected:\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
}
