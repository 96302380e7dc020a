//go:build !wasip1

package sqlite

import (
	"context"
	"errors"

	"github.com/ncruces/go-sqlite3"

	"pistate/schema"
)

// loan is a database that is open for a guest.
type loan struct {
	*native
	reader *Reader // for mode 0: what the connection belongs to
	claims bool    // the guest has prepared to make the database its own
}

func openLoanForWriting(ctx context.Context, path string) (*loan, error) {
	if err := createDatabase(path); err != nil {
		return nil, err
	}
	c, err := openUnknown(ctx, path)
	if err != nil {
		return nil, err
	}
	return newLoan(c, nil)
}

func openLoanForReading(ctx context.Context, path string) (*loan, error) {
	file, err := identify(path)
	if err != nil {
		return nil, translate(path, err)
	}
	if file.info != nil {
		err = mustBeFile(path, file.info)
	}
	if err == nil && file.size() == 0 {
		err = schema.Errorf(schema.NotFound, "%s: no such database", path)
	}
	if err != nil {
		return nil, err
	}
	r := &Reader{path: path}
	if err := r.open(ctx); err != nil {
		if errors.Is(err, errChanged) {
			err = changed(path)
		}
		return nil, join(err, r.Close())
	}
	return newLoan(r.conn.native(), r)
}

// newLoan puts a connection under guard.
func newLoan(c *native, r *Reader) (*loan, error) {
	n := &loan{native: c, reader: r}
	err := c.script("PRAGMA temp_store = MEMORY")
	if err == nil {
		c.db.Limit(sqlite3.LIMIT_ATTACHED, 0)
		c.db.Limit(sqlite3.LIMIT_SQL_LENGTH, maxSQL)
		c.db.Limit(sqlite3.LIMIT_LIKE_PATTERN_LENGTH, maxPattern)
		err = c.try(func() error { return c.db.SetAuthorizer(n.authorize) })
	}
	if err != nil {
		return nil, join(err, n.close())
	}
	return n, nil
}

func (n *loan) close() error {
	if n.reader == nil {
		return n.native.close()
	}
	// What was read without a lock counts only if the files are still as they were.
	again, err := n.reader.mustRepeat(nil, false)
	err = join(err, n.reader.Close())
	if err == nil && again {
		err = changed(n.path)
	}
	return err
}

func changed(path string) error {
	return schema.Errorf(schema.Busy, "%s: the file changed while it was read; try again", path)
}

// prepare prepares one statement.
func (n *loan) prepare(ctx context.Context, sql []byte) (*loanStmt, error) {
	text, err := sqlText(sql)
	if err != nil {
		return nil, err
	}
	n.interrupt(ctx)
	n.claims = false
	s, err := n.prepareOne(text)
	if err != nil {
		return nil, err
	}
	return &loanStmt{loan: n, Stmt: s, claims: n.claims, params: s.BindCount(), columns: s.ColumnCount()}, nil
}

// runScript runs several statements.
func (n *loan) runScript(ctx context.Context, sql []byte) error {
	text, err := sqlText(sql)
	if err != nil {
		return err
	}
	n.interrupt(ctx)
	n.claims = false
	err = n.script(text)
	if err == nil && n.claims {
		err = n.adopt()
	}
	return err
}

func sqlText(sql []byte) (string, error) {
	if len(sql) > maxSQL {
		return "", schema.Errorf(schema.Limit, "an SQL text of %d bytes is longer than the %d that there may be", len(sql), maxSQL)
	}
	return string(sql), nil
}
