package cli

import (
	"encoding/hex"
	"runtime/debug"

	"pistate/schema"
)

// version names the build and the schema that it knows.
func version() string {
	v := "(development)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = info.Main.Version
	}
	digest := schema.StateDigest()
	return v + " schema " + hex.EncodeToString(digest[:])
}
