package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"pistate/internal/cli"
	"pistate/store"
)

// graph is a run as a picture: the nodes of its definition, and the ways that it took from one to the next.
type graph struct {
	title  string
	status store.RunStatus
	nodes  []graphNode
	edges  []graphEdge // in the order in which they were first taken
}

// graphNode is a node of the definition.
type graphNode struct {
	id, kind string
	status   string // of its last attempt; "" if it was never begun
	attempts int
	took     time.Duration // all attempts together
}

// The ends of the way, which are no nodes.
const (
	graphStart = -1
	graphEnd   = -2
)

// graphEdge is a way from one node to another, by their places.
type graphEdge struct {
	from, to int
	steps    []int // when it was taken: before which attempt of the run, from 1
}

// newGraph makes the picture of a run.
func newGraph(env *cli.Env, run store.Run, nodes []store.Node, attempts []store.NodeAttempt) *graph {
	g := &graph{title: run.Title, status: run.Status}
	place := map[string]int{}
	for i, n := range nodes {
		place[n.ID] = i
		g.nodes = append(g.nodes, graphNode{id: n.ID, kind: n.Type})
	}
	at := graphStart
	for _, a := range attempts {
		to := place[a.Node]
		g.step(at, to, a.Ordinal)
		n := &g.nodes[to]
		n.attempts++
		n.status = string(a.Status)
		if a.InterruptedAt != 0 && a.EndedAt == 0 {
			n.status = "interrupted"
		}
		if a.StartedAt != 0 {
			end := a.EndedAt
			if end == 0 {
				end = store.MillisOf(env.Now())
			}
			n.took += time.Duration(max(end-a.StartedAt, 0)) * time.Millisecond
		}
		at = to
	}
	if run.EndedAt != 0 {
		g.step(at, graphEnd, len(attempts)+1)
	}
	return g
}

// step counts that an edge was taken.
func (g *graph) step(from, to, number int) {
	for i, e := range g.edges {
		if e.from == from && e.to == to {
			g.edges[i].steps = append(e.steps, number)
			return
		}
	}
	g.edges = append(g.edges, graphEdge{from, to, []int{number}})
}

// lines are what a node says.
func (n graphNode) lines() []string {
	if n.attempts == 0 {
		return []string{n.id, n.kind, "not begun"}
	}
	tries := n.status
	if n.attempts > 1 {
		tries += fmt.Sprintf(", %d attempts", n.attempts)
	}
	return []string{n.id, n.kind, tries, cli.Span(n.took)}
}

// label says when an edge was taken.
func (e graphEdge) label() string {
	const shown = 4
	var parts []string
	for i, s := range e.steps {
		if i == shown {
			return strings.Join(parts, ", ") + fmt.Sprintf(" ... %d times", len(e.steps))
		}
		parts = append(parts, strconv.Itoa(s))
	}
	return strings.Join(parts, ", ")
}

// The colours of a node by its status: the inside and the border.
func graphColors(status string) (fill, border string) {
	switch status {
	case "completed":
		return "#dcf3e1", "#2c7a3f"
	case "failed", "timed_out":
		return "#fbdfdc", "#b3261e"
	case "running":
		return "#d9ecfb", "#1565a0"
	case "waiting", "interrupted", "pending", "queued":
		return "#fdf0d0", "#9a6700"
	case "cancelled":
		return "#e8e8e8", "#6b6b6b"
	}
	return "#ffffff", "#9a9a9a"
}

// write prints the picture in a format.
func (g *graph) write(w io.Writer, format string) error {
	switch format {
	case "svg":
		return g.svg(w)
	case "dot":
		return g.dot(w)
	}
	return g.mermaid(w)
}

func (g *graph) mermaid(w io.Writer) error {
	var b strings.Builder
	text := strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "\n", " ", "`", "#96;")
	name := func(place int) string {
		switch place {
		case graphStart:
			return "begin"
		case graphEnd:
			return "ended"
		}
		return "n" + strconv.Itoa(place)
	}
	b.WriteString("flowchart TD\n")
	fmt.Fprintf(&b, "  begin((\"%s\"))\n", text.Replace(cli.Escape(g.title)))
	used := map[string]bool{}
	for i, n := range g.nodes {
		lines := n.lines()
		for j, l := range lines {
			lines[j] = text.Replace(cli.Escape(l))
		}
		class := n.status
		if class == "" {
			class = "not_begun"
		}
		used[class] = true
		fmt.Fprintf(&b, "  %s[\"%s\"]:::%s\n", name(i), strings.Join(lines, "<br/>"), class)
	}
	for _, e := range g.edges {
		if e.to == graphEnd {
			used[string(g.status)] = true
			fmt.Fprintf(&b, "  ended((\"%s\")):::%s\n", g.status, g.status)
		}
		fmt.Fprintf(&b, "  %s -->|\"%s\"| %s\n", name(e.from), e.label(), name(e.to))
	}
	for _, class := range []string{"completed", "failed", "timed_out", "running", "waiting", "interrupted", "pending", "cancelled", "not_begun"} {
		if used[class] {
			fill, border := graphColors(class)
			fmt.Fprintf(&b, "  classDef %s fill:%s,stroke:%s,color:#000\n", class, fill, border)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (g *graph) dot(w io.Writer) error {
	var b strings.Builder
	quoted := func(lines ...string) string {
		for i, l := range lines {
			lines[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ").Replace(cli.Escape(l))
		}
		return `"` + strings.Join(lines, `\n`) + `"`
	}
	name := func(place int) string {
		switch place {
		case graphStart:
			return "begin"
		case graphEnd:
			return "ended"
		}
		return "n" + strconv.Itoa(place)
	}
	fmt.Fprintf(&b, "digraph run {\n  label=%s labelloc=t fontname=\"sans-serif\"\n", quoted(g.title))
	b.WriteString("  node [shape=box style=\"filled,rounded\" fontname=\"sans-serif\"]\n  edge [fontname=\"sans-serif\"]\n")
	b.WriteString("  begin [shape=point width=0.15]\n")
	for i, n := range g.nodes {
		fill, border := graphColors(n.status)
		style := ""
		if n.attempts == 0 {
			style = ` style="rounded,dashed"`
		}
		fmt.Fprintf(&b, "  %s [label=%s fillcolor=\"%s\" color=\"%s\"%s]\n", name(i), quoted(n.lines()...), fill, border, style)
	}
	for _, e := range g.edges {
		if e.to == graphEnd {
			fill, border := graphColors(string(g.status))
			fmt.Fprintf(&b, "  ended [shape=ellipse style=filled label=%s fillcolor=\"%s\" color=\"%s\"]\n", quoted(string(g.status)), fill, border)
		}
		fmt.Fprintf(&b, "  %s -> %s [label=%s]\n", name(e.from), name(e.to), quoted(e.label()))
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}
