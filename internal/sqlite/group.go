package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"pistate/schema"
)

// maxBatch bounds how many operations share a transaction, so that no caller waits for very many others.
const maxBatch = 128

// op is one caller's part of a transaction.
type op struct {
	fn        func(*Tx) error
	committed func()
	begun     bool
	err       error
	panicked  any
	done      chan struct{} // closed when it is over; nil for the operation of a caller that leads
}

// queue gathers operations that arrive while a transaction is being made, so that they share the next one
// and its sync. A goroutine runs only while there is work.
type queue struct {
	run func(q *queue, most int) // makes one transaction of at most so many operations

	mu      sync.Mutex
	waiting []*op
	running bool
}

// do runs an operation and returns its outcome. A caller that finds nothing running leads: it makes a transaction
// of its operation itself, so that no goroutine has to be started and waited for. A caller whose context can end
// never does, as it must be able to leave while the connection is waited for.
func (q *queue) do(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return canceled(err)
	}
	if q.enter(o, ctx.Done() == nil) {
		q.lead()
	} else if !q.wait(ctx, o) {
		return canceled(ctx.Err())
	}
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.err
}

// enter puts an operation into the queue. It reports whether its caller leads, which it does if it can and
// nothing is running.
func (q *queue) enter(o *op, canLead bool) (leads bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	leads = canLead && !q.running
	if !leads {
		o.done = make(chan struct{})
	}
	q.waiting = append(q.waiting, o)
	if !leads && !q.running {
		go q.drain()
	}
	q.running = true
	return leads
}

// lead makes one transaction of the one operation that waited. Those of others are not run here: what they do to
// the goroutine that they run on must not happen to this one's caller.
func (q *queue) lead() {
	defer q.handOn()
	q.run(q, 1)
}

// drain makes transactions until there is nothing to do.
func (q *queue) drain() {
	defer q.handOn()
	for q.len() > 0 {
		q.run(q, maxBatch)
	}
}

// handOn leaves what waits to another goroutine, also when an operation ends this one (runtime.Goexit, which is
// what a failing test does).
func (q *queue) handOn() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running = len(q.waiting) > 0; q.running {
		go q.drain()
	}
}

// wait waits until an operation is over. It reports false for one that was withdrawn as its context has ended.
func (q *queue) wait(ctx context.Context, o *op) bool {
	select {
	case <-o.done:
	case <-ctx.Done():
		if q.withdraw(o) {
			return false
		}
		<-o.done
	}
	return true
}

func canceled(err error) error {
	return schema.Errorf(schema.Canceled, "write was not begun: %w", err)
}

// withdraw takes back an operation that has not begun.
func (q *queue) withdraw(o *op) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, o)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// take takes the first operations, at most that many.
func (q *queue) take(most int) []*op {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), most)
	batch := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch
}

// putBack returns operations that have not begun to their place before all others.
func (q *queue) putBack(ops []*op) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.Insert(q.waiting, 0, ops...)
}

// runIn runs the operation, in a savepoint of its own if it shares the transaction, and undoes it if it
// fails.
func (o *op) runIn(tx *Tx, shared bool) {
	o.begun = true
	if shared {
		if o.err = tx.c.run("SAVEPOINT op", nil, nil); o.err != nil {
			return
		}
	}
	o.call(tx)
	if !tx.c.inTransaction() {
		return
	}
	if o.err == nil {
		o.err = tx.c.checkDeferred()
	}
	if !shared {
		return
	}
	if o.err != nil {
		if err := tx.c.run("ROLLBACK TO op", nil, nil); err != nil {
			o.err = fmt.Errorf("%w (and it could not be undone alone: %w)", o.err, err)
			_ = tx.c.rollback() // nothing of the batch may then be kept
			return
		}
	}
	if err := tx.c.run("RELEASE op", nil, nil); err != nil {
		o.err = join(o.err, err)
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
	return slices.ContainsFunc(batch, func(o *op) bool { return o.err == nil })
}

// finish gives the outcome of the transaction to every operation that did not fail by itself.
func finish(batch []*op, err error) {
	for _, o := range batch {
		if o.err == nil {
			o.err = err
		}
		if o.err == nil && o.committed != nil {
			o.callCommitted()
		}
	}
}

// release lets those go on who wait for operations that have been finished.
func release(batch []*op) {
	for _, o := range batch {
		if o.done != nil {
			close(o.done)
		}
	}
}

func (o *op) callCommitted() {
	defer func() {
		if p := recover(); p != nil {
			o.panicked = p
		}
	}()
	o.committed()
}
