package schema

import (
	"regexp"
	"strings"
	"testing"
)

// trigger is one trigger of the schema.
type trigger struct {
	name, event, table string
	columns            []string // of UPDATE OF
	when               bool     // it has a condition
	message            string
}

var triggerText = regexp.MustCompile(`(?s)CREATE TRIGGER (\w+)\nBEFORE (INSERT|UPDATE|DELETE)(?: OF ([\w,\s]+?))?\s+ON (\w+)\n(WHEN .*?\n)?` +
	`BEGIN\n  SELECT RAISE\(ABORT, '([^']+)'\);\nEND;`)

// triggers reads the triggers from the DDL. All have one form: they refuse, before anything happens.
func triggers(tb testing.TB) []trigger {
	tb.Helper()
	var all []trigger
	for _, m := range triggerText.FindAllStringSubmatch(StateDDL(), -1) {
		x := trigger{name: m[1], event: m[2], table: m[4], when: m[5] != "", message: m[6]}
		if m[3] != "" {
			x.columns = regexp.MustCompile(`,\s+`).Split(m[3], -1)
		}
		all = append(all, x)
	}
	if want := strings.Count(StateDDL(), "CREATE TRIGGER"); len(all) != want {
		tb.Fatalf("found %d triggers of the one form in the DDL, expected %d", len(all), want)
	}
	return all
}

// conditions has, for each trigger with a condition, what it must refuse and the nearest thing that it must not.
var conditions = map[string]struct{ bad, good string }{
	"blobs_no_replace": { // R9
		bad:  blob("input").with(row{"media_type": "application/json"}).insertOr("IGNORE", "blobs"),
		good: blob("input").with(row{"created_at": 2}).insertOr("IGNORE", "blobs"),
	},

	"resources_next_revision": { // R1
		bad:  "UPDATE resources SET revision = revision + 2 WHERE resource_id = 'run:r1'",
		good: start(),
	},
	"resources_no_gap": { // W1
		bad: "UPDATE resources SET revision = revision + 1 WHERE resource_id = 'run:r2';" +
			"UPDATE resources SET revision = revision + 1 WHERE resource_id = 'run:r2'",
		good: start() + "UPDATE resources SET revision = 3 WHERE resource_id = 'run:r1';" +
			another("events").with(row{"event_id": "ev3", "revision": 3}).insert("events"),
	},
	"resources_end_once": {
		bad:  end("run:r2", 7) + end("run:r2", 8),
		good: end("run:r2", 7) + end("run:r2", 7),
	},
	"resources_end_released": { // C52
		bad:  end("run:r1", 7),
		good: releaseLease + end("run:r1", 7),
	},

	"leases_generation_grows": { // R3
		bad:  "UPDATE leases SET generation = 0",
		good: "UPDATE leases SET generation = 2, owner_id = 'pi-2', token_digest = zeroblob(32)",
	},
	"leases_new_owner": { // R3
		bad: releaseLease +
			"UPDATE leases SET owner_type = 'session', owner_id = 'pi-1', token_digest = zeroblob(32)," +
			" acquired_at = 1, heartbeat_at = 1, expires_at = 2",
		good: "UPDATE leases SET heartbeat_at = 2, expires_at = 3; " + releaseLease,
	},
	"leases_claim_ended": { // C52
		bad:  lease("run:r2").with(released).insert("leases") + end("run:r2", 7) + claimLease,
		good: lease("run:r2").with(released).insert("leases") + claimLease,
	},
	"leases_create_ended": { // C52
		bad:  end("run:r2", 7) + lease("run:r2").insert("leases"),
		good: end("run:r2", 7) + lease("run:r2").with(released).insert("leases"),
	},

	"events_current_revision": { // R5
		bad:  another("events").insert("events"),
		good: start(),
	},
	"events_no_replace": { // R5
		bad:  another("events").with(row{"revision": 1}).insertOr("REPLACE", "events"),
		good: start(),
	},

	"workflow_definitions_no_replace": { // D1
		bad: another("workflow_definitions").with(row{"definition_digest": digest("definition"), "name": "other"}).
			insertOr("REPLACE", "workflow_definitions"),
		good: another("workflow_definitions").with(row{"definition_digest": digest("definition")}).
			insertOr("IGNORE", "workflow_definitions"),
	},

	"runs_begin_open": {
		bad:  end("run:r3", 7) + run("r3").with(row{"status": "cancelled", "ended_at": 7}).insert("runs"),
		good: run("r3").insert("runs"),
	},
	"runs_end_once": { // D7
		bad: endRun("cancelled", row{"error_blob": nil}) +
			"; UPDATE runs SET status = 'running', ended_at = NULL WHERE run_id = 'r2'",
		good: endRun("cancelled", row{"error_blob": nil}) +
			"; UPDATE runs SET status = 'cancelled', deletion_requested_at = 8 WHERE run_id = 'r2'",
	},
	"runs_end_resource": { // C52
		bad:  "UPDATE runs SET status = 'cancelled', ended_at = 7 WHERE run_id = 'r2'",
		good: endRun("cancelled", row{"error_blob": nil}),
	},
	"runs_end_attempts": {
		bad: releaseLease + end("run:r1", 7) + "UPDATE runs SET status = 'cancelled', ended_at = 7 WHERE run_id = 'r1'",
		good: endAttempt + releaseLease + end("run:r1", 7) +
			"UPDATE runs SET status = 'cancelled', ended_at = 7 WHERE run_id = 'r1'",
	},
	"run_queue_same_project": {
		bad:  another("run_queue").with(row{"project_id": "p2"}).insert("run_queue"),
		good: another("run_queue").insert("run_queue"),
	},
	"run_queue_settle_once": { // D2
		bad: "UPDATE run_queue SET status = 'done', settled_at = 7;" +
			"UPDATE run_queue SET status = 'queued', settled_at = NULL",
		good: "UPDATE run_queue SET status = 'parked';" +
			"UPDATE run_queue SET status = 'queued', available_at = 9;" +
			"UPDATE run_queue SET status = 'done', settled_at = 7",
	},

	"node_attempts_next": { // D3
		bad: endAttempt + attempt("a2", "r1").with(row{"ordinal": 2, "attempt_number": 3}).insert("node_attempts"),
		good: endAttempt + attempt("a2", "r1").with(row{"ordinal": 2, "attempt_number": 2}).insert("node_attempts") +
			"UPDATE node_attempts SET status = 'cancelled', ended_at = 8 WHERE attempt_id = 'a2';" +
			attempt("a3", "r1").with(row{"ordinal": 3, "node_id": "review"}).insert("node_attempts"),
	},
	"node_attempts_open_run": {
		bad:  endRun("cancelled", row{"error_blob": nil}) + ";" + attempt("a2", "r2").insert("node_attempts"),
		good: attempt("a2", "r2").insert("node_attempts"),
	},
	"node_attempts_end_once": { // D3
		bad:  endAttempt + "UPDATE node_attempts SET status = 'running', ended_at = NULL",
		good: "UPDATE node_attempts SET interrupted_at = 5; UPDATE node_attempts SET interrupted_at = NULL", // D4
	},
	"workflow_updates_next": { // D5
		bad:  another("workflow_updates").with(row{"sequence": 3}).insert("workflow_updates"),
		good: another("workflow_updates").insert("workflow_updates"),
	},

	"session_segments_next": { // D6
		bad:  another("session_segments").with(row{"ordinal": 3}).insert("session_segments"),
		good: another("session_segments").insert("session_segments"),
	},
	"session_segments_begin_open": {
		bad: end("session:s2", 7) + another("session_segments").with(row{"status": "complete",
			"ended_at": 7}).insert("session_segments"),
		good: another("session_segments").insert("session_segments"),
	},
	"session_segments_end_once": { // D6
		bad:  endSegment("complete", row{"entry_count": 1}) + "UPDATE session_segments SET entry_count = 2",
		good: "UPDATE session_segments SET entry_count = 2; " + endSegment("complete", row{"entry_count": 1}),
	},
	"session_segments_end_resource": { // C52
		bad:  end("session:s1", 8) + "UPDATE session_segments SET status = 'complete', ended_at = 7",
		good: endSegment("complete", row{"entry_count": 1}),
	},
	"session_entries_next": { // D6
		bad:  another("session_entries").with(row{"sequence": 1}).insertOr("REPLACE", "session_entries"),
		good: another("session_entries").insert("session_entries"),
	},
	"session_entries_open_segment": { // D6
		bad:  endSegment("complete", row{"entry_count": 1}) + another("session_entries").insert("session_entries"),
		good: another("session_entries").insert("session_entries") + endSegment("complete", row{"entry_count": 1}),
	},
	"session_events_next": { // D6
		bad:  another("session_events").with(row{"sequence": 3}).insert("session_events"),
		good: another("session_events").insert("session_events"),
	},
	"session_events_open_segment": { // D6
		bad:  endSegment("complete", row{"entry_count": 1}) + another("session_events").insert("session_events"),
		good: another("session_events").insert("session_events") + endSegment("complete", row{"entry_count": 1}),
	},

	"human_decisions_no_replace": { // D8
		bad:  decision("d2", "asked").insertOr("REPLACE", "human_decisions"),
		good: decision("d2", "asked").with(row{"request_revision": 2}).insert("human_decisions"),
	},
	"human_decisions_begin_open": { // D8
		bad: end("decision:d2", 7) + decision("d2", "x").with(row{"status": "accepted",
			"resolved_at": 7}).insert("human_decisions"),
		good: decision("d2", "x").insert("human_decisions"),
	},
	"human_decisions_as_resolved": { // D8
		bad:  another("human_decision_resolutions").insert("human_decision_resolutions") + resolve("d1", "cancelled", 5),
		good: timeOutDecision(),
	},
	"human_decisions_end_resource": { // C52
		bad: another("human_decision_resolutions").insert("human_decision_resolutions") +
			"UPDATE human_decisions SET status = 'accepted', resolved_at = 5 WHERE decision_id = 'd1'",
		good: timeOutDecision(),
	},
	"human_decision_submissions_next": { // D8
		bad:  submission("d1", 3, "stale", "later").insert("human_decision_submissions"),
		good: submission("d1", 2, "stale", "later").insert("human_decision_submissions"),
	},
	"human_decision_submissions_no_replace": { // D8
		bad:  submission("d0", 2, "won", "rival").insertOr("REPLACE", "human_decision_submissions"),
		good: submission("d0", 2, "already_resolved", "rival").insert("human_decision_submissions"),
	},
	"human_decision_submissions_won_current": { // D9, C54
		bad: submission("d1", 2, "won",
			"answer").with(row{"request_digest": digest("another question")}).insert("human_decision_submissions"),
		good: submission("d1", 2, "stale",
			"answer").with(row{"request_digest": digest("another question")}).insert("human_decision_submissions"),
	},
	"human_decision_submissions_won_protected": { // D9
		bad: submission("d1", 2, "won", "model").with(row{"actor_class": "session"}).insert("human_decision_submissions"),
		good: submission("d1", 2, "rejected",
			"model").with(row{"actor_class": "session"}).insert("human_decision_submissions") +
			decision("d2", "x").with(row{"is_protected": 0}).insert("human_decisions") +
			submission("d2", 1, "won", "open").with(row{"actor_class": "session"}).insert("human_decision_submissions"),
	},
	"human_decision_resolutions_human": { // D8
		bad:  answerDecision("stale"),
		good: answerDecision("won"),
	},
	"human_decision_resolutions_timeout": { // D9
		bad: another("human_decision_resolutions").with(row{"resolved_at": 4}).insert("human_decision_resolutions") +
			resolve("d1", "accepted", 4),
		good: timeOutDecision(),
	},
	"human_decision_resolutions_expiry": { // D9
		bad:  cancelDecision("d1", "expired_no_default"),
		good: cancelDecision("d1", "explicit_cancel"),
	},
	"human_decision_resolutions_no_replace": { // D8
		bad:  cancelDecision("d1", "explicit_cancel") + strings.ReplaceAll(answerDecision("won"), "OR ABORT", "OR REPLACE"),
		good: answerDecision("won"),
	},
	"continuations_settle_once": { // D10
		bad: "UPDATE continuations SET status = 'cancelled', settled_at = 7;" +
			"UPDATE continuations SET status = 'pending', settled_at = NULL",
		good: "UPDATE continuations SET error_blob = NULL; UPDATE continuations SET status = 'cancelled', settled_at = 7",
	},

	"controller_resources_next_generation": { // D11
		bad: "UPDATE controller_resources SET generation = 2",
		good: "UPDATE controller_resources SET " + row{"spec_blob": digest("other spec"), "generation": 2}.assign() +
			"; UPDATE controller_resources SET spec_blob = spec_blob, generation = 2",
	},
	"controller_resources_begin_open": {
		bad: end("controller:c3", 7) + controller("c3", "3").with(row{"deletion_requested_at": 6,
			"deleted_at": 7}).insert("controller_resources"),
		good: controller("c3", "3").insert("controller_resources"),
	},
	"controller_resources_end_once": { // D11
		bad:  deleteController("c2") + "UPDATE controller_resources SET deleted_at = NULL WHERE controller_uid = 'c2'",
		good: deleteController("c2"),
	},
	"controller_resources_end_finalized": { // D11
		bad:  deleteController("c1"),
		good: "DELETE FROM controller_finalizers; " + deleteController("c1"),
	},
	"controller_resources_end_resource": { // C52
		bad:  "UPDATE controller_resources SET deletion_requested_at = 6, deleted_at = 7 WHERE controller_uid = 'c2'",
		good: deleteController("c2"),
	},
	"controller_finalizers_live": { // D11
		bad: "UPDATE controller_resources SET deletion_requested_at = 6;" +
			another("controller_finalizers").insert("controller_finalizers"),
		good: another("controller_finalizers").insert("controller_finalizers") +
			"UPDATE controller_resources SET deletion_requested_at = 6",
	},
	"controller_queue_same_project": {
		bad:  another("controller_queue").with(row{"project_id": "p2"}).insert("controller_queue"),
		good: another("controller_queue").insert("controller_queue"),
	},
	"controller_queue_version_grows": { // D11
		bad:  "UPDATE controller_queue SET queue_version = 1",
		good: "UPDATE controller_queue SET queue_version = 3; UPDATE controller_queue SET available_at = NULL",
	},
	"controller_workflows_end_once": { // D11
		bad: "UPDATE controller_workflows SET status = 'failed', ended_at = 7;" +
			"UPDATE controller_workflows SET status = 'pending', ended_at = NULL",
		good: "UPDATE controller_workflows SET status = 'interrupted', ended_at = 7;" +
			"UPDATE controller_workflows SET status = 'pending', ended_at = NULL",
	},

	"effects_begin_open": {
		bad: end("effect:e6", 7) + effect("e6").with(row{"status": "applied", "available_at": nil,
			"settled_at": 7}).insert("effects"),
		good: effect("e6").insert("effects"),
	},
	"effects_attempts_grow": { // R6
		bad:  "UPDATE effects SET attempt_count = 0",
		good: "UPDATE effects SET attempt_count = 2",
	},
	"effects_ambiguous_observed": { // R7
		bad: "UPDATE effects SET status = 'ambiguous', available_at = NULL; UPDATE effects SET status = 'applying'",
		good: "UPDATE effects SET status = 'ambiguous', available_at = NULL; " +
			settleEffect("e2", "applied", row{"external_ref": "found"}),
	},
	"effects_end_once": { // R6
		bad: settleEffect("e2", "applied", row{"error_blob": nil}) +
			"; UPDATE effects SET external_ref = 'x' WHERE effect_id = 'e2'",
		good: settleEffect("e2", "applied", row{"external_ref": "x"}),
	},
	"effects_end_resource": { // C52
		bad:  "UPDATE effects SET status = 'cancelled', available_at = NULL, settled_at = 7 WHERE effect_id = 'e2'",
		good: settleEffect("e2", "cancelled", row{"error_blob": nil}),
	},
	"effects_end_attempts": { // R7
		bad: settleEffect("e1", "applied", row{"error_blob": nil}),
		good: "UPDATE effect_attempts SET outcome = 'applied', ended_at = 7; " +
			settleEffect("e1", "applied", row{"error_blob": nil}),
	},
	"effect_attempts_next": { // R7
		bad:  another("effect_attempts").with(row{"attempt_number": 2}).insert("effect_attempts"),
		good: another("effect_attempts").insert("effect_attempts"),
	},
	"effect_attempts_open_effect": { // R7
		bad: settleEffect("e2", "applied", row{"error_blob": nil}) + ";" +
			another("effect_attempts").insert("effect_attempts"),
		good: another("effect_attempts").insert("effect_attempts") + settleEffect("e2", "applied", row{"error_blob": nil}),
	},
	"effect_attempts_end_once": { // R7
		bad: "UPDATE effect_attempts SET outcome = 'ambiguous', ended_at = 7;" +
			"UPDATE effect_attempts SET outcome = 'applied'",
		good: "UPDATE effect_attempts SET outcome = 'interrupted', ended_at = 7",
	},

	"notifications_begin_open": {
		bad: end("notification:n2", 7) + another("notifications").with(row{"resolution": "failed",
			"resolved_at": 7}).insert("notifications"),
		good: another("notifications").insert("notifications"),
	},
	"notifications_end_once": { // D12
		bad: resolveDelivery("notification:n1", "notifications", "delivered") +
			"; UPDATE notifications SET entry_id = 'q'",
		good: resolveDelivery("notification:n1", "notifications", "delivered"),
	},
	"notifications_end_resource": { // C52
		bad:  "UPDATE notifications SET resolution = 'failed', resolved_at = 7",
		good: resolveDelivery("notification:n1", "notifications", "failed"),
	},
	"turn_intents_begin_open": {
		bad: end("turn_intent:t2", 7) + another("turn_intents").with(row{"resolution": "failed",
			"resolved_at": 7}).insert("turn_intents"),
		good: another("turn_intents").insert("turn_intents"),
	},
	"turn_intents_end_once": { // D12
		bad:  resolveDelivery("turn_intent:t1", "turn_intents", "delivered") + "; UPDATE turn_intents SET eligible_at = 9",
		good: "UPDATE turn_intents SET eligible_at = 9; " + resolveDelivery("turn_intent:t1", "turn_intents", "delivered"),
	},
	"turn_intents_end_resource": { // C52
		bad:  "UPDATE turn_intents SET resolution = 'failed', resolved_at = 7",
		good: resolveDelivery("turn_intent:t1", "turn_intents", "failed"),
	},

	"channel_cursors_forward": { // D13
		bad:  "UPDATE channel_cursors SET position = 4",
		good: "UPDATE channel_cursors SET position = 5; UPDATE channel_cursors SET position = 6",
	},
	"channel_inbox_end_once": { // D13
		bad: "UPDATE channel_inbox SET outcome = 'ignored', processed_at = 7;" +
			"UPDATE channel_inbox SET outcome = 'accepted'",
		good: "UPDATE channel_inbox SET outcome = 'ignored', processed_at = 7",
	},
	"channel_messages_end_once": { // D13
		bad: "UPDATE channel_messages SET status = 'confirmed', settled_at = 7;" +
			"UPDATE channel_messages SET status = 'pending', settled_at = NULL",
		good: "UPDATE channel_messages SET status = 'ambiguous';" +
			"UPDATE channel_messages SET status = 'confirmed', settled_at = 7",
	},
	"channel_message_parts_end_once": { // D13
		bad: "UPDATE channel_message_parts SET status = 'failed', settled_at = 7;" +
			"UPDATE channel_message_parts SET status = 'pending', settled_at = NULL",
		good: "UPDATE channel_message_parts SET status = 'ambiguous';" +
			"UPDATE channel_message_parts SET status = 'confirmed', settled_at = 7",
	},
}

// TestTriggers sees every trigger refuse what it is there for, and, if it has a condition, accept what comes nearest.
func TestTriggers(t *testing.T) {
	b := openBench(t)
	seen := map[string]bool{}
	for _, x := range triggers(t) {
		seen[x.name] = true
		c, ok := conditions[x.name]
		switch {
		case x.when && !ok:
			t.Errorf("no test of trigger %s", x.name)
		case x.when:
			b.refuses(t, c.bad, x.message)
			b.accepts(t, c.good)
		case x.event == "DELETE":
			b.refuses(t, "DELETE FROM "+x.table, x.message)
		case x.event == "INSERT":
			t.Errorf("trigger %s lets no row into the table", x.name)
		default:
			for _, column := range x.updated(t, b) {
				b.refuses(t, "UPDATE "+x.table+" SET "+column+" = "+column, x.message)
			}
		}
	}
	for name := range conditions {
		if !seen[name] {
			t.Errorf("no trigger %s in the schema, or it has no condition", name)
		}
	}
}

// updated lists the columns whose update fires the trigger.
func (x trigger) updated(tb testing.TB, b bench) []string {
	if x.columns != nil {
		return x.columns
	}
	var columns []string
	for _, c := range b.columns(tb, x.table) {
		if !c.computed {
			columns = append(columns, c.name)
		}
	}
	return columns
}

// TestTriggerNames keeps messages and names begun by their table, and keeps triggers away from computed columns:
// SQLite may not know those of NEW before an update.
func TestTriggerNames(t *testing.T) {
	b := openBench(t)
	for _, x := range triggers(t) {
		if !strings.HasPrefix(x.name, x.table+"_") || !strings.HasPrefix(x.message, x.table+": ") {
			t.Errorf("trigger %s on %s: name or message %q does not begin with the table", x.name, x.table, x.message)
		}
		for _, c := range b.columns(t, x.table) {
			if c.computed && regexp.MustCompile(`(?s)CREATE TRIGGER `+x.name+`\n[^;]*NEW\.`+c.name+`\b`).MatchString(StateDDL()) {
				t.Errorf("trigger %s reads NEW.%s, which is computed", x.name, c.name)
			}
		}
	}
}
