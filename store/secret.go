package store

import (
	"bytes"
	"strings"
)

// A secretShape is how the well-known secrets of one kind look: a prefix that hardly occurs elsewhere, and a
// number of characters of one alphabet behind it. Shapes without such a prefix, such as passwords, AWS
// secret keys or JSON web tokens, which need not be secret, are not looked for: a false alarm refuses a
// write.
type secretShape struct {
	kind     string
	prefix   string
	alphabet string // of what follows the prefix
	min, max int    // how many such characters follow; a longer run is something else
	holds    string // occurs among them
}

const (
	digits    = "0123456789"
	upper     = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower     = "abcdefghijklmnopqrstuvwxyz"
	alnum     = digits + upper + lower
	urlSafe   = alnum + "-_"
	unlimited = 1 << 10
)

// secretShapes are the secrets that are refused (R11). The documentation prints this table.
var secretShapes = []secretShape{
	{"private key block", "-----BEGIN ", upper + digits + " -", 16, unlimited, "PRIVATE KEY"},
	{"AWS access key", "AKIA", upper + "234567", 16, 16, ""},
	{"AWS access key", "ASIA", upper + "234567", 16, 16, ""},
	{"GitHub token", "ghp_", alnum, 36, 255, ""},
	{"GitHub token", "gho_", alnum, 36, 255, ""},
	{"GitHub token", "ghu_", alnum, 36, 255, ""},
	{"GitHub token", "ghs_", alnum, 36, 255, ""},
	{"GitHub token", "ghr_", alnum, 36, 255, ""},
	{"GitHub token", "github_pat_", alnum + "_", 82, 82, "_"},
	{"GitLab token", "glpat-", urlSafe + ".", 20, unlimited, ""},
	{"Slack token", "xoxb-", alnum + "-", 30, unlimited, "-"},
	{"Slack token", "xoxp-", alnum + "-", 30, unlimited, "-"},
	{"Slack token", "xoxa-", alnum + "-", 30, unlimited, "-"},
	{"Slack token", "xapp-", alnum + "-", 30, unlimited, "-"},
	{"Google API key", "AIza", urlSafe, 35, 35, ""},
	{"Google OAuth secret", "GOCSPX-", urlSafe, 28, 28, ""},
	{"OpenAI key", "sk-", urlSafe, 40, unlimited, "T3BlbkFJ"},
	{"Anthropic key", "sk-ant-", urlSafe, 80, unlimited, "-"},
	{"Stripe key", "sk_live_", alnum, 24, unlimited, ""},
	{"Stripe key", "rk_live_", alnum, 24, unlimited, ""},
	{"npm token", "npm_", alnum, 36, 36, ""},
	{"PyPI token", "pypi-AgEIcHlwaS5vcmc", urlSafe, 50, unlimited, ""},
	{"Hugging Face token", "hf_", alnum, 34, 34, ""},
	{"Telegram bot token", ":AA", urlSafe, 33, 33, ""},
}

// findSecret returns the kind of the first secret that a value has the shape of, or "". It takes time in
// proportion to the value's length: from each prefix it looks at no more than its shape is long.
func findSecret(value []byte) string {
	kind, _, _ := locateSecret(value)
	return kind
}

func locateSecret(value []byte) (kind string, begin, end int) {
	for i := range secretShapes {
		s := &secretShapes[i]
		for from := 0; ; {
			at := bytes.Index(value[from:], []byte(s.prefix))
			if at < 0 {
				break
			}
			at += from
			if n := s.match(value, at); n > 0 {
				return s.kind, at, at + n
			}
			from = at + len(s.prefix)
		}
	}
	return "", 0, 0
}

// match returns the length of the secret that begins at a prefix, or 0.
func (s *secretShape) match(value []byte, at int) int {
	if at > 0 && !s.mayFollow(value, at) {
		return 0
	}
	body := value[at+len(s.prefix):]
	body = body[:min(len(body), s.max+1)]
	n := 0
	for n < len(body) && strings.IndexByte(s.alphabet, body[n]) >= 0 {
		n++
	}
	if n < s.min || n > s.max && s.max < unlimited || !bytes.Contains(body[:n], []byte(s.holds)) {
		return 0
	}
	return len(s.prefix) + n
}

// mayFollow tells whether a secret can begin here: not in the middle of a longer word. A bot token begins
// with the bot's number, before the prefix.
func (s *secretShape) mayFollow(value []byte, at int) bool {
	before := value[at-1]
	if s.prefix == ":AA" {
		n := 0
		for n < 11 && n < at && strings.IndexByte(digits, value[at-1-n]) >= 0 {
			n++
		}
		return n >= 8 && n <= 10
	}
	if s.prefix[0] == '-' {
		return before != '-'
	}
	return strings.IndexByte(alnum+"_", before) < 0 || endsEscape(value[:at])
}

// endsEscape reports whether text ends with an escape of a JSON string, whose last letter belongs to no word:
// \n, or \u000a. A backslash that is itself escaped makes a word of what follows; a secret after that is found
// all the same, which is the safer mistake.
func endsEscape(text []byte) bool {
	n := len(text)
	if n >= 2 && text[n-2] == '\\' && strings.IndexByte("bfnrt", text[n-1]) >= 0 {
		return true
	}
	return n >= 6 && text[n-6] == '\\' && text[n-5] == 'u'
}

// redactSecrets replaces what has the shape of a secret in a text that somebody else wrote, such as the
// error of a provider.
func redactSecrets(text string) string {
	for {
		kind, begin, end := locateSecret([]byte(text))
		if kind == "" {
			return text
		}
		text = text[:begin] + "[" + kind + " removed]" + text[end:]
	}
}
