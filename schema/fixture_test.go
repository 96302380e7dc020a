package schema

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// row is one row to insert: the value of each column. A value is nil, an int, a string or raw.
type row map[string]any

// raw is a literal of SQL.
type raw string

// with returns the row with other values in some columns.
func (r row) with(values row) row {
	r = maps.Clone(r)
	maps.Copy(r, values)
	return r
}

func (r row) insert(table string) string { return r.insertOr("ABORT", table) }

// insertOr is insert with a conflict clause.
func (r row) insertOr(clause, table string) string {
	columns := slices.Sorted(maps.Keys(r))
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = sqlOf(r[c])
	}
	return fmt.Sprintf("INSERT OR %s INTO %s (%s)\nVALUES (%s);\n",
		clause, table, strings.Join(columns, ", "), strings.Join(values, ", "))
}

// assign is the part of an UPDATE that sets the columns.
func (r row) assign() string {
	var list []string
	for _, c := range slices.Sorted(maps.Keys(r)) {
		list = append(list, c+" = "+sqlOf(r[c]))
	}
	return strings.Join(list, ", ")
}

func sqlOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "NULL"
	case string:
		return "'" + v + "'"
	}
	return fmt.Sprint(value)
}

// digest returns a text's digest, which is also the key of the fixture's blob of that text.
func digest(text string) raw { return raw(fmt.Sprintf("x'%x'", sha256.Sum256([]byte(text)))) }

// A specimen has the valid rows of a table that the fixture inserts, and what another valid row has different from the
// first.
type specimen struct {
	table  string
	rows   []row
	other  row
	before string // what must happen in the same transaction before the other row comes
	after  string // and after it
}

// another returns a valid row that the fixture does not have.
func (s specimen) another() row { return s.rows[0].with(s.other) }

// insertAnother is the SQL that inserts the other row, with other values in some columns.
func (s specimen) insertAnother(values row) string {
	return s.before + s.another().with(values).insert(s.table) + s.after
}

func specimenOf(table string) specimen {
	for _, s := range specimens {
		if s.table == table {
			return s
		}
	}
	panic("no specimen of table " + table)
}

func another(table string) row { return specimenOf(table).another() }

// specimens are in the order in which they can be inserted.
var specimens = []specimen{
	{
		table: "projects",
		rows: []row{
			{"project_id": "p1", "path": "/home/me/one", "created_at": 1},
			{"project_id": "p2", "path": "/home/me/two", "created_at": 1},
		},
		other: row{"project_id": "p3", "path": "/home/me/three"},
	}, {
		table: "blobs",
		rows: []row{
			blob("definition"), blob("other definition"), blob("input"), blob("output"), blob("error"), blob("subject"),
			blob("yes"), blob("spec"), blob("other spec"),
		},
		other: blob("another"),
	}, {
		table: "resources",
		rows: []row{
			resource("run", "r1").with(row{"revision": 1}), resource("run", "r2"), resource("run", "r3"),
			resource("session", "s1"), resource("session", "s2"),
			resource("decision", "d0"), resource("decision", "d1"), resource("decision", "d2"),
			resource("controller", "c1"), resource("controller", "c2"), resource("controller", "c3"),
			resource("effect", "e1"), resource("effect", "e2"), resource("effect", "e3"),
			resource("effect", "e4"), resource("effect", "e5"), resource("effect", "e6"),
			resource("channel", "ch1"), resource("channel", "ch2"),
			resource("notification", "n1"), resource("notification", "n2"),
			resource("turn_intent", "t1"), resource("turn_intent", "t2"),
		},
		other: resource("run", "r4"),
	}, {
		table: "leases",
		rows:  []row{lease("run:r1")},
		other: row{"resource_id": "run:r2"},
	}, {
		table: "events",
		rows: []row{{
			"sequence": nil, "event_id": "ev1", "command_digest": digest("request"), "resource_id": "run:r1",
			"revision": 1, "run_id": "r1", "event_type": "run.created", "actor_class": "session", "actor_id": "pi-1",
			"lease_generation": 1, "payload_blob": digest("input"), "committed_at": 1,
		}},
		before: "UPDATE resources SET revision = revision + 1 WHERE resource_id = 'run:r1';\n",
		other:  row{"event_id": "ev2", "revision": 2, "event_type": "run.started"},
	}, {
		table: "workflow_definitions",
		rows:  []row{{"definition_digest": digest("definition"), "name": "plan", "created_at": 1}},
		other: row{"definition_digest": digest("other definition")},
	}, {
		table: "runs",
		rows:  []row{run("r1"), run("r2")},
		other: row{"run_id": "r3"},
	}, {
		table: "run_bindings",
		rows:  []row{{"run_id": "r1", "pi_session_id": "pi-1", "mode": "interactive", "bound_at": 1}},
		other: row{"run_id": "r2"},
	}, {
		table: "run_queue",
		rows: []row{{
			"run_id": "r1", "project_id": "p1", "pi_session_id": "pi-1", "affinity": "host-1", "status": "queued",
			"available_at": 1, "error_count": 1, "error_code": "busy", "enqueued_at": 1, "updated_at": 1, "settled_at": nil,
		}},
		other: row{"run_id": "r2", "pi_session_id": "pi-2"},
	}, {
		table: "node_attempts",
		rows:  []row{attempt("a1", "r1")},
		other: attempt("a2", "r2"),
	}, {
		table: "workflow_updates",
		rows: []row{{
			"attempt_id": "a1", "sequence": 1, "update_type": "progress", "update_key": "k", "data_blob": digest("input"),
			"created_at": 1,
		}},
		other: row{"sequence": 2},
	}, {
		table: "session_segments",
		rows: []row{{
			"segment_id": "s1", "run_id": "r1", "ordinal": 1, "attempt_id": "a1", "pi_session_id": "pi-1",
			"capture_key": "first", "status": "recording", "entry_count": 1, "event_count": 1, "prompt_entry_id": "p",
			"response_entry_id": nil, "error_blob": nil, "started_at": 1, "updated_at": 1, "ended_at": nil,
		}},
		other: row{"segment_id": "s2", "ordinal": 2, "capture_key": "second"},
	}, {
		table: "session_entries",
		rows: []row{{
			"segment_id": "s1", "sequence": 1, "entry_id": "p", "parent_id": nil, "entry_type": "message",
			"entry_blob": digest("input"), "captured_at": 1,
		}},
		other: row{"sequence": 2, "entry_id": "q", "parent_id": "p"},
	}, {
		table: "session_events",
		rows: []row{{
			"segment_id": "s1", "sequence": 1, "event_type": "message.end", "node_id": "draft", "attempt_id": "a1", "turn": 0,
			"message_id": "m", "tool_call_id": nil, "payload_blob": digest("input"), "occurred_at": 1,
		}},
		other: row{"sequence": 2},
	}, {
		table: "channels",
		rows: []row{{
			"channel_id": "ch1", "adapter_type": "chat", "profile": "default", "created_at": 1, "updated_at": 1,
		}},
		other: row{"channel_id": "ch2", "profile": "other"},
	}, {
		table: "channel_cursors",
		rows: []row{{
			"channel_id": "ch1", "cursor_name": "updates", "position": 5, "reference": nil, "updated_at": 1,
		}},
		other: row{"cursor_name": "edits"},
	}, {
		table: "channel_inbox",
		rows: []row{{
			"channel_id": "ch1", "external_event_id": "x1", "event_type": "callback", "payload_blob": digest("input"),
			"outcome": nil, "detail": nil, "received_at": 1, "processed_at": nil,
		}},
		other: row{"external_event_id": "x2"},
	}, {
		table: "human_decisions",
		rows:  []row{decision("d0", "resolved"), decision("d1", "asked")},
		other: row{"decision_id": "d2", "decision_key": "another"},
	}, {
		table: "human_decision_submissions",
		rows:  []row{submission("d0", 1, "won", "winner"), submission("d1", 1, "stale", "late")},
		other: submission("d1", 2, "stale", "later"),
	}, {
		table: "human_decision_resolutions",
		rows: []row{{
			"decision_id": "d0", "outcome": "accepted", "reason": "human", "submission_sequence": 1, "choice": "yes",
			"response_blob": digest("yes"), "actor_class": "human", "actor_id": "somebody", "resolved_at": 3,
		}},
		other: row{
			"decision_id": "d1", "reason": "timeout_policy", "submission_sequence": nil, "actor_class": "policy",
			"actor_id": nil, "resolved_at": 5,
		},
		after: resolve("d1", "accepted", 5),
	}, {
		table: "continuations",
		rows: []row{{
			"continuation_id": "k1", "trigger_type": "decision", "trigger_key": "d0", "parent_run_id": "r1",
			"child_run_id": "k1-run", "request_digest": digest("request"), "input_blob": digest("input"),
			"status": "pending", "error_blob": digest("error"), "created_at": 1, "updated_at": 1, "settled_at": nil,
		}},
		other: row{"continuation_id": "k2", "trigger_key": "d1", "child_run_id": "k2-run"},
	}, {
		table: "controller_resources",
		rows:  []row{controller("c1", "1"), controller("c2", "2")},
		other: row{"controller_uid": "c3", "key": "3"},
	}, {
		table: "controller_finalizers",
		rows:  []row{{"controller_uid": "c1", "position": 1, "finalizer": "branch", "added_at": 1}},
		other: row{"position": 2, "finalizer": "worktree"},
	}, {
		table: "controller_queue",
		rows: []row{{
			"controller_uid": "c1", "project_id": "p1", "available_at": 1, "queue_version": 2, "error_count": 1,
			"error_code": "busy", "enqueued_at": 1, "updated_at": 1,
		}},
		other: row{"controller_uid": "c2"},
	}, {
		table: "controller_workflows",
		rows: []row{{
			"controller_uid": "c1", "request_key": "one", "input_fingerprint": digest("request"),
			"input_blob": digest("input"), "run_id": "one-run", "status": "pending", "output_blob": nil,
			"error_blob": nil, "created_at": 1, "updated_at": 1, "ended_at": nil,
		}},
		other: row{"request_key": "two", "run_id": "two-run"},
	}, {
		table: "effects",
		rows:  []row{effect("e1"), effect("e2"), effect("e3"), effect("e4"), effect("e5")},
		other: effect("e6"),
	}, {
		table: "effect_attempts",
		rows: []row{{
			"effect_id": "e1", "attempt_number": 1, "owner_type": "host", "owner_id": "host-1", "lease_generation": 1,
			"outcome": nil, "error_blob": nil, "started_at": 1, "ended_at": nil,
		}},
		other: row{"effect_id": "e2", "outcome": "rejected", "error_blob": digest("error"), "ended_at": 2},
	}, {
		table: "notifications",
		rows: []row{{
			"notification_id": "n1", "run_id": "r1", "attempt_id": "a1", "notification_index": 0, "kind": "progress",
			"pi_session_id": "pi-1", "payload_blob": digest("input"), "effect_id": "e2", "resolution": nil,
			"entry_id": nil, "created_at": 1, "resolved_at": nil,
		}},
		other: row{"notification_id": "n2", "notification_index": 1, "effect_id": "e4"},
	}, {
		table: "turn_intents",
		rows: []row{{
			"turn_intent_id": "t1", "run_id": "r1", "pi_session_id": "pi-1", "intent_key": "first",
			"payload_blob": digest("input"), "effect_id": "e3", "eligible_at": 5, "resolution": nil, "entry_id": nil,
			"created_at": 1, "resolved_at": nil,
		}},
		other: row{"turn_intent_id": "t2", "intent_key": "second", "effect_id": "e5"},
	}, {
		table: "channel_messages",
		rows: []row{{
			"message_id": "m1", "channel_id": "ch1", "kind": "delivery", "message_key": "first", "decision_id": "d1",
			"effect_id": "e1", "payload_blob": digest("input"), "status": "pending", "error_blob": digest("error"),
			"created_at": 1, "updated_at": 1, "settled_at": nil,
		}},
		other: row{"message_id": "m2", "message_key": "second"},
	}, {
		table: "channel_message_parts",
		rows: []row{{
			"message_id": "m1", "recipient": "somebody", "part_number": 1, "payload_blob": digest("input"),
			"status": "pending", "external_ref": nil, "error_blob": digest("error"), "updated_at": 1, "settled_at": nil,
		}},
		other: row{"part_number": 2},
	},
}

func blob(text string) row {
	return row{
		"digest": digest(text), "media_type": "text/plain", "length": len(text),
		"bytes": raw(fmt.Sprintf("x'%x'", text)), "created_at": 1,
	}
}

func resource(kind, key string) row {
	return row{
		"resource_id": kind + ":" + key, "resource_type": kind, "aggregate_key": key, "revision": 0,
		"created_at": 1, "updated_at": 1, "ended_at": nil,
	}
}

func lease(resource string) row {
	return row{
		"resource_id": resource, "generation": 1, "owner_type": "session", "owner_id": "pi-1",
		"token_digest": digest("token"), "acquired_at": 1, "heartbeat_at": 1, "expires_at": 2,
	}
}

// released is what a lease without owner has.
var released = row{
	"owner_type": nil, "owner_id": nil, "token_digest": nil, "acquired_at": nil, "heartbeat_at": nil, "expires_at": nil,
}

func run(id string) row {
	return row{
		"run_id": id, "project_id": "p1", "parent_run_id": nil, "definition_digest": digest("definition"),
		"source_type": "builtin", "source_ref": "plan", "source_revision": nil, "request_digest": digest("request"),
		"title": "Title", "status": "queued", "status_detail": nil, "is_paused": 0, "input_blob": digest("input"),
		"output_blob": nil, "error_blob": nil, "created_at": 1, "updated_at": 1, "started_at": nil, "deadline_at": 9,
		"cancel_requested_at": nil, "deletion_requested_at": nil, "ended_at": nil,
	}
}

func attempt(id, run string) row {
	return row{
		"attempt_id": id, "run_id": run, "ordinal": 1, "node_id": "draft", "attempt_number": 1, "node_type": "agent",
		"expected_output": "assistant-message", "status": "pending", "input_blob": digest("input"),
		"contract_blob": digest("input"), "prompt_blob": digest("input"), "output_blob": nil, "result_blob": nil,
		"error_blob": nil, "created_at": 1, "updated_at": 1, "started_at": nil, "deadline_at": 9,
		"interrupted_at": nil, "ended_at": nil,
	}
}

func decision(id, key string) row {
	return row{
		"decision_id": id, "run_id": "r1", "attempt_id": "a1", "decision_key": key, "request_revision": 1,
		"request_digest": digest("question"), "audience": "owner", "title": "Title", "subject_blob": digest("subject"),
		"presentation_blob": digest("subject"), "choices_blob": digest("subject"), "is_protected": 1, "deadline_at": 5,
		"default_choice": "yes", "default_blob": digest("yes"), "created_at": 1, "status": "pending", "resolved_at": nil,
	}
}

func submission(decision string, sequence int, outcome, id string) row {
	return row{
		"decision_id": decision, "sequence": sequence, "submission_id": id, "request_digest": digest("question"),
		"choice": "yes", "response_blob": digest("yes"), "actor_class": "human", "actor_id": "somebody",
		"channel_id": "ch1", "external_event_id": "x1", "outcome": outcome, "detail": nil, "submitted_at": 2,
	}
}

func controller(uid, key string) row {
	return row{
		"controller_uid": uid, "project_id": "p1", "name": "merge", "key": key, "spec_blob": digest("spec"),
		"generation": 1, "status_blob": digest("subject"), "observed_generation": 1, "created_at": 1, "updated_at": 1,
		"deletion_requested_at": nil, "deleted_at": nil,
	}
}

func effect(id string) row {
	return row{
		"sequence": nil, "effect_id": id, "source_resource_id": "run:r1", "source_revision": 1,
		"effect_type": "test.effect", "idempotency_key": id, "payload_blob": digest("input"), "is_external": 0,
		"scope_type": "run", "scope_id": "r1", "status": "pending", "available_at": 1, "attempt_count": 1,
		"result_blob": nil, "error_blob": nil, "external_ref": nil, "created_at": 1, "updated_at": 1, "settled_at": nil,
	}
}
