package storefixture

import (
	"errors"
	"fmt"
	"time"

	"pistate/store"
)

// Live is a database whose writer is at work: the run run-live is captured.
type Live struct {
	b       *builder
	run     owned
	segment string
	entries int64
}

// Record makes a database at a path and begins to capture.
func Record(path string) (*Live, error) {
	b, err := newBuilder(path)
	if err != nil {
		return nil, err
	}
	b.now = time.Now() // whoever looks does so now
	f := b.flow("/home/ann/shop")
	l := &Live{b: b, run: f.direct(host1, f.spec("run-live", "Review the cart"), 24*time.Hour)}
	s := doAt(b, host1, l.run.claim, 0, store.OpenSegment{Run: l.run.id, Session: "ACTOR-pi-7", Key: "plan"})
	if b.err != nil {
		return nil, errors.Join(b.err, b.Close())
	}
	l.segment = s.ID
	return l, nil
}

// Say captures an entry.
func (l *Live) Say(text string) error {
	l.entries++
	do(l.b, host1, l.run.claim, store.AppendSegment{Segment: l.segment, FirstEntry: l.entries, Entries: []string{
		fmt.Sprintf(`{"type":"message","id":"e%d","parentId":null,"message":{"role":"assistant","content":[{"type":"text","text":"said: %s"}]}}`, l.entries, text),
	}})
	return l.b.err
}

// Close ends the writer.
func (l *Live) Close() error { return l.b.Close() }
