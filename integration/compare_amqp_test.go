package integration

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const compatibility = "../docs/compatibility.md"

// normalRules are all differences that are not looked at.
var normalRules = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	// Names and tags that servers make up.
	{regexp.MustCompile(`amq\.gen-[\w-]{22}`), "amq.gen-NAME"},
	{regexp.MustCompile(`amq\.ctag-[\w-]{22}`), "amq.ctag-TAG"},
	{regexp.MustCompile(`amq\.rabbitmq\.reply-to\.[\w+/=.-]+`), "amq.rabbitmq.reply-to.NAME"},
	// Ports and addresses of the two clusters, their nodes' names, Erlang's process numbers.
	{regexp.MustCompile(`\b(127\.0\.0\.1|localhost|::1)((?::| port |', |", )"?)\d{4,5}\b`), "$1${2}PORT"},
	{regexp.MustCompile(`\brmq(\d)@localhost`), "rabbit$1@localhost"},
	{regexp.MustCompile(`<\d+\.\d+\.\d+>`), "<PID>"},
	// The product: its name, version, platform and texts about itself.
	{regexp.MustCompile(`"(product|version|platform|copyright|information|cluster_name)": ?"[^"]*"`), `"$1": "…"`},
}

// normal is a transcript without what may differ.
func normal(text string) string {
	for _, r := range normalRules {
		text = r.pattern.ReplaceAllString(text, r.replacement)
	}
	return text
}

// said is what a client saw in one scenario.
type said struct{ name, text string }

func parseTranscript(text string) (all []said, err error) {
	inside := false
	for line := range strings.Lines(text) {
		head, isHead := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "== ")
		switch {
		case isHead && head == "end" && inside:
			inside = false
		case isHead && !inside && head != "end":
			all, inside = append(all, said{name: head}), true
		case inside && !isHead:
			all[len(all)-1].text += normal(line)
		default:
			return nil, fmt.Errorf("transcript has %q where a scenario begins or goes on", line)
		}
	}
	if inside {
		return nil, fmt.Errorf("transcript ends within scenario %s", all[len(all)-1].name)
	}
	return all, nil
}

// readKnown reads the differences on purpose: the rows | client | scenario | what | why | of the table in docs/compatibility.md.
func readKnown(text string) map[[2]string]string {
	known := map[[2]string]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 4 || !strings.HasPrefix(line, "| `") {
			continue
		}
		name := func(i int) string { return strings.Trim(strings.TrimSpace(cells[i]), "`") }
		known[[2]string{name(0), name(1)}] = strings.TrimSpace(cells[3])
	}
	return known
}

// TestCompareReadsItsFiles: what the comparison reads is read as it is meant.
func TestCompareReadsItsFiles(t *testing.T) {
	all, err := parseTranscript("== a\nx amq.gen-abcdefghijklmnopqrstuv 127.0.0.1:25673\n== end\n== b\n== end\n")
	if err != nil || !slices.Equal(all, []said{{"a", "x amq.gen-NAME 127.0.0.1:PORT\n"}, {"b", ""}}) {
		t.Errorf("transcript is read as %q, %v", all, err)
	}
	for _, bad := range []string{"x\n", "== a\n", "== a\n== b\n== end\n", "== end\n"} {
		if all, err := parseTranscript(bad); err == nil {
			t.Errorf("transcript %q is read as %q", bad, all)
		}
	}
	known := readKnown("| client | scenario | what differs | why |\n| --- | --- | --- | --- |\n| `c` | `s.t` | x | y |\n")
	if len(known) != 1 || known[[2]string{"c", "s.t"}] != "y" {
		t.Errorf("table is read as %v", known)
	}
	doc, err := os.ReadFile(compatibility)
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Count(string(doc), "\n| `")
	if known := readKnown(string(doc)); len(known) != rows {
		t.Errorf("docs/compatibility.md has %d rows, of which %d are read", rows, len(known))
	}
}
