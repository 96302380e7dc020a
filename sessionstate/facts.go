package sessionstate

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// lockFacts is the JSON form of a [LockError].
type lockFacts struct {
	Initiator string `json:"initiator"`
	Action    string `json:"action"`
	Object    string `json:"object"`
	Reason    string `json:"reason"`
	Holder    string `json:"holder"`
	Since     int64  `json:"since"` // UTC epoch milliseconds
	Until     int64  `json:"until"` // UTC epoch milliseconds
}

// MarshalJSON returns what the error says, by which it can be made again on the other side of a boundary.
func (e *LockError) MarshalJSON() ([]byte, error) {
	return json.Marshal(lockFacts{e.Initiator, e.Action, e.Object, e.Reason, e.Holder, e.Since.UnixMilli(), e.Until.UnixMilli()})
}

// UnmarshalJSON is the opposite of MarshalJSON.
func (e *LockError) UnmarshalJSON(data []byte) error {
	var f lockFacts
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	*e = LockError{f.Initiator, f.Action, f.Object, f.Reason, f.Holder, time.UnixMilli(f.Since), time.UnixMilli(f.Until)}
	return nil
}

// conflictFacts is the JSON form of a [ConflictError]. The value is text in there: JSON inside JSON would not keep
// its bytes, and those are what [State.CompareAndWrite] compares.
type conflictFacts struct {
	Found *string `json:"found"`                 // null: none
	Bytes []byte  `json:"found_bytes,omitempty"` // in place of Found, what another program has stored that isn't UTF-8
}

// MarshalJSON returns what the error says, by which it can be made again on the other side of a boundary.
func (e *ConflictError) MarshalJSON() ([]byte, error) {
	var f conflictFacts
	switch text := string(e.Found); {
	case e.Found == nil:
	case utf8.ValidString(text):
		f.Found = &text
	default:
		f.Bytes = e.Found
	}
	return json.Marshal(f)
}

// UnmarshalJSON is the opposite of MarshalJSON.
func (e *ConflictError) UnmarshalJSON(data []byte) error {
	var f conflictFacts
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	e.Found = f.Bytes
	if f.Found != nil {
		e.Found = json.RawMessage(*f.Found)
	}
	return nil
}
