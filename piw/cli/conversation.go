package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"pistate/internal/cli"
	"pistate/store"
)

// maxToolLines is how much of what a tool said is printed, unless all is asked for.
const maxToolLines = 12

// piEntry is what people want to know of an entry of a Pi session.
type piEntry struct {
	Type    string `json:"type"`
	Message struct {
		Role     string          `json:"role"`
		Content  json.RawMessage `json:"content"` // a text, or a list of blocks
		ToolName string          `json:"toolName"`
		IsError  bool            `json:"isError"`
		Error    string          `json:"errorMessage"`
	} `json:"message"`
	Provider      string          `json:"provider"`
	Model         string          `json:"modelId"`
	ThinkingLevel string          `json:"thinkingLevel"`
	Summary       string          `json:"summary"`
	CustomType    string          `json:"customType"`
	Content       json.RawMessage `json:"content"` // of a custom message
	Name          string          `json:"name"`
	Label         string          `json:"label"`
}

// piBlock is a part of a message.
type piBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	MimeType  string          `json:"mimeType"`
}

// printEntry prints an entry: who speaks, when, and with --private what.
func printEntry(env *cli.Env, o output, e store.CapturedEntry, all bool) error {
	var entry piEntry
	who, name, body := "a line that is no entry", "", []string{e.Line}
	if err := json.Unmarshal([]byte(e.Line), &entry); err == nil {
		who, name, body = entry.read()
	}
	head := fmt.Sprintf("#%d %s", e.Sequence, who)
	if name = o.keep(name); name != "" {
		head += " " + name
	}
	size := fmt.Sprintf("%s, %s", o.when(env, e.CapturedAt), cli.Size(e.Length))
	env.Line(cli.Styled{Value: head, Style: speaker(entry.Message.Role)}, cli.Styled{Value: size, Style: cli.Dim})
	if !o.Private {
		return nil
	}
	limit := 0
	if entry.Message.Role == "toolResult" && !all {
		limit = maxToolLines
	}
	for _, part := range body {
		printText(env, part, limit)
	}
	return nil
}

func speaker(role string) cli.Style {
	switch role {
	case "user":
		return cli.Good
	case "assistant":
		return cli.Busy
	}
	return cli.Bold
}

// read returns who speaks in an entry, under which name, and what is said.
func (e *piEntry) read() (who, name string, body []string) {
	m := e.Message
	switch e.Type {
	case "message":
		who, name, body = m.Role, m.ToolName, blocks(m.Content)
		if m.Role == "toolResult" {
			who = "tool"
		}
		if m.IsError {
			who = "failed " + who
		}
		if m.Error != "" {
			body = append(body, "error: "+m.Error)
		}
	case "custom_message":
		who, name, body = "extension", e.CustomType, blocks(e.Content)
	case "custom":
		who, name = "data of extension", e.CustomType
	case "compaction", "branch_summary":
		who, body = strings.ReplaceAll(e.Type, "_", " "), []string{e.Summary}
	case "model_change":
		who, name = "model", e.Provider+" "+e.Model
	case "thinking_level_change":
		who, name = "thinking level", e.ThinkingLevel
	case "session_info":
		who, name = "session name", e.Name
	case "label":
		who, name = "label", e.Label
	default:
		who = "entry of type"
		name = e.Type
	}
	return who, name, body
}

// blocks returns the texts of a message's content.
func blocks(content json.RawMessage) (texts []string) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []string{text}
	}
	var list []piBlock
	if json.Unmarshal(content, &list) != nil {
		return nil
	}
	for _, b := range list {
		switch b.Type {
		case "text":
			texts = append(texts, b.Text)
		case "thinking":
			texts = append(texts, "(thinks) "+b.Thinking)
		case "toolCall":
			texts = append(texts, "-> "+b.Name+" "+string(b.Arguments))
		case "image":
			texts = append(texts, "("+b.MimeType+")")
		default:
			texts = append(texts, "("+b.Type+")")
		}
	}
	return texts
}

// printText prints a text below its heading, at most limit lines of it; all for 0.
func printText(env *cli.Env, text string, limit int) {
	text = cli.Escape(strings.TrimRight(text, "\n"))
	if env.Terminal.Width > 0 {
		text = ansi.Wrap(text, env.Terminal.Width-2, "")
	}
	n := 0
	for line := range strings.Lines(text) {
		if n++; limit > 0 && n > limit {
			continue
		}
		fmt.Fprintf(env.Stdout, "  %s\n", strings.TrimSuffix(line, "\n"))
	}
	if limit > 0 && n > limit {
		fmt.Fprintf(env.Stdout, "  %s\n", env.Terminal.Paint(cli.Dim, fmt.Sprintf("(%s more: --all)", count(n-limit, "line"))))
	}
}
