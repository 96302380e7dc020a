//go:build !wasip1 && !lent

package sqlite

import (
	"context"
	"io/fs"
	"os"
	"sync"

	"pistate/schema"
)

// maxReaders is the number of reading connections that a DB opens at most, each when first needed.
const maxReaders = 4

// readers are a few reading connections, opened when needed and kept.
type readers struct {
	db *DB

	mu     sync.Mutex
	idle   []*conn
	slots  chan struct{} // one token per connection in use
	closed error
}

func (p *readers) with(ctx context.Context, fn func(*Rx) error) error {
	c, err := p.get(ctx)
	if err != nil {
		return err
	}
	keep := false // nor if fn panics
	defer func() { p.put(c, keep) }()
	if err := c.inPlace(); err != nil {
		return err
	}
	err = c.view(ctx, fn)
	keep = c.broken() == nil
	return err
}

func (p *readers) get(ctx context.Context) (*conn, error) {
	slots, err := p.tokens()
	if err != nil {
		return nil, err
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, schema.Errorf(schema.Canceled, "read was not begun: %w", ctx.Err())
	}
	c, err := p.pop()
	if c == nil && err == nil {
		c, err = p.db.openReader()
	}
	if err != nil {
		<-slots
		return nil, err
	}
	return c, nil
}

func (p *readers) tokens() (chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots == nil {
		p.slots = make(chan struct{}, maxReaders)
	}
	return p.slots, p.closed
}

func (p *readers) pop() (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil || len(p.idle) == 0 {
		return nil, p.closed
	}
	c := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return c, nil
}

func (p *readers) put(c *conn, keep bool) {
	p.mu.Lock()
	keep = keep && p.closed == nil
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		_ = c.close() // a reading connection holds nothing that could be lost
	}
	<-p.slots
}

// close closes all connections, the ones in use as soon as they are free.
func (p *readers) close(reason error) error {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, reason
	p.mu.Unlock()
	var err error
	for _, c := range idle {
		err = join(err, c.close())
	}
	slots, _ := p.tokens()
	for range maxReaders {
		slots <- struct{}{}
	}
	for range maxReaders {
		<-slots // for those who wait, to learn that there is nothing left
	}
	return err
}

// openReader opens a connection to the same file as the writer's.
func (db *DB) openReader() (*conn, error) {
	c, err := openReading(context.Background(), db.path, opening{role: reader})
	if err != nil {
		if now, lost := identify(db.path); lost == nil && !db.isWriters(now.info) {
			return nil, replaced(db.path) // which is why it can't be opened
		}
		return nil, err
	}
	if !db.isWriters(c.native().id) {
		return nil, join(replaced(db.path), c.close())
	}
	return c, nil
}

// isWriters reports whether a file is the one that the writer has open; nil is none.
func (db *DB) isWriters(info fs.FileInfo) bool {
	return info != nil && os.SameFile(info, db.writer.native().id)
}
