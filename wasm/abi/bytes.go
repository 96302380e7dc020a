package abi

import "strings"

// Give copies data into a buffer if all of it fits, and returns its length: the rule of every function that gives
// bytes.
func Give(buf, data []byte) int64 {
	if len(data) <= len(buf) {
		copy(buf, data)
	}
	return int64(len(data))
}

// Message makes a text fit to cross as a message: valid UTF-8 of at most [MaxMessage] bytes.
func Message(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > MaxMessage {
		text = strings.ToValidUTF8(text[:MaxMessage], "") // drops the character that the cut went through
	}
	return text
}
