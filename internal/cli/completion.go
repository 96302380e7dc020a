package cli

import (
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

// CompletionCmd prints the script by which a shell completes command lines. It is generated from the grammar
// of the program that it is a command of: the tag completion:"file" marks an argument that is a file.
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is shown below the flags.
func (*CompletionCmd) Help() string {
	return `To have it in every new shell, put one of these into its start-up file, with the name of this program:

  source <(piw completion bash)                                 ~/.bashrc
  source <(piw completion zsh)                                  ~/.zshrc, after compinit
  piw completion fish > ~/.config/fish/completions/piw.fish     once`
}

// Run prints the script.
func (c *CompletionCmd) Run(env *Env, ctx *kong.Context) error {
	return WriteCompletion(env.Stdout, c.Shell, env.Name, ctx.Model)
}

// place is a command, or the program itself, as completion scripts know it.
type place struct {
	Path     string // "/state/status"; "" for the program itself
	Commands []choice
	Flags    []completedFlag
	Values   []string // of the next argument, if it is one of a few
	Files    bool     // the next argument is a file
}

type choice struct{ Name, Help string }

type completedFlag struct {
	Name, Short, Help, Placeholder string
	Value                          bool // it takes one
	Values                         []string
	Files                          bool
}

// WriteCompletion writes the script for a shell.
func WriteCompletion(w io.Writer, shell, program string, model *kong.Application) error {
	var places []place
	collect(&places, "", model.Node)
	t, err := template.New(shell).Funcs(template.FuncMap{"quote": quote, "join": strings.Join, "zsh": zshText}).Parse(completions[shell])
	if err != nil {
		return err
	}
	return t.Execute(w, struct {
		Program string
		Func    string
		Places  []place
	}{program, "_" + strings.ReplaceAll(program, "-", "_"), places})
}

func collect(places *[]place, path string, node *kong.Node) {
	p := place{Path: path}
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			p.Flags = append(p.Flags, completeFlag(f))
		}
	}
	if len(node.Positional) > 0 {
		first := node.Positional[0]
		p.Values, p.Files = values(first.Enum), first.Tag.Get("completion") == "file"
	}
	var below []*kong.Node
	for _, child := range node.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			below = append(below, child)
			p.Commands = append(p.Commands, choice{child.Name, child.Help})
		}
	}
	*places = append(*places, p)
	for _, child := range below {
		collect(places, path+"/"+child.Name, child)
	}
}

func completeFlag(f *kong.Flag) completedFlag {
	c := completedFlag{Name: f.Name, Help: f.Help, Placeholder: f.FormatPlaceHolder(), Value: !f.IsBool(), Values: values(f.Enum)}
	if f.Short != 0 {
		c.Short = string(f.Short)
	}
	upper := strings.Split(strings.ToUpper(f.PlaceHolder), "|")
	c.Files = slices.ContainsFunc(upper, func(p string) bool { return p == "PATH" || p == "FILE" || p == "DIR" })
	return c
}

func values(enum string) (list []string) {
	for v := range strings.SplitSeq(enum, ",") {
		if v != "" {
			list = append(list, v)
		}
	}
	return list
}

// quote makes one word of a text, for any of the shells.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'"'"'`) + "'" }

// zshText is a text for a part of a specification, where some characters have a meaning.
func zshText(text string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`).Replace(text)
}

var completions = map[string]string{
	"bash": `# Completion of {{.Program}} for bash.
# Where readline completes file names itself, it takes care of spaces in them.
{{.Func}}_files() {
    compopt -o default 2>/dev/null && return
    local IFS=$'\n'
    COMPREPLY=($(compgen -f -- "$1"))
}
{{.Func}}() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at= i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$at/${COMP_WORDS[i]}" in
{{- range .Places}}{{if .Path}}
            {{quote .Path}}) at={{quote .Path}} ;;
{{- end}}{{end}}
        esac
    done
    case $cur in =) cur= ;; esac
    case $prev in =) prev=${COMP_WORDS[COMP_CWORD-2]} ;; esac
    case "$at $prev" in
{{- $func := .Func}}{{range $p := .Places}}{{range .Flags}}{{if .Values}}
        {{quote (printf "%s --%s" $p.Path .Name)}}) COMPREPLY=($(compgen -W {{quote (join .Values " ")}} -- "$cur")); return ;;
{{- else if .Files}}
        {{quote (printf "%s --%s" $p.Path .Name)}}) {{$func}}_files "$cur"; return ;;
{{- else if .Value}}
        {{quote (printf "%s --%s" $p.Path .Name)}}) return ;;
{{- end}}{{end}}{{end}}
    esac
    local words= flags=
    case $at in
{{- range .Places}}
        {{quote .Path}})
            words={{range .Commands}}{{.Name}}\ {{end}}{{range .Values}}{{.}}\ {{end}}
            flags='{{range .Flags}}--{{.Name}} {{end}}'
{{- if .Files}}
            [[ $cur == -* ]] || {{$func}}_files "$cur"
{{- end}} ;;
{{- end}}
    esac
    case $cur in
        -*) COMPREPLY=($(compgen -W "$flags" -- "$cur")) ;;
        *) COMPREPLY+=($(compgen -W "$words" -- "$cur")) ;;
    esac
}
complete -F {{.Func}} {{.Program}}
`,
	"zsh": `#compdef {{.Program}}
# Completion of {{.Program}} for zsh.
{{.Func}}() {
    local at= i
    local -a below
    for ((i = 2; i < CURRENT; i++)); do
        case "$at/$words[i]" in
{{- range .Places}}{{if .Path}}
            {{quote .Path}}) at={{quote .Path}} ;;
{{- end}}{{end}}
        esac
    done
    case $at in
{{- range .Places}}
        {{quote .Path}})
{{- if .Commands}}
            below=({{range .Commands}}
                {{quote (printf "%s:%s" (zsh .Name) (zsh .Help))}}{{end}}
            )
            [[ $words[CURRENT] == -* ]] || _describe -t commands command below
{{- end}}
            _arguments -s{{range .Flags}} \
                {{if .Short}}'(-{{.Short}} --{{.Name}})'{-{{.Short}},--{{.Name}}}{{quote (printf "[%s]" (zsh .Help))}}{{else}}{{quote (printf "--%s%s[%s]" .Name (or (and .Value "=") "") (zsh .Help))}}{{end}}
                {{- if .Values}}{{quote (printf ":%s:(%s)" (zsh .Placeholder) (join .Values " "))}}
                {{- else if .Files}}{{quote (printf ":%s:_files" (zsh .Placeholder))}}
                {{- else if .Value}}{{quote (printf ":%s: " (zsh .Placeholder))}}{{end}}{{end}}
                {{- if .Values}} \
                {{quote (printf "*:value:(%s)" (join .Values " "))}}{{else if .Files}} \
                '*:file:_files'{{else}} \
                '*:argument:()'{{end}}
            ;;
{{- end}}
    esac
}
compdef {{.Func}} {{.Program}}
`,
	"fish": `# Completion of {{.Program}} for fish.
function {{.Func}}_at
    set -l at ''
    for word in (commandline -opc)[2..-1]
        switch "$at/$word"
            case{{range .Places}}{{if .Path}} {{quote .Path}}{{end}}{{end}}
                set at "$at/$word"
        end
    end
    test "$at" = "$argv[1]"
end
complete -c {{.Program}} -f
{{- $program := .Program}}{{$func := .Func}}
{{- range .Places}}{{$at := quote (printf "%s_at %s" $func (quote .Path))}}
{{- if .Files}}
complete -c {{$program}} -n {{$at}} -F
{{- end}}{{range .Values}}
complete -c {{$program}} -n {{$at}} -a {{quote .}}
{{- end}}{{range .Commands}}
complete -c {{$program}} -n {{$at}} -a {{quote .Name}} -d {{quote .Help}}
{{- end}}{{range .Flags}}
complete -c {{$program}} -n {{$at}} -l {{.Name}}{{if .Short}} -s {{.Short}}{{end}}
{{- if .Values}} -x -a {{quote (join .Values " ")}}{{else if .Files}} -r -F{{else if .Value}} -x{{end}} -d {{quote .Help}}
{{- end}}
{{- end}}
`,
}
