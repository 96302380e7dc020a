package store

import (
	"os"
	"path/filepath"
	"testing"

	"pistate/schema"
)

func TestRegisterProject(t *testing.T) { // R10
	s, c := openStore(t)
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real := filepath.Join(root, "real")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	permit := Permit{Actor: host1}
	first := mustDo(t, s, permit, RegisterProject{real})
	want := Project{projectID(real), real, c.millis()}
	if first.Result != want || first.Adopted {
		t.Errorf("%+v, want %+v", first, want)
	}
	c.move(1000)
	for _, path := range []string{real, link, real + "/", real + "/../link/.", "/" + real} {
		if again := mustDo(t, s, permit, RegisterProject{path}); again.Result != want || !again.Adopted {
			t.Errorf("%s: %+v", path, again)
		}
	}
	if other := mustDo(t, s, permit, RegisterProject{root}); other.Result.ID == want.ID {
		t.Error("two projects have one id")
	}
	if p, err := s.Project(t.Context(), want.ID); err != nil || p != want {
		t.Errorf("%+v, %v", p, err)
	}
	projects, err := s.Projects(t.Context(), "", 10)
	if err != nil || len(projects) != 2 || projects[1] != want {
		t.Errorf("%+v, %v", projects, err)
	}
	if projects, err = s.Projects(t.Context(), root, 1); err != nil || len(projects) != 1 || projects[0] != want {
		t.Errorf("%+v, %v", projects, err)
	}
	_, err = s.Project(t.Context(), "prj_none")
	wantCode(t, err, schema.NotFound)
	for _, path := range []string{"", "real", "./real", filepath.Join(root, "none"), root + "/a\nb"} {
		_, err := Do(t.Context(), s, permit, RegisterProject{path})
		wantCode(t, err, schema.Invalid)
	}
	_, err = Do(t.Context(), s, Permit{Actor: Actor{HumanActor, ""}}, RegisterProject{real})
	wantCode(t, err, schema.Denied)
}
