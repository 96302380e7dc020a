package store

import (
	"context"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The operations on channels. All but the first are for the owner of the channel's lease (D13).
const (
	OpChannelRegister Op = "channel.register"
	OpChannelAdvance  Op = "channel.advance"
	OpChannelReceive  Op = "channel.receive"
	OpChannelProcess  Op = "channel.process"
	OpChannelCompose  Op = "channel.compose"
	OpChannelSettle   Op = "channel.settle_parts"
	OpChannelWithdraw Op = "channel.withdraw"
)

var (
	byChannelOwner = rights(Right{Own: OwnSubject}, SessionActor, HostActor, ChannelActor, SystemActor)

	channelOperations = []Operation{
		{
			Op: OpChannelRegister, Does: "make a channel known by its adapter and profile",
			AnyRevision: true, // there is one
			Rights:      rights(Right{}, SessionActor, HostActor, ChannelActor, ControlActor, SystemActor),
		},
		{Op: OpChannelAdvance, Does: "say how far a channel has been read", AnyRevision: true, Rights: byChannelOwner},
		{Op: OpChannelReceive, Does: "keep what came in through a channel", AnyRevision: true, Rights: byChannelOwner},
		{Op: OpChannelProcess, Does: "say what became of something that came in", AnyRevision: true, Rights: byChannelOwner},
		{Op: OpChannelCompose, Does: "have a channel send a message", AnyRevision: true, Rights: byChannelOwner},
		{Op: OpChannelSettle, Does: "say which parts of a message were sent", AnyRevision: true, Rights: byChannelOwner},
		{Op: OpChannelWithdraw, Does: "give up a message that nobody has begun to send", AnyRevision: true, Rights: byChannelOwner},
	}
)

// Channel is an adapter and profile through which people are reached outside Pi.
type Channel struct {
	ID        string `json:"id"`       // derived from the two
	Revision  int64  `json:"revision"` // counts the accepted commands
	Adapter   string `json:"adapter_type"`
	Profile   string `json:"profile"`
	CreatedAt Millis `json:"created_at"`
	UpdatedAt Millis `json:"updated_at"`
}

// Resource returns the resource that the channel is.
func (c *Channel) Resource() ResourceID { return NewResourceID(ChannelResource, c.ID) }

// channelID returns the id that adapter and profile determine.
func channelID(adapter, profile string) string { return derivedID("chn", adapter, profile) }

const channelColumns = `c.channel_id, r.revision, c.adapter_type, c.profile, c.created_at, c.updated_at`

const (
	selChannel = `
		SELECT ` + channelColumns + `
		  FROM channels AS c
		  JOIN resources AS r ON r.resource_id = c.resource_id
		 WHERE c.channel_id = ?1`

	selChannels = `
		SELECT ` + channelColumns + `
		  FROM channels AS c
		  JOIN resources AS r ON r.resource_id = c.resource_id
		 WHERE (c.adapter_type, c.profile) > (?1, ?2)
		 ORDER BY c.adapter_type, c.profile
		 LIMIT ?3`

	insChannel = `
		INSERT INTO channels (channel_id, adapter_type, profile, created_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?4)`

	updChannel = `
		UPDATE channels
		   SET updated_at = ?2
		 WHERE channel_id = ?1`
)

func scanChannel(r sqlite.Row) Channel {
	return Channel{r.Text(0), r.Int64(1), r.Text(2), r.Text(3), Millis(r.Int64(4)), Millis(r.Int64(5))}
}

// oneChannel returns a channel by its id, or nil.
func oneChannel(rx *sqlite.Rx, id string) (c *Channel, err error) {
	_, err = rx.QueryRow(selChannel, func(r sqlite.Row) error {
		found := scanChannel(r)
		c = &found
		return nil
	}, id)
	return c, err
}

// RegisterChannel makes a channel known, or finds it: the same adapter and profile are the same channel.
// [ClaimLease] makes somebody its owner.
type RegisterChannel struct {
	Adapter string `json:"adapter_type"`
	Profile string `json:"profile"` // which of the accounts that the adapter is configured for
}

// Op returns "channel.register".
func (RegisterChannel) Op() Op { return OpChannelRegister }

func (c RegisterChannel) prepare(d *draft) *plan[*Channel] {
	d.id("adapter_type", c.Adapter)
	d.id("profile", c.Profile)
	id := channelID(c.Adapter, c.Profile)
	resource := NewResourceID(ChannelResource, id)
	return &plan[*Channel]{
		subject: resource,
		creates: true,
		payload: c,
		existing: func(rx *sqlite.Rx) (*Channel, bool, error) {
			stored, err := oneChannel(rx, id)
			return stored, stored != nil, err
		},
		repeated: func(rx *sqlite.Rx, _ Event) (*Channel, error) { return oneChannel(rx, id) },
		decide: func(f *facts) (*change[*Channel], error) {
			channel := &Channel{id, 1, c.Adapter, c.Profile, f.now, f.now}
			return &change[*Channel]{
				result: channel,
				steps:  []step{{resource: resource, creates: true, event: "channel.registered"}},
				rows: func(tx *sqlite.Tx) error {
					_, err := tx.Exec(insChannel, id, c.Adapter, c.Profile, int64(f.now))
					return err
				},
			}, nil
		},
	}
}

// channelPlan is the plan of a command on a channel. decide returns its result, and what it writes.
func channelPlan[R any](d *draft, channel string, asked any, event string, decide func(f *facts) (result R, rows func(*sqlite.Tx) error, err error)) *plan[R] {
	d.id("channel", channel)
	resource := NewResourceID(ChannelResource, channel)
	return &plan[R]{
		subject: resource,
		payload: asked,
		decide: func(f *facts) (*change[R], error) {
			result, rows, err := decide(f)
			if err != nil {
				return nil, err
			}
			return &change[R]{
				result: result,
				steps:  []step{{resource: resource, event: event}},
				rows: func(tx *sqlite.Tx) error {
					if err := rows(tx); err != nil {
						return err
					}
					n, err := tx.Exec(updChannel, channel, int64(f.now))
					if err == nil && n != 1 {
						err = schema.Errorf(schema.Storage, "channel %s: %d rows", channel, n)
					}
					return err
				},
			}, nil
		},
	}
}

// ChannelView is what can be said of a channel in one snapshot.
type ChannelView struct {
	Channel
	Owner   *Lease   `json:"owner,omitempty"` // the current one; nobody is it after its lease expired (V1)
	Cursors []Cursor `json:"cursors"`
	// Unprocessed counts what came in that nobody has looked at, Open the messages that are not settled, and
	// Ambiguous those of them of which nobody knows whether they were sent (V1).
	Unprocessed int `json:"unprocessed,omitempty"`
	Open        int `json:"open,omitempty"`
	Ambiguous   int `json:"ambiguous,omitempty"`
}

const countChannel = `
	SELECT (SELECT count(*) FROM channel_inbox WHERE channel_id = ?1 AND processed_at IS NULL),
	       count(*), count(*) FILTER (WHERE status = 'ambiguous')
	  FROM channel_messages
	 WHERE channel_id = ?1
	   AND settled_at IS NULL`

// Channel returns a channel by its id. Errors: [schema.NotFound].
func (q *Queries) Channel(ctx context.Context, id string) (v ChannelView, err error) {
	now := MillisOf(q.now())
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		c, err := oneChannel(rx, id)
		if err == nil && c == nil {
			err = notFound("channel", id)
		}
		if err != nil {
			return err
		}
		v = ChannelView{Channel: *c}
		if v.Owner, err = currentOwner(rx, c.Resource(), now); err != nil {
			return err
		}
		if v.Cursors, err = listCursors(rx, id); err != nil {
			return err
		}
		_, err = rx.QueryRow(countChannel, func(r sqlite.Row) error {
			v.Unprocessed, v.Open, v.Ambiguous = r.Int(0), r.Int(1), r.Int(2)
			return nil
		}, id)
		return err
	})
	return v, err
}

// Channels returns at most limit channels after one, by adapter and profile. Of after only these two count;
// the zero value is before all.
func (q *Queries) Channels(ctx context.Context, after Channel, limit int) (channels []Channel, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	return viewList(ctx, q, scanChannel, selChannels, after.Adapter, after.Profile, limit)
}
