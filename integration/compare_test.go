package integration

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/ctl/transcript"
	"warren/integration/cluster"
)

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

// makeSame declares the same objects in both clusters.
func makeSame(t *testing.T, uri string) {
	t.Helper()
	conn := dial(t, uri)
	defer conn.Close()
	ch := channelOf(t, conn)
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
