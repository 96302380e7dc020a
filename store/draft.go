package store

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"

	"pistate/schema"
)

// draft is what a command makes ready before its transaction. Only the contract makes one. Its methods
// remember the first problem and go on, so that a prepare reads straight down.
type draft struct {
	store       *Store
	permit      Permit
	op          Op
	claimDigest [32]byte // of the permit's token

	problem  error
	contents []*content // to be stored with the command
	payload  *content   // of its events
	digest   Digest     // of what was asked
	eventID  string     // of the first event
	events   int        // that have been written
}

func newDraft(s *Store, permit Permit, op Op) *draft {
	d := &draft{store: s, permit: permit, op: op, eventID: permit.Request}
	if permit.Claim != nil {
		d.claimDigest = permit.Claim.digest()
	}
	if d.eventID == "" {
		var err error
		d.eventID, err = s.random.randomID("evt")
		d.fail(err)
	}
	return d
}

// finish makes the payload of the events and the digest of what was asked. Who asks, and what the permit
// believes, are no part of that.
func (d *draft) finish(payload any) {
	asked, err := json.Marshal(payload)
	if err != nil {
		d.fail(fmt.Errorf("%s: payload: %w", d.op, err))
		return
	}
	if d.payload = d.check("command")(jsonContent("command", asked)); d.payload == nil {
		return
	}
	h := sha256.New()
	_, _ = io.WriteString(h, string(d.op)+"\n") // a hash accepts every write
	_, _ = h.Write(d.payload.bytes)
	h.Sum(d.digest[:0])
}

func (d *draft) fail(err error) {
	if d.problem == nil {
		d.problem = err
	}
}

// invalid is fail with code Invalid.
func (d *draft) invalid(format string, args ...any) {
	d.fail(schema.Errorf(schema.Invalid, format, args...))
}

// json makes canonical content of a value that is stored with the command. nil after a problem.
func (d *draft) json(field string, value []byte) *content {
	return d.keep(d.check(field)(jsonContent(field, value)))
}

// text makes content of a text that is stored with the command. nil after a problem.
func (d *draft) text(field, text string) *content {
	return d.keep(d.check(field)(textContent(field, text)))
}

// check returns content without a problem and without a secret, or nil.
func (d *draft) check(field string) func(*content, error) *content {
	return func(c *content, err error) *content {
		if err == nil {
			err = d.secret(field, c.bytes)
		}
		if err != nil {
			d.fail(err)
			return nil
		}
		return c
	}
}

func (d *draft) keep(c *content) *content {
	if c != nil {
		d.contents = append(d.contents, c)
	}
	return c
}

// id checks an id.
func (d *draft) id(field, id string) {
	d.fail(checkID(field, id))
	d.fail(d.secret(field, []byte(id)))
}

// line checks a text of one line that goes into a column, of at most max bytes; it may be empty.
func (d *draft) line(field, text string, max int) {
	if len(text) > max {
		d.fail(schema.Errorf(schema.Limit, "%s has %d bytes; at most %d are allowed", field, len(text), max))
	}
	d.fail(checkText(field, text))
	d.fail(d.secret(field, []byte(text)))
}

// resource checks a resource id.
func (d *draft) resource(field string, id ResourceID) {
	d.fail(id.check(field))
	d.fail(d.secret(field, []byte(id)))
}

// secret refuses a value with the shape of a secret (R11).
func (d *draft) secret(field string, value []byte) error {
	kind := findSecret(value)
	if kind == "" || d.permit.SecretsReviewed {
		return nil
	}
	return schema.Errorf(schema.Invalid, "%s has the shape of a secret (%s), which must not enter the database: take it out, or mark the command as reviewed if it is none", field, kind)
}
