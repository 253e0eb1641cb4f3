package peer

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Node is one node of a cluster.
type Node struct {
	Name string // as the queue list names it; empty if it is not known
	URI  string
}

// Cluster is what is measured. Methods that take a node's index take it from 0, in the order of Nodes. They are for one
// goroutine.
type Cluster interface {
	Name() string // warren, rabbitmq, or how the user calls it
	Version() string
	Nodes() []Node
	// PIDs are the nodes' processes in order, nil if they are not known. Error: one does not run.
	PIDs() ([]int, error)
	SetPolicy(ctx context.Context, name, pattern, definition string) error
	ClearPolicy(ctx context.Context, name string) error
	Queue(ctx context.Context, name string) (Queue, error)
	Queues(ctx context.Context, names []string) (map[string]Queue, error)
	// Sync synchronises a queue's mirrors and returns when the broker says that it is done. Error: ErrUnsupported.
	Sync(ctx context.Context, queue string) (began, ended time.Time, err error)
	// Kill is SIGKILL; at is the moment just before it.
	Kill(ctx context.Context, node int) (at time.Time, err error)
	// Pause makes a node fall silent with its connections open (SIGSTOP); at is the moment just before it. Resume brings
	// it back into the cluster.
	Pause(ctx context.Context, node int) (at time.Time, err error)
	Resume(ctx context.Context, node int) error
	StopNode(ctx context.Context, node int) (at time.Time, err error)
	StartNode(ctx context.Context, node int) error
	// Shutdown stops what was started for the measurement.
	Shutdown(ctx context.Context) error
}

// Queue is what the broker says about a queue.
type Queue struct {
	Master   string // node; for a quorum queue its leader
	Mirrors  []string
	Synced   []string // of Mirrors
	Messages int
	State    string
}

// ErrUnsupported: the cluster cannot do that.
var ErrUnsupported = errors.New("this cluster cannot do that")

// ErrNoQueue: the broker does not list it.
var ErrNoQueue = errors.New("the broker lists no such queue")

// commandLimit is how long one command may take, a synchronisation excepted.
const commandLimit = 120 * time.Second

// syncLimit is how long a synchronisation may take.
const syncLimit = 30 * time.Minute

// ctl runs a rabbitmqctl.
type ctl struct {
	argv []string // program and leading arguments
	env  []string // added to the environment
}

func (c ctl) run(ctx context.Context, args ...string) ([]byte, error) {
	if len(c.argv) == 0 {
		return nil, fmt.Errorf("run rabbitmqctl %s: no command was named: %w", args[0], ErrUnsupported)
	}
	argv := append(append([]string{}, c.argv...), args...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(cmd.Environ(), c.env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w: %s", strings.Join(argv, " "), err, lastLines(stderr.String()))
	}
	return out, nil
}

func lastLines(s string) string {
	const most = 600
	s = strings.TrimSpace(s)
	return s[max(0, len(s)-most):]
}

// SetPolicy implements Cluster.
func (c ctl) SetPolicy(ctx context.Context, name, pattern, definition string) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	_, err := c.run(ctx, "set_policy", "--apply-to", "queues", name, pattern, definition)
	return err
}

// ClearPolicy implements Cluster.
func (c ctl) ClearPolicy(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	_, err := c.run(ctx, "clear_policy", name)
	return err
}

var queueColumns = []string{"name", "pid", "slave_pids", "synchronised_slave_pids", "leader", "members", "messages", "state"}

// Queue implements Cluster.
func (c ctl) Queue(ctx context.Context, name string) (Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	out, err := c.list(ctx)
	if err != nil {
		return Queue{}, err
	}
	return parseQueue(out, name)
}

// Queues is Queue for several, from one list. Those that the broker does not list are missing.
func (c ctl) Queues(ctx context.Context, names []string) (map[string]Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	out, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]Queue{}
	for _, name := range names {
		q, err := parseQueue(out, name)
		if err != nil && !errors.Is(err, ErrNoQueue) {
			return nil, err
		} else if err == nil {
			all[name] = q
		}
	}
	return all, nil
}

func (c ctl) list(ctx context.Context) ([]byte, error) {
	return c.run(ctx, append([]string{"list_queues", "-q", "--no-table-headers"}, queueColumns...)...)
}

// parseQueue finds a queue in what list_queues prints: a line for each, columns between tabs. The JSON form is of no use here:
// its process ids do not name their nodes.
func parseQueue(out []byte, name string) (Queue, error) {
	for _, line := range strings.Split(string(out), "\n") {
		f := strings.Split(line, "\t")
		if f[0] != name {
			continue
		}
		if len(f) != len(queueColumns) {
			return Queue{}, fmt.Errorf("read the list of queues: %d columns, not %d, in %q", len(f), len(queueColumns), line)
		}
		q := Queue{Mirrors: nodesOf(f[2]), Synced: nodesOf(f[3]), State: f[7]}
		if strings.Contains(f[4], "@") { // a quorum queue
			q.Master = f[4]
			for _, m := range strings.FieldsFunc(f[5], func(r rune) bool { return strings.ContainsRune("[], ", r) }) {
				if m != q.Master {
					q.Mirrors = append(q.Mirrors, m)
				}
			}
			q.Synced = q.Mirrors
		} else if n := nodesOf(f[1]); len(n) == 1 {
			q.Master = n[0]
		}
		n, err := strconv.Atoi(f[6])
		if err != nil && f[6] != "" {
			return Queue{}, fmt.Errorf("read the list of queues: %w", err)
		}
		q.Messages = n
		return q, nil
	}
	return Queue{}, fmt.Errorf("queue %q: %w", name, ErrNoQueue)
}

var pidPattern = regexp.MustCompile(`<([^<>]+?)\.\d+\.\d+\.\d+>`)

// nodesOf gives the nodes of process ids as the tools print them.
func nodesOf(s string) []string {
	var out []string
	for _, m := range pidPattern.FindAllStringSubmatch(s, -1) {
		out = append(out, m[1])
	}
	return out
}

func killProcess(pid int) (time.Time, error) { return signal(pid, syscall.SIGKILL) }

// signal gives the moment just before it.
func signal(pid int, s syscall.Signal) (time.Time, error) {
	at := time.Now()
	if err := syscall.Kill(pid, s); err != nil {
		return at, fmt.Errorf("send signal %v to process %d: %w", s, pid, err)
	}
	return at, nil
}

func runTool(ctx context.Context, env []string, argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*commandLimit)
	defer cancel()
	return ctl{argv: argv[:1], env: env}.run(ctx, argv[1:]...)
}
