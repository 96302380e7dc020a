package store

import (
	"context"
)

var captureEndpoints = []Endpoint{
	command[OpenSegment](),
	command[AppendSegment](),
	command[CompleteSegment](),
	command[FailSegment](),
	query("segment.get", "a capture",
		func(ctx context.Context, q *Queries, a segmentArgs) (Segment, error) {
			return q.Segment(ctx, a.Segment)
		}),
	query("segment.list", "the captures of a run, of an attempt, or of a Pi session",
		func(ctx context.Context, q *Queries, a segmentListArgs) ([]Segment, error) {
			return q.Segments(ctx, a.SegmentFilter, a.After, a.limit())
		}),
	query("segment.entries", "the entries of a capture, in order; an empty list is the end",
		func(ctx context.Context, q *Queries, a segmentEntriesArgs) ([]CapturedEntry, error) {
			return q.SegmentEntries(ctx, a.Segment, a.After, a.limit(), a.Lines)
		}),
	query("segment.events", "the events of a capture, in order; an empty list is the end",
		func(ctx context.Context, q *Queries, a segmentEventsArgs) ([]CapturedEvent, error) {
			return q.SegmentEvents(ctx, a.Segment, a.After, a.limit(), a.Payloads)
		}),
	query("run.replay", "the entries of all captures of a run, in order; an empty list is the end",
		func(ctx context.Context, q *Queries, a replayArgs) ([]CapturedEntry, error) {
			return q.Replay(ctx, a.Run, a.After, a.limit(), a.Lines)
		}),
}

type segmentArgs struct {
	Segment string `json:"segment"` // its id
}

type segmentListArgs struct {
	SegmentFilter
	After string `json:"after,omitempty"` // the id of the last one that was returned
	pageArgs
}

type segmentEntriesArgs struct {
	Segment string `json:"segment"`
	Lines   bool   `json:"lines,omitempty"` // with the lines themselves
	After   int64  `json:"after,omitempty"` // the number of the last one that was returned
	pageArgs
}

type segmentEventsArgs struct {
	Segment  string `json:"segment"`
	Payloads bool   `json:"payloads,omitempty"` // with the payloads
	After    int64  `json:"after,omitempty"`    // the number of the last one that was returned
	pageArgs
}

type replayArgs struct {
	Run   string       `json:"run"`
	Lines bool         `json:"lines,omitempty"` // with the lines themselves
	After ReplayCursor `json:"after,omitzero"`  // the segment and number of the last one that was returned
	pageArgs
}
