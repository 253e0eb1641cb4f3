package command

import (
	"context"
	"fmt"

	"warren/ctl/admin"
)

// Commands about quorum queues and streams. There are none: each looks whether the queue exists, and says of one that does what
// RabbitMQ's tools say of a classic queue.

func quorumCommands() []command {
	quorum := []string{"quorum-queues"}
	const queueDetail = "quorum queue name"
	one := func(name, group, summary, usage string, args int, banner func(*call) string, refused string) command {
		return command{
			name: name, tools: []string{toolQueues}, group: group, summary: summary, usage: usage, guides: quorum, running: true,
			details: []string{"<queue>", queueDetail}, least: args, most: args, banner: line(banner), run: withClient(notQuorum(refused)),
		}
	}
	status := one("quorum_status", groupMonitoring, "Refuses: there are no quorum queues here", "[--vhost <vhost>] <queue>", 1,
		func(c *call) string {
			return fmt.Sprintf("Status of quorum queue %s on node %s ...", c.args[0], c.node)
		},
		"Cannot get quorum status of a classic queue")
	stream := one("stream_status", groupMonitoring, "Refuses: there are no streams here", "[--vhost <vhost>] [--tracking] <stream>", 1,
		func(c *call) string { return fmt.Sprintf("Status of stream %s on node %s ...", c.args[0], c.node) },
		"Cannot get stream status of a classic queue")
	stream.flags, stream.guides = []flag{{"tracking", 0, flagBool}}, []string{"streams"}
	reclaim := one("reclaim_quorum_memory", groupOperations,
		"Refuses: there are no quorum queues here", "[--vhost <vhost>] <quorum queue>", 1,
		func(c *call) string { return fmt.Sprintf("Will flush Raft WAL of quorum queue %s ...", c.args[0]) },
		"This operation is not applicable to classic queues")
	status.tools, stream.tools, reclaim.tools = []string{toolQueues, toolDiagnostics}, []string{toolQueues, toolDiagnostics}, []string{toolQueues, toolDiagnostics}
	return []command{
		one("add_member", "Replication", "Refuses: there are no quorum queues here", "[--vhost <vhost>] <queue> <node> [--timeout <timeout>]", 2,
			func(c *call) string {
				return fmt.Sprintf("Adding a replica for queue %s on node %s...", c.args[0], c.args[1])
			}, "Cannot add members to a classic queue"),
		one("delete_member", "Replication", "Refuses: there are no quorum queues here", "[--vhost <vhost>] <queue> <node>", 2,
			func(c *call) string {
				return fmt.Sprintf("Removing a replica of queue %s on node %s...", c.args[0], c.args[1])
			}, "Cannot add members to a classic queue"), // RabbitMQ's words
		one("peek", groupMonitoring, "Refuses: there are no quorum queues here", "[--vhost <vhost>] <queue> <position> [--timeout <timeout>]", 2,
			func(c *call) string {
				return fmt.Sprintf("Peeking at quorum queue %s at position %s on node %s ...", c.args[0], c.args[1], c.node)
			}, "Cannot peek into a classic queue"),
		status, stream, reclaim, growCommand(), shrinkCommand(),
	}
}

// notQuorum refuses: not_found of a queue that does not exist, refused of one that does.
func notQuorum(refused string) func(context.Context, *call, Client) error {
	return func(ctx context.Context, c *call, node Client) error {
		found := false
		err := node.ListQueues(ctx, admin.QueueQuery{VHost: c.vhost, Name: c.args[0]}, func(q admin.QueueInfo) error {
			found = found || q.Name == c.args[0]
			return nil
		})
		switch {
		case err != nil:
			return err
		case !found:
			return errorf(exitUnavailable, "not_found")
		}
		return errorf(exitUnavailable, "%s", refused)
	}
}

func growCommand() command {
	return command{
		name: "grow", tools: []string{toolQueues}, group: "Cluster", guides: []string{"quorum-queues"}, least: 2, most: 2, running: true,
		summary: "Finds no quorum queue to grow; policies place the mirrors of classic ones",
		usage:   "<node> <all | even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>]",
		flags:   []flag{{"vhost-pattern", 0, flagText}, {"queue-pattern", 0, flagText}, {"errors-only", 0, flagBool}},
		check: func(c *call) error {
			if c.args[1] != "all" && c.args[1] != "even" {
				return badArguments("Invalid strategy: %s. Please use one of: all, even", c.args[1])
			}
			return nil
		},
		banner: line(func(c *call) string { return fmt.Sprintf("Growing %s quorum queues on %s...\n", c.args[1], c.args[0]) }),
		run:    func(context.Context, *call) error { return nil }, // there are no quorum queues, as where RabbitMQ has none
	}
}

func shrinkCommand() command {
	return command{
		name: "shrink", tools: []string{toolQueues}, group: "Cluster", guides: []string{"quorum-queues"}, least: 1, most: 1, running: true,
		summary: "Finds no quorum queue to shrink; policies place the mirrors of classic ones", usage: "<node> [--errors-only]",
		flags:  []flag{{"errors-only", 0, flagBool}},
		banner: line(func(c *call) string { return fmt.Sprintf("Shrinking quorum queues on %s...\n", c.args[0]) }),
		run:    func(context.Context, *call) error { return nil },
	}
}
