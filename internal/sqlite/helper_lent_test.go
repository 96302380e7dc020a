//go:build lent

package sqlite

// readersOpen tells that reads have connections of their own, which open when they are needed.
const readersOpen = false

// filesInSight tells that a DB knows the sizes of its files.
const filesInSight = false

// inside returns the SQLite of this process that a connection ends at.
func inside(c *conn) *native {
	if l, ok := c.chosen.(*lent); ok {
		return l.t.l.loans[l.handle].native
	}
	return c.native()
}
