package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// The media types of content. The bytes decide: text that happens to be canonical JSON is stored as JSON, so
// that the same bytes always have the same row, whoever came first.
const (
	JSONMedia = "application/json" // canonical by RFC 8785
	TextMedia = "text/plain"       // UTF-8
)

// MaxContentBytes is the largest content that is stored.
const MaxContentBytes = 64 << 20

// Digest is a SHA-256. As text and on wires it is 64 hexadecimal digits.
type Digest [sha256.Size]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText returns the hexadecimal digits.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads 64 hexadecimal digits.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(d)) {
		return schema.Errorf(schema.Invalid, "digest %q: 64 hexadecimal digits are expected", text)
	}
	if _, err := hex.Decode(d[:], text); err != nil {
		return schema.Errorf(schema.Invalid, "digest %q: %w", text, err)
	}
	return nil
}

// content is a value made ready to be stored: canonical, hashed, and looked at for secrets. A draft makes
// it, before the transaction (W4). In JSON it is its digest.
type content struct {
	digest Digest
	media  string
	bytes  []byte
}

// MarshalJSON returns the digest.
func (c *content) MarshalJSON() ([]byte, error) { return json.Marshal(c.digest) }

func newContent(media string, b []byte) *content { return &content{sha256.Sum256(b), media, b} }

// jsonContent makes content of a JSON value. field names it in errors: [schema.Invalid] for what is no JSON
// of I-JSON's kind (RFC 7493), [schema.Limit] for too much of it.
func jsonContent(field string, value []byte) (*content, error) {
	if err := checkSize(field, len(value)); err != nil {
		return nil, err
	}
	canonical, err := canonicalJSON(value)
	if err != nil {
		return nil, schema.Errorf(schema.Invalid, "%s: %w", field, err)
	}
	return newContent(JSONMedia, canonical), nil
}

// textContent makes content of a text, whatever characters are in it.
func textContent(field, text string) (*content, error) {
	if err := checkSize(field, len(text)); err != nil {
		return nil, err
	}
	if !utf8.ValidString(text) {
		return nil, schema.Errorf(schema.Invalid, "%s is not UTF-8 text", field)
	}
	return newContent(mediaTypeOf([]byte(text)), []byte(text)), nil
}

func checkSize(field string, n int) error {
	if n > MaxContentBytes {
		return schema.Errorf(schema.Limit, "%s has %d bytes; at most %d can be stored", field, n, MaxContentBytes)
	}
	return nil
}

// mediaTypeOf returns the media type that content of these bytes has.
func mediaTypeOf(b []byte) string {
	if len(b) > 0 && strings.IndexByte(`{["-0123456789tfn`, b[0]) >= 0 {
		if canonical, err := canonicalJSON(b); err == nil && bytes.Equal(canonical, b) {
			return JSONMedia
		}
	}
	return TextMedia
}

// canonicalJSON returns the canonical form of RFC 8785 of a JSON value. It refuses what has no such form
// without a loss: duplicate names, text that is no Unicode (half a surrogate pair), and numbers that another
// reader of the same text could take for other numbers.
func canonicalJSON(value []byte) ([]byte, error) {
	if err := checkNumbers(value); err != nil {
		return nil, err
	}
	v := jsontext.Value(bytes.Clone(value))
	if err := v.Canonicalize(); err != nil {
		return nil, err
	}
	return v, nil
}

func checkNumbers(value []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if token.Kind() == jsontext.KindNumber {
			if err := checkNumber(token.String()); err != nil {
				return err
			}
		}
	}
}

// checkNumber refuses a number that a double can't hold: too large, too small, or a whole number with more
// digits than it keeps. Fractions are rounded, as every reader of JSON does.
func checkNumber(literal string) error {
	f, err := strconv.ParseFloat(literal, 64)
	why := ""
	switch {
	case err != nil:
		why = "is out of range"
	case f == 0 && strings.ContainsAny(mantissa(literal), "123456789"):
		why = "is too small"
	case strings.ContainsAny(literal, ".eE"):
		return nil
	case strconv.FormatFloat(f, 'f', -1, 64) != literal:
		why = "has more digits than JSON numbers keep"
	default:
		return nil
	}
	return schema.Errorf(schema.Invalid, "number %.40s %s; send it as a string", literal, why)
}

func mantissa(literal string) string {
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		return literal[:i]
	}
	return literal
}

const (
	selBlobKind = `
		SELECT media_type, length
		  FROM blobs
		 WHERE digest = ?1`

	selBlobEqual = `
		SELECT bytes = ?2
		  FROM blobs
		 WHERE digest = ?1`

	insBlob = `
		INSERT INTO blobs (digest, media_type, length, bytes, created_at)
		VALUES (?1, ?2, ?3, ?4, ?5)`

	selBlob = `
		SELECT media_type, length, bytes, created_at
		  FROM blobs
		 WHERE digest = ?1`
)

// putBlob stores content, or adopts the row that has it already. Errors: [schema.Corrupt] if the row under
// the digest is another one (R9).
func putBlob(tx *sqlite.Tx, c *content, now Millis) error {
	same := false
	found, err := tx.QueryRow(selBlobKind, func(r sqlite.Row) error {
		same = r.Text(0) == c.media && r.Int(1) == len(c.bytes)
		return nil
	}, c.digest[:])
	if err != nil {
		return err
	}
	if !found {
		_, err := tx.Exec(insBlob, c.digest[:], c.media, len(c.bytes), c.bytes, int64(now))
		return err
	}
	if same {
		_, err = tx.QueryRow(selBlobEqual, func(r sqlite.Row) error {
			same = r.Bool(0)
			return nil
		}, c.digest[:], c.bytes)
	}
	if err == nil && !same {
		err = corruptBlob(c.digest)
	}
	return err
}

func corruptBlob(d Digest) error {
	return schema.Errorf(schema.Corrupt, "blob %s does not hold what its digest says: the database is damaged; verify it deep, and restore a backup", d)
}

// Blob is stored content.
type Blob struct {
	Digest    Digest
	MediaType string
	Bytes     []byte
	CreatedAt Millis
}

// Blob returns content by its digest, after checking that it is what the digest says. Errors:
// [schema.NotFound], [schema.Corrupt].
func (q *Queries) Blob(ctx context.Context, digest Digest) (b Blob, err error) {
	length, found := 0, false
	err = q.view(ctx, func(rx *sqlite.Rx) (err error) {
		b = Blob{Digest: digest}
		found, err = rx.QueryRow(selBlob, func(r sqlite.Row) error {
			b.MediaType, length, b.Bytes, b.CreatedAt = r.Text(0), r.Int(1), r.Bytes(2), Millis(r.Int64(3))
			return nil
		}, digest[:])
		return err
	})
	switch {
	case err != nil:
		return b, err
	case !found:
		return b, notFound("blob", digest.String())
	case len(b.Bytes) != length || sha256.Sum256(b.Bytes) != digest:
		return b, corruptBlob(digest)
	}
	return b, nil
}
