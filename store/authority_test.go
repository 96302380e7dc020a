package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pistate/schema"
)

// The table is printed as the documentation has it, and each cell does what it says.
func TestAuthorityTable(t *testing.T) { // W1
	var text strings.Builder
	fmt.Fprintf(&text, "%-32s", "")
	for _, class := range actorClasses {
		fmt.Fprintf(&text, "%-12s", class)
	}
	text.WriteByte('\n')
	seen := map[Op]bool{}
	for _, row := range Operations() {
		if seen[row.Op] || row.Does == "" || len(row.Rights) == 0 {
			t.Errorf("%s: twice in the table, or without a description or a right", row.Op)
		}
		seen[row.Op] = true
		fmt.Fprintf(&text, "%-32s", row.Op)
		for _, class := range actorClasses {
			cell := "-"
			if right, ok := row.Rights[class]; ok {
				cell = string(right.Own)
				if cell == "" {
					cell = "yes"
				}
				if right.On != nil {
					cell += "*"
				}
			}
			fmt.Fprintf(&text, "%-12s", cell)
		}
		text.WriteByte('\n')
		checkRow(t, row)
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	golden(t, "authority.golden", strings.Join(lines, "\n")+"\n")
}

func checkRow(t *testing.T, row Operation) {
	for _, class := range actorClasses {
		right, allowed := row.Rights[class]
		for _, a := range aggregates {
			_, own, err := authorize(row.Op, Actor{class, "x"}, NewResourceID(a.resource, "r"))
			if ok := allowed && (right.On == nil || slices.Contains(right.On, a.resource)); ok != (err == nil) {
				t.Errorf("%s of a %s by a %s: %v", row.Op, a.resource, class, err)
			}
			if err != nil {
				wantCode(t, err, schema.Denied)
			} else if own != right.Own {
				t.Errorf("%s by a %s needs %q, not %q", row.Op, class, own, right.Own)
			}
		}
		if !slices.Contains(ownerClasses, class) && right.Own == OwnSubject && class != PolicyActor {
			t.Errorf("%s: a %s can't own a lease", row.Op, class)
		}
	}
}

func TestUnknownOperation(t *testing.T) { // W1
	_, _, err := authorize("no.such", host1, "run:r1")
	wantCode(t, err, schema.Denied)
}
