package cli

import "runtime/debug"

// BuildVersion returns the version of the program that runs, as the Go tool has noted it.
func BuildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(development)"
}
