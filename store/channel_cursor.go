package store

import (
	"fmt"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// Cursor is how far a channel has been read. A channel can have several, each with a name.
type Cursor struct {
	Name      string `json:"cursor"`
	Position  int64  `json:"position"`            // never goes back
	Reference string `json:"reference,omitempty"` // the provider's own word for the position; not secret
	UpdatedAt Millis `json:"updated_at"`
}

// MaxCursors is how many cursors a channel can have.
const MaxCursors = 100

const (
	selCursors = `
		SELECT cursor_name, position, reference, updated_at
		  FROM channel_cursors
		 WHERE channel_id = ?1
		 ORDER BY cursor_name`

	upsCursor = `
		INSERT INTO channel_cursors (channel_id, cursor_name, position, reference, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5)
		    ON CONFLICT (channel_id, cursor_name) DO UPDATE
		   SET position   = excluded.position,
		       reference  = excluded.reference,
		       updated_at = excluded.updated_at`
)

// listCursors returns the few cursors of a channel.
func listCursors(rx *sqlite.Rx, channel string) (cursors []Cursor, err error) {
	cursors = []Cursor{}
	err = rx.Query(selCursors, func(r sqlite.Row) error {
		cursors = append(cursors, Cursor{r.Text(0), r.Int64(1), r.Text(2), Millis(r.Int64(3))})
		return nil
	}, channel)
	return cursors, err
}

// Progress is a move of a cursor.
type Progress struct {
	Cursor    string `json:"cursor"`
	Position  int64  `json:"position"`
	Reference string `json:"reference,omitempty"`
}

func (p *Progress) check(d *draft) {
	d.id("cursor", p.Cursor)
	d.line("reference", p.Reference, maxIDBytes)
}

// made reports whether the cursor is at that position already.
func (p *Progress) made(rx *sqlite.Rx, channel string) (bool, error) {
	stored, _, err := p.stored(rx, channel)
	return stored != nil && stored.Position == p.Position && stored.Reference == p.Reference, err
}

func (p *Progress) stored(rx *sqlite.Rx, channel string) (stored *Cursor, n int, err error) {
	cursors, err := listCursors(rx, channel)
	for i := range cursors {
		if cursors[i].Name == p.Cursor {
			stored = &cursors[i]
		}
	}
	return stored, len(cursors), err
}

// may refuses a move that goes back.
func (p *Progress) may(f *facts, channel string) error {
	stored, n, err := p.stored(f.Rx, channel)
	switch {
	case err != nil:
		return err
	case stored == nil && n >= MaxCursors:
		return schema.Errorf(schema.Limit, "channel %s has %d cursors; no more are allowed", channel, n)
	case stored == nil || p.Position > stored.Position:
		return nil
	case p.Position < stored.Position:
		return illegal(f, fmt.Sprintf("read to %d of cursor %s, which never goes back", stored.Position, p.Cursor))
	case p.Reference != stored.Reference:
		return conflict(fmt.Sprintf("position %d of cursor %s", p.Position, p.Cursor), *stored)
	}
	return nil
}

func (p *Progress) save(tx *sqlite.Tx, channel string, now Millis) error {
	_, err := tx.Exec(upsCursor, channel, p.Cursor, p.Position, orNull(p.Reference), int64(now))
	return err
}

// AdvanceCursor says how far a channel has been read, where nothing of it is to be kept; else
// [ReceiveEvents] does it along with what came in. A position that the cursor has is found (W5).
//
// Errors: [schema.IllegalTransition] for a position before that of the cursor; [schema.Conflict] with the
// stored [Cursor] as the winner for the same position under another reference; [schema.Limit] for more than
// MaxCursors.
type AdvanceCursor struct {
	Channel string `json:"channel"`
	Progress
}

// Op returns "channel.advance".
func (AdvanceCursor) Op() Op { return OpChannelAdvance }

func (c AdvanceCursor) prepare(d *draft) *plan[Cursor] {
	c.Progress.check(d)
	p := channelPlan(d, c.Channel, c, "channel.advanced", func(f *facts) (Cursor, func(*sqlite.Tx) error, error) {
		if err := c.may(f, c.Channel); err != nil {
			return Cursor{}, nil, err
		}
		moved := Cursor{c.Cursor, c.Position, c.Reference, f.now}
		return moved, func(tx *sqlite.Tx) error { return c.save(tx, c.Channel, f.now) }, nil
	})
	p.existing = func(rx *sqlite.Rx) (Cursor, bool, error) {
		stored, _, err := c.stored(rx, c.Channel)
		if stored == nil {
			return Cursor{}, false, err
		}
		made, err := c.made(rx, c.Channel)
		return *stored, made, err
	}
	p.repeated = func(rx *sqlite.Rx, _ Event) (Cursor, error) {
		stored, _, err := c.stored(rx, c.Channel)
		if err != nil || stored == nil {
			return Cursor{}, err
		}
		return *stored, nil
	}
	return p
}
