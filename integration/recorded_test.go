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
	node := strings.Replace(want.Node, "rmq", "rabbit", 1) + "@localhost"
	var stdout, stderr bytes.Buffer
	env := command.SystemEnv()
	env.Stdin, env.Stdout, env.Stderr = strings.NewReader(want.Stdin), &stdout, &stderr
	env.Getenv = func(key string) string { return map[string]string{"RABBITMQ_NODENAME": node}[key] }
	env.Dial = command.Dialer{Registry: c.Registry()}.Dial
	status := command.Main(t.Context(), transcript.Words(want.Text), env, nil)
	normal := func(text string) string { return transcript.Normal(want.Text, text) }
	out, errOut := normal(stdout.String()), normal(stderr.String())
	if out != normal(want.Stdout) || errOut != normal(want.Stderr) || status != want.Status {
		t.Errorf("%s:%d: %s\n--- got stdout\n%s--- want stdout\n%s--- got stderr\n%s--- want stderr\n%s--- got exit %d, want %d",
			want.File, want.Line, want.Text, out, normal(want.Stdout), errOut, normal(want.Stderr), status, want.Status)
	}
}
