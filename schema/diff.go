package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	// maxDefinition is the longest definition, in bytes, that is taken apart. The longest of ours has some
	// thousands; a stranger's may have a gigabyte.
	maxDefinition = 64 << 10
	// maxExcerpt is how much of a name or definition a message shows, in bytes.
	maxExcerpt = 160
)

// Diff returns what got has and lacks of want, one line for each difference; none if the shapes are the
// same. What is missing or unexpected comes first, tables before what belongs to them: the rest is often
// its consequence. White space, comments, the case of keywords and needless quotes around names make no
// difference. Everything else does, the order of columns and constraints and the case of names included.
//
//	table runs: missing
//	trigger events_no_update: unexpected
//	table leases: column owner_id: expected TEXT NOT NULL, found INTEGER
//	table leases: CHECK (generation >= 0): missing
func Diff(want, got Shape) []string {
	if slices.Equal(want, got) {
		return nil // what remains is for databases that another program has made, and for errors
	}
	want, got = slices.Clone(want), slices.Clone(got)
	slices.SortFunc(want, compareObjects)
	slices.SortFunc(got, compareObjects)
	var absent, changed []string
	explained := map[string]bool{} // tables with a line: their constraints' indexes need none
	report := func(lines *[]string, o Object, found ...string) {
		if len(found) == 0 || o.isAutoIndex() && explained[o.Table] {
			return
		}
		explained[o.Name] = explained[o.Name] || o.Type == "table"
		for _, line := range found {
			*lines = append(*lines, o.label()+": "+line)
		}
	}
	for len(want) > 0 || len(got) > 0 {
		order := len(got) - len(want) // when one list is at its end
		if len(want) > 0 && len(got) > 0 {
			order = compareObjects(want[0], got[0])
		}
		switch {
		case order < 0:
			report(&absent, want[0], "missing")
			want = want[1:]
		case order > 0:
			report(&absent, got[0], "unexpected")
			got = got[1:]
		default:
			report(&changed, want[0], diffObject(want[0], got[0])...)
			want, got = want[1:], got[1:]
		}
	}
	return append(absent, changed...)
}

func diffObject(want, got Object) (lines []string) {
	if want.Table != got.Table {
		lines = append(lines, fmt.Sprintf("expected to belong to table %s, belongs to %s", printable(want.Table), printable(got.Table)))
	}
	switch {
	case want.SQL == got.SQL:
		return lines
	case len(got.SQL) > maxDefinition:
		return append(lines, fmt.Sprintf("its definition has %d bytes, expected %d", len(got.SQL), len(want.SQL)))
	}
	w, g := parseDefinition(want.SQL), parseDefinition(got.SQL)
	if w.subject != g.subject && g.subject != "" {
		lines = append(lines, "its SQL defines "+printable(g.subject)) // which is what SQLite goes by
	}
	if sameTokens(w.tokens, g.tokens) {
		return lines
	}
	if w.parts != nil && g.parts != nil {
		if found := diffParts(w.parts, g.parts); len(found) > 0 {
			return append(lines, found...)
		}
		return append(lines, "the order of its parts: "+expectedFound(joinTokens(w.tokens), joinTokens(g.tokens)))
	}
	return append(lines, expectedFound(joinTokens(w.tokens), joinTokens(g.tokens)))
}

// diffParts compares the parts label by label, in any order.
func diffParts(want, got []part) (lines []string) {
	done := map[string]bool{}
	for _, p := range slices.Concat(want, got) {
		if done[p.label] {
			continue
		}
		done[p.label] = true
		missing, unexpected := without(want, got, p.label), without(got, want, p.label)
		if len(missing) == 1 && len(unexpected) == 1 {
			lines = append(lines, printable(p.label)+": "+expectedFound(missing[0].text(), unexpected[0].text()))
			continue
		}
		for _, m := range missing {
			lines = append(lines, m.name()+": missing")
		}
		for _, u := range unexpected {
			lines = append(lines, u.name()+": unexpected")
		}
	}
	return lines
}

// without returns the parts of a with a label that b doesn't have as often.
func without(a, b []part, label string) (rest []part) {
	for _, p := range b {
		if p.label == label {
			rest = append(rest, p)
		}
	}
	b, rest = rest, nil
	for _, p := range a {
		if p.label != label {
			continue
		}
		if i := slices.IndexFunc(b, func(q part) bool { return sameTokens(p.tokens, q.tokens) }); i >= 0 {
			b = slices.Delete(b, i, i+1)
			continue
		}
		rest = append(rest, p)
	}
	return rest
}

// name tells one part from the others with its label.
func (p part) name() string {
	if p.kind > 0 {
		return printable(p.label + " " + p.text())
	}
	return printable(p.label)
}

// label names an object in a message.
func (o Object) label() string {
	typ := printable(o.Type)
	if strings.HasPrefix(o.SQL, "CREATE VIRTUAL") {
		typ = "virtual table"
	}
	return typ + " " + printable(o.Name)
}

// expectedFound shows two texts where they begin to differ.
func expectedFound(want, got string) string {
	from := 0
	if max(len(want), len(got)) > maxExcerpt {
		for from < min(len(want), len(got)) && want[from] == got[from] {
			from++
		}
		// Some words before the difference make its place known.
		from = max(0, strings.LastIndexByte(want[:max(0, from-maxExcerpt/4)], ' '))
	}
	return "expected " + excerpt(want, from) + ", found " + excerpt(got, from)
}

func excerpt(text string, from int) string {
	switch {
	case text == "":
		return "nothing"
	case from > 0:
		return printable("…" + text[from:])
	}
	return printable(text)
}

// printable shortens a text, and quotes what could disturb a terminal or end the line: a stranger chose it.
func printable(text string) string {
	if len(text) > maxExcerpt {
		text = strings.ToValidUTF8(text[:maxExcerpt], "") + "…"
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(text)
	}
	return text
}
