//go:build wasip1 && !sqliteinside

package sqlite

import (
	"context"
	"unsafe"
)

// chosen is the engine of this build.
type chosen = *lent

var _ engine = chosen(nil)

// transport calls the functions of the import module pistate_sql_v1: the host has granted one database.
type transport struct{}

func (transport) open(_ context.Context, mode int32) int32 { return sqlOpen(mode) }
func (transport) close(db int32) int32                     { return sqlClose(db) }
func (transport) finalize(stmt int32) int32                { return sqlFinalize(stmt) }
func (transport) reset(stmt int32) int32                   { return sqlReset(stmt) }
func (transport) inTransaction(db int32) int32             { return sqlInTransaction(db) }
func (transport) inPlace(db int32) int32                   { return sqlInPlace(db) }
func (transport) unresolved(db int32) int32                { return sqlUnresolved(db) }

func (transport) prepare(_ context.Context, db int32, sql string) int32 {
	return sqlPrepare(db, unsafe.Pointer(unsafe.StringData(sql)), uint32(len(sql)))
}

func (transport) run(_ context.Context, stmt int32, params, buf []byte) int64 {
	return sqlRun(stmt, pointer(params), uint32(len(params)), pointer(buf), uint32(len(buf)))
}

func (transport) next(_ context.Context, stmt int32, buf []byte) int64 {
	return sqlNext(stmt, pointer(buf), uint32(len(buf)))
}

func (transport) script(_ context.Context, db int32, sql string) int32 {
	return sqlScript(db, unsafe.Pointer(unsafe.StringData(sql)), uint32(len(sql)))
}

func (transport) beside(buf []byte) int64    { return sqlBeside(pointer(buf), uint32(len(buf))) }
func (transport) errorText(buf []byte) int64 { return sqlError(pointer(buf), uint32(len(buf))) }

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

//go:wasmimport pistate_sql_v1 open
func sqlOpen(mode int32) int32

//go:wasmimport pistate_sql_v1 close
func sqlClose(db int32) int32

//go:wasmimport pistate_sql_v1 prepare
func sqlPrepare(db int32, ptr unsafe.Pointer, length uint32) int32

//go:wasmimport pistate_sql_v1 finalize
func sqlFinalize(stmt int32) int32

//go:wasmimport pistate_sql_v1 run
func sqlRun(stmt int32, params unsafe.Pointer, length uint32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport pistate_sql_v1 next
func sqlNext(stmt int32, buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport pistate_sql_v1 reset
func sqlReset(stmt int32) int32

//go:wasmimport pistate_sql_v1 script
func sqlScript(db int32, ptr unsafe.Pointer, length uint32) int32

//go:wasmimport pistate_sql_v1 in_transaction
func sqlInTransaction(db int32) int32

//go:wasmimport pistate_sql_v1 in_place
func sqlInPlace(db int32) int32

//go:wasmimport pistate_sql_v1 unresolved
func sqlUnresolved(db int32) int32

//go:wasmimport pistate_sql_v1 beside
func sqlBeside(buf unsafe.Pointer, capacity uint32) int64

//go:wasmimport pistate_sql_v1 error
func sqlError(buf unsafe.Pointer, capacity uint32) int64

// newTransport returns the way to the granted database, which the path only names in messages.
func newTransport(string) transport { return transport{} }
