package integration

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/ctl/transcript"
	"warren/integration/cluster"
)

// The comparison with a live RabbitMQ cluster. It is not part of the other tests: `make compare-ctl WARREN_PEERS=DIR` runs it, where
// the script SCRIPT is DIR/rabbitmq-cluster: SCRIPT start 3 starts three nodes rmq1@localhost, … in $DIR at $BASE_PORT+1, …, SCRIPT ctl|queues|diagnostics|upgrade 1 ARGS runs a
// tool against the first of them, and SCRIPT wipe ends all.

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

// compared is one command line of testdata/compare.txt. known is why the two differ on purpose, if they do.
type compared struct {
	at          int
	text, stdin string
	known       string
}

// readCompared reads the command lines: "# …" is commentary, "! REASON" before a line says that it differs on purpose, and
// printf 'TEXT' | COMMAND feeds it.
func readCompared(t *testing.T, name string) (all []compared) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	known := ""
	for i, line := range strings.Split(string(content), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "! "):
			known = line[2:]
		default:
			c := compared{at: i + 1, text: line, known: known}
			if fed, ok := strings.CutPrefix(line, "printf '"); ok {
				c.stdin, c.text, _ = strings.Cut(fed, "' | ")
				c.stdin = strings.ReplaceAll(c.stdin, `\n`, "\n")
			}
			all, known = append(all, c), ""
		}
	}
	return all
}

// cut ends texts whose rest is each product's own: the diagnostics of a node that cannot be reached, the list of commands.
var cut = regexp.MustCompile(`(?s)(Most common reasons for this are:|Available commands:).*`)

// elsewhere are the processes of mirrors: which nodes have them, and in what order, each cluster chooses.
var elsewhere = regexp.MustCompile(`<rabbit[23]@localhost\.PID>`)

// normalFor takes out of what a line printed what may differ (transcript.Normal, cut, elsewhere).
func normalFor(line compared) func(text string) string {
	return func(text string) string {
		text = transcript.Normal(line.text, cut.ReplaceAllString(text, "$1"))
		return elsewhere.ReplaceAllString(text, "<MIRROR>")
	}
}

var golden = flag.Bool("golden", false, "write testdata/compare.golden anew")

// TestComparedCommands runs the command lines of the comparison against a Warren cluster alone: they print what is in the golden
// file. The comparison with RabbitMQ shows that this is right.
func TestComparedCommands(t *testing.T) {
	const file = "testdata/compare.golden"
	c := cluster.Start(t, 3)
	makeSame(t, c.URI(1))
	want := ""
	if !*golden {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want = string(b)
	}
	wantParts := strings.SplitAfter(want, "\n\n$ ")
	lines := readCompared(t, "testdata/compare.txt")
	if !*golden && len(lines) != len(wantParts) {
		t.Fatalf("%d command lines, %d in %s", len(lines), len(wantParts), file)
	}
	var got strings.Builder
	for i, line := range lines {
		part := printed(t, c, line)
		if !*golden {
			wanted := strings.TrimPrefix(strings.TrimSuffix(wantParts[i], "$ "), "$ ")
			part = settled(t, c, line, part, wanted)
			if part != wanted {
				t.Errorf("got\n$ %s\nwant\n$ %s", part, wanted)
			}
		}
		got.WriteString("$ " + part)
	}
	if *golden {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// printed is what a command line printed, as the golden file has it.
func printed(t *testing.T, c *cluster.Cluster, line compared) string {
	t.Helper()
	r, normal := inProcess(t, c, "rabbit1@localhost", line.text, line.stdin), normalFor(line)
	s := fmt.Sprintf("%s\n%s", line.text, strings.ReplaceAll(normal(r.Stdout), "\x1b", "<ESC>"))
	if r.Stderr != "" {
		s += fmt.Sprintf("--- stderr\n%s", strings.ReplaceAll(normal(r.Stderr), "\x1b", "<ESC>"))
	}
	return s + fmt.Sprintf("--- exit %d\n\n", r.Code)
}

// settled runs a listing of queues again until it is as wanted, for a while: mirrors come and go some time after the policy that
// asks for it.
func settled(t *testing.T, c *cluster.Cluster, line compared, got, want string) string {
	t.Helper()
	if !strings.Contains(line.text, " list_queues ") {
		return got
	}
	enough, tick := time.After(hang), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for got != want {
		select {
		case <-enough:
			return got
		case <-tick.C:
			got = printed(t, c, line)
		}
	}
	return got
}

func TestCompareWithRabbitMQ(t *testing.T) {
	if os.Getenv("WARREN_COMPARE") == "" {
		t.Skip("needs the script of a RabbitMQ cluster: make compare-ctl WARREN_PEERS=DIR")
	}
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

// makeSame declares the same objects in both clusters.
func makeSame(t *testing.T, uri string) {
	t.Helper()
	conn, err := amqp.Dial(uri)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		name     string
		durable  bool
		args     amqp.Table
		messages int
	}{
		{"plain", true, nil, 5}, {"plain.transient", false, nil, 0}, {"ha-all.orders", true, nil, 3},
		{"ha-two.jobs", true, amqp.Table{"x-max-priority": int32(5), "x-message-ttl": int32(3600000)}, 0},
		{"name with space", true, nil, 0}, {"héllo-☃", true, nil, 0},
	} {
		if _, err := ch.QueueDeclare(q.name, q.durable, false, false, false, q.args); err != nil {
			t.Fatal(err)
		}
		for range q.messages {
			d, err := ch.PublishWithDeferredConfirm("", q.name, false, false, amqp.Publishing{Body: []byte("x"), DeliveryMode: 2})
			if err != nil || !d.Wait() {
				t.Fatalf("publish to %s: %v", q.name, err)
			}
		}
	}
	for name, kind := range map[string]string{"x.topic": "topic", "x.fan": "fanout", "x.hdr": "headers"} {
		var args amqp.Table
		if name == "x.hdr" {
			args = amqp.Table{"alternate-exchange": "x.topic"}
		}
		if err := ch.ExchangeDeclare(name, kind, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range [][3]string{{"ha-all.orders", "order.*.new", "x.topic"}, {"plain", "", "x.fan"}} {
		if err := ch.QueueBind(b[0], b[1], b[2], false, nil); err != nil {
			t.Fatal(err)
		}
	}
}
