package schema

import "fmt"

// The moves of the fixture's rows that several tests make, in the order in which the write contract makes them.

const (
	releaseLease = "UPDATE leases SET owner_type = NULL, owner_id = NULL, token_digest = NULL, acquired_at = NULL," +
		" heartbeat_at = NULL, expires_at = NULL;\n"
	claimLease = "UPDATE leases SET generation = 2, owner_type = 'host', owner_id = 'host-1', token_digest = zeroblob(32)," +
		" acquired_at = 1, heartbeat_at = 1, expires_at = 2 WHERE resource_id = 'run:r2';\n"
	endAttempt = "UPDATE node_attempts SET status = 'cancelled', ended_at = 7;\n"
)

// end ends a resource at a time; the domain row follows.
func end(resource string, at int) string {
	return fmt.Sprintf("UPDATE resources SET ended_at = %d WHERE resource_id = '%s';\n", at, resource)
}

func endRun(status string, values row) string {
	return end("run:r2", 7) + "UPDATE runs SET status = '" + status + "', started_at = 1, ended_at = 7, " + values.assign() +
		" WHERE run_id = 'r2';\n"
}

func endSegment(status string, values row) string {
	return end("session:s1", 7) + "UPDATE session_segments SET status = '" + status + "', ended_at = 7, " + values.assign() + ";\n"
}

func deleteController(uid string) string {
	return end("controller:"+uid, 7) + "UPDATE controller_resources SET deletion_requested_at = 6, deleted_at = 7" +
		" WHERE controller_uid = '" + uid + "';\n"
}

func settleEffect(id, status string, values row) string {
	return end("effect:"+id, 7) + "UPDATE effects SET status = '" + status + "', available_at = NULL, settled_at = 7, " +
		values.assign() + " WHERE effect_id = '" + id + "';\n"
}

func resolveDelivery(resource, table, resolution string) string {
	return end(resource, 7) + "UPDATE " + table + " SET resolution = '" + resolution + "', resolved_at = 7;\n"
}

// resolve makes a decision follow its resolution.
func resolve(id, status string, at int) string {
	return end("decision:"+id, at) + fmt.Sprintf(
		"UPDATE human_decisions SET status = '%s', resolved_at = %d WHERE decision_id = '%s';\n", status, at, id)
}

// timeOutDecision resolves the pending decision of the fixture by its default.
func timeOutDecision() string { return specimenOf("human_decision_resolutions").insertAnother(nil) }

// cancelDecision resolves a pending decision without an answer.
func cancelDecision(id, reason string) string {
	return another("human_decision_resolutions").with(row{
		"decision_id": id, "outcome": "cancelled", "reason": reason, "choice": nil, "response_blob": nil,
	}).insert("human_decision_resolutions") + resolve(id, "cancelled", 5)
}

// answerDecision resolves the pending decision of the fixture by a human answer with that outcome: "won" if all is well.
func answerDecision(outcome string) string {
	return submission("d1", 2, outcome, "answer").insert("human_decision_submissions") +
		another("human_decision_resolutions").with(row{
			"reason": "human", "submission_sequence": 2, "actor_class": "human",
		}).insert("human_decision_resolutions") + resolve("d1", "accepted", 5)
}

// start makes the second revision of the fixture's first run, with its event.
func start() string { return specimenOf("events").insertAnother(nil) }
