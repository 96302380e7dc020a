// Command counter is an extension that counts what it is told to count, per session and per branch.
//
// Input: a whole number n from 0 to 9007199254740991, the largest that every JSON reader keeps exact.
// Output: {"session":S,"branch":B}, the two counts after n was added. 0 only asks.
//
// ../counter-wat is the same without a toolchain. Build this one with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o counter.wasm ./wasm/examples/counter
package main

import (
	"bytes"
	"errors"
	"strconv"

	"pistate/schema"
	"pistate/wasm/sdk"
)

const (
	largest = 1<<53 - 1 // 9007199254740991
	longest = 64        // bytes of a number in JSON, white space around it included
)

func init() { sdk.Handle(count) }

func main() {}

func count(c *sdk.Call) error {
	n, ok := parse(c.Input())
	if !ok {
		return errors.New("input is not a count from 0 to 9007199254740991")
	}
	// Look at both before either is written: what can't be counted in one scope is counted in none.
	_, session, err := sum(sdk.Session, n)
	if err != nil {
		return err
	}
	_, branch, err := sum(sdk.Branch, n)
	if err != nil {
		return err
	}
	if n > 0 {
		if session, err = add(sdk.Session, n); err != nil {
			return err
		}
		if branch, err = add(sdk.Branch, n); err != nil {
			return err
		}
	}
	return c.Output([]byte(`{"session":` + format(session) + `,"branch":` + format(branch) + `}`))
}

// add adds n to the count of a scope and returns the sum. Another writer between read and write is no
// failure: the sum is made again from what that one stored.
func add(scope sdk.Scope, n uint64) (uint64, error) {
	for {
		old, total, err := sum(scope, n)
		if err != nil {
			return 0, err
		}
		err = scope.CompareAndWrite(old, []byte(format(total)))
		if !errors.Is(err, schema.Conflict) {
			return total, err
		}
	}
}

// sum returns the stored value of a scope, nil if there is none, and the count that it makes with n.
func sum(scope sdk.Scope, n uint64) (old []byte, total uint64, err error) {
	old, found, err := scope.Read()
	if err != nil {
		return nil, 0, err
	}
	if found {
		var ok bool
		if total, ok = parse(old); !ok {
			return nil, 0, errors.New("the stored value is not a count")
		}
	}
	if total += n; total > largest {
		return nil, 0, errors.New("the sum exceeds 9007199254740991")
	}
	return old, total, nil
}

func parse(text []byte) (n uint64, ok bool) {
	if len(text) > longest {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.Trim(text, " \t\r\n")), 10, 64)
	return n, err == nil && n <= largest
}

func format(n uint64) string { return strconv.FormatUint(n, 10) }
