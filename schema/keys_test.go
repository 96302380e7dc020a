package schema

import (
	"slices"
	"strings"
	"testing"
)

// ghosts says what to write to point a foreign key at nothing where it is not enough to write it into its last column.
var ghosts = map[string]row{
	"resources.event_revision":            {"revision": 1},
	"continuations.decision_id":           {"trigger_key": "ghost"},
	"continuations.admitted_run_id":       {"status": "admitted", "settled_at": 2},
	"controller_workflows.started_run_id": {"status": "running"},
	"effects.run_id":                      {"scope_id": "ghost"},
	"effects.controller_uid":              {"scope_type": "controller", "scope_id": "ghost"},
	"effects.channel_id":                  {"scope_type": "channel", "scope_id": "ghost"},
	"effects.queued_run_id":               {"effect_type": "run.settle_queue", "source_resource_id": "run:r2"},
}

// TestForeignKeys sees each foreign key refuse a row whose parent is missing, where nothing else would.
func TestForeignKeys(t *testing.T) {
	b := openBench(t)
	b.dropInsertTriggers(t)
	b.exec(t, "PRAGMA ignore_check_constraints = ON")
	for _, s := range specimens {
		columns := b.columns(t, s.table)
		for _, k := range b.foreignKeys(t, s.table) {
			last := k.from[len(k.from)-1]
			column := columns[slices.IndexFunc(columns, func(c tableColumn) bool { return c.name == last })]
			values, special := ghosts[s.table+"."+last]
			switch {
			case special:
			case column.computed && last == "resource_id":
				id := columns[slices.IndexFunc(columns, func(c tableColumn) bool { return c.kind == "TEXT" })]
				values = row{id.name: "ghost"}
			case column.computed:
				t.Errorf("%s.%s is computed: say of what", s.table, last)
			default:
				values = row{last: map[string]any{"TEXT": "ghost", "BLOB": digest("ghost"), "INTEGER": 9}[column.kind]}
			}
			sql := s.insertAnother(values)
			if last == "outcome" { // the decision does not follow its resolution
				sql = s.another().insert(s.table)
			}
			b.accepts(t, s.insertAnother(nil))
			b.refuses(t, sql, "FOREIGN KEY constraint failed")
		}
	}
}

// TestComputedForeignKeys sees the foreign keys of computed columns at work when a status makes them count.
func TestComputedForeignKeys(t *testing.T) {
	b := openBench(t)
	for _, x := range []struct{ good, bad string }{
		{
			another("continuations").with(row{"child_run_id": "r2"}).insert("continuations") +
				"UPDATE continuations SET status = 'admitted', settled_at = 2 WHERE continuation_id = 'k2'",
			"UPDATE continuations SET status = 'admitted', settled_at = 2",
		},
		{
			another("controller_workflows").with(row{"run_id": "r2"}).insert("controller_workflows") +
				"UPDATE controller_workflows SET status = 'running' WHERE request_key = 'two'",
			"UPDATE controller_workflows SET status = 'running'",
		},
		{ // R8
			effect("e6").with(row{"effect_type": "run.settle_queue"}).insert("effects"),
			"UPDATE resources SET revision = 1 WHERE resource_id = 'run:r2';" +
				another("events").with(row{"resource_id": "run:r2", "revision": 1}).insert("events") +
				effect("e6").with(row{"effect_type": "run.settle_queue", "source_resource_id": "run:r2"}).insert("effects"),
		},
		{ // W1: a revision and its event
			start(),
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
			b.each(t, "EXPLAIN QUERY PLAN "+children, func(r memoryRow) {
				indexed = indexed && strings.HasPrefix(r.Text(3),
					"SEARCH")
			})
			if !indexed && !(refused(k.parent, "DELETE", nil) && refused(k.parent, "UPDATE", k.to)) {
				t.Errorf("%s: foreign key on %q to %s: no index, and rows of %s may go or change their keys", table,
					k.from, k.parent, k.parent)
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
	"run_queue_one_per_session": another("run_queue").with(row{"pi_session_id": "pi-1",
		"status": "starting"}).insert("run_queue"),
	"node_attempts_one_active": attempt("a2", "r1").with(row{"ordinal": 2, "attempt_number": 2,
		"status": "waiting", "started_at": 1}).insert("node_attempts"),
	"effect_attempts_one_open": another("effect_attempts").with(row{"effect_id": "e1", "attempt_number": 2,
		"outcome": nil, "ended_at": nil, "error_blob": nil}).insert("effect_attempts"),
	"notifications_one_per_index":        another("notifications").with(row{"notification_index": 0}).insert("notifications"),
	"controller_resources_one_live":      controller("c3", "1").insert("controller_resources"),
	"human_decision_submissions_one_won": submission("d0", 2, "won", "rival").insert("human_decision_submissions"),
	"sqlite_autoindex_resources_1":       resource("run", "r1").insert("resources"), // a CHECK makes both the same
	"sqlite_autoindex_resources_2":       resource("run", "r1").insert("resources"),
	"sqlite_autoindex_node_attempts_2":   "", // run_id and attempt_id: implied by the primary key
	"sqlite_autoindex_human_decisions_3": "", // decision_id and status: implied by the primary key
	"sqlite_autoindex_node_attempts_3": "UPDATE node_attempts SET status = 'cancelled', ended_at = 7;" +
		attempt("a2", "r1").with(row{"attempt_number": 2}).insert("node_attempts"),
	"sqlite_autoindex_node_attempts_4": "UPDATE node_attempts SET status = 'cancelled', ended_at = 7;" +
		attempt("a2", "r1").with(row{"ordinal": 2}).insert("node_attempts"),
	"sqlite_autoindex_session_segments_2": another("session_segments").with(row{"ordinal": 1}).insert("session_segments"),
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
					if values[c] == nil { // a sequence that SQLite gave
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
		first := specimenOf(x.table).rows[0]
		if v, has := first["sequence"]; has && v == nil {
			first = first.with(row{"sequence": 1})
		}
		b.refuses(t, first.insertOr("REPLACE", x.table), "constraint failed: "+x.table+": ")
	}
	if kept == 0 {
		t.Error("no trigger refuses DELETE")
	}
}
