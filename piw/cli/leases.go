package cli

import (
	"pistate/internal/cli"
	"pistate/store"
)

// LeasesCmd lists who owns what.
type LeasesCmd struct {
	lister
	Resource string `xor:"of" placeholder:"RESOURCE" help:"Only the lease of this resource, as in run:ID."`
	Owner    string `xor:"of" placeholder:"CLASS:ID" help:"Only the leases of this owner, as in host:ID or session:ID."`
	After    string `placeholder:"RESOURCE" help:"Begin after this resource, as the last line of a longer list says."`
}

// Help is shown below the flags.
func (*LeasesCmd) Help() string {
	return `Whoever owns a resource may write to it, until the lease expires or is released; those that have expired, or will soon, come first. An expired lease is nobody's: anybody may take the resource over.

  piw leases --resource run:ID --private      who holds this run`
}

// Run prints one line per lease that has an owner.
func (c *LeasesCmd) Run(env *cli.Env) error {
	owner, err := parseOwner(c.Owner)
	if err == nil {
		err = checkResource("--resource", c.Resource)
	}
	if err == nil {
		err = checkResource("--after", c.After)
	}
	if err != nil {
		return err
	}
	list := listing[store.Lease]{
		read: func(q *store.Queries, after *store.Lease, limit int) (leases []store.Lease, err error) {
			from := store.Lease{}
			switch {
			case after != nil:
				from = *after
			case c.After != "":
				from, err = q.Lease(env, store.ResourceID(c.After))
			}
			switch {
			case err != nil:
				return nil, err
			case c.Resource != "":
				return c.one(env, q, after)
			case owner != nil:
				return q.LeasesOf(env, *owner, from.Resource, limit)
			}
			return q.Leases(env, from, limit)
		},
		row: func(l store.Lease) []any {
			if l.Owner == nil {
				return []any{l.Resource, "nobody", "", "", "", l.Generation}
			}
			state := cli.Styled{Value: "held", Style: cli.Good}
			if l.Expired {
				state = status("expired")
			}
			return []any{l.Resource, c.actor(*l.Owner), state, c.when(env, l.ExpiresAt), c.when(env, l.HeartbeatAt), l.Generation}
		},
		line: func(l store.Lease) any { return l },
		next: func(l store.Lease) string { return "--after " + string(l.Resource) },
	}
	t := env.Table("RESOURCE", "OWNER", "LEASE", "EXPIRES", "HEARTBEAT", "GENERATION").Optional("GENERATION", "HEARTBEAT")
	return list.print(env, c.lister, t)
}

// one is the list of the one lease that was asked for.
func (c *LeasesCmd) one(env *cli.Env, q *store.Queries, after *store.Lease) ([]store.Lease, error) {
	if after != nil {
		return nil, nil
	}
	if _, err := q.Resource(env, store.ResourceID(c.Resource)); err != nil {
		return nil, err
	}
	l, err := q.Lease(env, store.ResourceID(c.Resource))
	return []store.Lease{l}, err
}
