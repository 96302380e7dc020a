package main

import (
	"errors"
	"strings"
	"testing"

	"pistate/schema"
	"pistate/wasm/abi"
)

// answers makes a question that always has this answer.
func answers(text string) question {
	return func(_ string, buf []byte) int64 { return abi.Give(buf, []byte(text)) }
}

func returns(n int64) question { return func(string, []byte) int64 { return n } }

// A host's answer is taken whatever its length, up to what no id or path has.
func TestAnswersOfAnyLength(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 257, 5000, maxHostAnswer} {
		want := strings.Repeat("x", n)
		h := &hostImports{branchKey: answers(want)}
		tree := &hostTree{host: h}
		for range 2 { // the second time the buffer is large enough
			if key, err := tree.BranchKey("leaf"); key != want || err != nil {
				t.Errorf("%d bytes: %d, %v", n, len(key), err)
			}
		}
	}
}

// A host that fails, or answers what makes no sense, is told of, and never believed.
func TestHostFailures(t *testing.T) {
	text := func(buf []byte) int64 { return abi.Give(buf, []byte("what the host says")) }
	for _, test := range []struct {
		name    string
		answer  question
		message func([]byte) int64
		code    schema.Code
		want    string
	}{
		{"a code", returns(int64(abi.Number(schema.Corrupt))), text, schema.Corrupt, "what the host says"},
		{"a code without a text", returns(int64(abi.Number(schema.Denied))), func([]byte) int64 { return -2 }, schema.Denied, "denied"},
		{"a text longer than texts are", returns(int64(abi.Number(schema.Denied))), func([]byte) int64 { return abi.MaxMessage + 1 }, schema.Denied, "denied"},
		{"no code's number", returns(-1000), text, schema.Storage, "-1000"},
		{"a number beyond 32 bits", returns(int64(abi.Number(schema.Denied)) - 1<<32), text, schema.Storage, "number of no error"},
		{"more than can be", returns(maxHostAnswer + 1), text, schema.Storage, "would fit"},
		{"ever more", func(_ string, buf []byte) int64 { return int64(len(buf)) + 1 }, text, schema.Storage, "would fit"},
	} {
		h := &hostImports{directory: test.answer, branchKey: test.answer, parentKey: test.answer, message: test.message}
		tree := &hostTree{host: h}
		_, dirErr := h.followLinks("/somewhere")
		_, keyErr := tree.BranchKey("leaf")
		_, _, parentErr := tree.ParentKey("key")
		for _, err := range []error{dirErr, keyErr, parentErr} {
			if !errors.Is(err, test.code) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %s and %q", test.name, err, test.code, test.want)
			}
		}
	}
}

// Absent means what it does where it is asked: a root has no parent, but a leaf has a key.
func TestHostAbsent(t *testing.T) {
	h := &hostImports{directory: returns(-1), branchKey: returns(-1), parentKey: returns(-1)}
	tree := &hostTree{host: h}
	if _, ok, err := tree.ParentKey("root"); ok || err != nil {
		t.Errorf("the parent of a root: %v, %v", ok, err)
	}
	if _, err := tree.BranchKey("leaf"); !errors.Is(err, schema.NotFound) {
		t.Errorf("the key of a leaf: %v", err)
	}
	if _, err := h.followLinks("/d"); !errors.Is(err, schema.NotFound) {
		t.Errorf("a directory: %v", err)
	}
}

// Asking for a key again and again costs no memory.
func TestHostTreeAllocations(t *testing.T) {
	tree := &hostTree{host: &hostImports{branchKey: answers("0123456789abcdef")}}
	if n := testing.AllocsPerRun(100, func() { _, _ = tree.BranchKey("leaf") }); n > 1 { // the test's own []byte
		t.Errorf("%v allocations", n)
	}
}
