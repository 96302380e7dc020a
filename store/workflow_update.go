package store

import (
	"encoding/json"
	"fmt"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// OpUpdateAppend is the operation on progress updates.
const OpUpdateAppend Op = "update.append"

var updateOperations = []Operation{{
	Op: OpUpdateAppend, Does: "record the progress of an attempt",
	AnyRevision: true, // the updates' own sequence decides
	Rights:      byOwner,
}}

// MaxUpdates is how many updates one command can append.
const MaxUpdates = 256

// Update is one accepted word on the progress of an attempt. Of several with the same type and key the one
// with the largest sequence is the current value (D5).
type Update struct {
	Attempt  string `json:"attempt"`
	Sequence int    `json:"sequence"` // from 1, without gaps
	Type     string `json:"type"`
	Key      string `json:"key"` // may be empty
	Data     Digest `json:"data"`
	At       Millis `json:"at"`
}

// NewUpdate is an update to append.
type NewUpdate struct {
	Type string          `json:"type"`
	Key  string          `json:"key,omitempty"`
	Data json.RawMessage `json:"data"`
}

const updateColumns = `u.attempt_id, u.sequence, u.update_type, u.update_key, u.data_blob, u.created_at`

const (
	insUpdate = `
		INSERT INTO workflow_updates (attempt_id, sequence, update_type, update_key, data_blob, created_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6)`

	selLastUpdate = `
		SELECT ifnull(max(sequence), 0)
		  FROM workflow_updates
		 WHERE attempt_id = ?1`

	selUpdates = `
		SELECT ` + updateColumns + `
		  FROM workflow_updates AS u
		 WHERE u.attempt_id = ?1
		   AND u.sequence   > ?2
		 ORDER BY u.sequence
		 LIMIT ?3`

	// The last of each type and key. With max() SQLite takes the other columns from the row that has it.
	selCurrentUpdates = `
		SELECT u.attempt_id, max(u.sequence), u.update_type, u.update_key, u.data_blob, u.created_at
		  FROM workflow_updates AS u
		 WHERE u.attempt_id = ?1
		   AND (u.update_type, u.update_key) > (?2, ?3)
		 GROUP BY u.update_type, u.update_key
		 ORDER BY u.update_type, u.update_key
		 LIMIT ?4`
)

func scanUpdate(r sqlite.Row) Update {
	return Update{r.Text(0), r.Int(1), r.Text(2), r.Text(3), *digestOf(r.Bytes(4)), Millis(r.Int64(5))}
}

// AppendUpdates records the progress of an attempt that goes on: all of the updates, or none.
//
// Errors: [schema.Conflict] with the stored [Update] as the winner if another one has its sequence;
// [schema.IllegalTransition] for a First that would leave a gap.
type AppendUpdates struct {
	Run     string `json:"run"`
	Attempt string `json:"attempt"`
	// First is the sequence that the first of the updates will have: one more than the last that was
	// appended. It makes the command find the updates that it has appended before (W5).
	First   int         `json:"first"`
	Updates []NewUpdate `json:"updates"`
}

// Appended says which sequences were given to updates.
type Appended struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// Op returns "update.append".
func (AppendUpdates) Op() Op { return OpUpdateAppend }

// updateDraft is an update made ready before the transaction.
type updateDraft struct {
	Type string   `json:"type"`
	Key  string   `json:"key,omitempty"`
	Data *content `json:"data"`
}

func (c AppendUpdates) prepare(d *draft) *plan[*Appended] {
	d.id("run", c.Run)
	d.id("attempt", c.Attempt)
	if c.First < 1 {
		d.invalid("first %d: updates count from 1", c.First)
	}
	if n := len(c.Updates); n == 0 || n > MaxUpdates {
		d.fail(schema.Errorf(schema.Limit, "%d updates: one command appends from 1 to %d", n, MaxUpdates))
	}
	updates := make([]updateDraft, len(c.Updates))
	for i, u := range c.Updates {
		d.id("update type", u.Type)
		d.line("update key", u.Key, maxIDBytes)
		updates[i] = updateDraft{u.Type, u.Key, d.json("data", u.Data)}
	}
	return &plan[*Appended]{
		subject: NewResourceID(RunResource, c.Run),
		payload: struct {
			AppendUpdates
			Updates []updateDraft `json:"updates"`
		}{c, updates},
		existing: func(rx *sqlite.Rx) (*Appended, bool, error) { return c.find(rx, updates) },
		repeated: func(*sqlite.Rx, Event) (*Appended, error) { return c.appended(), nil },
		decide: func(f *facts) (*change[*Appended], error) {
			w, err := loadWork(f, c.Run)
			if err == nil {
				err = w.name(c.Attempt)
			}
			if err == nil {
				err = w.move("update.appended")
			}
			if err != nil {
				return nil, err
			}
			last, err := oneNumber(f.Rx, selLastUpdate, c.Attempt)
			if err != nil {
				return nil, err
			}
			if c.First != last+1 {
				return nil, w.illegal(fmt.Sprintf("%s, and the next update of attempt %s has the sequence %d", w.run.Status, c.Attempt, last+1))
			}
			ch := changed(w, c.appended())
			rows := ch.rows
			ch.rows = func(tx *sqlite.Tx) error {
				for i, u := range updates {
					if _, err := tx.Exec(insUpdate, c.Attempt, c.First+i, u.Type, u.Key, u.Data.digest[:], int64(f.now)); err != nil {
						return err
					}
				}
				return rows(tx)
			}
			return ch, nil
		},
	}
}

// find looks for the updates among those that have their sequences.
func (c AppendUpdates) find(rx *sqlite.Rx, updates []updateDraft) (*Appended, bool, error) {
	stored, err := list(rx, scanUpdate, selUpdates, c.Attempt, c.First-1, len(updates))
	if err != nil || len(stored) == 0 {
		return nil, false, err
	}
	for i, u := range stored {
		if want := updates[i]; u.Type != want.Type || u.Key != want.Key || u.Data != want.Data.digest {
			return nil, false, refuse(schema.Conflict, &ConflictError{fmt.Sprintf("update %d of attempt %s", u.Sequence, c.Attempt), u})
		}
	}
	if len(stored) < len(updates) {
		return nil, false, refuse(schema.Conflict, &ConflictError{fmt.Sprintf("updates from %d of attempt %s", c.First, c.Attempt), stored[len(stored)-1]})
	}
	return c.appended(), true, nil
}

func (c AppendUpdates) appended() *Appended { return &Appended{c.First, c.First + len(c.Updates) - 1} }
