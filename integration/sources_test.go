package integration

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// made are what .gitignore leaves out.
var made = regexp.MustCompile(`^(bin|\.warren|coverage)(/|$)|\.(test|prof)$|(^|/)erl_crash\.dump$`)

// sources are the files of this tree, relative to it: those under version control, or all where it was unpacked without.
func sources(t *testing.T) (names []string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("..", ".git")); errors.Is(err, fs.ErrNotExist) {
		return unpacked(t, "..")
	}
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = ".."
	out, err := list.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("the list of sources comes from git ls-files, which says: %v: %s", err, exit.Stderr)
	} else if err != nil {
		t.Fatalf("the list of sources comes from git, which must be installed: %v", err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// unpacked are all files below root that were not made from others.
func unpacked(t *testing.T, root string) (names []string) {
	t.Helper()
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case made.MatchString(path) && d.IsDir():
			return fs.SkipDir
		case !d.IsDir() && !made.MatchString(path):
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("list the sources: %v", err)
	}
	return names
}

// TestUnpackedSources: without version control the list is the same, but for what is not committed yet.
func TestUnpackedSources(t *testing.T) {
	all := unpacked(t, "..")
	for _, name := range sources(t) {
		if _, err := os.Stat(filepath.Join("..", name)); err == nil && !slices.Contains(all, name) {
			t.Errorf("%s is missing where there is no version control", name)
		}
	}
	for _, name := range []string{"bin/warren", ".warren/x/y", "a/b.test", "erl_crash.dump"} {
		if !made.MatchString(name) {
			t.Errorf("%s counts as a source", name)
		}
	}
}

// apart are the build tags of tests that `make test` leaves out; `make lint` reads them with these tags.
var apart = []string{"soak", "compare", "upgrade"}

// TestNothingIsSkipped: a skipped test proves nothing. What make test leaves out has a build tag, and its file's name says which, so that
// make finds it.
func TestNothingIsSkipped(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nTAGS = " + strings.Join(apart, ",") + "\n"; !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile has no line %q", want)
	}
	skip := regexp.MustCompile(`\b(t|tb|b|f)\.Skip(f|Now)?\(`)
	tag := regexp.MustCompile(`(?m)^//go:build (.*)$`)
	test := regexp.MustCompile(`(?m)^func Test[^a-z]\w*\(`)
	tagged := map[string]int{}
	goFiles(t, func(path string, src []byte) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		if s := skip.Find(src); s != nil {
			t.Errorf("%s skips a test: %s", path, s)
		}
		named := ""
		for _, a := range apart {
			if strings.HasSuffix(path, "_"+a+"_test.go") {
				named = a
			}
		}
		has := ""
		if m := tag.FindSubmatch(src); m != nil {
			has = string(m[1])
		}
		if tests := len(test.FindAll(src, -1)); has != named && (named != "" || tests > 0) {
			t.Errorf("%s has the build tag %q and %d tests", path, has, tests)
		} else {
			tagged[named] += tests
		}
	})
	for _, a := range apart {
		if tagged[a] == 0 {
			t.Errorf("no test has the build tag %s", a)
		}
	}
}
