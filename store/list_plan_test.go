package store

import (
	"os"
	"strings"
	"testing"
)

// scanning are the queries that read a table or an index from one end to the other, and why they may. The
// checks of a whole database are not among them: they are meant to.
var scanning = map[string]string{
	"selMeta":                   "it has one row",
	"selTables":                 "the schema, which is not data",
	"countLeases":               "a count of those that have an owner, through the index of these alone",
	"sumLengths":                "a sum, through an index that holds nothing but the lengths",
	"selLastEvents":             "it begins at the end of the table and stops at the limit",
	"selUnattended":             "what it scans are the few that are due, which it has found through indexes",
	"selAbandonedDecisions":     "the pending ones alone, through the index of these",
	"selAbandonedContinuations": "the pending ones alone, through the index of these",
	"selUnnotedAsleep":          "the open ones alone, through the index of these",
}

// Whatever people look at is found through an index, however much there is beside it. The plans are those
// that TestSQL holds to what SQLite says.
func TestNothingIsFoundByScanning(t *testing.T) { // V2
	deep := map[string]bool{}
	for name, file := range source(t) {
		if strings.HasPrefix(name, "deep") {
			for object := range file.Scope.Objects {
				deep[object] = true
			}
		}
	}
	plans, err := os.ReadFile("testdata/plans.golden")
	if err != nil {
		t.Fatal(err)
	}
	query, queries := "", 0
	scans := map[string]bool{}
	for line := range strings.Lines(string(plans)) {
		step := strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, " "):
			query = step
			queries++
		case strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "VIRTUAL TABLE") && step != "SCAN CONSTANT ROW":
			scans[query] = true
		}
	}
	for query := range scans {
		if scanning[query] == "" && !deep[query] {
			t.Errorf("%s scans", query)
		}
	}
	for query := range scanning {
		if !scans[query] {
			t.Errorf("%s does not scan any more: take it off the list", query)
		}
	}
	if queries < 100 {
		t.Errorf("only %d queries were found", queries)
	}
}
