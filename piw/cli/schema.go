package cli

import (
	"encoding/hex"
	"fmt"

	"pistate/internal/cli"
	"pistate/schema"
)

// StateSchemaCmd prints the schema that this program knows.
type StateSchemaCmd struct {
	Sessions bool `help:"Of the session-state database."`
	JSON     bool `name:"json" help:"Print JSON instead of text."`
}

// Help is shown below the flags.
func (*StateSchemaCmd) Help() string {
	return `The definitions are SQL, and their comments say what the columns mean. Its SHA-256 is the digest that piw --version names and that every workflow database holds.`
}

type schemaJSON struct {
	Kind          string `json:"kind"`
	ApplicationID int64  `json:"application_id"`
	UserVersion   int64  `json:"user_version"`
	Digest        string `json:"digest,omitempty"` // SHA-256 of the DDL, as every workflow database holds it
	DDL           string `json:"ddl"`
}

// Run prints the schema.
func (c *StateSchemaCmd) Run(env *cli.Env) error {
	digest := schema.StateDigest()
	doc := schemaJSON{workflowKind.name, schema.StateApplicationID, schema.StateUserVersion, hex.EncodeToString(digest[:]), schema.StateDDL()}
	if c.Sessions {
		doc = schemaJSON{Kind: sessionKind.name, DDL: schema.SessionDDL()}
	}
	if c.JSON {
		return cli.JSON(env.Stdout, doc)
	}
	_, err := fmt.Fprint(env.Stdout, doc.DDL)
	return err
}
