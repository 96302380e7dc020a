;; A command, not a reactor.
(module
  (memory (export "memory") 1)
  (func (export "_start")))
