package schema

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSpecimens proves that the rows which the other tests spoil are good ones.
func TestSpecimens(t *testing.T) {
	b := openBench(t)
	for _, s := range specimens {
		b.accepts(t, s.insertAnother(nil))
	}
}

// check is one named CHECK of the schema.
type check struct{ table, name, expr string }

// set returns the column and the words of a CHECK that is a closed set of words.
func (c check) set() (column string, words []string, ok bool) {
	m := closedSet.FindStringSubmatch(c.expr)
	if m == nil {
		return "", nil, false
	}
	for _, w := range quoted.FindAllStringSubmatch(m[2], -1) {
		words = append(words, w[1])
	}
	return m[1], words, true
}

var (
	tableText  = regexp.MustCompile(`(?s)CREATE TABLE (\w+) \(\n(.*?)\n\) STRICT`)
	checkText  = regexp.MustCompile(`(?s)CONSTRAINT (\w+)\s+CHECK \((.*?)\)(?:,\n|$)`)
	closedSet  = regexp.MustCompile(`(?s)^(\w+) IN \(((?:'[\w-]+',?\s*)+)\)$`)
	quoted     = regexp.MustCompile(`'([^']*)'`)
	notEmpty   = regexp.MustCompile(`(\w+) <> ''`)
	digestSize = regexp.MustCompile(`^length\((\w+)\) = 32$`)
)

// checks reads the named CHECKs from the DDL.
func checks(tb testing.TB) []check {
	tb.Helper()
	var all []check
	for _, table := range tableText.FindAllStringSubmatch(StateDDL(), -1) {
		for _, c := range checkText.FindAllStringSubmatch(table[2], -1) {
			all = append(all, check{table[1], c[1], c[2]})
		}
	}
	if want := strings.Count(StateDDL(), "CHECK ("); len(all) != want {
		tb.Fatalf("found %d CHECKs in the DDL, expected %d", len(all), want)
	}
	return all
}

// refusal is a row or statement that one CHECK must refuse.
type refusal struct {
	check  string
	values row    // instead of those of the specimen's other row
	sql    string // instead of an insertion
}

// refusals are what the CHECKs that are neither closed sets nor lengths of digests nor non-empty texts are for.
var refusals = []refusal{
	{check: "schema_meta_one_row",
		sql: `INSERT INTO schema_meta SELECT 'other', version, ddl_digest, app_version, 1, 1 FROM schema_meta`},
	{check: "schema_meta_version", sql: `UPDATE schema_meta SET version = 2`},
	{check: "schema_meta_digest", sql: `UPDATE schema_meta SET ddl_digest = x'00'`},

	// R10
	{check: "projects_path", values: row{"path": "relative/path"}},
	{check: "projects_path", values: row{"path": ""}},

	// R9
	{check: "blobs_digest", values: row{"digest": raw("x'00'")}},
	{check: "blobs_media_type", values: row{"media_type": "text"}},
	{check: "blobs_length", values: row{"length": 8}},

	// R1
	{check: "resources_id", values: row{"resource_id": "run:other"}},
	{check: "resources_revision", values: row{"revision": -1}},

	// R2
	{check: "leases_generation", values: row{"generation": -1}},
	{check: "leases_owner", values: row{"owner_type": nil}},
	{check: "leases_owner", values: row{"owner_id": nil}},
	{check: "leases_owner", values: row{"token_digest": nil}},
	{check: "leases_owner", values: row{"acquired_at": nil}},
	{check: "leases_owner", values: row{"heartbeat_at": nil}},
	{check: "leases_owner", values: row{"expires_at": nil}},
	{check: "leases_owned", values: row{"generation": 0}},
	{check: "leases_times", values: row{"heartbeat_at": 0}},
	{check: "leases_times", values: row{"expires_at": 1}},

	// R5
	{check: "events_revision", sql: another("events").with(row{"resource_id": "run:r2", "revision": 0}).insert("events")},
	{check: "events_generation", values: row{"lease_generation": 0}},

	// D1
	{check: "runs_parent", values: row{"parent_run_id": "r3"}},
	{check: "runs_paused", values: row{"is_paused": 2}},
	{check: "runs_paused", sql: "UPDATE runs SET is_paused = 1 WHERE run_id = 'r2';" + end("run:r2", 7) +
		"UPDATE runs SET status = 'cancelled', ended_at = 7 WHERE run_id = 'r2'"},
	{check: "runs_started", values: row{"status": "running"}},
	{check: "runs_started", values: row{"status": "waiting"}},
	{check: "runs_ended", values: row{"status": "cancelled"}},
	{check: "runs_ended", sql: end("run:r2", 7) + "UPDATE runs SET ended_at = 7 WHERE run_id = 'r2'"},
	{check: "runs_output", values: row{"output_blob": digest("output")}},
	{check: "runs_error", values: row{"error_blob": digest("error")}},
	{check: "runs_error", sql: end("run:r2", 7) + "UPDATE runs SET status = 'failed', ended_at = 7 WHERE run_id = 'r2'"},
	{check: "run_bindings_origin", values: row{"pi_session_id": nil}},

	// D2
	{check: "run_queue_errors", values: row{"error_count": -1}},
	{check: "run_queue_errors", values: row{"error_count": 0}},
	{check: "run_queue_failed", values: row{"status": "failed", "settled_at": 2, "error_code": nil}},
	{check: "run_queue_settled", values: row{"status": "done"}},
	{check: "run_queue_settled", values: row{"settled_at": 2}},

	// D3, D4
	{check: "node_attempts_started", values: row{"status": "waiting"}},
	{check: "node_attempts_ended", values: row{"status": "cancelled"}},
	{check: "node_attempts_ended", values: row{"ended_at": 7}},
	{check: "node_attempts_output", values: row{"output_blob": digest("output")}},
	{check: "node_attempts_error", values: row{"error_blob": digest("error")}},
	{check: "node_attempts_error", values: row{"status": "failed", "ended_at": 7}},
	{check: "node_attempts_receipt", values: row{"status": "completed", "started_at": 1, "ended_at": 7,
		"output_blob": digest("output")}},
	{check: "node_attempts_receipt", values: row{"status": "completed", "started_at": 1, "ended_at": 7,
		"result_blob": digest("output")}},

	// D6
	{check: "session_segments_counts", values: row{"entry_count": -1}},
	{check: "session_segments_counts", values: row{"event_count": -1}},
	{check: "session_segments_ended", values: row{"status": "complete"}},
	{check: "session_segments_error", values: row{"error_blob": digest("error")}},
	{check: "session_events_turn", values: row{"turn": -1}},

	// D8, D9
	{check: "human_decisions_revision", values: row{"request_revision": 0}},
	{check: "human_decisions_protected", values: row{"is_protected": 2}},
	{check: "human_decisions_default", values: row{"default_choice": nil}},
	{check: "human_decisions_default", values: row{"default_blob": nil}},
	{check: "human_decisions_resolved", values: row{"status": "accepted"}},
	{check: "human_decision_submissions_channel", values: row{"channel_id": nil}},
	{check: "human_decision_submissions_won", values: row{"outcome": "adopted", "choice": nil}},
	{check: "human_decision_resolutions_kind", values: row{"reason": "explicit_cancel"}},
	{check: "human_decision_resolutions_kind", values: row{"outcome": "cancelled"}},
	{check: "human_decision_resolutions_response", values: row{"outcome": "cancelled", "reason": "explicit_cancel"}},
	{check: "human_decision_resolutions_response", values: row{"outcome": "cancelled", "reason": "explicit_cancel",
		"response_blob": nil}},
	{check: "human_decision_resolutions_response", values: row{"outcome": "cancelled", "reason": "explicit_cancel",
		"choice": nil}},
	{check: "human_decision_resolutions_winner", values: row{"submission_sequence": 1}},

	// D10
	{check: "continuations_child", values: row{"child_run_id": "r1"}},
	{check: "continuations_settled", values: row{"status": "cancelled"}},
	{check: "continuations_settled", values: row{"settled_at": 2}},

	// D11
	{check: "controller_resources_generation", values: row{"generation": 0, "observed_generation": 0}},
	{check: "controller_resources_observed", values: row{"observed_generation": 2}},
	{check: "controller_resources_observed", values: row{"observed_generation": -1}},
	{check: "controller_resources_status", values: row{"status_blob": nil}},
	{check: "controller_resources_deleted", sql: end("controller:c2", 7) +
		"UPDATE controller_resources SET deleted_at = 7 WHERE controller_uid = 'c2'"},
	{check: "controller_finalizers_position", values: row{"position": 0}},
	{check: "controller_queue_version", values: row{"queue_version": 0}},
	{check: "controller_queue_errors", values: row{"error_count": -1}},
	{check: "controller_queue_errors", values: row{"error_count": 0}},
	{check: "controller_workflows_ended", values: row{"status": "failed"}},
	{check: "controller_workflows_ended", values: row{"ended_at": 2}},
	{check: "controller_workflows_output", values: row{"output_blob": digest("output")}},
	{check: "controller_workflows_error", values: row{"error_blob": digest("error")}},

	// R6, R7, R8
	{check: "effects_external", values: row{"is_external": 2}},
	{check: "effects_queue", values: row{"effect_type": "run.settle_queue", "source_resource_id": "effect:e1"}},
	{check: "effects_available", values: row{"available_at": nil}},
	{check: "effects_available", values: row{"status": "applying"}},
	{check: "effects_attempts", values: row{"attempt_count": -1}},
	{check: "effects_attempts", values: row{"attempt_count": 0, "status": "ambiguous", "available_at": nil}},
	{check: "effects_settled", values: row{"status": "cancelled", "available_at": nil}},
	{check: "effects_result", values: row{"result_blob": digest("output")}},
	{check: "effects_error", sql: settleEffect("e2", "rejected", row{"error_blob": nil})},
	{check: "effects_error", sql: settleEffect("e2", "applied", row{"error_blob": digest("error")})},
	{check: "effect_attempts_generation", values: row{"lease_generation": 0}},
	{check: "effect_attempts_ended", values: row{"ended_at": nil}},
	{check: "effect_attempts_ended", values: row{"outcome": nil}},
	{check: "effect_attempts_error", values: row{"outcome": "applied"}},
	{check: "effect_attempts_error", values: row{"outcome": nil, "ended_at": nil}},

	// D12
	{check: "notifications_index", values: row{"notification_index": -1}},
	{check: "notifications_resolved", values: row{"resolution": "delivered"}},
	{check: "notifications_entry", values: row{"entry_id": "q"}},
	{check: "turn_intents_resolved", values: row{"resolution": "delivered"}},
	{check: "turn_intents_entry", values: row{"entry_id": "q"}},

	// D13
	{check: "channel_inbox_processed", values: row{"outcome": "ignored"}},
	{check: "channel_inbox_processed", values: row{"processed_at": 2}},
	{check: "channel_messages_settled", values: row{"status": "confirmed"}},
	{check: "channel_messages_settled", values: row{"settled_at": 2}},
	{check: "channel_message_parts_number", values: row{"part_number": 0}},
	{check: "channel_message_parts_settled", values: row{"status": "failed"}},
	{check: "channel_message_parts_settled", values: row{"settled_at": 2}},
}

// TestChecks sees every named CHECK refuse what it is there for. (S3, R1-R10, D1-D13)
func TestChecks(t *testing.T) {
	b := openBench(t)
	all := checks(t)
	cases := slices.Clone(refusals)
	for _, c := range all {
		if c.table == "schema_meta" {
			continue
		}
		if column, _, ok := c.set(); ok {
			cases = append(cases, refusal{check: c.name, values: row{column: "nonsense"}}, refusal{check: c.name,
				values: row{column: ""}})
		}
		if m := digestSize.FindStringSubmatch(c.expr); m != nil && c.table != "blobs" {
			cases = append(cases,
				refusal{check: c.name, values: row{m[1]: raw("x'00'")}},
				refusal{check: c.name, values: row{m[1]: raw("zeroblob(33)")}})
		}
		for _, m := range notEmpty.FindAllStringSubmatch(c.expr, -1) {
			cases = append(cases, refusal{check: c.name, values: row{m[1]: ""}})
		}
	}
	seen := map[string]bool{}
	for _, x := range cases {
		i := slices.IndexFunc(all, func(c check) bool { return c.name == x.check })
		if i < 0 {
			t.Errorf("the schema has no CHECK %s", x.check)
			continue
		}
		seen[x.check] = true
		sql := x.sql
		if sql == "" {
			sql = specimenOf(all[i].table).insertAnother(x.values)
		}
		b.refuses(t, sql, "CHECK constraint failed: "+x.check)
	}
	for _, c := range all {
		if !seen[c.name] {
			t.Errorf("no test breaks CHECK %s", c.name)
		}
	}
}

// TestCheckNames keeps the names of CHECKs unique and begun by their table, since SQLite's message gives
// nothing else.
func TestCheckNames(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range checks(t) {
		if seen[c.name] || !strings.HasPrefix(c.name, c.table+"_") {
			t.Errorf("table %s: CHECK %s has not a name of its own", c.table, c.name)
		}
		seen[c.name] = true
	}
}

// words says how a row gets to a word of a closed set that a new row can't have without more being true.
// The key is "table.column=word", the value the columns of a new row or a statement.
var words = map[string]any{
	"resources.resource_type=run":          resource("run", "x"),
	"resources.resource_type=session":      resource("session", "x"),
	"resources.resource_type=decision":     resource("decision", "x"),
	"resources.resource_type=controller":   resource("controller", "x"),
	"resources.resource_type=effect":       resource("effect", "x"),
	"resources.resource_type=channel":      resource("channel", "x"),
	"resources.resource_type=notification": resource("notification", "x"),
	"resources.resource_type=turn_intent":  resource("turn_intent", "x"),

	"runs.status=running":   row{"started_at": 1},
	"runs.status=waiting":   row{"started_at": 1},
	"runs.status=completed": endRun("completed", row{"output_blob": digest("output")}),
	"runs.status=failed":    endRun("failed", row{"error_blob": digest("error")}),
	"runs.status=timed_out": endRun("timed_out", row{"error_blob": digest("error")}),
	"runs.status=cancelled": endRun("cancelled", row{"cancel_requested_at": 6}),

	"run_queue.status=done":      row{"settled_at": 2},
	"run_queue.status=failed":    row{"settled_at": 2},
	"run_queue.status=cancelled": row{"settled_at": 2},

	"node_attempts.status=running": row{"started_at": 1},
	"node_attempts.status=waiting": row{"started_at": 1},
	"node_attempts.status=completed": row{"started_at": 1, "ended_at": 2, "output_blob": digest("output"),
		"result_blob": digest("subject")},
	"node_attempts.status=failed":    row{"ended_at": 2, "error_blob": digest("error")},
	"node_attempts.status=timed_out": row{"ended_at": 2},
	"node_attempts.status=cancelled": row{"ended_at": 2},

	"session_segments.status=complete": endSegment("complete", row{"entry_count": 1}),
	"session_segments.status=failed":   endSegment("failed", row{"error_blob": digest("error")}),

	"human_decisions.status=accepted":  timeOutDecision(),
	"human_decisions.status=cancelled": cancelDecision("d1", "explicit_cancel"),

	"human_decision_resolutions.outcome=accepted":       row{},
	"human_decision_resolutions.outcome=cancelled":      cancelDecision("d1", "explicit_cancel"),
	"human_decision_resolutions.reason=timeout_policy":  row{},
	"human_decision_resolutions.reason=human":           answerDecision("won"),
	"human_decision_resolutions.reason=explicit_cancel": cancelDecision("d1", "explicit_cancel"),
	"human_decision_resolutions.reason=expired_no_default": decision("d2", "x").with(row{"default_choice": nil,
		"default_blob": nil}).insert("human_decisions") + cancelDecision("d2", "expired_no_default"),

	"continuations.trigger_type=checkpoint": row{},
	"continuations.status=admitted":         row{"child_run_id": "r2", "settled_at": 2},
	"continuations.status=cancelled":        row{"settled_at": 2},

	"controller_workflows.status=running":     row{"run_id": "r2"},
	"controller_workflows.status=waiting":     row{"run_id": "r2"},
	"controller_workflows.status=succeeded":   row{"run_id": "r2", "ended_at": 2, "output_blob": digest("output")},
	"controller_workflows.status=failed":      row{"ended_at": 2, "error_blob": digest("error")},
	"controller_workflows.status=interrupted": row{"ended_at": 2, "error_blob": digest("error")},

	"effects.scope_type=controller": row{"scope_id": "c1"},
	"effects.scope_type=channel":    row{"scope_id": "ch1"},
	"effects.status=applying":       row{"available_at": nil},
	"effects.status=ambiguous":      row{"available_at": nil},
	"effects.status=applied":        settleEffect("e2", "applied", row{"result_blob": digest("output")}),
	"effects.status=rejected":       settleEffect("e2", "rejected", row{"error_blob": digest("error")}),
	"effects.status=cancelled":      settleEffect("e2", "cancelled", row{"external_ref": nil}),

	"effect_attempts.outcome=applied": row{"error_blob": nil},

	"notifications.resolution=delivered":  resolveDelivery("notification:n1", "notifications", "delivered"),
	"notifications.resolution=superseded": resolveDelivery("notification:n1", "notifications", "superseded"),
	"notifications.resolution=cancelled":  resolveDelivery("notification:n1", "notifications", "cancelled"),
	"notifications.resolution=failed":     resolveDelivery("notification:n1", "notifications", "failed"),
	"turn_intents.resolution=delivered":   resolveDelivery("turn_intent:t1", "turn_intents", "delivered"),
	"turn_intents.resolution=superseded":  resolveDelivery("turn_intent:t1", "turn_intents", "superseded"),
	"turn_intents.resolution=cancelled":   resolveDelivery("turn_intent:t1", "turn_intents", "cancelled"),
	"turn_intents.resolution=failed":      resolveDelivery("turn_intent:t1", "turn_intents", "failed"),

	"channel_inbox.outcome=accepted": row{"processed_at": 2},
	"channel_inbox.outcome=ignored":  row{"processed_at": 2},
	"channel_inbox.outcome=rejected": row{"processed_at": 2},

	"channel_messages.status=confirmed":      row{"settled_at": 2},
	"channel_messages.status=failed":         row{"settled_at": 2},
	"channel_message_parts.status=confirmed": row{"settled_at": 2},
	"channel_message_parts.status=failed":    row{"settled_at": 2},
}

// TestClosedSets sees every word of every closed set accepted in a row that is valid as a whole. That other words are
// refused is a matter of TestChecks.
func TestClosedSets(t *testing.T) {
	b := openBench(t)
	used := map[string]bool{}
	for _, c := range checks(t) {
		column, set, ok := c.set()
		if !ok {
			continue
		}
		for _, word := range set {
			key := fmt.Sprintf("%s.%s=%s", c.table, column, word)
			used[key] = true
			values := row{column: word}
			switch how := words[key].(type) {
			case string:
				b.accepts(t, how)
				continue
			case row:
				values = values.with(how)
			}
			b.accepts(t, specimenOf(c.table).insertAnother(values))
		}
	}
	for key := range words {
		if !used[key] {
			t.Errorf("%s: no closed set has this word", key)
		}
	}
}
