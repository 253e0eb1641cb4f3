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
		summary: "Puts the node in maintenance mode. Such nodes will not serve any client traffic or host any primary queue replicas",
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
		summary: "Puts the node out of maintenance and into regular operating mode. Such nodes will again serve client traffic and " +
			"host primary queue replicas",
		guides: []string{"upgrade"},
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
		summary: "Waits for all classic mirrored queues hosted on the target node to have at least one synchronized mirror online. " +
			"This makes sure that if target node is shut down, there will be an up-to-date mirror to promote.",
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
		summary: "Waits for all quorum queues to have an above minimum online quorum. This makes sure that no queues would lose their " +
			"quorum if the target node is shut down",
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
		summary: "Health check that exits with a non-zero code if there are queues with minimum online quorum (queues that would lose " +
			"their quorum if the target node is shut down)",
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
		summary: "Health check that exits with a non-zero code if there are classic mirrored queues without online synchronised mirrors " +
			"(queues that would potentially lose data if the target node is shut down)",
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
		summary: "Enables a feature flag or all supported feature flags on the target node",
		usage:   "<all | feature_flag>",
		details: []string{"<feature_flag>", "name of the feature flag to enable, or \"all\" to enable all supported flags"},
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
		summary: "Stops RabbitMQ and its runtime (Erlang VM). Monitors progress for local nodes. Does not require a PID file path.",
		usage:   "[--wait] [--timeout <timeout>]",
		details: []string{
			"--wait", "if set, will wait for target node to terminate (by inferring and monitoring its PID file). Only works for local nodes.",
			"--no-wait", "if set, will not wait for target node to terminate",
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
		summary: "Waits for RabbitMQ node startup by monitoring a local PID file. See also 'rabbitmqctl await_online_nodes'",
		usage:   "[<pidfile>] [--pid|-P <pid>] [--timeout <timeout>]",
		details: []string{"<pidfile>", "PID file path", "--pid <pid>", "operating system PID to monitor"},
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
