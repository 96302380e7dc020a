package cli

import (
	"bytes"
	"fmt"
	"io"
	"time"
	"unicode"
	"unicode/utf16"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	json1 "github.com/go-json-experiment/json/v1"

	"pistate/store"
)

// Time is a moment for programs, in both forms that they like.
type Time struct {
	RFC3339 string `json:"rfc3339"`
	Ms      int64  `json:"ms"`
}

// TimeOf returns the JSON form of a moment.
func TimeOf(t time.Time) Time {
	return Time{t.UTC().Format("2006-01-02T15:04:05.000Z07:00"), t.UnixMilli()}
}

// form is how documents are written: as the standard library does, but without HTML in mind, a list of nothing
// is [], and a time of the workflow database is a [Time].
var form = json2.JoinOptions(
	json1.DefaultOptionsV1(),
	json2.FormatNilSliceAsNull(false),
	jsontext.EscapeForHTML(false),
)

func marshalMillis(e *jsontext.Encoder, m store.Millis) error {
	return json2.MarshalEncode(e, TimeOf(m.Time()))
}

// JSON prints one value on one line. What a terminal might act on is written as a JSON escape, so that the
// document says the same. Further marshalers say how types are written.
func JSON(w io.Writer, v any, marshalers ...*json2.Marshalers) error {
	marshalers = append(marshalers, json2.MarshalToFunc(marshalMillis))
	doc, err := json2.Marshal(v, form, json2.WithMarshalers(json2.JoinMarshalers(marshalers...)))
	if err != nil {
		return err
	}
	_, err = w.Write(append(escapeJSON(doc), '\n'))
	return err
}

// escapeJSON escapes what is not printable and not ASCII: outside strings a document has none of that.
func escapeJSON(doc []byte) []byte {
	safe := func(r rune) bool { return r < 0x7f || unicode.IsPrint(r) }
	if bytes.IndexFunc(doc, func(r rune) bool { return !safe(r) }) < 0 {
		return doc
	}
	var b bytes.Buffer
	for _, r := range string(doc) {
		switch {
		case safe(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}
