package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/store"
)

// execute runs pihost exec on a database of its own, with the clock and seed of all scenarios.
func execute(t testing.TB, requests string) string {
	t.Helper()
	var out, problems strings.Builder
	args := []string{"exec", "--db", filepath.Join(t.TempDir(), "state.sqlite"), "--clock", "1800000000000", "--seed", "1"}
	if code := Program().Run(context.Background(), args, strings.NewReader(requests), &out, &problems); code != 0 {
		t.Fatalf("exit code %d: %s", code, problems.String())
	}
	return out.String()
}

// The scenarios are requests with the answers that every engine gives. With -update the answers are
// rewritten, and before that the tokens in the requests: each claim that is sent back gets the token that was
// handed out for its resource and generation.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("../../../testdata/scenarios/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, path := range files {
		if strings.HasSuffix(path, ".golden.jsonl") {
			continue
		}
		ran++
		name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		t.Run(name, func(t *testing.T) {
			golden := strings.TrimSuffix(path, ".jsonl") + ".golden.jsonl"
			requests := read(t, path)
			if flag.Lookup("update").Value.String() == "true" {
				requests = withTokens(t, requests)
				write(t, path, requests)
				write(t, golden, execute(t, requests))
			}
			compare(t, execute(t, requests), read(t, golden))
			if again := execute(t, requests); again != read(t, golden) {
				t.Error("the second time the answers were others")
			}
		})
	}
	if ran < 2 {
		t.Errorf("%d scenarios", ran)
	}
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	answers, expected := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(answers) != len(expected) {
		t.Errorf("%d answers, want %d (-update rewrites them)", len(answers)-1, len(expected)-1)
	}
	for i := range min(len(answers), len(expected)) {
		if answers[i] != expected[i] {
			t.Errorf("answer %d is\n%s\nwant (-update rewrites it)\n%s", i+1, answers[i], expected[i])
		}
	}
}

var sentClaim = regexp.MustCompile(`"claim":\{"resource":"([^"]*)","generation":(\d+),"token":"([^"]*)"`)

// withTokens puts the tokens that are handed out into the requests that send them back. Each replay brings
// at least one more claim to light.
func withTokens(t *testing.T, requests string) string {
	for range 100 {
		tokens := map[string]string{}
		for line := range strings.Lines(execute(t, requests)) {
			var answer any
			if err := json.Unmarshal([]byte(line), &answer); err != nil {
				t.Fatal(err)
			}
			collectTokens(answer, tokens)
		}
		filled := sentClaim.ReplaceAllStringFunc(requests, func(claim string) string {
			part := sentClaim.FindStringSubmatch(claim)
			if token := tokens[part[1]+" "+part[2]]; token != "" {
				return fmt.Sprintf(`"claim":{"resource":%q,"generation":%s,"token":%q`, part[1], part[2], token)
			}
			return claim
		})
		if filled == requests {
			return requests
		}
		requests = filled
	}
	t.Fatal("the tokens never settle")
	return ""
}

func collectTokens(v any, tokens map[string]string) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			collectTokens(item, tokens)
		}
	case map[string]any:
		if token, ok := v["token"].(string); ok {
			tokens[fmt.Sprint(v["resource"], " ", v["generation"])] = token
		}
		for _, item := range v {
			collectTokens(item, tokens)
		}
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every answer is there before the next request has to be.
func TestExecAnswersAtOnce(t *testing.T) {
	requests, send := io.Pipe()
	answers, receive := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		args := []string{"exec", "--db", filepath.Join(t.TempDir(), "state.sqlite")}
		ended <- Program().Run(context.Background(), args, requests, receive, io.Discard)
		receive.Close()
	}()
	lines := bufio.NewReader(answers)
	for i := range 3 {
		if _, err := fmt.Fprintf(send, `{"op":"project.list","args":{"limit":%d}}`+"\n", i+1); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || line != `{"ok":true,"result":[]}`+"\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	if _, err := io.WriteString(send, `{"op":"project.list"}`); err != nil { // without a line break
		t.Fatal(err)
	}
	if err := send.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || string(rest) != `{"ok":true,"result":[]}`+"\n" {
		t.Errorf("%q, %v", rest, err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A line that is too long is answered without being kept.
func TestExecLongLine(t *testing.T) {
	long := strings.Repeat(" ", 3*64<<10)
	answers := execute(t, `{"op":"nothing","args":{"x":"`+long+`"}}`+"\n"+`{"op":"project.list"}`+"\n")
	if lines := strings.Split(answers, "\n"); len(lines) != 3 || lines[1] != `{"ok":true,"result":[]}` {
		t.Errorf("%q", answers)
	}
	in := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 100_000)+"\nnext\nlast"), 64)
	for _, want := range []string{strings.Repeat("x", 11), "next\n", "last"} {
		line, err := readLine(in, 10)
		if string(line) != want || err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("%.20q, %v; want %q", line, err, want)
		}
	}
}

func TestExecStreamsFail(t *testing.T) {
	db := filepath.Join(t.TempDir(), "state.sqlite")
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		in   io.Reader
		out  io.Writer
		want int
	}{
		"input":  {io.MultiReader(strings.NewReader("#\n"), failing{broken}), io.Discard, cli.ExitStorage},
		"output": {strings.NewReader(`{"op":"project.list"}` + "\n"), failing{broken}, cli.ExitStorage},
	} {
		var problems bytes.Buffer
		if code := Program().Run(t.Context(), []string{"exec", "--db", db}, test.in, test.out, &problems); code != test.want || !strings.Contains(problems.String(), "broken") {
			t.Errorf("%s: exit code %d, %s", name, code, problems.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	in, keep := io.Pipe()
	defer keep.Close()
	x := &executor{dispatch: func(context.Context, []byte) []byte { cancel(); return []byte("{}") }}
	go func() { _, _ = io.WriteString(keep, "one\n") }() // the pipe is open for ever
	err := x.run(&cli.Env{Context: ctx, Stdin: in, Stdout: io.Discard, Stderr: io.Discard})
	if !errors.Is(err, schema.Canceled) || cli.ExitCode(err) != cli.ExitInterrupted {
		t.Errorf("interrupted: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// BenchmarkExec asks the cheapest of all questions.
func BenchmarkExec(b *testing.B) {
	s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "state.sqlite"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	x := &executor{dispatch: s.Dispatch}
	for b.Loop() {
		x.answer(b.Context(), []byte(`{"op":"project.list","args":{"limit":1}}`))
	}
}
