package store

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"pistate/schema"
)

// strict are the rules by which requests are read: a member is known and spelled exactly so, occurs once, and
// has the type that is expected.
var strict = json2.JoinOptions(
	json2.RejectUnknownMembers(true),
	json2.WithUnmarshalers(json2.UnmarshalFromFunc(refuseNull)),
)

var errNull = errors.New("null is no value: leave it out")

// refuseNull keeps null from standing for nothing. Only where any JSON may stand it is a value.
func refuseNull(d *jsontext.Decoder, into any) error {
	if d.PeekKind() != jsontext.KindNull {
		return errors.ErrUnsupported // by this function: the usual one does it
	}
	if t := reflect.TypeOf(into).Elem(); t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		return errors.ErrUnsupported
	}
	if _, err := d.ReadToken(); err != nil { // it only began like null
		return err
	}
	return errNull
}

// Decode reads the JSON text of a request, or of the part of it that is at a path, as strictly as [Store.Dispatch]: for
// who answers other operations in the same envelope. Errors: [schema.Invalid] with the path of what is wrong.
func Decode(text []byte, path string, into any) error {
	if err := json2.Unmarshal(text, into, strict); err != nil {
		return misread(path, err)
	}
	return nil
}

// misread is the refusal of what the JSON package could not read at a path. That package words its own errors for
// people who write Go, and otherwise in each process.
func misread(path string, err error) error {
	what := err.Error()
	var semantic *json2.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic):
		path = joinPath(path, semantic.JSONPointer)
		what = whatIsWrong(semantic)
	case errors.As(err, &syntactic):
		path = joinPath(path, syntactic.JSONPointer)
		what = notJSON(syntactic)
	}
	if path == "" {
		path = "the request"
	}
	return schema.Errorf(schema.Invalid, "%s: %s", path, what)
}

// maxPath is how much of a path is spelled out, in bytes: nothing of ours is that deep.
const maxPath = 200

// joinPath spells a JSON pointer as people do: args.entries[3].line.
func joinPath(path string, pointer jsontext.Pointer) string {
	var b strings.Builder
	b.WriteString(path)
	for token := range pointer.Tokens() {
		if b.Len() > maxPath {
			return b.String() + "..."
		}
		switch {
		case strings.Trim(token, digits) == "" && token != "":
			fmt.Fprintf(&b, "[%s]", token)
		case b.Len() == 0:
			b.WriteString(plain(token))
		default:
			b.WriteString("." + plain(token))
		}
	}
	return b.String()
}

// plain quotes a name that is not one of ours.
func plain(name string) string {
	if name == "" || strings.Trim(name, alnum+"_") != "" {
		return fmt.Sprintf("%.100q", name)
	}
	return name
}

func whatIsWrong(e *json2.SemanticError) string {
	var coded *schema.Error
	switch {
	case errors.Is(e.Err, errNull):
		return errNull.Error()
	case errors.Is(e.Err, json2.ErrUnknownName):
		return "there is no such field"
	case errors.As(e.Err, &coded):
		return coded.Error()
	case e.GoType == nil:
		return e.Error()
	case e.JSONKind == jsontext.KindNumber && isInteger(e.GoType):
		return fmt.Sprintf("a whole number of 64 bits is expected, not %.40s", e.JSONValue)
	}
	return fmt.Sprintf("%s is expected, not %s", kindOfType(e.GoType), kindOfValue(e.JSONKind))
}

func isInteger(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64 }

func kindOfType(t reflect.Type) string {
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()), t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return "an array"
	case isInteger(t):
		return "a number"
	}
	return "an object"
}

func kindOfValue(k jsontext.Kind) string {
	switch k {
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a truth value"
	case jsontext.KindBeginArray:
		return "an array"
	case jsontext.KindBeginObject:
		return "an object"
	}
	return "null"
}

func notJSON(e *jsontext.SyntacticError) string {
	switch {
	case errors.Is(e.Err, jsontext.ErrDuplicateName):
		return "it occurs twice"
	case errors.Is(e.Err, io.ErrUnexpectedEOF):
		return "the JSON text ends in the middle"
	}
	return fmt.Sprintf("not JSON, at byte %d: %v", e.ByteOffset+1, e.Err)
}
