package sessionstate

import (
	"testing"

	"pgregory.net/rapid"
)

// Y11: the set of breaks finds the same predecessor as a walk over a plain list.
func TestMarksFindThePredecessor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Widths around the powers of 64, where levels begin.
		width := rapid.SampledFrom([]int{1, 63, 64, 65, 4095, 4096, 4097, 300_000}).Draw(t, "width")
		position := rapid.IntRange(0, width)
		var m marks
		have := map[int]bool{}
		for _, i := range rapid.SliceOf(position).Draw(t, "members") {
			m.add(i)
			have[i] = true
		}
		for _, i := range append(rapid.SliceOf(position).Draw(t, "questions"), 0, width, 2*width) {
			want := -1
			for member := range have {
				if member <= i {
					want = max(want, member)
				}
			}
			if got := m.before(i); got != want {
				t.Fatalf("before(%d) = %d, want %d", i, got, want)
			}
		}
	})
}
