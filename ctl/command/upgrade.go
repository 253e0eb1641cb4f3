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
	"warren/ctl/format"
	"warren/ctl/locate"
)

// Commands for upgrades and maintenance, and those that follow a process.

// upgradeCommands are those of this file, in the order of the help.
func upgradeCommands() []command {
	return []command{
		shutdownCommand(), waitCommand(),
		awaitQuorumCommand(), awaitMirrorCommand(), drainCommand(), postUpgradeCommand(), reviveCommand(),
		mirrorCriticalCommand(), quorumCriticalCommand(),
		enableFeatureCommand(), listFeaturesCommand(),
	}
}

const awaitMirrorLimit = 120 * time.Second

func drainCommand() command {
	return command{
		name: "drain", tools: []string{toolUpgrade}, group: "Upgrade",
		summary: "Moves the masters off the node and closes its clients; it stays so over restarts, until revive",
		guides:  []string{"upgrade"},
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Will put node %s into maintenance mode. The node will no longer serve any client traffic!", c.node)}
		},
		run: withClient(func(ctx context.Context, _ *call, node Client) error { return node.Drain(ctx) }),
	}
}

func reviveCommand() command {
	return command{
		name: "revive", tools: []string{toolUpgrade}, group: "Upgrade",
		summary: "Ends a drain: the node takes clients and masters again",
		guides:  []string{"upgrade"},
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Will put node %s back into regular operating mode. "+
				"The node will again serve client traffic and host primary queue replicas.", c.node)}
		},
		run: withClient(func(ctx context.Context, _ *call, node Client) error { return node.Revive(ctx) }),
	}
}

func postUpgradeCommand() command {
	return command{
		name: "post_upgrade", tools: []string{toolUpgrade}, group: "Upgrade",
		summary: "Runs post-upgrade tasks",
		guides:  []string{"upgrade"},
		running: true,
		banner: func(*call) []string {
			return []string{"Executing post upgrade tasks...", "Rebalancing queue masters..."}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			counts, err := node.Rebalance(ctx, admin.Rebalancing{})
			if err != nil {
				return err
			}
			for _, n := range counts {
				print(c.env.Stdout, fmt.Sprintf("[{\"Node name\", :%s}, {\"Number of quorum queues\", 0}, {\"Number of replicated classic queues\", %d}]\n",
					n.Node, n.Masters))
			}
			return nil
		}),
	}
}

func awaitMirrorCommand() command {
	return command{
		name: "await_online_synchronized_mirror", tools: []string{toolUpgrade}, group: "Upgrade",
		summary: "Returns once every mirrored queue of the node has a synchronised mirror elsewhere, so that the node may stop",
		guides:  []string{"ha", "upgrade"},
		limit:   awaitMirrorLimit,
		running: true,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Will wait for a synchronised mirror be online for all classic mirrored queues for %d seconds...",
				int64(c.timeout.Seconds()))}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			alone := false
			err := waitFor(ctx, func() (bool, error) {
				critical, err := node.CriticalQueues(ctx)
				alone = critical.Alone
				return len(critical.Queues) == 0, err
			})
			switch {
			case errors.Is(err, context.DeadlineExceeded) || admin.CodeOf(err) == admin.CodeTimeout:
				return errorf(exitUnavailable, "time is up, no synchronised mirror came online for at least some classic mirrored queues")
			case err == nil && alone:
				return c.message("Target node seems to be the only one in a single node cluster, the command does not apply")
			}
			return err
		}),
	}
}

func awaitQuorumCommand() command {
	return command{
		name: "await_online_quorum_plus_one", tools: []string{toolUpgrade}, group: "Upgrade",
		summary: "Returns at once: there are no quorum queues here",
		guides:  []string{"quorum-queues", "upgrade"},
		limit:   awaitMirrorLimit,
		running: true,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Will wait for a quorum + 1 of nodes to be online for all quorum queues for %d seconds...",
				int64(c.timeout.Seconds()))}
		},
		run: func(context.Context, *call) error { return nil }, // there are no quorum queues
	}
}

func quorumCriticalCommand() command {
	return command{
		name: "check_if_node_is_quorum_critical", tools: []string{toolQueues, toolDiagnostics}, group: "Observability",
		summary: "Never fails here, as there are no quorum queues",
		usage:   "[--timeout <timeout>]",
		running: true,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Checking if node %s is critical for quorum of any quorum queues ...", c.node)}
		},
		run: func(_ context.Context, c *call) error { // there are no quorum queues
			return c.passed(fmt.Sprintf("Node %s reported no quorum queues with minimum quorum", c.node))
		},
	}
}

func mirrorCriticalCommand() command {
	return command{
		name: "check_if_node_is_mirror_sync_critical", tools: []string{toolQueues, toolDiagnostics}, group: "Observability",
		summary: "Fails when stopping the node would leave a mirrored queue without a synchronised copy",
		usage:   "[--timeout <timeout>]",
		running: true,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Checking if node %s is critical for data safety of any classic mirrored queues ...", c.node)}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			critical, err := node.CriticalQueues(ctx)
			if err != nil {
				return err
			}
			switch {
			case critical.Alone:
				return c.passed("Target node seems to be the only one in a single node cluster, the check does not apply")
			case len(critical.Queues) == 0:
				return c.passed(fmt.Sprintf("Node %s reported no classic mirrored queues without online synchronised mirrors", c.node))
			}
			return c.criticalQueues(critical.Queues)
		}),
	}
}

// passed ends a health check that found nothing.
func (c *call) passed(text string) error {
	switch {
	case c.format == format.FormatJSON:
		return c.document(map[string]any{"result": "ok"})
	case c.set["quiet"] || c.set["silent"]:
		return nil
	}
	return c.message(text)
}

func (c *call) criticalQueues(queues []admin.QueueName) error {
	if c.set["silent"] {
		return &exitError{status: exitUnavailable}
	}
	var lines []string
	list := format.List{}
	for _, q := range queues {
		readable := fmt.Sprintf("queue '%s' in vhost '%s'", q.Name, q.VHost)
		lines = append(lines, fmt.Sprintf("%s would lose its only synchronised replica (master) if node %s is stopped", readable, c.node))
		list = append(list, map[string]any{"name": q.Name, "readable_name": readable, "type": "classic", "virtual_host": q.VHost})
	}
	if c.format != format.FormatJSON {
		return &exitError{exitUnavailable, strings.Join(lines, "\n")}
	}
	text, err := format.JSON(map[string]any{"result": "error", "queues": list,
		"message": fmt.Sprintf("Node %s reported local classic mirrored queues without online synchronised mirrors", c.node)})
	if err != nil {
		return err
	}
	return &exitError{exitUnavailable, string(text)}
}

func featureColumns() []column[admin.FeatureFlag] {
	type f = admin.FeatureFlag
	return []column[f]{
		fixed("name", func(f f) any { return f.Name }),
		fixed("state", func(f f) any { return f.State }),
		fixed("stability", func(f f) any { return f.Stability }),
		fixed("provided_by", func(f f) any { return "rabbit" }),
		fixed("desc", func(f f) any { return f.Description }),
		fixed("doc_url", func(f f) any { return "" }),
	}
}

func listFeaturesCommand() command {
	return command{
		name: "list_feature_flags", tools: readOnly(), group: "Feature flags",
		summary: "Lists feature flags",
		usage:   "[<column> ...] [--timeout <timeout>]",
		details: []string{"<column>", columnNames(featureColumns())},
		guides:  []string{"feature-flags"},
		most:    anyNumber,
		running: true,
		check:   checkColumns(featureColumns()),
		banner:  func(*call) []string { return []string{"Listing feature flags ..."} },
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			chosen, err := choose(featureColumns(), c.args, []string{"name", "state"})
			if err != nil {
				return err
			}
			s, err := node.ClusterStatus(ctx)
			if err != nil {
				return err
			}
			return printRows(c, chosen, s.FeatureFlags, true)
		}),
	}
}

func enableFeatureCommand() command {
	return command{
		name: "enable_feature_flag", tools: []string{toolCtl}, group: "Feature flags",
		summary: "Switches on a feature that all members of the cluster support",
		usage:   "<all | feature_flag>",
		details: []string{"<feature_flag>", "a flag that list_feature_flags shows, or \"all\""},
		least:   1,
		most:    1,
		running: true,
		banner: func(c *call) []string {
			if c.args[0] == "all" {
				return []string{"Enabling all feature flags ..."}
			}
			return []string{fmt.Sprintf("Enabling feature flag %q ...", c.args[0])}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			err := node.EnableFeature(ctx, c.args[0])
			if admin.CodeOf(err) == admin.CodeNotFound {
				return errorf(exitUsage, "This feature flag is not supported by node %s", c.node)
			}
			return err
		}),
	}
}

func shutdownCommand() command {
	return command{
		name: "shutdown", tools: []string{toolCtl}, group: "Nodes",
		summary: "Stops a node in good order and, on the same machine, returns when its process has ended",
		usage:   "[--wait] [--timeout <timeout>]",
		details: []string{
			"--wait", "return when the process has ended (the default for a node of this machine)",
			"--no-wait", "return at once",
		},
		flags: []flag{{"wait", 0, flagBool}},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			status, err := node.Status(ctx)
			if err != nil {
				return err
			}
			process, err := locate.ProcessOf(status.PID)
			wait, said := c.set["wait"]
			if err != nil || said && !wait {
				return node.Stop(ctx)
			}
			if err := c.message(fmt.Sprintf("Shutting down RabbitMQ node %s running at PID %d", c.node, status.PID)); err != nil {
				return err
			}
			if err := node.Stop(ctx); err != nil {
				return err
			}
			if err := c.message(fmt.Sprintf("Waiting for PID %d to terminate", status.PID)); err != nil {
				return err
			}
			if err := waitFor(ctx, func() (bool, error) { return !process.Alive(), nil }); err != nil {
				return err
			}
			return c.message(fmt.Sprintf("RabbitMQ node %s running at PID %d successfully shut down", c.node, status.PID))
		}),
	}
}

func waitCommand() command {
	return command{
		name: "wait", tools: []string{toolCtl, toolDiagnostics}, group: "Nodes",
		summary: "Returns once the process that a pid file names serves clients",
		usage:   "[<pidfile>] [--pid|-P <pid>] [--timeout <timeout>]",
		details: []string{"<pidfile>", "PID file path", "--pid <pid>", "the process's number, instead of a file"},
		flags:   []flag{{"pid", 'P', flagInteger}},
		most:    1,
		check: func(c *call) error {
			_, pid := c.text["pid"]
			switch {
			case len(c.args) == 0 && !pid:
				return badArguments(`"No pid or pidfile specified"`)
			case len(c.args) > 0 && pid:
				return badArguments(`"Cannot specify both pid and pidfile"`)
			}
			return nil
		},
		run: waitForStart,
	}
}

func waitForStart(ctx context.Context, c *call) error {
	pid := 0
	if len(c.args) == 1 {
		if err := c.message(fmt.Sprintf("Waiting for pid file '%s' to appear", c.args[0])); err != nil {
			return err
		}
		err := waitFor(ctx, func() (bool, error) {
			content, err := os.ReadFile(c.args[0])
			if err != nil {
				return false, nil
			}
			first, _, _ := strings.Cut(string(content), "\n")
			pid, err = strconv.Atoi(strings.TrimSpace(first))
			return err == nil && pid > 0, nil
		})
		if err != nil {
			return err
		}
		if err := c.message(fmt.Sprintf("pid is %d", pid)); err != nil {
			return err
		}
	} else {
		n, err := strconv.Atoi(c.text["pid"])
		if err != nil {
			return badArguments("Invalid options for this command:\n--pid : %s", c.text["pid"])
		}
		pid = n
	}
	if err := c.message(fmt.Sprintf("Waiting for erlang distribution on node '%s' while OS process '%d' is running", c.node, pid)); err != nil {
		return err
	}
	return c.awaitRunningWhile(ctx, pid)
}

// awaitRunningWhile waits until the node runs, as long as its process does.
func (c *call) awaitRunningWhile(ctx context.Context, pid int) error {
	process, err := locate.ProcessOf(pid)
	if err != nil {
		return errorf(exitUnavailable, "process_not_running")
	}
	reached := false
	return waitFor(ctx, func() (bool, error) {
		if !process.Alive() {
			return false, errorf(exitUnavailable, "process_not_running")
		}
		node, err := c.env.Dial(ctx, c.target())
		if err != nil {
			return false, nil
		}
		defer node.Close()
		if !reached {
			reached = true
			if err := c.message(fmt.Sprintf("Waiting for applications 'rabbit_and_plugins' to start on node '%s'", c.node)); err != nil {
				return false, err
			}
		}
		status, err := node.Status(ctx)
		if err != nil || !status.Running {
			return false, nil
		}
		return true, c.message(fmt.Sprintf("Applications 'rabbit_and_plugins' are running on node '%s'", c.node))
	})
}
