package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// Commands about queues.

func listQueuesCommand() command {
	return command{
		name: "list_queues", tools: []string{toolCtl, toolDiagnostics}, group: "Queues",
		summary: "Shows the queues of a virtual host with the columns asked for",
		usage:   "[--vhost <vhost>] [--online] [--offline] [--local] [--no-table-headers] [<column>, ...] [--timeout <timeout>]",
		details: []string{
			"<column>", columnNames(queueColumns()),
			"--online", "only queues whose master runs",
			"--offline", "only queues that are down",
			"--local", "only queues whose master is on this node",
		},
		guides:  []string{"queues"},
		flags:   []flag{{"online", 0, flagBool}, {"offline", 0, flagBool}, {"local", 0, flagBool}},
		most:    anyNumber,
		running: true,
		limit:   time.Minute,
		check:   checkColumns(queueColumns()),
		banner: func(c *call) []string {
			return []string{
				fmt.Sprintf("Timeout: %s seconds ...", format.Text(c.timeout.Seconds())),
				fmt.Sprintf("Listing queues for vhost %s ...", c.vhost),
			}
		},
		run: withClient(listQueues),
	}
}

// unresponsive is the row that says that some queues are missing (exit status 0, as recorded).
func unresponsive(timeout time.Duration) string {
	return fmt.Sprintf("{:badrpc, {:timeout, %s, \"Some queue(s) are unresponsive, use list_unresponsive_queues command.\"}}",
		format.Text(timeout.Seconds()))
}

func listQueues(ctx context.Context, c *call, node Client) error {
	chosen, err := choose(queueColumns(), c.args, []string{"name", "messages"})
	if err != nil {
		return err
	}
	q := admin.QueueQuery{VHost: c.vhost, Online: c.set["online"], Offline: c.set["offline"], Local: c.set["local"]}
	if q.Local || q.Online && q.Offline { // as recorded: --local alone counts, and both are all
		q.Online, q.Offline = false, false
	}
	for _, col := range chosen {
		q.Figures = q.Figures || col.figure || col.name == "state" // of which only the master knows that it is syncing
	}
	rows := c.rows(headers(chosen), false)
	err = node.ListQueues(ctx, q, func(q admin.QueueInfo) error {
		row := make([]any, len(chosen))
		for i, col := range chosen {
			if !col.figure || q.Known {
				row[i] = col.value(q)
			}
		}
		return rows.Row(row)
	})
	late := admin.CodeOf(err) == admin.CodeTimeout || errors.Is(err, context.DeadlineExceeded)
	if err != nil && !late {
		return err
	}
	if err := rows.Close(); err != nil {
		return err
	}
	if late {
		text := unresponsive(c.timeout)
		if c.format.Machine() {
			print(c.env.Stderr, text+"\n")
		} else {
			print(c.env.Stdout, text+"\n")
		}
	}
	return nil
}

// queueColumns are the columns of RabbitMQ's list_queues, and the names that its later versions gave to those of mirrors.
// What Warren does not measure is absent, which these tools print as nothing.
func queueColumns() []column[admin.QueueInfo] {
	type q = admin.QueueInfo
	absent := func(q) any { return nil }
	slaves := func(q q) any { return mirrorList(q, q.Slaves) }
	synchronised := func(q q) any { return mirrorList(q, q.SynchronisedSlaves) }
	return []column[q]{
		fixed("name", func(q q) any { return q.Name }),
		fixed("durable", func(q q) any { return q.Durable }),
		fixed("auto_delete", func(q q) any { return q.AutoDelete }),
		fixed("exclusive", func(q q) any { return q.Exclusive }),
		fixed("arguments", func(q q) any { return argumentTable(q.Arguments) }),
		fixed("policy", func(q q) any { return q.Policy }),
		fixed("pid", func(q q) any { return pidValue(q.PID) }),
		fixed("owner_pid", func(q q) any { return pidValue(q.OwnerPID) }),
		fixed("slave_pids", slaves),
		fixed("synchronised_slave_pids", synchronised),
		fixed("mirror_pids", slaves),
		fixed("synchronised_mirror_pids", synchronised),
		fixed("state", queueState),
		fixed("type", func(q) any { return format.Atom("classic") }),
		fixed("leader", absent),
		fixed("members", absent),
		fixed("online", absent),
		figure("messages", func(q q) any { return q.Messages }),
		figure("messages_ready", func(q q) any { return q.MessagesReady }),
		figure("messages_unacknowledged", func(q q) any { return q.MessagesUnacknowledged }),
		figure("messages_persistent", func(q q) any { return q.MessagesPersistent }),
		figure("messages_ram", func(q q) any { return q.MessagesRAM }),
		figure("messages_ready_ram", absent),
		figure("messages_unacknowledged_ram", absent),
		figure("message_bytes", func(q q) any { return q.MessageBytes }),
		figure("message_bytes_ready", func(q q) any { return q.MessageBytesReady }),
		figure("message_bytes_unacknowledged", func(q q) any { return q.MessageBytesUnacked }),
		figure("message_bytes_persistent", func(q q) any { return q.MessageBytesPersistent }),
		figure("message_bytes_ram", func(q q) any { return q.MessageBytesRAM }),
		figure("memory", func(q q) any { return q.Memory }),
		figure("consumers", func(q q) any { return q.Consumers }),
		figure("consumer_capacity", absent),
		figure("consumer_utilisation", absent),
		figure("exclusive_consumer_pid", func(q q) any { return pidValue(q.ExclusiveConsumerPID) }),
		figure("exclusive_consumer_tag", func(q q) any { return q.ExclusiveConsumerTag }),
		figure("head_message_timestamp", absent),
		figure("disk_reads", absent),
		figure("disk_writes", absent),
		// Warren's own: what promotions of mirrors that were not synchronised have cost, and whether that is all.
		figure("messages_lost", func(q q) any { return q.Lost }),
		figure("messages_lost_unknown", func(q q) any { return q.LostMore }),
		// And how far a synchronisation is. What is to go is estimated; the time in seconds.
		figure("sync_messages_to_go", syncing(func(q q) any { return q.SyncToGo })),
		figure("sync_bytes", syncing(func(q q) any { return q.SyncBytes })),
		figure("sync_bytes_to_go", syncing(func(q q) any { return q.SyncBytesToGo })),
		figure("sync_messages_rate", syncing(func(q q) any { return q.SyncRate })),
		figure("sync_time_to_go", syncing(func(q q) any { return q.SyncTimeToGo })),
	}
}

// mirrorList is absent for a queue that no policy mirrors, and for one that is down.
func mirrorList(q admin.QueueInfo, pids []admin.PID) any {
	if !q.Mirrored || q.State == "down" {
		return nil
	}
	return pidList(pids)
}

// syncing makes a column that is absent unless the queue is being synchronised.
func syncing(value func(admin.QueueInfo) any) func(admin.QueueInfo) any {
	return func(q admin.QueueInfo) any {
		if q.State != "syncing" {
			return nil
		}
		return value(q)
	}
}

func queueState(q admin.QueueInfo) any {
	if q.State == "syncing" {
		return format.Tuple{format.Atom("syncing"), q.Syncing}
	}
	return format.Atom(q.State)
}

func deleteQueueCommand() command {
	return command{
		name: "delete_queue", tools: []string{toolCtl}, group: "Queues",
		summary: "Deletes a queue",
		usage:   "<queue_name> [--if-empty|-e] [--if-unused|-u] [--timeout <timeout>]",
		details: []string{
			"<queue_name>", "name of the queue",
			"--if-empty", "refuse while it has messages",
			"--if-unused", "refuse while it has consumers",
		},
		guides:  []string{"queues"},
		flags:   []flag{{"if-empty", 'e', flagBool}, {"if-unused", 'u', flagBool}},
		least:   1,
		most:    1,
		running: true,
		banner: func(c *call) []string {
			var conditions []string
			if c.set["if-empty"] {
				conditions = append(conditions, "if queue is empty ")
			}
			if c.set["if-unused"] {
				conditions = append(conditions, "if queue is unused ")
			}
			return []string{fmt.Sprintf("Deleting queue '%s' on vhost '%s' %s...", c.args[0], c.vhost, strings.Join(conditions, "and "))}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			n, err := node.DeleteQueue(ctx, admin.QueueDeletion{
				VHost: c.vhost, Name: c.args[0], IfEmpty: c.set["if-empty"], IfUnused: c.set["if-unused"],
			})
			switch admin.CodeOf(err) {
			case "":
				return c.message(fmt.Sprintf("Queue was successfully deleted with %d ready messages", n))
			case admin.CodeNotFound, admin.CodeNoSuchVHost:
				return errorf(exitUsage, "Queue not found")
			case admin.CodeNotEmpty:
				return errorf(exitUsage, "Queue is not empty")
			case admin.CodeInUse:
				return errorf(exitUsage, "Queue is in use")
			}
			return err
		}),
	}
}

func purgeQueueCommand() command {
	return command{
		name: "purge_queue", tools: []string{toolCtl}, group: "Queues",
		summary: "Removes all messages of a queue that wait to be delivered",
		usage:   "<queue> [--timeout <timeout>]",
		details: []string{"<queue>", "name of the queue"},
		guides:  []string{"queues"},
		least:   1,
		most:    1,
		running: true,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Purging queue '%s' in vhost '%s' ...", c.args[0], c.vhost)}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			_, err := node.PurgeQueue(ctx, c.vhost, c.args[0])
			switch admin.CodeOf(err) {
			case "":
				return c.done()
			case admin.CodeNotFound, admin.CodeNoSuchVHost:
				return errorf(exitUnavailable, "not_found")
			}
			return err
		}),
	}
}
