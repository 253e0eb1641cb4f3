package command

import (
	"context"
	"fmt"
	"time"

	"warren/ctl/admin"
)

// syncLimit is the longest time that sync_queue waits. As recorded, -t does not shorten it.
const syncLimit = 30 * 24 * time.Hour

func syncQueueCommand() command {
	return command{
		name: "sync_queue", tools: []string{toolCtl}, group: "Replication",
		summary: "Instructs a mirrored queue with unsynchronised mirrors (follower replicas) to synchronise them",
		usage:   "[--vhost <vhost>] <queue>",
		details: []string{"<queue>", "Name of the queue to synchronise"},
		guides:  []string{"ha"},
		least:   1,
		most:    1,
		running: true,
		limit:   syncLimit,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Synchronising queue '%s' in vhost '%s' ...", c.args[0], c.vhost)}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), syncLimit)
			defer cancel()
			return synced(c, node.SyncQueue(ctx, c.vhost, c.args[0]))
		}),
	}
}

func cancelSyncQueueCommand() command {
	return command{
		name: "cancel_sync_queue", tools: []string{toolCtl}, group: "Replication",
		summary: "Instructs a synchronising mirrored queue to stop synchronising itself",
		usage:   "[--vhost <vhost>] <queue>",
		details: []string{"<queue>", "Queue name"},
		guides:  []string{"ha"},
		least:   1,
		most:    1,
		running: true,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf("Stopping synchronising queue '%s' in vhost '%s' ...", c.args[0], c.vhost)}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			return synced(c, node.CancelSyncQueue(ctx, c.vhost, c.args[0]))
		}),
	}
}

// synced is the answer of both commands, as recorded.
func synced(c *call, err error) error {
	switch code := admin.CodeOf(err); code {
	case "":
		return c.done()
	case admin.CodeNotFound, admin.CodeNoSuchVHost:
		return errorf(exitUnavailable, "not_found")
	case admin.CodeNotMirrored:
		return errorf(exitUnavailable, "%s", code)
	case admin.CodeNotSyncing:
		return c.message(string(code))
	}
	return err
}
