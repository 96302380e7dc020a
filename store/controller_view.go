package store

import (
	"context"

	"pistate/internal/sqlite"
)

// ControllerPhase is what is going on with a controller resource, in one word.
type ControllerPhase string

// The phases.
const (
	ControllerIdle    ControllerPhase = "idle"    // nothing is to be done
	ControllerLater   ControllerPhase = "later"   // it is to be looked at, and not yet
	ControllerDue     ControllerPhase = "due"     // it is to be looked at, and nobody does
	ControllerWorking ControllerPhase = "working" // its owner looks at it
	ControllerDeleted ControllerPhase = "deleted"
)

// ControllerView is what can be said of a controller resource in one snapshot. That its deletion was
// requested is in its times.
type ControllerView struct {
	Controller
	Phase ControllerPhase `json:"phase"`
	Owner *Lease          `json:"owner,omitempty"` // the current one; nobody is it after its lease expired (V1)
	// Unsettled counts the effects for its owner to apply, by status. Ambiguous ones are not resolved (V1).
	Unsettled map[EffectStatus]int `json:"unsettled,omitempty"`
	// Unnoted counts the runs of which something has changed that the controller has not noted.
	Unnoted int `json:"unnoted,omitempty"`
}

const (
	selControllers = `
		SELECT ` + controllerColumns + `
		  FROM controller_resources AS c
		  JOIN controller_queue AS q ON q.controller_uid = c.controller_uid
		  JOIN resources        AS r ON r.resource_id    = c.resource_id
		 WHERE (c.name, c.key, c.controller_uid) > (?1, ?2, ?3)
		   AND (?5 OR c.deleted_at IS NULL)
		 ORDER BY c.name, c.key, c.controller_uid
		 LIMIT ?4`

	selControllersOfProject = `
		SELECT ` + controllerColumns + `
		  FROM controller_resources AS c
		  JOIN controller_queue AS q ON q.controller_uid = c.controller_uid
		  JOIN resources        AS r ON r.resource_id    = c.resource_id
		 WHERE c.project_id = ?6
		   AND (c.name, c.key, c.controller_uid) > (?1, ?2, ?3)
		   AND (?5 OR c.deleted_at IS NULL)
		 ORDER BY c.name, c.key, c.controller_uid
		 LIMIT ?4`

	// CROSS JOIN keeps the order of the queue's index.
	selQueuedControllers = `
		SELECT ` + controllerColumns + `
		  FROM controller_queue AS q
		 CROSS JOIN controller_resources AS c ON c.controller_uid = q.controller_uid
		 CROSS JOIN resources            AS r ON r.resource_id    = c.resource_id
		 WHERE q.available_at IS NOT NULL
		   AND (q.available_at, q.controller_uid) > (?1, ?2)
		 ORDER BY q.available_at, q.controller_uid
		 LIMIT ?3`

	selQueuedControllersOfProject = `
		SELECT ` + controllerColumns + `
		  FROM controller_queue AS q
		 CROSS JOIN controller_resources AS c ON c.controller_uid = q.controller_uid
		 CROSS JOIN resources            AS r ON r.resource_id    = c.resource_id
		 WHERE q.project_id = ?4
		   AND q.available_at IS NOT NULL
		   AND (q.available_at, q.controller_uid) > (?1, ?2)
		 ORDER BY q.available_at, q.controller_uid
		 LIMIT ?3`

	countUnsettled = `
		SELECT status, count(*)
		  FROM effects
		 WHERE scope_type = ?1
		   AND scope_id   = ?2
		   AND settled_at IS NULL
		 GROUP BY status`
)

// Controller returns a controller resource by its uid. Errors: [schema.NotFound].
func (q *Queries) Controller(ctx context.Context, uid string) (v ControllerView, err error) {
	now := MillisOf(q.now())
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		c, err := getController(rx, uid)
		if err == nil {
			v, err = viewController(rx, c, now)
		}
		return err
	})
	return v, err
}

// LiveController returns the controller resource that has a name and key in a project now. Errors:
// [schema.NotFound].
func (q *Queries) LiveController(ctx context.Context, project, name, key string) (v ControllerView, err error) {
	now := MillisOf(q.now())
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		c, err := oneController(rx, selLiveController, project, name, key)
		if err == nil && c == nil {
			err = notFound("live controller resource", name+" "+key)
		}
		if err == nil {
			v, err = viewController(rx, c, now)
		}
		return err
	})
	return v, err
}

func viewController(rx *sqlite.Rx, c *Controller, now Millis) (v ControllerView, err error) {
	v = ControllerView{Controller: *c, Phase: ControllerIdle}
	if v.Owner, err = currentOwner(rx, c.Resource(), now); err != nil {
		return v, err
	}
	switch at := c.Queue.AvailableAt; {
	case c.DeletedAt != 0:
		v.Phase = ControllerDeleted
	case v.Owner != nil:
		v.Phase = ControllerWorking
	case at != 0 && at <= now:
		v.Phase = ControllerDue
	case at != 0:
		v.Phase = ControllerLater
	}
	if v.Unsettled, err = unsettledOf(rx, Scope{ControllerScope, c.UID}); err != nil {
		return v, err
	}
	unnoted, err := list(rx, scanWorkflow, selUnnoted, c.UID, MaxPage)
	v.Unnoted = len(unnoted)
	return v, err
}

// currentOwner returns the lease of a resource if somebody owns it now, or nil.
func currentOwner(rx *sqlite.Rx, resource ResourceID, now Millis) (*Lease, error) {
	l, err := getLease(rx, resource)
	if err != nil || l.Owner == nil || l.at(now) >= l.ExpiresAt {
		return nil, err
	}
	return &l.Lease, nil
}

// unsettledOf counts the effects of a scope that are not settled.
func unsettledOf(rx *sqlite.Rx, scope Scope) (counts map[EffectStatus]int, err error) {
	counts = map[EffectStatus]int{}
	err = rx.Query(countUnsettled, func(r sqlite.Row) error {
		counts[EffectStatus(r.Text(0))] = r.Int(1)
		return nil
	}, string(scope.Type), scope.ID)
	return counts, err
}

// ControllerFilter narrows a list of controller resources.
type ControllerFilter struct {
	Project string // "": all
	Deleted bool   // those that were deleted too
}

// Controllers returns at most limit controller resources after one, by name, key and uid. Of after only
// these three count; the zero value is before all.
func (q *Queries) Controllers(ctx context.Context, filter ControllerFilter, after Controller, limit int) ([]Controller, error) {
	args := []any{after.Name, after.Key, after.UID, limit, filter.Deleted}
	if filter.Project == "" {
		return q.listControllers(ctx, limit, selControllers, args...)
	}
	return q.listControllers(ctx, limit, selControllersOfProject, append(args, filter.Project)...)
}

// QueuedControllers returns at most limit controller resources that are due or wait for their time, in the
// order of that, after a place in the list; of one project, or of all for "".
func (q *Queries) QueuedControllers(ctx context.Context, project string, after Place, limit int) ([]Controller, error) {
	args := []any{int64(after.At), after.ID, limit}
	if project == "" {
		return q.listControllers(ctx, limit, selQueuedControllers, args...)
	}
	return q.listControllers(ctx, limit, selQueuedControllersOfProject, append(args, project)...)
}

// QueuePlace returns where a list of queued controller resources continues after this one.
func (c *Controller) QueuePlace() Place { return Place{c.Queue.AvailableAt, c.UID} }

func (q *Queries) listControllers(ctx context.Context, limit int, sql string, args ...any) (controllers []Controller, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		controllers = nil
		return rx.Query(sql, func(r sqlite.Row) error {
			c, err := scanController(r)
			controllers = append(controllers, c)
			return err
		}, args...)
	})
	return controllers, err
}

// ControllerWorkflow returns the run that a controller resource asked for under a key. Errors:
// [schema.NotFound].
func (q *Queries) ControllerWorkflow(ctx context.Context, uid, key string) (w ControllerWorkflow, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		found, err := oneWorkflow(rx, uid, key)
		switch {
		case err != nil:
			return err
		case found == nil:
			return notFound("workflow of controller resource "+uid, key)
		}
		w = *found
		return nil
	})
	return w, err
}

// ControllerWorkflows returns at most limit runs that a controller resource asked for, after a key, by key.
func (q *Queries) ControllerWorkflows(ctx context.Context, uid, after string, limit int) (workflows []ControllerWorkflow, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	return viewList(ctx, q, scanWorkflow, selWorkflows, uid, after, limit)
}

// ControllerSpec returns the spec of a controller resource and the generation that it is, from one snapshot.
// Errors: [schema.NotFound].
func (q *Queries) ControllerSpec(ctx context.Context, uid string) (spec []byte, generation int64, err error) {
	v, err := q.Controller(ctx, uid)
	if err != nil {
		return nil, 0, err
	}
	b, err := q.Blob(ctx, v.Spec) // content never changes: the digest is the snapshot
	if err != nil {
		return nil, 0, err
	}
	return b.Bytes, v.Generation, nil
}
