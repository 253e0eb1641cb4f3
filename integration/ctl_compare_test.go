//go:build compare

package integration

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"warren/ctl/transcript"
	"warren/integration/cluster"
)

// The comparison with a live RabbitMQ cluster: `make compare-ctl WARREN_PEERS=DIR` runs it. The script SCRIPT is DIR/rabbitmq-cluster:
// SCRIPT start 3 starts three nodes rmq1@localhost, … in $DIR at $BASE_PORT+1, …, SCRIPT ctl|queues|diagnostics|upgrade 1 ARGS runs a tool
// against the first of them, and SCRIPT wipe ends all.

// peerPort is the port of RabbitMQ's node i less i; PEER_PORT= moves it and epmd's (99 above), so that two comparisons can run at once.
var peerPort = cmp.Or(os.Getenv("PEER_PORT"), "24500")

// peer is the RabbitMQ cluster.
type peer struct {
	script string
	dir    string
}

func startPeer(t *testing.T, script string) *peer {
	t.Helper()
	p := &peer{script, t.TempDir()}
	t.Cleanup(func() { _, _ = p.command(context.Background(), "", "wipe").CombinedOutput() })
	if out, err := p.command(t.Context(), "", "start", "3").CombinedOutput(); err != nil {
		t.Fatalf("start RabbitMQ: %v\n%s", err, out)
	}
	return p
}

func (p *peer) command(ctx context.Context, stdin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.script, args...)
	cmd.Env = append(os.Environ(), "DIR="+p.dir, "BASE_PORT="+peerPort, "ERL_EPMD_PORT="+strings.TrimSuffix(peerPort, "00")+"99")
	cmd.Stdin, cmd.WaitDelay = strings.NewReader(stdin), time.Second
	return cmd
}

// run runs a command line of one of the tools.
func (p *peer) run(t *testing.T, line compared) cluster.Result {
	t.Helper()
	words := transcript.Words(line.text)
	verb := map[string]string{
		"rabbitmqctl": "ctl", "rabbitmq-queues": "queues", "rabbitmq-diagnostics": "diagnostics", "rabbitmq-upgrade": "upgrade",
	}[words[0]]
	cmd := p.command(t.Context(), line.stdin, append([]string{verb, "1"}, words[1:]...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s: %v", line.text, err)
	}
	return cluster.Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
}

func TestCompareWithRabbitMQ(t *testing.T) {
	script := filepath.Join(os.Getenv("WARREN_PEERS"), "rabbitmq-cluster")
	lines := readCompared(t, "testdata/compare.txt")
	if len(lines) < 120 {
		t.Errorf("%d command lines, fewer than 120", len(lines))
	}
	if from, err := strconv.Atoi(os.Getenv("FROM")); err == nil { // only what is below that line of the file
		lines = slices.DeleteFunc(lines, func(l compared) bool { return l.at < from })
	}
	p, c := startPeer(t, script), cluster.Start(t, 3)
	makeSame(t, "amqp://guest:guest@127.0.0.1:"+strings.TrimSuffix(peerPort, "0")+"1/")
	makeSame(t, c.URI(1))
	differences := 0
	for _, line := range lines {
		words := transcript.Words(line.text)
		want, got := p.run(t, line), c.Session(words[0], 1, line.stdin, words[1:]...)
		normal := normalFor(line)
		same := normal(want.Stdout) == normal(got.Stdout) && normal(want.Stderr) == normal(got.Stderr) && want.Code == got.Code
		switch {
		case same && line.known != "":
			t.Errorf("testdata/compare.txt:%d: %s: no difference any more (%s)", line.at, line.text, line.known)
		case !same && line.known == "":
			differences++
			t.Errorf("testdata/compare.txt:%d: %s\n--- Warren, exit %d\n%s%s--- RabbitMQ, exit %d\n%s%s", line.at, line.text,
				got.Code, normal(got.Stdout), normal(got.Stderr), want.Code, normal(want.Stdout), normal(want.Stderr))
		}
	}
	t.Logf("%d command lines, %d on purpose different, %d differences", len(lines),
		len(slices.DeleteFunc(slices.Clone(lines), func(l compared) bool { return l.known == "" })), differences)
}
