package peer

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

type named struct {
	ctl
	name  string
	nodes []Node
	pids  []int
}

// Named is a cluster that runs somewhere: its URIs, the command that is its rabbitmqctl (may be empty) and its processes if
// they are on this machine (may be empty).
func Named(name string, uris, ctlCommand []string, pids []int) (Cluster, error) {
	if len(uris) == 0 {
		return nil, fmt.Errorf("cluster %q has no URI", name)
	}
	if len(pids) != 0 && len(pids) != len(uris) {
		return nil, fmt.Errorf("cluster %q has %d URIs and %d processes", name, len(uris), len(pids))
	}
	c := &named{name: name, ctl: ctl{argv: ctlCommand}, pids: pids}
	for _, u := range uris {
		c.nodes = append(c.nodes, Node{URI: u})
	}
	return c, nil
}

func (c *named) Name() string         { return c.name }
func (c *named) Version() string      { return "" }
func (c *named) Nodes() []Node        { return c.nodes }
func (c *named) PIDs() ([]int, error) { return c.pids, nil }

func (c *named) Sync(ctx context.Context, queue string) (began, ended time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, syncLimit)
	defer cancel()
	began = time.Now()
	_, err = c.run(ctx, "sync_queue", queue)
	return began, time.Now(), err
}

func (c *named) Kill(_ context.Context, node int) (time.Time, error) {
	if node >= len(c.pids) {
		return time.Time{}, fmt.Errorf("kill node %d of %s: its process was not named: %w", node+1, c.name, ErrUnsupported)
	}
	return killProcess(c.pids[node])
}

// Pause implements Cluster.
func (c *named) Pause(_ context.Context, node int) (time.Time, error) {
	if node >= len(c.pids) {
		return time.Time{}, fmt.Errorf("pause node %d of %s: its process was not named: %w", node+1, c.name, ErrUnsupported)
	}
	return signal(c.pids[node], syscall.SIGSTOP)
}

// Resume implements Cluster.
func (c *named) Resume(_ context.Context, node int) error {
	_, err := signal(c.pids[node], syscall.SIGCONT)
	return err
}

func (c *named) StopNode(context.Context, int) (time.Time, error) {
	return time.Time{}, fmt.Errorf("stop a node of %s: %w", c.name, ErrUnsupported)
}

func (c *named) StartNode(context.Context, int) error {
	return fmt.Errorf("start a node of %s: %w", c.name, ErrUnsupported)
}

func (c *named) Shutdown(context.Context) error { return nil }
