package store

import (
	"context"
	"encoding/hex"
	"strings"

	"pistate/internal/sqlite"
	"pistate/schema"
)

const (
	selDigests = `
		SELECT digest
		  FROM blobs
		 WHERE digest >= ?1
		   AND digest <= ?2
		 ORDER BY digest
		 LIMIT 2`

	minDigestPrefix = 6
)

// FindBlob returns the digest that begins with some hex digits, at least six. Errors: [schema.NotFound];
// [schema.Conflict] if there are several; [schema.Invalid].
func (q *Queries) FindBlob(ctx context.Context, prefix string) (digest Digest, err error) {
	if len(prefix) < minDigestPrefix || len(prefix) > hex.EncodedLen(len(digest)) {
		return digest, schema.Errorf(schema.Invalid, "digest %q: from %d to %d hex digits are expected", prefix, minDigestPrefix, hex.EncodedLen(len(digest)))
	}
	rest := hex.EncodedLen(len(digest)) - len(prefix)
	from, err := hex.DecodeString(prefix + strings.Repeat("0", rest))
	if err != nil {
		return digest, schema.Errorf(schema.Invalid, "digest %q: %w", prefix, err)
	}
	to, err := hex.DecodeString(prefix + strings.Repeat("f", rest))
	if err != nil {
		return digest, schema.Errorf(schema.Invalid, "digest %q: %w", prefix, err)
	}
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		found := 0
		err := rx.Query(selDigests, func(r sqlite.Row) error {
			digest = *digestOf(r.Bytes(0))
			found++
			return nil
		}, from, to)
		switch {
		case err != nil:
			return err
		case found == 0:
			return notFound("blob", prefix)
		case found > 1:
			return schema.Errorf(schema.Conflict, "several blobs begin with %s: give more digits", prefix)
		}
		return nil
	})
	return digest, err
}
