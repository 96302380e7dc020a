package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"pistate/internal/cli"
	"pistate/schema"
	"pistate/store"
)

// execCmd carries out commands and queries in their JSON form.
type execCmd struct {
	DB string `name:"db" placeholder:"PATH" help:"The workflow database. Default: workflows/state.sqlite in Pi's agent directory."`
	engineFlags
	Memory  bool    `help:"Keep the database in memory, to be gone at the end. Only store-sqlite.wasm can."`
	NoCache bool    `help:"Don't keep compiled code of the store module for the next run."`
	Clock   *int64  `placeholder:"MS" help:"Stop the clock at a time (UTC epoch milliseconds); {\"op\":\"clock.advance\",\"args\":{\"ms\":N}} moves it. For tests."`
	Seed    *uint64 `placeholder:"N" help:"Draw ids and tokens from a seed, so that they can be repeated, and guessed. For tests."`
}

// Help says how lines are read.
func (*execCmd) Help() string {
	return `Each line of standard input is a request, and gets its answer as a line of standard output before the next one is read. Empty lines, and lines that begin with #, are skipped. docs/protocol.md has the requests and answers.

A request that is refused, for whatever reason, is answered so, and the next one is read: the exit code is 0 when every line got its answer.`
}

// Run answers every line of standard input.
func (c *execCmd) Run(env *cli.Env) (err error) {
	x := &executor{}
	var now func() time.Time
	if c.Clock != nil {
		x.clock = new(stoppedClock)
		x.clock.Store(*c.Clock)
		now = x.clock.Now
	}
	var random io.Reader
	if c.Seed != nil {
		random = seeded(*c.Seed)
	}
	s, err := c.openWorkflow(env, now, random)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	x.dispatch = s.dispatch
	return x.run(env)
}

func (c *execCmd) path() (string, error) {
	if c.DB == "" {
		return store.DefaultPath()
	}
	return cli.Path(c.DB)
}

// seeded is a source of randomness that a seed determines.
func seeded(seed uint64) io.Reader {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return rand.NewChaCha8(key)
}

// stoppedClock is a clock that stands still until somebody moves it. It counts milliseconds.
type stoppedClock struct{ atomic.Int64 }

// Now returns the time at which the clock stands.
func (c *stoppedClock) Now() time.Time { return time.UnixMilli(c.Load()) }

// executor answers lines.
type executor struct {
	dispatch func(context.Context, []byte) []byte
	clock    *stoppedClock // nil: time passes
}

func (x *executor) run(env *cli.Env) error {
	in := bufio.NewReaderSize(interruptible{env, env.Stdin}, 64<<10)
	for {
		line, err := readLine(in, store.MaxRequestBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			if env.Err() != nil {
				return schema.Errorf(schema.Canceled, "interrupted: %w", env.Err())
			}
			return schema.Errorf(schema.Storage, "read standard input: %w", err)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' {
			if err := put(env.Stdout, x.answer(env, text)); err != nil {
				return schema.Errorf(schema.Storage, "write to standard output: %w", err)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// put writes a line and lets nobody wait for it.
func put(w io.Writer, line []byte) error {
	if _, err := w.Write(append(line, '\n')); err != nil {
		return err
	}
	if b, ok := w.(interface{ Flush() error }); ok {
		return b.Flush()
	}
	return nil
}

// readLine reads a line, of which it keeps at most one byte more than limit.
func readLine(in *bufio.Reader, limit int) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part[:min(len(part), limit+1-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// opAdvance moves the clock that --clock has stopped. It is no operation of the store.
const opAdvance = "clock.advance"

// latest is the last moment of the year 9999.
const latest = 253_402_300_799_999

func (x *executor) answer(ctx context.Context, line []byte) []byte {
	if !bytes.Contains(line, []byte(opAdvance)) {
		return x.dispatch(ctx, line)
	}
	var r struct {
		Op   string `json:"op"`
		Args struct {
			MS *int64 `json:"ms"`
		} `json:"args"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	err := d.Decode(&r)
	if r.Op != opAdvance {
		return x.dispatch(ctx, line)
	}
	_, more := d.Token()
	switch {
	case err != nil || !errors.Is(more, io.EOF) || r.Args.MS == nil:
		return refuseAdvance(`{"op":"clock.advance","args":{"ms":N}} is expected, where N is a whole number`)
	case x.clock == nil:
		return refuseAdvance("the clock is the system's: stop it with --clock")
	}
	now := x.clock.Load() + *r.Args.MS
	if *r.Args.MS > latest || now < 0 || now > latest {
		return refuseAdvance(fmt.Sprintf("args.ms: the time must stay from 0 to %d", int64(latest)))
	}
	x.clock.Store(now)
	return fmt.Appendf(nil, `{"ok":true,"result":{"now":%d}}`, now)
}

func refuseAdvance(detail string) []byte {
	text, _ := json.Marshal(detail) // strings always marshal
	return fmt.Appendf(nil, `{"ok":false,"code":%q,"op":%q,"detail":%s}`, schema.Invalid, opAdvance, text)
}
