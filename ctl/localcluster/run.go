package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"warren/ctl/locate"
)

// Runner starts and stops nodes. Its fields are set by the caller before the first call.
type Runner struct {
	*Cluster
	Binary string // that is run as BINARY server …
	// Ready asks a node that was started whether it serves and sees at least running nodes running, itself among them; nil is
	// yes. It is called again and again until StartLimit has passed.
	Ready      func(ctx context.Context, n Node, running int) error
	Progress   func(format string, args ...any) // one line each
	StartLimit time.Duration
	StopLimit  time.Duration // after it, SIGKILL
}

// Limits of time.
const (
	DefaultStartLimit = 60 * time.Second
	DefaultStopLimit  = 60 * time.Second
	killLimit         = 10 * time.Second
	pollInterval      = 50 * time.Millisecond
)

// Start starts all nodes that do not run and returns when all are up, those that ran before, too. If one does not come up, those that were started are
// stopped again, and the error names the node's log.
func (r *Runner) Start(ctx context.Context) error {
	nodes := r.Nodes()
	var missing, there []Node
	for _, n := range nodes {
		if _, ok := n.Process(); ok {
			there = append(there, n)
			continue
		}
		if err := n.checkPorts(); err != nil {
			return err
		}
		missing = append(missing, n)
	}
	if len(missing) == 0 {
		return fmt.Errorf("all %d nodes in %s run already", len(nodes), r.dir)
	}
	started, err := r.start(ctx, missing, len(nodes))
	if err == nil {
		return r.awaitAll(ctx, there)
	}
	left := make([]Node, len(started))
	for i, c := range started {
		left[i] = c.node
	}
	return errors.Join(err, r.stop(context.WithoutCancel(ctx), left))
}

// awaitAll returns when nodes that ran before are up, which may have waited for those that were started now.
func (r *Runner) awaitAll(ctx context.Context, nodes []Node) error {
	ctx, cancel := context.WithTimeout(ctx, r.StartLimit)
	defer cancel()
	for _, n := range nodes {
		if err := r.waitUp(ctx, &child{node: n}, len(r.Nodes())); err != nil {
			return err
		}
	}
	return nil
}

// StartNode starts one node that does not run and returns when it is up. A node that only waits for the others, as after a
// failure of all, goes on waiting when the error is returned: they may be started next.
func (r *Runner) StartNode(ctx context.Context, n Node) error {
	started, err := r.start(ctx, []Node{n}, 1)
	if _, alive := n.Process(); err != nil && alive && len(started) > 0 {
		return fmt.Errorf("%w; the process goes on waiting", err)
	}
	return err
}

// start starts nodes and waits until they are up; it returns those that it started, whatever became of them.
func (r *Runner) start(ctx context.Context, nodes []Node, running int) (started []*child, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.StartLimit)
	defer cancel()
	for _, n := range nodes {
		c, err := r.spawn(n, r.Binary)
		if err != nil {
			return started, err
		}
		started = append(started, c)
		r.Progress("%s started, process %d", n.Name, c.process.PID)
	}
	for _, c := range started {
		if err := r.waitUp(ctx, c, running); err != nil {
			return started, err
		}
		r.Progress("%s is up", c.node.Name)
	}
	return started, nil
}

func (r *Runner) waitUp(ctx context.Context, c *child, running int) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	tell := time.After(r.StartLimit / 10)
	var last error
	for {
		err := r.Ready(ctx, c.node, running)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // what the end of the time interrupts says nothing of the node
			last = err
		}
		select {
		case <-tell:
			r.Progress("%s is not up yet: %v; waiting for %v at most", c.node.Name, last, r.StartLimit)
		case <-c.ended:
			return fmt.Errorf("%s ended while it started: %s (log: %s)", c.node.Name, c.node.lastLog(), c.node.LogFile())
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return fmt.Errorf("start %s: %w", c.node.Name, ctx.Err())
			}
			return fmt.Errorf("%s is not up after %v: %w (log: %s)", c.node.Name, r.StartLimit, last, c.node.LogFile())
		case <-tick.C:
		}
	}
}

// Stop stops all nodes that run, in good order (SIGTERM), and returns when all are gone. A cluster that is stopped already is
// fine.
func (r *Runner) Stop(ctx context.Context) error { return r.stop(ctx, r.Nodes()) }

// StopNode stops one node in good order.
func (r *Runner) StopNode(ctx context.Context, n Node) error { return r.stop(ctx, []Node{n}) }

func (r *Runner) stop(ctx context.Context, nodes []Node) error {
	processes := map[string]locate.Process{}
	for _, n := range nodes {
		p, ok := n.Process()
		if !ok {
			continue
		}
		if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop %s: %w", n.Name, err)
		}
		// A process that is stopped (SIGSTOP) would not hear it.
		if err := p.Signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop %s: %w", n.Name, err)
		}
		processes[n.Name] = p
	}
	limit, cancel := context.WithTimeout(ctx, r.StopLimit)
	defer cancel()
	for _, n := range nodes {
		p, ok := processes[n.Name]
		if !ok {
			continue
		}
		if err := waitGone(limit, p); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("stop %s: %w", n.Name, ctx.Err())
			}
			r.Progress("%s does not stop within %v, killing it (log: %s)", n.Name, r.StopLimit, n.LogFile())
			if err := r.Kill(ctx, n); err != nil && p.Alive() {
				return err
			}
		}
		if err := os.Remove(n.PIDFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("stop %s: %w", n.Name, err)
		}
		r.Progress("%s stopped", n.Name)
	}
	return nil
}

// Kill kills one node (SIGKILL) and returns when it is gone. Error: it does not run.
func (r *Runner) Kill(ctx context.Context, n Node) error {
	p, ok := n.Process()
	if !ok {
		return fmt.Errorf("kill %s: it does not run", n.Name)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", n.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, killLimit)
	defer cancel()
	if err := waitGone(ctx, p); err != nil {
		return fmt.Errorf("kill %s: process %d is still there: %w", n.Name, p.PID, err)
	}
	return nil
}

func waitGone(ctx context.Context, p locate.Process) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for p.Alive() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// WaitAllEnded returns when ctx ends or no node runs any more.
func (r *Runner) WaitAllEnded(ctx context.Context) {
	tick := time.NewTicker(4 * pollInterval)
	defer tick.Stop()
	for {
		alive := false
		for _, n := range r.Nodes() {
			_, ok := n.Process()
			alive = alive || ok
		}
		if !alive {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
