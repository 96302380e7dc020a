//go:build !lent

package sqlite

// readersOpen tells that reads have connections of their own, which open when they are needed.
const readersOpen = true

// filesInSight tells that a DB knows the sizes of its files.
const filesInSight = true

// inside returns the SQLite of this process that a connection ends at.
func inside(c *conn) *native { return c.native() }
