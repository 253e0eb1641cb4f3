package command

import (
	"context"
)

// Commands about the tool itself.

func helpCommand() command {
	return command{
		name: "help", tools: allTools(), group: "Help",
		summary: "Explains a command",
		usage:   "(<command> | [--list-commands])",
		flags:   []flag{{"list-commands", 0, flagBool}},
		most:    1,
		run: func(_ context.Context, c *call) error {
			switch {
			case c.set["list-commands"]:
				for _, cmd := range c.tool.commands {
					print(c.env.Stdout, cmd.name+"\n")
				}
			case len(c.args) == 0:
				print(c.env.Stdout, c.tool.help())
			default:
				cmd := c.tool.find(c.args[0])
				if cmd == nil {
					return &exitError{exitUsage, c.tool.unknown(c.args[0])}
				}
				print(c.env.Stdout, c.tool.helpFor(cmd))
			}
			return nil
		},
	}
}

func versionCommand() command {
	return command{
		name: "version", tools: []string{toolCtl, toolDiagnostics}, group: "Help",
		summary: "Prints the version of this program",
		run: func(_ context.Context, c *call) error {
			print(c.env.Stdout, Version+"\n")
			return nil
		},
	}
}
