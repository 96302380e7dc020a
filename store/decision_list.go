package store

import "context"

const selDecisions = `
	SELECT ` + decisionColumns + `
	  FROM human_decisions AS d
	  JOIN resources AS r ON r.resource_id = d.resource_id
	  LEFT JOIN human_decision_resolutions AS w ON w.decision_id = d.decision_id
	 WHERE (d.created_at, d.decision_id) < (?1, ?2)
	 ORDER BY d.created_at DESC, d.decision_id DESC
	 LIMIT ?3`

// Decisions returns at most limit decisions before a place in the list, from the newest to the oldest,
// whatever became of them. The zero value of before is after all.
func (q *Queries) Decisions(ctx context.Context, before Place, limit int) ([]Decision, error) {
	at := int64(endOfTime)
	if before != (Place{}) {
		at = int64(before.At)
	}
	return q.listDecisions(ctx, limit, selDecisions, at, before.ID, limit)
}
