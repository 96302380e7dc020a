package store

import (
	"slices"

	"pistate/internal/sqlite"
	"pistate/schema"
)

const (
	insFinalizer = `
		INSERT INTO controller_finalizers (controller_uid, position, finalizer, added_at)
		SELECT ?1, ifnull(max(position), 0) + 1, ?2, ?3
		  FROM controller_finalizers
		 WHERE controller_uid = ?1`

	delFinalizer = `
		DELETE FROM controller_finalizers
		 WHERE controller_uid = ?1
		   AND finalizer      = ?2`
)

// AddFinalizer keeps a controller resource until something is done, which comes after what its other
// finalizers stand for. It is for the owner of the resource, before it begins what it will have to undo. A
// finalizer that is there already is found (W5).
//
// Errors: [schema.IllegalTransition] after deletion was requested; [schema.Limit] for more than
// MaxFinalizers.
type AddFinalizer struct {
	Controller string `json:"controller"` // uid
	Finalizer  string `json:"finalizer"`
}

// Op returns "controller.add_finalizer".
func (AddFinalizer) Op() Op { return OpControllerAddFinalizer }

func (c AddFinalizer) prepare(d *draft) *plan[*Controller] {
	d.id("finalizer", c.Finalizer)
	p := controllerPlan(d, c.Controller, c, func(w *controlled) error {
		switch {
		case w.DeletionRequestedAt != 0:
			return w.illegal(w.state())
		case len(w.Finalizers) >= MaxFinalizers:
			return schema.Errorf(schema.Limit, "%s has %d finalizers; no more are allowed", w.Resource(), len(w.Finalizers))
		}
		w.event, w.Finalizers = "controller.finalizer_added", append(w.Finalizers, c.Finalizer)
		w.write(insFinalizer, w.UID, c.Finalizer, int64(w.f.now))
		return nil
	})
	p.existing = func(rx *sqlite.Rx) (*Controller, bool, error) {
		stored, err := oneController(rx, selController, c.Controller)
		return stored, stored != nil && slices.Contains(stored.Finalizers, c.Finalizer), err
	}
	return p
}

// RemoveFinalizer says, for the owner of the resource, that what a finalizer stands for is done, or that
// there is nothing to do. Once deletion was requested they go in their order, and the resource with the last
// of them: then nobody owns it any more. A finalizer that is not there is found to be gone (W5).
//
// Errors: [schema.IllegalTransition] while another finalizer comes before.
type RemoveFinalizer struct {
	Controller string `json:"controller"` // uid
	Finalizer  string `json:"finalizer"`
}

// Op returns "controller.remove_finalizer".
func (RemoveFinalizer) Op() Op { return OpControllerRemoveFinalizer }

func (c RemoveFinalizer) prepare(d *draft) *plan[*Controller] {
	d.id("finalizer", c.Finalizer)
	p := controllerPlan(d, c.Controller, c, func(w *controlled) error {
		i := slices.Index(w.Finalizers, c.Finalizer)
		if w.DeletionRequestedAt != 0 && i > 0 {
			return w.illegal(w.state() + ", and kept by the finalizer " + w.Finalizers[0] + " before")
		}
		w.event, w.Finalizers = "controller.finalizer_removed", slices.Delete(w.Finalizers, i, i+1)
		w.write(delFinalizer, w.UID, c.Finalizer)
		if w.end(); w.DeletedAt != 0 {
			w.event = "controller.deleted"
		}
		return nil
	})
	p.existing = func(rx *sqlite.Rx) (*Controller, bool, error) {
		stored, err := oneController(rx, selController, c.Controller)
		return stored, stored != nil && !slices.Contains(stored.Finalizers, c.Finalizer), err
	}
	return p
}
