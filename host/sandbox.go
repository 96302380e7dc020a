package host

import (
	"context"
	"crypto/rand"
	"math"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"
)

// bareConfig is the configuration of an instance that has nothing: no arguments, environment, files or
// input, made-up time and randomness. It has no name either, so that two never collide, whatever their name
// sections say; and nothing of it is started on its own.
func bareConfig() wazero.ModuleConfig {
	return wazero.NewModuleConfig().WithName("").WithStartFunctions()
}

// sandbox is the configuration of the instance of one call.
func sandbox(ctx context.Context, g *guest, grants Grants) wazero.ModuleConfig {
	config := bareConfig().WithStdout(&g.stdout).WithStderr(&g.stderr)
	if grants.Random {
		config = config.WithRandSource(rand.Reader)
	}
	if grants.Clock {
		return config.WithSysWalltime().WithSysNanotime().WithNanosleep(sleeper(ctx))
	}
	clock := &madeUpClock{}
	resolution := sys.ClockResolution(tick)
	return config.WithWalltime(clock.walltime, resolution).WithNanotime(clock.nanotime, resolution).WithNanosleep(clock.sleep)
}

// sleeper returns a sleep that ends with ctx, since nothing else interrupts a guest that sleeps.
func sleeper(ctx context.Context) sys.Nanosleep {
	return func(ns int64) {
		timer := time.NewTimer(time.Duration(ns))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// madeUpClock is the time of an instance that was granted none. It starts at the same instant in every
// call, goes on by a tick at each look, so that nobody waits for ever, and a sleep moves it on at once.
type madeUpClock struct{ elapsed int64 } // nanoseconds

const (
	madeUpStart = 1577836800 // 2020-01-01T00:00:00Z
	tick        = int64(time.Microsecond)
)

func (c *madeUpClock) sleep(ns int64) {
	// WASI's durations are unsigned and may be any number: the clock stops at its end.
	if ns < 0 || ns > math.MaxInt64-c.elapsed {
		ns = math.MaxInt64 - c.elapsed
	}
	c.elapsed += ns
}

func (c *madeUpClock) nanotime() int64 {
	c.sleep(tick)
	return c.elapsed
}

func (c *madeUpClock) walltime() (sec int64, nsec int32) {
	ns := c.nanotime()
	return madeUpStart + ns/int64(time.Second), int32(ns % int64(time.Second))
}
