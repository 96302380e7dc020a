package cli

import (
	"pistate/internal/cli"
	"pistate/schema"
	"pistate/store"
)

// RunCmd shows one run.
type RunCmd struct {
	workflowDB
	output
	ID     string `arg:"" help:"The run."`
	Output string `placeholder:"NODE" help:"Print the last output of this node, and nothing else; with --private, since it is content."`
	Graph  string `default:"" enum:",svg,mermaid,dot" placeholder:"FORMAT" help:"Print the run as a picture, and nothing else: svg, mermaid or dot. The numbers at an edge say before which attempts it was taken."`
	Limit  int    `default:"100" placeholder:"N" help:"Show at most this many attempts, updates and so on (default ${default})."`
	After  int    `placeholder:"N" help:"Show the attempts after this one, as the last line of a longer run says."`
}

// Help is shown below the flags.
func (*RunCmd) Help() string {
	return `Steps are the nodes of the workflow with each attempt, the size of what it made and the first digits of its digest, which piw blob takes.

  piw run ID
  piw run ID --output NODE --private
  piw run ID --graph svg > run.svg
  piw events --run ID --after 0      what happened, in order
  piw capture ID --private           what the agents said`
}

// runDocument is the state of a run, all of one snapshot.
type runDocument struct {
	store.RunDocument
	Situation     *store.Situation         `json:"situation,omitempty"` // of one that has not ended
	Project       store.Project            `json:"project"`
	Decisions     []store.Decision         `json:"decisions"`
	Effects       []store.Effect           `json:"effects"`
	Continuations []store.Continuation     `json:"continuations"`
	Captures      []store.Segment          `json:"captures"`
	Notifications []store.NotificationView `json:"notifications"`
	Turns         []store.TurnView         `json:"turns"`

	children []runRow
}

// Run prints the run, or one output of it.
func (c *RunCmd) Run(env *cli.Env) error {
	if c.Limit < 1 || c.Limit > store.MaxPage {
		return schema.Errorf(schema.Invalid, "--limit %d: it is from 1 to %d", c.Limit, store.MaxPage)
	}
	switch {
	case c.Output != "" && c.Graph != "":
		return schema.Errorf(schema.Invalid, "--output and --graph are two things: choose one")
	case c.Output != "":
		return c.printOutput(env)
	case c.Graph != "":
		return c.printGraph(env)
	}
	var doc runDocument
	err := c.view(env, func(q *store.Queries) (err error) {
		doc, err = c.read(env, q)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return c.print(env, c.public(doc))
	}
	return c.text(env, &doc)
}

func (c *RunCmd) read(env *cli.Env, q *store.Queries) (doc runDocument, err error) {
	options := store.RunDocumentOptions{Payloads: c.Private && c.JSON, After: c.After, Limit: c.Limit}
	if doc.RunDocument, err = q.RunDocument(env, c.ID, options); err != nil {
		return doc, err
	}
	if doc.RunDocument.Run.EndedAt == 0 {
		s, err := q.Situation(env, doc.RunDocument.Run)
		if err != nil {
			return doc, err
		}
		doc.Situation = &s
	}
	for _, part := range []func() error{
		func() (err error) { doc.Project, err = q.Project(env, doc.RunDocument.Run.Project); return err },
		func() (err error) { doc.Decisions, err = q.DecisionsOfRun(env, c.ID, "", 0, c.Limit); return err },
		func() (err error) { doc.Effects, err = q.EffectsOfRun(env, c.ID, 0, c.Limit); return err },
		func() (err error) {
			doc.Continuations, err = q.ContinuationsOfRun(env, c.ID, store.Place{}, c.Limit)
			return err
		},
		func() (err error) {
			doc.Captures, err = q.Segments(env, store.SegmentFilter{Run: c.ID}, "", c.Limit)
			return err
		},
		func() (err error) { doc.Notifications, err = q.NotificationsOfRun(env, c.ID, nil, c.Limit); return err },
		func() (err error) { doc.Turns, err = q.TurnsOfRun(env, c.ID, store.Place{}, c.Limit); return err },
		func() error { return c.readChildren(env, q, &doc) },
	} {
		if err := part(); err != nil {
			return doc, err
		}
	}
	return doc, nil
}

func (c *RunCmd) readChildren(env *cli.Env, q *store.Queries, doc *runDocument) error {
	runs, err := q.Runs(env, store.RunFilter{Parent: c.ID}, store.Run{}, c.Limit)
	if err == nil {
		doc.children, err = situations(env, q, runs)
	}
	return err
}

// public returns the document without what is private.
func (c *RunCmd) public(doc runDocument) runDocument {
	doc.RunDocument.Run = c.run(doc.RunDocument.Run)
	if doc.Queue != nil {
		queue := c.queued(*doc.Queue)
		doc.Queue = &queue
	}
	doc.Situation = c.shown(doc.Situation)
	doc.Effects = c.effects(doc.Effects)
	for i, s := range doc.Captures {
		doc.Captures[i] = c.segment(s)
	}
	for i := range doc.Notifications {
		doc.Notifications[i].Session = c.keep(doc.Notifications[i].Session)
	}
	for i := range doc.Turns {
		doc.Turns[i].Session = c.keep(doc.Turns[i].Session)
	}
	return doc
}

// printOutput prints the last output of a node.
func (c *RunCmd) printOutput(env *cli.Env) error {
	if !c.Private {
		return schema.Errorf(schema.Invalid, "an output is content, which is shown only on request: add --private")
	}
	var doc blobJSON
	err := c.view(env, func(q *store.Queries) error {
		run, err := q.RunDocument(env, c.ID, store.RunDocumentOptions{Limit: 1})
		if err != nil {
			return err
		}
		digest, ok := run.Outputs[c.Output]
		if !ok {
			return schema.Errorf(schema.NotFound, "node %s of run %s has no output", c.Output, c.ID)
		}
		infos, err := q.BlobInfos(env, true, digest)
		doc = blobJSON{digest, infos[digest]}
		return err
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return c.print(env, doc)
	}
	return printContent(env, doc.BlobInfo)
}

func (c *RunCmd) printGraph(env *cli.Env) error {
	var g *graph
	err := c.view(env, func(q *store.Queries) (err error) {
		g, err = c.readGraph(env, q)
		return err
	})
	if err != nil {
		return err
	}
	return g.write(env.Stdout, c.Graph)
}
