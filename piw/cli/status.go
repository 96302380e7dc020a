package cli

import (
	"slices"

	"pistate/internal/cli"
)

// The statuses of all kinds of things, by what they mean to whoever looks.
var (
	goodStatus = []string{"completed", "done", "applied", "accepted", "admitted", "complete", "succeeded", "confirmed", "delivered"}
	busyStatus = []string{"running", "starting", "applying", "recording", "working"}
	warnStatus = []string{"waiting", "parked", "ambiguous", "interrupted", "due", "expired"}
	badStatus  = []string{"failed", "timed_out", "rejected"}
	overStatus = []string{"cancelled", "superseded", "deleted"}
)

// status prints a status so that it stands out as what it means.
func status[S ~string](s S) cli.Styled {
	for style, words := range map[cli.Style][]string{
		cli.Good: goodStatus, cli.Busy: busyStatus, cli.Warn: warnStatus, cli.Bad: badStatus, cli.Dim: overStatus,
	} {
		if slices.Contains(words, string(s)) {
			return cli.Styled{Value: s, Style: style}
		}
	}
	return cli.Styled{Value: s}
}
