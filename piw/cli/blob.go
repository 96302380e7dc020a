package cli

import (
	"fmt"
	"strings"

	"pistate/internal/cli"
	"pistate/store"
)

// BlobCmd describes or prints stored content.
type BlobCmd struct {
	workflowDB
	output
	Digest string `arg:"" help:"The digest, or its first digits: six or more."`
}

// Help is shown below the flags.
func (*BlobCmd) Help() string {
	return `Without --private this only says what it is and how long. With it the content is printed as it is stored; a terminal gets no control characters.

  piw blob 4f9c21d0aa17 --private > answer.json`
}

// blobJSON describes content, and holds it with --private.
type blobJSON struct {
	Digest store.Digest `json:"digest"`
	store.BlobInfo
}

// Run prints the content, or what can be said of it.
func (c *BlobCmd) Run(env *cli.Env) error {
	digits, err := parseDigest(c.Digest)
	if err != nil {
		return err
	}
	var doc blobJSON
	err = c.view(env, func(q *store.Queries) (err error) {
		doc, err = readBlob(env, q, digits, c.Private)
		return err
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return c.print(env, doc)
	case c.Private:
		return printContent(env, doc.BlobInfo)
	}
	env.Fact("digest", doc.Digest)
	env.Fact("type", doc.MediaType)
	env.Fact("length", cli.Size(doc.Length))
	env.Fact("content", hidden+": add --private")
	return nil
}

func readBlob(env *cli.Env, q *store.Queries, prefix string, content bool) (doc blobJSON, err error) {
	if doc.Digest, err = q.FindBlob(env, prefix); err != nil {
		return doc, err
	}
	infos, err := q.BlobInfos(env, content, doc.Digest)
	doc.BlobInfo = infos[doc.Digest]
	return doc, err
}

// printContent prints content as it is, but for a terminal, which must not be told what to do.
func printContent(env *cli.Env, b store.BlobInfo) error {
	text := string(b.Value)
	if b.Text != nil {
		text = *b.Text
	}
	if !env.Terminal.Is {
		_, err := fmt.Fprint(env.Stdout, text)
		return err
	}
	_, err := fmt.Fprintln(env.Stdout, strings.TrimSuffix(cli.Escape(text), "\n"))
	return err
}
