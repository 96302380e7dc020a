package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestStatus(t *testing.T) { // V3
	s, c := openStore(t)
	ids := newEffects(t, s, spec("private-key-1", true), spec("private-key-2", true), spec("private-key-3", false), spec("k", true))
	mustBegin(t, s, ids[0])
	mustDo(t, s, as(host1, mustBegin(t, s, ids[1]).Claim), SettleEffect{Effect: ids[1], Outcome: OutcomeAmbiguous})
	mustDo(t, s, as(host1, mustBegin(t, s, ids[3]).Claim), SettleEffect{Effect: ids[3], Outcome: OutcomeApplied})
	mustCreate(t, s, "c2")
	mustClaim(t, s, Actor{HostActor, "private-actor"}, channel("c2"), time.Second)
	c.move(time.Second)
	status, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(status.Leases); got != "[{channel 1 1} {effect 1 0}]" {
		t.Errorf("leases %s", got)
	}
	start := newClock().millis()
	if got, want := fmt.Sprint(status.Effects), fmt.Sprintf("[{ambiguous 1 %d} {applying 1 %d} {pending 1 %d}]", start, start, start); got != want {
		t.Errorf("effects %s, want %s", got, want)
	}
	if status.Rows["effects"] != 4 || status.Rows["leases"] != 5 || status.Rows["runs"] != 0 || len(status.Rows) != 32 {
		t.Errorf("%d tables: %v", len(status.Rows), status.Rows)
	}
	if status.File.Bytes == 0 || status.File.Pages == 0 {
		t.Errorf("%+v", status.File)
	}
	wire, err := json.Marshal(status)
	if err != nil || strings.Contains(string(wire), "private-") {
		t.Errorf("%s, %v", wire, err)
	}
}

func TestListEvents(t *testing.T) { // R5, V2
	s, _ := openStore(t)
	mustCreate(t, s, "c1", "c2")
	for i := range int64(5) {
		mustDo(t, s, Permit{Actor: session1, Expected: 1 + i}, touch{Channel: "c1"})
		mustDo(t, s, Permit{Actor: session1, Expected: 1 + i}, touch{Channel: "c2"})
	}
	for _, tc := range []struct {
		filter EventFilter
		want   int
	}{
		{EventFilter{}, 12}, {EventFilter{Resource: channel("c1")}, 6}, {EventFilter{Resource: channel("none")}, 0}, {EventFilter{Run: "r"}, 0},
	} {
		got := 0
		for after := int64(0); ; {
			page, err := s.Events(t.Context(), tc.filter, after, 5)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				if e.Sequence <= after || tc.filter.Resource != "" && e.Resource != tc.filter.Resource {
					t.Errorf("after %d came %+v", after, e)
				}
				got, after = got+1, e.Sequence
			}
		}
		if got != tc.want {
			t.Errorf("%+v: %d events, want %d", tc.filter, got, tc.want)
		}
	}
	if _, err := s.Events(t.Context(), EventFilter{Resource: "channel:c1", Run: "r"}, 0, 1); err == nil {
		t.Error("two filters at once")
	}
	events, err := s.Events(t.Context(), EventFilter{Resource: channel("c1")}, 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := s.Blob(t.Context(), events[1].Payload); err != nil || string(b.Bytes) != `{"channel":"c1"}` || b.MediaType != JSONMedia {
		t.Errorf("%s, %v", b.Bytes, err)
	}
}
