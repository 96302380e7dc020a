package store

import (
	"errors"
	"reflect"
	"slices"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	json1 "github.com/go-json-experiment/json/v1"

	"pistate/schema"
)

// acceptance is the answer to a command or query that was carried out.
type acceptance struct {
	OK       bool  `json:"ok"`                 // true
	Revision int64 `json:"revision,omitempty"` // of the command's resource now
	Sequence int64 `json:"sequence,omitempty"` // of the command's event
	Adopted  bool  `json:"adopted,omitempty"`  // it had been carried out before, and this is the result of that
	Result   any   `json:"result"`
}

// refusal is the answer to everything else.
type refusal struct {
	OK     bool        `json:"ok"` // false
	Code   schema.Code `json:"code"`
	Op     Op          `json:"op,omitempty"`
	Detail string      `json:"detail"`          // for people; may change
	Facts  any         `json:"facts,omitempty"` // what the code is about
}

// How answers are written: as the standard library does, but without HTML in mind, and a list of nothing is [].
// Only the answer to a claim is written with its token.
var (
	answerForm = json2.JoinOptions(
		json1.DefaultOptionsV1(),
		json2.FormatNilSliceAsNull(false),
		jsontext.EscapeForHTML(false),
	)
	answerFormWithToken = json2.JoinOptions(answerForm, json2.WithMarshalers(json2.MarshalToFunc(writeClaim)))
)

// writeClaim writes a claim for its holder.
func writeClaim(e *jsontext.Encoder, c *Claim) error {
	facts := c.facts()
	facts.Token = c.Token()
	return json2.MarshalEncode(e, facts)
}

func encode(a acceptance, withToken bool) ([]byte, error) {
	a.OK = true
	if withToken {
		return json2.Marshal(a, answerFormWithToken)
	}
	return json2.Marshal(a, answerForm)
}

// refuseRequest makes the answer of an error.
func refuseRequest(e *Endpoint, err error) []byte {
	answer := refusal{Code: schema.CodeOf(err), Detail: err.Error(), Facts: factsOf(err)}
	if e != nil {
		answer.Op = e.Op
	}
	var coded *schema.Error
	if errors.As(err, &coded) && coded.Op != "" {
		coded = &schema.Error{Code: coded.Code, Detail: coded.Detail, Err: coded.Err} // the answer names it already
		answer.Detail = coded.Error()
	}
	text, err := json2.Marshal(answer, answerForm)
	if err != nil { // of the facts: everything else is text
		answer.Facts = nil
		text, _ = json2.Marshal(answer, answerForm)
	}
	return text
}

// RefusalFacts are what the refusals of some codes say beside their detail.
type RefusalFacts struct {
	Codes []schema.Code
	Type  reflect.Type // an error of this package, and its JSON form

	find func(error) any
}

// ProtocolFacts returns the kinds of facts that a refusal can have.
func ProtocolFacts() []RefusalFacts { return slices.Clone(causes) }

// factsOf returns the facts that an error carries, or nil.
func factsOf(err error) any {
	for _, cause := range causes {
		if facts := cause.find(err); facts != nil {
			return facts
		}
	}
	return nil
}

func carries[E error](codes ...schema.Code) RefusalFacts {
	return RefusalFacts{codes, reflect.TypeFor[E](), func(err error) any {
		if e, ok := errors.AsType[E](err); ok {
			return e
		}
		return nil
	}}
}
