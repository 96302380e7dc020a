package store

import (
	"context"
	"errors"
	"time"

	"pistate/schema"
)

// Keep renews a claim every third of ttl until stop is called or ctx ends. The context that it returns is
// for the work that needs the claim: it ends when the claim is lost, with the reason as its cause
// (context.Cause). A renewal that fails for any other reason, as while another process holds the database,
// is tried again until the lease has really expired (R3).
//
// stop waits for a renewal that is under way and does not release the claim.
func Keep(ctx context.Context, s *Store, actor Actor, claim *Claim, ttl time.Duration) (kept context.Context, stop func()) {
	kept, lose := context.WithCancelCause(ctx)
	renewing, cancel := context.WithCancel(kept)
	k := &keeper{store: s, permit: Permit{Actor: actor, Expected: AnyRevision, Claim: claim}, ttl: ttl, expires: claim.ExpiresAt}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := k.run(renewing); err != nil {
			lose(err)
		}
	}()
	return kept, func() {
		cancel()
		<-done
		lose(nil) // frees the context; a loss that came before stays its cause
	}
}

type keeper struct {
	store   *Store
	permit  Permit
	ttl     time.Duration
	expires Millis
}

// run renews until ctx ends (nil) or the claim is lost.
func (k *keeper) run(ctx context.Context) error {
	for wait := k.ttl / 3; ; {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		renewed, err := Do(ctx, k.store, k.permit, RenewLease{Resource: k.permit.Claim.Resource, TTLMS: k.ttl.Milliseconds()})
		switch {
		case err == nil:
			k.expires, wait = renewed.Result.ExpiresAt, k.ttl/3
		case ctx.Err() != nil:
			return nil
		case final(err):
			return err
		case MillisOf(k.store.now()) >= k.expires:
			return schema.Errorf(schema.StaleClaim, "the claim on %s expired before it could be renewed: %w", k.permit.Claim.Resource, err)
		default:
			wait = max(k.ttl/40, time.Millisecond)
		}
	}
}

// final reports whether a renewal that failed so can't succeed later.
func final(err error) bool {
	for _, code := range []schema.Code{schema.StaleClaim, schema.Denied, schema.Invalid, schema.NotFound, schema.Incompatible, schema.Replaced, schema.Closed} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}
