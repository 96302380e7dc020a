package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// reply is an answer as its receiver reads it.
type reply struct {
	OK       *bool           `json:"ok"`
	Revision int64           `json:"revision"`
	Sequence int64           `json:"sequence"`
	Adopted  bool            `json:"adopted"`
	Result   json.RawMessage `json:"result"`
	Code     schema.Code     `json:"code"`
	Op       Op              `json:"op"`
	Detail   string          `json:"detail"`
	Facts    json.RawMessage `json:"facts"`
}

// ask dispatches a request and checks the form of its answer.
func ask(t testing.TB, s *Store, request string) (reply, string) {
	t.Helper()
	answer := s.Dispatch(context.Background(), []byte(request))
	r, err := readReply(answer)
	if err != nil {
		t.Fatalf("%.300s\nis answered by\n%.300s\n%v", request, answer, err)
	}
	return r, string(answer)
}

func readReply(answer []byte) (r reply, err error) {
	d := json.NewDecoder(bytes.NewReader(answer))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, err
	}
	switch {
	case d.More() || bytes.ContainsRune(answer, '\n'):
		return r, fmt.Errorf("more than one line")
	case r.OK == nil:
		return r, fmt.Errorf("neither ok nor not")
	case *r.OK && (r.Result == nil || r.Code != "" || r.Detail != "" || r.Facts != nil):
		return r, fmt.Errorf("not just a result")
	case !*r.OK && (r.Result != nil || !slices.Contains(schema.Codes(), r.Code) || r.Detail == "" || r.Revision != 0 || r.Sequence != 0 || r.Adopted):
		return r, fmt.Errorf("not just a refusal")
	}
	return r, nil
}

// mustAsk is ask for a request that must be accepted. The result is read into value, unless that is nil.
func mustAsk(t testing.TB, s *Store, value any, format string, args ...any) reply {
	t.Helper()
	r, text := ask(t, s, fmt.Sprintf(format, args...))
	if !*r.OK {
		t.Fatalf("%s: %s", fmt.Sprintf(format, args...), text)
	}
	if value != nil {
		if err := json.Unmarshal(r.Result, value); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestEveryOperationIsInTheProtocol(t *testing.T) {
	if len(endpointOf) != len(endpoints) {
		t.Errorf("%d operations have %d endpoints", len(endpointOf), len(endpoints))
	}
	for _, row := range Operations() {
		if e := endpointOf[row.Op]; e == nil || e.Query {
			t.Errorf("%s is missing: list its command among the endpoints of its domain", row.Op)
		}
	}
	for _, e := range Protocol() {
		if _, isCommand := operations[e.Op]; isCommand == e.Query || e.Does == "" {
			t.Errorf("%s: query %v, does %q", e.Op, e.Query, e.Does)
		}
	}
}

// declared returns what a function finds in each declaration of the package's source.
func declared(t *testing.T, find func(ast.Decl) []string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			found = append(found, find(d)...)
		}
	}
	slices.Sort(found)
	return found
}

func TestEveryCommandIsInTheProtocol(t *testing.T) {
	types := declared(t, func(d ast.Decl) []string {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil || f.Name.Name != "prepare" {
			return nil
		}
		receiver := f.Recv.List[0].Type
		if generic, ok := receiver.(*ast.IndexExpr); ok {
			receiver = generic.X
		}
		return []string{receiver.(*ast.Ident).Name}
	})
	var registered []string
	for _, e := range Protocol() {
		if !e.Query {
			registered = append(registered, e.Args.Name())
		}
	}
	registered = append(registered, "Delivering") // what goes with any of them: notify and turns of the request
	slices.Sort(registered)
	if !slices.Equal(types, registered) {
		t.Errorf("commands %v\nin the protocol %v", types, registered)
	}
}

func TestEveryQueryIsInTheProtocol(t *testing.T) {
	missing := map[string]bool{}
	for i := range reflect.TypeFor[*Queries]().NumMethod() {
		missing[reflect.TypeFor[*Queries]().Method(i).Name] = true
	}
	for _, name := range []string{
		"Path",      // who asks has opened the file
		"Snapshot",  // several queries at one moment are for Go alone
		"Blob",      // blob.get describes what it returns too
		"Events",    // event.list narrows by type too
		"BlobSizes", // looks at every blob: for a person who asks why a file is large
	} {
		delete(missing, name)
	}
	for name, file := range source(t) {
		if !strings.HasPrefix(name, "protocol") {
			continue
		}
		calls(file, func(name string) {
			if method, ok := strings.CutPrefix(name, "q."); ok {
				delete(missing, method)
			}
		})
	}
	for name := range missing {
		t.Errorf("Queries.%s is missing", name)
	}
}

func TestEveryCauseIsInTheProtocol(t *testing.T) {
	types := declared(t, func(d ast.Decl) (names []string) {
		if types, ok := d.(*ast.GenDecl); ok && types.Tok == token.TYPE {
			for _, spec := range types.Specs {
				if name := spec.(*ast.TypeSpec).Name; name.IsExported() && strings.HasSuffix(name.Name, "Error") {
					names = append(names, name.Name)
				}
			}
		}
		return names
	})
	var registered []string
	for _, c := range ProtocolFacts() {
		registered = append(registered, c.Type.Elem().Name())
		if len(c.Codes) == 0 {
			t.Errorf("%v has no code", c.Type)
		}
	}
	slices.Sort(registered)
	if !slices.Equal(types, registered) {
		t.Errorf("causes %v\nin the protocol %v", types, registered)
	}
}

// An answer that holds a claim is one that hands it out, or that of a renewal, whose claim its holder has.
func TestWhoGrants(t *testing.T) { // R4
	for _, e := range Protocol() {
		if holds := holdsClaim(e.Result); holds != (e.Grants || e.Op == OpLeaseRenew) {
			t.Errorf("%s: its result holds a claim %v, and it grants %v", e.Op, holds, e.Grants)
		}
	}
}

func holdsClaim(t reflect.Type) bool {
	switch {
	case t == reflect.TypeFor[Claim]():
		return true
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice:
		return holdsClaim(t.Elem())
	case t.Kind() != reflect.Struct:
		return false
	}
	for i := range t.NumField() {
		if holdsClaim(t.Field(i).Type) {
			return true
		}
	}
	return false
}

// Every operation takes an object, and says which field it doesn't know.
func TestEveryEndpointIsStrict(t *testing.T) {
	s, _ := openStore(t)
	for _, e := range Protocol() {
		actor := `"actor":{"class":"host","id":"h1"},`
		if e.Query {
			actor = ""
		}
		for args, want := range map[string]string{
			`{"nonsense":1}`: "args.nonsense: there is no such field",
			`[]`:             "args: an object is expected, not an array",
			`null`:           "args: null is no value: leave it out",
		} {
			r, text := ask(t, s, fmt.Sprintf(`{"op":%q,%s"args":%s}`, e.Op, actor, args))
			if r.Code != schema.Invalid || r.Detail != want || r.Op != e.Op {
				t.Errorf("%s %s: %s", e.Op, args, text)
			}
		}
		ask(t, s, fmt.Sprintf(`{"op":%q,%s"args":{}}`, e.Op, actor)) // which has an answer of the right form
	}
}

func TestStrictRequests(t *testing.T) {
	s, _ := openStore(t)
	const host, claim = `"actor":{"class":"host","id":"h1"}`, `"op":"lease.claim",`
	for request, want := range map[string]string{
		``:                                     "the request: the JSON text ends in the middle",
		`{"op":"lease.claim"`:                  "the request: the JSON text ends in the middle",
		`nonsense`:                             "the request: not JSON, at byte 2",
		`[]`:                                   "the request: an object is expected, not an array",
		`null`:                                 "the request: null is no value",
		`{} {}`:                                "the request: not JSON, at byte 4",
		`{}`:                                   "op is missing",
		`{"op":""}`:                            "op is missing",
		`{"op":1}`:                             "op: a string is expected, not a number",
		`{"op":"no.such"}`:                     `op: there is no operation "no.such"`,
		`{"OP":"lease.get"}`:                   "OP: there is no such field",
		`{"op":"a","op":"b"}`:                  "op: it occurs twice",
		`{"a.b\n":1}`:                          `"a.b\n": there is no such field`,
		"{\"op\":\"\xff\"}":                    "op: not JSON, at byte 8",
		`{"op":"\ud800"}`:                      "op: not JSON, at byte 8",
		`{"op":"lease.get","x":1}`:             "x: there is no such field",
		`{"op":"lease.get",` + host + `}`:      "lease.get is a query",
		`{"op":"lease.get","expected":0}`:      "lease.get is a query",
		`{` + claim + `"args":{}}`:             "actor is missing",
		`{` + claim + `"actor":"h1"}`:          "actor: an object is expected, not a string",
		`{` + claim + `"actor":{"class":"x"}}`: `actor class "x": it is one of`,
		`{` + claim + `"actor":{"class":"host","x":1}}`:                                      "actor.x: there is no such field",
		`{` + claim + host + `,"expected":1.5}`:                                              "expected: a whole number of 64 bits is expected, not 1.5",
		`{` + claim + host + `,"expected":1e400}`:                                            "expected: a whole number of 64 bits is expected, not 1e400",
		`{` + claim + host + `,"expected":99999999999999999999}`:                             "expected: a whole number of 64 bits is expected, not 99999999999999999999",
		`{` + claim + host + `,"expected":-2}`:                                               "expected revision -2: it is at least 0",
		`{` + claim + host + `,"expected":null}`:                                             "expected: null is no value",
		`{` + claim + host + `,"claim":{"token":"x"}}`:                                       "claim on : the token is not one that was handed out",
		`{` + claim + host + `,"claim":{"t":"x"}}`:                                           "claim.t: there is no such field",
		`{` + claim + host + `,"secrets_reviewed":"yes"}`:                                    "secrets_reviewed: true or false is expected, not a string",
		`{` + claim + host + `,"args":{"ttl_ms":"1"}}`:                                       "args.ttl_ms: a number is expected, not a string",
		`{` + claim + host + `,"args":{"ttl_ms":1,"ttl_ms":1}}`:                              "args.ttl_ms: it occurs twice",
		`{` + claim + host + `,"args":{"resource":7}}`:                                       "args.resource: a string is expected, not a number",
		`{` + claim + host + `,"args":{"resource":"x:y","ttl_ms":1}}`:                        `resource "x:y": "x" is no resource type`,
		`{"op":"blob.get","args":{"digest":"zz"}}`:                                           `args.digest: digest "zz": 64 hexadecimal digits are expected`,
		`{"op":"blob.get","args":{"digest":[]}}`:                                             `args.digest: a string is expected, not an array`,
		`{"op":"event.list","args":{"limit":1001}}`:                                          "limit 1001: it is from 1 to 1000",
		`{"op":"event.list","args":{"limit":0}}`:                                             "limit 0: it is from 1 to 1000",
		`{"op":"segment.append",` + host + `,"args":{"entries":["a",1]}}`:                    "args.entries[1]: a string is expected, not a number",
		`{"op":"segment.append",` + host + `,"args":{"events":[{},{"turn":true}]}}`:          "args.events[1].turn: a number is expected, not a truth value",
		`{"op":"segment.append",` + host + `,"args":{"events":[{"payload":{"a":1,"a":2}}]}}`: "args.events[0].payload.a: it occurs twice",
	} {
		r, text := ask(t, s, request)
		if r.Code != schema.Invalid || !strings.HasPrefix(r.Detail, want) {
			t.Errorf("%s\n%s\nwant %s", request, text, want)
		}
	}
}

func TestRequestLimit(t *testing.T) {
	s, _ := openStore(t)
	request := append([]byte(`{"op":"state.status"}`), bytes.Repeat([]byte(" "), MaxRequestBytes)...)
	if !raceDetector { // under which so much takes seconds
		if r, text := ask(t, s, string(request[:MaxRequestBytes])); !*r.OK {
			t.Errorf("the longest request: %.200s", text)
		}
	}
	if r, text := ask(t, s, string(request[:MaxRequestBytes+1])); r.Code != schema.Limit {
		t.Errorf("one byte more: %.200s", text)
	}
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	if r, text := ask(t, s, `{"op":"segment.append","actor":{"class":"host","id":"h"},"args":{"events":[{"payload":`+deep+`}]}}`); r.Code != schema.Invalid {
		t.Errorf("a deep value: %.200s", text)
	}
}

// The token is in the answer that hands the claim out, and in no other one.
func TestTokensInAnswers(t *testing.T) { // R4
	f := newFlow(t)
	f.create(f.spec("r1"))
	var claim, renewed struct {
		Token      string `json:"token"`
		Generation int64  `json:"generation"`
		Expires    Millis `json:"expires_at"`
	}
	const request = `{"op":"lease.claim","actor":{"class":"host","id":"h1"},"request":"once","args":{"resource":"run:r1","ttl_ms":60000}}`
	first := mustAsk(t, f.Store, &claim, request)
	if claim.Token == "" || claim.Generation != 1 || claim.Expires != f.clock.millis()+60_000 || first.Revision != 2 {
		t.Fatalf("%+v", claim)
	}
	if _, err := ParseClaim(runID("r1"), 1, claim.Token); err != nil {
		t.Error(err)
	}
	again, text := ask(t, f.Store, request)
	if again.Code != schema.Conflict || strings.Contains(text, claim.Token) {
		t.Errorf("%s", text)
	}
	// The claim goes back as it came.
	var answered json.RawMessage = first.Result
	reply := mustAsk(t, f.Store, &renewed, `{"op":"lease.renew","actor":{"class":"host","id":"h1"},"claim":%s,"args":{"resource":"run:r1","ttl_ms":90000}}`, answered)
	if renewed.Token != "" || renewed.Expires != claim.Expires+30_000 {
		t.Errorf("%s", reply.Result)
	}
	for _, request := range []string{
		`{"op":"lease.get","args":{"resource":"run:r1"}}`,
		`{"op":"event.list","args":{"run":"r1"}}`,
		`{"op":"run.document","args":{"run":"r1","payloads":true}}`,
		`{"op":"run.start","actor":{"class":"host","id":"h1"},"expected":9,"claim":` + string(answered) + `,"args":{"run":"r1"}}`,
		`{"op":"run.start","actor":{"class":"host","id":"h2"},"expected":2,"claim":` + string(answered) + `,"args":{"run":"r1"}}`,
		`{"op":"lease.claim","actor":{"class":"host","id":"h2"},"args":{"resource":"run:r1","ttl_ms":1}}`,
		`{"op":"lease.release","actor":{"class":"host","id":"h1"},"claim":` + string(answered) + `,"args":{"resource":"run:r1"}}`,
	} {
		if _, text := ask(t, f.Store, request); strings.Contains(text, claim.Token) {
			t.Errorf("%s shows the token", request)
		}
	}
}

// A refusal carries the facts of its code.
func TestFacts(t *testing.T) {
	f := newFlow(t)
	o := f.own(host1, f.create(f.spec("r1")).ID)
	held := fmt.Sprintf(`{"resource":"run:r1","generation":1,"token":%q}`, o.claim.Token())
	start := `{"op":"run.start","actor":{"class":"host","id":"h1"},"expected":%d,"claim":%s,"args":{"run":"r1"}}`
	for name, test := range map[string]struct {
		request string
		code    schema.Code
		facts   string
	}{
		"revision":   {fmt.Sprintf(start, 1, held), schema.StaleRevision, `{"resource":"run:r1","expected":1,"found":2}`},
		"claim":      {fmt.Sprintf(start, 2, strings.Replace(held, ":1,", ":4,", 1)), schema.StaleClaim, `{"resource":"run:r1","generation":4,"current":1,"reason":"somebody else has owned it since`},
		"held":       {`{"op":"lease.claim","actor":{"class":"host","id":"h2"},"args":{"resource":"run:r1","ttl_ms":1}}`, schema.Locked, `{"resource":"run:r1","owner":{"class":"host","id":"h1"},"generation":1,"until":1800000060000}`},
		"transition": {`{"op":"run.complete","actor":{"class":"host","id":"h1"},"expected":2,"claim":` + held + `,"args":{"run":"r1","output":1}}`, schema.IllegalTransition, `{"resource":"run:r1","from":"queued","op":"run.complete"}`},
		"denied":     {fmt.Sprintf(start, 2, `null`)[:0] + `{"op":"run.start","actor":{"class":"human"},"expected":2,"args":{"run":"r1"}}`, schema.Denied, `{"op":"run.start","class":"human","reason":`},
		"nothing":    {fmt.Sprintf(`{"op":"queue.claim","actor":{"class":"host","id":"h1"},"args":{"project":%q,"ttl_ms":1}}`, f.project), schema.NotFound, fmt.Sprintf(`{"project":%q}`, f.project)},
		"conflict":   {fmt.Sprintf(`{"op":"run.create","actor":{"class":"host","id":"h1"},"args":{"run":"r1","project":%q,"definition":%q,"source":{"type":"builtin","ref":"x"},"title":"","input":1,"mode":"headless"}}`, f.project, f.definition), schema.Conflict, `{"identity":"run r1","winner":{"id":"r1","revision":2,`},
		"no facts":   {`{"op":"run.get","args":{"run":"r9"}}`, schema.NotFound, ""},
	} {
		r, text := ask(t, f.Store, test.request)
		if r.Code != test.code || !strings.HasPrefix(string(r.Facts), test.facts) || test.facts == "" && r.Facts != nil {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A command and what it causes for Pi sessions are one.
func TestRequestWithDeliveries(t *testing.T) { // D12
	f := newFlow(t)
	o := f.own(host1, f.create(f.spec("r1")).ID)
	const request = `{"op":"run.start","actor":{"class":"host","id":"h1"},"expected":%d,"claim":{"resource":"run:r1","generation":1,"token":%q},%s"args":{"run":"r1"}}`
	causes := `"notify":[{"run":"r1","index":0,"kind":"progress","session":"pi-1","payload":{"text":"begun"}}],"turns":[{"run":"r1","session":"pi-1","key":"k","payload":1}],`
	if r, text := ask(t, f.Store, fmt.Sprintf(request, 2, o.claim.Token(), `"notify":[{"run":"r1"}],`)); r.Code != schema.Invalid {
		t.Error(text)
	}
	mustAsk(t, f.Store, nil, request, 2, o.claim.Token(), causes)
	for _, list := range []string{`{"op":"notification.list","args":{"run":"r1"}}`, `{"op":"turn.pending","args":{"session":"pi-1"}}`} {
		var found []json.RawMessage
		if r := mustAsk(t, f.Store, &found, "%s", list); len(found) != 1 {
			t.Errorf("%s: %s", list, r.Result)
		}
	}
	if r, text := ask(t, f.Store, `{"op":"run.get",`+causes+`"args":{"run":"r1"}}`); r.Code != schema.Invalid {
		t.Error(text)
	}
}

// What is left out of a permit means what the documentation says.
func TestExpectedLeftOut(t *testing.T) {
	f := newFlow(t)
	mustAsk(t, f.Store, nil, `{"op":"run.create","actor":{"class":"host","id":"h1"},"args":{"run":"r1","project":%q,"definition":%q,"source":{"type":"builtin","ref":"x"},"title":"","input":1,"mode":"headless"}}`, f.project, f.definition)
	mustAsk(t, f.Store, nil, `{"op":"run.pause","actor":{"class":"control"},"args":{"run":"r1"}}`) // any revision will do
	var claim json.RawMessage
	mustAsk(t, f.Store, &claim, `{"op":"lease.claim","actor":{"class":"host","id":"h1"},"args":{"resource":"run:r1","ttl_ms":9}}`)
	r, text := ask(t, f.Store, fmt.Sprintf(`{"op":"run.start","actor":{"class":"host","id":"h1"},"claim":%s,"args":{"run":"r1"}}`, claim))
	if r.Code != schema.StaleRevision || string(r.Facts) != `{"resource":"run:r1","expected":0,"found":3}` {
		t.Error(text)
	}
	var list []Run
	if r := mustAsk(t, f.Store, &list, `{"op":"run.list"}`); len(list) != 1 {
		t.Errorf("%s", r.Result)
	}
	if r := mustAsk(t, f.Store, nil, `{"op":"segment.list","args":{"run":"r1"}}`); string(r.Result) != "[]" {
		t.Errorf("a list of nothing is %s", r.Result)
	}
}

// A command that panics is undone and answered, and the store goes on.
func TestPanicIsAnswered(t *testing.T) {
	s, _ := openStore(t)
	mustCreate(t, s, "c1")
	before := dump(t, s.Path())
	for name, run := range map[Op]func(context.Context, *Store, call) (acceptance, error){
		"test.at_once": func(context.Context, *Store, call) (acceptance, error) { panic("a fault") },
		"test.in_the_middle": func(ctx context.Context, s *Store, _ call) (acceptance, error) {
			_, err := Do(ctx, s, Permit{Actor: session1, Expected: 1}, touch{Channel: "c1", row: func(*sqlite.Tx) error { panic("a fault") }})
			return acceptance{}, err
		},
		"test.no_json": func(context.Context, *Store, call) (acceptance, error) {
			return acceptance{Result: func() {}}, nil
		},
	} {
		endpointOf[name] = &Endpoint{Op: name, Query: true, run: run}
		defer delete(endpointOf, name)
		if r, text := ask(t, s, fmt.Sprintf(`{"op":%q}`, name)); r.Code != schema.Storage || r.Op != name {
			t.Errorf("%s", text)
		}
	}
	if dump(t, s.Path()) != before {
		t.Error("a command that panicked left something")
	}
	mustAsk(t, s, nil, `{"op":"state.status"}`)
}

func TestEndedContextAndStore(t *testing.T) {
	s, _ := openStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for request, want := range map[string]schema.Code{
		`{"op":"lease.claim","actor":{"class":"host","id":"h1"},"args":{"resource":"run:r1","ttl_ms":9}}`: schema.Canceled,
	} {
		r, err := readReply(s.Dispatch(ctx, []byte(request)))
		if err != nil || r.Code != want {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if r, text := ask(t, s, `{"op":"state.status"}`); r.Code != schema.Closed {
		t.Error(text)
	}
}

// Whatever is sent, there is one answer: a result or a refusal, and never a fault of the program.
func FuzzDispatch(f *testing.F) {
	for _, e := range Protocol() {
		f.Add(fmt.Appendf(nil, `{"op":%q,"actor":{"class":"host","id":"h1"},"expected":0,"args":{}}`, e.Op))
		f.Add(fmt.Appendf(nil, `{"op":%q,"args":{"run":"r1","resource":"run:r1","limit":3}}`, e.Op))
	}
	w := newFlow(f)
	r := w.record(host1, "r1")
	claim := fmt.Sprintf(`"actor":{"class":"host","id":"h1"},"claim":{"resource":"run:r1","generation":1,"token":%q}`, r.claim.Token())
	for _, request := range []string{
		`{"op":"lease.claim","actor":{"class":"host","id":"h1"},"args":{"resource":"run:r1","ttl_ms":60000}}`,
		`{"op":"project.register","actor":{"class":"system","id":"x"},"request":"r","args":{"path":"/"}}`,
		`{"op":"definition.register","actor":{"class":"host","id":"h1"},"args":{"definition":{"name":"d","nodes":[{"id":"a","type":"shell"}]}}}`,
		`{"op":"segment.append",` + claim + `,"args":{"segment":"` + r.segment + `","first_entry":1,"entries":["{}"],"first_event":1,"events":[{"type":"t","at":1,"payload":null}]}}`,
		`{"op":"run.start",` + claim + `,"expected":2,"args":{"run":"r1"}}`,
		`{"op":"attempt.begin",` + claim + `,"expected":3,"args":{"run":"r1","node":"test","input":{}}}`,
		`{"op":"run.fail",` + claim + `,"expected":4,"notify":[{"run":"r1","index":0,"kind":"final","session":"s","payload":1}],"args":{"run":"r1","error":{}}}`,
		`{"op":"effect.ensure",` + claim + `,"expected":2,"args":{"source":"run:r1","type":"t","key":"k","payload":{},"scope":{"type":"run","id":"r1"}}}`,
		`{"op":"decision.request",` + claim + `,"expected":2,"args":{"run":"r1","key":"k","request_revision":1,"audience":"a","title":"t","subject":{},"presentation":{},"choices":[]}}`,
		`{"op":"blob.get","args":{"digest":"` + strings.Repeat("0", 64) + `"}}`,
		`{"op":"run.list","args":{"before":{"at":-9223372036854775808,"id":"\u0000"}}}`,
		"", "null", "[[", `{"op":`, "\xff", `{"args":{"a":[{"b":1e999}]},"op":"run.get"}`,
	} {
		f.Add([]byte(request))
	}
	f.Fuzz(func(t *testing.T, request []byte) {
		answer := w.Dispatch(t.Context(), request)
		r, err := readReply(answer)
		if err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		if r.Code == schema.Storage || r.Code == schema.Corrupt {
			t.Fatalf("%s", answer)
		}
	})
}
