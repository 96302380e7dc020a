//go:build !wasip1

package store

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"pistate/internal/sqlite"
)

// invariant is something that is true of every database that only the write contract has written to. SQLite
// itself can't know it, or was kept from enforcing it. No finding shows a payload or who an actor is.
type invariant struct {
	name    string
	queries []string // each row of their results is a finding
	find    func(rx *sqlite.Rx, report func(string, ...any)) error
}

var invariants = []invariant{
	{name: "revisions", queries: []string{wrongRevisions}},
	{name: "sequences", queries: gaps()},
	{name: "blobs", find: wrongBlobs},
	{name: "leases", queries: []string{wrongLeases, ownersOfEnded}},
	{name: "effects", queries: []string{effectsFromNowhere, wrongAttempts, wrongApplying}},
	{name: "ids", find: wrongIDs},
	{name: "aggregates", queries: wrongAggregates()},
	{name: "decisions", queries: []string{wrongDecisions}},
	{name: "captures", queries: []string{wrongCaptures}},
}

func deepChecks() []sqlite.CheckFunc {
	checks := make([]sqlite.CheckFunc, len(invariants))
	for i, inv := range invariants {
		checks[i] = sqlite.CheckFunc{Name: inv.name, Run: inv.run}
	}
	return checks
}

func (inv invariant) run(rx *sqlite.Rx, report func(string, ...any)) error {
	for _, query := range inv.queries {
		err := rx.Query(query, func(r sqlite.Row) error {
			report("%s", r.Text(0))
			return nil
		})
		if err != nil {
			return err
		}
	}
	if inv.find == nil {
		return nil
	}
	return inv.find(rx, report)
}

// The revision of a resource is its last event's, and each revision has one event (R1, R5).
const wrongRevisions = `
	SELECT format('resource %s has revision %d, but %d events, of revisions %s to %s', r.resource_id, r.revision,
	              count(e.revision), ifnull(min(e.revision), '-'), ifnull(max(e.revision), '-'))
	  FROM resources AS r
	  LEFT JOIN events AS e ON e.resource_id = r.resource_id
	 GROUP BY r.resource_id
	HAVING r.revision = 0
	    OR count(e.revision) <> r.revision
	    OR count(DISTINCT e.revision) <> r.revision
	    OR max(e.revision) <> r.revision
	    OR min(e.revision) <> 1`

// sequences are the numbers without gaps, each from 1.
var sequences = []struct {
	table, number string
	of            string // columns that tell one sequence from another; "": the table has only one
}{
	{"events", "sequence", ""},
	{"effects", "sequence", ""},
	{"effect_attempts", "attempt_number", "effect_id"},
	{"node_attempts", "ordinal", "run_id"},
	{"node_attempts", "attempt_number", "run_id, node_id"},
	{"workflow_updates", "sequence", "attempt_id"},
	{"session_segments", "ordinal", "run_id"},
	{"session_entries", "sequence", "segment_id"},
	{"session_events", "sequence", "segment_id"},
	{"human_decision_submissions", "sequence", "decision_id"},
}

func gaps() (queries []string) {
	for _, s := range sequences {
		partition, of := "", "''"
		if s.of != "" {
			partition = "PARTITION BY " + s.of
			of = "' of ' || concat_ws(' ', " + s.of + ")"
		}
		queries = append(queries, fmt.Sprintf(`
			SELECT format('%[1]s%%s: %[2]s %%d comes after %%d', owner, number, before)
			  FROM (SELECT %[4]s AS owner, %[2]s AS number,
			               ifnull(lag(%[2]s) OVER (%[3]s ORDER BY %[2]s), 0) AS before
			          FROM %[1]s)
			 WHERE number <> before + 1`, s.table, s.number, partition, of))
	}
	return queries
}

const selEveryBlob = `
	SELECT digest, media_type, length, bytes
	  FROM blobs`

// wrongBlobs reports content that is not what its digest, length and media type say (R9).
func wrongBlobs(rx *sqlite.Rx, report func(string, ...any)) error {
	return rx.Query(selEveryBlob, func(r sqlite.Row) error {
		digest, media, length, bytes := r.Bytes(0), r.Text(1), r.Int(2), r.Bytes(3)
		sum := sha256.Sum256(bytes)
		switch {
		case string(sum[:]) != string(digest):
			report("blob %x holds bytes with the digest %x", digest, sum)
		case length != len(bytes):
			report("blob %x holds %d bytes, not %d", digest, len(bytes), length)
		case media != JSONMedia && media != TextMedia:
			report("blob %x has the media type %q", digest, media)
		}
		return nil
	})
}

// An owner has all its fields or none, and a generation of its own (R2, R3).
const wrongLeases = `
	SELECT format('lease of %s: %s', resource_id,
	              CASE WHEN fields NOT IN (0, 6)        THEN format('%d of the 6 owner fields are set', fields)
	                   WHEN generation < 0              THEN 'its generation is negative'
	                   WHEN fields = 6 AND generation = 0 THEN 'an owner without a generation'
	                   WHEN length(token_digest) <> 32  THEN 'the token digest is no SHA-256'
	                   ELSE 'its times are not in order' END)
	  FROM (SELECT *, (owner_type   IS NOT NULL) + (owner_id     IS NOT NULL) + (token_digest IS NOT NULL)
	                + (acquired_at  IS NOT NULL) + (heartbeat_at IS NOT NULL) + (expires_at   IS NOT NULL) AS fields
	          FROM leases)
	 WHERE fields NOT IN (0, 6)
	    OR generation < 0
	    OR fields = 6 AND (generation = 0 OR length(token_digest) <> 32
	                       OR NOT (acquired_at <= heartbeat_at AND heartbeat_at < expires_at))`

const ownersOfEnded = `
	SELECT format('resource %s has ended, and is still owned', r.resource_id)
	  FROM resources AS r
	  JOIN leases    AS l ON l.resource_id = r.resource_id
	 WHERE r.ended_at IS NOT NULL
	   AND l.owner_id IS NOT NULL`

// An effect follows from a command that was accepted (R6).
const effectsFromNowhere = `
	SELECT format('effect %s follows from revision %d of %s, which has no event', e.effect_id, e.source_revision,
	              e.source_resource_id)
	  FROM effects AS e
	  LEFT JOIN events AS v ON v.resource_id = e.source_resource_id
	                       AND v.revision    = e.source_revision
	 WHERE v.sequence IS NULL`

const wrongAttempts = `
	SELECT format('effect %s counts %d attempts, and has %d', e.effect_id, e.attempt_count, count(a.attempt_number))
	  FROM effects AS e
	  LEFT JOIN effect_attempts AS a ON a.effect_id = e.effect_id
	 GROUP BY e.effect_id
	HAVING count(a.attempt_number) <> e.attempt_count`

// While somebody applies an effect there is one open attempt, of the owner of its lease; else neither (R7).
const wrongApplying = `
	SELECT format('effect %s is %s, with %s open attempt and %s owner%s', e.effect_id, e.status,
	              iif(a.effect_id IS NULL, 'no', 'an'), iif(l.owner_id IS NULL, 'no', 'an'),
	              iif(a.lease_generation <> l.generation, ' of another generation', ''))
	  FROM effects AS e
	  LEFT JOIN effect_attempts AS a ON a.effect_id = e.effect_id
	                                AND a.ended_at IS NULL
	  LEFT JOIN leases          AS l ON l.resource_id = 'effect:' || e.effect_id
	                                AND l.owner_id IS NOT NULL
	 WHERE (e.status = 'applying') <> (a.effect_id IS NOT NULL)
	    OR (e.status = 'applying') <> (l.owner_id  IS NOT NULL)
	    OR a.lease_generation <> l.generation`

const (
	selEveryEffectID = `
		SELECT effect_id, source_resource_id, effect_type, idempotency_key
		  FROM effects`

	selEveryProjectID = `
		SELECT project_id, path
		  FROM projects`
)

// wrongIDs reports ids that are not the ones that their rows determine.
func wrongIDs(rx *sqlite.Rx, report func(string, ...any)) error {
	err := rx.Query(selEveryEffectID, func(r sqlite.Row) error {
		if want := effectID(ResourceID(r.Text(1)), r.Text(2), r.Text(3)); r.Text(0) != want {
			report("effect %s: its source, type and key make the id %s", r.Text(0), want)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return rx.Query(selEveryProjectID, func(r sqlite.Row) error {
		if want := projectID(r.Text(1)); r.Text(0) != want {
			report("project %s: its path makes the id %s", r.Text(0), want)
		}
		return nil
	})
}

// wrongAggregates are queries for resources without the row that they are the resource of, and for those
// that have ended when their row has not.
func wrongAggregates() (queries []string) {
	for _, a := range aggregates {
		ended := "NULL"
		if a.endsAt != "" {
			ended = "t." + a.endsAt
		}
		queries = append(queries, strings.NewReplacer("$type", string(a.resource), "$table", a.table, "$key", a.key, "$ended", ended).Replace(`
			SELECT CASE WHEN t.$key IS NULL THEN format('resource %s has no row in $table', r.resource_id)
			            ELSE format('resource %s ended at %s, and its row in $table at %s', r.resource_id,
			                        ifnull(r.ended_at, 'no time'), ifnull($ended, 'no time')) END
			  FROM resources AS r
			  LEFT JOIN $table AS t ON t.$key = r.aggregate_key
			 WHERE r.resource_type = '$type'
			   AND (t.$key IS NULL OR r.ended_at IS NOT $ended)`))
	}
	return queries
}

// A decision is resolved if it has a resolution, which then says the same (D8).
const wrongDecisions = `
	SELECT format('decision %s is %s, and its resolution is %s', d.decision_id, d.status, ifnull(r.outcome, 'missing'))
	  FROM human_decisions AS d
	  LEFT JOIN human_decision_resolutions AS r ON r.decision_id = d.decision_id
	 WHERE iif(d.status = 'pending', NULL, d.status) IS NOT r.outcome`

// A segment counts its entries and events (D6).
const wrongCaptures = `
	SELECT format('segment %s counts %d entries and %d events, and has %d and %d', segment_id, entry_count, event_count,
	              entries, events)
	  FROM (SELECT segment_id, entry_count, event_count,
	               (SELECT count(*) FROM session_entries AS n WHERE n.segment_id = s.segment_id) AS entries,
	               (SELECT count(*) FROM session_events  AS v WHERE v.segment_id = s.segment_id) AS events
	          FROM session_segments AS s)
	 WHERE entry_count <> entries
	    OR event_count <> events`
