package sdk

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"pistate/schema"
)

// Outside an extension every function says so, and none crashes.
func TestOutside(t *testing.T) {
	_, found, readErr := Session.Read()
	_, ok, keyErr := BranchKey()
	if found || ok {
		t.Error("found something outside an extension")
	}
	for name, err := range map[string]error{
		"read":              readErr,
		"branch key":        keyErr,
		"write":             Session.Write([]byte("1")),
		"write nothing":     Branch.Write(nil),
		"drop":              Branch.Drop(),
		"compare and write": Branch.CompareAndWrite(nil, []byte("1")),
		"output":            new(Call).Output(nil),
	} {
		if !errors.Is(err, schema.Denied) || !strings.Contains(err.Error(), "not run as an extension") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a handler returns becomes the call's result.
func TestDispatch(t *testing.T) {
	old := handler
	defer func() { handler = old }()
	if n := dispatch(); n != 1 {
		t.Errorf("without a handler: %d", n)
	}
	for want, err := range map[int32]error{
		0:  nil,
		1:  errors.New("own reason"),
		-8: schema.Errorf(schema.Conflict, "x"),
	} {
		Handle(func(*Call) error { return err })
		if n := dispatch(); n != want {
			t.Errorf("error %v: %d, want %d", err, n, want)
		}
	}
}

// A guest carries the SDK with it, so no database may come along.
func TestGuestStaysSmall(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", ".")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dep := range strings.Fields(string(out)) {
		root, _, _ := strings.Cut(dep, "/") // only another module's has a dot in it
		if strings.Contains(root, ".") || strings.HasPrefix(dep, "pistate/internal/") {
			t.Errorf("the SDK depends on %s", dep)
		}
	}
}
