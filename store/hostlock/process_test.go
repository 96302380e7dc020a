//go:build unix

package hostlock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pistate/schema"
	"pistate/store"
)

// roleEnv makes the test binary play another process.
const roleEnv = "PISTATE_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		if err := play(role, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// play is the life of another process.
func play(role string, args []string) error {
	ctx := context.Background()
	if role == "sleep" {
		fmt.Println("asleep")
		time.Sleep(10 * time.Minute)
		return nil
	}
	dir, p := args[0], store.Project{ID: args[1], Path: "/the/" + args[1]}
	switch role {
	case "hold": // DIR PROJECT: say what came of it, and stay
		lock, err := Acquire(ctx, dir, p, time.Now())
		switch {
		case schema.CodeOf(err) == schema.Locked:
			fmt.Println("refused", err)
		case err != nil:
			return err
		case lock.TookOver() != nil:
			fmt.Println("took over from", lock.TookOver().PID)
		default:
			fmt.Println("held")
		}
		_, err = io.Copy(io.Discard, os.Stdin) // until it is closed
		return err
	case "umask": // DIR PROJECT MASK: make all files
		mask, err := strconv.ParseInt(args[2], 8, 32)
		if err != nil {
			return err
		}
		syscall.Umask(int(mask))
		lock, err := Acquire(ctx, dir, p, time.Now())
		if err != nil {
			return err
		}
		_, err = lock.AddChild(ctx, os.Getppid(), "parent", time.Now())
		return err
	case "churn": // DIR PROJECT: take, use and give back, for ever
		fmt.Println("begun")
		for {
			lock, err := Acquire(ctx, dir, p, time.Now())
			if err != nil {
				return err
			}
			child, err := lock.AddChild(ctx, os.Getpid(), "me", time.Now())
			if err != nil {
				return err
			}
			if err := lock.RemoveChild(ctx, child); err != nil {
				return err
			}
			if err := lock.Release(ctx); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("no role %q", role)
}

// process is another process.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan string
	said  string // its first line
}

// start begins a process and waits for its first line.
func start(t testing.TB, role string, args ...string) *process {
	t.Helper()
	p := launch(t, role, args...)
	p.wait(t)
	return p
}

func launch(t testing.TB, role string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, stdin: stdin}
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(out).ReadString('\n') // "" if it ended before
		line <- strings.TrimSpace(text)
	}()
	p.lines = line
	t.Cleanup(p.kill)
	return p
}

func (p *process) wait(t testing.TB) {
	t.Helper()
	select {
	case p.said = <-p.lines:
	case <-time.After(20 * time.Second):
		t.Fatal("the process says nothing")
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process, if it lives, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // a killed process is expected to have failed
}
