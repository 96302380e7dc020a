package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pistate/schema"
)

// sampleSecret makes a text of a shape, in the middle of other text. It is assembled here so that no secret
// scanner takes this file for a leak.
func sampleSecret(s secretShape) string {
	var body strings.Builder
	body.WriteString(s.holds)
	for i := 0; body.Len() < max(s.min, len(s.holds)+20) && body.Len() < s.max; i++ {
		body.WriteByte(s.alphabet[(i*7+3)%len(s.alphabet)])
	}
	prefix := s.prefix
	if prefix == ":AA" {
		prefix = "1234567890" + prefix
	}
	if strings.HasPrefix(prefix, "-----BEGIN") {
		return prefix + "RSA PRIVATE KEY-----"
	}
	return prefix + body.String()
}

func TestSecretShapes(t *testing.T) { // R11
	for _, shape := range secretShapes {
		secret := sampleSecret(shape)
		for _, text := range []string{secret, "key=" + secret, `{"a":"` + secret + `"}`, "x " + secret + "\n", "(" + secret + ")", `{"a":"x\n` + secret + `"}`, `"\u000a` + secret + `"`} {
			if got := findSecret([]byte(text)); got == "" {
				t.Errorf("%s is not found in %.60s", shape.kind, text)
			}
			if left := redactSecrets(text); strings.Contains(left, secret) || findSecret([]byte(left)) != "" {
				t.Errorf("%s is left in %q", shape.kind, left)
			}
		}
		if cut := secret[:len(secret)-max(1, len(secret)-len(shape.prefix)-shape.min+1)]; shape.kind != "private key block" && shape.prefix != ":AA" {
			if got := findSecret([]byte(cut)); got == shape.kind && len(cut) < len(shape.prefix)+shape.min {
				t.Errorf("%.60s is too short for a %s", cut, got)
			}
		}
	}
}

func TestNoSecret(t *testing.T) { // R11
	for _, text := range []string{
		"", "-----BEGIN CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----", "AKIA", "AKIAshort", "XAKIA" + strings.Repeat("A", 16),
		"task-force-with-a-rather-long-name-that-goes-on-and-on-for-ever", "ghp_short", "sk-learn", "sk-" + strings.Repeat("a", 60),
		"npm_config_registry_is_a_long_variable_name", "hf_" + strings.Repeat("a", 35), "12:AA" + strings.Repeat("b", 33),
		"xoxb-" + strings.Repeat("1", 40), strings.Repeat("AKIA", 50), strings.Repeat("QUtJQQ", 40), "aGVsbG8gd29ybGQ=",
		"2026-11-30T16:45:06Z", strings.Repeat("0123456789abcdef", 4),
	} {
		if kind := findSecret([]byte(text)); kind != "" {
			t.Errorf("%q is taken for a %s", text, kind)
		}
	}
	// Real sessions, with code, logs and encrypted reasoning in them, raise no false alarm.
	files, err := filepath.Glob("../testdata/pi-sessions/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range bytes.Split(content, []byte("\n")) {
			if kind := findSecret(line); kind != "" {
				t.Errorf("%s:%d is taken for a %s", file, i+1, kind)
			}
		}
	}
}

func TestSecretsAreRefused(t *testing.T) { // R11
	s, _ := openStore(t)
	mustCreate(t, s, "c1")
	secret := "ghp_" + strings.Repeat("a1", 18)
	escaped := json.RawMessage(`{"env":"token=\u0067hp_` + secret[4:] + `"}`)
	before := dump(t, s.Path())
	for name, err := range map[string]error{
		"value":    second(Do(t.Context(), s, Permit{Actor: session1, Expected: 1}, touch{Channel: "c1", Data: json.RawMessage(`["` + secret + `"]`)})),
		"escaped":  second(Do(t.Context(), s, Permit{Actor: session1, Expected: 1}, touch{Channel: "c1", Data: escaped})),
		"id":       second(Do(t.Context(), s, Permit{Actor: session1}, create{secret})),
		"resource": second(Do(t.Context(), s, as(host1, nil), ClaimLease{channel(secret), 1000})),
		"payload": second(Do(t.Context(), s, Permit{Actor: session1, Expected: 1}, touch{Channel: "c1", Effects: []EffectSpec{
			{Type: "t", Key: "k", Payload: json.RawMessage(`"` + secret + `"`), Scope: Scope{SystemScope, "all"}},
		}})),
	} {
		if !errors.Is(err, schema.Invalid) || !strings.Contains(err.Error(), "GitHub token") || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if dump(t, s.Path()) != before {
		t.Error("a refused secret left something behind")
	}
	mustDo(t, s, Permit{Actor: session1, Expected: 1, SecretsReviewed: true}, touch{Channel: "c1", Data: escaped})
}

func second[T any](_ T, err error) error { return err }

func BenchmarkFindSecret(b *testing.B) {
	text, err := os.ReadFile("../testdata/pi-sessions/large-session-v3.jsonl")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if kind := findSecret(text); kind != "" {
			b.Fatal(kind)
		}
	}
}
