package store

import (
	"encoding/json"
)

// CompleteRun ends a run with its output, for its owner.
//
// Errors: [schema.IllegalTransition] while an attempt has not ended.
type CompleteRun struct {
	Run    string          `json:"run"`
	Output json.RawMessage `json:"output,omitempty"`
}

// Op returns "run.complete".
func (CompleteRun) Op() Op { return OpRunComplete }

func (c CompleteRun) prepare(d *draft) *plan[*Run] {
	output, settlement := d.optional("output", c.Output), d.settlement()
	return runPlan(d, c.Run, struct {
		CompleteRun
		Output *Digest `json:"output,omitempty"`
	}{c, output}, func(w *work) error {
		w.run.Output = output
		return w.end("run.completed", settlement)
	})
}

// FailRun ends a run with an error, for its owner. An attempt that has not ended fails with it.
type FailRun struct {
	Run   string          `json:"run"`
	Error json.RawMessage `json:"error"`
}

// Op returns "run.fail".
func (FailRun) Op() Op { return OpRunFail }

func (c FailRun) prepare(d *draft) *plan[*Run] {
	return d.endRun(c.Run, d.fault(c.Error), "run.failed")
}

// TimeOutRun ends a run whose deadline has passed, for its owner. An attempt that has not ended times out
// with it.
//
// Errors: [schema.IllegalTransition] before the deadline, or without one.
type TimeOutRun struct {
	Run   string          `json:"run"`
	Error json.RawMessage `json:"error,omitempty"`
}

// Op returns "run.time_out".
func (TimeOutRun) Op() Op { return OpRunTimeOut }

func (c TimeOutRun) prepare(d *draft) *plan[*Run] {
	return d.endRun(c.Run, d.optional("error", c.Error), "run.timed_out")
}

// CancelRun ends a run because somebody wanted it to, for its owner. An attempt that has not ended is
// cancelled with it.
type CancelRun struct {
	Run   string          `json:"run"`
	Error json.RawMessage `json:"error,omitempty"`
}

// Op returns "run.cancel".
func (CancelRun) Op() Op { return OpRunCancel }

func (c CancelRun) prepare(d *draft) *plan[*Run] {
	return d.endRun(c.Run, d.optional("error", c.Error), "run.cancelled")
}

// fault makes the error ready that a failure needs.
func (d *draft) fault(value json.RawMessage) *Digest {
	if value == nil {
		d.invalid("a failure needs its error")
	}
	return d.optional("error", value)
}

// endRun is the plan of a command that ends a run, and its active attempt with it, with an error or without.
func (d *draft) endRun(run string, fault *Digest, event string) *plan[*Run] {
	settlement := d.settlement()
	return runPlan(d, run, struct {
		Run   string  `json:"run"`
		Error *Digest `json:"error,omitempty"`
	}{run, fault}, func(w *work) error {
		w.run.Error = fault
		if err := w.end(event, settlement); err != nil {
			return err
		}
		if w.attempt != nil {
			w.attempt.Error = fault
		}
		return nil
	})
}

// end moves a run to its end. Whoever keeps the queue settles its place there, if it has one (R8).
func (w *work) end(event string, settlement *content) error {
	err := w.move(event)
	if err == nil && w.queue != nil && w.queue.SettledAt == 0 {
		w.effects = append(w.effects, settleLater(w.run, settlement))
	}
	return err
}
