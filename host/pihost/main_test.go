package main

import (
	"os"
	"testing"

	"pistate/internal/cli/clitest"
	piw "pistate/piw/cli"
)

// playEnv makes the test binary play pihost, for a user who can't get at the one of the scripts.
const playEnv = "PIHOST_TEST_PLAY"

func TestMain(m *testing.M) {
	if os.Getenv(playEnv) != "" {
		program().Main()
	}
	clitest.Main(m, program, piw.Program)
}

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }
