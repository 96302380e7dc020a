package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// echoGrammar prints its arguments.
type echoGrammar struct {
	Echo echoCmd `cmd:""`
}

type word string

type echoCmd struct {
	Flag string `default:"none"`
	Word word   `enum:"one,two" default:"one"`
	Arg  string `arg:"" optional:""`

	Choice string `enum:",one,two" default:""`
}

func (c *echoCmd) Run(env *Env) error {
	_, err := fmt.Fprintf(env.Stdout, "%s %s %s", c.Flag, c.Word, c.Arg)
	return err
}

func TestTextArgumentsAreExact(t *testing.T) { // S10, Y8, Y1
	run := func(args ...string) (code int, out, diagnosis string) {
		var stdout, stderr strings.Builder
		p := Program{Name: "test", Version: "1", Grammar: &echoGrammar{}}
		code = p.Run(context.Background(), append([]string{"echo"}, args...), strings.NewReader(""), &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "none one "},
		{[]string{"--flag", "\xff/\xfe", "--word=two", "\"\xc3\x28\""}, "\xff/\xfe two \"\xc3\x28\""},
		{[]string{"--flag=a=b", "<&>\u2028"}, "a=b one <&>\u2028"},
		{[]string{"--", "-5"}, "none one -5"},
		{[]string{""}, "none one "}, // an argument may be empty
	} {
		if code, out, diagnosis := run(c.args...); code != ExitOK || out != c.want {
			t.Errorf("%q: %d %q %s, want %q", c.args, code, out, diagnosis, c.want)
		}
	}
	for _, args := range [][]string{{"--choice", "three"}} { // the empty word, which stands for leaving it out, is not named
		if _, _, diagnosis := run(args...); diagnosis != "test: --choice must be one of \"one\",\"two\" but got \"three\" (see test echo --help)\n" {
			t.Errorf("%q: %s", args, diagnosis)
		}
	}
	for _, args := range [][]string{{"--flag", ""}, {"--flag="}, {"--word="}, {"--flag"}, {"--word", "three"}} {
		if code, out, diagnosis := run(args...); code != ExitUsage || out != "" || !strings.Contains(diagnosis, args[0][:6]) {
			t.Errorf("%q: %d %q %s", args, code, out, diagnosis)
		}
	}
}
