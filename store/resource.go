package store

import (
	"context"
	"slices"
	"strings"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// ResourceType is the kind of a mutable aggregate. The set is closed (R1).
type ResourceType string

// The resource types.
const (
	RunResource          ResourceType = "run"
	SessionResource      ResourceType = "session" // a capture segment
	DecisionResource     ResourceType = "decision"
	ControllerResource   ResourceType = "controller"
	EffectResource       ResourceType = "effect"
	ChannelResource      ResourceType = "channel"
	NotificationResource ResourceType = "notification"
	TurnIntentResource   ResourceType = "turn_intent"
)

// aggregates says in which table, under which key, each type has its own row, and which column tells that
// it has ended.
var aggregates = []struct {
	resource           ResourceType
	table, key, endsAt string // endsAt: "" if it never ends
}{
	{RunResource, "runs", "run_id", "ended_at"},
	{SessionResource, "session_segments", "segment_id", "ended_at"},
	{DecisionResource, "human_decisions", "decision_id", "resolved_at"},
	{ControllerResource, "controller_resources", "controller_uid", "deleted_at"},
	{EffectResource, "effects", "effect_id", "settled_at"},
	{ChannelResource, "channels", "channel_id", ""},
	{NotificationResource, "notifications", "notification_id", "resolved_at"},
	{TurnIntentResource, "turn_intents", "turn_intent_id", "resolved_at"},
}

// ResourceID names a resource: its type, a colon, and the id of the aggregate, as in "run:r1".
type ResourceID string

// NewResourceID returns the id of an aggregate's resource.
func NewResourceID(t ResourceType, aggregate string) ResourceID {
	return ResourceID(string(t) + ":" + aggregate)
}

// Type returns the part before the colon.
func (id ResourceID) Type() ResourceType {
	t, _, _ := strings.Cut(string(id), ":")
	return ResourceType(t)
}

// Aggregate returns the id of the aggregate.
func (id ResourceID) Aggregate() string {
	_, key, _ := strings.Cut(string(id), ":")
	return key
}

func (id ResourceID) check(field string) error {
	if err := checkID(field, id.Aggregate()); err != nil {
		return err
	}
	for _, a := range aggregates {
		if a.resource == id.Type() {
			return nil
		}
	}
	return schema.Errorf(schema.Invalid, "%s %q: %q is no resource type", field, id, id.Type())
}

// run returns the run that a resource is, or "".
func (id ResourceID) run() string {
	if id.Type() == RunResource {
		return id.Aggregate()
	}
	return ""
}

// Resource is what every mutable aggregate has in common.
type Resource struct {
	ID        ResourceID `json:"id"`
	Revision  int64      `json:"revision"` // of the last accepted command; 0: there is no such resource
	CreatedAt Millis     `json:"created_at"`
	UpdatedAt Millis     `json:"updated_at"`
	EndedAt   Millis     `json:"ended_at,omitempty"` // 0: it goes on
}

const (
	selResource = `
		SELECT resource_id, revision, created_at, updated_at, ended_at
		  FROM resources
		 WHERE resource_id = ?1`

	insResource = `
		INSERT INTO resources (resource_id, resource_type, aggregate_key, revision, created_at, updated_at)
		VALUES (?1, ?2, ?3, 0, ?4, ?4)`

	// The revision that it is moved from was read in the same transaction.
	updRevision = `
		UPDATE resources
		   SET revision   = revision + 1,
		       updated_at = max(updated_at, ?2),
		       ended_at   = ifnull(ended_at, ?3)
		 WHERE resource_id = ?1
		RETURNING revision`
)

func getResource(rx *sqlite.Rx, id ResourceID) (res Resource, err error) {
	res.ID = id
	_, err = rx.QueryRow(selResource, func(r sqlite.Row) error {
		res = Resource{ResourceID(r.Text(0)), r.Int64(1), Millis(r.Int64(2)), Millis(r.Int64(3)), Millis(r.Int64(4))}
		return nil
	}, string(id))
	return res, err
}

// moveRevision counts one more accepted command of a resource.
func moveRevision(tx *sqlite.Tx, st step, now Millis) (revision int64, err error) {
	id := st.resource
	if st.creates {
		if _, err := tx.Exec(insResource, string(id), string(id.Type()), id.Aggregate(), int64(now)); err != nil {
			return 0, err
		}
	}
	var endedAt any
	if st.ends {
		if err := clearOwner(tx, id); err != nil { // nobody owns what has ended
			return 0, err
		}
		endedAt = int64(now)
	}
	found, err := tx.QueryRow(updRevision, func(r sqlite.Row) error {
		revision = r.Int64(0)
		return nil
	}, string(id), int64(now), endedAt)
	if err == nil && !found {
		err = notFound("resource", string(id))
	}
	return revision, err
}

// Resource returns the revision and times of a resource. Errors: [schema.NotFound].
func (q *Queries) Resource(ctx context.Context, id ResourceID) (res Resource, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		res, err = getResource(rx, id)
		if err == nil && res.Revision == 0 {
			err = notFound("resource", string(id))
		}
		return err
	})
	return res, err
}

const maxIDBytes = 256

// checkID refuses what can't be an id: empty, longer than 256 bytes, not UTF-8, or with a control character.
func checkID(field, id string) error {
	switch {
	case id == "":
		return schema.Errorf(schema.Invalid, "%s is empty", field)
	case len(id) > maxIDBytes:
		return schema.Errorf(schema.Limit, "%s has %d bytes; at most %d are allowed", field, len(id), maxIDBytes)
	}
	return checkText(field, id)
}

// checkText refuses what can't be a text of one line.
func checkText(field, text string) error {
	bad := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }
	if i := slices.IndexFunc([]rune(text), bad); i >= 0 {
		return schema.Errorf(schema.Invalid, "%s %q: character %d is a control character or not UTF-8", field, text, i+1)
	}
	return nil
}
