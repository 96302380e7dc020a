;; Stores a value in its start function already.
(module
  (import "pistate_v1" "write" (func $write (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "1")
  (func $start (drop (call $write (i32.const 0) (i32.const 0) (i32.const 1))))
  (start $start)
  (func (export "pistate_v1_call") (result i32) (i32.const 0)))
