package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pistate/schema"
)

// agentOf returns a definition with one agent of an expected output.
func agentOf(expected string) json.RawMessage {
	return json.RawMessage(`{"name":"d","nodes":[{"id":"a","type":"agent","expectedOutput":` + expected + `}]}`)
}

func TestExpectedOutput(t *testing.T) { // D4
	f := newFlow(t)
	for _, tc := range []struct {
		expected string
		want     Node
	}{
		{`"a list of files"`, Node{Expected: SubmittedOutput}},
		{`{"type":"object","properties":{"n":{"type":"number"}}}`, Node{Expected: SubmittedOutput}},
		{`{"kind":"submitted","description":"a list"}`, Node{Expected: SubmittedOutput}},
		{`{"kind":"assistant-message"}`, Node{Expected: AssistantMessage}},
		{`{"kind":"assistant-message","maxChars":1}`, Node{Expected: AssistantMessage, MaxChars: 1}},
		{`{"maxChars":9007199254740991,"kind":"assistant-message"}`, Node{Expected: AssistantMessage, MaxChars: 1<<53 - 1}},
	} {
		def := mustDo(t, f.Store, Permit{Actor: host1}, RegisterDefinition{agentOf(tc.expected)}).Result
		nodes, err := f.DefinitionNodes(t.Context(), def.Digest)
		tc.want.ID, tc.want.Type = "a", AgentNode
		if err != nil || !slices.Equal(nodes, []Node{tc.want}) {
			t.Errorf("%s: %+v, %v", tc.expected, nodes, err)
		}
	}
	for _, expected := range []string{
		`""`, `null`, `7`, `[]`, `{"kind":"assistant"}`, `{"kind":null}`, `{"kind":7}`, `{"kind":"assistant-message","maxchars":1}`,
		`{"kind":"assistant-message","maxChars":0}`, `{"kind":"assistant-message","maxChars":-1}`, `{"kind":"assistant-message","maxChars":1.5}`,
		`{"kind":"assistant-message","maxChars":"1"}`, `{"kind":"assistant-message","maxChars":null}`,
		`{"kind":"assistant-message","maxChars":9007199254740992}`, `{"kind":"assistant-message","description":"x"}`,
	} {
		_, err := Do(t.Context(), f.Store, Permit{Actor: host1}, RegisterDefinition{agentOf(expected)})
		if wantCode(t, err, schema.Invalid); !strings.Contains(err.Error(), `node "a"`) {
			t.Errorf("%s: the error does not name the node: %v", expected, err)
		}
	}
}

func TestDefinitionForm(t *testing.T) { // D1
	f := newFlow(t)
	var many []string
	for i := range maxNodes + 1 {
		many = append(many, fmt.Sprintf(`{"id":"n%d","type":"shell"}`, i))
	}
	for _, definition := range []string{
		``, `{`, `[]`, `{}`, `{"name":"d"}`, `{"name":"d","nodes":[]}`, `{"name":"","nodes":[{"id":"a","type":"shell"}]}`,
		`{"Name":"d","nodes":[{"id":"a","type":"shell"}]}`, // names are what they are
		`{"name":"d","nodes":[{"id":"a"}]}`, `{"name":"d","nodes":[{"type":"shell"}]}`, `{"name":"d","nodes":{"a":{"type":"shell"}}}`,
		`{"name":"d","nodes":[{"id":"a","type":"shell"},{"id":"a","type":"shell"}]}`,
		`{"name":"d","nodes":[{"id":"a","type":"agent"}]}`,
		`{"name":"d","nodes":[{"id":"a","type":"shell","expectedOutput":"x"}]}`,
		`{"name":"d","nodes":[{"id":"a\n","type":"shell"}]}`,
		`{"name":"d","nodes":[` + strings.Join(many, ",") + `]}`,
	} {
		_, err := Do(t.Context(), f.Store, Permit{Actor: host1}, RegisterDefinition{json.RawMessage(definition)})
		wantCode(t, err, schema.Invalid)
	}
}

// What is wrong with a definition is said in the protocol's words, and in the same ones each time: every build
// answers the same.
func TestDefinitionProblems(t *testing.T) { // D1
	f := newFlow(t)
	assistant := agentOf(`{"kind":"assistant-message","d":1,"b":1,"a":1,"c":1,"e":1}`)
	for definition, want := range map[string]string{
		`{"name":"d","nodes":{}}`:          "definition.nodes: an array is expected, not an object",
		`{"name":7}`:                       "definition.name: a string is expected, not a number",
		`{"name":"d","nodes":[1]}`:         "definition.nodes[0]: an object is expected, not a number",
		`{"name":"d","nodes":[{"id":{}}]}`: "definition.nodes[0].id: a string is expected, not an object",
		`[]`:                               "definition: an object is expected, not an array",
		string(assistant):                  `no "a"`,
	} {
		for range 3 {
			_, err := Do(t.Context(), f.Store, Permit{Actor: host1}, RegisterDefinition{json.RawMessage(definition)})
			if wantCode(t, err, schema.Invalid); !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", definition, err, want)
			}
		}
	}
}

func TestDefinitionsAreImmutable(t *testing.T) { // D1, W5
	f := newFlow(t)
	before := dump(t, f.Path())
	same := mustDo(t, f.Store, Permit{Actor: host2}, RegisterDefinition{json.RawMessage(strings.ReplaceAll(reviewFlow, "\n", " "))})
	if !same.Adopted || same.Result.Digest != f.definition || same.Result.Name != "review" {
		t.Errorf("%+v", same)
	}
	if dump(t, f.Path()) != before {
		t.Error("registering again changed the database")
	}
	changed := mustDo(t, f.Store, Permit{Actor: host1}, RegisterDefinition{json.RawMessage(strings.Replace(reviewFlow, "20", "21", 1))})
	if changed.Adopted || changed.Result.Digest == f.definition {
		t.Errorf("%+v", changed)
	}
	blob, err := f.Blob(t.Context(), f.definition)
	if err != nil || blob.MediaType != JSONMedia {
		t.Errorf("%+v, %v", blob, err)
	}
	var all []Definition
	for after := (Definition{}); ; {
		page, err := f.Definitions(t.Context(), after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
		after = page[len(page)-1]
	}
	if len(all) != 2 || all[0].Digest == all[1].Digest {
		t.Errorf("%+v", all)
	}
	if def, err := f.Definition(t.Context(), f.definition); err != nil || !slices.Contains(all, def) {
		t.Errorf("%+v, %v", def, err)
	}
	_, err = f.Definition(t.Context(), Digest{})
	wantCode(t, err, schema.NotFound)
	_, err = f.DefinitionNodes(t.Context(), Digest{})
	wantCode(t, err, schema.NotFound)
	_, err = f.Definitions(t.Context(), Definition{}, 0)
	wantCode(t, err, schema.Invalid)
}
