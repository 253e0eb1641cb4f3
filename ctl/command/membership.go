package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"warren/ctl/admin"
	"warren/ctl/locate"
)

// Commands that change which nodes make up the cluster.

// membershipCommands are those of this file, in the order of the help.
func membershipCommands() []command {
	return []command{
		resetCommand(false), startAppCommand(), stopAppCommand(),
		changeNodeTypeCommand(), forceBootCommand(), resetCommand(true), forgetNodeCommand(), joinClusterCommand(),
		renameNodeCommand(), updateNodesCommand(),
	}
}

// stoppedState is the State of a node whose application is stopped.
const stoppedState = "stopped"

// requireStopped refuses a command of a node whose application runs, before the banner, as RabbitMQ's tools do.
func requireStopped(ctx context.Context, c *call) error {
	node, err := c.client(ctx)
	if err != nil {
		return err
	}
	status, err := node.Status(ctx)
	if err != nil {
		return err
	}
	if status.State != stoppedState {
		return &usageError{status: exitUsage, state: true, text: "this command requires the 'rabbit' app to be stopped on the " +
			"target node. Stop it with 'rabbitmqctl stop_app'."}
	}
	return nil
}

// awaitStatus asks the node anew until its status fits: the connection that asked for the change ends with it.
func awaitStatus(ctx context.Context, c *call, fits func(admin.NodeStatus) bool) error {
	return waitFor(ctx, func() (bool, error) {
		node, err := c.env.Dial(ctx, Target{Node: c.node, Address: c.text["address"], CookieFile: c.text["cookie-file"]})
		if err != nil {
			return false, nil // its listener is closed for a moment
		}
		defer node.Close()
		status, err := node.Status(ctx)
		return err == nil && fits(status), nil
	})
}

func stopAppCommand() command {
	return command{
		name: "stop_app", tools: []string{toolCtl}, group: "Nodes",
		summary: "Stops the broker; the process stays up and waits for start_app",
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Stopping rabbit application on node %s ...", c.node)}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			status, err := node.Status(ctx)
			if err != nil || status.State == stoppedState {
				return err
			}
			if err := node.StopApp(ctx); err != nil {
				return err
			}
			return awaitStatus(ctx, c, func(s admin.NodeStatus) bool { return s.State == stoppedState })
		}),
	}
}

func startAppCommand() command {
	return command{
		name: "start_app", tools: []string{toolCtl}, group: "Nodes",
		summary: "Starts the broker again in a process where stop_app stopped it",
		banner:  func(c *call) []string { return []string{fmt.Sprintf("Starting node %s ...", c.node)} },
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			if err := node.StartApp(ctx); err != nil {
				return err
			}
			return awaitStatus(ctx, c, func(s admin.NodeStatus) bool { return s.Running })
		}),
	}
}

func resetCommand(force bool) command {
	cmd := command{
		name: "reset", tools: []string{toolCtl}, group: "Nodes",
		summary: "Has a stopped node leave its cluster and forget everything that it holds",
		guides:  []string{"clustering"},
		require: requireStopped,
		banner:  func(c *call) []string { return []string{fmt.Sprintf("Resetting node %s ...", c.node)} },
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			err := node.Reset(ctx, force)
			if admin.CodeOf(err) == admin.CodeUnreachable {
				return errorf(exitUnavailable, "none of the other members of its cluster can be asked to let %s go: %s\n"+
					"force_reset does without; run forget_cluster_node on one of them then", c.node, textOf(err))
			}
			return err
		}),
	}
	if force {
		cmd.name, cmd.group, cmd.summary = "force_reset", "Cluster", "Empties a stopped node without telling its cluster"
		cmd.banner = func(c *call) []string { return []string{fmt.Sprintf("Forcefully resetting node %s ...", c.node)} }
	}
	return cmd
}

// badNodeType is what is said of a type that is neither of the two.
func badNodeType() error {
	return &usageError{status: exitDataErr, text: "Bad argument: The node type must be either disc or ram."}
}

// errNoRAM refuses what only RabbitMQ has.
func errNoRAM() error {
	return errorf(exitUnavailable, "there are no RAM nodes here: every node keeps the metadata on its disk")
}

func joinClusterCommand() command {
	return command{
		name: "join_cluster", tools: []string{toolCtl}, group: "Cluster",
		summary: "Makes a stopped, empty node a member of another node's cluster",
		usage:   "[--disc|--ram] <existing_cluster_member>",
		details: []string{
			"<existing_cluster_member>", "a running member of that cluster",
			"--disc", "the only kind there is: every node keeps its metadata on disk",
			"--ram", "accepted for old scripts; the node keeps its metadata on disk all the same",
		},
		guides: []string{"clustering", "cluster-formation"},
		flags:  []flag{{"disc", 0, flagBool}, {"ram", 0, flagBool}},
		least:  1,
		most:   1,
		check: func(c *call) error {
			if c.set["disc"] && c.set["ram"] {
				return badNodeType()
			}
			return nil
		},
		require: requireStopped,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Clustering node %s with %s", c.node, c.args[0])}
		},
		run: withClient(joinCluster),
	}
}

func joinCluster(ctx context.Context, c *call, node Client) error {
	if c.set["ram"] {
		return errNoRAM()
	}
	target, err := locate.NodeName(c.args[0], c.env.Hostname)
	if err != nil {
		return err
	}
	err = node.JoinCluster(ctx, target)
	switch admin.CodeOf(err) {
	case admin.CodeAlreadyExists:
		return c.message(textOf(err))
	case admin.CodeRefused:
		return errorf(exitSoftware, "%s", textOf(err))
	case admin.CodeUnreachable:
		return &unreachableError{Node: target, Reasons: strings.Split(textOf(err), "\n"), Err: err}
	}
	return err
}

// textOf is a refusal's text without its code.
func textOf(err error) string {
	_, text, ok := strings.Cut(err.Error(), ": ")
	if !ok {
		return err.Error()
	}
	return text
}

func forgetNodeCommand() command {
	return command{
		name: "forget_cluster_node", tools: []string{toolCtl}, group: "Cluster",
		summary: "Strikes a stopped or lost node off the list of members",
		usage:   "[--offline] <existing_cluster_member_node>",
		details: []string{
			"--offline", "work on the data directory of a stopped node of this machine",
		},
		guides: []string{"clustering", "cluster-formation"},
		flags:  []flag{{"offline", 0, flagBool}},
		least:  1,
		most:   1,
		require: func(ctx context.Context, c *call) error {
			if !c.set["offline"] {
				return c.requireRunning(ctx)
			}
			return requireOffline(ctx, c)
		},
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Removing node %s from the cluster", c.args[0])}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			target, err := locate.NodeName(c.args[0], c.env.Hostname)
			if err != nil {
				return err
			}
			err = node.ForgetNode(ctx, target)
			switch admin.CodeOf(err) {
			case admin.CodeNotFound:
				return errorf(exitUnavailable, "{:not_a_cluster_node, 'The node selected is not in the cluster.'}")
			case admin.CodeInUse:
				return errorf(exitUnavailable, "RabbitMQ on node %[1]s must be stopped with 'rabbitmqctl -n %[1]s stop_app' before it can be removed", target)
			}
			return err
		}),
	}
}

// requireOffline refuses what RabbitMQ does to the files of a node that does not run: here "warren recover" does that.
func requireOffline(ctx context.Context, c *call) error {
	node, err := c.client(ctx)
	if err == nil {
		_, err = node.Status(ctx)
	}
	if err == nil {
		return &usageError{status: exitUsage, state: true, text: "this command requires the target node to be stopped."}
	}
	return errorf(exitUnavailable, "%s is not done to the files of a stopped node here. If the others are lost for good, "+
		"make this node a cluster of its own with 'warren recover'; it forgets them", c.command.name)
}

func changeNodeTypeCommand() command {
	return command{
		name: "change_cluster_node_type", tools: []string{toolCtl}, group: "Cluster",
		summary: "Does nothing: every node keeps its metadata on disk",
		usage:   "<disc | ram>",
		details: []string{"<disc | ram>", "New node type"},
		guides:  []string{"clustering"},
		least:   1,
		most:    1,
		check: func(c *call) error {
			if t := c.args[0]; t != "disc" && t != "disk" && t != "ram" {
				return badNodeType()
			}
			return nil
		},
		require: requireStopped,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Turning %s into a %s node", c.node, c.args[0])}
		},
		run: func(_ context.Context, c *call) error {
			if c.args[0] == "ram" {
				return errNoRAM()
			}
			return c.message("Node type is already disc")
		},
	}
}

func forceBootCommand() command {
	return command{
		name: "force_boot", tools: []string{toolCtl}, group: "Cluster",
		summary: "Lets a stopped node start without waiting for the peers it knew",
		guides:  []string{"clustering"},
		run: func(ctx context.Context, c *call) error {
			err := requireStopped(ctx, c)
			var usage *usageError
			if errors.As(err, &usage) {
				return err
			}
			return errorf(exitUnavailable, "A node does not start against the majority here: what the others decided since would be lost. "+
				"If they are lost for good, stop this node and run 'warren recover'")
		},
	}
}

func renameNodeCommand() command {
	return command{
		name: "rename_cluster_node", tools: []string{toolCtl}, group: "Cluster",
		summary: "Refuses, and says how a node gets another name",
		usage:   "<oldnode1> <newnode1> [oldnode2] [newnode2] ...",
		details: []string{"<oldnode>", "Original node name", "<newnode>", "New node name"},
		guides:  []string{"clustering"},
		least:   2,
		most:    anyNumber,
		run: func(ctx context.Context, c *call) error {
			node, err := c.client(ctx)
			if err == nil {
				_, err = node.Status(ctx)
			}
			if err == nil {
				return &usageError{status: exitUsage, state: true, text: "this command requires the target node to be stopped."}
			}
			return errorf(exitUnavailable, "A node cannot be renamed: the others know its votes and its copies of queues by its name. "+
				"Let a node of the new name join, and then run forget_cluster_node for the old one")
		},
	}
}

func updateNodesCommand() command {
	return command{
		name: "update_cluster_nodes", tools: []string{toolCtl}, group: "Cluster",
		summary: "Does nothing: members learn of each other from the log that they share",
		usage:   "<seed_node>",
		details: []string{"<seed_node>", "a member of the cluster"},
		guides:  []string{"clustering"},
		least:   1,
		most:    1,
		require: requireStopped,
		run: func(_ context.Context, c *call) error {
			return c.message("Nothing to be done: a node learns who the members are from the others when it starts")
		},
	}
}
