;; Tells how often it was initialised in this instance.
(module $same
  (import "pistate_v1" "output" (func $output (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "0")
  (func (export "_initialize")
    (i32.store8 (i32.const 0) (i32.add (i32.load8_u (i32.const 0)) (i32.const 1))))
  (func (export "pistate_v1_call") (result i32)
    (call $output (i32.const 0) (i32.const 1))))
