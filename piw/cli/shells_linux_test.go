package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A shell that a person types into: the scripts are loaded by it, Tab completes, and Ctrl-T shows what is on the
// line then.
func TestCompletionAtThePrompt(t *testing.T) {
	for shell, setup := range map[string]string{
		"bash": `bind 'set enable-bracketed-paste off'; source ./script; bind -x '"\C-t": printf "<%s>" "$READLINE_LINE"'`,
		"zsh":  `autoload -Uz compinit; compinit -D; source ./script; show() { print -rn -- "<$BUFFER>" }; zle -N show; bindkey '^T' show`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			dir := t.TempDir()
			for name, text := range map[string]string{"script": printed(t, "completion", shell), "a copy.sqlite": "", "dump": ""} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			shown, place := terminal(t, 120, 24)
			screen := &emulated{}
			go screen.copy(shown)
			cmd := exec.Command(path, map[string][]string{"bash": {"--norc", "--noprofile", "-i"}, "zsh": {"-f", "-i"}}[shell]...)
			cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, place, place, place
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TERM=xterm", "PS1=", "LC_ALL=C", "HISTFILE="}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			send(t, shown, setup+"; echo is${x}ready\n")
			screen.until(t, "isready")
			for typed, want := range map[string]string{
				"piw sta":                 "piw state ",
				"piw state ver":           "piw state verify ",
				"piw completion z":        "piw completion zsh ",
				"piw runs --status t":     "piw runs --status timed_out ",
				"piw runs --lim":          "piw runs --limit",
				"piw run x --graph=s":     "piw run x --graph=svg",
				"piw state backup a":      `piw state backup a\ copy.sqlite `,
				"piw runs --db a":         `piw runs --db a\ copy.sqlite `,
				"piw runs --db 'a co":     `piw runs --db 'a copy.sqlite'`,
				"piw blob --private --js": "piw blob --private --json ",
			} {
				send(t, shown, typed+"\t\x14")
				screen.until(t, "<"+strings.TrimSuffix(want, " "))
				send(t, shown, "\x15") // an empty line again
			}
		})
	}
}
