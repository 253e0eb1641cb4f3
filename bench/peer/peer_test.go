package peer

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseQueue(t *testing.T) {
	// As rabbitmqctl 3.10 prints it, and as Warren does.
	out := []byte("bench.quorum\t<rmq1@localhost.1669748123.612.0>\t\t\trmq2@localhost\t[rmq1@localhost, rmq2@localhost, rmq3@localhost]\t7\trunning\n" +
		"bench.mirrored\t<rmq1@localhost.1669748123.61.0>\t[<rmq3@localhost.166.4.0>, <rmq2@localhost.166.5.0>]\t[<rmq2@localhost.166.5.0>]\t\t\t12\trunning\n" +
		"bench.a\t<a.b@host.example.1669748123.61.0>\t\t\t\t\t0\trunning\n" +
		"bench.down\t\t[]\t[]\t\t\t\tdown\n")
	for name, want := range map[string]Queue{
		"bench.quorum": {
			Master: "rmq2@localhost", Mirrors: []string{"rmq1@localhost", "rmq3@localhost"}, Synced: []string{"rmq1@localhost", "rmq3@localhost"},
			Messages: 7, State: "running",
		},
		"bench.mirrored": {
			Master: "rmq1@localhost", Mirrors: []string{"rmq3@localhost", "rmq2@localhost"}, Synced: []string{"rmq2@localhost"},
			Messages: 12, State: "running",
		},
		"bench.a":    {Master: "a.b@host.example", State: "running"},
		"bench.down": {State: "down"},
	} {
		got, err := parseQueue(out, name)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	if _, err := parseQueue(out, "bench"); !errors.Is(err, ErrNoQueue) {
		t.Errorf("a queue that is not listed: %v", err)
	}
	if _, err := parseQueue([]byte("q\t1\n"), "q"); err == nil {
		t.Error("a line with too few columns passes")
	}
}

func TestParseSync(t *testing.T) {
	for _, out := range []string{"[\"ok\",32,\"1700000000000001\",32,\"1700000002000001\"]\n", "ok 1700000000000001 1700000002000001\n"} {
		began, ended, err := parseSync(out)
		if err != nil || ended.Sub(began) != 2*time.Second || began.UnixMicro() != 1700000000000001 {
			t.Errorf("%q: %v %v %v", out, began, ended, err)
		}
	}
	if _, _, err := parseSync("{badmatch}"); err == nil {
		t.Error("a failure passes")
	}
}

func TestNamed(t *testing.T) {
	if _, err := Named("x", nil, nil, nil); err == nil {
		t.Error("a cluster without URIs")
	}
	if _, err := Named("x", []string{"amqp://a", "amqp://b"}, nil, []int{1}); err == nil {
		t.Error("two nodes and one process")
	}
	c, err := Named("x", []string{"amqp://a"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Queue(t.Context(), "q"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without a command: %v", err)
	}
	if _, err := c.Kill(t.Context(), 0); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without a process: %v", err)
	}
}

// TestKillIsSIGKILL: what is killed is that very process.
func TestKillIsSIGKILL(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c, err := Named("x", []string{"amqp://a"}, nil, []int{cmd.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kill(context.Background(), 0); err != nil {
		t.Error(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Success() {
		t.Errorf("it ended with %v", err)
	}
}

// script is a peer script that answers as the real one.
const script = `#!/bin/sh
case "$1" in
status) for i in 1 2; do echo "rmq$i@localhost pid=$$ amqp=127.0.0.1:$((BASE_PORT + i)) management=x"; done ;;
ctl) shift 2; case "$1" in
  version) echo 3.10.8 ;;
  eval) echo "ok 1700000000000000 1700000003000000" ;;
  *) echo "$@" >&2; exit 64 ;;
  esac ;;
*) exit 1 ;;
esac
`

func TestRabbitMQ(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rabbitmq-cluster")
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := RabbitMQ(t.Context(), file, t.TempDir(), 2, 3000)
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Nodes(); len(n) != 2 || n[1] != (Node{"rmq2@localhost", "amqp://guest:guest@127.0.0.1:3002"}) || c.Version() != "3.10.8" {
		t.Errorf("nodes %v, version %q", n, c.Version())
	}
	if began, ended, err := c.Sync(t.Context(), "q"); err != nil || ended.Sub(began) != 3*time.Second {
		t.Errorf("%v %v %v", began, ended, err)
	}
	if err := c.SetPolicy(t.Context(), "n", "p", "{}"); err == nil || !strings.Contains(err.Error(), "set_policy --apply-to queues n p {}") {
		t.Errorf("a command that fails: %v", err)
	}
	if err := c.Shutdown(t.Context()); err != nil {
		t.Errorf("a cluster that ran before is not stopped: %v", err)
	}
}
