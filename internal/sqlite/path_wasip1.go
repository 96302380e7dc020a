//go:build wasip1

package sqlite

import (
	"path"
	"strings"

	"pistate/schema"
)

// Resolve returns the path by which messages name the database. There is one, which the host has granted and
// found by a path of its own: this one is looked at as text.
func Resolve(name string) (string, error) {
	if name == "" || strings.ContainsRune(name, 0) || !path.IsAbs(name) {
		return "", schema.Errorf(schema.Invalid, "database path %q: an absolute path is expected", name)
	}
	return name, nil
}
