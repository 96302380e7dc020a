// Package examples carries the counter extension, assembled from plain WAT, so that a program or a test has
// an extension to run where no toolchain is. Its source is counter-wat/counter.wat; counter is the same
// extension in Go.
package examples

import _ "embed"

// CounterWasm is the counter extension: its input is how many to count, its output the two counts,
// {"session":S,"branch":B}. Callers must not change it.
//
//go:embed counter-wat/counter.wasm
var CounterWasm []byte
