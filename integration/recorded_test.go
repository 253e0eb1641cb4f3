package integration

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"warren/ctl/command"
	"warren/ctl/transcript"
	"warren/integration/cluster"
)

// TestRecordedSessions replays sessions of RabbitMQ's tools against a live cluster: each command finds what those before it
// left, as when it was recorded.
func TestRecordedSessions(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sessions: %v", err)
	}
	c := cluster.Start(t, 3)
	for _, file := range files {
		session, err := transcript.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range session {
			replay(t, c, want)
		}
	}
}

// replay runs one command line in this process, as an operator whose environment names the node.
func replay(t *testing.T, c *cluster.Cluster, want transcript.Command) {
	t.Helper()
	got := inProcess(t, c, strings.Replace(want.Node, "rmq", "rabbit", 1)+"@localhost", want.Text, want.Stdin)
	normal := func(text string) string { return transcript.Normal(want.Text, text) }
	out, errOut := normal(got.Stdout), normal(got.Stderr)
	if out != normal(want.Stdout) || errOut != normal(want.Stderr) || got.Code != want.Status {
		t.Errorf("%s:%d: %s\n--- got stdout\n%s--- want stdout\n%s--- got stderr\n%s--- want stderr\n%s--- got exit %d, want %d",
			want.File, want.Line, want.Text, out, normal(want.Stdout), errOut, normal(want.Stderr), got.Code, want.Status)
	}
}

func inProcess(t *testing.T, c *cluster.Cluster, node, line, stdin string) cluster.Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := command.SystemEnv()
	env.Stdin, env.Stdout, env.Stderr = strings.NewReader(stdin), &stdout, &stderr
	env.Getenv = func(key string) string { return map[string]string{"RABBITMQ_NODENAME": node}[key] }
	env.Dial = command.Dialer{Registry: c.Registry()}.Dial
	status := command.Main(t.Context(), transcript.Words(line), env, nil)
	return cluster.Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: status}
}
