package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// The log and what happens, as operators watch them.

func logCommands() []command {
	return []command{logLocationCommand(), logTailCommand(), logTailStreamCommand(), eventStreamCommand()}
}

func logLocationCommand() command {
	cmd := diagnostic("log_location", "Says where the node's log goes", "[--all|-a] [--timeout <timeout>]",
		"Log file location(s) on node %s ...", func(ctx context.Context, c *call, node Client) error {
			s, err := node.Status(ctx)
			if err != nil {
				return err
			}
			if len(s.LogFiles) == 0 {
				return c.message("<stderr>")
			}
			return c.message(strings.Join(s.LogFiles, "\n"))
		})
	cmd.group, cmd.flags = groupConfiguration, []flag{{"all", 'a', flagBool}}
	return cmd
}

func logTailCommand() command {
	const standard = "50"
	lines := func(c *call) string {
		if n, ok := c.text["number"]; ok {
			return n
		}
		return standard
	}
	cmd := diagnostic("log_tail", "Prints the newest lines of the node's log", "[--number|-N <number>] [--timeout <timeout>]", "",
		func(ctx context.Context, c *call, node Client) error {
			n, err := strconv.Atoi(lines(c))
			if err != nil {
				return badArguments("Invalid options for this command:\n--number : %s", lines(c))
			}
			return node.Log(ctx, admin.LogQuery{Lines: n}, func(l admin.LogLine) error { return c.logLine(l) })
		})
	cmd.guides = nil
	cmd.details = []string{"<number>", "number of lines to print. Defaults to 50. A node keeps the last 10000 in memory"}
	cmd.flags = []flag{{"number", 'N', flagInteger}}
	cmd.banner = line(func(c *call) string { return fmt.Sprintf("Last %s log lines on node %s ...", lines(c), c.node) })
	return cmd
}

func (c *call) logLine(l admin.LogLine) error {
	if l.Missed > 0 {
		print(c.env.Stderr, fmt.Sprintf("Warning: %d lines came too fast and are left out\n", l.Missed))
	}
	_, err := io.WriteString(c.env.Stdout, l.Text+"\n") // an error ends the stream: the reader is gone
	return err
}

// durationFlag is how long a stream is watched.
var durationFlag = flag{"duration", 'd', flagInteger}

// duration is how long to watch: 0 for ever.
func (c *call) duration() (time.Duration, error) {
	text, ok := c.text["duration"]
	if !ok {
		return 0, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 32)
	if err != nil || seconds < 0 {
		return 0, badArguments("Invalid options for this command:\n--duration : %s", text)
	}
	return max(time.Duration(seconds)*time.Second, time.Nanosecond), nil
}

// watch asks again and again while no duration is given: one request has a time limit.
func (c *call) watch(ctx context.Context, ask func(ctx context.Context, d time.Duration, again bool) error) error {
	d, err := c.duration()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), syncLimit)
	defer cancel()
	for again := false; ; again = true {
		err := ask(ctx, d, again)
		if d > 0 || err != nil && admin.CodeOf(err) != admin.CodeTimeout {
			return err
		}
	}
}

func logTailStreamCommand() command {
	cmd := diagnostic("log_tail_stream", "Prints the node's log as it is written", "[--duration|-d <seconds>] [--timeout <timeout>]", "",
		func(ctx context.Context, c *call, node Client) error {
			return c.watch(ctx, func(ctx context.Context, d time.Duration, _ bool) error {
				return node.Log(ctx, admin.LogQuery{Follow: true, For: d}, c.logLine)
			})
		})
	cmd.guides, cmd.details = nil, []string{"<duration_in_seconds>", "end after so many seconds; without it, at Ctrl-C"}
	cmd.flags = []flag{durationFlag}
	cmd.check = func(c *call) error { _, err := c.duration(); return err }
	cmd.banner = line(func(c *call) string {
		if d, ok := c.text["duration"]; ok {
			return fmt.Sprintf("Streaming logs from node %s for %s seconds ...", c.node, d)
		}
		return fmt.Sprintf("Streaming logs from node %s ...", c.node)
	})
	return cmd
}

func eventStreamCommand() command {
	cmd := diagnostic("consume_event_stream", "Prints what happens on the node as JSON, a line for each event",
		"[--duration|-d <seconds>] [--pattern <pattern>] [--timeout <timeout>]", "",
		func(ctx context.Context, c *call, node Client) error {
			return c.watch(ctx, func(ctx context.Context, d time.Duration, _ bool) error {
				return node.Events(ctx, admin.EventQuery{Pattern: c.text["pattern"], For: d}, c.event)
			})
		})
	cmd.guides, cmd.banner = nil, nil
	cmd.details = []string{
		"<duration_in_seconds>", "end after so many seconds; without it, at Ctrl-C",
		"<pattern>", "only events whose names match",
	}
	cmd.flags = []flag{durationFlag, {"pattern", 0, flagText}}
	cmd.check = func(c *call) error { _, err := c.duration(); return err }
	return cmd
}

// event prints one event as a JSON object on a line of its own: the name first, the time last, as RabbitMQ does.
func (c *call) event(e admin.Event) error {
	if e.Missed > 0 {
		print(c.env.Stderr, fmt.Sprintf("Warning: %d events came too fast and are left out\n", e.Missed))
	}
	name, err := format.JSON(e.Name)
	if err != nil {
		return err
	}
	fields := strings.TrimSuffix(strings.TrimPrefix(string(e.Fields), "{"), "}")
	if fields != "" {
		fields += ","
	}
	text := fmt.Sprintf(`{"event":%s,%s"timestamp_in_ms":%d}`, name, fields, e.At)
	if !json.Valid([]byte(text)) {
		return fmt.Errorf("the node's event %q has fields that are not JSON", e.Name)
	}
	_, err = io.WriteString(c.env.Stdout, text+"\n")
	return err
}
