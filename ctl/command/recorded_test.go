package command

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(nodeProcess) != "" && len(os.Args) > 1 && os.Args[1] == "server" {
		os.Exit(runNodeProcess())
	}
	goleak.VerifyTestMain(m)
}

// recorded is one command of a transcript of the real tools.
type recorded struct {
	line           int
	node, command  string
	stdout, stderr string
	status         int
}

// readTranscript reads testdata/recorded/*.txt: sessions of RabbitMQ 3.10's tools.
func readTranscript(t *testing.T, file string) []recorded {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []recorded
	var r *recorded
	var into *string
	for i, line := range strings.Split(string(content), "\n") {
		switch {
		case strings.HasPrefix(line, "$ ["):
			node, command, _ := strings.Cut(strings.TrimPrefix(line, "$ ["), "] ")
			all = append(all, recorded{line: i + 1, node: node + "@localhost", command: command})
			r, into = &all[len(all)-1], nil
		case r == nil:
		case line == "--- stdout":
			into = &r.stdout
		case line == "--- stderr":
			into = &r.stderr
		case strings.HasPrefix(line, "--- exit "):
			status, _, _ := strings.Cut(strings.TrimPrefix(line, "--- exit "), " ")
			if r.status, err = strconv.Atoi(status); err != nil {
				t.Fatal(err)
			}
			r, into = nil, nil
		case strings.HasPrefix(line, "--- "):
			into = nil
		case into != nil:
			*into += strings.ReplaceAll(line, "<ESC>", "\x1b") + "\n"
		}
	}
	return all
}

// incidental are the differences that are not looked at, and why.
func incidental(text string) string {
	for _, rule := range []struct{ pattern, replacement string }{
		{`#PID<\d+\.`, "#PID<N."}, // a number local to the runtime of RabbitMQ's tool; ours is the creation
		{`<\d+\.(\d+\.\d+)>`, "<N.$1>"},
		{`(RabbitMQ|Warren) 3\.10\.8( on Erlang [\d.]+)?`, "BROKER"},
		{`\{"erlang_version":"[\d.]+","rabbitmq_name":"\w+",`, `{"rabbitmq_name":"X",`},
	} {
		text = regexp.MustCompile(rule.pattern).ReplaceAllString(text, rule.replacement)
	}
	return text
}

// inOrder sorts the rows of a list, whose order in RabbitMQ is that of a hash table; banners stay in front.
func inOrder(command, text string) string {
	if !strings.Contains(command, "list_") {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	front := 0
	for front < len(lines) && (strings.HasPrefix(lines[front], "Timeout:") || strings.HasPrefix(lines[front], "Listing ")) {
		front++
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, ",")
	}
	slices.Sort(lines[front:])
	return strings.Join(lines, "")
}

// TestRecorded runs the recorded commands against a node in the same state and compares output and exit status.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := &session{t: t, node: recordedState(filepath.Base(file))}
			for _, want := range readTranscript(t, file) {
				s.nodeName = want.node
				got := s.run(words(want.command)...)
				if inOrder(want.command, incidental(got.stdout)) != inOrder(want.command, incidental(want.stdout)) || incidental(got.stderr) != incidental(want.stderr) || got.status != want.status {
					t.Errorf("%s:%d: %s\n--- got stdout\n%s--- want stdout\n%s--- got stderr\n%s--- want stderr\n%s--- got exit %d, want %d",
						file, want.line, want.command, got.stdout, want.stdout, got.stderr, want.stderr, got.status, want.status)
				}
			}
		})
	}
}
