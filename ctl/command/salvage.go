package command

import (
	"context"
	"fmt"
	"time"

	"warren/ctl/admin"
)

// salvageLimit is the longest time that salvage may take; it goes on where it was when it is called again.
const salvageLimit = 24 * time.Hour

func asideColumns() []column[admin.AsideSet] {
	type a = admin.AsideSet
	return []column[a]{
		fixed("set", func(a a) any { return a.Name }),
		fixed("vhost", func(a a) any { return a.VHost }),
		fixed("queue", func(a a) any { return a.Queue }),
		fixed("messages", func(a a) any { return a.Messages }),
		fixed("message_bytes", func(a a) any { return a.Bytes }),
		fixed("published", func(a a) any { return a.Published }),
		fixed("set_aside", func(a a) any { return time.Unix(a.Time, 0).UTC().Format(time.RFC3339) }),
		fixed("reason", func(a a) any { return a.Reason }),
		fixed("path", func(a a) any { return a.Path }),
	}
}

// salvageCommand has no counterpart in RabbitMQ, which deletes what a mirror has to give up.
func salvageCommand() command {
	return command{
		name: "salvage", tools: []string{toolCtl}, group: "Queues",
		summary: "Lists the messages that copies on a node had to give up, or publishes a set of them again",
		usage:   "[<set>] [--vhost <vhost>] [--to-queue <queue> | --exchange <exchange> [--routing-key <key>]] [--keep] [--restart]",
		details: []string{
			"<set>", "name of a set, as the command lists it without this argument",
			"--vhost <vhost>", "where to; without it the vhost of the set's queue",
			"--to-queue <queue>", "queue to publish to; without it the set's own",
			"--exchange <exchange>", "exchange to publish to",
			"--routing-key <key>", "routing key for it; without it that of each message",
			"--keep", "keep the set afterwards",
			"--restart", "from the first message, though some were published before",
		},
		guides: []string{"ha"},
		flags: []flag{
			{"to-queue", 0, flagText}, {"exchange", 0, flagText}, {"routing-key", 0, flagText}, {"keep", 0, flagBool}, {"restart", 0, flagBool},
		},
		most:    1,
		running: true,
		limit:   salvageLimit,
		check:   checkSalvage,
		banner: func(c *call) []string {
			if len(c.args) == 0 {
				return []string{fmt.Sprintf("Listing what copies on node %s had to give up ...", c.node)}
			}
			return []string{fmt.Sprintf("Publishing what was set aside as %s on node %s again ...", c.args[0], c.node)}
		},
		run: withClient(salvage),
	}
}

// checkSalvage refuses options that do not go together.
func checkSalvage(c *call) error {
	_, queue := c.text["to-queue"]
	_, exchange := c.text["exchange"]
	_, key := c.text["routing-key"]
	switch {
	case len(c.args) == 0 && (queue || exchange || key || c.set["keep"] || c.set["restart"]):
		return badArguments("not enough arguments: which set?")
	case queue && exchange:
		return badArguments("--to-queue and --exchange exclude each other")
	case key && !exchange:
		return badArguments("--routing-key needs --exchange")
	case exchange && c.text["exchange"] == "":
		return badArguments("--exchange must not be empty: --to-queue publishes to a queue")
	}
	return nil
}

func salvage(ctx context.Context, c *call, node Client) error {
	if len(c.args) == 0 {
		sets, err := node.ListSalvage(ctx)
		if err != nil {
			return err
		}
		return table(c, sets, asideColumns()...)
	}
	done, err := node.Salvage(ctx, admin.Salvage{
		Set: c.args[0], VHost: c.text["vhost"], Queue: c.text["to-queue"], Exchange: c.text["exchange"], RoutingKey: c.text["routing-key"],
		Keep: c.set["keep"], Restart: c.set["restart"],
	})
	if code := admin.CodeOf(err); code == admin.CodeNotFound || code == admin.CodeInUse {
		return errorf(exitUnavailable, "%s", textOf(err))
	} else if err != nil {
		return err
	}
	text := fmt.Sprintf("%d messages are published to %s and confirmed", done.Published, done.Target)
	if done.Before > 0 {
		text += fmt.Sprintf("; %d were before", done.Before)
	}
	if done.Damage != "" {
		return errorf(exitUnavailable, "%s.\nThe set is kept: parts of it could not be read:\n%s", text, done.Damage)
	}
	if done.Kept {
		return c.message(text + ". The set is kept")
	}
	return c.message(text + ". The set is removed")
}
