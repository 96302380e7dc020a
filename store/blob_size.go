package store

import (
	"context"

	"pistate/internal/sqlite"
)

// BlobSize is how long some content is.
type BlobSize struct {
	Digest Digest `json:"digest"`
	Length int64  `json:"length"` // in bytes
}

const (
	selLargest = `
		SELECT digest, length
		  FROM blobs
		 WHERE length > 0
		 ORDER BY length DESC
		 LIMIT ?1`

	// The index on the lengths is read, and not the content.
	sumLengths = `
		SELECT ifnull(sum(length), 0)
		  FROM blobs`
)

// BlobSizes returns the longest content, at most limit of it, and how long all of it is together, in bytes:
// where the size of the file comes from.
func (q *Queries) BlobSizes(ctx context.Context, limit int) (largest []BlobSize, total int64, err error) {
	if err := checkPage(limit); err != nil {
		return nil, 0, err
	}
	err = q.view(ctx, func(rx *sqlite.Rx) error {
		largest = nil
		err := rx.Query(selLargest, func(r sqlite.Row) error {
			largest = append(largest, BlobSize{*digestOf(r.Bytes(0)), r.Int64(1)})
			return nil
		}, limit)
		if err != nil {
			return err
		}
		_, err = rx.QueryRow(sumLengths, func(r sqlite.Row) error {
			total = r.Int64(0)
			return nil
		})
		return err
	})
	return largest, total, err
}
