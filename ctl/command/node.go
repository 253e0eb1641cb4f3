package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"warren/ctl/admin"
	"warren/ctl/locate"
)

// Commands that wait for a node or stop one.

// pollInterval is how often a waiting command asks again.
const pollInterval = 200 * time.Millisecond

// waitFor calls done until it says so, fails, or ctx ends (whose error it then returns).
func waitFor(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func pingCommand() command {
	return command{
		name: "ping", tools: []string{toolCtl, toolDiagnostics}, group: "Observability",
		summary: "Asks a node for a sign of life and proves to each other that both know the cookie",
		usage:   "[--timeout <timeout>]",
		guides:  []string{"monitoring"},
		limit:   time.Minute,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Will ping %s. This only checks if the OS process is running and registered with epmd. Timeout: %d ms.",
				c.node, c.timeout.Milliseconds())}
		},
		run: func(ctx context.Context, c *call) error {
			node, err := c.client(ctx)
			if err == nil {
				_, err = node.Status(ctx)
			}
			if err != nil {
				return errorf(exitUnavailable, "Failed to connect and authenticate to %s in %d ms", c.node, c.timeout.Milliseconds())
			}
			return c.message("Ping succeeded")
		},
	}
}

func awaitStartupCommand() command {
	return command{
		name: "await_startup", tools: []string{toolCtl}, group: "Nodes",
		summary: "Returns once the node serves clients",
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			stopped := false
			err := waitFor(ctx, func() (bool, error) {
				status, err := node.Status(ctx)
				if err == nil {
					stopped = status.State == stoppedState
				}
				return status.Running, err
			})
			if stopped && (errors.Is(err, context.DeadlineExceeded) || admin.CodeOf(err) == admin.CodeTimeout) {
				return errorf(exitUnavailable, "rabbit_is_not_running")
			}
			return err
		}),
	}
}

func awaitOnlineNodesCommand() command {
	return command{
		name: "await_online_nodes", tools: []string{toolCtl}, group: "Cluster",
		summary: "Returns once so many members of the cluster run",
		usage:   "<count> [--timeout <timeout>]",
		details: []string{"<count>", "the number of running members to wait for"},
		least:   1,
		most:    1,
		check: func(c *call) error {
			if n, err := strconv.Atoi(c.args[0]); err != nil || n < 1 {
				return &usageError{status: exitDataErr, text: "Bad argument: Argument must be a positive integer"}
			}
			return nil
		},
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Will wait for at least %s nodes to join the cluster of %s. Timeout: %d seconds.",
				c.args[0], c.node, int64(c.timeout.Seconds()))}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			want, err := strconv.Atoi(c.args[0])
			if err != nil {
				return fmt.Errorf("count: %w", err)
			}
			err = waitFor(ctx, func() (bool, error) {
				status, err := node.ClusterStatus(ctx)
				return len(members(status, running)) >= want, err
			})
			if errors.Is(err, context.DeadlineExceeded) || admin.CodeOf(err) == admin.CodeTimeout {
				return errorf(exitSoftware, "Error: timed out while waiting. Not enough nodes joined %s's cluster.", c.node)
			}
			return err
		}),
	}
}

func stopCommand() command {
	return command{
		name: "stop", tools: []string{toolCtl}, group: "Nodes",
		summary: "Stops a node in good order; with a pid file, returns when its process has ended",
		usage:   "[--idempotent] [<pidfile>]",
		details: []string{
			"<pidfile>", "file that holds the process's number",
			"--idempotent", "a node that is stopped already is no error",
		},
		flags: []flag{{"idempotent", 0, flagBool}},
		most:  1,
		banner: func(c *call) []string {
			if len(c.args) == 1 {
				return []string{fmt.Sprintf("Stopping and halting node %s (will monitor pid file %s) ...", c.node, c.args[0])}
			}
			return []string{fmt.Sprintf("Stopping and halting node %s ...", c.node)}
		},
		run: stopNode,
	}
}

// stopNode asks the node to stop and waits until it has: until its process of a pid file is gone, or it answers no more.
func stopNode(ctx context.Context, c *call) error {
	var process locate.Process
	if len(c.args) == 1 {
		p, err := readPIDFile(c.args[0])
		if err != nil {
			return err
		}
		process = p
	}
	node, err := c.client(ctx)
	var unreachable *unreachableError
	if errors.As(err, &unreachable) && c.set["idempotent"] {
		return c.message(fmt.Sprintf("Node %s is no longer running", c.node))
	}
	if err != nil {
		return err
	}
	if err := node.Stop(ctx); err != nil {
		return err
	}
	if process.PID == 0 {
		return waitFor(ctx, func() (bool, error) {
			_, err := node.Status(ctx)
			return err != nil && ctx.Err() == nil, nil
		})
	}
	if err := waitFor(ctx, func() (bool, error) { return !process.Alive(), nil }); err != nil {
		return err
	}
	return c.message(fmt.Sprintf("process %d (take from pid file %s) is no longer running", process.PID, c.args[0]))
}

// readPIDFile reads the number in a file's first line.
func readPIDFile(file string) (locate.Process, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return locate.Process{}, errorf(exitDataErr, "could not read the pid file: %v", err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 0 {
		return locate.Process{}, errorf(exitDataErr, "the pid file %s does not begin with a process number", file)
	}
	p, err := locate.ProcessOf(pid)
	if err != nil {
		return locate.Process{PID: pid}, nil // gone already; the node itself will say so
	}
	return p, nil
}
