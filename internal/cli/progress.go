package cli

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress returns a function that shows how far something has come, and one that takes the display away. On
// anything but a terminal, and where it is over at once, there is nothing to see.
func (e *Env) Progress(what string) (show func(done, total int), end func()) {
	file, ok := e.Stderr.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions(1,
		progressbar.OptionSetWriter(file),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(true),
	)
	begin := time.Now()
	show = func(done, total int) {
		if time.Since(begin) < 500*time.Millisecond {
			return
		}
		bar.ChangeMax(total)
		_ = bar.Set(done) // a terminal that went away is no reason to stop
	}
	return show, func() { _ = bar.Clear() }
}
