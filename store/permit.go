package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"

	"pistate/schema"
)

// ActorClass is the kind of who asks. The set is closed (R5).
type ActorClass string

// The actor classes. The first four and System can own leases.
const (
	SessionActor    ActorClass = "session"    // a Pi session
	HostActor       ActorClass = "host"       // a host process of a project
	ControllerActor ActorClass = "controller" // a controller at work for one of its resources
	ChannelActor    ActorClass = "channel"    // a channel's adapter
	SystemActor     ActorClass = "system"     // the product's own upkeep
	HumanActor      ActorClass = "human"      // a person, verified by whoever asks
	PolicyActor     ActorClass = "policy"     // a rule that was agreed on before, such as a timeout's default
	ControlActor    ActorClass = "control"    // a person's narrow control command, such as a request to cancel
)

// ownerClasses are those that can own a lease (R2).
var ownerClasses = []ActorClass{SessionActor, HostActor, ControllerActor, ChannelActor, SystemActor}

var actorClasses = append(slices.Clone(ownerClasses), HumanActor, PolicyActor, ControlActor)

// Actor is who asks for a command.
type Actor struct {
	Class ActorClass `json:"class"`
	ID    string     `json:"id,omitempty"` // private; needed of those that can own a lease
}

func (a Actor) check() error {
	if !slices.Contains(actorClasses, a.Class) {
		return schema.Errorf(schema.Invalid, "actor class %q: it is one of %v", a.Class, actorClasses)
	}
	if a.ID == "" && !a.owns() {
		return nil
	}
	return checkID("actor id", a.ID)
}

func (a Actor) owns() bool { return slices.Contains(ownerClasses, a.Class) }

// AnyRevision in a permit expects no particular revision. Only operations that do not depend on one accept it.
const AnyRevision int64 = -1

// Permit is what a caller believes of a command's resource, and whom it speaks for. It is no authority: the
// contract checks each fact against the database (W3).
type Permit struct {
	Actor Actor `json:"actor"`
	// Expected is the revision that the caller has seen: 0 for a resource that it wants to create.
	Expected int64 `json:"expected"`
	// Claim proves ownership, where the operation requires it.
	Claim *Claim `json:"claim,omitempty"`
	// Request, if set, names this command for good: sending it again has no second effect and returns the
	// first one's result, sending another command under the same name is a conflict (W5). Names are for the
	// whole database.
	Request string `json:"request,omitempty"`
	// SecretsReviewed says that somebody has looked at the values of this command, so that one with the
	// shape of a secret is not refused (R11).
	SecretsReviewed bool `json:"secrets_reviewed,omitempty"`
}

func (p Permit) check() error {
	if err := p.Actor.check(); err != nil {
		return err
	}
	if p.Expected < AnyRevision {
		return schema.Errorf(schema.Invalid, "expected revision %d: it is at least 0, or %d for any", p.Expected, AnyRevision)
	}
	if p.Request == "" {
		return nil
	}
	return checkID("request", p.Request)
}

const tokenBytes = 32

// Claim is the proof that its holder owns a resource's lease: the generation, and a random token that is
// stored nowhere. It prints, formats, logs and marshals without the token.
type Claim struct {
	Resource   ResourceID
	Generation int64
	ExpiresAt  Millis // as far as the holder knows; the database decides

	token [tokenBytes]byte
}

// ParseClaim makes a Claim of what its holder has kept of it. Errors: [schema.Invalid] for a text that
// [Claim.Token] can't have returned.
func ParseClaim(resource ResourceID, generation int64, token string) (*Claim, error) {
	c := &Claim{Resource: resource, Generation: generation}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != tokenBytes || len(token) != base64.RawURLEncoding.EncodedLen(tokenBytes) { // a line break is skipped
		return nil, schema.Errorf(schema.Invalid, "claim on %s: the token is not one that was handed out", resource)
	}
	copy(c.token[:], b)
	return c, nil
}

// Token returns the secret of the claim, for its holder alone: whoever has it can write as the owner.
func (c *Claim) Token() string { return base64.RawURLEncoding.EncodeToString(c.token[:]) }

func (c *Claim) digest() [32]byte { return sha256.Sum256(c.token[:]) }

// claimFacts is a claim as everybody may see it.
type claimFacts struct {
	Resource   ResourceID `json:"resource"`
	Generation int64      `json:"generation"`
	ExpiresAt  Millis     `json:"expires_at,omitempty"`
	Token      string     `json:"token,omitempty"`
}

func (c Claim) facts() claimFacts {
	return claimFacts{Resource: c.Resource, Generation: c.Generation, ExpiresAt: c.ExpiresAt}
}

// String returns the claim without its token.
func (c Claim) String() string {
	return fmt.Sprintf("claim{%s generation %d token redacted}", c.Resource, c.Generation)
}

// Format prints the claim without its token, whatever the verb.
func (c Claim) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, c.String()) }

// LogValue logs the claim without its token.
func (c Claim) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON leaves the token out.
func (c Claim) MarshalJSON() ([]byte, error) { return json.Marshal(c.facts()) }

// UnmarshalJSON reads a claim that a caller sends, with its token.
func (c *Claim) UnmarshalJSON(data []byte) error {
	var f claimFacts
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	parsed, err := ParseClaim(f.Resource, f.Generation, f.Token)
	if err != nil {
		return err
	}
	*c = *parsed
	c.ExpiresAt = f.ExpiresAt
	return nil
}
