;; The counter: an extension that counts what it is told to count, per session and per branch.
;;
;; Input:  a whole number n from 0 to 9007199254740991, the largest that every JSON reader keeps exact.
;; Output: {"session":S,"branch":B}, the two counts after n was added. 0 only asks.
;;
;; ../counter is the same in Go. Nothing here allocates: each answer goes into a fixed place of the one page
;; of memory, and what would not fit there could not be a count anyway.
;;
;;      0  the input, then a stored count   64 bytes
;;     64  the new count                    64 bytes
;;    128  the output                       64 bytes
;;    192  texts
;;   1024  an error's message               4096 bytes
(module
  (import "pistate_v1" "input" (func $input (param $buf i32) (param $cap i32) (result i64)))
  (import "pistate_v1" "output" (func $output (param $ptr i32) (param $len i32) (result i32)))
  (import "pistate_v1" "fail" (func $fail (param $ptr i32) (param $len i32) (result i32)))
  (import "pistate_v1" "error_message" (func $error_message (param $buf i32) (param $cap i32) (result i64)))
  (import "pistate_v1" "read" (func $read (param $scope i32) (param $buf i32) (param $cap i32) (result i64)))
  (import "pistate_v1" "compare_and_write"
    (func $compare_and_write (param $scope i32) (param $old_ptr i32) (param $old_len i32)
                             (param $new_ptr i32) (param $new_len i32) (result i32)))

  (memory (export "memory") 1 1)
  (data (i32.const 128) "{\"session\":")                                     ;; 11 bytes
  (data (i32.const 192) ",\"branch\":")                                      ;; 10 bytes
  (data (i32.const 208) "input is not a count from 0 to 9007199254740991")   ;; 47 bytes
  (data (i32.const 256) "the stored value is not a count")                  ;; 31 bytes
  (data (i32.const 288) "the sum exceeds 9007199254740991")                 ;; 32 bytes

  ;; The length of the count that $sum read; -1 if there was none, as compare_and_write wants it.
  (global $old_len (mut i32) (i32.const 0))

  ;; 0 = counted; 1 = the input, a stored count or a sum is not a count; negative = the host's error code.
  (func (export "pistate_v1_call") (result i32)
    (local $n i64) (local $session i64) (local $branch i64) (local $end i32)
    (block $failed
      (br_if $failed (i64.lt_s (local.tee $n (call $count)) (i64.const 0)))
      ;; Look at both before either is written: what can't be counted in one scope is counted in none.
      (br_if $failed (i64.lt_s (local.tee $session (call $sum (i32.const 0) (local.get $n))) (i64.const 0)))
      (br_if $failed (i64.lt_s (local.tee $branch (call $sum (i32.const 1) (local.get $n))) (i64.const 0)))
      (if (i64.ne (local.get $n) (i64.const 0))
        (then
          (br_if $failed (i64.lt_s (local.tee $session (call $add (i32.const 0) (local.get $n))) (i64.const 0)))
          (br_if $failed (i64.lt_s (local.tee $branch (call $add (i32.const 1) (local.get $n))) (i64.const 0)))))

      (memory.copy (local.tee $end (call $digits (local.get $session) (i32.const 139)))
        (i32.const 192) (i32.const 10))
      (local.set $end (call $digits (local.get $branch) (i32.add (local.get $end) (i32.const 10))))
      (i32.store8 (local.get $end) (i32.const 125)) ;; }
      (return (call $output (i32.const 128) (i32.sub (local.get $end) (i32.const 127)))))
    (global.get $failure))

  ;; Why the functions below returned -1: the call's result.
  (global $failure (mut i32) (i32.const 1))

  ;; Returns the input, or -1.
  (func $count (result i64)
    (local $n i64)
    (if (i64.lt_s (local.tee $n (call $parse (call $input (i32.const 0) (i32.const 64)))) (i64.const 0))
      (then (call $refuse (i32.const 208) (i32.const 47))))
    (local.get $n))

  ;; Returns the count of a scope plus n, without storing it, or -1.
  (func $sum (param $scope i32) (param $n i64) (result i64)
    (local $len i64)
    (local.set $len (call $read (local.get $scope) (i32.const 0) (i32.const 64)))
    (global.set $old_len (i32.wrap_i64 (local.get $len)))
    (if (i64.lt_s (local.get $len) (i64.const -1))
      (then (return (call $pass_on (i32.wrap_i64 (local.get $len))))))
    (if (i64.ge_s (local.get $len) (i64.const 0)) ;; -1 is absent: nothing to add to n
      (then
        (if (i64.lt_s (local.tee $len (call $parse (local.get $len))) (i64.const 0))
          (then
            (call $refuse (i32.const 256) (i32.const 31))
            (return (i64.const -1))))
        (local.set $n (i64.add (local.get $n) (local.get $len)))))
    (if (i64.gt_u (local.get $n) (i64.const 9007199254740991))
      (then
        (call $refuse (i32.const 288) (i32.const 32))
        (return (i64.const -1))))
    (local.get $n))

  ;; Adds n to the count of a scope and returns the sum, or -1. Another writer between read and write is no
  ;; failure: the sum is made again from what that one stored.
  (func $add (param $scope i32) (param $n i64) (result i64)
    (local $sum i64) (local $code i32)
    (loop $again
      (if (i64.lt_s (local.tee $sum (call $sum (local.get $scope) (local.get $n))) (i64.const 0))
        (then (return (i64.const -1))))
      (local.set $code
        (call $compare_and_write (local.get $scope)
          (i32.const 0) (global.get $old_len)
          (i32.const 64) (i32.sub (call $digits (local.get $sum) (i32.const 64)) (i32.const 64))))
      (if (i32.eqz (local.get $code)) (then (return (local.get $sum))))
      (br_if $again (i32.eq (local.get $code) (i32.const -8)))) ;; conflict
    (call $pass_on (local.get $code)))

  ;; Records one of the texts as the reason.
  (func $refuse (param $ptr i32) (param $len i32)
    (drop (call $fail (local.get $ptr) (local.get $len))))

  ;; Records the host's own text as the reason, its code as the result, and returns -1.
  (func $pass_on (param $code i32) (result i64)
    (call $refuse (i32.const 1024)
      (i32.wrap_i64 (call $error_message (i32.const 1024) (i32.const 4096))))
    (global.set $failure (local.get $code))
    (i64.const -1))

  ;; Reads a count from the len bytes at 0, white space around it allowed: its value, or -1 for anything else.
  (func $parse (param $len i64) (result i64)
    (local $at i32) (local $value i64) (local $char i32)
    (local $seen i32) ;; 0 = no digit yet, 1 = in the number, 2 = behind it
    (block $not_a_count
      (br_if $not_a_count (i64.gt_u (local.get $len) (i64.const 64)))
      (loop $each
        (if (i32.lt_u (local.get $at) (i32.wrap_i64 (local.get $len)))
          (then
            (local.set $char (i32.load8_u (local.get $at)))
            (if (call $is_space (local.get $char))
              (then
                (if (local.get $seen) (then (local.set $seen (i32.const 2)))))
              (else
                (local.set $char (i32.sub (local.get $char) (i32.const 48)))
                (br_if $not_a_count (i32.gt_u (local.get $char) (i32.const 9)))
                (br_if $not_a_count (i32.eq (local.get $seen) (i32.const 2)))
                (local.set $seen (i32.const 1))
                (local.set $value
                  (i64.add (i64.mul (local.get $value) (i64.const 10)) (i64.extend_i32_u (local.get $char))))
                ;; Checked at each digit, so that the product above never wraps.
                (br_if $not_a_count (i64.gt_u (local.get $value) (i64.const 9007199254740991)))))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $each))))
      (br_if $not_a_count (i32.eqz (local.get $seen)))
      (return (local.get $value)))
    (i64.const -1))

  ;; Tells whether a character is one of the four that JSON takes for white space: tab, line feed, carriage
  ;; return, space. Each is a bit of the mask.
  (func $is_space (param $char i32) (result i32)
    (i32.and
      (i32.le_u (local.get $char) (i32.const 32))
      (i32.wrap_i64 (i64.shr_u (i64.const 0x100002600) (i64.extend_i32_u (local.get $char))))))

  ;; Writes a number in decimal and returns the place after it.
  (func $digits (param $value i64) (param $at i32) (result i32)
    (if (i64.ge_u (local.get $value) (i64.const 10))
      (then (local.set $at (call $digits (i64.div_u (local.get $value) (i64.const 10)) (local.get $at)))))
    (i32.store8 (local.get $at)
      (i32.add (i32.wrap_i64 (i64.rem_u (local.get $value) (i64.const 10))) (i32.const 48)))
    (i32.add (local.get $at) (i32.const 1))))
