// Package storefixture makes workflow databases for tests, by the product's own commands: the same bytes each
// time, at a time of their own.
//
// What is private in them is recognisable: ids of actors contain "ACTOR", references of channels "REF", and
// content "CONTENT".
package storefixture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"pistate/store"
)

// Now is the moment at which the databases are to be looked at.
var Now = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// Build makes the database of a name at a path.
func Build(path, name string) error {
	story, ok := stories[name]
	if !ok {
		return fmt.Errorf("there is no fixture %q", name)
	}
	b, err := newBuilder(path)
	if err != nil {
		return err
	}
	story(b)
	return errors.Join(b.err, b.Close())
}

func newBuilder(path string) (b *builder, err error) {
	b = &builder{now: Now.Add(-3 * time.Hour)}
	var seed [32]byte
	b.Store, err = store.Open(context.Background(), path, store.Options{
		Now:         func() time.Time { return b.now },
		Random:      rand.NewChaCha8(seed),
		AppVersion:  "fixture",
		FollowLinks: func(path string) (string, error) { return path, nil },
	})
	return b, err
}

// Bytes returns the file of a database, as it is when nobody has it open.
func Bytes(name string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "pistate-fixture-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "state.sqlite")
	if err := Build(path, name); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// builder carries out commands until one fails.
type builder struct {
	*store.Store
	now time.Time
	err error
}

var (
	host1   = store.Actor{Class: store.HostActor, ID: "ACTOR-host-1"}
	host2   = store.Actor{Class: store.HostActor, ID: "ACTOR-host-2"}
	pi1     = store.Actor{Class: store.SessionActor, ID: "ACTOR-pi-1"}
	ann     = store.Actor{Class: store.HumanActor, ID: "ACTOR-ann"}
	deputy  = store.Actor{Class: store.ControllerActor, ID: "ACTOR-deployer"}
	adapter = store.Actor{Class: store.ChannelActor, ID: "ACTOR-telegram"}
	control = store.Actor{Class: store.ControlActor}
)

func (b *builder) pass(d time.Duration) { b.now = b.now.Add(d) }

func (b *builder) millis(d time.Duration) store.Millis { return store.MillisOf(b.now.Add(d)) }

// do carries out a command that no revision matters to.
func do[R any](b *builder, actor store.Actor, claim *store.Claim, cmd store.Command[R]) (result R) {
	return doAt(b, actor, claim, store.AnyRevision, cmd)
}

func doAt[R any](b *builder, actor store.Actor, claim *store.Claim, revision int64, cmd store.Command[R]) (result R) {
	if b.err != nil {
		return result
	}
	done, err := store.Do(context.Background(), b.Store, store.Permit{Actor: actor, Expected: revision, Claim: claim}, cmd)
	if err != nil {
		b.err = fmt.Errorf("%s %+v: %w", cmd.Op(), cmd, err)
	}
	return done.Result
}

// revision is the revision of a resource now.
func (b *builder) revision(id store.ResourceID) int64 {
	if b.err != nil {
		return 0
	}
	r, err := b.Resource(context.Background(), id)
	if err != nil {
		b.err = err
	}
	return r.Revision
}

// owned is a resource with the claim of its owner.
type owned struct {
	*builder
	id    string
	actor store.Actor
	claim *store.Claim
}

// as carries out a command on a resource as its owner.
func as[R any](o owned, cmd store.Command[R]) R {
	var revision int64
	if o.claim != nil {
		revision = o.revision(o.claim.Resource)
	}
	return doAt(o.builder, o.actor, o.claim, revision, cmd)
}

// own claims a resource for some time.
func (b *builder) own(actor store.Actor, t store.ResourceType, id string, ttl time.Duration) owned {
	claim := do(b, actor, nil, store.ClaimLease{Resource: store.NewResourceID(t, id), TTLMS: ttl.Milliseconds()})
	return owned{b, id, actor, claim}
}

func object(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}
