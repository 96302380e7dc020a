package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

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
	b.dropInsertTriggers(t)
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
	case "submission_sequence":
		values = row{"reason": "'human'", child: "9"}
	case "outcome": // the decision does not follow
		sql = s.another.insert(s.table)
	case "definition_digest", "digest":
		values = row{child: digest("ghost")}
	}
	if strings.HasSuffix(child, "_blob") {
		values = row{child: digest("ghost")}
		switch s.table + "." + child {
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
		sql = another(table).with(row{"status": "'" + status + "'"}).with(words[key].(row)).insert(table)
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
			indexed := true
			children := "SELECT 1 FROM " + table + " WHERE " + strings.Join(k.from, " = ?1 AND ") + " = ?1"
			b.each(t, "EXPLAIN QUERY PLAN "+children, func(r memoryRow) { indexed = indexed && strings.HasPrefix(r.Text(3), "SEARCH") })
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

// collisions says how a row collides where copying the columns of an existing row is not enough.
var collisions = map[string]string{
	"run_queue_one_per_session":           another("run_queue").with(row{"pi_session_id": "'pi-1'", "status": "'starting'"}).insert("run_queue"),
	"node_attempts_one_active":            attempt("a2", "r1").with(row{"ordinal": "2", "attempt_number": "2", "status": "'waiting'", "started_at": "1"}).insert("node_attempts"),
	"effect_attempts_one_open":            another("effect_attempts").with(row{"effect_id": "'e1'", "attempt_number": "2", "outcome": "NULL", "ended_at": "NULL", "error_blob": "NULL"}).insert("effect_attempts"),
	"notifications_one_per_index":         another("notifications").with(row{"notification_index": "0"}).insert("notifications"),
	"controller_resources_one_live":       controller("c3", "1").insert("controller_resources"),
	"human_decision_submissions_one_won":  submission("d0", "2", "rival").with(row{"outcome": "'won'"}).insert("human_decision_submissions"),
	"sqlite_autoindex_resources_1":        resource("run", "r1").insert("resources"), // a CHECK makes both the same
	"sqlite_autoindex_resources_2":        resource("run", "r1").insert("resources"),
	"sqlite_autoindex_node_attempts_2":    "", // run_id and attempt_id: implied by the primary key
	"sqlite_autoindex_human_decisions_3":  "", // decision_id and status: implied by the primary key
	"sqlite_autoindex_node_attempts_3":    "UPDATE node_attempts SET status = 'cancelled', ended_at = 7;" + attempt("a2", "r1").with(row{"attempt_number": "2"}).insert("node_attempts"),
	"sqlite_autoindex_node_attempts_4":    "UPDATE node_attempts SET status = 'cancelled', ended_at = 7;" + attempt("a2", "r1").with(row{"ordinal": "2"}).insert("node_attempts"),
	"sqlite_autoindex_session_segments_2": segment("s2", "1").insert("session_segments"),
}

// TestUnique sees every unique index refuse a second row.
func TestUnique(t *testing.T) {
	b := openBench(t)
	b.dropInsertTriggers(t)
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
				sql = s.insertAnother(values)
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

// dropInsertTriggers drops the triggers that would speak before a foreign key or an index does.
func (b bench) dropInsertTriggers(tb testing.TB) {
	tb.Helper()
	var sql strings.Builder
	for _, x := range triggers(tb) {
		if x.event == "INSERT" {
			sql.WriteString("DROP TRIGGER " + x.name + ";\n")
		}
	}
	b.exec(tb, sql.String())
}

// TestReplace: with recursive triggers on, as every writer should have them, INSERT OR REPLACE is a deletion like any
// other and can't get round the triggers: a terminal run stays terminal, a generation stays. (R3, R5, D7)
func TestReplace(t *testing.T) {
	b := openBench(t)
	b.exec(t, "PRAGMA recursive_triggers = ON")
	kept := 0
	for _, x := range triggers(t) {
		if x.event != "DELETE" || x.table == "schema_meta" {
			continue
		}
		kept++
		first := specimenOf(t, x.table).rows[0]
		if first["sequence"] == "NULL" {
			first = first.with(row{"sequence": "1"})
		}
		b.refuses(t, first.insertOr("REPLACE", x.table), "constraint failed: "+x.table+": ")
	}
	if kept == 0 {
		t.Error("no trigger refuses DELETE")
	}
}
