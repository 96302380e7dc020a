package store

import (
	"context"
	"encoding/json"
	"errors"

	"pistate/schema"
)

// ContinuationHandler returns the handler of [EffectContinuationAdmit] for an [EffectWorker] of the same
// actor and claim. spec says what the run is asked to do, as for [AdmitContinuation]; nil if there is to be
// none, because the parent goes on by itself.
//
// A continuation that can't be admitted now, as while its session is reserved, is tried again. One that was
// cancelled is rejected.
func ContinuationHandler(s *Store, actor Actor, claim *Claim, spec func(context.Context, Continuation) (*RunSpec, error)) EffectHandler {
	h := &continuationHandler{s, Permit{Actor: actor, Expected: AnyRevision, Claim: claim}, spec}
	return EffectHandler{Apply: h.apply}
}

type continuationHandler struct {
	store  *Store
	permit Permit
	spec   func(context.Context, Continuation) (*RunSpec, error)
}

func (h *continuationHandler) apply(ctx context.Context, _ Begun, payload json.RawMessage) (Applied, error) {
	var asked struct {
		Continuation string `json:"continuation"`
	}
	if err := json.Unmarshal(payload, &asked); err != nil {
		return Applied{}, Rejected(err)
	}
	c, err := h.store.Continuation(ctx, asked.Continuation)
	if err != nil {
		return Applied{}, err
	}
	if c.Status == ContinuationPending {
		if c, err = h.settle(ctx, c); err != nil {
			return Applied{}, err
		}
	}
	if c.Status == ContinuationCancelled {
		return Applied{}, Rejected(errors.New("the continuation was cancelled"))
	}
	result, err := json.Marshal(map[string]string{"run": c.Run})
	return Applied{Result: result}, err
}

// settle admits a continuation, or cancels it.
func (h *continuationHandler) settle(ctx context.Context, c Continuation) (Continuation, error) {
	run, err := h.spec(ctx, c)
	if err != nil {
		return c, err
	}
	if run == nil {
		_, err = Do(ctx, h.store, h.permit, CancelContinuation{Continuation: c.ID, Parent: c.Parent})
	} else {
		_, err = Do(ctx, h.store, h.permit, AdmitContinuation{c.ID, *run})
	}
	if err != nil && !errors.Is(err, schema.IllegalTransition) {
		return c, err
	}
	again, readErr := h.store.Continuation(ctx, c.ID) // somebody else may have settled it meanwhile
	if err == nil || readErr != nil || again.Status != ContinuationPending {
		err = readErr
	}
	return again, err
}
