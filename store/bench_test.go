package store

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkCommand is one durable command: a revision, an event, its payload, and a row.
func BenchmarkCommand(b *testing.B) {
	s := openAt(b, newPath(b), Options{})
	mustCreate(b, s, "c1")
	n := int64(1)
	for b.Loop() {
		mustDo(b, s, Permit{Actor: session1, Expected: n}, touch{Channel: "c1", Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})
		n++
	}
}

// BenchmarkCommandOwned is the same by an owner, with its claim.
func BenchmarkCommandOwned(b *testing.B) {
	s := openAt(b, newPath(b), Options{})
	mustCreate(b, s, "c1")
	claim := mustClaim(b, s, host1, channel("c1"), time.Hour)
	n := int64(2)
	for b.Loop() {
		mustDo(b, s, Permit{Actor: host1, Expected: n, Claim: claim}, touch{Channel: "c1", Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})
		n++
	}
}

// BenchmarkRawInsert is what the disk and SQLite cost: one durable row, with nothing around it.
func BenchmarkRawInsert(b *testing.B) {
	db := rawOpen(b, newPath(b))
	if err := db.Exec("PRAGMA synchronous = FULL; PRAGMA journal_mode = WAL"); err != nil {
		b.Fatal(err)
	}
	stmt, _, err := db.Prepare("INSERT INTO projects VALUES (?1, '/' || ?1, 1)")
	if err != nil {
		b.Fatal(err)
	}
	defer stmt.Close()
	n := int64(0)
	for b.Loop() {
		n++
		if err := stmt.BindText(1, fmt.Sprint(n)); err != nil {
			b.Fatal(err)
		}
		if err := stmt.Exec(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCommandsTogether is the time per command while many goroutines send them: they share syncs.
func BenchmarkCommandsTogether(b *testing.B) {
	for _, parallel := range []int{8, 64} {
		b.Run(fmt.Sprint(parallel), func(b *testing.B) {
			s := openAt(b, newPath(b), Options{})
			var worker atomic.Int64
			b.SetParallelism(parallel / 2) // times the number of cores
			b.RunParallel(func(pb *testing.PB) {
				id := fmt.Sprint("c", worker.Add(1))
				mustCreate(b, s, id)
				for n := int64(1); pb.Next(); n++ {
					mustDo(b, s, Permit{Actor: session1, Expected: n}, touch{Channel: id})
				}
			})
		})
	}
}

func BenchmarkClaimAndRelease(b *testing.B) {
	s := openAt(b, newPath(b), Options{})
	mustCreate(b, s, "c1")
	for b.Loop() {
		claim := mustClaim(b, s, host1, channel("c1"), time.Hour)
		mustDo(b, s, as(host1, claim), ReleaseLease{channel("c1")})
	}
}

func BenchmarkRenew(b *testing.B) {
	s := openAt(b, newPath(b), Options{})
	mustCreate(b, s, "c1")
	claim := mustClaim(b, s, host1, channel("c1"), time.Minute)
	for b.Loop() {
		mustDo(b, s, as(host1, claim), RenewLease{channel("c1"), 60_000})
	}
}

// BenchmarkRepeat is a command that was carried out before: it only reads.
func BenchmarkRepeat(b *testing.B) {
	s := openAt(b, newPath(b), Options{})
	mustCreate(b, s, "c1")
	permit := Permit{Actor: session1, Expected: 1, Request: "again"}
	mustDo(b, s, permit, touch{Channel: "c1"})
	for b.Loop() {
		mustDo(b, s, permit, touch{Channel: "c1"})
	}
}

// BenchmarkEffect is the life of an effect: recorded, begun, applied by a worker, settled.
func BenchmarkEffect(b *testing.B) {
	s := openAt(b, newPath(b), Options{})
	mustCreate(b, s, "c1")
	claim := mustClaim(b, s, host1, channel("c1"), time.Hour)
	w := &EffectWorker{Store: s, Actor: host1, Scope: everybody, Handlers: handle(func(Effect) (Applied, error) { return Applied{}, nil })}
	n := int64(2)
	for b.Loop() {
		mustDo(b, s, Permit{Actor: host1, Expected: n, Claim: claim}, EnsureEffect{channel("c1"), spec(fmt.Sprint(n), true)})
		n++
		if report, err := w.Run(context.Background(), 10); err != nil || report.Applied != 1 {
			b.Fatal(report, err)
		}
	}
}

func BenchmarkCanonicalJSON(b *testing.B) {
	value, err := json.Marshal(map[string]any{"text": string(make([]byte, 4000)), "list": make([]int, 1000), "z": 1.5, "a": "é"})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		if _, err := jsonContent("value", value); err != nil {
			b.Fatal(err)
		}
	}
}
