package sessionstate

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"pistate/schema"
)

// A modelSession is a session file as Pi reads it, done slowly with encoding/json: the whole file at once, trimmed,
// split into lines, each line parsed by itself.
type modelSession struct {
	code   schema.Code // why the file can't be used, or ""
	id     string
	leaf   string
	order  []string
	tree   mapNodes
	parsed int // lines that count as entries
}

// rule applies the plain rule to the model's tree, with the children counted once.
func (m *modelSession) rule() Tree {
	kids := map[string]int{}
	for id, parent := range m.tree {
		if parent != id {
			kids[parent]++
		}
	}
	return TreeOf(countedNodes{m.tree, kids})
}

type countedNodes struct {
	mapNodes
	kids map[string]int
}

func (c countedNodes) ChildCount(id string) int { return c.kids[id] }

func modelOf(data []byte) *modelSession {
	m := &modelSession{tree: mapNodes{}}
	headed, junk := false, false
	text := strings.TrimLeftFunc(string(appendUTF8(nil, data)), isJSSpace)
	trimmed := strings.TrimRightFunc(text, isJSSpace)
	terminated := strings.Contains(text[len(trimmed):], "\n")
	lines := strings.Split(trimmed, "\n")
	for k, line := range lines {
		if strings.TrimFunc(line, isJSSpace) == "" {
			continue
		}
		if !json.Valid([]byte(line)) {
			// Not a finding if it is the last line and may still be written to.
			junk = junk || k < len(lines)-1 || terminated
			continue
		}
		var object map[string]json.RawMessage
		isObject := json.Unmarshal([]byte(line), &object) == nil && object != nil
		if !headed {
			if !isObject || modelText(object["type"]) != "session" {
				m.code = schema.Corrupt
				return m
			}
			m.id = modelText(object["id"])
			if m.id == "" {
				m.code = schema.Corrupt
				return m
			}
			if version, err := strconv.ParseFloat(strings.Trim(string(object["version"]), `"`), 64); err != nil || version != SessionVersion {
				m.code = schema.Incompatible
				return m
			}
			headed = true
			continue
		}
		id := modelText(object["id"])
		if !isObject || modelText(object["type"]) == "session" || id == "" {
			continue
		}
		if _, again := m.tree[id]; !again {
			m.order = append(m.order, id)
		}
		m.tree[id] = modelText(object["parentId"])
		m.leaf = id
		m.parsed++
	}
	switch {
	case !headed && junk:
		m.code = schema.Corrupt
	case !headed:
		m.code = schema.NotFound
	case m.tree.hasCycle():
		m.code = schema.Corrupt
	}
	return m
}

// modelText returns the text of a JSON string that can be an id, else "".
func modelText(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil || len(text) > maxID {
		return ""
	}
	return text
}

// outsideModel reports whether the model is no judge of the data: encoding/json has a limit of depth, and takes
// all unpaired surrogates for one character; and a file that ends inside a character may be completed.
func outsideModel(data []byte) bool {
	if tooDeep(data) || unpaired.Match(data) {
		return true
	}
	last := data[max(0, len(data)-utf8.UTFMax):]
	for len(last) > 0 && !utf8.RuneStart(last[0]) {
		last = last[1:]
	}
	for len(last) > 0 && utf8.FullRune(last) {
		_, size := utf8.DecodeRune(last)
		last = last[size:]
	}
	return len(last) > 0
}
