package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// block is one block of commands, or of configuration, of docs/operations.md.
type block struct {
	heading string
	lines   []string
}

// operations reads the blocks of docs/operations.md, without comments.
func operations(t *testing.T) (blocks []block) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	heading, in := "", false
	for _, line := range strings.Split(string(doc), "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			if in = !in; in {
				blocks = append(blocks, block{heading: heading})
			}
		case in:
			line, _, _ = strings.Cut(line, " # ")
			last := &blocks[len(blocks)-1]
			last.lines = append(last.lines, strings.TrimSpace(line))
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimLeft(line, "# ")
		}
	}
	return blocks
}

// TestOperationsAreCovered: each block of commands has its place in TestOperationsAsWritten, and each test that the page names is
// there, so that a change of the page is noticed without running it.
func TestOperationsAreCovered(t *testing.T) {
	var headings []string
	for _, b := range operations(t) {
		headings = append(headings, b.heading)
	}
	want := []string{"Operations", "Installing", "TLS for clients", "Forming a cluster", "Forming a cluster", "A witness", "Taking a node out", "Taking a node out",
		"Maintenance and upgrades", "When the majority is lost", "Messages that a copy had to give up", "Backup", "Backup", "Backup"}
	if !slices.Equal(headings, want) {
		t.Errorf("docs/operations.md has blocks below\n%q\nTestOperationsAsWritten runs\n%q", headings, want)
	}
	if n := namedTestsExist(t, "operations.md"); n < 10 {
		t.Errorf("docs/operations.md names %d tests", n)
	}
}
