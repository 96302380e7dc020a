package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pistate/schema"
)

const sessions = "../testdata/pi-sessions/"

// piLines returns the lines of a real session file. Together they are the file.
func piLines(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(sessions + name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if strings.Join(lines, "\n")+"\n" != string(text) {
		t.Fatalf("%s does not end with a newline", name)
	}
	return lines
}

// recording is a run with an owner and an open capture.
type recording struct {
	*owner
	segment string
}

func (f *flow) record(actor Actor, run string) *recording {
	f.Helper()
	f.create(f.spec(run))
	r := &recording{owner: f.own(actor, run)}
	r.segment = r.open("k1").ID
	return r
}

func (r *recording) open(key string) *Segment {
	r.Helper()
	return mustDo(r, r.Store, r.claimed(0), OpenSegment{Run: r.run, Session: "pi-session", Key: key}).Result
}

func (r *recording) claimed(expected int64) Permit {
	return Permit{Actor: r.actor, Expected: expected, Claim: r.claim}
}

func (r *recording) append(cmd AppendSegment) (Done[*Segment], error) {
	cmd.Segment = r.segment
	return Do(context.Background(), r.Store, r.claimed(AnyRevision), cmd)
}

func (r *recording) mustAppend(cmd AppendSegment) *Segment {
	r.Helper()
	done, err := r.append(cmd)
	if err != nil {
		r.Fatal(err)
	}
	return done.Result
}

func (r *recording) now() Segment {
	r.Helper()
	s, err := r.Segment(context.Background(), r.segment)
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// replayAll returns all lines of a run, page by page.
func replayAll(t testing.TB, q *Queries, run string, limit int) (entries []CapturedEntry) {
	t.Helper()
	for after := (ReplayCursor{}); ; {
		page, err := q.Replay(context.Background(), run, after, limit, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return entries
		}
		entries = append(entries, page...)
		after = page[len(page)-1].Cursor()
	}
}

func linesOf(entries []CapturedEntry) (lines []string) {
	for _, e := range entries {
		lines = append(lines, e.Line)
	}
	return lines
}

// The real session files come back byte for byte, in order, however they were captured, and the same entry
// is stored once.
func TestCaptureRealSessions(t *testing.T) { // D6, R9
	files, err := filepath.Glob(sessions + "*.jsonl")
	if err != nil || len(files) < 6 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, batch := range []int{1, 256} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			f := newFlow(t)
			for _, path := range files {
				name := filepath.Base(path)
				lines := piLines(t, name)
				if raceDetector && batch == 1 && len(lines) > 500 {
					continue // it takes its time, and finds nothing that the others don't
				}
				r := f.record(host1, name)
				for first := 0; first < len(lines); first += batch {
					s := r.mustAppend(AppendSegment{FirstEntry: int64(first + 1), Entries: lines[first:min(first+batch, len(lines))]})
					if want := int64(min(first+batch, len(lines))); s.Entries != want {
						t.Fatalf("%s: %d entries, want %d", name, s.Entries, want)
					}
				}
				mustDo(t, f.Store, r.claimed(r.now().Revision), CompleteSegment{Segment: r.segment})
				for _, limit := range []int{len(lines)/10 + 1, MaxPage} {
					if got := linesOf(replayAll(t, &f.Queries, r.run, limit)); !slices.Equal(got, lines) {
						t.Errorf("%s comes back as %d other lines", name, len(got))
					}
				}
			}
			large := piLines(t, "large-session-v3.jsonl")
			if len(large) < 1018 {
				t.Errorf("the large session has %d entries", len(large))
			}
		})
	}
}

// An entry tells its place in the tree as Pi wrote it.
func TestEntryFacts(t *testing.T) { // D6
	f := newFlow(t)
	r := f.record(host1, "r1")
	lines := piLines(t, "fork.jsonl")
	r.mustAppend(AppendSegment{FirstEntry: 1, Entries: lines})
	entries, err := f.SegmentEntries(t.Context(), r.segment, 0, 1000, false)
	if err != nil || len(entries) != len(lines) {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i, e := range entries {
		var want struct {
			Type, ID string
			ParentID string
		}
		if err := json.Unmarshal([]byte(lines[i]), &want); err != nil {
			t.Fatal(err)
		}
		if e.ID != want.ID || e.Parent != want.ParentID || e.Type != want.Type {
			t.Errorf("%+v, want %+v", e, want)
		}
		if e.Line != "" || e.Length != int64(len(lines[i])) || e.Sequence != int64(i+1) || e.CapturedAt != f.clock.millis() {
			t.Errorf("%+v", e)
		}
	}
}

func TestReadEntry(t *testing.T) {
	for line, want := range map[string][3]string{
		`{"type":"message","id":"a","parentId":null}`:        {"a", "", "message"},
		`{"id":"a","id":"b","type":1}`:                       {"b", "", ""},
		`{"id":"a","id":null,"parentId":"p"}`:                {"", "p", ""},
		`{"x":{"id":"inner"},"id":"\u0061","parentId":"\n"}`: {"a", "", ""},
		`{"id":"` + strings.Repeat("x", 257) + `"}`:          {},
		`{"id":"\ud800"}`:                                    {},
		`{"id":"a"`:                                          {},
		`{"id":"a"} x`:                                       {},
		`{"id":"a",}`:                                        {},
		`{"id":"a","x":}`:                                    {},
		`["id"]`:                                             {},
		`nonsense`:                                           {},
		``:                                                   {},
	} {
		if id, parent, kind := readEntry(line); [3]string{id, parent, kind} != want {
			t.Errorf("%.40s: %q %q %q", line, id, parent, kind)
		}
	}
}

// The verbatim line survives, whatever it is: canonical JSON would be another one.
func TestVerbatimLines(t *testing.T) { // D6, R9
	f := newFlow(t)
	r := f.record(host1, "r1")
	lines := []string{
		`{"b":1,  "a":2}`, `{"a":2,"b":1}`, `{"n":1.0}`, `{"n":1}`, `{"a":1,"a":2}`, `{"s":"\ud800"}`, `{"s":"\u00e9é"}`,
		`not JSON`, `{"cut":"of`, " ", "\t{}\r", `{"big":12345678901234567890123}`, "null", `"x"`,
	}
	lines = append(lines, lines...) // the second time they are there already
	r.mustAppend(AppendSegment{FirstEntry: 1, Entries: lines})
	if got := linesOf(replayAll(t, &f.Queries, "r1", 5)); !slices.Equal(got, lines) {
		t.Errorf("%q", got)
	}
}

// Whatever text is captured, in whatever batches, comes back; a repetition finds it.
func TestCaptureModel(t *testing.T) { // D6, W5
	f := newFlow(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		r := f.record(host1, fmt.Sprint("r", n))
		text := rapid.StringMatching(`[^\n\x{FFFD}]+`)
		var lines []string
		var events []PiEvent
		for range rapid.IntRange(1, 4).Draw(rt, "batches") {
			cmd := AppendSegment{
				Entries: rapid.SliceOfN(text, 0, 5).Draw(rt, "entries"),
				Events:  rapid.SliceOfN(rapid.Custom(drawEvent), 0, 5).Draw(rt, "events"),
			}
			if len(cmd.Entries)+len(cmd.Events) == 0 {
				continue
			}
			if len(cmd.Entries) > 0 {
				cmd.FirstEntry = int64(len(lines) + 1)
			}
			if len(cmd.Events) > 0 {
				cmd.FirstEvent = int64(len(events) + 1)
			}
			lines, events = append(lines, cmd.Entries...), append(events, cmd.Events...)
			for _, again := range []bool{false, true} {
				done, err := r.append(cmd)
				if err != nil || done.Adopted != again {
					rt.Fatalf("again %v: %+v, %v", again, done, err)
				}
				if s := done.Result; s.Entries != int64(len(lines)) || s.Events != int64(len(events)) {
					rt.Fatalf("%+v, want %d and %d", s, len(lines), len(events))
				}
			}
		}
		if got := linesOf(replayAll(t, &f.Queries, r.run, 3)); !slices.Equal(got, lines) {
			rt.Fatalf("%q, want %q", got, lines)
		}
		var got []PiEvent
		for after := int64(0); ; {
			page, err := f.SegmentEvents(context.Background(), r.segment, after, 3, true)
			if err != nil {
				rt.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				got = append(got, e.PiEvent)
			}
			after = page[len(page)-1].Sequence
		}
		if a, b := mustJSON(rt, got), mustJSON(rt, events); a != b {
			rt.Fatalf("%s, want %s", a, b)
		}
	})
}

func drawEvent(t *rapid.T) PiEvent {
	word := rapid.StringMatching(`[a-z_]{1,8}`)
	maybe := rapid.OneOf(rapid.Just(""), word)
	return PiEvent{
		Type: word.Draw(t, "type"), Node: maybe.Draw(t, "node"), Message: maybe.Draw(t, "message"), ToolCall: maybe.Draw(t, "tool"),
		Turn: rapid.Ptr(rapid.Int64Range(0, 9), true).Draw(t, "turn"), At: Millis(rapid.Int64Range(1, 1<<40).Draw(t, "at")),
		Payload: json.RawMessage(rapid.SampledFrom([]string{`null`, `{}`, `[1,2]`, `"x"`, `{"a":{"b":[]}}`}).Draw(t, "payload")),
	}
}

func mustJSON(t interface{ Fatal(...any) }, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The same entry costs one blob, wherever it occurs.
func TestRepeatedEntriesAreStoredOnce(t *testing.T) { // R9, D6
	f := newFlow(t)
	r := f.record(host1, "r1")
	line := `{"type":"message","id":"a","content":"` + strings.Repeat("x", 50_000) + `"}`
	blobs := func() int64 {
		status, err := f.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return status.Rows["blobs"]
	}
	r.mustAppend(AppendSegment{FirstEntry: 1, Entries: []string{line}})
	before, size := blobs(), databaseBytes(t, f.Store)
	for i := range 10 {
		r.mustAppend(AppendSegment{FirstEntry: int64(2 + 20*i), Entries: slices.Repeat([]string{line}, 20)})
	}
	if n := blobs() - before; n != 10 { // the events' own payloads
		t.Errorf("%d blobs for 200 repetitions in 10 commands", n)
	}
	if grown := databaseBytes(t, f.Store) - size; grown > 100_000 {
		t.Errorf("200 repetitions of %d bytes took %d", len(line), grown)
	}
}

// databaseBytes returns how many bytes of the database hold something.
func databaseBytes(t testing.TB, s *Store) int64 {
	t.Helper()
	var pages int64
	for _, name := range strings.Fields(sqlite3CLI(t, s.Path(), "SELECT (SELECT * FROM pragma_page_count) * (SELECT * FROM pragma_page_size)")) {
		if _, err := fmt.Sscan(name, &pages); err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

// A batch goes where it says, or nowhere.
func TestBatchPosition(t *testing.T) { // D6, W5
	f := newFlow(t)
	r := f.record(host1, "r1")
	event := func(kind string) PiEvent {
		return PiEvent{Type: kind, At: 5, Payload: json.RawMessage(`{"x":1}`)}
	}
	turn := int64(0)
	other := event("e1")
	other.Turn = &turn
	r.mustAppend(AppendSegment{FirstEntry: 1, Entries: []string{"a", "b", "c"}, FirstEvent: 1, Events: []PiEvent{event("e1"), event("e2")}})
	before := dump(t, f.Path())
	for name, test := range map[string]struct {
		cmd  AppendSegment
		want schema.Code // "": it is found
	}{
		"the same":            {AppendSegment{FirstEntry: 1, Entries: []string{"a", "b", "c"}, FirstEvent: 1, Events: []PiEvent{event("e1"), event("e2")}}, ""},
		"a part":              {AppendSegment{FirstEntry: 2, Entries: []string{"b"}}, ""},
		"its events":          {AppendSegment{FirstEvent: 2, Events: []PiEvent{event("e2")}}, ""},
		"a gap":               {AppendSegment{FirstEntry: 5, Entries: []string{"d"}}, schema.Conflict},
		"a gap in the events": {AppendSegment{FirstEntry: 4, Entries: []string{"d"}, FirstEvent: 4, Events: []PiEvent{event("e4")}}, schema.Conflict},
		"another entry":       {AppendSegment{FirstEntry: 3, Entries: []string{"x"}}, schema.Conflict},
		"beyond the end":      {AppendSegment{FirstEntry: 3, Entries: []string{"c", "d"}}, schema.Conflict},
		"another event":       {AppendSegment{FirstEvent: 1, Events: []PiEvent{other}}, schema.Conflict},
		"half of it is new":   {AppendSegment{FirstEntry: 1, Entries: []string{"a"}, FirstEvent: 3, Events: []PiEvent{event("e3")}}, schema.Conflict},
		"empty":               {AppendSegment{}, schema.Invalid},
		"no number":           {AppendSegment{Entries: []string{"d"}}, schema.Invalid},
		"a number of nothing": {AppendSegment{FirstEntry: 4, FirstEvent: 3, Events: []PiEvent{event("e3")}}, schema.Invalid},
		"two lines":           {AppendSegment{FirstEntry: 4, Entries: []string{"d\ne"}}, schema.Invalid},
		"no line":             {AppendSegment{FirstEntry: 4, Entries: []string{""}}, schema.Invalid},
		"no text":             {AppendSegment{FirstEntry: 4, Entries: []string{"\xff"}}, schema.Invalid},
		"no type":             {AppendSegment{FirstEvent: 3, Events: []PiEvent{event("")}}, schema.Invalid},
		"no time":             {AppendSegment{FirstEvent: 3, Events: []PiEvent{{Type: "x", Payload: json.RawMessage(`{}`)}}}, schema.Invalid},
		"no payload":          {AppendSegment{FirstEvent: 3, Events: []PiEvent{{Type: "x", At: 1}}}, schema.Invalid},
		"no such attempt":     {AppendSegment{FirstEvent: 3, Events: []PiEvent{{Type: "x", At: 1, Payload: json.RawMessage(`{}`), Attempt: "att_x"}}}, schema.NotFound},
		"too many":            {AppendSegment{FirstEntry: 4, Entries: slices.Repeat([]string{"d"}, MaxBatch+1)}, schema.Limit},
		"a secret":            {AppendSegment{FirstEntry: 4, Entries: []string{`{"t":"ghp_` + strings.Repeat("a", 36) + `"}`}}, schema.Invalid},
	} {
		done, err := r.append(test.cmd)
		switch {
		case test.want == "":
			if err != nil || !done.Adopted || done.Result.Entries != 3 || done.Result.Events != 2 {
				t.Errorf("%s: %+v, %v", name, done, err)
			}
		case !errors.Is(err, test.want):
			t.Errorf("%s: %v, want %s", name, err, test.want)
		case test.want == schema.Conflict:
			if e := cause[*ConflictError](t, err); e.Winner.(Segment).Entries != 3 {
				t.Errorf("%s: winner %+v", name, e.Winner)
			}
		}
	}
	if dump(t, f.Path()) != before {
		t.Error("what was found or refused changed the database")
	}
	if s := r.mustAppend(AppendSegment{FirstEntry: 4, Entries: []string{"d"}}); s.Entries != 4 {
		t.Errorf("%+v", s)
	}
}

// Whoever has lost the run can't write to its captures, whatever it sends.
func TestStaleOwnerCantCapture(t *testing.T) { // D6, R3
	f := newFlow(t)
	old := f.record(host1, "r1")
	old.mustAppend(AppendSegment{FirstEntry: 1, Entries: []string{"a"}})
	f.clock.move(time.Hour)
	expired := func() {
		for name, try := range captureTries(old) {
			if err := try(); !errors.Is(err, schema.StaleClaim) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	expired() // nobody has taken over yet
	next := &recording{f.own(host2, "r1"), old.segment}
	before := dump(t, f.Path())
	expired()
	if _, err := Do(t.Context(), f.Store, Permit{Actor: host2, Expected: AnyRevision, Claim: old.claim}, AppendSegment{Segment: old.segment, FirstEntry: 2, Entries: []string{"b"}}); !errors.Is(err, schema.StaleClaim) {
		t.Errorf("the old claim in the new owner's name: %v", err)
	}
	if _, err := Do(t.Context(), f.Store, Permit{Actor: host1, Expected: AnyRevision, Claim: next.claim}, AppendSegment{Segment: old.segment, FirstEntry: 2, Entries: []string{"b"}}); !errors.Is(err, schema.Denied) {
		t.Errorf("the new claim in the old owner's name: %v", err)
	}
	if dump(t, f.Path()) != before {
		t.Error("a stale owner changed the database")
	}
	next.mustAppend(AppendSegment{FirstEntry: 2, Entries: []string{"b"}}) // where the other one was
	mustDo(t, f.Store, next.claimed(next.now().Revision), CompleteSegment{Segment: next.segment})
}

// captureTries are all that an owner can do to its capture.
func captureTries(r *recording) map[string]func() error {
	do := func(expected int64, cmd Command[*Segment]) func() error {
		return func() error {
			_, err := Do(context.Background(), r.Store, r.claimed(expected), cmd)
			return err
		}
	}
	revision := r.now().Revision
	return map[string]func() error{
		"open":     do(0, OpenSegment{Run: r.run, Session: "pi-session", Key: "new"}),
		"append":   do(AnyRevision, AppendSegment{Segment: r.segment, FirstEntry: r.now().Entries + 1, Entries: []string{"z"}}),
		"complete": do(revision, CompleteSegment{Segment: r.segment}),
		"fail":     do(revision, FailSegment{Segment: r.segment, Error: json.RawMessage(`{}`)}),
	}
}

func TestOpenSegment(t *testing.T) { // D6, W5
	f := newFlow(t)
	r := f.record(pi1, "r1")
	attempt := r.start().begin("test").ID
	first := r.now()
	if first.Ordinal != 1 || first.Status != SegmentRecording || first.Revision != 1 || first.Run != "r1" || first.Session != "pi-session" {
		t.Errorf("%+v", first)
	}
	again := mustDo(t, f.Store, r.claimed(0), OpenSegment{Run: "r1", Session: "pi-session", Key: "k1"})
	if !again.Adopted || *again.Result != first {
		t.Errorf("%+v", again)
	}
	second := mustDo(t, f.Store, r.claimed(0), OpenSegment{Run: "r1", Session: "pi-session", Key: "k2", Attempt: attempt}).Result
	if second.Ordinal != 2 || second.Attempt != attempt {
		t.Errorf("%+v", second)
	}
	f.create(f.spec("r2"))
	for name, test := range map[string]struct {
		permit Permit
		cmd    OpenSegment
		want   schema.Code
	}{
		"another session":        {r.claimed(0), OpenSegment{Run: "r1", Session: "other", Key: "k1"}, schema.Conflict},
		"another attempt":        {r.claimed(0), OpenSegment{Run: "r1", Session: "pi-session", Key: "k1", Attempt: attempt}, schema.Conflict},
		"no such attempt":        {r.claimed(0), OpenSegment{Run: "r1", Session: "pi-session", Key: "k3", Attempt: "att_x"}, schema.NotFound},
		"no such run":            {r.claimed(0), OpenSegment{Run: "r9", Session: "pi-session", Key: "k3"}, schema.NotFound},
		"another run's claim":    {r.claimed(0), OpenSegment{Run: "r2", Session: "pi-session", Key: "k3"}, schema.Denied},
		"no claim":               {Permit{Actor: pi1}, OpenSegment{Run: "r1", Session: "pi-session", Key: "k3"}, schema.Denied},
		"not for people":         {Permit{Actor: control}, OpenSegment{Run: "r1", Session: "pi-session", Key: "k3"}, schema.Denied},
		"no session":             {r.claimed(0), OpenSegment{Run: "r1", Key: "k3"}, schema.Invalid},
		"no key":                 {r.claimed(0), OpenSegment{Run: "r1", Session: "pi-session"}, schema.Invalid},
		"an expected revision":   {r.claimed(1), OpenSegment{Run: "r1", Session: "pi-session", Key: "k3"}, schema.StaleRevision},
		"attempt of another run": {r.claimed(0), OpenSegment{Run: "r2", Session: "pi-session", Key: "k3", Attempt: attempt}, schema.Denied},
	} {
		if _, err := Do(t.Context(), f.Store, test.permit, test.cmd); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

// An ended capture is immutable, and says how it ended.
func TestEndSegment(t *testing.T) { // D6, D4
	f := newFlow(t)
	r := f.record(host1, "r1")
	r.mustAppend(AppendSegment{FirstEntry: 1, Entries: []string{`{"id":"p"}`, `{"id":"q"}`, `{"id":"p"}`}})
	for name, test := range map[string]struct {
		cmd  CompleteSegment
		want schema.Code
	}{
		"no such prompt":         {CompleteSegment{PromptEntry: "x"}, schema.NotFound},
		"no such response":       {CompleteSegment{PromptEntry: "p", ResponseEntry: "x"}, schema.NotFound},
		"no such segment":        {CompleteSegment{Segment: "seg_x"}, schema.NotFound},
		"response before prompt": {CompleteSegment{PromptEntry: "q", ResponseEntry: "q2"}, schema.NotFound},
		"a control character":    {CompleteSegment{PromptEntry: "\x01"}, schema.Invalid},
	} {
		if test.cmd.Segment == "" {
			test.cmd.Segment = r.segment
		}
		if _, err := Do(t.Context(), f.Store, r.claimed(r.now().Revision), test.cmd); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	f.clock.move(time.Second)
	permit := r.claimed(2)
	permit.Request = "complete-it"
	complete := CompleteSegment{Segment: r.segment, PromptEntry: "p", ResponseEntry: "q"}
	done := mustDo(t, f.Store, permit, complete)
	if s := *done.Result; s.Status != SegmentComplete || s.PromptEntry != "p" || s.ResponseEntry != "q" || s.EndedAt != f.clock.millis() || s != r.now() {
		t.Errorf("%+v", s)
	}
	if again := mustDo(t, f.Store, permit, complete); !again.Adopted || *again.Result != *done.Result {
		t.Errorf("%+v", again)
	}
	for name, try := range captureTries(r) {
		if err := try(); name != "open" && !errors.Is(err, schema.IllegalTransition) {
			t.Errorf("%s: %v", name, err)
		}
	}

	failing := &recording{r.owner, r.open("k2").ID}
	if _, err := Do(t.Context(), f.Store, r.claimed(1), FailSegment{Segment: failing.segment}); !errors.Is(err, schema.Invalid) {
		t.Errorf("a failure without an error: %v", err)
	}
	s := mustDo(t, f.Store, r.claimed(1), FailSegment{failing.segment, json.RawMessage(`{"code":"lost"}`)}).Result
	blob, err := f.Blob(t.Context(), *s.Error)
	if err != nil || string(blob.Bytes) != `{"code":"lost"}` || s.Status != SegmentFailed {
		t.Errorf("%+v, %s, %v", s, blob.Bytes, err)
	}
}

// What a run left open when it ended can only be closed as failed, by the upkeep.
func TestSegmentOfAnEndedRun(t *testing.T) { // D6, D7
	f := newFlow(t)
	r := f.record(host1, "r1")
	if _, err := send(r.owner, FailRun{Run: "r1", Error: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	for name, try := range captureTries(r) {
		if err := try(); !errors.Is(err, schema.StaleClaim) {
			t.Errorf("%s: %v", name, err)
		}
	}
	upkeep := Permit{Actor: Actor{SystemActor, "upkeep"}, Expected: 1}
	if _, err := Do(t.Context(), f.Store, upkeep, CompleteSegment{Segment: r.segment}); !errors.Is(err, schema.Denied) {
		t.Errorf("the upkeep calls it complete: %v", err)
	}
	mustDo(t, f.Store, upkeep, FailSegment{r.segment, json.RawMessage(`{"code":"abandoned"}`)})

	live := f.record(host1, "r2")
	if _, err := Do(t.Context(), f.Store, upkeep, FailSegment{live.segment, json.RawMessage(`{}`)}); !errors.Is(err, schema.Denied) {
		t.Errorf("the upkeep ends the capture of a run that goes on: %v", err)
	}
}

// A replay goes through all captures of a run, in the order in which they were opened.
func TestReplayAcrossSegments(t *testing.T) { // D6, V2
	f := newFlow(t)
	r := f.record(host1, "r1")
	second := &recording{r.owner, r.open("k2").ID}
	third := &recording{r.owner, r.open("k3").ID}
	second.mustAppend(AppendSegment{FirstEntry: 1, Entries: []string{"b1", "b2", "b3"}})
	r.mustAppend(AppendSegment{FirstEntry: 1, Entries: []string{"a1", "a2"}})
	third.mustAppend(AppendSegment{FirstEntry: 1, Entries: []string{"c1"}})
	want := []string{"a1", "a2", "b1", "b2", "b3", "c1"}
	for limit := 1; limit <= 7; limit++ {
		if got := linesOf(replayAll(t, &f.Queries, "r1", limit)); !slices.Equal(got, want) {
			t.Errorf("limit %d: %v", limit, got)
		}
	}
	if _, err := f.Replay(t.Context(), "r9", ReplayCursor{}, 1, false); !errors.Is(err, schema.NotFound) {
		t.Errorf("%v", err)
	}
}

func TestListSegments(t *testing.T) { // V2
	f := newFlow(t)
	r := f.record(host1, "r1")
	attempt := r.start().begin("test").ID
	want := []string{r.segment}
	for i := range 4 {
		f.clock.move(-time.Second) // the order of the replay is not that of the clock
		want = append(want, r.open(fmt.Sprint("n", i)).ID)
	}
	own := mustDo(t, f.Store, r.claimed(0), OpenSegment{Run: "r1", Session: "other-session", Key: "a", Attempt: attempt}).Result
	for _, test := range []struct {
		filter SegmentFilter
		want   []string
	}{
		{SegmentFilter{Run: "r1"}, append(slices.Clone(want), own.ID)},
		{SegmentFilter{Attempt: attempt}, []string{own.ID}},
		{SegmentFilter{Session: "other-session"}, []string{own.ID}},
		{SegmentFilter{Session: "pi-session"}, reversed(want)},
		{SegmentFilter{Session: "nobody"}, nil},
	} {
		for limit := 1; limit <= 7; limit++ {
			var got []string
			for after := ""; ; {
				page, err := f.Segments(t.Context(), test.filter, after, limit)
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				for _, s := range page {
					got = append(got, s.ID)
				}
				after = page[len(page)-1].ID
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%+v, limit %d: %v, want %v", test.filter, limit, got, test.want)
			}
		}
	}
	for _, filter := range []SegmentFilter{{}, {Run: "r1", Session: "s"}, {Attempt: "a", Session: "s"}} {
		if _, err := f.Segments(t.Context(), filter, "", 1); !errors.Is(err, schema.Invalid) {
			t.Errorf("%+v: %v", filter, err)
		}
	}
	if _, err := f.Segments(t.Context(), SegmentFilter{Run: "r1"}, "seg_x", 1); !errors.Is(err, schema.NotFound) {
		t.Errorf("%v", err)
	}
	if _, err := f.SegmentEntries(t.Context(), "seg_x", 0, 1, false); !errors.Is(err, schema.NotFound) {
		t.Errorf("%v", err)
	}
	if _, err := f.SegmentEvents(t.Context(), r.segment, 0, MaxPage+1, false); !errors.Is(err, schema.Invalid) {
		t.Errorf("%v", err)
	}
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// A page with content ends before it is too large, and never without a row.
func TestPagesOfLargeEntries(t *testing.T) { // V2
	f := newFlow(t)
	r := f.record(host1, "r1")
	var lines []string
	for i := range 3 {
		lines = append(lines, strings.Repeat(fmt.Sprint(i), maxPageBytes*2/5))
	}
	lines = append(lines, strings.Repeat("y", maxPageBytes+1), "z")
	r.mustAppend(AppendSegment{FirstEntry: 1, Entries: lines})
	var pages []int
	var got []string
	for after := int64(0); ; {
		page, err := f.SegmentEntries(t.Context(), r.segment, after, 100, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		pages, got = append(pages, len(page)), append(got, linesOf(page)...)
		after = page[len(page)-1].Sequence
	}
	if !slices.Equal(got, lines) || !slices.Equal(pages, []int{2, 1, 1, 1}) {
		t.Errorf("pages of %v", pages)
	}
	if all, err := f.SegmentEntries(t.Context(), r.segment, 0, 100, false); err != nil || len(all) != len(lines) {
		t.Errorf("%d entries without lines, %v", len(all), err)
	}
}

// A line that was changed behind the product's back is not passed on.
func TestDamagedEntry(t *testing.T) { // R9
	f := newFlow(t)
	r := f.record(host1, "r1")
	r.mustAppend(AppendSegment{FirstEntry: 1, Entries: []string{"original"}})
	plant(t, f.Path(), "UPDATE blobs SET bytes = CAST('forgery!' AS BLOB) WHERE bytes = CAST('original' AS BLOB)")
	if _, err := f.Replay(t.Context(), "r1", ReplayCursor{}, 10, true); !errors.Is(err, schema.Corrupt) {
		t.Errorf("%v", err)
	}
	plant(t, f.Path(), "UPDATE blobs SET bytes = CAST('original' AS BLOB) WHERE bytes = CAST('forgery!' AS BLOB)")
}

// The record of a batch is as long for a thousand entries as for one: they are in rows of their own.
func TestEventOfABatchIsShort(t *testing.T) {
	f := newFlow(t)
	r := f.record(host1, "r1")
	r.mustAppend(AppendSegment{FirstEntry: 1, Entries: slices.Repeat([]string{"a"}, MaxBatch)})
	events, err := f.Events(t.Context(), EventFilter{Resource: NewResourceID(SessionResource, r.segment)}, 0, 10)
	if err != nil || len(events) != 2 || events[1].Type != "segment.appended" || events[1].Run != "r1" {
		t.Fatalf("%+v, %v", events, err)
	}
	blob, err := f.Blob(t.Context(), events[1].Payload)
	if err != nil || len(blob.Bytes) > 300 {
		t.Errorf("%d bytes, %v", len(blob.Bytes), err)
	}
}

// Each page costs what is on it, however long the capture is.
func TestCaptureQueriesUseIndexes(t *testing.T) { // V2
	db := rawOpen(t, newPath(t))
	for name, sql := range map[string]string{
		"selSegment": selSegment, "selNextOrdinal": selNextOrdinal, "selRunOfAttempt": selRunOfAttempt, "updSegment": updSegment,
		"selFirstEntry": selFirstEntry, "selLastEntry": selLastEntry, "selStoredEntries": selStoredEntries,
		"selStoredEvents": selStoredEvents, "selSegmentsOfRun": selSegmentsOfRun, "selSegmentsOfAttempt": selSegmentsOfAttempt,
		"selSegmentsOfSession": selSegmentsOfSession, "selSegmentEntries": selSegmentEntries, "selRunEntries": selRunEntries,
		"selSegmentEvents": selSegmentEvents,
	} {
		plan := queryPlan(t, db, name, sql)
		sorts := strings.Contains(plan, "TEMP B-TREE") && name != "selSegmentsOfAttempt" // which are few
		if strings.Contains(plan, "SCAN") || sorts {
			t.Errorf("%s:\n%s", name, plan)
		}
		if byNumber := strings.Contains(plan, "sequence>?"); byNumber != (strings.HasPrefix(name, "selStored") || strings.HasSuffix(name, "Entries") || strings.HasSuffix(name, "Events")) {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

// BenchmarkCapture captures events of about 400 bytes, one sync per batch.
func BenchmarkCapture(b *testing.B) {
	for _, size := range []int{1, 32, 256} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			f := newFlow(b)
			r := f.record(host1, "r1")
			text := strings.Repeat("the quick brown fox ", 18)
			events := make([]PiEvent, size)
			n := int64(1)
			for b.Loop() {
				for i := range events {
					events[i] = PiEvent{
						Type: "message_update", Node: "test", Message: "m1", At: Millis(n) + Millis(i),
						Payload: json.RawMessage(fmt.Sprintf(`{"delta":%q,"n":%d}`, text, n+int64(i))),
					}
				}
				r.mustAppend(AppendSegment{FirstEvent: n, Events: events})
				n += int64(size)
			}
			b.ReportMetric(float64(n-1)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
