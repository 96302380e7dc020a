//go:build sqliteinside

package main

import "pistate/internal/sqlite"

// sqliteInside tells that this build has an SQLite of its own, and so can keep a database in memory.
const sqliteInside = true

// keepInMemory makes what is opened next a database in memory.
func keepInMemory() { sqlite.KeepInMemory() }
