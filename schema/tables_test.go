package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// tableColumn is one column of a table.
type tableColumn struct {
	name, kind string
	notNull    bool
	computed   bool
	key        int // its place in the primary key, from 1; 0 for none
}

func (b bench) columns(tb testing.TB, table string) []tableColumn {
	tb.Helper()
	var all []tableColumn
	b.each(tb, `SELECT name, type, "notnull", hidden, pk FROM pragma_table_xinfo('`+table+`')`, func(r memoryRow) {
		all = append(all, tableColumn{r.Text(0), r.Text(1), r.Int64(2) != 0, r.Int64(3) != 0, int(r.Int64(4))})
	})
	return all
}

// index is one index of a table, that of its primary key included.
type index struct {
	name    string
	unique  bool
	partial bool
	columns []string // "" for an expression
}

func (b bench) indexes(tb testing.TB, table string) []index {
	tb.Helper()
	var all []index
	b.each(tb, `SELECT name, "unique", partial FROM pragma_index_list('`+table+`')`, func(r memoryRow) {
		all = append(all, index{name: r.Text(0), unique: r.Int64(1) != 0, partial: r.Int64(2) != 0})
	})
	for i, x := range all {
		b.each(tb, `SELECT name FROM pragma_index_info('`+x.name+`')`, func(r memoryRow) {
			all[i].columns = append(all[i].columns, r.Text(0))
		})
	}
	for _, c := range b.columns(tb, table) {
		if c.key == 1 && c.kind == "INTEGER" { // the table itself, by its rowid
			all = append(all, index{name: table, unique: true, columns: []string{c.name}})
		}
	}
	return all
}

// foreignKey is one foreign key of a table.
type foreignKey struct {
	parent   string
	from, to []string
}

func (b bench) foreignKeys(tb testing.TB, table string) []foreignKey {
	tb.Helper()
	var all []foreignKey
	b.each(tb, `SELECT seq, "table", "from", "to" FROM pragma_foreign_key_list('`+table+`') ORDER BY id, seq`, func(r memoryRow) {
		if r.Int64(0) == 0 {
			all = append(all, foreignKey{parent: r.Text(1)})
		}
		k := &all[len(all)-1]
		k.from = append(k.from, r.Text(2))
		k.to = append(k.to, r.Text(3))
	})
	return all
}

// each runs a query once and calls row for each row of the result.
func (b bench) each(tb testing.TB, sql string, row func(memoryRow)) {
	tb.Helper()
	s, _, err := b.Prepare(sql)
	if err != nil {
		tb.Fatalf("%v in %s", err, sql)
	}
	defer s.Close()
	for s.Step() {
		row(memoryRow{s})
	}
	if err := s.Err(); err != nil {
		tb.Fatalf("%v in %s", err, sql)
	}
}

func (b bench) tables(tb testing.TB) []string {
	tb.Helper()
	var all []string
	b.each(tb, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid", func(r memoryRow) { all = append(all, r.Text(0)) })
	return all
}

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
	b.each(t, "SELECT name FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' AND NOT strict", func(r memoryRow) {
		t.Errorf("table %s is not STRICT", r.Text(0))
	})
	for _, table := range found {
		if table != "schema_meta" {
			specimenOf(t, table)
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
			case c.kind == "BLOB" && where != "blobs.bytes" && where != "runs.definition_digest" && where != "workflow_definitions.definition_digest":
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

// TestColumnTypes sees each column refuse a value of another type, and NULL where it may not be.
func TestColumnTypes(t *testing.T) {
	b := openBench(t)
	wrong := map[string]string{"INTEGER": "'text'", "TEXT": "x'00'", "BLOB": "'text'"}
	for _, s := range specimens {
		for _, c := range b.columns(t, s.table) {
			if c.computed {
				continue
			}
			if c.name == "sequence" && s.another["sequence"] == "NULL" { // SQLite's own: it makes the next one of NULL
				b.refuses(t, s.insertAnother(row{c.name: "'text'"}), "datatype mismatch")
				continue
			}
			if err := b.try(t, s.insertAnother(row{c.name: wrong[c.kind]})); err == nil {
				t.Errorf("%s.%s: accepted %s", s.table, c.name, wrong[c.kind])
			}
			if c.notNull {
				if err := b.try(t, s.insertAnother(row{c.name: "NULL"})); err == nil {
					t.Errorf("%s.%s: accepted NULL", s.table, c.name)
				}
			}
		}
	}
}

// computed says what to write where a foreign key's column is computed from others.
var computed = map[string]row{
	"continuations.decision_id":           {"trigger_key": "'ghost'"},
	"continuations.admitted_run_id":       {"status": "'admitted'", "settled_at": "2"},
	"controller_workflows.started_run_id": {"status": "'running'"},
	"effects.run_id":                      {"scope_id": "'ghost'"},
	"effects.controller_uid":              {"scope_type": "'controller'", "scope_id": "'ghost'"},
	"effects.channel_id":                  {"scope_type": "'channel'", "scope_id": "'ghost'"},
	"effects.queued_run_id":               {"effect_type": "'run.settle_queue'", "scope_id": "'r2'", "source_resource_id": "'run:r2'"},
}

// TestForeignKeys sees each foreign key refuse a row whose parent is missing.
func TestForeignKeys(t *testing.T) {
	b := openBench(t)
	for _, s := range specimens {
		for _, k := range b.foreignKeys(t, s.table) {
			t.Run(s.table+"/"+strings.Join(k.from, ","), func(t *testing.T) { b.breaks(t, s, k) })
		}
	}
}

func (b bench) breaks(t *testing.T, s specimen, k foreignKey) {
	child := k.from[len(k.from)-1]
	values := row{child: "'ghost'"}
	if c, ok := computed[s.table+"."+child]; ok {
		values = c
	}
	var sql string
	switch child {
	case "resource_id":
		if s.another["resource_id"] != "" { // leases and events
			break
		}
		id := b.columns(t, s.table)[0].name
		if s.table == "effects" {
			id = "effect_id"
		}
		values = row{id: "'ghost'"}
	case "event_revision": // no event follows the revision
		sql = "UPDATE resources SET revision = revision + 1 WHERE resource_id = 'run:r2'"
	case "source_revision":
		values = row{child: "9"}
	case "submission_sequence": // the trigger that compares the submission speaks first
		b.refuses(t, s.insertAnother(row{"reason": "'human'", child: "9"}), "the submission that won")
		sql = "DROP TRIGGER human_decision_resolutions_human;" + s.insertAnother(row{"reason": "'human'", child: "9"})
	case "outcome": // the decision does not follow
		sql = s.another.insert(s.table)
	case "definition_digest", "digest":
		values = row{child: digest("ghost")}
	}
	if strings.HasSuffix(child, "_blob") {
		values = row{child: digest("ghost")}
		switch s.table + "." + child {
		case "human_decision_resolutions.response_blob":
			sql = "DROP TRIGGER human_decision_resolutions_timeout;" + s.insertAnother(values)
		case "runs.output_blob", "runs.error_blob", "node_attempts.output_blob", "node_attempts.error_blob", "node_attempts.result_blob",
			"session_segments.error_blob", "controller_workflows.output_blob", "controller_workflows.error_blob",
			"effects.result_blob", "effects.error_blob":
			sql = b.terminal(s.table, child)
		}
	}
	if sql == "" {
		sql = s.insertAnother(values)
	}
	b.refuses(t, sql, "FOREIGN KEY constraint failed")
}

// terminal is a way for a row to the status in which it may have the column, with a blob that does not exist.
func (b bench) terminal(table, column string) string {
	status := "failed"
	switch {
	case table == "controller_workflows" && column == "output_blob":
		status = "succeeded"
	case table == "effects" && column == "result_blob":
		status = "applied"
	case table == "effects":
		status = "rejected"
	case column != "error_blob":
		status = "completed"
	}
	key := fmt.Sprintf("%s.status=%s", table, status)
	blobOf := map[string]string{"error_blob": "error", "output_blob": "output", "result_blob": "output"}[column]
	if table == "node_attempts" && column == "result_blob" {
		blobOf = "subject"
	}
	sql, ok := words[key].(string)
	if !ok {
		sql = row(another(table)).with(row{"status": "'" + status + "'"}).with(words[key].(row)).insert(table)
	}
	return strings.ReplaceAll(sql, digest(blobOf), digest("ghost"))
}

// TestComputedForeignKeys sees the foreign keys of computed columns at work when a status makes them count.
func TestComputedForeignKeys(t *testing.T) {
	b := openBench(t)
	for _, x := range []struct{ good, bad string }{
		{
			another("continuations").with(row{"child_run_id": "'r2'"}).insert("continuations") + "UPDATE continuations SET status = 'admitted', settled_at = 2 WHERE continuation_id = 'k2'",
			"UPDATE continuations SET status = 'admitted', settled_at = 2",
		},
		{
			controllerWorkflow("two").with(row{"run_id": "'r2'"}).insert("controller_workflows") + "UPDATE controller_workflows SET status = 'running' WHERE request_key = 'two'",
			"UPDATE controller_workflows SET status = 'running'",
		},
		{ // R8
			effect("e6").with(row{"effect_type": "'run.settle_queue'"}).insert("effects"),
			"UPDATE resources SET revision = 1 WHERE resource_id = 'run:r2';" + another("events").with(row{"resource_id": "'run:r2'", "revision": "1"}).insert("events") +
				effect("e6").with(row{"effect_type": "'run.settle_queue'", "source_resource_id": "'run:r2'"}).insert("effects"),
		},
		{ // W1: a revision and its event
			specimenWithEvent,
			"UPDATE resources SET revision = revision + 1, updated_at = 2 WHERE resource_id = 'run:r1'",
		},
	} {
		b.accepts(t, x.good)
		b.refuses(t, x.bad, "FOREIGN KEY constraint failed")
	}
}

// TestForeignKeyIndexes: each foreign key either has an index on the child's side, or its parent's rows never go
// and never change their keys, so that nobody looks for the children.
func TestForeignKeyIndexes(t *testing.T) {
	b := openBench(t)
	all := triggers(t)
	refused := func(table, event string, columns []string) bool {
		return slices.ContainsFunc(all, func(x trigger) bool {
			return x.table == table && x.event == event && !x.when && (x.columns == nil || containsAll(x.columns, columns))
		})
	}
	for _, table := range b.tables(t) {
		for _, k := range b.foreignKeys(t, table) {
			indexed := slices.ContainsFunc(b.indexes(t, table), func(x index) bool {
				return !x.partial && len(x.columns) >= len(k.from) && containsAll(x.columns[:len(k.from)], k.from)
			})
			if !indexed && !(refused(k.parent, "DELETE", nil) && refused(k.parent, "UPDATE", k.to)) {
				t.Errorf("%s: foreign key on %q to %s: no index, and rows of %s may go or change their keys", table, k.from, k.parent, k.parent)
			}
		}
	}
}

func containsAll(set, items []string) bool {
	for _, item := range items {
		if !slices.Contains(set, item) {
			return false
		}
	}
	return true
}

// TestNoRedundantIndex: no index begins as another one of the table does and says nothing more.
func TestNoRedundantIndex(t *testing.T) {
	b := openBench(t)
	for _, table := range b.tables(t) {
		all := b.indexes(t, table)
		for _, x := range all {
			for _, y := range all {
				if x.name == y.name || x.partial || y.partial || x.unique && len(x.columns) < len(y.columns) {
					continue // a partial index is smaller, a unique one a constraint
				}
				if len(x.columns) <= len(y.columns) && slices.Equal(x.columns, y.columns[:len(x.columns)]) {
					t.Errorf("%s: index %s %q is the beginning of %s %q", table, x.name, x.columns, y.name, y.columns)
				}
			}
		}
	}
}

// unique says how a row collides where copying the columns of an existing row is not enough.
var collisions = map[string]string{
	"run_queue_one_per_session":           another("run_queue").with(row{"pi_session_id": "'pi-1'", "status": "'starting'"}).insert("run_queue"),
	"node_attempts_one_active":            attempt("a2", "r1").with(row{"ordinal": "2", "attempt_number": "2", "status": "'waiting'", "started_at": "1"}).insert("node_attempts"),
	"effect_attempts_one_open":            another("effect_attempts").with(row{"effect_id": "'e1'", "attempt_number": "2", "outcome": "NULL", "ended_at": "NULL", "error_blob": "NULL"}).insert("effect_attempts"),
	"notifications_one_per_index":         another("notifications").with(row{"notification_index": "0"}).insert("notifications"),
	"controller_resources_one_live":       controller("c3", "1").insert("controller_resources"),
	"human_decision_submissions_one_won":  "DROP TRIGGER human_decision_submissions_no_replace;" + submission("d0", "2", "rival").with(row{"outcome": "'won'"}).insert("human_decision_submissions"),
	"sqlite_autoindex_node_attempts_2":    "", // run_id and attempt_id: implied by the primary key
	"sqlite_autoindex_human_decisions_3":  "", // decision_id and status: implied by the primary key
	"sqlite_autoindex_node_attempts_3":    "DROP TRIGGER node_attempts_next; UPDATE node_attempts SET status = 'cancelled', ended_at = 7;" + attempt("a2", "r1").with(row{"attempt_number": "2"}).insert("node_attempts"),
	"sqlite_autoindex_node_attempts_4":    "DROP TRIGGER node_attempts_next; UPDATE node_attempts SET status = 'cancelled', ended_at = 7;" + attempt("a2", "r1").with(row{"ordinal": "2"}).insert("node_attempts"),
	"sqlite_autoindex_session_segments_2": "DROP TRIGGER session_segments_next;" + segment("s2", "1").insert("session_segments"),
}

// TestUnique sees every unique index refuse a second row.
func TestUnique(t *testing.T) {
	b := openBench(t)
	seen := map[string]bool{}
	for _, s := range specimens {
		for _, x := range b.indexes(t, s.table) {
			if !x.unique {
				continue
			}
			sql, special := collisions[x.name]
			seen[x.name] = true
			if special && sql == "" {
				continue
			}
			if !special {
				values := row{}
				for _, c := range x.columns {
					values[c] = s.rows[0][c]
					if values[c] == "NULL" { // a sequence that SQLite gave
						values[c] = "1"
					}
				}
				sql = b.withoutInsertTriggers(t, s.table) + s.insertAnother(values)
			}
			b.refuses(t, sql, "UNIQUE constraint failed")
		}
	}
	for name := range collisions {
		if !seen[name] {
			t.Errorf("no unique index %s", name)
		}
	}
}

// withoutInsertTriggers drops the triggers that would speak before the index does.
func (b bench) withoutInsertTriggers(tb testing.TB, table string) string {
	var sql strings.Builder
	for _, x := range triggers(tb) {
		if x.table == table && x.event == "INSERT" {
			sql.WriteString("DROP TRIGGER " + x.name + ";\n")
		}
	}
	return sql.String()
}
