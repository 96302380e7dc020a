package store

import (
	"encoding/json"
	"slices"
	"strings"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// ConditionStatus says whether a condition is met.
type ConditionStatus string

// The statuses of a condition.
const (
	ConditionTrue    ConditionStatus = "true"
	ConditionFalse   ConditionStatus = "false"
	ConditionUnknown ConditionStatus = "unknown"
)

// ControllerCondition is one fact about a thing that a controller looks after, for people and for programs
// that wait for it.
type ControllerCondition struct {
	Type    string          `json:"type"` // as in "ready"; once per status
	Status  ConditionStatus `json:"status"`
	Reason  string          `json:"reason,omitempty"`  // one word for programs
	Message string          `json:"message,omitempty"` // for people
	Since   Millis          `json:"since,omitempty"`   // when it came to have the status
}

const (
	maxConditions   = 32
	maxMessageBytes = 2000
)

// ControllerStatus is how something is, as its controller last saw it. It is the content of the status blob.
type ControllerStatus struct {
	Conditions []ControllerCondition `json:"conditions,omitempty"`
	Detail     json.RawMessage       `json:"detail,omitempty"` // the controller's own
}

func (s *ControllerStatus) check(d *draft) {
	if len(s.Conditions) > maxConditions {
		d.fail(schema.Errorf(schema.Limit, "%d conditions; at most %d are allowed", len(s.Conditions), maxConditions))
	}
	types := map[string]bool{}
	for _, c := range s.Conditions {
		d.id("condition type", c.Type)
		d.line("condition reason", c.Reason, maxIDBytes)
		d.moment("condition since", c.Since)
		switch {
		case types[c.Type]:
			d.invalid("condition %q is given twice", c.Type)
		case !slices.Contains([]ConditionStatus{ConditionTrue, ConditionFalse, ConditionUnknown}, c.Status):
			d.invalid("condition %q has the status %q: it is true, false or unknown", c.Type, c.Status)
		case len(c.Message) > maxMessageBytes:
			d.fail(schema.Errorf(schema.Limit, "the message of condition %q has %d bytes; at most %d are allowed", c.Type, len(c.Message), maxMessageBytes))
		}
		types[c.Type] = true
	}
}

// SetControllerStatus says how something is, and which spec that is about, for the owner of the resource.
// The status that is there already is found (W5), so a controller can say the same as often as it looks.
//
// Errors: [schema.Limit] for a status of more than MaxStatusBytes; [schema.Invalid] for a generation that
// does not exist; [schema.IllegalTransition] for one that is older than what the status is about already.
type SetControllerStatus struct {
	Controller string           `json:"controller"` // uid
	Observed   int64            `json:"observed_generation"`
	Status     ControllerStatus `json:"status"`
}

// Op returns "controller.set_status".
func (SetControllerStatus) Op() Op { return OpControllerSetStatus }

func (c SetControllerStatus) prepare(d *draft) *plan[*Controller] {
	c.Status.check(d)
	if c.Observed < 1 {
		d.invalid("observed_generation %d: generations count from 1", c.Observed)
	}
	value, err := json.Marshal(c.Status)
	if err != nil {
		d.invalid("status: %w", err)
		return nil
	}
	status := d.limited("status", value, MaxStatusBytes)
	if status == nil {
		return nil
	}
	asked := struct {
		SetControllerStatus
		Status *content `json:"status"`
	}{c, status}
	p := controllerPlan(d, c.Controller, asked, func(w *controlled) error {
		switch {
		case c.Observed > w.Generation:
			return schema.Errorf(schema.Invalid, "observed_generation %d: the last one of %s is %d", c.Observed, w.Resource(), w.Generation)
		case c.Observed < w.Observed:
			return w.illegal("observed at a later generation")
		}
		w.event, w.Status, w.Observed = "controller.status_set", &status.digest, c.Observed
		return nil
	})
	p.existing = func(rx *sqlite.Rx) (*Controller, bool, error) {
		stored, err := oneController(rx, selController, c.Controller)
		return stored, stored != nil && stored.Status != nil && *stored.Status == status.digest && stored.Observed == c.Observed, err
	}
	return p
}

// RecordControllerEvent records something that a controller has seen or done, as an event of its resource
// with the type "controller.event." and Type, and the payload as it is. It is for people who want to know
// why; what programs need is in the status.
//
// Errors: [schema.Limit] for a payload of more than MaxControllerEventBytes.
type RecordControllerEvent struct {
	Controller string          `json:"controller"` // uid
	Type       string          `json:"type"`       // lower-case words with "_" or "." between them
	Payload    json.RawMessage `json:"payload"`
}

// Op returns "controller.record".
func (RecordControllerEvent) Op() Op { return OpControllerRecord }

const maxEventTypeBytes = 100

func (c RecordControllerEvent) prepare(d *draft) *plan[*Controller] {
	d.line("type", c.Type, maxEventTypeBytes)
	if c.Type == "" || strings.Trim(c.Type, lower+digits+"_.") != "" {
		d.invalid("type %q: it has only a-z, 0-9, _ and .", c.Type)
	}
	payload := d.limited("payload", c.Payload, MaxControllerEventBytes)
	asked := struct {
		RecordControllerEvent
		Payload *content `json:"payload"`
	}{c, payload}
	return controllerPlan(d, c.Controller, asked, func(w *controlled) error {
		w.event, w.payload = "controller.event."+c.Type, payload
		return nil
	})
}
