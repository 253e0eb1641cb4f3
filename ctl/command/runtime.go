package command

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"warren/ctl/admin"
	"warren/dataplane/broker/config"
)

// Commands that change how the running node works, until it restarts.

const (
	groupConfiguration = "Configuration and Environment"
	watermarkUsage     = "<fraction> | absolute <value>"
	diskLimitUsage     = "<disk_limit> | mem_relative <fraction>"
)

func runtimeCommands() []command {
	return []command{
		setDiskFreeLimitCommand(), setLogLevelCommand(), setMemoryWatermarkCommand(), forceGCCommand(),
		listenersSwitchCommand("resume_listeners", "Lets clients connect to the node again",
			"Will resume client connection listeners on node %s. The node will now accept client connections", Client.ResumeListeners),
		listenersSwitchCommand("suspend_listeners", "Keeps new clients from connecting to the node; those that are connected stay",
			"Will suspend client connection listeners on node %s. The node will no longer accept client connections!", Client.SuspendListeners),
	}
}

// amount takes a number with an optional unit apart, as RabbitMQ's tools do.
var amount = regexp.MustCompile(`^-?\d+`)

func badValue(text string) *usageError { return &usageError{status: exitDataErr, text: text} }

// bytesOf is an amount of memory: a whole number, with a unit (k, kB, KiB, …) or without.
func bytesOf(text string) (uint64, error) {
	n, err := config.ParseBytes(text)
	switch {
	case err == nil:
		return n, nil
	case !amount.MatchString(text):
		return 0, badValue("Bad argument.")
	case regexp.MustCompile(`^-?\d+[.,]`).MatchString(text):
		return 0, badValue("Bad argument: The threshold should be an integer.")
	case text[0] == '-':
		return 0, badValue("Bad argument: The threshold should not be negative.")
	}
	return 0, badValue("Bad argument: Invalid units.")
}

// setting checks the arguments of a limit that is given as one word, or as keyword and value.
func setting(keyword string) func(*call) error {
	return func(c *call) error {
		words := 1
		if len(c.args) > 0 && c.args[0] == keyword {
			words = 2
		}
		switch {
		case len(c.args) < words:
			return badArguments("not enough arguments.")
		case len(c.args) > words:
			return badArguments("too many arguments.")
		}
		return nil
	}
}

func watermark(c *call) (t admin.Threshold, err error) {
	if err := setting("absolute")(c); err != nil {
		return t, err
	}
	if len(c.args) == 2 {
		t.Absolute, err = bytesOf(c.args[1])
		return t, err
	}
	if t.Relative, err = strconv.ParseFloat(c.args[0], 64); err != nil {
		return t, badValue("Bad argument.")
	}
	if !(t.Relative >= 0 && t.Relative <= 1) {
		return t, badValue("Bad argument: The threshold should be a fraction between 0.0 and 1.0")
	}
	return t, nil
}

func setMemoryWatermarkCommand() command {
	return command{
		name: "set_vm_memory_high_watermark", tools: []string{toolCtl}, group: groupConfiguration, usage: watermarkUsage,
		summary: "Says at how much memory the node blocks publishers, until it restarts", guides: []string{"alarms", "memory-use"},
		details: []string{
			"<fraction>", "a fraction of the machine's memory",
			"absolute <value>", "a number of bytes, or with a unit: 1GB",
		},
		most: anyNumber, check: func(c *call) error { _, err := watermark(c); return err },
		banner: line(func(c *call) string {
			if len(c.args) == 2 {
				return fmt.Sprintf("Setting memory threshold on %s to %s bytes ...", c.node, c.args[1])
			}
			return fmt.Sprintf("Setting memory threshold on %s to %s ...", c.node, c.args[0])
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			t, err := watermark(c)
			if err != nil {
				return err
			}
			return node.SetMemoryLimit(ctx, t)
		}),
	}
}

func diskLimit(c *call) (t admin.Threshold, err error) {
	if err := setting("mem_relative")(c); err != nil {
		return t, err
	}
	bad := badValue("Bad argument.")
	if len(c.args) == 2 {
		if t.Relative, err = strconv.ParseFloat(c.args[1], 64); err != nil || !(t.Relative >= 0 && t.Relative < 1e6) {
			return t, bad
		}
		return t, nil
	}
	if t.Absolute, err = config.ParseBytes(c.args[0]); err != nil {
		return t, bad
	}
	return t, nil
}

func setDiskFreeLimitCommand() command {
	return command{
		name: "set_disk_free_limit", tools: []string{toolCtl}, group: groupConfiguration, usage: diskLimitUsage,
		summary: "Says at how little free disk space the node blocks publishers, until it restarts", guides: []string{"disk-alarms", "alarms"},
		details: []string{
			"<disk_limit>", "a number of bytes, or with a unit: 1GB",
			"mem_relative <fraction>", "a fraction of the machine's memory",
		},
		most: anyNumber, check: func(c *call) error { _, err := diskLimit(c); return err },
		banner: line(func(c *call) string {
			if len(c.args) == 2 {
				return fmt.Sprintf("Setting disk free limit on %s to %s times the total RAM ...", c.node, c.args[1])
			}
			return fmt.Sprintf("Setting disk free limit on %s to %s bytes ...", c.node, c.args[0])
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			t, err := diskLimit(c)
			if err != nil {
				return err
			}
			return node.SetDiskFreeLimit(ctx, t)
		}),
	}
}

func setLogLevelCommand() command {
	return command{
		name: "set_log_level", tools: []string{toolCtl}, group: groupConfiguration, usage: "<log_level>",
		summary: "Says how much the node logs, until it restarts", guides: []string{"logging"}, details: []string{"<log_level>", "new log level"},
		least: 1, most: 1,
		check: func(c *call) error {
			if _, err := config.ParseLogLevel(c.args[0]); err != nil {
				return errorf(exitUnavailable, "level %s is not supported. Try one of debug, info, warning, error, critical, none", c.args[0])
			}
			return nil
		},
		banner: named("Setting log level to %q ..."),
		run: change(func(ctx context.Context, c *call, node Client) error {
			return node.SetLogLevel(ctx, c.args[0])
		}),
	}
}

func forceGCCommand() command {
	return command{
		name: "force_gc", tools: []string{toolCtl}, group: groupOperations, usage: timeoutUsage, guides: []string{"memory-use"},
		summary: "Makes the target node collect its garbage and return free memory to the system",
		banner: line(func(c *call) string {
			return fmt.Sprintf("Will ask all processes on node %s to schedule a full sweep GC", c.node)
		}),
		run: change(func(ctx context.Context, _ *call, node Client) error { return node.CollectGarbage(ctx) }),
	}
}

func listenersSwitchCommand(name, summary, banner string, do func(Client, context.Context) error) command {
	return command{
		name: name, tools: []string{toolCtl}, group: groupOperations, summary: summary, guides: []string{"upgrade"}, running: true,
		banner: line(func(c *call) string { return fmt.Sprintf(banner, c.node) }),
		run:    change(func(ctx context.Context, _ *call, node Client) error { return do(node, ctx) }),
	}
}
