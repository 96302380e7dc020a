package cli

import (
	"testing"

	"pistate/internal/cli/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, Program) }

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }
