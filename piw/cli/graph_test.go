package cli

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"pistate/internal/cli"
	"pistate/store"
)

// winding is a run that goes back, skips and repeats, with texts that mean something to XML.
func winding() *graph {
	env := &cli.Env{Now: func() time.Time { return time.UnixMilli(100_000) }}
	nodes := []store.Node{{ID: "plan", Type: "agent"}, {ID: "work <&\"'>", Type: "agent"}, {ID: "review", Type: "agent"}, {ID: "test", Type: "shell"}, {ID: "ship", Type: "shell"}, {ID: "never", Type: "shell"}}
	var attempts []store.NodeAttempt
	for i, at := range []int{0, 1, 2, 1, 2, 1, 2, 1, 2, 1, 3, 3, 1, 4, 0, 3} {
		attempts = append(attempts, store.NodeAttempt{Node: nodes[at].ID, Ordinal: i + 1, Status: store.AttemptCompleted, StartedAt: 1000, EndedAt: 31_000})
	}
	last := &attempts[len(attempts)-1]
	last.Status, last.EndedAt = store.AttemptFailed, 61_000
	return newGraph(env, store.Run{Title: "Back & <forth>", Status: store.RunFailed, EndedAt: 61_000}, nodes, attempts)
}

func TestGraphCountsWaysAndTimes(t *testing.T) {
	g := winding()
	label := map[[2]int]string{}
	for _, e := range g.edges {
		label[[2]int{e.from, e.to}] = e.label()
	}
	for way, want := range map[[2]int]string{
		{graphStart, 0}: "1", {0, 1}: "2", {1, 2}: "3, 5, 7, 9", {2, 1}: "4, 6, 8, 10", {1, 3}: "11", {3, 3}: "12", {3, 1}: "13",
		{1, 4}: "14", {4, 0}: "15", {0, 3}: "16", {3, graphEnd}: "17",
	} {
		if label[way] != want {
			t.Errorf("%v: %q, want %q", way, label[way], want)
		}
	}
	if len(g.edges) != 11 {
		t.Errorf("%d edges", len(g.edges))
	}
	if n := g.nodes[3]; n.attempts != 3 || n.took != 2*time.Minute || n.status != "failed" {
		t.Errorf("%+v", n)
	}
	if n := g.nodes[5]; strings.Join(n.lines(), "|") != "never|shell|not begun" {
		t.Errorf("%q", n.lines())
	}
}

func TestGraphSVGIsXML(t *testing.T) {
	var b strings.Builder
	if err := winding().write(&b, "svg"); err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("PISTATE_SVG"); path != "" { // to look at it
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	count := map[string]int{}
	texts := ""
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			count[token.Name.Local]++
		case xml.CharData:
			texts += string(token) + "\n"
		}
	}
	// A background, 6 nodes and the end; an arrow head and 11 ways.
	if count["rect"] != 8 || count["path"] != 12 || count["circle"] != 1 {
		t.Errorf("%v", count)
	}
	for _, want := range []string{"Back & <forth>", `work <&"'>`, "not begun", "4, 6, 8, 10"} {
		if !strings.Contains(texts, want+"\n") {
			t.Errorf("the text %q is missing", want)
		}
	}
}
