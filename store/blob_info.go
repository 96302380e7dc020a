package store

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"pistate/internal/sqlite"
	"pistate/schema"
)

// BlobInfo describes stored content, and carries it if that was asked for.
type BlobInfo struct {
	MediaType string          `json:"media_type"`
	Length    int64           `json:"length"`          // in bytes
	Value     json.RawMessage `json:"value,omitempty"` // of JSON
	Text      *string         `json:"text,omitempty"`  // of anything else
}

const selBlobInfo = `
	SELECT media_type, length
	  FROM blobs
	 WHERE digest = ?1`

// BlobInfos describes content by its digests. Content never changes, so this belongs to whatever the digests
// were read with, and the same content is described once. With payloads it carries the content too, after
// checking that it is what its digest says.
//
// Errors: [schema.NotFound], [schema.Corrupt], and [schema.Limit] for payloads of more than MaxContentBytes
// in all.
func (q *Queries) BlobInfos(ctx context.Context, payloads bool, digests ...Digest) (infos map[Digest]BlobInfo, err error) {
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		infos, err = blobInfos(rx, payloads, digests)
		return err
	})
	return infos, err
}

func blobInfos(rx *sqlite.Rx, payloads bool, digests []Digest) (map[Digest]BlobInfo, error) {
	infos := map[Digest]BlobInfo{}
	total := int64(0)
	for _, digest := range digests {
		if _, known := infos[digest]; known {
			continue
		}
		var info BlobInfo
		found, err := rx.QueryRow(selBlobInfo, func(r sqlite.Row) error {
			info.MediaType, info.Length = r.Text(0), r.Int64(1)
			return nil
		}, digest[:])
		if err == nil && !found {
			err = notFound("blob", digest.String())
		}
		if err != nil {
			return nil, err
		}
		if payloads {
			if total += info.Length; total > MaxContentBytes {
				return nil, schema.Errorf(schema.Limit, "the payloads have more than %d bytes in all: ask for fewer at once, or for one blob at a time", int64(MaxContentBytes))
			}
			if err := info.load(rx, digest); err != nil {
				return nil, err
			}
		}
		infos[digest] = info
	}
	return infos, nil
}

// load adds the content.
func (i *BlobInfo) load(rx *sqlite.Rx, digest Digest) error {
	var bytes []byte
	_, err := rx.QueryRow(selBlob, func(r sqlite.Row) error {
		bytes = r.Bytes(2)
		return nil
	}, digest[:])
	switch {
	case err != nil:
		return err
	case sha256.Sum256(bytes) != digest:
		return corruptBlob(digest)
	case i.MediaType == JSONMedia:
		i.Value = bytes
	default:
		text := string(bytes)
		i.Text = &text
	}
	return nil
}
