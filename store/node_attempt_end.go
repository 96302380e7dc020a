package store

import (
	"encoding/json"
	"unicode/utf8"

	"pistate/schema"
)

// FinishAttempt ends an attempt with what it made. An assistant message has a text, every other attempt an
// output.
//
// Errors: [schema.Invalid] for a text where an output is expected, for the reverse, and for a limit that is
// not the author's; [schema.Limit] for a text beyond it.
type FinishAttempt struct {
	Run     string          `json:"run"`
	Attempt string          `json:"attempt"`
	Output  json.RawMessage `json:"output,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"` // what else is known of it, as an exit code
	Message *Message        `json:"message,omitempty"`
}

// Message is the final message of an agent.
type Message struct {
	Text     string `json:"text"`                // exactly as the agent wrote it
	EntryID  string `json:"entry_id,omitempty"`  // of the Pi session entry that it is in, if known
	MaxChars int64  `json:"max_chars,omitempty"` // the author's limit, as it is in the definition
}

// Receipt is the result that is stored with an assistant message (D4).
type Receipt struct {
	Kind       ExpectedOutput `json:"kind"` // assistant-message
	TextDigest Digest         `json:"text_digest"`
	EntryID    string         `json:"entry_id,omitempty"`
	MaxChars   int64          `json:"max_chars,omitempty"`
	Adopted    bool           `json:"adopted"` // it was found finished, when the attempt was to be resumed
}

// message is a message made ready before the transaction, with its receipt. In JSON its text is a digest.
type message struct {
	Message
	Text *Digest `json:"text"`

	receipt *Digest
}

// message makes a message and its receipt ready.
func (d *draft) message(m *Message, adopted bool) *message {
	if m == nil {
		return nil
	}
	if m.EntryID != "" {
		d.id("entry_id", m.EntryID)
	}
	if n := int64(utf8.RuneCountInString(m.Text)); m.MaxChars > 0 && n > m.MaxChars {
		d.fail(schema.Errorf(schema.Limit, "the message has %d characters; its author allows %d", n, m.MaxChars))
	}
	text := d.text("text", m.Text)
	if text == nil {
		return nil
	}
	receipt, err := json.Marshal(Receipt{AssistantMessage, text.digest, m.EntryID, m.MaxChars, adopted})
	d.fail(err)
	return &message{*m, &text.digest, d.optional("receipt", receipt)}
}

// Op returns "attempt.finish".
func (FinishAttempt) Op() Op { return OpAttemptFinish }

func (c FinishAttempt) prepare(d *draft) *plan[*NodeAttempt] {
	if c.Message != nil && (c.Output != nil || c.Result != nil) {
		d.invalid("a message is all that an attempt makes: it has no output and no result")
	}
	output, result, said := d.optional("output", c.Output), d.optional("result", c.Result), d.message(c.Message, false)
	return attemptPlan(d, c.Run, c.Attempt, struct {
		FinishAttempt
		Output  *Digest  `json:"output,omitempty"`
		Result  *Digest  `json:"result,omitempty"`
		Message *message `json:"message,omitempty"`
	}{c, output, result, said}, func(w *work) error {
		if err := w.move("attempt.finished"); err != nil {
			return err
		}
		isMessage := w.attempt.Expected == AssistantMessage
		switch {
		case isMessage && said != nil:
			return w.say(said)
		case isMessage:
			return schema.Errorf(schema.Invalid, "node %s ends with an assistant message: its text is missing", w.attempt.Node)
		case said != nil:
			return schema.Errorf(schema.Invalid, "node %s does not end with an assistant message: send its output", w.attempt.Node)
		}
		w.attempt.Output, w.attempt.Result = output, result
		return nil
	})
}

// say gives the attempt its message.
func (w *work) say(m *message) error {
	node, _, err := getNode(w.f.Rx, w.run.Definition, w.attempt.Node)
	if err != nil {
		return err
	}
	if node.MaxChars != m.MaxChars {
		return schema.Errorf(schema.Invalid, "max_chars is %d, and %d in the definition of node %s; 0 stands for no limit", m.MaxChars, node.MaxChars, node.ID)
	}
	w.attempt.Output, w.attempt.Result = m.Text, m.receipt
	return nil
}

// AdoptMessage ends an interrupted assistant message with the one that its origin session finds finished
// after the prompt, instead of having it written twice (D4).
//
// Errors: [schema.Denied] for anybody but that session; [schema.Conflict] with the stored [NodeAttempt] if
// the message answers another prompt; and those of [FinishAttempt].
type AdoptMessage struct {
	Run     string  `json:"run"`
	Attempt string  `json:"attempt"`
	Prompt  Digest  `json:"prompt"` // of the prompt that the message answers
	Message Message `json:"message"`
}

// Op returns "attempt.adopt".
func (AdoptMessage) Op() Op { return OpAttemptAdopt }

func (c AdoptMessage) prepare(d *draft) *plan[*NodeAttempt] {
	if c.Message.EntryID == "" {
		d.invalid("a message that was found has an entry_id")
	}
	found := d.message(&c.Message, true)
	return attemptPlan(d, c.Run, c.Attempt, struct {
		AdoptMessage
		Message *message `json:"message"`
	}{c, found}, func(w *work) error {
		if err := w.move("attempt.adopted"); err != nil {
			return err
		}
		switch {
		case w.attempt.Expected != AssistantMessage:
			return schema.Errorf(schema.Invalid, "node %s does not end with an assistant message", w.attempt.Node)
		case !w.keepsAttempt():
			return refuse(schema.Denied, &DeniedError{w.f.op, w.f.actor.Class, "only the Pi session that the run came from can find its message"})
		case w.attempt.Prompt == nil || *w.attempt.Prompt != c.Prompt:
			return refuse(schema.Conflict, &ConflictError{"prompt of attempt " + c.Attempt, *w.attempt})
		}
		w.attempt.InterruptedAt = 0
		return w.say(found)
	})
}

// FailAttempt ends an attempt with an error.
type FailAttempt struct {
	Run     string          `json:"run"`
	Attempt string          `json:"attempt"`
	Error   json.RawMessage `json:"error"`
}

// Op returns "attempt.fail".
func (FailAttempt) Op() Op { return OpAttemptFail }

func (c FailAttempt) prepare(d *draft) *plan[*NodeAttempt] {
	return d.endAttempt(c.Run, c.Attempt, d.fault(c.Error), "attempt.failed")
}

// TimeOutAttempt ends an attempt whose deadline has passed.
//
// Errors: [schema.IllegalTransition] before the deadline, or without one.
type TimeOutAttempt struct {
	Run     string          `json:"run"`
	Attempt string          `json:"attempt"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// Op returns "attempt.time_out".
func (TimeOutAttempt) Op() Op { return OpAttemptTimeOut }

func (c TimeOutAttempt) prepare(d *draft) *plan[*NodeAttempt] {
	return d.endAttempt(c.Run, c.Attempt, d.optional("error", c.Error), "attempt.timed_out")
}

// CancelAttempt ends an attempt because somebody wanted it to.
type CancelAttempt struct {
	Run     string          `json:"run"`
	Attempt string          `json:"attempt"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// Op returns "attempt.cancel".
func (CancelAttempt) Op() Op { return OpAttemptCancel }

func (c CancelAttempt) prepare(d *draft) *plan[*NodeAttempt] {
	return d.endAttempt(c.Run, c.Attempt, d.optional("error", c.Error), "attempt.cancelled")
}

// endAttempt is the plan of a command that ends an attempt without success, with an error or without.
func (d *draft) endAttempt(run, attempt string, fault *Digest, event string) *plan[*NodeAttempt] {
	return attemptPlan(d, run, attempt, struct {
		Run     string  `json:"run"`
		Attempt string  `json:"attempt"`
		Error   *Digest `json:"error,omitempty"`
	}{run, attempt, fault}, func(w *work) error {
		err := w.move(event)
		w.attempt.Error = fault
		return err
	})
}
