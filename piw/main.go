// Piw looks at, checks and backs up the state of a running agent, and never writes to it. Called by the name
// pi-workflows it is the same program.
package main

import "pistate/piw/cli"

func main() { cli.Program().Main() }
