package command

import (
	"context"
	"fmt"

	"warren/ctl/admin"
	"warren/ctl/format"
	"warren/ctl/locate"
)

// Commands by which an operator decides about the masters of mirrored queues. RabbitMQ has none of them.

func transferCommand() command {
	return command{
		name: "transfer", tools: []string{toolCtl}, group: "Queues",
		summary: "Moves the master of a mirrored queue to a node with a synchronised mirror, without loss",
		usage:   "[--vhost <vhost>] <queue> <node>",
		details: []string{"<queue>", "Queue name", "<node>", "Node of a synchronised mirror, the new master"},
		guides:  []string{"ha"},
		least:   2,
		most:    2,
		running: true,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Moving the master of queue '%s' in vhost '%s' to %s ...", c.args[0], c.vhost, c.args[1])}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			to, err := locate.NodeName(c.args[1], c.env.Hostname)
			if err != nil {
				return err
			}
			err = node.TransferQueue(ctx, admin.QueueOnNode{VHost: c.vhost, Name: c.args[0], Node: to})
			if err != nil {
				return noQueue(c, err)
			}
			return c.done()
		}),
	}
}

func promoteCommand() command {
	return command{
		name: "promote", tools: []string{toolCtl}, group: "Queues",
		summary: "Has a queue that is down go on from the copy of a mirror, after telling what would be lost",
		usage:   "[--vhost <vhost>] <queue> [--on <node>] [--yes]",
		details: []string{
			"<queue>", "Queue name",
			"--on <node>", "node whose copy is to become the master; without it the copy that loses least is chosen",
			"--yes", "do it; without this option nothing is changed",
		},
		guides:  []string{"ha"},
		flags:   []flag{{"on", 0, flagText}, {"yes", 0, flagBool}},
		least:   1,
		most:    1,
		running: true,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Looking for a copy of queue '%s' in vhost '%s' that can be promoted ...", c.args[0], c.vhost)}
		},
		run: withClient(promote),
	}
}

func promote(ctx context.Context, c *call, node Client) error {
	at := admin.QueueOnNode{VHost: c.vhost, Name: c.args[0]}
	if on, ok := c.text["on"]; ok {
		var err error
		if at.Node, err = locate.NodeName(on, c.env.Hostname); err != nil {
			return err
		}
	}
	plan, err := node.PlanPromotion(ctx, at)
	if err != nil {
		return noQueue(c, err)
	}
	print(c.env.Stdout, explainPlan(plan))
	if !c.set["yes"] {
		return errorf(exitUnavailable, "nothing was changed; the same command with --yes does it")
	}
	if err := node.PromoteQueue(ctx, plan); err != nil {
		return err
	}
	return c.message(fmt.Sprintf("The copy on %s is the master", plan.Node))
}

// explainPlan says what a promotion would cost.
func explainPlan(p admin.PromotionPlan) string {
	held := fmt.Sprintf("holds %d messages", p.Messages)
	if p.Messages < 0 {
		held = "holds an unknown number of messages"
	}
	if p.Vouched {
		return fmt.Sprintf("The copy on %s %s and was synchronised when the queue went down: nothing that was confirmed is lost\n", p.Node, held)
	}
	return fmt.Sprintf("The copy on %s %s and was NOT synchronised when the queue went down.\n"+
		"Messages that only other copies hold, such as that of its last master %s, are lost to the queue; when such a copy\n"+
		"comes back it is set aside on its node's disk and not merged.\n", p.Node, held, p.LastMaster)
}

// noQueue is the answer about a queue that does not exist.
func noQueue(c *call, err error) error {
	if admin.CodeOf(err) == admin.CodeNotFound {
		return errorf(exitUnavailable, "no queue '%s' in vhost '%s'", c.args[0], c.vhost)
	}
	return err
}

func rebalanceCommand() command {
	supported := func(kind string) bool { return kind == "all" || kind == "classic" || kind == "quorum" }
	return command{
		name: "rebalance", tools: []string{toolQueues}, group: "Queues",
		summary: "Spreads the masters of mirrored queues evenly over the running nodes, without loss",
		usage:   "< all | classic | quorum > [--vhost-pattern <pattern>] [--queue-pattern <pattern>]",
		details: []string{
			"<type>", "which queues: all, classic or quorum (of which there are none)",
			"--queue-pattern <pattern>", "only queues whose names match",
			"--vhost-pattern <pattern>", "only virtual hosts whose names match",
		},
		guides:  []string{"quorum-queues"},
		flags:   []flag{{"queue-pattern", 0, flagText}, {"vhost-pattern", 0, flagText}},
		least:   1,
		most:    1,
		running: true,
		banner: func(c *call) []string {
			if !supported(c.args[0]) {
				return nil
			}
			return []string{fmt.Sprintf("Re-balancing leaders of %s queues...", c.args[0])}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			if !supported(c.args[0]) {
				return errorf(exitUnavailable, "type %s is not supported. Try one of all, classic, quorum.", c.args[0])
			}
			return rebalance(ctx, c, node)
		}),
	}
}

// rebalance prints what RabbitMQ prints: a drawn table whatever -q and -s say. There are no quorum queues.
func rebalance(ctx context.Context, c *call, node Client) error {
	var counts []admin.NodeMasters
	if c.args[0] != "quorum" {
		var err error
		counts, err = node.Rebalance(ctx, admin.Rebalancing{VHostPattern: c.text["vhost-pattern"], QueuePattern: c.text["queue-pattern"]})
		if err != nil {
			return err
		}
	}
	columns := []string{"Node name", "Number of quorum queues", "Number of replicated classic queues"}
	if c.format == format.FormatJSON {
		value := []any{}
		for _, n := range counts {
			value = append(value, []any{[]any{columns[0], n.Node}, []any{columns[1], 0}, []any{columns[2], n.Masters}})
		}
		return c.document(map[string]any{"node": c.node, "result": "ok", "value": value})
	}
	if len(counts) == 0 {
		rows := format.NewRows(c.env.Stdout, format.FormatPretty, []string{"Output"}, true, true)
		if err := rows.Row([]any{"[]"}); err != nil {
			return err
		}
		return rows.Close()
	}
	rows := format.NewRows(c.env.Stdout, format.FormatPretty, columns, true, true)
	for _, n := range counts {
		if err := rows.Row([]any{n.Node, 0, n.Masters}); err != nil {
			return err
		}
	}
	return rows.Close()
}
