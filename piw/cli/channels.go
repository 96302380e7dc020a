package cli

import (
	"fmt"
	"strconv"

	"pistate/internal/cli"
	"pistate/store"
)

// ChannelsCmd lists channels, or shows one.
type ChannelsCmd struct {
	lister
	Channel string `arg:"" optional:"" help:"Show this channel, by its id, with what came in and what goes out."`
	After   string `placeholder:"CHANNEL" help:"Begin after this channel, as the last line of a longer list says."`
}

// Help is shown below the flags.
func (*ChannelsCmd) Help() string {
	return `A channel is an adapter with a profile, through which people are reached. NEW counts what came in that nobody has looked at, OPEN the messages that are not settled, UNCLEAR those of them of which nobody knows whether they were sent.`
}

// Run prints one line per channel, or all about one.
func (c *ChannelsCmd) Run(env *cli.Env) error {
	if c.Channel != "" {
		return c.show(env)
	}
	list := listing[store.ChannelView]{
		read: func(q *store.Queries, after *store.ChannelView, limit int) (views []store.ChannelView, err error) {
			var from store.Channel
			if after != nil {
				from = after.Channel
			} else if c.After != "" {
				v, err := q.Channel(env, c.After)
				if err != nil {
					return nil, err
				}
				from = v.Channel
			}
			channels, err := q.Channels(env, from, limit)
			for i := 0; err == nil && i < len(channels); i++ {
				var v store.ChannelView
				v, err = q.Channel(env, channels[i].ID)
				views = append(views, v)
			}
			return views, err
		},
		row: func(v store.ChannelView) []any {
			owner := "nobody"
			if v.Owner != nil {
				owner = c.actor(*v.Owner.Owner)
			}
			return []any{v.ID, v.Adapter, v.Profile, owner, v.Unprocessed, v.Open, v.Ambiguous}
		},
		line: func(v store.ChannelView) any { return c.channel(v) },
		next: func(v store.ChannelView) string { return "--after " + v.ID },
	}
	t := env.Table("CHANNEL", "ADAPTER", "PROFILE", "OWNER", "NEW", "OPEN", "UNCLEAR").Cut("OWNER", "PROFILE")
	return list.print(env, c.lister, t)
}

// channel takes the references out of a channel.
func (o output) channel(v store.ChannelView) store.ChannelView {
	cursors := make([]store.Cursor, len(v.Cursors))
	for i, cursor := range v.Cursors {
		cursor.Reference = o.keep(cursor.Reference)
		cursors[i] = cursor
	}
	v.Cursors = cursors
	return v
}

// channelJSON is a channel with what came in that nobody has looked at, and what is not settled.
type channelJSON struct {
	store.ChannelView
	Inbox    []store.InboxEvent  `json:"inbox"`
	Messages []store.MessageView `json:"messages"`
}

// show prints all about one channel.
func (c *ChannelsCmd) show(env *cli.Env) error {
	var doc channelJSON
	err := c.view(env, func(q *store.Queries) (err error) {
		doc, err = c.read(env, q)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		doc.ChannelView = c.channel(doc.ChannelView)
		for i := range doc.Inbox {
			doc.Inbox[i].ID = c.keep(doc.Inbox[i].ID)
		}
		for i := range doc.Messages {
			for j := range doc.Messages[i].Parts {
				p := &doc.Messages[i].Parts[j]
				p.Recipient, p.ExternalRef = c.keep(p.Recipient), c.keep(p.ExternalRef)
			}
		}
		return c.print(env, doc)
	}
	return c.printOne(env, doc)
}

func (c *ChannelsCmd) read(env *cli.Env, q *store.Queries) (doc channelJSON, err error) {
	if doc.ChannelView, err = q.Channel(env, c.Channel); err != nil {
		return doc, err
	}
	limit := min(c.Limit, store.MaxPage)
	if doc.Inbox, err = q.Inbox(env, c.Channel, true, store.Place{}, limit); err != nil {
		return doc, err
	}
	open, err := q.Messages(env, c.Channel, true, store.Place{}, limit)
	for i := 0; err == nil && i < len(open); i++ {
		var v store.MessageView
		v, err = q.Message(env, open[i].ID)
		doc.Messages = append(doc.Messages, v)
	}
	return doc, err
}

func (c *ChannelsCmd) printOne(env *cli.Env, doc channelJSON) error {
	env.Fact("channel", doc.ID)
	env.Fact("adapter", doc.Adapter)
	env.Fact("profile", doc.Profile)
	owner := "nobody"
	if doc.Owner != nil {
		owner = ownerText(env, c.output, *doc.Owner)
	}
	env.Fact("owner", owner)
	for _, cursor := range doc.Cursors {
		env.Fact("read", fmt.Sprintf("%s up to %d, %s %s", cursor.Name, cursor.Position, c.when(env, cursor.UpdatedAt), c.secret(cursor.Reference)))
	}
	if len(doc.Inbox) > 0 {
		env.Section("not looked at")
		t := env.Table("EVENT", "TYPE", "CAME", "DIGEST").Cut("EVENT", "TYPE")
		for _, e := range doc.Inbox {
			t.Row(c.secret(e.ID), e.Type, c.when(env, e.ReceivedAt), short(&e.Payload))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(doc.Messages) == 0 {
		return nil
	}
	env.Section("not settled")
	t := env.Table("MESSAGE", "KIND", "RECIPIENT", "PART", "STATUS", "SINCE", "DIGEST").Cut("MESSAGE", "RECIPIENT")
	for _, m := range doc.Messages {
		for _, p := range m.Parts {
			t.Row(m.Key, m.Kind, c.secret(p.Recipient), strconv.Itoa(p.Number), status(p.Status), c.when(env, p.UpdatedAt), short(&p.Payload))
		}
	}
	return t.Flush()
}
