package store

import (
	"encoding/json"
	"time"

	"pistate/schema"
)

// SettleController ends the work on a controller resource, for its owner, who is not its owner afterwards:
// there is nothing to do until it is enqueued again. What was enqueued since the version that was claimed is
// not lost: then it stays due. Errors in a row are forgotten.
//
// Errors: [schema.Invalid] for a version that the queue has not come to.
type SettleController struct {
	Controller string `json:"controller"` // uid
	Version    int64  `json:"version"`    // of the queue, as it was claimed
}

// Op returns "controller.settle".
func (SettleController) Op() Op { return OpControllerSettle }

func (c SettleController) prepare(d *draft) *plan[*Controller] {
	return settlePlan(d, c.Controller, c.Version, c, "controller.settled", func(w *controlled) Millis {
		w.Queue.Errors, w.Queue.ErrorCode = 0, ""
		return 0
	})
}

// RequeueController ends the work on a controller resource as [SettleController] does, and has it looked at
// again after a delay.
type RequeueController struct {
	Controller string `json:"controller"` // uid
	Version    int64  `json:"version"`    // of the queue, as it was claimed
	DelayMS    int64  `json:"delay_ms"`
}

// Op returns "controller.requeue".
func (RequeueController) Op() Op { return OpControllerRequeue }

func (c RequeueController) prepare(d *draft) *plan[*Controller] {
	d.delay("delay_ms", c.DelayMS)
	return settlePlan(d, c.Controller, c.Version, c, "controller.requeued", func(w *controlled) Millis {
		w.Queue.Errors, w.Queue.ErrorCode = 0, ""
		return w.f.now + Millis(c.DelayMS)
	})
}

// BackOffController ends the work on a controller resource after an error, and has it looked at again after
// a time that doubles with each error in a row: from BaseMS to MaxMS, less up to half of it, at random, so
// that those which failed together do not come back together.
type BackOffController struct {
	Controller string          `json:"controller"` // uid
	Version    int64           `json:"version"`    // of the queue, as it was claimed
	Code       string          `json:"code"`       // of the error
	Error      json.RawMessage `json:"error,omitempty"`
	BaseMS     int64           `json:"base_ms,omitempty"` // 0: one second
	MaxMS      int64           `json:"max_ms,omitempty"`  // 0: five minutes
}

// Op returns "controller.back_off".
func (BackOffController) Op() Op { return OpControllerBackOff }

func (c BackOffController) prepare(d *draft) *plan[*Controller] {
	if c.Code == "" {
		d.invalid("an error needs its code")
	}
	d.line("code", c.Code, maxErrorCodeBytes)
	d.delay("base_ms", c.BaseMS)
	d.delay("max_ms", c.MaxMS)
	var fault *content
	if c.Error != nil {
		fault = d.limited("error", c.Error, MaxControllerEventBytes)
	}
	jitter, err := d.store.random.fraction()
	d.fail(err)
	b := Backoff{Base: defaultBackoff, Max: defaultMaxBackoff}
	if c.BaseMS > 0 {
		b.Base = time.Duration(c.BaseMS) * time.Millisecond
	}
	if c.MaxMS > 0 {
		b.Max = time.Duration(c.MaxMS) * time.Millisecond
	}
	asked := struct {
		BackOffController
		Error *content `json:"error,omitempty"`
	}{c, fault}
	return settlePlan(d, c.Controller, c.Version, asked, "controller.backed_off", func(w *controlled) Millis {
		w.failed(c.Code)
		return w.f.now + Millis(b.after(w.Queue.Errors, jitter))
	})
}

// settlePlan is the plan of a command that ends the work on a controller resource. next returns when it is
// to be looked at again; 0: when somebody wants it.
func settlePlan(d *draft, uid string, version int64, asked any, event string, next func(w *controlled) Millis) *plan[*Controller] {
	if version < 1 {
		d.invalid("version %d: it is that of the queue when it was claimed", version)
	}
	return controllerPlan(d, uid, asked, func(w *controlled) error {
		if version > w.Queue.Version {
			return schema.Errorf(schema.Invalid, "version %d: the queue of %s has come to %d", version, w.Resource(), w.Queue.Version)
		}
		w.event, w.releases = event, true
		again, q := next(w), &w.Queue
		q.UpdatedAt = w.f.now
		// What was enqueued meanwhile comes when it was wanted, errors or not.
		if q.Version == version || q.AvailableAt == 0 || again != 0 && again < q.AvailableAt {
			q.AvailableAt = again
		}
		return nil
	})
}
