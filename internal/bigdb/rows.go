package bigdb

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

const definition = `{"name":"review","nodes":[{"id":"plan","type":"shell"},{"id":"work","type":"shell"},{"id":"test","type":"shell"}]}`

var nodes = []string{"plan", "work", "test"}

// projects are the directories of the runs; their ids are those that the store derives from the paths.
var projects = []string{"/home/ann/blog", "/home/ann/shop"}

func derivedID(prefix string, parts ...string) string {
	h := sha256.New()
	for _, part := range append([]string{prefix}, parts...) {
		fmt.Fprintf(h, "%s%s", lengthOf(part), part)
	}
	return prefix + "_" + hex.EncodeToString(h.Sum(nil)[:16])
}

func lengthOf(part string) string {
	var b [8]byte
	for i, n := 7, len(part); i >= 0; i, n = i-1, n>>8 {
		b[i] = byte(n)
	}
	return string(b[:])
}

func (b *builder) rows() error {
	digest, err := b.blob(definition)
	if err != nil {
		return err
	}
	if err := b.exec("INSERT INTO workflow_definitions VALUES (?1, 'review', ?2)", digest, start); err != nil {
		return err
	}
	for _, path := range projects {
		if err := b.exec("INSERT INTO projects VALUES (?1, ?2, ?3)", derivedID("prj", path), path, start); err != nil {
			return err
		}
	}
	for i := range b.size.Runs {
		if err := b.run(i, digest); err != nil {
			return err
		}
	}
	return nil
}

// run is one run with all that belongs to it. One of a hundred is at work, and one waits for people.
func (b *builder) run(i int, definition []byte) error {
	r := runRows{builder: b, id: fmt.Sprintf("run-%05d", i), created: start + int64(i)*minute, status: "completed"}
	r.ended = r.created + minute
	switch i % 100 {
	case 1:
		r.status, r.ended = "running", 0
	case 2:
		r.status, r.ended = "waiting", 0
	case 3:
		r.status = "failed"
	}
	for _, part := range []func() error{
		func() error { return r.run(projects[i%len(projects)], definition) }, r.attempts, r.events, r.decision, r.effect,
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

type runRows struct {
	*builder
	id             string
	status         string
	created, ended int64
}

func orNull(at int64) any {
	if at == 0 {
		return nil
	}
	return at
}

func (r *runRows) run(project string, definition []byte) error {
	input, err := r.blob(fmt.Sprintf(`{"pr":%q}`, r.id))
	if err != nil {
		return err
	}
	var output, failure any
	switch r.status {
	case "completed":
		output = input
	case "failed":
		failure = input
	}
	err = r.resource("run:"+r.id, "run", r.id, r.size.Events, r.ended)
	if err == nil {
		err = r.exec(`INSERT INTO runs (run_id, project_id, definition_digest, source_type, source_ref, request_digest, title, status,
			input_blob, output_blob, error_blob, created_at, updated_at, started_at, ended_at)
			VALUES (?1, ?2, ?3, 'builtin', 'review', ?4, ?5, ?6, ?4, ?7, ?8, ?9, ?9, ?9, ?10)`,
			r.id, derivedID("prj", project), definition, input, "Review "+r.id, r.status, output, failure, r.created, orNull(r.ended))
	}
	if err == nil {
		err = r.exec("INSERT INTO run_bindings VALUES (?1, ?2, 'interactive', ?3)", r.id, "pi-"+r.id[len(r.id)-2:], r.created)
	}
	if err != nil {
		return err
	}
	queue := map[string]string{"completed": "done", "failed": "failed", "running": "running", "waiting": "parked"}[r.status]
	var code any
	errors := 0
	if queue == "failed" {
		code, errors = "model.gone", 1
	}
	err = r.exec(`INSERT INTO run_queue (run_id, project_id, status, available_at, error_count, error_code, enqueued_at, updated_at, settled_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?4, ?4, ?7)`, r.id, derivedID("prj", project), queue, r.created, errors, code, orNull(r.ended))
	if err != nil {
		return err
	}
	if r.status != "running" {
		return r.exec("INSERT INTO leases (resource_id, generation) VALUES (?1, 1)", "run:"+r.id)
	}
	token := sha256.Sum256([]byte(r.id))
	return r.exec("INSERT INTO leases VALUES (?1, 1, 'host', 'host-1', ?2, ?3, ?3, ?4)", "run:"+r.id, token[:], r.created, r.created+minute)
}

func (r *runRows) resource(id, kind, key string, revision int, ended int64) error {
	return r.exec(`INSERT INTO resources (resource_id, resource_type, aggregate_key, revision, created_at, updated_at, ended_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6)`, id, kind, key, revision, r.created, orNull(ended))
}

func (r *runRows) attempts() error {
	for n := range r.size.Attempts {
		node := nodes[n%len(nodes)]
		number := n/len(nodes) + 1
		status, ended := "completed", any(r.created+int64(n+1)*1000)
		output, err := r.blob(fmt.Sprintf(`{"made":%d,"by":%q}`, n, r.id))
		if err != nil {
			return err
		}
		made := any(output)
		if last := n == r.size.Attempts-1; last && r.ended == 0 {
			status, ended, made = r.status, nil, nil
		}
		err = r.exec(`INSERT INTO node_attempts (attempt_id, run_id, ordinal, node_id, attempt_number, node_type, status, output_blob,
			created_at, updated_at, started_at, ended_at) VALUES (?1, ?2, ?3, ?4, ?5, 'shell', ?6, ?7, ?8, ?8, ?8, ?9)`,
			derivedID("att", r.id, node, fmt.Sprint(number)), r.id, n+1, node, number, status, made, r.created+int64(n)*1000, ended)
		if err != nil {
			return err
		}
	}
	return nil
}

// event adds the event of a revision.
func (r *runRows) event(resource string, revision int, kind string, at int64) error {
	r.sequence++
	payload, err := r.blob(fmt.Sprintf(`{"kind":%q,"n":%d}`, kind, r.sequence/10))
	if err != nil {
		return err
	}
	return r.exec(`INSERT INTO events (sequence, event_id, resource_id, revision, run_id, event_type, actor_class, actor_id, payload_blob, committed_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'host', 'host-1', ?7, ?8)`,
		r.sequence, fmt.Sprintf("evt_%032x", r.sequence), resource, revision, r.id, kind, payload, at)
}

func (r *runRows) events() error {
	kinds := []string{"attempt.began", "update.appended", "update.appended", "attempt.finished"}
	for n := range r.size.Events {
		kind := kinds[n%len(kinds)]
		switch {
		case n == 0:
			kind = "run.created"
		case n == r.size.Events-1 && r.ended != 0:
			kind = "run." + r.status
		}
		if err := r.event("run:"+r.id, n+1, kind, r.created+int64(n)*minute/int64(r.size.Events)); err != nil {
			return err
		}
	}
	return nil
}

// decision is a question; those of runs that wait are not answered.
func (r *runRows) decision() error {
	content, err := r.blob(`{"plan":"the plan"}`)
	if err != nil {
		return err
	}
	type choice struct {
		ID    string `json:"id"`
		Label string `json:"label"`
	}
	list, err := json.Marshal([]choice{{"ship", "Ship it"}})
	if err != nil {
		return err
	}
	choices, err := r.blob(string(list))
	if err != nil {
		return err
	}
	id := derivedID("dec", r.id, "ship", "1")
	status, resolved, revision := "accepted", any(r.created+1), 2
	if r.status == "waiting" {
		status, resolved, revision = "pending", nil, 1
	}
	ended := int64(0)
	if resolved != nil {
		ended = r.created + 1
	}
	if err := r.resource("decision:"+id, "decision", id, revision, ended); err != nil {
		return err
	}
	err = r.exec(`INSERT INTO human_decisions (decision_id, run_id, decision_key, request_digest, audience, title, subject_blob,
		presentation_blob, choices_blob, created_at, status, resolved_at) VALUES (?1, ?2, 'ship', ?3, 'maintainers', 'Ship it?', ?3, ?3, ?4, ?5, ?6, ?7)`,
		id, r.id, content, choices, r.created, status, resolved)
	if err != nil {
		return err
	}
	if err := r.event("decision:"+id, 1, "decision.requested", r.created); err != nil || resolved == nil {
		return err
	}
	err = r.exec(`INSERT INTO human_decision_submissions (decision_id, sequence, submission_id, request_digest, choice, response_blob,
		actor_class, actor_id, outcome, submitted_at) VALUES (?1, 1, ?2, ?3, 'ship', ?3, 'human', 'ann', 'won', ?4)`,
		id, "answer-"+r.id, content, r.created+1)
	if err != nil {
		return err
	}
	err = r.exec(`INSERT INTO human_decision_resolutions (decision_id, outcome, reason, submission_sequence, choice, response_blob,
		actor_class, actor_id, resolved_at) VALUES (?1, 'accepted', 'human', 1, 'ship', ?2, 'human', 'ann', ?3)`, id, content, r.created+1)
	if err != nil {
		return err
	}
	return r.event("decision:"+id, 2, "decision.accepted", r.created+1)
}

// effect follows from the run; those of runs that go on are still to be done.
func (r *runRows) effect() error {
	payload, err := r.blob(`{"to":"everybody"}`)
	if err != nil {
		return err
	}
	id := derivedID("eff", "run:"+r.id, "mail.send", "done")
	status, available, attempts, settled := "applied", any(nil), 1, any(r.ended)
	revision := 3
	if r.ended == 0 {
		status, available, attempts, settled, revision = "pending", r.created, 0, nil, 1
	}
	if err := r.resource("effect:"+id, "effect", id, revision, r.ended); err != nil {
		return err
	}
	for n := range revision {
		kind := []string{"effect.recorded", "effect.begun", "effect.applied"}[n]
		if err := r.event("effect:"+id, n+1, kind, r.created+int64(n)); err != nil {
			return err
		}
	}
	r.effects++
	err = r.exec(`INSERT INTO effects (sequence, effect_id, source_resource_id, source_revision, effect_type, idempotency_key, payload_blob,
		is_external, scope_type, scope_id, status, available_at, attempt_count, created_at, updated_at, settled_at)
		VALUES (?1, ?2, ?3, 1, 'mail.send', 'done', ?4, 1, 'run', ?5, ?6, ?7, ?8, ?9, ?9, ?10)`,
		r.effects, id, "run:"+r.id, payload, r.id, status, available, attempts, r.created, settled)
	if err != nil || attempts == 0 {
		return err
	}
	err = r.exec(`INSERT INTO effect_attempts (effect_id, attempt_number, owner_type, owner_id, lease_generation, outcome, started_at, ended_at)
		VALUES (?1, 1, 'host', 'host-1', 1, 'applied', ?2, ?3)`, id, r.created, r.ended)
	if err != nil {
		return err
	}
	return r.exec("INSERT INTO leases (resource_id, generation) VALUES (?1, 1)", "effect:"+id)
}
