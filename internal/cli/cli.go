// Package cli is what the commands piw and pihost have in common: how a command line is run, what its exit
// codes mean, and how text and JSON are printed.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"pistate/schema"
)

// Env is all that a command may touch of the world outside its arguments.
type Env struct {
	context.Context // ends with SIGINT, SIGTERM or SIGHUP
	Name            string
	Stdin           io.Reader
	Stdout          io.Writer // buffered; flushed when the command ends
	Stderr          io.Writer
	Terminal        Terminal         // what Stdout can show
	Now             func() time.Time // the clock

	out *bufio.Writer // Stdout
	raw io.Writer     // what is behind it
}

// Flush shows what was printed, for a command that goes on. Errors: [ErrUnread], [schema.Storage].
func (e *Env) Flush() error {
	err := e.out.Flush()
	if err != nil && !errors.Is(err, ErrUnread) {
		err = schema.Errorf(schema.Storage, "write to standard output: %w", err)
	}
	return err
}

// Unread reports whether whoever read the standard output has gone.
func (e *Env) Unread() bool { return closedPipe(e.raw) }

// Drop gives up what was not shown yet, for a command to which a reader who has had enough is its end.
func (e *Env) Drop() { e.out.Reset(io.Discard) }

// Warn tells about something that does not keep the command from doing its work.
func (e *Env) Warn(format string, args ...any) {
	fmt.Fprintf(e.Stderr, "%s: warning: %s\n", e.Name, Escape(fmt.Sprintf(format, args...)))
}

// Program is one command-line program. Grammar is a pointer to a kong grammar whose commands have
// Run(*Env) error methods.
type Program struct {
	Name        string
	Description string
	Version     string
	Grammar     any
	Options     []kong.Option
	Now         func() time.Time // the clock; nil: time.Now
}

// Main runs the program on this process's arguments and streams, and exits. Neither a signal nor a reader who
// goes away ends it before it has put its things in order.
func (p Program) Main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // so that the write fails, see watchedPipe
	code := p.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// stopped is the panic by which kong's Exit (after --help or --version) leaves the parser.
type stopped struct{ code int }

// Run runs the program and returns its exit code.
func (p Program) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	out := bufio.NewWriterSize(watchedPipe{stdout}, 32<<10)
	env := &Env{
		Context: ctx, Name: p.Name, Stdin: stdin, Stdout: out, Stderr: stderr, Terminal: terminalOf(stdout, os.Getenv), Now: p.Now,
		out: out, raw: stdout,
	}
	if env.Now == nil {
		env.Now = time.Now
	}
	defer func() {
		switch s := recover().(type) {
		case nil:
		case stopped:
			code = s.code
		default:
			panic(s)
		}
		if err := env.Flush(); err != nil && code == 0 {
			code = env.fail(err)
		}
	}()
	return env.fail(p.run(env, args))
}

func (p Program) run(env *Env, args []string) error {
	options := append([]kong.Option{
		kong.Name(p.Name),
		kong.Description(p.Description),
		kong.Vars{"version": p.Version},
		kong.Writers(env.Stdout, env.Stderr),
		kong.Exit(func(code int) { panic(stopped{code}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Bind(env),
		kong.KindMapper(reflect.String, kong.MapperFunc(exactText)),
	}, p.Options...)
	parser, err := kong.New(p.Grammar, options...)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return usage(err)
	}
	return parsed.Run()
}

// usage marks an error of the command line itself and says where the help is. The empty word by which kong
// lets a flag be left out is none that a user can choose.
func usage(err error) error {
	name := ""
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		name = parse.Context.Model.Name
		if node := parse.Context.Selected(); node != nil {
			name = node.FullPath()
		}
	}
	text := strings.Replace(err.Error(), `one of "",`, "one of ", 1)
	return schema.Errorf(schema.Invalid, "%s (see %s --help)", text, name)
}

func (e *Env) fail(err error) int {
	code := ExitCode(err)
	var silent *Silent
	if err != nil && !errors.As(err, &silent) && !errors.Is(err, ErrUnread) {
		fmt.Fprintf(e.Stderr, "%s: %s\n", e.Name, Escape(err.Error()))
	}
	return code
}

// Screen returns the terminal that the standard output is. ok is false if it is none.
func (e *Env) Screen() (file *os.File, ok bool) {
	file, ok = e.raw.(*os.File)
	return file, ok && e.Terminal.Is
}
