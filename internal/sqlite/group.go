package sqlite

import (
	"context"
	"fmt"
	"sync"

	"pistate/schema"
)

// maxBatch bounds how many operations share a transaction, so that no caller waits for very many others.
const maxBatch = 128

// op is one caller's part of a transaction.
type op struct {
	fn        func(*Tx) error
	committed func()
	err       error
	panicked  any
	done      chan struct{}
}

// queue gathers operations that arrive while a transaction is being made, so that they share the next one
// and its sync. A goroutine runs only while there is work.
type queue struct {
	run func(take func() []*op) // makes one transaction of what take returns

	mu      sync.Mutex
	waiting []*op
	running bool
}

func (q *queue) do(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return canceled(err)
	}
	o.done = make(chan struct{})
	q.mu.Lock()
	q.waiting = append(q.waiting, o)
	if !q.running {
		q.running = true
		go q.drain()
	}
	q.mu.Unlock()
	select {
	case <-o.done:
	case <-ctx.Done():
		if q.withdraw(o) {
			return canceled(ctx.Err())
		}
		<-o.done
	}
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.err
}

func canceled(err error) error {
	return schema.Errorf(schema.Canceled, "write was not begun: %w", err)
}

// withdraw takes back an operation that has not begun.
func (q *queue) withdraw(o *op) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, w := range q.waiting {
		if w == o {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

func (q *queue) drain() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.running = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		q.run(q.take)
	}
}

func (q *queue) take() []*op {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), maxBatch)
	batch := append([]*op(nil), q.waiting[:n]...)
	q.waiting = append(q.waiting[:0], q.waiting[n:]...)
	return batch
}

// runIn runs the operation, in a savepoint of its own if it shares the transaction, and undoes it if it
// fails.
func (o *op) runIn(tx *Tx, shared bool) {
	if shared {
		if o.err = tx.c.exec("SAVEPOINT op"); o.err != nil {
			return
		}
	}
	o.call(tx)
	if !shared || tx.c.db.GetAutocommit() {
		return
	}
	if o.err != nil {
		if err := tx.c.exec("ROLLBACK TO op"); err != nil {
			o.err = fmt.Errorf("%w (and it could not be undone alone: %w)", o.err, err)
			_ = tx.c.rollback() // nothing of the batch may then be kept
			return
		}
	}
	if err := tx.c.exec("RELEASE op"); err != nil && o.err == nil {
		o.err = err
		_ = tx.c.rollback()
	}
}

func (o *op) call(tx *Tx) {
	defer func() {
		if p := recover(); p != nil {
			o.panicked = p
			o.err = fmt.Errorf("panic: %v", p)
		}
	}()
	o.err = o.fn(tx)
}

func anyKept(batch []*op) bool {
	for _, o := range batch {
		if o.err == nil {
			return true
		}
	}
	return false
}

// finish reports the outcome of the transaction to every operation that did not fail by itself.
func finish(batch []*op, err error) {
	for _, o := range batch {
		if o.err == nil {
			o.err = err
		}
		if o.err == nil && o.committed != nil {
			o.committed()
		}
	}
	for _, o := range batch {
		close(o.done)
	}
}
