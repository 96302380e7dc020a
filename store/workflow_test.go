package store

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// reviewFlow is the definition that the tests of workflows use.
const reviewFlow = `{
	"name": "review",
	"nodes": [
		{"id": "plan", "type": "agent", "expectedOutput": {"kind": "assistant-message", "maxChars": 20}},
		{"id": "work", "type": "agent", "expectedOutput": {"type": "object"}},
		{"id": "test", "type": "shell", "command": "go test ./..."}
	]
}`

var (
	pi1     = Actor{SessionActor, "pi1"}
	pi2     = Actor{SessionActor, "pi2"}
	control = Actor{ControlActor, ""}
)

func runID(run string) ResourceID { return NewResourceID(RunResource, run) }

// flow is a database in which a project and a definition are known.
type flow struct {
	testing.TB
	*Store
	clock      *clock
	project    string
	definition Digest
}

func newFlow(t testing.TB) *flow {
	t.Helper()
	s, c := openStore(t)
	return flowOf(t, s, c)
}

func flowOf(t testing.TB, s *Store, c *clock) *flow {
	t.Helper()
	dir := filepath.Join(filepath.Dir(s.Path()), "project")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return &flow{
		TB: t, Store: s, clock: c,
		project:    mustDo(t, s, Permit{Actor: host1}, RegisterProject{dir}).Result.ID,
		definition: mustDo(t, s, Permit{Actor: host1}, RegisterDefinition{json.RawMessage(reviewFlow)}).Result.Digest,
	}
}

// spec returns what a direct, headless run is asked to do.
func (f *flow) spec(run string) RunSpec {
	return RunSpec{
		ID: run, Project: f.project, Definition: f.definition, Source: RunSource{Type: BuiltinSource, Ref: "review"},
		Title: "Review " + run, Input: json.RawMessage(`{"pr":1}`), Mode: HeadlessMode,
	}
}

// queued returns what a headless run in the queue is asked to do.
func (f *flow) queued(run string) RunSpec {
	spec := f.spec(run)
	spec.Queue = &QueuePlace{}
	return spec
}

// interactive returns what a run in the queue of a Pi session is asked to do.
func (f *flow) interactive(run, session string) RunSpec {
	spec := f.queued(run)
	spec.Mode, spec.Session = InteractiveMode, session
	return spec
}

func (f *flow) create(spec RunSpec) Run {
	f.Helper()
	return *mustDo(f, f.Store, Permit{Actor: host1}, CreateRun{RunSpec: spec}).Result
}

// owner is an actor with a claim on a run.
type owner struct {
	*flow
	actor Actor
	run   string
	claim *Claim
}

// own claims the lease of a run.
func (f *flow) own(actor Actor, run string) *owner {
	f.Helper()
	return &owner{f, actor, run, mustClaim(f, f.Store, actor, runID(run), time.Minute)}
}

// take claims the next run of the queue.
func (f *flow) take(actor Actor) *owner {
	f.Helper()
	got := mustDo(f, f.Store, Permit{Actor: actor}, ClaimNext{Project: f.project, TTLMS: 60_000}).Result
	return &owner{f, actor, got.Run.ID, got.Claim}
}

// permit returns the permit of somebody who has read the run just now.
func (f *flow) permit(actor Actor, claim *Claim, run string) Permit {
	f.Helper()
	res, err := f.Resource(context.Background(), runID(run))
	if err != nil {
		f.Fatal(err)
	}
	return Permit{Actor: actor, Expected: res.Revision, Claim: claim}
}

// send carries out a command as the owner of the run.
func send[R any](o *owner, cmd Command[R]) (R, error) {
	o.Helper()
	done, err := Do(context.Background(), o.Store, o.permit(o.actor, o.claim, o.run), cmd)
	return done.Result, err
}

// must is send for a command that must be accepted.
func must[R any](o *owner, cmd Command[R]) R {
	o.Helper()
	result, err := send(o, cmd)
	if err != nil {
		o.Fatal(err)
	}
	return result
}

func (o *owner) start() *owner {
	o.Helper()
	must(o, StartRun{o.run})
	return o
}

func (o *owner) begin(node string) *NodeAttempt {
	o.Helper()
	return must(o, BeginAttempt{Run: o.run, Node: node, Input: json.RawMessage(`{"n":1}`), Prompt: "do " + node})
}

// step begins and finishes an attempt of a node.
func (o *owner) step(node string) *NodeAttempt {
	o.Helper()
	a := o.begin(node)
	cmd := FinishAttempt{Run: o.run, Attempt: a.ID}
	if a.Expected == AssistantMessage {
		cmd.Message = &Message{Text: "done with " + node, EntryID: "e1", MaxChars: 20}
	} else {
		cmd.Output = json.RawMessage(fmt.Sprintf(`{"node":%q}`, node))
	}
	return must(o, cmd)
}

// worker returns a worker that settles places in the queue.
func (f *flow) worker(actor Actor) *EffectWorker {
	return &EffectWorker{
		Store: f.Store, Actor: actor, Scope: Scope{SystemScope, f.project},
		Handlers: map[string]EffectHandler{SettleQueueEffect: SettleQueueHandler(f.Store, actor)},
	}
}

func (f *flow) settle() EffectReport {
	f.Helper()
	report, err := f.worker(host1).Run(context.Background(), 100)
	if err != nil {
		f.Fatal(err)
	}
	return report
}

// document returns the state of a run.
func (f *flow) document(run string) RunDocument {
	f.Helper()
	doc, err := f.RunDocument(context.Background(), run, RunDocumentOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return doc
}

func (f *flow) queueRow(run string) Queued {
	f.Helper()
	row, err := f.QueueRow(context.Background(), run)
	if err != nil {
		f.Fatal(err)
	}
	return row
}

func pretty(v any) string {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}
