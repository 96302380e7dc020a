package host

import (
	"fmt"
	"strings"
	"testing"

	"pistate/sessionstate"
)

// BenchmarkInside compares session state of a native store with that of store-sqlite.wasm, in memory and on a
// granted file: a durable write, a read that the store has in its cache, and one that SQLite has to answer.
func BenchmarkInside(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		value := `"` + strings.Repeat("v", size-2) + `"`
		b.Run(fmt.Sprintf("native/%d", size), func(b *testing.B) { benchNative(b, value) })
		b.Run(fmt.Sprintf("file/%d", size), func(b *testing.B) { benchInside(b, databasePath(b), value) })
		b.Run(fmt.Sprintf("memory/%d", size), func(b *testing.B) { benchInside(b, "", value) })
	}
}

func benchNative(b *testing.B, value string) {
	state, err := sessionstate.New(openStore(b, databasePath(b)), sessionstate.Config{PluginID: "p", Scope: sessionstate.ScopeSession})
	if err != nil {
		b.Fatal(err)
	}
	sc := sessionstate.At("session", "", nil)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			if err := state.Write(b.Context(), sc, []byte(value)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cached read", func(b *testing.B) {
		for b.Loop() {
			if got, _, err := state.Read(b.Context(), sc); err != nil || len(got) != len(value) {
				b.Fatal(len(got), err)
			}
		}
	})
	b.Run("first read", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, found, err := state.Read(b.Context(), sessionstate.At(fmt.Sprint("s", i), "", nil)); err != nil || found {
				b.Fatal(err)
			}
		}
	})
}

func benchInside(b *testing.B, path, value string) {
	g := openInside(b, path)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			if err := g.write(value); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cached read", func(b *testing.B) {
		for b.Loop() {
			if got, err := g.read(16 << 10); err != nil || len(got) != len(value) {
				b.Fatal(len(got), err)
			}
		}
	})
	b.Run("first read", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			g.at(b, fmt.Sprint("s", i))
			if got, err := g.read(100); err != nil || got != "" {
				b.Fatal(got, err)
			}
		}
	})
}
