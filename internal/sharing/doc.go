// Package sharing holds the test that programs of every kind share the two databases: native ones, hosts of
// store.wasm in Go and in Node.js, and the sqlite3 program.
package sharing
