package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Every command is in the documentation.
func TestCommandsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/piw.md")
	if err != nil {
		t.Fatal(err)
	}
	p := Program()
	parser, err := kong.New(p.Grammar, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		words := strings.Fields(leaf.FullPath())[1:]
		found := strings.Contains(string(doc), "`piw "+strings.Join(words, " "))
		if !found && len(words) == 2 { // as in `piw session status`, `list`, `show`
			found = strings.Contains(string(doc), "`piw "+words[0]+" ") && strings.Contains(string(doc), "`"+words[1]+"`")
		}
		if !found {
			t.Errorf("%q is not documented", words)
		}
		if leaf.Help == "" {
			t.Errorf("%q has no help", words)
		}
	}
}
