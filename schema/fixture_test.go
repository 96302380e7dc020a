package schema

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// row is one row to insert: the SQL literal of each column.
type row map[string]string

// with returns the row with other values in some columns.
func (r row) with(values row) row {
	r = maps.Clone(r)
	maps.Copy(r, values)
	return r
}

func (r row) insert(table string) string {
	columns := slices.Sorted(maps.Keys(r))
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = r[c]
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s);\n", table, strings.Join(columns, ", "), strings.Join(values, ", "))
}

// digest returns the literal of a text's digest, which is also the key of the fixture's blob of that text.
func digest(text string) string { return fmt.Sprintf("x'%x'", sha256.Sum256([]byte(text))) }

func blob(text string) row {
	return row{
		"digest": digest(text), "media_type": "'text/plain'", "length": fmt.Sprint(len(text)),
		"bytes": fmt.Sprintf("x'%x'", text), "created_at": "1",
	}
}

func resource(kind, key string) row {
	return row{
		"resource_id": "'" + kind + ":" + key + "'", "resource_type": "'" + kind + "'", "aggregate_key": "'" + key + "'",
		"revision": "0", "created_at": "1", "updated_at": "1", "ended_at": "NULL",
	}
}

func lease(resource string) row {
	return row{
		"resource_id": "'" + resource + "'", "generation": "1", "owner_type": "'session'", "owner_id": "'pi-1'",
		"token_digest": digest("token"), "acquired_at": "1", "heartbeat_at": "1", "expires_at": "2",
	}
}

func run(id string) row {
	return row{
		"run_id": "'" + id + "'", "project_id": "'p1'", "parent_run_id": "NULL", "definition_digest": digest("definition"),
		"source_type": "'builtin'", "source_ref": "'plan'", "source_revision": "NULL", "request_digest": digest("request"),
		"title": "'Title'", "status": "'queued'", "status_detail": "NULL", "is_paused": "0", "input_blob": digest("input"),
		"output_blob": "NULL", "error_blob": "NULL", "created_at": "1", "updated_at": "1", "started_at": "NULL",
		"deadline_at": "9", "cancel_requested_at": "NULL", "deletion_requested_at": "NULL", "ended_at": "NULL",
	}
}

func decision(id, key string) row {
	return row{
		"decision_id": "'" + id + "'", "run_id": "'r1'", "attempt_id": "'a1'", "decision_key": "'" + key + "'",
		"request_revision": "1", "request_digest": digest("question"), "audience": "'owner'", "title": "'Title'",
		"subject_blob": digest("subject"), "presentation_blob": digest("subject"), "choices_blob": digest("subject"),
		"is_protected": "1", "deadline_at": "5", "default_choice": "'yes'", "default_blob": digest("yes"),
		"created_at": "1", "status": "'pending'", "resolved_at": "NULL",
	}
}

func submission(decision, sequence, id string) row {
	return row{
		"decision_id": "'" + decision + "'", "sequence": sequence, "submission_id": "'" + id + "'",
		"request_digest": digest("question"), "choice": "'yes'", "response_blob": digest("yes"),
		"actor_class": "'human'", "actor_id": "'somebody'", "channel_id": "'ch1'", "external_event_id": "'x1'",
		"outcome": "'stale'", "detail": "NULL", "submitted_at": "2",
	}
}

func controller(uid, key string) row {
	return row{
		"controller_uid": "'" + uid + "'", "project_id": "'p1'", "name": "'merge'", "key": "'" + key + "'",
		"spec_blob": digest("spec"), "generation": "1", "status_blob": digest("subject"), "observed_generation": "1",
		"created_at": "1", "updated_at": "1", "deletion_requested_at": "NULL", "deleted_at": "NULL",
	}
}

func effect(id string) row {
	return row{
		"sequence": "NULL", "effect_id": "'" + id + "'", "source_resource_id": "'run:r1'", "source_revision": "1",
		"effect_type": "'test.effect'", "idempotency_key": "'" + id + "'", "payload_blob": digest("input"),
		"is_external": "0", "scope_type": "'run'", "scope_id": "'r1'", "status": "'pending'", "available_at": "1",
		"attempt_count": "1", "result_blob": "NULL", "error_blob": "NULL", "external_ref": "NULL",
		"created_at": "1", "updated_at": "1", "settled_at": "NULL",
	}
}

// A specimen is a table with the valid rows that the fixture has of it, and another valid row to insert.
type specimen struct {
	table   string
	rows    []row
	another row
	before  string // what must happen in the same transaction before the other row comes
	after   string // and after it
}

var specimens = []specimen{
	{table: "projects",
		rows:    []row{{"project_id": "'p1'", "path": "'/home/me/one'", "created_at": "1"}, {"project_id": "'p2'", "path": "'/home/me/two'", "created_at": "1"}},
		another: row{"project_id": "'p3'", "path": "'/home/me/three'", "created_at": "1"}},
	{table: "blobs",
		rows: []row{blob("definition"), blob("other definition"), blob("input"), blob("output"), blob("error"),
			blob("subject"), blob("yes"), blob("spec"), blob("other spec")},
		another: blob("another")},
	{table: "resources",
		rows: []row{resource("run", "r1").with(row{"revision": "1"}), resource("run", "r2"), resource("run", "r3"),
			resource("session", "s1"), resource("session", "s2"), resource("decision", "d0"), resource("decision", "d1"),
			resource("decision", "d2"), resource("controller", "c1"), resource("controller", "c2"), resource("controller", "c3"),
			resource("effect", "e1"), resource("effect", "e2"), resource("effect", "e3"), resource("effect", "e4"),
			resource("effect", "e5"), resource("effect", "e6"), resource("channel", "ch1"), resource("channel", "ch2"),
			resource("notification", "n1"), resource("notification", "n2"), resource("turn_intent", "t1"), resource("turn_intent", "t2")},
		another: resource("run", "r4")},
	{table: "leases",
		rows:    []row{lease("run:r1")},
		another: lease("run:r2")},
	{table: "events",
		rows: []row{{
			"sequence": "NULL", "event_id": "'ev1'", "command_digest": digest("request"), "resource_id": "'run:r1'", "revision": "1",
			"run_id": "'r1'", "event_type": "'run.created'", "actor_class": "'session'", "actor_id": "'pi-1'",
			"lease_generation": "1", "payload_blob": digest("input"), "committed_at": "1"}},
		before: "UPDATE resources SET revision = revision + 1 WHERE resource_id = 'run:r1'",
		another: row{
			"sequence": "NULL", "event_id": "'ev2'", "command_digest": digest("request"), "resource_id": "'run:r1'", "revision": "2",
			"run_id": "'r1'", "event_type": "'run.started'", "actor_class": "'session'", "actor_id": "'pi-1'",
			"lease_generation": "1", "payload_blob": digest("input"), "committed_at": "1"}},
	{table: "workflow_definitions",
		rows:    []row{{"definition_digest": digest("definition"), "name": "'plan'", "created_at": "1"}},
		another: row{"definition_digest": digest("other definition"), "name": "'plan'", "created_at": "1"}},
	{table: "runs",
		rows:    []row{run("r1"), run("r2")},
		another: run("r3")},
	{table: "run_bindings",
		rows:    []row{{"run_id": "'r1'", "pi_session_id": "'pi-1'", "mode": "'interactive'", "bound_at": "1"}},
		another: row{"run_id": "'r2'", "pi_session_id": "'pi-1'", "mode": "'interactive'", "bound_at": "1"}},
	{table: "run_queue",
		rows: []row{{
			"run_id": "'r1'", "project_id": "'p1'", "pi_session_id": "'pi-1'", "affinity": "'host-1'", "status": "'queued'",
			"available_at": "1", "error_count": "1", "error_code": "'busy'", "enqueued_at": "1", "updated_at": "1", "settled_at": "NULL"}},
		another: row{
			"run_id": "'r2'", "project_id": "'p1'", "pi_session_id": "'pi-2'", "affinity": "'host-1'", "status": "'queued'",
			"available_at": "1", "error_count": "1", "error_code": "'busy'", "enqueued_at": "1", "updated_at": "1", "settled_at": "NULL"}},
	{table: "node_attempts",
		rows:    []row{attempt("a1", "r1")},
		another: attempt("a2", "r2")},
	{table: "workflow_updates",
		rows:    []row{{"attempt_id": "'a1'", "sequence": "1", "update_type": "'progress'", "update_key": "'k'", "data_blob": digest("input"), "created_at": "1"}},
		another: row{"attempt_id": "'a1'", "sequence": "2", "update_type": "'progress'", "update_key": "'k'", "data_blob": digest("input"), "created_at": "1"}},
	{table: "session_segments",
		rows:    []row{segment("s1", "1")},
		another: segment("s2", "2")},
	{table: "session_entries",
		rows:    []row{{"segment_id": "'s1'", "sequence": "1", "entry_id": "'p'", "parent_id": "NULL", "entry_type": "'message'", "entry_blob": digest("input"), "captured_at": "1"}},
		another: row{"segment_id": "'s1'", "sequence": "2", "entry_id": "'q'", "parent_id": "'p'", "entry_type": "'message'", "entry_blob": digest("input"), "captured_at": "1"}},
	{table: "session_events",
		rows:    []row{sessionEvent("1")},
		another: sessionEvent("2")},
	{table: "channels",
		rows:    []row{{"channel_id": "'ch1'", "adapter_type": "'chat'", "profile": "'default'", "created_at": "1", "updated_at": "1"}},
		another: row{"channel_id": "'ch2'", "adapter_type": "'chat'", "profile": "'other'", "created_at": "1", "updated_at": "1"}},
	{table: "channel_cursors",
		rows:    []row{{"channel_id": "'ch1'", "cursor_name": "'updates'", "position": "5", "reference": "NULL", "updated_at": "1"}},
		another: row{"channel_id": "'ch1'", "cursor_name": "'edits'", "position": "5", "reference": "NULL", "updated_at": "1"}},
	{table: "channel_inbox",
		rows:    []row{inbox("x1")},
		another: inbox("x2")},
	{table: "human_decisions",
		rows:    []row{decision("d0", "resolved"), decision("d1", "asked")},
		another: decision("d2", "another")},
	{table: "human_decision_submissions",
		rows:    []row{submission("d0", "1", "won").with(row{"outcome": "'won'"}), submission("d1", "1", "late")},
		another: submission("d1", "2", "later")},
	{table: "human_decision_resolutions",
		rows: []row{{
			"decision_id": "'d0'", "outcome": "'accepted'", "reason": "'human'", "submission_sequence": "1", "choice": "'yes'",
			"response_blob": digest("yes"), "actor_class": "'human'", "actor_id": "'somebody'", "resolved_at": "3"}},
		another: row{
			"decision_id": "'d1'", "outcome": "'accepted'", "reason": "'timeout_policy'", "submission_sequence": "NULL", "choice": "'yes'",
			"response_blob": digest("yes"), "actor_class": "'policy'", "actor_id": "NULL", "resolved_at": "5"},
		after: resolve("d1", "accepted", "5")},
	{table: "continuations",
		rows: []row{{
			"continuation_id": "'k1'", "trigger_type": "'decision'", "trigger_key": "'d0'", "parent_run_id": "'r1'", "child_run_id": "'k1-run'",
			"request_digest": digest("request"), "input_blob": digest("input"), "status": "'pending'", "error_blob": digest("error"),
			"created_at": "1", "updated_at": "1", "settled_at": "NULL"}},
		another: row{
			"continuation_id": "'k2'", "trigger_type": "'decision'", "trigger_key": "'d1'", "parent_run_id": "'r1'", "child_run_id": "'k2-run'",
			"request_digest": digest("request"), "input_blob": digest("input"), "status": "'pending'", "error_blob": digest("error"),
			"created_at": "1", "updated_at": "1", "settled_at": "NULL"}},
	{table: "controller_resources",
		rows:    []row{controller("c1", "1"), controller("c2", "2")},
		another: controller("c3", "3")},
	{table: "controller_finalizers",
		rows:    []row{{"controller_uid": "'c1'", "position": "1", "finalizer": "'branch'", "added_at": "1"}},
		another: row{"controller_uid": "'c1'", "position": "2", "finalizer": "'worktree'", "added_at": "1"}},
	{table: "controller_queue",
		rows: []row{{"controller_uid": "'c1'", "project_id": "'p1'", "available_at": "1", "queue_version": "2", "error_count": "1", "error_code": "'busy'",
			"enqueued_at": "1", "updated_at": "1"}},
		another: row{"controller_uid": "'c2'", "project_id": "'p1'", "available_at": "1", "queue_version": "2", "error_count": "1", "error_code": "'busy'",
			"enqueued_at": "1", "updated_at": "1"}},
	{table: "controller_workflows",
		rows:    []row{controllerWorkflow("one")},
		another: controllerWorkflow("two")},
	{table: "effects",
		rows:    []row{effect("e1"), effect("e2"), effect("e3"), effect("e4"), effect("e5")},
		another: effect("e6")},
	{table: "effect_attempts",
		rows: []row{{"effect_id": "'e1'", "attempt_number": "1", "owner_type": "'host'", "owner_id": "'host-1'", "lease_generation": "1",
			"outcome": "NULL", "error_blob": "NULL", "started_at": "1", "ended_at": "NULL"}},
		another: row{"effect_id": "'e2'", "attempt_number": "1", "owner_type": "'host'", "owner_id": "'host-1'", "lease_generation": "1",
			"outcome": "'rejected'", "error_blob": digest("error"), "started_at": "1", "ended_at": "2"}},
	{table: "notifications",
		rows:    []row{notification("n1", "0", "e2")},
		another: notification("n2", "1", "e4")},
	{table: "turn_intents",
		rows:    []row{turnIntent("t1", "e3")},
		another: turnIntent("t2", "e5")},
	{table: "channel_messages",
		rows:    []row{message("m1")},
		another: message("m2")},
	{table: "channel_message_parts",
		rows: []row{{"message_id": "'m1'", "recipient": "'somebody'", "part_number": "1", "payload_blob": digest("input"), "status": "'pending'",
			"external_ref": "NULL", "error_blob": "NULL", "updated_at": "1", "settled_at": "NULL"}},
		another: row{"message_id": "'m1'", "recipient": "'somebody'", "part_number": "2", "payload_blob": digest("input"), "status": "'pending'",
			"external_ref": "NULL", "error_blob": digest("error"), "updated_at": "1", "settled_at": "NULL"}},
}

func attempt(id, run string) row {
	return row{
		"attempt_id": "'" + id + "'", "run_id": "'" + run + "'", "ordinal": "1", "node_id": "'draft'", "attempt_number": "1",
		"node_type": "'agent'", "expected_output": "'assistant-message'", "status": "'pending'", "input_blob": digest("input"),
		"contract_blob": digest("input"), "prompt_blob": digest("input"), "output_blob": "NULL", "result_blob": "NULL",
		"error_blob": "NULL", "created_at": "1", "updated_at": "1", "started_at": "NULL", "deadline_at": "9",
		"interrupted_at": "NULL", "ended_at": "NULL",
	}
}

func segment(id, ordinal string) row {
	return row{
		"segment_id": "'" + id + "'", "run_id": "'r1'", "ordinal": ordinal, "attempt_id": "'a1'", "pi_session_id": "'pi-1'",
		"capture_key": "'" + id + "'", "status": "'recording'", "entry_count": "1", "event_count": "1", "prompt_entry_id": "'p'",
		"response_entry_id": "NULL", "error_blob": "NULL", "started_at": "1", "updated_at": "1", "ended_at": "NULL",
	}
}

func sessionEvent(sequence string) row {
	return row{
		"segment_id": "'s1'", "sequence": sequence, "event_type": "'message.end'", "node_id": "'draft'", "attempt_id": "'a1'", "turn": "0",
		"message_id": "'m'", "tool_call_id": "NULL", "payload_blob": digest("input"), "occurred_at": "1",
	}
}

func inbox(id string) row {
	return row{
		"channel_id": "'ch1'", "external_event_id": "'" + id + "'", "event_type": "'callback'", "payload_blob": digest("input"),
		"outcome": "NULL", "detail": "NULL", "received_at": "1", "processed_at": "NULL",
	}
}

func controllerWorkflow(key string) row {
	return row{
		"controller_uid": "'c1'", "request_key": "'" + key + "'", "input_fingerprint": digest("request"), "input_blob": digest("input"),
		"run_id": "'" + key + "-run'", "status": "'pending'", "output_blob": "NULL", "error_blob": "NULL",
		"created_at": "1", "updated_at": "1", "ended_at": "NULL",
	}
}

func notification(id, index, effect string) row {
	return row{
		"notification_id": "'" + id + "'", "run_id": "'r1'", "attempt_id": "'a1'", "notification_index": index, "kind": "'progress'",
		"pi_session_id": "'pi-1'", "payload_blob": digest("input"), "effect_id": "'" + effect + "'", "resolution": "NULL",
		"entry_id": "NULL", "created_at": "1", "resolved_at": "NULL",
	}
}

func turnIntent(id, effect string) row {
	return row{
		"turn_intent_id": "'" + id + "'", "run_id": "'r1'", "pi_session_id": "'pi-1'", "intent_key": "'" + id + "'",
		"payload_blob": digest("input"), "effect_id": "'" + effect + "'", "eligible_at": "5", "resolution": "NULL",
		"entry_id": "NULL", "created_at": "1", "resolved_at": "NULL",
	}
}

func message(id string) row {
	return row{
		"message_id": "'" + id + "'", "channel_id": "'ch1'", "kind": "'delivery'", "message_key": "'" + id + "'", "decision_id": "'d1'",
		"effect_id": "'e1'", "payload_blob": digest("input"), "status": "'pending'", "error_blob": digest("error"),
		"created_at": "1", "updated_at": "1", "settled_at": "NULL",
	}
}

// end ends a resource at a time, as the write contract does before the domain row follows.
func end(resource, at string) string {
	return "UPDATE resources SET ended_at = " + at + " WHERE resource_id = '" + resource + "';\n"
}

// resolve makes a decision follow its resolution.
func resolve(decision, status, at string) string {
	return end("decision:"+decision, at) +
		"UPDATE human_decisions SET status = '" + status + "', resolved_at = " + at + " WHERE decision_id = '" + decision + "';\n"
}

// another returns the row of a specimen that the fixture does not have.
func another(table string) row {
	for _, s := range specimens {
		if s.table == table {
			return s.another
		}
	}
	panic("no specimen of table " + table)
}

func specimenOf(tb testing.TB, table string) specimen {
	tb.Helper()
	i := slices.IndexFunc(specimens, func(s specimen) bool { return s.table == table })
	if i < 0 {
		tb.Fatalf("no specimen of table %s", table)
	}
	return specimens[i]
}

// insertAnother is the SQL that inserts the specimen's other row, with other values in some columns.
func (s specimen) insertAnother(values row) string {
	return s.before + ";\n" + s.another.with(values).insert(s.table) + s.after
}
