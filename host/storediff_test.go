package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"pistate/internal/wasmbuild"
	workflow "pistate/store"
)

// oddValues take the place of what a request should have.
var oddValues = []json.RawMessage{
	[]byte(`null`), []byte(`true`), []byte(`0`), []byte(`-0`), []byte(`-1`), []byte(`1.5`), []byte(`1E3`), []byte(`1e400`), []byte(`5e-324`),
	[]byte(`9223372036854775807`), []byte(`9223372036854775808`), []byte(`123456789012345678901234567890`),
	[]byte(`""`), []byte(`" "`), []byte(`"\u0000"`), []byte(`"\ud800"`), []byte("\"\xff\""), []byte(`"😀<&>\u2028"`), []byte(`"run:"`), []byte(`"/"`),
	[]byte(`"` + strings.Repeat("ü", 70000) + `"`), []byte(`[]`), []byte(`{}`), []byte(`[null]`), []byte(`{"":""}`), []byte(`{"a":1,"a":2}`),
	[]byte(strings.Repeat("[", 10001) + strings.Repeat("]", 10001)), []byte(`{`), []byte(`nul`),
}

// spoil changes one thing, or a few, somewhere in a request.
func spoil(r *rand.Rand, request string) string {
	if r.IntN(20) == 0 {
		text := []byte(request)
		text[r.IntN(len(text))] = byte(r.IntN(256))
		return string(text)
	}
	return string(spoilValue(r, json.RawMessage(request), true))
}

func spoilValue(r *rand.Rand, value json.RawMessage, whole bool) json.RawMessage {
	if !whole && r.IntN(4) == 0 {
		return oddValues[r.IntN(len(oddValues))]
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) == nil && len(object) > 0 {
		names := slices.Sorted(maps.Keys(object))
		changed := names[r.IntN(len(names))]
		var members [][]byte
		for _, name := range names {
			if name != changed {
				members = append(members, fmt.Appendf(nil, "%q:%s", name, object[name]))
				continue
			}
			switch r.IntN(12) {
			case 0: // it is missing
			case 1:
				members = append(members, fmt.Appendf(nil, "%q:%s", strings.ToUpper(name), object[name]))
			case 2:
				members = append(members, fmt.Appendf(nil, "%q:%s,%[1]q:%[2]s", name, object[name]))
			default:
				members = append(members, fmt.Appendf(nil, "%q:%s", name, spoilValue(r, object[name], false)))
			}
		}
		return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}"))
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) == nil && len(list) > 0 {
		i := r.IntN(len(list))
		list[i] = spoilValue(r, list[i], false)
		var elements [][]byte
		for _, element := range list {
			elements = append(elements, element)
		}
		return slices.Concat([]byte("["), bytes.Join(elements, []byte(",")), []byte("]"))
	}
	return oddValues[r.IntN(len(oddValues))]
}

// Z1: whatever is asked, good or bad, the module answers it as the native store does, byte for byte, and leaves the
// same database.
func TestStoreAnswersAlike(t *testing.T) {
	files, err := filepath.Glob("../testdata/scenarios/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for seed, file := range files {
		if strings.HasSuffix(file, ".golden.jsonl") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		now := time.UnixMilli(1_800_000_000_000)
		clock := func() time.Time { return now }
		path, twin := databasePath(t), databasePath(t)
		native, err := workflow.Open(t.Context(), path, workflow.Options{Now: clock, Random: scenarioRandom()})
		if err != nil {
			t.Fatal(err)
		}
		wasm := openWasmStore(t, wasmbuild.Store(t), StoreConfig{Database: WorkflowDatabase, Path: twin, Now: clock, Random: scenarioRandom()})
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		accepted := 0
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			var step struct {
				Op   string
				Args struct{ MS int64 }
			}
			if !strings.HasPrefix(line, "{") {
				continue
			}
			if _ = json.Unmarshal([]byte(line), &step); step.Op == "clock.advance" {
				now = now.Add(time.Duration(step.Args.MS) * time.Millisecond)
				continue
			}
			for _, request := range []string{spoil(r, line), spoil(r, line), line} {
				want := strings.ReplaceAll(string(native.Dispatch(t.Context(), []byte(request))), path, twin)
				have := string(wasm.Call(t.Context(), []byte(request)))
				if have != want {
					t.Errorf("%s: %.500s\nis answered natively\n%.500s\nand by the module\n%.500s", filepath.Base(file), request, want, have)
				}
				if strings.HasPrefix(want, `{"ok":true`) {
					accepted++
				}
			}
		}
		if err := native.Close(); err != nil {
			t.Error(err)
		}
		if err := wasm.Close(); err != nil {
			t.Error(err)
		}
		if content(t, path) != content(t, twin) {
			t.Errorf("%s: the databases differ", filepath.Base(file))
		}
		if accepted == 0 {
			t.Errorf("%s: nothing was accepted", filepath.Base(file))
		}
	}
}

// scenarioRandom is the source by which the scenarios know their tokens: that of pihost exec --seed 1.
func scenarioRandom() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{1}) }

// content returns all rows of all tables of a database.
func content(t testing.TB, path string) string {
	t.Helper()
	conn := rawConn(t, path)
	each := func(sql string, row func(*sqlite3.Stmt)) {
		stmt, _, err := conn.Prepare(sql)
		if err != nil {
			t.Fatal(err)
		}
		defer stmt.Close()
		for stmt.Step() {
			row(stmt)
		}
		if err := stmt.Err(); err != nil {
			t.Fatal(err)
		}
	}
	var all strings.Builder
	each("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name", func(table *sqlite3.Stmt) {
		name := table.ColumnText(0)
		each(`SELECT * FROM "`+name+`"`, func(row *sqlite3.Stmt) {
			fmt.Fprint(&all, name)
			for i := range row.ColumnCount() {
				fmt.Fprintf(&all, " %v %q", row.ColumnType(i), row.ColumnText(i))
			}
			fmt.Fprintln(&all)
		})
	})
	return all.String()
}
