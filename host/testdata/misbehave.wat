;; Does what its input, a number, asks for. Nothing of it is what an extension should do.
(module $same
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "pistate_v1" "input" (func $input (param i32 i32) (result i64)))
  (import "pistate_v1" "output" (func $output (param i32 i32) (result i32)))
  (import "pistate_v1" "fail" (func $fail (param i32 i32) (result i32)))
  (import "pistate_v1" "write" (func $write (param i32 i32 i32) (result i32)))

  (memory (export "memory") 2)
  (data (i32.const 16) "true")
  (data (i32.const 32) "\1b[2J\ff said \e2\80\ae")               ;; escape, invalid UTF-8, right-to-left override
  (data (i32.const 64) "out of tune\n")
  (data (i32.const 96) "\00\00\01\00\00\00\01\00")               ;; an iovec: 65536 bytes at 65536
  (data (i32.const 112) "\40\00\00\00\0c\00\00\00")              ;; an iovec: the 12 bytes at 64
  ;; A subscription of poll_oneoff at 128: at +16 the clock, at +24 the nanoseconds, an hour.
  (data (i32.const 152) "\00\a0\b8\30\46\03\00\00")

  (func $number (result i32)
    (local $n i32) (local $at i32) (local $end i32)
    (local.set $end (i32.wrap_i64 (call $input (i32.const 0) (i32.const 16))))
    (loop $each
      (local.set $n (i32.add
        (i32.mul (local.get $n) (i32.const 10))
        (i32.sub (i32.load8_u (local.get $at)) (i32.const 48))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $at) (local.get $end))))
    (local.get $n))

  (func $store_true (drop (call $write (i32.const 0) (i32.const 16) (i32.const 4))))
  (func $recurse (param i32) (result i32) (i32.add (local.get 0) (call $recurse (local.get 0))))
  (func $print (param $fd i32) (param $iovec i32)
    (drop (call $fd_write (local.get $fd) (local.get $iovec) (i32.const 1) (i32.const 8))))

  (func (export "pistate_v1_call") (result i32)
    (local $i i32)
    (block $exit0 (block $foreign_status (block $claim (block $say (block $trap_after_write (block $loop_after_write
    (block $not_json (block $big_value (block $big_output (block $grow (block $sleep (block $flood (block $recursion
    (block $exit3 (block $outside (block $trap (block $loop (block $nothing
      (br_table $nothing $loop $trap $outside $exit3 $recursion $flood $sleep $grow $big_output $big_value $not_json
                $loop_after_write $trap_after_write $say $claim $foreign_status $exit0 (call $number))
    ) ;; 0 nothing
      (return (i32.const 0))
    ) ;; 1 loop
      (loop $forever (br $forever))
    ) ;; 2 trap, with a word on standard error
      (call $print (i32.const 2) (i32.const 112))
      (unreachable)
    ) ;; 3 outside: reads beyond its memory
      (return (i32.load (i32.const 0x7fffffff)))
    ) ;; 4 exit3
      (call $proc_exit (i32.const 3))
      (unreachable)
    ) ;; 5 recursion
      (return (call $recurse (i32.const 1)))
    ) ;; 6 flood: 16 MiB on each stream
      (loop $more
        (call $print (i32.const 1) (i32.const 96))
        (call $print (i32.const 2) (i32.const 96))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $i) (i32.const 256))))
      (return (i32.const 0))
    ) ;; 7 sleep for an hour, then store
      (drop (call $poll_oneoff (i32.const 128) (i32.const 256) (i32.const 1) (i32.const 8)))
      (call $store_true)
      (return (i32.const 0))
    ) ;; 8 grow: 0 if all the memory there could be was refused
      (return (i32.add (i32.const 1) (memory.grow (i32.const 65000))))
    ) ;; 9 big_output, then store
      (drop (call $output (i32.const 0) (i32.const 131072)))
      (call $store_true)
      (return (i32.const 0))
    ) ;; 10 big_value, then store
      (drop (call $write (i32.const 0) (i32.const 0) (i32.const 131072)))
      (call $store_true)
      (return (i32.const 0))
    ) ;; 11 not_json as output: returns what the host says
      (return (call $output (i32.const 16) (i32.const 3)))
    ) ;; 12 loop_after_write
      (call $store_true)
      (loop $forever (br $forever))
    ) ;; 13 trap_after_write
      (call $store_true)
      (unreachable)
    ) ;; 14 say why, with characters that don't belong on a terminal
      (drop (call $fail (i32.const 32) (i32.const 14)))
      (return (i32.const 7))
    ) ;; 15 claim that a lock was the reason
      (return (i32.const -11))
    ) ;; 16 foreign_status: a negative number of no code
      (return (i32.const -1000))
    ) ;; 17 exit0: success, but not of the call
    (call $proc_exit (i32.const 0))
    (unreachable)))
