package main

import (
	"testing"

	"pistate/internal/cli/clitest"
	piw "pistate/piw/cli"
)

func TestMain(m *testing.M) { clitest.Main(m, program, piw.Program) }

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }
