package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"pistate/schema"
	"pistate/store"
)

//go:embed intro.md
var intro string

// page is the document as it grows.
type page struct {
	bytes.Buffer
	source  *source
	types   map[string]bool // that are to be explained, by name
	queue   []named         // in the order in which they were met
	problem error
}

type named struct {
	name string
	t    reflect.Type
}

func (p *page) fail(format string, args ...any) {
	if p.problem == nil {
		p.problem = fmt.Errorf(format, args...)
	}
}

func (p *page) print(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// explain makes sure that a type is explained at the end.
func (p *page) explain(name string, t reflect.Type) {
	if !p.types[name] {
		p.types[name] = true
		p.queue = append(p.queue, named{name, t})
	}
}

func (p *page) write() {
	p.print("<!-- Written by go generate ./store; change the source instead. -->\n\n%s\n", strings.TrimSpace(intro))
	for _, t := range []reflect.Type{reflect.TypeFor[store.NewNotification](), reflect.TypeFor[store.NewTurn]()} {
		p.explain(t.Name(), t) // the introduction names them
	}
	p.codes()
	p.contents()
	for _, e := range store.Protocol() {
		p.operation(e)
	}
	p.print("\n## Types\n\n`digest` is a SHA-256 as 64 hexadecimal digits, `time` a number: UTC epoch milliseconds.\n")
	for i := 0; i < len(p.queue); i++ { // explaining one may add others
		name, t := p.queue[i].name, p.queue[i].t
		p.print("\n### %s\n\n", name)
		if doc := p.source.docs[t.Name()]; doc != "" {
			p.print("%s\n\n", p.source.prose(t, doc))
		}
		p.table(t)
	}
}

// codes prints the codes of refusals, with the facts that come with them.
func (p *page) codes() {
	facts := map[schema.Code][]string{}
	for _, c := range store.ProtocolFacts() {
		for _, code := range c.Codes {
			facts[code] = append(facts[code], p.jsonType(c.Type))
		}
	}
	p.print("\n## Codes\n\n| code | facts |\n| --- | --- |\n")
	for _, code := range schema.Codes() {
		p.print("| `%s` | %s |\n", code, strings.Join(facts[code], ", "))
	}
}

// contents prints the list of all operations.
func (p *page) contents() {
	p.print("\n## Operations\n\n| | |\n| --- | --- |\n")
	for _, e := range store.Protocol() {
		kind := ""
		if e.Query {
			kind = " (query)"
		}
		p.print("| [%s](#%s) | %s%s |\n", e.Op, strings.ReplaceAll(string(e.Op), ".", ""), e.Does, kind)
	}
}

func (p *page) operation(e store.Endpoint) {
	p.print("\n### %s\n\n", e.Op)
	if e.Query {
		p.print("A query: %s.\n", e.Does)
	} else {
		doc := strings.TrimSpace(strings.TrimPrefix(p.source.docs[e.Args.Name()], e.Args.Name()))
		p.print("`%s` %s\n\n%s\n", e.Op, p.source.prose(e.Args, doc), p.rights(e.Op))
	}
	if e.Grants {
		p.print("- the answer shows the claim's token, once and for all\n")
	}
	p.print("\n")
	p.table(e.Args)
	p.print("\nResult: %s.\n", p.jsonType(e.Result))
}

// rights says who may do an operation, and with which claim.
func (p *page) rights(op store.Op) string {
	rows := store.Operations()
	i := slices.IndexFunc(rows, func(o store.Operation) bool { return o.Op == op })
	if i < 0 {
		p.fail("%s is not in the table of operations", op)
		return ""
	}
	classes := map[string][]string{} // by what they need
	for class, right := range rows[i].Rights {
		needs := ownerships[right.Own]
		if right.On != nil {
			needs += ", for a resource of type " + strings.Join(words(right.On), ", ")
		}
		classes[needs] = append(classes[needs], string(class))
	}
	var b strings.Builder
	for _, needs := range slices.Sorted(maps.Keys(classes)) {
		fmt.Fprintf(&b, "- actor %s%s\n", strings.Join(slices.Sorted(slices.Values(classes[needs])), ", "), needs)
	}
	if rows[i].AnyRevision {
		b.WriteString("- `expected` may be left out\n")
	}
	return strings.TrimSpace(b.String())
}

func words[T ~string](list []T) (words []string) {
	for _, w := range list {
		words = append(words, string(w))
	}
	return words
}

// ownerships say whose claim is needed.
var ownerships = map[store.Ownership]string{
	store.OwnNothing:    "",
	store.OwnSubject:    ", with a claim on the resource itself",
	store.OwnRun:        ", with a claim on its run",
	store.OwnController: ", with a claim on its controller resource",
	store.OwnChannel:    ", with a claim on its channel",
	store.OwnScope:      ", with a claim on the effect's scope, unless that is the system's",
}

func (p *page) table(t reflect.Type) {
	fields := p.fields(t)
	if len(fields) == 0 {
		p.print("No args.\n")
		return
	}
	p.print("| field | | |\n| --- | --- | --- |\n")
	for _, f := range fields {
		optional := ""
		if f.optional {
			optional = ", optional"
		}
		p.print("| `%s` | %s%s | %s |\n", f.name, f.kind, optional, f.says)
	}
}
