package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"pistate/internal/cli"
	"pistate/store"
)

// The measures of the picture, in pixels.
const (
	svgChar   = 7.4 // of a character of the text
	svgLine   = 17  // of a line of text
	svgPad    = 12  // inside a box
	svgGap    = 44  // between two boxes
	svgMargin = 24
	svgLane   = 26 // between two curves beside the boxes
	svgDot    = 6  // radius of the beginning
)

// svgBox is a node or an end, where it is drawn.
type svgBox struct {
	x, y, w, h   float64
	lines        []string
	fill, border string
	dashed, dot  bool
}

func (b svgBox) middle() float64 { return b.y + b.h/2 }

// svg draws the nodes below each other in the order of the definition. A way to the next node is a line, one
// that skips nodes a curve on the right, one back a curve on the left.
func (g *graph) svg(w io.Writer) error {
	d := &svgDrawing{boxes: map[int]*svgBox{}}
	d.layout(g)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">`+"\n", d.width, d.height, d.width, d.height)
	fmt.Fprintf(&b, "<title>%s</title>\n", xmlText(g.title))
	b.WriteString(`<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="#444"/></marker></defs>` + "\n")
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="#fff"/>`+"\n", d.width, d.height)
	fmt.Fprintf(&b, `<text x="%d" y="%d" font-weight="bold" font-size="15">%s</text>`+"\n", svgMargin, svgMargin+4, xmlText(g.title))
	var labels strings.Builder // above all lines
	for _, e := range g.edges {
		d.edge(&b, &labels, e)
	}
	b.WriteString(labels.String())
	for place := range g.nodes {
		d.boxes[place].draw(&b)
	}
	for _, end := range []int{graphStart, graphEnd} {
		if box := d.boxes[end]; box != nil {
			box.draw(&b)
		}
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

type svgDrawing struct {
	boxes         map[int]*svgBox
	width, height float64
}

// layout finds a place for everything.
func (d *svgDrawing) layout(g *graph) {
	wide, left, right := 0.0, 0.0, 0.0
	for i, n := range g.nodes {
		fill, border := graphColors(n.status)
		d.boxes[i] = newSVGBox(n.lines(), fill, border)
		d.boxes[i].dashed = n.attempts == 0
		wide = max(wide, d.boxes[i].w)
	}
	d.boxes[graphStart] = &svgBox{w: 2 * svgDot, h: 2 * svgDot, dot: true}
	ended := false
	for _, e := range g.edges {
		label := float64(ansi.StringWidth(e.label()))*svgChar + svgPad
		if from, to := g.rank(e.from), g.rank(e.to); to <= from {
			left = max(left, float64(from-to+1)*svgLane+label)
		} else if to > from+1 {
			right = max(right, float64(to-from)*svgLane+label)
		}
		ended = ended || e.to == graphEnd
	}
	if ended {
		fill, border := graphColors(string(g.status))
		d.boxes[graphEnd] = newSVGBox([]string{string(g.status)}, fill, border)
		wide = max(wide, d.boxes[graphEnd].w)
	}
	center := svgMargin + left + wide/2
	y := 2.0*svgMargin + svgLine
	for rank := -1; rank <= len(g.nodes); rank++ {
		box := d.boxes[g.placeOf(rank)]
		if box == nil {
			continue
		}
		if !box.dot {
			box.w = wide
		}
		box.x, box.y = center-box.w/2, y
		y += box.h + svgGap
	}
	title := float64(ansi.StringWidth(cli.Escape(g.title)))*svgChar*1.2 + 2*svgMargin
	d.width, d.height = max(center+wide/2+right+svgMargin, title), y-svgGap+svgMargin
}

// rank is how far down something is drawn: the beginning, the nodes, the end.
func (g *graph) rank(place int) int {
	if place == graphEnd {
		return len(g.nodes)
	}
	return place
}

func (g *graph) placeOf(rank int) int {
	if rank == len(g.nodes) {
		return graphEnd
	}
	return rank
}

func newSVGBox(lines []string, fill, border string) *svgBox {
	b := &svgBox{fill: fill, border: border}
	for _, l := range lines {
		l = cli.Escape(l)
		b.lines = append(b.lines, l)
		b.w = max(b.w, float64(ansi.StringWidth(l))*svgChar+2*svgPad)
	}
	b.h = float64(len(lines))*svgLine + svgPad
	return b
}

func (b *svgBox) draw(w *strings.Builder) {
	if b.dot {
		fmt.Fprintf(w, `<circle cx="%.1f" cy="%.1f" r="%d" fill="#444"/>`+"\n", b.x+b.w/2, b.middle(), svgDot)
		return
	}
	dashes := ""
	if b.dashed {
		dashes = ` stroke-dasharray="5 4"`
	}
	fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="8" fill="%s" stroke="%s" stroke-width="1.5"%s/>`+"\n", b.x, b.y, b.w, b.h, b.fill, b.border, dashes)
	for i, l := range b.lines {
		weight := ""
		if i == 0 {
			weight = ` font-weight="bold"`
		}
		fmt.Fprintf(w, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#111"%s>%s</text>`+"\n",
			b.x+b.w/2, b.y+svgPad/2+float64(i)*svgLine+13, weight, xmlText(l))
	}
}

// edge draws a way. Its label stands where nothing else is.
func (d *svgDrawing) edge(lines, labels *strings.Builder, e graphEdge) {
	from, to := d.boxes[e.from], d.boxes[e.to]
	down := to.y - from.y
	const line = `<path d="%s" fill="none" stroke="#444" stroke-width="1.5" marker-end="url(#arrow)"/>` + "\n"
	var path, anchor string
	var x, y float64
	switch {
	case down > 0 && to.y-(from.y+from.h) <= svgGap+1: // the next one
		x = from.x + from.w/2
		path = fmt.Sprintf("M%.1f %.1fL%.1f %.1f", x, from.y+from.h, x, to.y-2)
		x, y, anchor = x+8, (from.y+from.h+to.y)/2+4, "start"
	case down > 0:
		edge := max(from.x+from.w, to.x+to.w)
		reach := edge + svgLane*down/(from.h+svgGap)
		path = fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", from.x+from.w, from.middle(), reach, from.middle(), reach, to.middle(), to.x+to.w+2, to.middle())
		x, y, anchor = edge+(reach-edge)*0.75+6, (from.middle()+to.middle())/2+4, "start"
	default: // back, or the same again
		edge := min(from.x, to.x)
		reach := edge - svgLane*(1-down/(from.h+svgGap))*1.2
		leave, arrive := from.middle()+8, to.middle()-8
		path = fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", from.x, leave, reach, leave, reach, arrive, to.x-2, arrive)
		x, y, anchor = edge-(edge-reach)*0.75-6, (leave+arrive)/2+4, "end"
	}
	fmt.Fprintf(lines, line, path)
	fmt.Fprintf(labels, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="12" fill="#444" stroke="#fff" stroke-width="4" paint-order="stroke">%s</text>`+"\n", x, y, anchor, xmlText(e.label()))
}

// xmlText is a text that means itself in XML.
func xmlText(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\n", " ").Replace(cli.Escape(text))
}

// readGraph reads what the picture of a run needs.
func (c *RunCmd) readGraph(env *cli.Env, q *store.Queries) (*graph, error) {
	run, err := q.Run(env, c.ID)
	if err != nil {
		return nil, err
	}
	nodes, err := q.DefinitionNodes(env, run.Definition)
	if err != nil {
		return nil, err
	}
	var attempts []store.NodeAttempt
	for {
		page, err := q.NodeAttempts(env, c.ID, "", len(attempts), store.MaxPage) // the ordinals have no gap
		if err != nil {
			return nil, err
		}
		attempts = append(attempts, page...)
		if len(page) < store.MaxPage {
			return newGraph(env, run, nodes, attempts), nil
		}
	}
}
