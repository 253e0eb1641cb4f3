package localcluster

import (
	"context"
	"errors"
	"flag"
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
	"time"

	"warren/dataplane/broker/config"
)

// fakeServer makes this test's binary behave as "warren server": it listens where its configuration says and ends on SIGTERM.
const fakeServer = "WARREN_TEST_FAKE_SERVER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeServer); mode != "" && len(os.Args) > 1 && os.Args[1] == "server" {
		os.Exit(serve(mode, os.Args[2:]))
	}
	os.Exit(m.Run())
}

func serve(mode string, argv []string) int {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	node := flags.String("node", "", "")
	flags.String("data", "", "")
	file := flags.String("config", "", "")
	flags.String("cookie-file", "", "")
	if err := flags.Parse(argv); err != nil {
		return 64
	}
	if mode == "broken" && *node == "rabbit2@localhost" {
		fmt.Fprintln(os.Stderr, "Error: the data directory is damaged")
		return 70
	}
	c, _, err := config.Load(*file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 78
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	for _, address := range []string{c.Listeners[0].Address(), c.Internode.Listen.Address()} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 69
		}
		defer l.Close()
	}
	for {
		<-stop
		if mode != "deaf" {
			return 0
		}
	}
}

// offset finds ports that are free now.
func offset(t *testing.T) int {
	t.Helper()
	for k := 11000 + os.Getpid()%1000*16; k < 39000; k += 16 {
		free := true
		for _, base := range []int{amqpPort, internodePort} {
			for i := range 3 {
				l, err := net.Listen("tcp", loopback(base+k+i))
				if err != nil {
					free = false
					continue
				}
				l.Close()
			}
		}
		if free {
			return k
		}
	}
	t.Fatal("no free ports")
	return 0
}

type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) printf(f string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(f, args...))
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

func newRunner(t *testing.T, mode string) (*Runner, *journal) {
	t.Helper()
	t.Setenv(fakeServer, mode)
	c, err := Create(filepath.Join(t.TempDir(), "cluster"), 3, offset(t))
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := &journal{}
	r := &Runner{
		Cluster: c, Binary: binary, Progress: log.printf, StartLimit: 10 * time.Second, StopLimit: 10 * time.Second,
		Ready: func(ctx context.Context, n Node, _ int) error {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.InternodeAddress())
			if err != nil {
				return err
			}
			return conn.Close()
		},
	}
	t.Cleanup(func() {
		for _, n := range r.Nodes() {
			if p, ok := n.Process(); ok {
				_ = p.Signal(syscall.SIGKILL)
			}
		}
	})
	return r, log
}

func alive(r *Runner) string {
	var up []string
	for _, n := range r.Nodes() {
		if _, ok := n.Process(); ok {
			up = append(up, strconv.Itoa(n.I))
		}
	}
	return strings.Join(up, " ")
}

func TestLifeOfACluster(t *testing.T) {
	r, log := newRunner(t, "good")
	ctx := t.Context()
	if err := r.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if alive(r) != "1 2 3" {
		t.Fatalf("alive: %s\n%s", alive(r), log.text())
	}
	if err := r.Start(ctx); err == nil || !strings.Contains(err.Error(), "run already") {
		t.Errorf("start again: %v", err)
	}
	n2, err := r.Node(2)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.StartNode(ctx, n2); err == nil || !strings.Contains(err.Error(), "runs already") || strings.Contains(err.Error(), "waiting") {
		t.Errorf("start-node again: %v", err)
	}
	if err := r.Kill(ctx, n2); err != nil || alive(r) != "1 3" {
		t.Errorf("kill: %v, alive: %s", err, alive(r))
	}
	if err := r.Kill(ctx, n2); err == nil {
		t.Error("a dead node was killed")
	}
	if err := r.StartNode(ctx, n2); err != nil || alive(r) != "1 2 3" {
		t.Errorf("start-node: %v, alive: %s", err, alive(r))
	}
	if err := r.StopNode(ctx, n2); err != nil || alive(r) != "1 3" {
		t.Errorf("stop-node: %v, alive: %s", err, alive(r))
	}
	if err := r.Start(ctx); err != nil || alive(r) != "1 2 3" {
		t.Errorf("start what is missing: %v, alive: %s", err, alive(r))
	}
	for range 2 { // the second finds nothing to do
		if err := r.Stop(ctx); err != nil || alive(r) != "" {
			t.Errorf("stop: %v, alive: %s", err, alive(r))
		}
	}
	r.WaitAllEnded(ctx)
}

// A process with the number of the pid file, but of another start, is somebody else's.
func TestStalePIDIsNotKilled(t *testing.T) {
	r, _ := newRunner(t, "good")
	n, err := r.Node(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.PIDFile(), fmt.Appendf(nil, "%d\n1\n", os.Getpid()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Kill(t.Context(), n); err == nil {
		t.Error("killed")
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPortInUse(t *testing.T) {
	r, _ := newRunner(t, "good")
	l, err := net.Listen("tcp", loopback(r.Nodes()[1].AMQPPort))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = r.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "(AMQP of rabbit2@localhost) is in use") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	if alive(r) != "" {
		t.Errorf("alive: %s", alive(r))
	}
}

func TestNodeThatDoesNotComeUp(t *testing.T) {
	r, _ := newRunner(t, "broken")
	err := r.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the data directory is damaged") || !strings.Contains(err.Error(), r.Nodes()[1].LogFile()) {
		t.Errorf("got %v", err)
	}
	if alive(r) != "" {
		t.Errorf("left running: %s", alive(r))
	}
}

func TestStartIsBounded(t *testing.T) {
	r, _ := newRunner(t, "good")
	r.StartLimit = 200 * time.Millisecond
	r.Ready = func(context.Context, Node, int) error { return errors.New("it is starting") }
	err := r.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is not up after 200ms: it is starting (log: ") {
		t.Errorf("got %v", err)
	}
	if alive(r) != "" {
		t.Errorf("left running: %s", alive(r))
	}
}

func TestNodeThatWaitsForTheOthersIsLeftRunning(t *testing.T) {
	r, log := newRunner(t, "good")
	r.StartLimit = 200 * time.Millisecond
	asked := 0
	r.Ready = func(ctx context.Context, _ Node, _ int) error {
		if asked++; asked < 4 {
			return errors.New("it is paused")
		}
		<-ctx.Done()
		return errors.New("i/o timeout")
	}
	err := r.StartNode(t.Context(), r.Nodes()[0])
	if err == nil || !strings.Contains(err.Error(), "it is paused") || !strings.Contains(err.Error(), "goes on waiting") {
		t.Errorf("got %v", err)
	}
	if n := strings.Count(log.text(), "is not up yet: it is paused; waiting for 200ms at most"); n != 1 {
		t.Errorf("it is told %d times what is waited for:\n%s", n, log.text())
	}
	if _, ok := r.Nodes()[0].Process(); !ok {
		t.Error("the node was stopped")
	}
}

// A node that waited for the others is up when Start returns, too.
func TestStartAwaitsThoseThatRanBefore(t *testing.T) {
	r, _ := newRunner(t, "good")
	first := r.Nodes()[0]
	if err := r.StartNode(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	asked := 0
	r.Ready = func(_ context.Context, n Node, _ int) error {
		if n.Name == first.Name {
			if asked++; asked < 3 {
				return errors.New("it is paused")
			}
		}
		return nil
	}
	if err := r.Start(t.Context()); err != nil || asked != 3 {
		t.Errorf("%v; the first node was asked %d times", err, asked)
	}
}

func TestNodeThatDoesNotStopIsKilled(t *testing.T) {
	r, log := newRunner(t, "deaf")
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.StopLimit = 100 * time.Millisecond
	if err := r.Stop(t.Context()); err != nil || alive(r) != "" {
		t.Errorf("stop: %v, alive: %s", err, alive(r))
	}
	if !strings.Contains(log.text(), "does not stop within 100ms, killing it") {
		t.Error(log.text())
	}
}

func TestCreateAndOpen(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); !errors.Is(err, ErrNoCluster) {
		t.Errorf("open nothing: %v", err)
	}
	for _, bad := range []Layout{{Nodes: 0}, {Nodes: MaxNodes + 1}, {Nodes: 3, PortOffset: -1}, {Nodes: 3, PortOffset: 40000}} {
		if _, err := Create(dir, bad.Nodes, bad.PortOffset); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	if _, err := Create(dir, 3, 7); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, 5, 7); err == nil || !strings.Contains(err.Error(), "holds a cluster of 3 nodes with port offset 7") {
		t.Errorf("another layout: %v", err)
	}
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := c.Nodes()[2]
	if n.Name != "rabbit3@localhost" || n.AMQPPort != 5681 || n.InternodePort != 25681 {
		t.Errorf("%+v", n)
	}
	if _, err := c.Node(4); err == nil {
		t.Error("node 4 of 3")
	}
	parsed, warnings, err := config.Parse("f", []byte(c.config(n)))
	if err != nil || len(warnings) > 0 || len(parsed.Peers) != 3 || parsed.Peers[0] != (config.Peer{Node: "rabbit1@localhost", Address: "127.0.0.1:25679"}) {
		t.Errorf("%+v, %v, %v", parsed, warnings, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || errors.Is(err, ErrNoCluster) {
		t.Errorf("damaged: %v", err)
	}
}

func TestLastErrors(t *testing.T) {
	for _, tc := range [][2]string{
		{"", ""},
		{"time=1 level=INFO msg=up\nError: only one\n", "Error: only one"},
		{"time=1 level=INFO msg=up\nError: f:1: a\nError: f:2: b\n", "Error: f:1: a\nError: f:2: b"},
		{"Error: f:1: of a start before\ntime=1 level=ERROR msg=gone\n", "time=1 level=ERROR msg=gone"},
	} {
		if got := lastErrors(tc[0]); got != tc[1] {
			t.Errorf("of %q: %q, want %q", tc[0], got, tc[1])
		}
	}
}
