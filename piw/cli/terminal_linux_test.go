package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal of a size.
func terminal(t *testing.T, columns, rows uint16) (shown, place *os.File) {
	t.Helper()
	shown, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminals here:", err)
	}
	t.Cleanup(func() { shown.Close() })
	if err := unix.IoctlSetPointerInt(int(shown.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(shown.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(shown.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.Fatal(err)
	}
	place, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { place.Close() })
	return shown, place
}

// onTerminal runs a command on a terminal and returns what it sent there.
func onTerminal(t *testing.T, columns uint16, args ...string) string {
	t.Helper()
	shown, place := terminal(t, columns, 24)
	var stderr bytes.Buffer
	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(shown) // ends with an error when the other side is closed
		read <- string(text)
	}()
	code := atFixtureTime().Run(context.Background(), args, strings.NewReader(""), place, &stderr)
	place.Close()
	if code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, stderr.String())
	}
	return strings.ReplaceAll(<-read, "\r\n", "\n")
}

// Text for a terminal: colours there and only there, no line longer than it is wide, and nothing that was
// stored can tell it what to do. (C81)
func TestOnTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "")
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	db := seeded(t, "shop")
	text := onTerminal(t, 150, "runs", "--db", db)
	for _, want := range []string{"\x1b[36mrunning\x1b[0m", "\x1b[31mstuck: owner's lease expired 119m ago", `Upgrade \u202edependencies\u009b2J`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	text = onTerminal(t, 80, "capture", "run-done", "--private", "--db", db)
	if !strings.Contains(text, `CONTENT: I look at it.\x1b[2J`) || strings.Contains(text, "\x1b[2J") {
		t.Errorf("%q", text)
	}
	text = onTerminal(t, 80, "blob", "18bd67538c06", "--private", "--db", db)
	if text != "CONTENT: first this,\nthen that.\n" {
		t.Errorf("%q", text)
	}
	t.Setenv("NO_COLOR", "1")
	widths := []uint16{80, 40}
	if raceDetector {
		widths = widths[:1]
	}
	for _, columns := range widths {
		for _, args := range [][]string{
			{"runs"}, {"run", "run-done"}, {"run", "run-asking"}, {"run", "run-working"}, {"events"}, {"queue"}, {"leases"}, {"effects"},
			{"effects", "2"}, {"decisions"}, {"decisions", "run-parked/ship"}, {"controllers"}, {"controller", "deploy", "shop/web"},
			{"channels"}, {"channels", "chn_bbb0bb02c9defb76bae89be502cb4f7c"}, {"projects"}, {"capture", "run-done", "--private"},
		} {
			text := onTerminal(t, columns, append(args, "--db", db, "--utc")...)
			for line := range strings.Lines(text) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > int(columns) {
					t.Errorf("%v: a line of %d columns on a terminal of %d: %q", args, n, columns, line)
				}
			}
			if strings.Contains(text, "\x1b") {
				t.Errorf("%v: colours in spite of NO_COLOR", args)
			}
		}
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if text := onTerminal(t, 80, "runs", "--db", db); strings.Contains(text, "\x1b") {
		t.Error("colours on a dumb terminal")
	}
}

// The whole program on a terminal: it draws, takes keys, follows the database, and gives the terminal back.
func TestWatchOnTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "")
	t.Setenv("TERM", "xterm-256color")
	for name, end := range map[string]struct {
		keys string
		stop bool
		code int
	}{
		"q":           {"q", false, 0},
		"ctrl+c":      {"\x03", false, 130},
		"interrupted": {"", true, 130},
	} {
		t.Run(name, func(t *testing.T) {
			db := seeded(t, "shop")
			shown, place := terminal(t, 80, 24)
			screen := &emulated{}
			go screen.copy(shown)
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			code := make(chan int, 1)
			var stderr bytes.Buffer
			go func() {
				code <- atFixtureTime().Run(ctx, []string{"watch", "--db", db}, place, place, &stderr)
			}()
			screen.until(t, "run-working")
			if name == "q" {
				send(t, shown, "/lost\r")
				screen.until(t, "owner's lease expired")
				w := openWriter(t, db)
				w.cancel("run-lost")
				w.close()
				screen.until(t, "run.cancel_requested")
			}
			send(t, shown, end.keys)
			if end.stop {
				stop()
			}
			select {
			case got := <-code:
				if got != end.code {
					t.Errorf("exit code %d, want %d: %s", got, end.code, stderr.String())
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it goes on")
			}
			screen.until(t, "\x1b[?1049l") // the screen that was there before
		})
	}
	var stderr bytes.Buffer
	if code := Program().Run(context.Background(), []string{"watch", "--db", seeded(t, "shop")}, nil, io.Discard, &stderr); code != 2 || !strings.Contains(stderr.String(), "needs a terminal") {
		t.Errorf("without a terminal: %d, %s", code, stderr.String())
	}
}

func send(t *testing.T, terminal *os.File, keys string) {
	t.Helper()
	if _, err := terminal.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// emulated keeps what was sent to a terminal.
type emulated struct {
	mu   sync.Mutex
	sent bytes.Buffer
}

func (e *emulated) copy(from *os.File) {
	for buf := make([]byte, 4096); ; {
		n, err := from.Read(buf)
		e.mu.Lock()
		e.sent.Write(buf[:n])
		e.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (e *emulated) until(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		e.mu.Lock()
		found := strings.Contains(e.sent.String(), text)
		all := e.sent.String()
		e.mu.Unlock()
		if found {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%q did not come: %q", text, all)
		}
	}
}
