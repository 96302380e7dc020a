package store

import (
	"context"

	"pistate/internal/sqlite"
)

// RunDocument is the state of a run as one document, of one snapshot (V1, V2). Content is named by digest.
//
// Of a run that has ended it says the same however many owners the run had, but for the revision, which
// counts the commands.
type RunDocument struct {
	Run        Run        `json:"run"`
	Definition Definition `json:"definition"`
	Steps      []Step     `json:"steps"` // the nodes of the definition, in the author's order
	// Outputs are those of the last completed attempt of each node that has one.
	Outputs map[string]Digest `json:"outputs,omitempty"`
	// Current is the one attempt that has not ended.
	Current *NodeAttempt `json:"current,omitempty"`
	// Updates are the current values of the progress of the attempts in Steps.
	Updates []Update `json:"updates,omitempty"`
	// Queue is the place in the queue; nil: it was never queued.
	Queue *Queued `json:"queue,omitempty"`
	// Owner is who owns the run now; nil: nobody does, be it that a lease has expired.
	Owner    *Lease   `json:"owner,omitempty"`
	Children []string `json:"children,omitempty"` // runs, from the oldest
	// Contents describes the content of all digests in the document, and carries it if that was asked for.
	Contents map[Digest]BlobInfo `json:"contents"`

	// More: there are more attempts, updates or children than the document holds. The next attempts come
	// with After set to the largest ordinal in Steps.
	More bool `json:"more,omitempty"`
}

// Step is a node of the definition with its attempts.
type Step struct {
	Node
	Attempts []NodeAttempt `json:"attempts,omitempty"`
}

// RunDocumentOptions are the settings of [Queries.RunDocument].
type RunDocumentOptions struct {
	Payloads bool // with the content
	After    int  // attempts after this ordinal
	Limit    int  // of attempts, of updates and of children; 0: MaxPage
}

const (
	selOutputs = `
		SELECT a.node_id, a.output_blob, max(a.attempt_number)
		  FROM node_attempts AS a
		 WHERE a.run_id = ?1
		   AND a.status = 'completed'
		   AND a.output_blob IS NOT NULL
		 GROUP BY a.node_id`

	selUpdatesOfRun = `
		SELECT u.attempt_id, max(u.sequence), u.update_type, u.update_key, u.data_blob, u.created_at
		  FROM node_attempts    AS a
		  JOIN workflow_updates AS u ON u.attempt_id = a.attempt_id
		 WHERE a.run_id   = ?1
		   AND a.ordinal  > ?2
		   AND a.ordinal <= ?3
		 GROUP BY a.ordinal, u.update_type, u.update_key
		 ORDER BY a.ordinal, u.update_type, u.update_key
		 LIMIT ?4`

	selChildren = `
		SELECT r.run_id
		  FROM runs AS r
		 WHERE r.parent_run_id = ?1
		 ORDER BY r.created_at, r.run_id
		 LIMIT ?2`
)

// RunDocument returns the state of a run as one document. Errors: [schema.NotFound], and those of
// [Queries.BlobInfos] with payloads.
func (q *Queries) RunDocument(ctx context.Context, run string, o RunDocumentOptions) (doc RunDocument, err error) {
	if o.Limit == 0 {
		o.Limit = MaxPage
	}
	if err := checkPage(o.Limit); err != nil {
		return doc, err
	}
	now := MillisOf(q.now())
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		doc = RunDocument{}
		for _, part := range []func(*sqlite.Rx, string, RunDocumentOptions) error{
			doc.readRun, doc.readSteps, doc.readOutputs, doc.readUpdates, doc.readQueue, doc.readChildren,
		} {
			if err := part(rx, run, o); err != nil {
				return err
			}
		}
		if err := doc.readOwner(rx, now); err != nil {
			return err
		}
		doc.Contents, err = blobInfos(rx, o.Payloads, doc.digests())
		return err
	})
	return doc, err
}

func (doc *RunDocument) readRun(rx *sqlite.Rx, run string, _ RunDocumentOptions) (err error) {
	found := false
	if doc.Run, found, err = getRun(rx, run); err == nil && !found {
		err = notFound("run", run)
	}
	if err == nil {
		doc.Definition, _, err = getDefinition(rx, doc.Run.Definition)
	}
	return err
}

func (doc *RunDocument) readSteps(rx *sqlite.Rx, run string, o RunDocumentOptions) error {
	nodes, err := listNodes(rx, doc.Run.Definition)
	if err != nil {
		return err
	}
	step := map[string]int{}
	for i, n := range nodes {
		step[n.ID] = i
		doc.Steps = append(doc.Steps, Step{Node: n})
	}
	attempts, err := list(rx, scanAttempt, selNodeAttempts, run, o.After, o.Limit+1)
	if err != nil {
		return err
	}
	if len(attempts) > o.Limit {
		attempts, doc.More = attempts[:o.Limit], true
	}
	for _, a := range attempts {
		s := &doc.Steps[step[a.Node]]
		s.Attempts = append(s.Attempts, a)
	}
	doc.Current, err = oneAttempt(rx, selActiveAttempt, run)
	return err
}

func (doc *RunDocument) readOutputs(rx *sqlite.Rx, run string, _ RunDocumentOptions) error {
	doc.Outputs = map[string]Digest{}
	return rx.Query(selOutputs, func(r sqlite.Row) error {
		doc.Outputs[r.Text(0)] = *digestOf(r.Bytes(1))
		return nil
	}, run)
}

func (doc *RunDocument) readUpdates(rx *sqlite.Rx, run string, o RunDocumentOptions) (err error) {
	last := o.After
	for _, s := range doc.Steps {
		for _, a := range s.Attempts {
			last = max(last, a.Ordinal)
		}
	}
	doc.Updates, err = list(rx, scanUpdate, selUpdatesOfRun, run, o.After, last, o.Limit+1)
	if len(doc.Updates) > o.Limit {
		doc.Updates, doc.More = doc.Updates[:o.Limit], true
	}
	return err
}

func (doc *RunDocument) readQueue(rx *sqlite.Rx, run string, _ RunDocumentOptions) error {
	row, err := oneQueueRow(rx, selQueueRow, run)
	if row != nil {
		shown := row.shown(doc.Run.Status)
		doc.Queue = &shown
	}
	return err
}

func (doc *RunDocument) readChildren(rx *sqlite.Rx, run string, o RunDocumentOptions) error {
	err := rx.Query(selChildren, func(r sqlite.Row) error {
		doc.Children = append(doc.Children, r.Text(0))
		return nil
	}, run, o.Limit+1)
	if len(doc.Children) > o.Limit {
		doc.Children, doc.More = doc.Children[:o.Limit], true
	}
	return err
}

func (doc *RunDocument) readOwner(rx *sqlite.Rx, now Millis) error {
	l, err := getLease(rx, doc.Run.Resource())
	if l.Owner != nil && l.at(now) < l.ExpiresAt {
		doc.Owner = &l.Lease
	}
	return err
}

// digests returns the digests of all content that the document names.
func (doc *RunDocument) digests() (digests []Digest) {
	add := func(some ...*Digest) {
		for _, d := range some {
			if d != nil {
				digests = append(digests, *d)
			}
		}
	}
	add(&doc.Definition.Digest, &doc.Run.Input, doc.Run.Output, doc.Run.Error)
	attempt := func(a *NodeAttempt) { add(a.Input, a.Contract, a.Prompt, a.Output, a.Result, a.Error) }
	for _, s := range doc.Steps {
		for i := range s.Attempts {
			attempt(&s.Attempts[i])
		}
	}
	if doc.Current != nil {
		attempt(doc.Current)
	}
	for _, d := range doc.Outputs {
		add(&d)
	}
	for i := range doc.Updates {
		add(&doc.Updates[i].Data)
	}
	return digests
}
