;; Starts with 2000 pages.
(module
  (memory (export "memory") 2000)
  (func (export "pistate_v1_call") (result i32) (i32.const 0)))
