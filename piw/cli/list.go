package cli

import (
	"errors"
	"fmt"

	"pistate/internal/cli"
	"pistate/store"
)

// lister is the part of a command that every list has.
type lister struct {
	workflowDB
	output
	Limit int `default:"100" placeholder:"N" help:"Print at most this many (default ${default})."`
}

// listing is a list of rows that are read page by page, so that its memory does not grow with it, each page
// from one snapshot (V2).
type listing[T any] struct {
	// read returns at most limit rows after one; nil is before all.
	read func(q *store.Queries, after *T, limit int) ([]T, error)
	row  func(T) []any  // for people
	line func(T) any    // for programs
	next func(T) string // what continues the list after a row, as in "--after 17"; nil: nothing can
}

func (l lister) open(env *cli.Env) (*store.Reader, error) {
	if err := checkLimit(l.Limit); err != nil {
		return nil, err
	}
	return l.workflowDB.open(env)
}

func (l lister) view(env *cli.Env, fn func(*store.Queries) error) error {
	if err := checkLimit(l.Limit); err != nil {
		return err
	}
	return l.workflowDB.view(env, fn)
}

// print prints a list.
func (list listing[T]) print(env *cli.Env, l lister, t *cli.Table) error {
	r, err := l.open(env)
	if err != nil {
		return err
	}
	return errors.Join(list.printFrom(env, r, l, t), r.Close())
}

func (list listing[T]) printFrom(env *cli.Env, r *store.Reader, l lister, t *cli.Table) error {
	last, more, err := list.pages(env, r, l.Limit, func(row T) error {
		if l.JSON {
			return l.print(env, list.line(row))
		}
		t.Row(list.row(row)...)
		return t.Err()
	})
	if err != nil || l.JSON {
		return err
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more && list.next != nil {
		_, err = fmt.Fprintf(env.Stdout, "(more: %s)\n", cli.Escape(list.next(*last)))
	}
	return err
}

// pages calls each for at most limit rows and tells whether there are more.
func (list listing[T]) pages(env *cli.Env, r *store.Reader, limit int, each func(T) error) (last *T, more bool, err error) {
	for {
		n := min(limit+1, store.MaxPage) // one more than wanted tells whether there are more
		var page []T
		err = r.Snapshot(env, env.Now(), func(q *store.Queries) (err error) {
			page, err = list.read(q, last, n)
			return err
		})
		if err != nil {
			return last, false, err
		}
		for i := range page {
			if limit == 0 {
				return last, true, nil
			}
			if err := each(page[i]); err != nil {
				return last, false, err
			}
			last, limit = &page[i], limit-1
		}
		if len(page) < n {
			return last, false, nil
		}
	}
}
