package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"warren/ctl/admin"
	"warren/ctl/format"
	"warren/dataplane/broker/config"
)

// The configuration, the report, and queues that do not answer.

func clusterInfoCommands() []command {
	return []command{
		environmentCommand(), reportCommand(), listUnresponsiveQueuesCommand(),
	}
}

func environmentCommand() command {
	return command{
		name: "environment", tools: readOnly(), group: "Configuration and Environment",
		summary: "Shows each setting of the node and its value, as its configuration file would say it", guides: []string{"configure"},
		banner: line(func(c *call) string { return fmt.Sprintf("Application environment of node %s ...", c.node) }),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			all, err := node.Environment(ctx)
			if err != nil {
				return err
			}
			if c.format == format.FormatJSON {
				settings := make(format.Map, len(all))
				for i, p := range all {
					settings[i] = format.Pair{Name: p.Name, Value: p.Value}
				}
				return c.document(format.Map{{Name: "warren", Value: settings}})
			}
			lines := make([]string, len(all))
			for i, p := range all {
				lines[i] = config.Setting{Key: p.Name, Value: p.Value}.String()
			}
			return c.lines(lines)
		}),
	}
}

// reportCommand runs the commands that look, one after the other.
func reportCommand() command {
	return command{
		name: "report", tools: readOnly(), group: groupMonitoring, guides: []string{"monitoring"}, running: true,
		summary: "Prints all that the other status commands print, one after the other, to be sent along with a question",
		banner:  line(func(c *call) string { return fmt.Sprintf("Reporting server status of node %s ...\n", c.node) }),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			sub := func(vhost, name string, args ...string) error {
				cmd := newTool(toolCtl, c.tool.script).find(name)
				if cmd == nil {
					return nil
				}
				one := *c
				one.command, one.vhost, one.args = cmd, vhost, args
				one.set = map[string]bool{}
				one.printBanner()
				err := cmd.run(ctx, &one)
				print(c.env.Stdout, "\n")
				return err
			}
			for _, name := range []string{"status", "cluster_status", "environment", "list_connections", "list_channels", "list_users"} {
				if err := sub("/", name); err != nil {
					return err
				}
			}
			vhosts, err := node.ListVHosts(ctx)
			if err != nil {
				return err
			}
			for _, v := range vhosts {
				for _, name := range []string{"list_queues", "list_exchanges", "list_bindings", "list_consumers", "list_permissions", "list_policies", "list_parameters"} {
					if err := sub(v.Name, name); err != nil {
						return err
					}
				}
			}
			return nil
		}),
	}
}

// unresponsiveColumns are those of list_queues that need no answer of the queue, and RabbitMQ's recoverable_slaves.
func unresponsiveColumns() []column[admin.QueueInfo] {
	all := slices.DeleteFunc(queueColumns(), func(x column[admin.QueueInfo]) bool { return x.figure })
	return append(all, fixed("recoverable_slaves", func(q admin.QueueInfo) any { return mirrorList(q, q.SynchronisedSlaves) }))
}

func listUnresponsiveQueuesCommand() command {
	return command{
		name: "list_unresponsive_queues", tools: readOnly(), group: groupMonitoring,
		summary: "Asks each queue for a sign of life and lists those that gave none in time",
		usage:   "[--local] [--queue-timeout <milliseconds>] [<column> ...] [--no-table-headers] [--timeout <timeout>]",
		details: []string{
			"<column>", columnNames(unresponsiveColumns()),
			"--queue-timeout <milliseconds>", "how long one queue may take to answer",
		},
		flags: []flag{{"local", 0, flagBool}, {"queue-timeout", 0, flagInteger}, {"all", 0, flagBool}},
		most:  anyNumber, running: true, check: checkColumns(unresponsiveColumns()),
		banner: func(c *call) []string {
			return []string{
				fmt.Sprintf("Timeout: %s seconds ...", format.Text(c.timeout.Seconds())),
				fmt.Sprintf("Listing unresponsive queues for vhost %s ...", c.vhost),
			}
		},
		limit: time.Minute,
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			chosen, err := choose(unresponsiveColumns(), c.args, []string{"name"})
			if err != nil {
				return err
			}
			if ms, err := strconv.ParseInt(c.text["queue-timeout"], 10, 32); err == nil && ms > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
				defer cancel()
			}
			rows := c.rows(headers(chosen), false)
			err = node.ListQueues(ctx, admin.QueueQuery{VHost: c.vhost, Local: c.set["local"], Figures: true}, func(q admin.QueueInfo) error {
				if q.Known || q.State == "down" {
					return nil
				}
				return rows.Row(values(chosen, q))
			})
			if err != nil && admin.CodeOf(err) != admin.CodeTimeout {
				return err
			}
			return rows.Close()
		}),
	}
}
