package store

import (
	"context"
	"encoding/json"
	"errors"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// What a controller has to look at though nobody has enqueued it. There are as many rows to look at as runs
// go on, or effects are not settled, which is why one index is named. A resource that is due, or worked on,
// is left alone.
const (
	selUnnotedAsleep = `
		SELECT DISTINCT w.controller_uid
		  FROM controller_workflows AS w
		 CROSS JOIN controller_resources AS c ON c.controller_uid = w.controller_uid
		 CROSS JOIN controller_queue     AS q ON q.controller_uid = w.controller_uid
		 CROSS JOIN runs                 AS r ON r.run_id         = w.run_id
		 WHERE w.ended_at IS NULL
		   AND c.project_id = ?1
		   AND (?3 = '[]' OR c.name IN (SELECT value FROM json_each(?3)))
		   AND c.deleted_at IS NULL
		   AND ifnull(q.available_at > ?2, 1)
		   AND ` + workflowStatus + ` <> w.status
		 ORDER BY w.controller_uid
		 LIMIT ?5`

	selDueAsleep = `
		SELECT DISTINCT e.scope_id
		  FROM effects AS e INDEXED BY effects_due
		 CROSS JOIN controller_resources AS c ON c.controller_uid = e.scope_id
		 CROSS JOIN controller_queue     AS q ON q.controller_uid = e.scope_id
		 WHERE e.scope_type    = 'controller'
		   AND e.status        = 'pending'
		   AND e.effect_type IN (SELECT value FROM json_each(?4))
		   AND e.available_at <= ?2
		   AND c.project_id    = ?1
		   AND (?3 = '[]' OR c.name IN (SELECT value FROM json_each(?3)))
		   AND c.deleted_at IS NULL
		   AND ifnull(q.available_at > ?2, 1)
		 ORDER BY e.scope_id
		 LIMIT ?5`

	selVanishedAsleep = `
		SELECT DISTINCT e.scope_id
		  FROM effects AS e
		 CROSS JOIN controller_resources AS c ON c.controller_uid = e.scope_id
		 CROSS JOIN controller_queue     AS q ON q.controller_uid = e.scope_id
		  LEFT JOIN leases               AS l ON l.resource_id    = e.resource_id
		 WHERE e.scope_type = 'controller'
		   AND e.status     = 'applying'
		   AND e.effect_type IN (SELECT value FROM json_each(?4))
		   AND c.project_id = ?1
		   AND (?3 = '[]' OR c.name IN (SELECT value FROM json_each(?3)))
		   AND c.deleted_at IS NULL
		   AND ifnull(q.available_at > ?2, 1)
		   AND ifnull(max(l.heartbeat_at, ?2) >= l.expires_at, 1)
		 ORDER BY e.scope_id
		 LIMIT ?5`
)

// Wake enqueues the resources of this worker's controllers, at most limit of them, that nobody looks at though
// one of their runs has changed, one of their effects is due, or who applied one has vanished. It may run in
// several processes at once: a resource that is due is found to be so. It returns how many resources it
// found.
func (w *ControllerWorker) Wake(ctx context.Context, limit int) (woken int, err error) {
	types, err := w.types()
	if err != nil {
		return 0, err
	}
	names, err := json.Marshal(append([]string{}, w.Names...))
	if err != nil {
		return 0, err
	}
	for _, sql := range []string{selUnnotedAsleep, selDueAsleep, selVanishedAsleep} {
		asleep, err := w.asleep(ctx, sql, string(names), types, min(limit-woken, MaxPage))
		if err != nil {
			return woken, err
		}
		for _, uid := range asleep {
			_, err := Do(ctx, w.Store, Permit{Actor: w.Actor, Expected: AnyRevision}, EnqueueController{Controller: uid})
			if err != nil && !errors.Is(err, schema.IllegalTransition) { // deleted meanwhile
				return woken, err
			}
			woken++
		}
	}
	return woken, nil
}

func (w *ControllerWorker) asleep(ctx context.Context, sql, names, types string, limit int) (uids []string, err error) {
	now := int64(MillisOf(w.Store.now()))
	err = w.Store.view(ctx, func(rx *sqlite.Rx) error {
		uids = nil
		return rx.Query(sql, func(r sqlite.Row) error {
			uids = append(uids, r.Text(0))
			return nil
		}, w.Project, now, names, types, limit)
	})
	return uids, err
}
