// Package cluster starts and steers local clusters of real Warren processes for tests.
//
// It uses nothing but what an operator has: bin/warren's `cluster` command and the tools of the `rabbitmqctl` family.
package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"warren/ctl/locate"
)

const (
	amqpPort      = 5672
	internodePort = 25672
	startTimeout  = 2 * time.Minute
)

var build = sync.OnceValues(buildBinary)

// buildBinary builds warren and the links by whose names it acts as the tools, once for a test process.
func buildBinary() (string, error) {
	dir, err := os.MkdirTemp("", "warren-bin-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the binary: %w", err)
	}
	if err := startGuard(dir); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	bin := filepath.Join(dir, "warren")
	cmd := exec.Command("go", append(append([]string{"build"}, raceFlags...), "-o", bin, "warren/ctl/warren")...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build warren: %w\n%s", err, out)
	}
	for _, tool := range []string{"rabbitmqctl", "rabbitmq-queues", "rabbitmq-diagnostics", "rabbitmq-upgrade"} {
		if err := os.Symlink("warren", filepath.Join(dir, tool)); err != nil {
			return "", fmt.Errorf("link %s: %w", tool, err)
		}
	}
	return bin, nil
}

// Binary is the path of the warren binary under test.
func Binary(t testing.TB) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Cluster is a local cluster of Nodes processes named rabbit1@localhost, rabbit2@localhost, ….
type Cluster struct {
	Dir    string
	Offset int
	Nodes  int
	bin    string
	t      testing.TB
}

// Start starts n nodes and stops them when the test ends; a failed test prints the end of each node's log.
func Start(t testing.TB, n int) *Cluster {
	t.Helper()
	return StartWith(t, n, Binary(t))
}

// StartWith is Start with nodes that run another binary; the tools are those of the one under test.
func StartWith(t testing.TB, n int, binary string) *Cluster {
	t.Helper()
	c := Prepare(t, n)
	c.startAll(binary)
	return c
}

// StartConfigured is Start with lines added to the configuration of every node.
func StartConfigured(t testing.TB, n int, lines string) *Cluster {
	t.Helper()
	c := Prepare(t, n)
	for i := 1; i <= n; i++ {
		if err := os.MkdirAll(c.nodeDir(i), 0o700); err != nil {
			t.Fatalf("directory of %s: %v", c.Name(i), err)
		}
		c.Configure(i, lines)
	}
	c.startAll(Binary(t))
	return c
}

// startAll starts all nodes of a cluster that was prepared.
func (c *Cluster) startAll(binary string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "cluster", "start", "--nodes", strconv.Itoa(c.Nodes), "--dir", c.Dir,
		"--port-offset", strconv.Itoa(c.Offset), "--detach")
	cmd.WaitDelay, cmd.Env = time.Second, c.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("start a cluster of %d: %v\n%s", c.Nodes, err, out)
	}
}

// Upgrade has all nodes run another binary, one after the other, and returns the steps that were printed.
func (c *Cluster) Upgrade(binary string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*startTimeout)
	defer cancel()
	out, err := c.command(ctx, "cluster", "upgrade", "--dir", c.Dir, "--binary", binary).CombinedOutput()
	if err != nil {
		c.t.Fatalf("upgrade the cluster: %v\n%s", err, out)
	}
	return string(out)
}

// Prepare makes a cluster of n nodes of which none runs yet.
func Prepare(t testing.TB, n int) *Cluster {
	t.Helper()
	c := &Cluster{Dir: t.TempDir(), Nodes: n, bin: Binary(t), t: t}
	if err := protect(c.Dir); err != nil {
		t.Fatal(err)
	}
	c.Offset = freeOffset(t, n)
	layout := fmt.Sprintf(`{"version":1,"nodes":%d,"port_offset":%d}`, n, c.Offset)
	if err := os.WriteFile(filepath.Join(c.Dir, "cluster.json"), []byte(layout), 0o600); err != nil {
		t.Fatalf("prepare a cluster: %v", err)
	}
	t.Cleanup(c.end)
	return c
}

// DataDir is the data directory of node i.
func (c *Cluster) DataDir(i int) string { return filepath.Join(c.nodeDir(i), "data") }

// Spawn runs node i without waiting until it is up.
func (c *Cluster) Spawn(i int) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = c.command(ctx, "cluster", "start-node", "--dir", c.Dir, strconv.Itoa(i)).Run() // it is interrupted while it waits
	})
	Eventually(c.t, startTimeout, c.Name(i)+" runs", func() bool { _, err := c.pid(i); return err == nil })
	cancel()
	wg.Wait()
}

// Recover runs `warren recover` on node i, which does not run.
func (c *Cluster) Recover(i int, lost ...string) Result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	args := []string{"recover", "--node", c.Name(i), "--data", c.DataDir(i), "--config", filepath.Join(c.nodeDir(i), "rabbitmq.conf")}
	for _, name := range lost {
		args = append(args, "--lost", name)
	}
	cmd := c.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatalf("run warren recover: %v", err)
	}
	return Result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// Up says whether node i serves.
func (c *Cluster) Up(i int) bool {
	c.t.Helper()
	r := c.Tool("rabbitmqctl", i, "status", "--formatter", "json")
	return r.Code == 0 && strings.Contains(r.Stdout, `"state":"running"`)
}

// Runs says whether node i's process is there.
func (c *Cluster) Runs(i int) bool { _, err := c.pid(i); return err == nil }

// freeOffset finds an offset whose ports are free, below the range that the system hands out by itself.
func freeOffset(t testing.TB, n int) int {
	t.Helper()
	for range 200 {
		offset := 1000 + 10*rand.IntN(500)
		if portsFree(offset, n) {
			return offset
		}
	}
	t.Fatal("no free ports for a local cluster")
	return 0
}

func portsFree(offset, n int) bool {
	for i := range n {
		for _, base := range []int{amqpPort, internodePort} {
			ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(base+offset+i)))
			if err != nil {
				return false
			}
			_ = ln.Close()
		}
	}
	return true
}

func (c *Cluster) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.bin, args...)
	cmd.WaitDelay, cmd.Env = time.Second, c.env()
	return cmd
}

// env gives the cluster a registry of nodes of its own, so that clusters with the same node names do not meet.
func (c *Cluster) env() []string { return append(os.Environ(), registryEnv+c.Dir) }

const registryEnv = "XDG_RUNTIME_DIR="

// alarms in a log say that a node has a defect, whatever a test looks at.
var alarms = []string{"DATA RACE", "panic: ", "fatal error: ", "something that the protocol excludes was seen", "is damaged"}

// Registry is where the nodes of this cluster are registered, for a tool that runs in the test's process.
func (c *Cluster) Registry() locate.Registry {
	return locate.UserRegistry(func(string) string { return c.Dir })
}

func (c *Cluster) end() {
	for i := 1; i <= c.Nodes; i++ {
		log := c.Log(i)
		for _, a := range alarms {
			if at := strings.Index(log, a); at >= 0 {
				c.t.Errorf("log of %s has %q:\n%s", c.Name(i), a, log[max(0, at-200):min(len(log), at+4000)])
			}
		}
	}
	if c.t.Failed() {
		for i := 1; i <= c.Nodes; i++ {
			c.t.Logf("log of %s, its end:\n%s", c.Name(i), c.LogTail(i, 40))
		}
	}
	for i := 1; i <= c.Nodes; i++ {
		_ = c.signal(i, syscall.SIGCONT)
		_ = c.signal(i, syscall.SIGKILL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if out, err := c.command(ctx, "cluster", "stop", "--dir", c.Dir).CombinedOutput(); err != nil {
		c.t.Errorf("stop the cluster: %v\n%s", err, out)
	}
}

// Name is the node name of node i, counted from 1.
func (c *Cluster) Name(i int) string { return fmt.Sprintf("rabbit%d@localhost", i) }

// Index is the number of the node called name.
func (c *Cluster) Index(name string) int {
	c.t.Helper()
	for i := 1; i <= c.Nodes; i++ {
		if c.Name(i) == name {
			return i
		}
	}
	c.t.Fatalf("no node is called %q", name)
	return 0
}

// InternodeAddress is where node i's inter-node listener is.
func (c *Cluster) InternodeAddress(i int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(internodePort+c.Offset+i-1))
}

// CookieFile holds the cluster's cookie.
func (c *Cluster) CookieFile() string { return filepath.Join(c.Dir, ".cookie") }

// Address is where node i listens for AMQP clients.
func (c *Cluster) Address(i int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(amqpPort+c.Offset+i-1))
}

// URI is the AMQP URI of node i for the default user.
func (c *Cluster) URI(i int) string { return "amqp://guest:guest@" + c.Address(i) + "/" }

// Result is what a command printed and how it ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Tool runs one of the tools (rabbitmqctl, …) against node i.
func (c *Cluster) Tool(tool string, i int, args ...string) Result {
	c.t.Helper()
	return c.Session(tool, i, "", args...)
}

// Session runs one of the tools as an operator on node i does, whose environment names the node, and feeds it.
func (c *Cluster) Session(tool string, i int, stdin string, args ...string) Result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(c.bin), tool), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay, cmd.Env = &stdout, &stderr, time.Second, append(c.env(), "RABBITMQ_NODENAME="+c.Name(i))
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatalf("run %s: %v", tool, err)
	}
	return Result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// Ctl runs rabbitmqctl against node i and fails the test if it does not succeed.
func (c *Cluster) Ctl(i int, args ...string) string {
	c.t.Helper()
	r := c.Tool("rabbitmqctl", i, args...)
	if r.Code != 0 {
		c.t.Fatalf("rabbitmqctl -n %s %s: exit %d\n%s%s", c.Name(i), strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// verb runs `warren cluster VERB` on this cluster.
func (c *Cluster) verb(args ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	args = append([]string{"cluster", args[0], "--dir", c.Dir}, args[1:]...)
	if out, err := c.command(ctx, args...).CombinedOutput(); err != nil {
		c.t.Errorf("warren %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Kill sends SIGKILL to node i and waits until the process is gone.
func (c *Cluster) Kill(i int) { c.t.Helper(); c.verb("kill", strconv.Itoa(i)) }

// StopNode stops node i in good order.
func (c *Cluster) StopNode(i int) { c.t.Helper(); c.verb("stop-node", strconv.Itoa(i)) }

// StartNode starts node i again, on the data it left.
func (c *Cluster) StartNode(i int) { c.t.Helper(); c.verb("start-node", strconv.Itoa(i)) }

// StartFails starts node i, which has to end before it is up, and returns what the start said.
func (c *Cluster) StartFails(i int) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	out, err := c.command(ctx, "cluster", "start-node", "--dir", c.Dir, strconv.Itoa(i)).CombinedOutput()
	if err == nil || c.Runs(i) {
		c.t.Fatalf("%s was to end, and runs\n%s", c.Name(i), out)
	}
	return string(out)
}

// StartNodes starts nodes in that order, each as soon as the one before runs: none waits until the one before is up, since it
// may need the others for that.
func (c *Cluster) StartNodes(nodes ...int) {
	c.t.Helper()
	var wg sync.WaitGroup
	for _, i := range nodes {
		wg.Go(func() { c.StartNode(i) })
		Eventually(c.t, startTimeout, c.Name(i)+" runs", func() bool { _, err := c.pid(i); return err == nil })
	}
	wg.Wait()
}

// Configure makes lines the additions to the configuration of node i from its next start on; "" removes them.
func (c *Cluster) Configure(i int, lines string) {
	c.t.Helper()
	if err := os.MkdirAll(c.nodeDir(i), 0o755); err != nil {
		c.t.Fatalf("configuration of %s: %v", c.Name(i), err)
	}
	if err := os.WriteFile(filepath.Join(c.nodeDir(i), "extra.conf"), []byte(lines+"\n"), 0o600); err != nil {
		c.t.Fatalf("configuration of %s: %v", c.Name(i), err)
	}
}

// Signal sends sig to node i's process; after SIGSTOP it waits until the process stands still.
func (c *Cluster) Signal(i int, sig syscall.Signal) {
	c.t.Helper()
	if err := c.signal(i, sig); err != nil {
		c.t.Fatalf("send %v to %s: %v", sig, c.Name(i), err)
	}
	if sig == syscall.SIGSTOP {
		Eventually(c.t, 30*time.Second, c.Name(i)+" stands still", func() bool { return c.stopped(i) })
	}
}

// stopped says whether every thread of a node's process has stopped: on a busy machine some run on for a while.
func (c *Cluster) stopped(i int) bool {
	pid, err := c.pid(i)
	if err != nil {
		return false
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, path := range threads {
		b, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		if at := strings.LastIndexByte(string(b), ')'); at < 0 || !strings.HasPrefix(string(b[at:]), ") T") {
			return false
		}
	}
	return true
}

func (c *Cluster) signal(i int, sig syscall.Signal) error {
	pid, err := c.pid(i)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, sig)
}

func (c *Cluster) nodeDir(i int) string { return filepath.Join(c.Dir, fmt.Sprintf("rabbit%d", i)) }

func (c *Cluster) pid(i int) (int, error) {
	b, err := os.ReadFile(filepath.Join(c.nodeDir(i), "pid"))
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(string(b), "\n", 2)[0]))
	if err != nil {
		return 0, fmt.Errorf("pid file of node %d: %w", i, err)
	}
	// A pid file may outlive its process, and the number may be another's by now.
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != filepath.Base(c.bin) {
		return 0, fmt.Errorf("node %d is not running", i)
	}
	return pid, nil
}

// Log is all that node i has logged.
func (c *Cluster) Log(i int) string {
	b, err := os.ReadFile(filepath.Join(c.nodeDir(i), "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// LogTail is the last lines of node i's log.
func (c *Cluster) LogTail(i, lines int) string {
	all := strings.Split(strings.TrimSpace(c.Log(i)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Eventually waits until cond holds; what names the condition. Bounds hangs only: the limit is generous.
func Eventually(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ResidentMemory is what node i's process has in RAM, in bytes.
func (c *Cluster) ResidentMemory(i int) int {
	c.t.Helper()
	pid, err := c.pid(i)
	if err != nil {
		c.t.Fatalf("memory of %s: %v", c.Name(i), err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		c.t.Fatalf("memory of %s: %v", c.Name(i), err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		c.t.Fatalf("memory of %s: %q: %v", c.Name(i), b, err)
	}
	return pages * os.Getpagesize()
}

// Shell makes a command line of the shell in which bin/ holds the programs under test and nodes are found by name.
func (c *Cluster) Shell(line string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	c.t.Cleanup(cancel)
	dir := filepath.Dir(c.bin)
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(line, "bin/", dir+"/"))
	cmd.Env, cmd.WaitDelay = c.env(), time.Second
	return cmd
}

// OpenFiles is how many file descriptors node i's process has.
func (c *Cluster) OpenFiles(i int) int {
	c.t.Helper()
	pid, err := c.pid(i)
	if err != nil {
		c.t.Fatalf("open files of %s: %v", c.Name(i), err)
	}
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		c.t.Fatalf("open files of %s: %v", c.Name(i), err)
	}
	return len(all)
}
