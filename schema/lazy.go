package schema

import "sync"

// lazy is a value that is made when first asked for. Its zero value is ready, so that a program that uses only
// the error codes, such as an extension, links nothing of the rest: a variable with an initialiser would keep
// its code, and the DDL, in every program.
type lazy[T any] struct {
	once  sync.Once
	value T
}

func (l *lazy[T]) get(make func() T) T {
	l.once.Do(func() { l.value = make() })
	return l.value
}
