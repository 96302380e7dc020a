package layout

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"pistate/internal/wasmbuild"
)

// Z1: the logic is written once. Its own tests pass on both ways to SQLite: natively, as they do everywhere, and
// here on an SQLite that is lent, one statement a call, as a host lends it to store.wasm.
func TestTheLogicOnALentSQLite(t *testing.T) {
	wasmbuild.WatchGuests(t)
	out, err := exec.Command("go", "test", "-tags=lent", "pistate/store", "pistate/sessionstate", "pistate/internal/sqlite").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// What is compiled for the guests is vetted as they compile it. Their tests are native.
func TestGuestsVet(t *testing.T) {
	packages := []string{
		"pistate/schema", "pistate/internal/sqlite", "pistate/sessionstate", "pistate/store",
		"pistate/wasm/abi", "pistate/wasm/sdk", "pistate/wasm/store", "pistate/wasm/examples/counter",
	}
	for _, tags := range []string{"", "sqliteinside"} {
		for _, path := range packages {
			files, err := guest("list", "-tags="+tags, "-f", `{{range .GoFiles}}{{$.Dir}}/{{.}} {{end}}`, path).Output()
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			args := append([]string{"vet", "-tags=" + tags}, strings.Fields(string(files))...)
			if out, err := guest(args...).CombinedOutput(); err != nil {
				t.Errorf("%s with tags %q: %v\n%s", path, tags, err, out)
			}
		}
	}
}

// guest is a go command for the guests' platform.
func guest(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	return cmd
}
