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
		summary: "Copies to the mirrors of a queue what they lack",
		usage:   "[--vhost <vhost>] <queue>",
		details: []string{"<queue>", "name of the queue", "--wait", "accepted: the command always waits, and shows on a terminal how far it is"},
		flags:   []flag{{"wait", 0, flagBool}},
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
			done := c.showSync(ctx)
			err := node.SyncQueue(ctx, c.vhost, c.args[0])
			done()
			return synced(c, err)
		}),
	}
}

// syncEvery is how often the progress of a synchronisation is asked for.
const syncEvery = 250 * time.Millisecond

// showSync draws how far the queue's synchronisation is, on a connection of its own, until done is called; only on a terminal. What
// it cannot find out it does not show.
func (c *call) showSync(ctx context.Context) (done func()) {
	bar := c.progress("messages", 0)
	if bar.w == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer bar.end()
		node, err := c.env.Dial(ctx, c.target())
		if err != nil {
			return
		}
		defer node.Close()
		tick := time.NewTicker(syncEvery)
		defer tick.Stop()
		for err == nil {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			err = node.ListQueues(ctx, admin.QueueQuery{VHost: c.vhost, Name: c.args[0], Figures: true}, func(q admin.QueueInfo) error {
				if q.Name == c.args[0] && q.State == "syncing" {
					bar.draw(syncBar(q))
				}
				return nil
			})
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// syncBar is the line for a queue that is being synchronised, by its master's own figures.
func syncBar(q admin.QueueInfo) string {
	left := time.Duration(q.SyncTimeToGo * float64(time.Second))
	return barOf("messages", q.Syncing, q.Syncing+q.SyncToGo, q.SyncRate, left)
}

func cancelSyncQueueCommand() command {
	return command{
		name: "cancel_sync_queue", tools: []string{toolCtl}, group: "Replication",
		summary: "Ends a synchronisation; what was copied is kept for the next",
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
