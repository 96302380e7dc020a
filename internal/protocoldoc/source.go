package main

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"pistate/store"
)

// source is what the Go source says of the types.
type source struct {
	docs   map[string]string            // of types
	fields map[string]map[string]string // of the fields of a type, by Go name
	words  map[string][]string          // the constants of a type of strings
	limits map[string]string            // the values of the constants whose names begin with Max
}

func readSource(dir string) (*source, error) {
	s := &source{docs: map[string]string{}, fields: map[string]map[string]string{}, words: map[string][]string{}, limits: map[string]string{
		"MaxLeaseMS": strconv.FormatInt(store.MaxLeaseMS, 10), // which is made of durations
	}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.GenDecl); ok {
				s.declaration(d)
			}
		}
	}
	if len(s.docs) == 0 {
		return nil, fmt.Errorf("%s: no Go types there", dir)
	}
	return s, nil
}

func (s *source) declaration(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			s.docs[spec.Name.Name] = firstOf(spec.Doc, d.Doc)
			if form, ok := spec.Type.(*ast.StructType); ok {
				s.structure(spec.Name.Name, form)
			}
		case *ast.ValueSpec:
			if of, ok := spec.Type.(*ast.Ident); ok && d.Tok == token.CONST {
				s.constants(of.Name, spec.Values)
			}
			if name := spec.Names[0].Name; strings.HasPrefix(name, "Max") && len(spec.Values) == 1 {
				s.limit(name, spec.Values[0])
			}
		}
	}
}

func (s *source) structure(name string, form *ast.StructType) {
	fields := map[string]string{}
	for _, f := range form.Fields.List {
		for _, n := range f.Names {
			fields[n.Name] = firstOf(f.Doc, f.Comment)
		}
	}
	s.fields[name] = fields
}

func (s *source) constants(of string, values []ast.Expr) {
	for _, v := range values {
		literal, ok := v.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		if word, err := strconv.Unquote(literal.Value); err == nil && word != "" {
			s.words[of] = append(s.words[of], word)
		}
	}
}

// limit notes the value of a constant, if it is made of numbers alone.
func (s *source) limit(name string, value ast.Expr) {
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(value))
	if err == nil && v.Value != nil {
		s.limits[name] = v.Value.ExactString()
	}
}

func firstOf(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		if g != nil {
			return strings.TrimSpace(g.Text())
		}
	}
	return ""
}

// commands are the operations by the Go names of their commands.
var commands = func() map[string]store.Op {
	ops := map[string]store.Op{}
	for _, e := range store.Protocol() {
		if !e.Query {
			ops[e.Args.Name()] = e.Op
		}
	}
	return ops
}()

var (
	codeLink = regexp.MustCompile(`\[schema\.(\w+)\]`)
	goLink   = regexp.MustCompile(`\[\*?(\w+)\]`)
	goName   = regexp.MustCompile(`\b[A-Z]\w*\b`)
	rules    = regexp.MustCompile(` \([A-Z]\d+(, [A-Z]\d+)*\)`)
	quoted   = regexp.MustCompile("\uE000[^\uE001]*\uE001")
)

// prose turns the Go comment of a type, or of one of its fields, into Markdown: codes and fields become
// their words on the wire, limits their values.
func (s *source) prose(of reflect.Type, text string) string {
	quote := func(word string) string { return "\uE000" + word + "\uE001" }
	text = rules.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, ". nil: ", ". Left out: ")
	text = codeLink.ReplaceAllStringFunc(text, func(link string) string {
		return quote(snake(codeLink.FindStringSubmatch(link)[1]))
	})
	text = goLink.ReplaceAllString(text, "$1")
	text = goName.ReplaceAllStringFunc(text, func(name string) string {
		if n, ok := s.limits[name]; ok {
			return n
		}
		if word := wireName(of, name); strings.Contains(word, "_") {
			return quote(word)
		}
		if op, ok := commands[name]; ok {
			return quote(string(op))
		}
		if _, ok := s.docs[name]; ok && isCompound(name) {
			return quote(name)
		}
		return name
	})
	var parser comment.Parser
	var printer comment.Printer
	printer.TextWidth = -1
	text = strings.TrimSpace(string(printer.Markdown(parser.Parse(text))))
	return quoted.ReplaceAllStringFunc(text, func(word string) string { // which the printer has escaped
		return "`" + strings.ReplaceAll(strings.Trim(word, "\uE000\uE001"), `\`, "") + "`"
	})
}

// isCompound reports whether a name can't be taken for an English word.
func isCompound(name string) bool {
	return strings.IndexFunc(name[1:], unicode.IsUpper) >= 0
}

// wireName returns the name of a field on the wire, or "".
func wireName(of reflect.Type, name string) string {
	if of == nil || of.Kind() != reflect.Struct {
		return ""
	}
	f, ok := of.FieldByName(name)
	if !ok {
		return ""
	}
	word, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return word
}

// snake spells the Go name of a code as its word.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// field is the comment of a field, for the cell of a table. Where it begins with the name of the field, that
// is what the cell before says.
func (s *source) field(of reflect.Type, name, text string) string {
	if rest, ok := strings.CutPrefix(text, name+": "); ok {
		text = rest
	} else if rest, ok := strings.CutPrefix(text, name); ok {
		text = "\uE000" + wireName(of, name) + "\uE001" + rest
	}
	return s.line(of, text)
}

// line is prose for the cell of a table.
func (s *source) line(of reflect.Type, text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s.prose(of, text)), " "), "|", `\|`)
}
