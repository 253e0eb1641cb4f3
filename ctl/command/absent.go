package command

import (
	"context"
	"fmt"
)

// Commands of RabbitMQ's tools about what is not there in Warren. They say so, with exit status 69, or 0 where a script's
// purpose is served; they never pretend.

// absent is a command that is understood and refused: why follows "Error:". It is one of rabbitmqctl unless tools are named.
func absent(name, group, summary, usage string, least, most int, banner func(*call) []string, why string, tools ...string) command {
	if tools == nil {
		tools = []string{toolCtl}
	}
	return command{
		name: name, tools: tools, group: group, summary: summary, usage: usage, least: least, most: most, banner: banner,
		run: func(context.Context, *call) error { return errorf(exitUnavailable, "%s", why) },
	}
}

// needless is a command whose purpose is served without it: note is what it says, with exit status 0.
func needless(name string, tools []string, group, summary, usage string, least, most int, banner func(*call) []string, note string) command {
	return command{
		name: name, tools: tools, group: group, summary: summary, usage: usage, least: least, most: most, banner: banner,
		run: func(_ context.Context, c *call) error {
			if note == "" {
				return c.done()
			}
			return c.message(note)
		},
	}
}

func absentCommands() []command {
	const tracing = "message tracing (the firehose) is not supported by Warren"
	const erlang = "Warren is not written in Erlang: there is nothing that could evaluate an expression"
	const encryption = "encrypted configuration values are not supported by Warren"
	return []command{
		absent("trace_on", "Virtual hosts", "Refused: message tracing is not supported", "[--vhost <vhost>]", 0, 0,
			line(func(c *call) string { return fmt.Sprintf(`Starting tracing for vhost "%s" ...`, c.vhost) }), tracing),
		needless("trace_off", []string{toolCtl}, "Virtual hosts", "Does nothing: message tracing is not supported", "[--vhost <vhost>]", 0, 0,
			line(func(c *call) string { return fmt.Sprintf(`Stopping tracing for vhost "%s" ...`, c.vhost) }),
			"Tracing is never on: Warren does not support it"),
		absent("eval", "Operations", "Refused: there is no Erlang", "<expression>", 1, anyNumber, nil, erlang),
		absent("eval_file", "Operations", "Refused: there is no Erlang", "<file path>", 1, 1, nil, erlang),
		absent("exec", "Operations", "Refused: there is no Elixir", "<expression> [--offline]", 1, 1, nil, erlang),
		absent("encode", "Configuration and Environment", "Refused: configuration values are not encrypted",
			"value passphrase [--cipher <cipher>] [--hash <hash>] [--iterations <iterations>]", 0, 2, nil, encryption),
		absent("decode", "Configuration and Environment", "Refused: configuration values are not encrypted",
			"value passphrase [--cipher <cipher>] [--hash <hash>] [--iterations <iterations>]", 0, 2, nil, encryption),
		absent("list_hashes", groupMonitoring, "Refused: configuration values are not encrypted", "", 0, 0,
			line(func(*call) string { return "Listing supported hash algorithms ..." }), encryption, readOnly()...),
		absent("list_ciphers", groupMonitoring, "Refused: configuration values are not encrypted", "", 0, 0,
			line(func(*call) string { return "Listing supported ciphers ..." }), encryption, readOnly()...),
		absent("schema_info", groupMonitoring, "Refused: there is no schema database", "[--no-table-headers] [<column> ...] [--timeout <timeout>]", 0, anyNumber,
			line(func(c *call) string { return fmt.Sprintf("Asking node %s to report its schema...", c.node) }),
			"there is no Mnesia and so no tables: the metadata is one replicated state machine. cluster_status shows who has it, "+
				"and list_queues, list_exchanges, … what is in it", readOnly()...),
		absent("remote_shell", groupMonitoring, "Refused: there is no Erlang", "", 0, 0,
			line(func(c *call) string { return fmt.Sprintf("Starting an interactive Erlang shell on node %s...", c.node) }),
			"Warren is not written in Erlang: a node has no shell", toolDiagnostics),
		absent("observer", groupMonitoring, "Refused: there is no Erlang", "[--interval <seconds>]", 0, anyNumber,
			line(func(c *call) string { return fmt.Sprintf("Starting a CLI observer interface on node %s...", c.node) }),
			"Warren is not written in Erlang. See status, memory_breakdown and runtime_thread_stats, or the profiles at the address of "+
				"the setting warren.debug.listen", toolDiagnostics),
		absent("rotate_logs", "Nodes", "Refused, as by RabbitMQ: a node logs to standard error, whose reader rotates", "", 0, 0,
			line(func(c *call) string { return fmt.Sprintf("Rotating logs for node %s ...", c.node) }),
			"a node logs to standard error: what reads it there rotates its files"),
		needless("hipe_compile", []string{toolCtl}, "Deprecated", "Does nothing; kept so that old scripts go on", "<directory>", 1, 1, nil,
			"This command is a no-op: there is no Erlang"),
	}
}
