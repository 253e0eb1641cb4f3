package integration

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedTestsExist checks that each test that a page names is there, so that a renamed one is noticed; it returns how many are named.
func namedTestsExist(t *testing.T, page string) int {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(b, -1) {
			exists[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(doc, -1)
	for _, m := range named {
		if !exists[string(m[1])] {
			t.Errorf("docs/%s names %s, which is no test", page, m[1])
		}
	}
	return len(named)
}

// TestFieldReportsNameTests: each test that docs/field-reports.md names exists, and each report has one.
func TestFieldReportsNameTests(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "field-reports.md"))
	if err != nil {
		t.Fatal(err)
	}
	if named := namedTestsExist(t, "field-reports.md"); named < 50 || bytes.Count(doc, []byte("\n| B")) < 47 {
		t.Errorf("docs/field-reports.md has %d lines and names %d tests", bytes.Count(doc, []byte("\n| B")), named)
	}
}

// TestCornersNameTests: docs/corners.md has all of them, and each has a test or says why there is none.
func TestCornersNameTests(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "corners.md"))
	if err != nil {
		t.Fatal(err)
	}
	if named := namedTestsExist(t, "corners.md"); named < 25 {
		t.Errorf("docs/corners.md names %d tests", named)
	}
	for n := 1; n <= 25; n++ {
		if !bytes.Contains(doc, fmt.Appendf(nil, "\n| %d | ", n)) {
			t.Errorf("docs/corners.md has no corner %d", n)
		}
	}
}
