package main

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"pistate/store"
)

var update = flag.Bool("update", false, "rewrite docs/protocol.md")

const path = "../../docs/protocol.md"

// The documentation is what the registry and the source say now.
func TestDocumentationIsCurrent(t *testing.T) {
	want, err := generate("../../store")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/protocol.md is not current: run go generate ./store")
	}
}

func TestEveryOperationIsDocumented(t *testing.T) {
	text, err := generate("../../store")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range store.Protocol() {
		if !strings.Contains(string(text), "\n### "+string(e.Op)+"\n") {
			t.Errorf("%s has no section", e.Op)
		}
	}
	if name := regexp.MustCompile(`\bMax[A-Z]\w*`).Find(text); name != nil {
		t.Errorf("%s has no value", name)
	}
	for _, mark := range []string{"[schema.", "[*", "\uE000", "\uE001", "%!"} {
		if strings.Contains(string(text), mark) {
			t.Errorf("%q is left in the text", mark)
		}
	}
}
