;; Has the entry of a command as well. An extension is called: _start, which traps, is not.
(module $same
  (memory (export "memory") 1)
  (func (export "_start") (unreachable))
  (func (export "pistate_v1_call") (result i32) (i32.const 0)))
