package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"warren/ctl/localcluster"
)

// pollSync is how often a queue is looked at until it is synchronised, after the command has returned.
const pollSync = 20 * time.Millisecond

type warren struct {
	ctl
	binary, version string
	cluster         *localcluster.Cluster
	started         bool
	paused          map[int]bool
}

// Warren starts (or, if it runs already, uses) the local cluster in dir, of three nodes with those ports' offset, with that
// binary.
func Warren(ctx context.Context, binary, dir string, nodes, portOffset int) (Cluster, error) {
	out, err := runTool(ctx, nil, binary, "ctl", "version")
	if err != nil {
		return nil, err
	}
	c, err := localcluster.Create(dir, nodes, portOffset)
	if err != nil {
		return nil, fmt.Errorf("start warren: %w", err)
	}
	first := c.Nodes()[0]
	w := &warren{paused: map[int]bool{}, binary: binary, version: strings.TrimSpace(string(out)), cluster: c}
	// A registry of its own, so that it stands beside a cluster of the user's whose nodes have the same names.
	runtime := filepath.Join(dir, "run")
	if err := os.MkdirAll(runtime, 0o700); err != nil {
		return nil, fmt.Errorf("start warren: %w", err)
	}
	w.env = []string{"XDG_RUNTIME_DIR=" + runtime}
	w.argv = []string{binary, "ctl", "--address", first.InternodeAddress(), "--cookie-file", first.CookieFile}
	running := 0
	for _, n := range c.Nodes() {
		if _, ok := n.Process(); ok {
			running++
		}
	}
	if running == nodes {
		return w, nil
	}
	w.started = running == 0
	_, err = runTool(ctx, w.env, binary, "cluster", "start", "--detach", "--nodes", strconv.Itoa(nodes), "--dir", dir,
		"--port-offset", strconv.Itoa(portOffset))
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (w *warren) Name() string    { return "warren" }
func (w *warren) Version() string { return w.version }

func (w *warren) Nodes() []Node {
	var out []Node
	for _, n := range w.cluster.Nodes() {
		out = append(out, Node{Name: n.Name, URI: n.URI()})
	}
	return out
}

func (w *warren) PIDs() ([]int, error) {
	var out []int
	for i := range w.cluster.Nodes() {
		pid, err := w.pid(i)
		if err != nil {
			return nil, err
		}
		out = append(out, pid)
	}
	return out, nil
}

func (w *warren) pid(node int) (int, error) {
	n := w.cluster.Nodes()[node]
	p, ok := n.Process()
	if !ok {
		return 0, fmt.Errorf("%s does not run (log: %s)", n.Name, n.LogFile())
	}
	return p.PID, nil
}

// use makes ctl ask a node that runs.
func (w *warren) use() {
	for i, n := range w.cluster.Nodes() {
		if _, err := w.pid(i); err == nil && !w.paused[i] {
			w.argv[3] = n.InternodeAddress()
			return
		}
	}
}

func (w *warren) Queue(ctx context.Context, name string) (Queue, error) {
	w.use()
	return w.ctl.Queue(ctx, name)
}

// Queues implements Cluster.
func (w *warren) Queues(ctx context.Context, names []string) (map[string]Queue, error) {
	w.use()
	return w.ctl.Queues(ctx, names)
}

func (w *warren) Sync(ctx context.Context, queue string) (began, ended time.Time, err error) {
	w.use()
	ctx, cancel := context.WithTimeout(ctx, syncLimit)
	defer cancel()
	if help, err := w.run(ctx, "--help"); err == nil && !strings.Contains(string(help), "sync_queue") {
		return began, ended, fmt.Errorf("%s has no sync_queue: %w", w.version, ErrUnsupported)
	}
	began = time.Now()
	if _, err := w.run(ctx, "sync_queue", queue); err != nil {
		return began, ended, err
	}
	tick := time.NewTicker(pollSync)
	defer tick.Stop()
	for {
		ended = time.Now()
		q, err := w.ctl.Queue(ctx, queue)
		if err != nil {
			return began, ended, err
		}
		if len(q.Mirrors) > 0 && len(q.Synced) == len(q.Mirrors) {
			return began, ended, nil
		}
		select {
		case <-ctx.Done():
			return began, ended, fmt.Errorf("wait until %q is synchronised (%d of %d mirrors are): %w", queue, len(q.Synced),
				len(q.Mirrors), ctx.Err())
		case <-tick.C:
		}
	}
}

func (w *warren) Kill(_ context.Context, node int) (time.Time, error) {
	pid, err := w.pid(node)
	if err != nil {
		return time.Time{}, err
	}
	return killProcess(pid)
}

// Pause implements Cluster.
func (w *warren) Pause(_ context.Context, node int) (time.Time, error) {
	pid, err := w.pid(node)
	if err != nil {
		return time.Time{}, err
	}
	w.paused[node] = true
	return signal(pid, syscall.SIGSTOP)
}

// Resume implements Cluster: the node finds out by itself that it was declared down, and comes back. Until the others say that it
// has, the tool is not sent to it.
func (w *warren) Resume(ctx context.Context, node int) error {
	pid, err := w.pid(node)
	if err != nil {
		return err
	}
	if _, err := signal(pid, syscall.SIGCONT); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	name := w.cluster.Nodes()[node].Name
	for {
		s, err := w.status(ctx)
		if err == nil && slices.Contains(s.Running, name) {
			delete(w.paused, node)
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait until %s is back: %w", name, ctx.Err()), err)
		case <-time.After(pollStatus):
		}
	}
}

// pollStatus is how often the cluster is asked whether a node is back.
const pollStatus = 200 * time.Millisecond

// clusterStatus is what is wanted of the cluster's status.
type clusterStatus struct {
	Leader  string   `json:"metadata_leader"`
	Running []string `json:"running_nodes"`
}

func (w *warren) status(ctx context.Context) (s clusterStatus, err error) {
	w.use()
	out, err := w.run(ctx, "cluster_status", "--formatter", "json")
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return s, fmt.Errorf("read the cluster's status: %w", err)
	}
	return s, nil
}

// Leader is the node that leads the metadata's Raft group.
func (w *warren) Leader(ctx context.Context) (int, error) {
	status, err := w.status(ctx)
	if err != nil {
		return 0, err
	}
	for i, n := range w.cluster.Nodes() {
		if n.Name == status.Leader {
			return i, nil
		}
	}
	return 0, fmt.Errorf("the leader %q of the metadata is none of the cluster's nodes", status.Leader)
}

func (w *warren) clusterCommand(ctx context.Context, args ...string) error {
	_, err := runTool(ctx, w.env, append([]string{w.binary, "cluster", args[0], "--dir", w.cluster.Dir()}, args[1:]...)...)
	return err
}

func (w *warren) StopNode(ctx context.Context, node int) (time.Time, error) {
	at := time.Now()
	return at, w.clusterCommand(ctx, "stop-node", strconv.Itoa(node+1))
}

func (w *warren) StartNode(ctx context.Context, node int) error {
	return w.clusterCommand(ctx, "start-node", strconv.Itoa(node+1))
}

func (w *warren) Shutdown(ctx context.Context) error {
	if !w.started {
		return nil
	}
	return w.clusterCommand(ctx, "stop")
}
