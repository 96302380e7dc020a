package cli

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
		Program().Main()
	}
	clitest.Main(m, Program, piw.Program)
}

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }
