package integration

import (
	"os"
	"strings"
	"testing"

	"warren/integration/cluster"
)

// session reads a section's commands from the README, each with the output that it shows ("": not shown).
func session(t *testing.T, heading string) (commands, outputs []string) {
	t.Helper()
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(b), "\n"+heading+"\n")
	_, text, block := strings.Cut(text, "```\n")
	text, _, closed := strings.Cut(text, "```")
	if !found || !block || !closed {
		t.Fatalf("README.md has no session below %q", heading)
	}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			command, _, _ = strings.Cut(command, "  #")
			commands, outputs = append(commands, strings.TrimSpace(command)), append(outputs, "")
			continue
		}
		outputs[len(outputs)-1] += line + "\n"
	}
	return commands, outputs
}

// TestFirstSessionOfTheReadme runs what the README tells a newcomer to type, on a cluster at other ports.
func TestFirstSessionOfTheReadme(t *testing.T) {
	c := cluster.Start(t, 3)
	commands, outputs := session(t, "## A first session")
	if len(commands) < 8 {
		t.Fatalf("the session has only %d commands: %q", len(commands), commands)
	}
	for i, command := range commands {
		switch {
		case strings.Contains(command, " client ") && !strings.Contains(command, "--uri"):
			command += " --uri " + c.URI(1)
		case strings.Contains(command, "warren cluster "):
			command += " --dir " + c.Dir
		}
		command = strings.ReplaceAll(command, "amqp://guest:guest@127.0.0.1:5673/", c.URI(2))
		if strings.Contains(command, "slave_pids synchronised") {
			mirrorsListed(t, c, 2, "orders", 2)
		}
		out, err := c.Shell(command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		if outputs[i] != "" && string(out) != outputs[i] {
			t.Errorf("%s printed\n%s, the README says\n%s", command, out, outputs[i])
		}
	}
}
