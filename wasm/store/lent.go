//go:build !sqliteinside

package main

// sqliteInside tells that this build has an SQLite of its own, and so can keep a database in memory.
const sqliteInside = false

// keepInMemory is not reached: open refuses what only the other build can do.
func keepInMemory() {}
