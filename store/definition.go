package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// OpDefinitionRegister is the operation on workflow definitions.
const OpDefinitionRegister Op = "definition.register"

var definitionOperations = []Operation{{
	Op: OpDefinitionRegister, Does: "make a workflow definition known by its content",
	Eventless: true, // a definition is immutable: its row is its record
	Rights:    rights(Right{}, SessionActor, HostActor, ControllerActor, SystemActor),
}}

// Definition is a workflow that runs can be of. Its content is the blob with the same digest: a JSON object
// that has at least
//
//	{"name": "review", "nodes": [{"id": "plan", "type": "agent", "expectedOutput": ...}, {"id": "test", "type": "shell"}]}
//
// The rest of it is the author's and is never looked at.
type Definition struct {
	Digest    Digest `json:"digest"`
	Name      string `json:"name"`
	CreatedAt Millis `json:"created_at"`
}

// Node is one node of a definition.
type Node struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Expected ExpectedOutput `json:"expected_output,omitempty"` // of an agent
	MaxChars int64          `json:"max_chars,omitempty"`       // the author's limit on an assistant message; 0: none
}

// AgentNode is the one type of nodes that the store knows of: a node of any other type has no expected output.
const AgentNode = "agent"

// ExpectedOutput is how an agent hands over what it has made (D4).
type ExpectedOutput string

// The ways to hand over. Nodes that are no agents have none.
const (
	SubmittedOutput  ExpectedOutput = "submitted"         // as JSON, by a call that says so
	AssistantMessage ExpectedOutput = "assistant-message" // the text of its last message, as it is
)

const maxNodes = 10_000

const (
	selDefinition = `
		SELECT definition_digest, name, created_at
		  FROM workflow_definitions
		 WHERE definition_digest = ?1`

	selDefinitions = `
		SELECT definition_digest, name, created_at
		  FROM workflow_definitions
		 WHERE (name, created_at, definition_digest) > (?1, ?2, ?3)
		 ORDER BY name, created_at, definition_digest
		 LIMIT ?4`

	insDefinition = `
		INSERT INTO workflow_definitions (definition_digest, name, created_at)
		VALUES (?1, ?2, ?3)`

	// A blob that is text must be called text: a BLOB would be taken for SQLite's own binary JSON.
	selNodes = `
		SELECT n.value ->> '$.id', n.value ->> '$.type', n.value -> '$.expectedOutput'
		  FROM blobs AS b, json_each(CAST(b.bytes AS TEXT), '$.nodes') AS n
		 WHERE b.digest = ?1
		 ORDER BY n.key`

	selNode = `
		SELECT n.value ->> '$.id', n.value ->> '$.type', n.value -> '$.expectedOutput'
		  FROM blobs AS b, json_each(CAST(b.bytes AS TEXT), '$.nodes') AS n
		 WHERE b.digest = ?1
		   AND n.value ->> '$.id' = ?2`
)

func scanDefinition(r sqlite.Row) Definition {
	return Definition{*digestOf(r.Bytes(0)), r.Text(1), Millis(r.Int64(2))}
}

func getDefinition(rx *sqlite.Rx, digest Digest) (def Definition, found bool, err error) {
	found, err = rx.QueryRow(selDefinition, func(r sqlite.Row) error {
		def = scanDefinition(r)
		return nil
	}, digest[:])
	return def, found, err
}

// scanNode reads a node of a definition that was checked when it was registered.
func scanNode(r sqlite.Row) (Node, error) {
	n := Node{ID: r.Text(0), Type: r.Text(1)}
	if n.Type != AgentNode {
		return n, nil
	}
	var err error
	n.Expected, n.MaxChars, err = parseExpectedOutput(r.Bytes(2))
	return n, err
}

func getNode(rx *sqlite.Rx, definition Digest, id string) (n Node, found bool, err error) {
	found, err = rx.QueryRow(selNode, func(r sqlite.Row) (err error) {
		n, err = scanNode(r)
		return err
	}, definition[:], id)
	return n, found, err
}

func listNodes(rx *sqlite.Rx, definition Digest) (nodes []Node, err error) {
	err = rx.Query(selNodes, func(r sqlite.Row) error {
		n, err := scanNode(r)
		nodes = append(nodes, n)
		return err
	}, definition[:])
	return nodes, err
}

// definitionForm is what the store reads of a definition.
type definitionForm struct {
	Name  string `json:"name"`
	Nodes []struct {
		ID             string         `json:"id"`
		Type           string         `json:"type"`
		ExpectedOutput jsontext.Value `json:"expectedOutput"`
	} `json:"nodes"`
}

// definition checks a definition and returns its name and content.
func (d *draft) definition(definition json.RawMessage) (name string, c *content) {
	if c = d.json("definition", definition); c == nil {
		return "", nil
	}
	var form definitionForm
	if err := jsonv2.Unmarshal(c.bytes, &form); err != nil { // unlike the first version, it takes names as they are
		d.fail(misread("definition", err))
		return "", c
	}
	d.fail(checkID("definition: name", form.Name))
	if len(form.Nodes) == 0 || len(form.Nodes) > maxNodes {
		d.invalid("definition: it has %d nodes; from 1 to %d are possible", len(form.Nodes), maxNodes)
	}
	seen := map[string]bool{}
	for i, n := range form.Nodes {
		d.fail(checkID(fmt.Sprintf("definition: id of node %d", i+1), n.ID))
		d.fail(checkID("definition: type of node "+n.ID, n.Type))
		if seen[n.ID] {
			d.invalid("definition: two nodes have the id %q", n.ID)
		}
		seen[n.ID] = true
		switch {
		case n.Type != AgentNode && n.ExpectedOutput != nil:
			d.invalid("definition: node %q has an expectedOutput, which only a node of type %q can have", n.ID, AgentNode)
		case n.Type == AgentNode && n.ExpectedOutput == nil:
			d.invalid("definition: node %q is an agent and does not say its expectedOutput", n.ID)
		case n.Type == AgentNode:
			if _, _, err := parseExpectedOutput(n.ExpectedOutput); err != nil {
				d.invalid("definition: node %q: %w", n.ID, err)
			}
		}
	}
	return form.Name, c
}

// maxMaxChars is the largest whole number that every reader of JSON keeps.
const maxMaxChars = 1<<53 - 1

// parseExpectedOutput reads the expectedOutput of an agent: a text or an object that describes what is
// submitted, or {"kind": "assistant-message", "maxChars": n}, where maxChars may be left out (D4).
func parseExpectedOutput(value []byte) (expected ExpectedOutput, maxChars int64, err error) {
	var text string
	if jsonv2.Unmarshal(value, &text) == nil && text != "" {
		return SubmittedOutput, 0, nil
	}
	var object map[string]jsontext.Value
	if err := jsonv2.Unmarshal(value, &object); err != nil || object == nil {
		return "", 0, schema.Errorf(schema.Invalid, `expectedOutput %s: it is a text or an object that describes a submitted output, or {"kind":"assistant-message"}`, value)
	}
	switch kind := string(object["kind"]); kind {
	case "", `"submitted"`:
		return SubmittedOutput, 0, nil
	case `"assistant-message"`:
	default:
		return "", 0, schema.Errorf(schema.Invalid, `expectedOutput: kind %s: it is "submitted" or "assistant-message"`, kind)
	}
	limit, limited := object["maxChars"]
	delete(object, "kind")
	delete(object, "maxChars")
	for _, name := range slices.Sorted(maps.Keys(object)) {
		return "", 0, schema.Errorf(schema.Invalid, "expectedOutput: an assistant message has kind and maxChars, and no %q", name)
	}
	if !limited {
		return AssistantMessage, 0, nil
	}
	if err := jsonv2.Unmarshal(limit, &maxChars); err != nil || maxChars < 1 || maxChars > maxMaxChars {
		return "", 0, schema.Errorf(schema.Invalid, "expectedOutput: maxChars %s: it is a whole number from 1; leave it out for no limit", limit)
	}
	return AssistantMessage, maxChars, nil
}

// RegisterDefinition makes a workflow definition known, or finds it: the same content is the same
// definition.
//
// Errors: [schema.Invalid] for a definition without name or nodes, with two nodes of one id, or with an
// expected output that is none.
type RegisterDefinition struct {
	Definition json.RawMessage `json:"definition"`
}

// Op returns "definition.register".
func (RegisterDefinition) Op() Op { return OpDefinitionRegister }

func (c RegisterDefinition) prepare(d *draft) *plan[*Definition] {
	name, definition := d.definition(c.Definition)
	if definition == nil {
		return nil
	}
	return &plan[*Definition]{
		payload: struct {
			Definition *content `json:"definition"`
		}{definition},
		existing: func(rx *sqlite.Rx) (*Definition, bool, error) {
			def, found, err := getDefinition(rx, definition.digest)
			return &def, found, err
		},
		decide: func(f *facts) (*change[*Definition], error) {
			def := &Definition{definition.digest, name, f.now}
			return &change[*Definition]{
				result: def,
				rows: func(tx *sqlite.Tx) error {
					_, err := tx.Exec(insDefinition, def.Digest[:], def.Name, int64(def.CreatedAt))
					return err
				},
			}, nil
		},
	}
}

// Definition returns a definition by its digest. Errors: [schema.NotFound].
func (q *Queries) Definition(ctx context.Context, digest Digest) (def Definition, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		found := false
		def, found, err = getDefinition(rx, digest)
		if err == nil && !found {
			err = notFound("definition", digest.String())
		}
		return err
	})
	return def, err
}

// DefinitionNodes returns the nodes of a definition, in the author's order. Errors: [schema.NotFound].
func (q *Queries) DefinitionNodes(ctx context.Context, digest Digest) (nodes []Node, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		_, found, err := getDefinition(rx, digest)
		if err == nil && !found {
			err = notFound("definition", digest.String())
		}
		if err != nil {
			return err
		}
		nodes, err = listNodes(rx, digest)
		return err
	})
	return nodes, err
}

// Definitions returns at most limit definitions after one, by name and then by age. The zero value of after
// is before all.
func (q *Queries) Definitions(ctx context.Context, after Definition, limit int) (definitions []Definition, err error) {
	if err := checkPage(limit); err != nil {
		return nil, err
	}
	return viewList(ctx, q, scanDefinition, selDefinitions, after.Name, int64(after.CreatedAt), after.Digest[:], limit)
}
