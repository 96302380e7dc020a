// Store is the store as a WebAssembly module: a WASI reactor that keeps session state or a workflow database for
// a program in any language. ../STORE.md describes its exports and imports.
//
// There are two modules, built from this one package with GOOS=wasip1, GOARCH=wasm and -buildmode=c-shared (just
// wasm does it): store.wasm, to which the host lends its SQLite, and, with the tag sqliteinside,
// store-sqlite.wasm, which brings its own. Built for anything else it is a program that does nothing, so that
// its logic can be tested like any other: all that is particular to WebAssembly is in the files named after
// wasip1.
package main

// main never runs: a reactor is called by its exports.
func main() {}
