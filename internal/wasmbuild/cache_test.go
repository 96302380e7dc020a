package wasmbuild

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// What is kept is the newest, however much there is, wherever below the directory.
func TestTrim(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := func(age int) string { return filepath.Join(dir, []string{"", "below"}[age%2], fmt.Sprint("age", age)) }
	for age := range 10 {
		if err := os.WriteFile(path(age), make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-time.Duration(age) * time.Hour)
		if err := os.Chtimes(path(age), then, then); err != nil {
			t.Fatal(err)
		}
	}
	for _, most := range []int64{1000, 999, 500, 0} {
		if err := trim(dir, most); err != nil {
			t.Fatal(err)
		}
		for age := range 10 {
			if _, err := os.Stat(path(age)); (err == nil) != (int64(age+1)*100 <= most) {
				t.Errorf("of at most %d bytes, the file of age %d: %v", most, age, err)
			}
		}
	}
	if err := trim(filepath.Join(dir, "nowhere"), 0); err != nil {
		t.Error(err)
	}
}

// Whoever comes while a module is compiled has its code when it goes on, and a module that does not compile is not
// taken for one that did.
func TestCompileInto(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := compileInto(dir, []byte("\x00asm\x01\x00\x00\x00")); err != nil {
				t.Error(err)
			}
			code, err := filepath.Glob(filepath.Join(dir, "wazero-*", "*"))
			if err != nil || len(code) != 1 {
				t.Errorf("the code is in %q, %v", code, err)
			}
		})
	}
	wg.Wait()
	for range 2 {
		if err := compileInto(dir, []byte("\x00asm\x02\x00\x00\x00")); err == nil {
			t.Error("what does not compile is said to be compiled")
		}
	}
}
