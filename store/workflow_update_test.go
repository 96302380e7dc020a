package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pistate/schema"
)

func TestUpdates(t *testing.T) { // D5, W5
	f := newFlow(t)
	f.create(f.spec("r1"))
	o := f.own(host1, "r1").start()
	a := o.begin("test")
	update := func(kind, key, data string) NewUpdate { return NewUpdate{kind, key, json.RawMessage(data)} }
	first := AppendUpdates{"r1", a.ID, 1, []NewUpdate{update("progress", "", "1"), update("todo", "a", `{"done":false}`), update("todo", "b", "1")}}
	if got := must(o, first); *got != (Appended{1, 3}) {
		t.Errorf("%+v", got)
	}
	must(o, AppendUpdates{"r1", a.ID, 4, []NewUpdate{update("todo", "a", `{"done":true}`), update("progress", "", "2"), update("progress", "", "3")}})
	before := f.rowsOf("r1")
	again := mustDo(t, f.Store, Permit{Actor: host1, Expected: AnyRevision, Claim: o.claim}, first)
	if !again.Adopted || *again.Result != (Appended{1, 3}) {
		t.Errorf("%+v", again)
	}
	for name, tc := range map[string]struct {
		code schema.Code
		cmd  AppendUpdates
	}{
		"another value":  {schema.Conflict, AppendUpdates{"r1", a.ID, 2, []NewUpdate{update("todo", "a", "2")}}},
		"another key":    {schema.Conflict, AppendUpdates{"r1", a.ID, 3, []NewUpdate{update("todo", "c", "1")}}},
		"partly old":     {schema.Conflict, AppendUpdates{"r1", a.ID, 6, []NewUpdate{update("progress", "", "3"), update("t", "", "1")}}},
		"a gap":          {schema.IllegalTransition, AppendUpdates{"r1", a.ID, 8, []NewUpdate{update("t", "", "1")}}},
		"no sequence":    {schema.Invalid, AppendUpdates{"r1", a.ID, 0, []NewUpdate{update("t", "", "1")}}},
		"no updates":     {schema.Limit, AppendUpdates{"r1", a.ID, 7, nil}},
		"many updates":   {schema.Limit, AppendUpdates{"r1", a.ID, 7, make([]NewUpdate, MaxUpdates+1)}},
		"no type":        {schema.Invalid, AppendUpdates{"r1", a.ID, 7, []NewUpdate{update("", "", "1")}}},
		"one is no JSON": {schema.Invalid, AppendUpdates{"r1", a.ID, 7, []NewUpdate{update("t", "", "1"), update("t", "", "{")}}},
	} {
		if _, err := send(o, tc.cmd); !errors.Is(err, tc.code) {
			t.Errorf("%s: %v, want code %s", name, err, tc.code)
		}
	}
	if f.rowsOf("r1") != before {
		t.Error("a refused update changed something")
	}
	all, err := f.Updates(t.Context(), a.ID, 2, 3)
	if err != nil || len(all) != 3 || all[0].Sequence != 3 || all[2].Sequence != 5 {
		t.Errorf("%+v, %v", all, err)
	}
	var current []string
	for after := (Update{}); ; {
		page, err := f.CurrentUpdates(t.Context(), a.ID, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		after = page[0]
		current = append(current, fmt.Sprint(after.Sequence, after.Type, after.Key, f.bytesOf(&after.Data)))
	}
	if want := []string{`6progress3`, `4todoa{"done":true}`, `3todob1`}; !reflect.DeepEqual(current, want) {
		t.Errorf("%q", current)
	}
	if doc := f.document("r1"); len(doc.Updates) != 3 || doc.Updates[0].Sequence != 6 || doc.Updates[0].Attempt != a.ID {
		t.Errorf("%+v", doc.Updates)
	}
}
