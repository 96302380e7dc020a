;; Traps while it is initialised.
(module
  (memory (export "memory") 1)
  (func (export "_initialize") (unreachable))
  (func (export "pistate_v1_call") (result i32) (i32.const 0)))
