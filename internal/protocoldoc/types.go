package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"pistate/store"
)

var (
	anyJSON   = []reflect.Type{reflect.TypeFor[json.RawMessage](), reflect.TypeFor[jsontext.Value](), reflect.TypeFor[any]()}
	digest    = reflect.TypeFor[store.Digest]()
	moment    = reflect.TypeFor[store.Millis]()
	operation = reflect.TypeFor[store.Op]()
	claimType = reflect.TypeFor[store.Claim]()
)

// claimForm is what a claim is on the wire.
type claimForm struct {
	Resource   store.ResourceID `json:"resource"`
	Generation int64            `json:"generation"`
	ExpiresAt  store.Millis     `json:"expires_at,omitempty"`
	Token      string           `json:"token,omitempty"`
}

// jsonType says what a Go type is in JSON, and remembers the structs that are to be explained.
func (p *page) jsonType(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, raw := range anyJSON {
		if t == raw {
			return "any JSON"
		}
	}
	switch {
	case t == digest:
		return "digest"
	case t == moment:
		return "time"
	case t == operation:
		return "string"
	case t.Kind() == reflect.String && len(p.source.words[t.Name()]) > 0:
		return "`" + strings.Join(p.source.words[t.Name()], "` `") + "`"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "array of " + p.jsonType(t.Elem())
	case reflect.Map:
		return "object of " + p.jsonType(t.Elem())
	case reflect.Struct:
		if t.NumField() == 0 {
			return "{}"
		}
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		p.explain(name, t)
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	if t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64 {
		return "number"
	}
	p.fail("no JSON form for %v", t)
	return ""
}

// field is one member of an object.
type field struct {
	name     string
	kind     string
	optional bool
	says     string
}

// fields lists the members of a struct, those of embedded structs in their place.
func (p *page) fields(t reflect.Type) (fields []field) {
	docs := p.source.fields[t.Name()]
	if t == claimType {
		t = reflect.TypeFor[claimForm]()
		docs = p.source.fields["claimFacts"]
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			fields = append(fields, p.fields(inner)...)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		fields = append(fields, field{name, p.jsonType(f.Type), optional, p.source.field(t, f.Name, docs[f.Name])})
	}
	return fields
}
