package schema

import (
	"slices"
	"strings"
	"testing"
)

func TestTokenize(t *testing.T) {
	for _, c := range []struct {
		name, sql string
		want      []string
	}{
		{"empty", " \t\r\n\f", nil},
		{"keywords fold, names don't", "create TABLE Runs (Id text)", []string{"CREATE", "TABLE", "Runs", "(", "Id", "TEXT", ")"}},
		{"comments", "a--b\nc/* d */e -- end", []string{"a", "c", "e"}},
		{"open comment", "a /* b", []string{"a"}},
		{"comment mark at the end", "a /*", []string{"a", "/", "*"}},
		{"strings", `'it''s' '--' '/*'`, []string{`'it''s'`, `'--'`, `'/*'`}},
		{"quoted names", "\"runs\" `runs` [runs] \"a b\" [a\"b] \"a\"\"b\"", []string{"runs", "runs", "runs", `"a b"`, `"a""b"`, `"a""b"`}},
		{"a quoted keyword is a name", `"select" select`, []string{`"select"`, "SELECT"}},
		{"unterminated", `a 'b c`, []string{"a", "'b c"}},
		{"unterminated name", "a [b c", []string{"a", "[b c"}},
		{"blobs", "x'00' X'ff' x '00'", []string{"x'00'", "X'ff'", "x", "'00'"}},
		{"numbers", "1 1.5 .5 1e9 1e+9 1.e-3 0xFF 1_000 1ex 12ab", []string{"1", "1.5", ".5", "1e9", "1e+9", "1.e-3", "0xFF", "1_000", "1ex", "12ab"}},
		{"no exponent", "1e+a", []string{"1e", "+", "a"}},
		{"operators", "a->>b->c||d<=e<>f<<g>=h>>i==j!=k=l-m", []string{"a", "->>", "b", "->", "c", "||", "d", "<=", "e", "<>", "f", "<<", "g", ">=", "h", ">>", "i", "==", "j", "!=", "k", "=", "l", "-", "m"}},
		{"parameters", "?1 ? :a @b $c #d", []string{"?1", "?", ":a", "@b", "$c", "#d"}},
		{"bytes above ASCII are letters", "é\xff1", []string{"é\xff1"}},
		{"illegal bytes", "a\x00!\v", []string{"a", "\x00", "!", "\v"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, tok := range tokenize(c.sql) {
				got = append(got, tok.text)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("tokenize(%q)\n got %q\nwant %q", c.sql, got, c.want)
			}
		})
	}
}

func TestTokenKinds(t *testing.T) {
	for sql, want := range map[string]tokenKind{
		"select": tokKeyword, "strict": tokKeyword, "runs": tokName, `"select"`: tokName,
		"'a'": tokLiteral, "x'00'": tokLiteral, "7": tokLiteral, "?": tokLiteral,
		"(": tokSymbol, "<>": tokSymbol, "'a": tokIllegal, "`a": tokIllegal, "x'0": tokIllegal, "!": tokIllegal, "@": tokIllegal,
	} {
		tokens := tokenize(sql)
		if len(tokens) != 1 || tokens[0].kind != want {
			t.Errorf("tokenize(%q) = %+v, want one token of kind %d", sql, tokens, want)
		}
	}
}

func TestJoinTokens(t *testing.T) {
	sql := "create table runs ( id  text not null,check(length( id )>0 and a.b in('x' , 'y')) ) strict"
	want := "CREATE TABLE runs(id TEXT NOT NULL, CHECK (length(id) > 0 AND a.b IN ('x', 'y'))) STRICT"
	if got := joinTokens(tokenize(sql)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func FuzzTokens(f *testing.F) {
	for _, seed := range []string{
		"", "a", SessionDDL(), "'", "x'", "[", "a[b]c", "1.2.3", "0x", "1e", "/*", "--", "a--", "?1a", "$$", "\"\"", "``", "\x00",
		"- -1", "< >", "a\"b", "é", "1 .5", "| |", "! =", "x 'ab'", "\"x\"'ab'", "- >", "/ *", "CREATE TRIGGER t BEGIN SELECT 1; END;",
		"CREATE TABLE t (a INT CONSTRAINT c CHECK (a > 0) NOT NULL, PRIMARY KEY (a) CHECK (a)) STRICT, WITHOUT ROWID; CREATE UNIQUE INDEX i ON t (a DESC) WHERE a;",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		tokens := tokenize(sql)
		at := 0
		for _, tok := range tokens {
			if tok.start < at || tok.end <= tok.start || tok.end > len(sql) {
				t.Fatalf("token %+v after offset %d of %q", tok, at, sql)
			}
			if between := sql[at:tok.start]; len(tokenize(between)) != 0 {
				t.Fatalf("%q was dropped from %q", between, sql)
			}
			at = tok.end
		}
		joined := joinTokens(tokens)
		again := tokenize(joined)
		if !sameTokens(tokens, again) {
			t.Fatalf("%q\n  gives %q\n   then %q", sql, texts(tokens), texts(again))
		}
		if upper := tokenize(strings.ToUpper(joined)); len(upper) != len(tokens) && isASCII(joined) {
			t.Fatalf("%q has %d tokens, in upper case %d", joined, len(tokens), len(upper))
		}
		parseDefinition(sql)
		splitStatements(sql)
	})
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 0x7f }) < 0
}

func texts(tokens []token) []string {
	var list []string
	for _, t := range tokens {
		list = append(list, t.text)
	}
	return list
}
