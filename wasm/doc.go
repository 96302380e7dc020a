// Package wasm is where extensions and their host meet: ABI.md is the reference of the binary interface,
// pistate.wit the same as a WIT file, package abi its names and numbers for Go programs, package sdk what an
// extension written in Go imports, and package examples one extension, twice: in Go and in plain WAT.
//
// The store itself as a module is in directory store; STORE.md is the reference of what it exports and imports,
// and store.wit the same as a WIT file.
//
// Each .wat file of the repository has its assembled .wasm beside it, so that no toolchain is needed to run
// it. After a change, assemble the file again with wat2wasm of wabt; a test compares the two.
package wasm

//go:generate wat2wasm examples/counter-wat/counter.wat -o examples/counter-wat/counter.wasm
//go:generate sh -c "cd ../host/testdata && for f in *.wat; do wat2wasm --debug-names \"$DOLLAR{f}\" -o \"$DOLLAR{f%.wat}.wasm\"; done"
