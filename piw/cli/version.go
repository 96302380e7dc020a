package cli

import (
	"encoding/hex"

	"pistate/internal/cli"
	"pistate/schema"
)

// version names the build and the schema that it knows.
func version() string {
	digest := schema.StateDigest()
	return cli.BuildVersion() + " schema " + hex.EncodeToString(digest[:])
}
