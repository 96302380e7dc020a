package store

import (
	"fmt"
	"slices"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The limits of what people are asked, and of what they answer.
const (
	MaxChoices       = 50
	MaxChoiceIDBytes = 64     // of a choice's id: a button's payload on narrow channels
	MaxLabelBytes    = 200    // of a choice's label
	MaxPromptBytes   = 2000   // of a text input's prompt
	MaxInputChars    = 10_000 // of a text input, in Unicode code points
	// MaxResponseBytes is the most that an answer may have to be looked at, and kept, at all. Every text that
	// an input allows fits, however it is written.
	MaxResponseBytes = 64 << 10
)

// Choice is one of the answers that people can give to a decision.
type Choice struct {
	ID    string     `json:"id"` // unique among the choices
	Label string     `json:"label"`
	Input *TextInput `json:"input,omitempty"` // nil: the choice takes no text
}

// TextInput asks for a text with a choice, such as what to plan differently.
type TextInput struct {
	Prompt   string `json:"prompt,omitempty"`
	Required bool   `json:"required,omitempty"` // the choice is none without a text
	MaxChars int    `json:"max_chars"`          // in Unicode code points, at most MaxInputChars
}

// Response is an answer: a choice, and the text that goes with it, if its choice takes one.
type Response struct {
	Choice string `json:"choice"`
	Text   string `json:"text,omitempty"`
}

// checkChoices refuses choices that nobody could be offered.
func checkChoices(choices []Choice) error {
	if len(choices) == 0 {
		return schema.Errorf(schema.Invalid, "choices: at least one is needed")
	}
	if len(choices) > MaxChoices {
		return schema.Errorf(schema.Limit, "there are %d choices; at most %d are allowed", len(choices), MaxChoices)
	}
	for i, c := range choices {
		field := fmt.Sprintf("choices[%d]", i)
		if slices.ContainsFunc(choices[:i], func(other Choice) bool { return other.ID == c.ID }) {
			return schema.Errorf(schema.Invalid, "%s: another choice has the id %q", field, c.ID)
		}
		if err := c.check(field); err != nil {
			return err
		}
	}
	return nil
}

func (c *Choice) check(field string) error {
	if err := checkID(field+".id", c.ID); err != nil {
		return err
	}
	if err := checkLimit(field+".id", len(c.ID), MaxChoiceIDBytes); err != nil {
		return err
	}
	if err := checkID(field+".label", c.Label); err != nil { // a line that says something
		return err
	}
	if err := checkLimit(field+".label", len(c.Label), MaxLabelBytes); err != nil {
		return err
	}
	if c.Input == nil {
		return nil
	}
	if n := c.Input.MaxChars; n < 1 || n > MaxInputChars {
		return schema.Errorf(schema.Invalid, "%s.input.max_chars %d: it is from 1 to %d", field, n, MaxInputChars)
	}
	return checkLimit(field+".input.prompt", len(c.Input.Prompt), MaxPromptBytes)
}

func checkLimit(field string, n, max int) error {
	if n > max {
		return schema.Errorf(schema.Limit, "%s has %d bytes; at most %d are allowed", field, n, max)
	}
	return nil
}

// problem returns what keeps a response from being an answer to a question with these choices, or "".
func (r Response) problem(choices []Choice) string {
	i := slices.IndexFunc(choices, func(c Choice) bool { return c.ID == r.Choice })
	if i < 0 {
		return fmt.Sprintf("%.100q is none of the choices", r.Choice)
	}
	input := choices[i].Input
	switch n := utf8.RuneCountInString(r.Text); {
	case input == nil && n > 0:
		return fmt.Sprintf("the choice %q takes no text", r.Choice)
	case input == nil:
		return ""
	case input.Required && n == 0:
		return fmt.Sprintf("the choice %q needs a text", r.Choice)
	case n > input.MaxChars:
		return fmt.Sprintf("the text has %d characters; the choice %q takes at most %d", n, r.Choice, input.MaxChars)
	}
	return ""
}

// parseResponse reads an answer. Whatever is more or less than a choice and its text is none.
func parseResponse(value []byte) (r Response, problem string) {
	if err := jsonv2.Unmarshal(value, &r, jsonv2.RejectUnknownMembers(true)); err != nil {
		return Response{}, `it is not of the form {"choice": ..., "text": ...}`
	}
	return r, ""
}

const selContent = `
	SELECT bytes
	  FROM blobs
	 WHERE digest = ?1`

// choices reads what a decision offers.
func (d *Decision) choices(rx *sqlite.Rx) (choices []Choice, err error) {
	err = readContent(rx, &d.Choices, &choices)
	return choices, err
}
