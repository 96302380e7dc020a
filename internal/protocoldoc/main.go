// Protocoldoc writes the documentation of the command protocol: from the registry that the dispatcher uses,
// and from the comments in the source of its types.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
)

func main() {
	out := flag.String("o", "", "the file to write")
	src := flag.String("src", ".", "the source of package store")
	flag.Parse()
	if err := run(*src, *out); err != nil {
		fmt.Fprintln(os.Stderr, "protocoldoc:", err)
		os.Exit(1)
	}
}

func run(src, out string) error {
	text, err := generate(src)
	if err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o644)
}

func generate(src string) ([]byte, error) {
	comments, err := readSource(src)
	if err != nil {
		return nil, err
	}
	p := &page{source: comments, types: map[string]bool{}}
	p.write()
	return bytes.TrimRight(p.Bytes(), "\n\x00"), p.problem
}
