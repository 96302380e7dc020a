// Command probe is an extension for tests: it does through the SDK what its input says, and tells what came
// of it.
//
//	["read",SCOPE]                          {"found":true,"value":VALUE}, {"found":false}
//	["write",SCOPE,VALUE]  ["drop",SCOPE]   {}
//	["cas",SCOPE,LENGTH,OLD,NEW]            {}; LENGTH is that of OLD in bytes, -1 for absence with null as OLD
//	["key"]                                 {"found":true,"value":"KEY"}, {"found":false}
//	["fail",SCOPE,VALUE]                    writes and fails with the error
//	["panic"] ["exit"] ["allocate"]         ends the instance
//	["world"]                               what it sees of the machine
//	["clock"]                               how long a sleep of an hour seemed to take
//	["spin"]                                waits for a made-up second to pass
//	["random"]                              sixteen random bytes
//
// An error becomes {"code":CODE,"message":TEXT}. Values are taken and given byte for byte.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"pistate/schema"
	"pistate/wasm/sdk"
)

func init() { sdk.Handle(probe) }

func main() {}

func probe(c *sdk.Call) error {
	input := bytes.TrimSuffix(bytes.TrimPrefix(c.Input(), []byte("[")), []byte("]"))
	op, rest, _ := bytes.Cut(input, []byte(","))
	var scope sdk.Scope
	var value []byte
	if len(rest) > 0 {
		number, after, _ := bytes.Cut(rest, []byte(","))
		n, err := strconv.Atoi(string(number))
		if err != nil {
			return err
		}
		scope, value = sdk.Scope(n), after
	}
	switch op := string(bytes.Trim(op, `"`)); op {
	case "read":
		v, found, err := scope.Read()
		return answer(c, string(v), found, err)
	case "write":
		return done(c, scope.Write(value))
	case "drop":
		return done(c, scope.Drop())
	case "cas":
		length, values, _ := bytes.Cut(value, []byte(","))
		n, err := strconv.Atoi(string(length))
		if err != nil {
			return err
		}
		if n < 0 {
			return done(c, scope.CompareAndWrite(nil, bytes.TrimPrefix(values, []byte("null,"))))
		}
		return done(c, scope.CompareAndWrite(values[:n], values[n+1:]))
	case "key":
		key, found, err := sdk.BranchKey()
		return answer(c, strconv.Quote(key), found, err)
	case "fail":
		return scope.Write(value)
	case "panic":
		panic("probe was told to panic")
	case "exit":
		fmt.Println("leaving")
		os.Exit(4)
	case "allocate":
		var all [][]byte
		for {
			all = append(all, make([]byte, 1<<20))
		}
	case "world":
		_, err := os.ReadDir("/")
		_, err2 := os.Create("/tmp/x")
		n, _ := os.Stdin.Read(make([]byte, 1))
		return c.Output(fmt.Appendf(nil, `{"args":%d,"env":%d,"stdin":%d,"files":%t}`,
			len(os.Args), len(os.Environ()), n, err == nil || err2 == nil))
	case "clock":
		start := time.Now()
		time.Sleep(time.Hour)
		return c.Output(fmt.Appendf(nil, `[%d,%t]`, start.Unix(), time.Since(start) >= time.Hour))
	case "spin":
		start := time.Now()
		for time.Since(start) < time.Second {
		}
		return c.Output([]byte(`{}`))
	case "random":
		b := make([]byte, 16)
		if _, err := rand.Read(b); err != nil {
			return err
		}
		return c.Output([]byte(strconv.Quote(hex.EncodeToString(b))))
	default:
		return fmt.Errorf("no operation %q", op)
	}
	return nil
}

func answer(c *sdk.Call, value string, found bool, err error) error {
	switch {
	case err != nil:
		return done(c, err)
	case !found:
		return c.Output([]byte(`{"found":false}`))
	}
	return c.Output([]byte(`{"found":true,"value":` + value + `}`))
}

func done(c *sdk.Call, err error) error {
	if err == nil {
		return c.Output([]byte(`{}`))
	}
	for _, code := range schema.Codes() {
		if errors.Is(err, code) {
			return c.Output([]byte(`{"code":` + strconv.Quote(string(code)) + `,"message":` + strconv.Quote(err.Error()) + `}`))
		}
	}
	return err
}
