//go:build lent

package sqlite

import (
	"errors"
	"testing"

	"pistate/schema"
)

func TestOldSQLiteIsRefused(t *testing.T) {
	for version, ok := range map[string]bool{
		"3.43.0": true, "3.54.1": true, "4.0.0": true, "3.100": true,
		"3.42.0": false, "3.9.2": false, "2.99": false, "": false, "new": false,
	} {
		if err := recent(version); ok != (err == nil) || !ok && !errors.Is(err, schema.Incompatible) {
			t.Errorf("version %q: %v", version, err)
		}
	}
}
