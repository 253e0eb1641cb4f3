package command

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"warren/ctl/admin"
	"warren/dataplane/link"
)

// nodeProcess makes this test's binary run as "warren server" with a node behind it that has listeners, but no broker.
const nodeProcess = "WARREN_TEST_NODE_PROCESS"

func runNodeProcess() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return Main(ctx, append([]string{"warren"}, os.Args[1:]...), SystemEnv(), func(ctx context.Context, cfg ServerConfig) error {
		clients, err := net.Listen("tcp", cfg.Config.Listeners[0].Address())
		if err != nil {
			return err
		}
		defer clients.Close()
		transport, err := link.New(link.Config{
			Addr: cfg.Config.Internode.Listen.Address(), Node: cfg.Node, Cookie: cfg.Cookie, Hello: func() link.Hello { return link.Hello{} },
		})
		if err != nil {
			return err
		}
		node := &fakeNode{status: admin.NodeStatus{Name: cfg.Node, Running: true, State: "running"}}
		node.users = []admin.UserInfo{{Name: "the-user-of-" + cfg.Node}}
		for _, p := range cfg.Config.Peers {
			node.cluster.Nodes = append(node.cluster.Nodes, admin.NodeInfo{Name: p.Node, Status: "running"})
		}
		transport.Handle(link.ProtoAdmin, func(conn net.Conn) { _ = admin.Serve(ctx, conn, node) })
		transport.Start()
		<-ctx.Done()
		return transport.Close()
	})
}

// syncBuffer is standard output of a command that runs beside the test.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func freeOffset(t *testing.T) string {
	t.Helper()
	for k := 12000 + os.Getpid()%1000*16; k < 39000; k += 16 {
		free := true
		for i := range 6 {
			port := []int{5672, 25672}[i%2] + k + i/2
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				free = false
				continue
			}
			l.Close()
		}
		if free {
			return strconv.Itoa(k)
		}
	}
	t.Fatal("no free ports")
	return ""
}

// runReal runs a command line in the real environment.
func runReal(t *testing.T, ctx context.Context, out *syncBuffer, argv ...string) int {
	t.Helper()
	env := SystemEnv()
	env.Stdout, env.Stderr = out, out
	return Main(ctx, argv, env, nil)
}

// TestClusterOfProcesses goes through the local cluster's commands with real processes, and finds the nodes by their names.
func TestClusterOfProcesses(t *testing.T) {
	t.Setenv(nodeProcess, "1")
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	dir, offset := filepath.Join(t.TempDir(), "c"), freeOffset(t)
	t.Cleanup(func() {
		runReal(t, context.WithoutCancel(t.Context()), &syncBuffer{}, "warren", "cluster", "stop", "--dir", dir)
	})
	step := func(status int, want, line string) {
		t.Helper()
		out := &syncBuffer{}
		argv := strings.Fields(strings.ReplaceAll(line, "DIR", dir))
		if got := runReal(t, t.Context(), out, argv...); got != status || !strings.Contains(out.String(), want) {
			t.Fatalf("%s: exit %d, want %d and %q; output\n%s", line, got, status, want, out)
		}
	}
	step(exitOK, "rabbit3@localhost is up", "warren cluster start --dir DIR --port-offset "+offset+" --nodes 3 --detach")
	step(exitSoftware, "all 3 nodes in "+dir+" run already", "warren cluster start --dir DIR")
	for i := 1; i <= 3; i++ {
		name := fmt.Sprintf("rabbit%d@localhost", i)
		step(exitOK, "the-user-of-"+name, "rabbitmqctl -n "+name+" -s list_users")
	}
	step(exitOK, "", "warren cluster kill 2 --dir DIR")
	step(exitUnavailable, "node rabbit2@localhost is not registered as running on this machine (other nodes of this user: [rabbit1@localhost,rabbit3@localhost])",
		"rabbitmqctl -n rabbit2@localhost list_users")
	step(exitUnavailable, "; -n rabbit1@localhost is the one of that name", "rabbitmqctl -n rabbit1@nohost.invalid list_users")
	step(exitOK, "rabbit2@localhost  stopped", "warren cluster status --dir DIR")
	step(exitUsage, "there is no node 4", "warren cluster kill 4 --dir DIR")
	step(exitUsage, "is no number", "warren cluster kill two --dir DIR")
	step(exitSoftware, "it does not run", "warren cluster kill 2 --dir DIR")
	step(exitOK, "rabbit2@localhost is up", "warren cluster start-node 2 --dir DIR")
	step(exitOK, "Ping succeeded", "rabbitmqctl -n rabbit2@localhost ping")
	step(exitOK, "rabbit2@localhost stopped", "warren cluster stop-node 2 --dir DIR")
	step(exitOK, "rabbit2@localhost does not run", "warren cluster stop-node 2 --dir DIR")
	step(exitOK, "rabbit3@localhost stopped", "warren cluster stop --dir DIR")
	step(exitOK, "", "warren cluster stop --dir DIR")
}

// In the foreground the end of the context (Ctrl-C) stops all nodes.
func TestClusterInTheForeground(t *testing.T) {
	t.Setenv(nodeProcess, "1")
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	dir, offset := filepath.Join(t.TempDir(), "c"), freeOffset(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &syncBuffer{}
	seen := &untilSeen{syncBuffer: out, text: "Ctrl-C stops all nodes.", then: cancel}
	env := SystemEnv()
	env.Stdout, env.Stderr = seen, seen
	status := Main(ctx, []string{"warren", "cluster", "start", "--nodes", "2", "--dir", dir, "--port-offset", offset}, env, nil)
	text := out.String()
	for _, want := range []string{"amqp://guest:guest@127.0.0.1:", "rabbit1@localhost stopped", "rabbit2@localhost stopped", "-n rabbit2@localhost cluster_status"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if status != exitOK {
		t.Errorf("exit %d\n%s", status, text)
	}
}

// untilSeen calls then when text has been written.
type untilSeen struct {
	*syncBuffer
	text string
	then func()
}

func (u *untilSeen) Write(p []byte) (int, error) {
	n, err := u.syncBuffer.Write(p)
	if strings.Contains(u.String(), u.text) {
		u.then()
	}
	return n, err
}
