;; Wants functions of a module that isn't there, functions that the modules don't have, and one of theirs
;; with another signature.
(module
  (import "env" "log" (func (param i32)))
  (import "pistate_v1" "select_session" (func (param i32 i32) (result i32)))
  (import "pistate_v1" "drop" (func (param i64) (result i32)))
  (import "wasi_snapshot_preview1" "path_teleport" (func))
  (memory (export "memory") 1)
  (func (export "pistate_v1_call") (result i32) (i32.const 0)))
