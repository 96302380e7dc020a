// Pihost runs sandboxed extensions on the state of real Pi sessions: for the authors of extensions, for
// embedders who want to see what their program will do, and for scripts.
package main

import "pistate/host/pihost/cli"

func main() { cli.Program().Main() }
