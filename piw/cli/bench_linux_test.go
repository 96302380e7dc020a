package cli

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// BenchmarkMillionEvents lists everything that happened. Its memory must not grow with it. Elsewhere the largest
// resident size has another unit.
func BenchmarkMillionEvents(b *testing.B) {
	program, db := must(b, built), must(b, big)
	for _, c := range []struct{ name, limit string }{{"thousand", "1000"}, {"million", "2000000"}} {
		for _, form := range []string{"--json", "--utc"} {
			b.Run(c.name+form, func(b *testing.B) {
				peak := int64(0)
				for b.Loop() {
					cmd := exec.Command(program, "events", "--after", "0", "--limit", c.limit, form, "--db", db)
					cmd.Stderr = os.Stderr
					if err := cmd.Run(); err != nil {
						b.Fatal(err)
					}
					peak = max(peak, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
				}
				b.ReportMetric(float64(peak)/1024, "peak-MiB")
			})
		}
	}
}
