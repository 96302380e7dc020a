;; Wants a global.
(module
  (import "env" "base" (global i32))
  (memory (export "memory") 1)
  (func (export "pistate_v1_call") (result i32) (global.get 0)))
