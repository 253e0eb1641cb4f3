package command

import (
	"fmt"
	"strings"

	"github.com/xrash/smetrics"

	"warren/ctl/format"
)

// generalOptions is the end of each command's help.
const generalOptions = `The following options are accepted by most or all commands.

short            | long          | description
-----------------|---------------|--------------------------------
-?               | --help        | displays command help
-n <node>        | --node <node> | connect to node <node>
-l               | --longnames   | use long host names
-t               | --timeout <n> | for commands that support it, operation timeout in seconds
-q               | --quiet       | suppress informational messages
-s               | --silent      | suppress informational messages
                                 | and table header row
-p               | --vhost       | for commands that are scoped to a virtual host,
                 |               | virtual host to use
                 | --formatter   | alternative result formatter to use
                                 | if supported: json, pretty_table, table, csv, erlang
                 | --address     | host:port of the node's inter-node listener
                 | --cookie-file | file with the cookie of the node's cluster
                 | --tls-cacertfile, --tls-certfile, --tls-keyfile
                 |               | PEM files, for a node whose inter-node listener has TLS

`

// headings are the groups of commands, in the order of the help.
func headings() []string {
	return []string{
		"Help", "Nodes", "Cluster", "Replication", "Upgrade", "Users", groupAccess, groupMonitoring, "Parameters", "Policies",
		"Virtual hosts", "Configuration and Environment", "Definitions", "Feature flags", "Operations", "Queues", "Deprecated",
	}
}

// groupMonitoring is RabbitMQ's heading of all that only looks.
const groupMonitoring = "Monitoring, observability and health checks"

// heading is the group under which a command is shown.
func (cmd command) heading() string {
	switch cmd.group {
	case "Exchanges and bindings", "Observability":
		return groupMonitoring
	case "Queues":
		if strings.HasPrefix(cmd.name, "list_") {
			return groupMonitoring
		}
	}
	return cmd.group
}

// help lists the tool's commands.
func (t *tool) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n\n%s [--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> [<command options>]\n\nAvailable commands:\n\n",
		format.Bold("Usage"), t.script)
	width := 29 // RabbitMQ's
	for _, cmd := range t.commands {
		width = max(width, len(cmd.name))
	}
	for _, heading := range headings() {
		first := true
		for _, cmd := range t.commands {
			if cmd.heading() != heading {
				continue
			}
			if first {
				fmt.Fprintf(&b, "%s:\n\n", format.Bold(heading))
				first = false
			}
			fmt.Fprintf(&b, "   %-*s %s\n", width, cmd.name, cmd.summary)
		}
		if !first {
			b.WriteByte('\n')
		}
	}
	fmt.Fprintf(&b, "Use '%s help <command>' to learn more about a specific command\n", t.script)
	return b.String()
}

// helpFor explains one command.
func (t *tool) helpFor(cmd *command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n\n%s\n\n%s.\n\n\n", format.Bold("Usage"), t.usageLine(cmd), cmd.summary)
	if len(cmd.details) > 0 {
		fmt.Fprintf(&b, "%s\n\n", format.Bold("Arguments and Options"))
		for i := 0; i+1 < len(cmd.details); i += 2 {
			fmt.Fprintf(&b, "%s\n\t%s\n\n", cmd.details[i], cmd.details[i+1])
		}
		b.WriteByte('\n')
	}
	if len(cmd.guides) > 0 {
		fmt.Fprintf(&b, "%s\n\n", format.Bold("Relevant Doc Guides"))
		for _, guide := range cmd.guides {
			fmt.Fprintf(&b, " * https://rabbitmq.com/%s.html\n\n", guide)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s\n\n%s", format.Bold("General Options"), generalOptions)
	return b.String()
}

func (t *tool) usageLine(cmd *command) string {
	line := t.script + " [--node <node>] [--longnames] [--quiet] " + cmd.name
	if cmd.usage != "" {
		line += " " + cmd.usage
	}
	return line
}

// usageText is a usageError with the arguments given and the command's usage.
func (c *call) usageText(e *usageError) string {
	head := "Error (argument validation): "
	if e.state {
		head = "Error: "
	}
	return fmt.Sprintf("%s%s\nArguments given:\n\t%s\n\n%s\n\n%s", head, e.text, strings.Join(c.argv, " "),
		format.Bold("Usage"), c.tool.usageLine(c.command))
}

// unknown is what is said of a command that there is not.
func (t *tool) unknown(name string) string {
	text := fmt.Sprintf("\nCommand '%s' not found. \n", name)
	if near := t.nearest(name); near != "" {
		return text + fmt.Sprintf("Did you mean '%s'? \n\n", near)
	}
	return text + t.help()
}

// nearest is the command that a misspelt name was probably meant to be, or empty.
func (t *tool) nearest(name string) string {
	const limit = 3
	best, distance := "", limit+1
	if len(name) > 60 {
		return ""
	}
	for _, cmd := range t.commands {
		d := smetrics.WagnerFischer(name, cmd.name, 1, 1, 1)
		if d < distance && d <= len(cmd.name)/2 {
			best, distance = cmd.name, d
		}
	}
	return best
}
