//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package hostlock

import (
	"context"
	"errors"
	"fmt"
)

// guard refuses: without file locks that end with their process, two hosts could take a lock over at once.
func guard(context.Context, string) (func() error, error) {
	return nil, storage(fmt.Errorf("%w on this system", errors.ErrUnsupported))
}
