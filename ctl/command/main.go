package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"warren/ctl/locate"
)

// SystemEnv is the world as it is.
func SystemEnv() Env {
	d := Dialer{Registry: locate.UserRegistry(os.Getenv)}
	return Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Hostname: locate.ShortHostname,
		Dial: d.Dial, CookieFile: d.CookieFile,
	}
}

// Main runs a command line and returns the exit status. argv[0] is the name that the program was called by: that of a tool
// makes it that tool, any other warren. server is nil in a program that has no broker: it has no "server" either. ctx ends
// when the program is asked to stop (SIGTERM, SIGINT).
func Main(ctx context.Context, argv []string, env Env, server RunServer) int {
	name := filepath.Base(argv[0])
	if slices.Contains(allTools(), name) {
		return runTool(ctx, newTool(name, name), argv[1:], env)
	}
	app := newApp(name, env, server)
	status := exitOK
	for _, sub := range app.Commands { // a tool parses its own command line
		if tool, ok := toolNames()[sub.Name]; ok {
			sub.SkipFlagParsing, sub.HideHelp = true, true
			sub.Action = func(cc *cli.Context) error {
				status = runTool(cc.Context, newTool(tool, name+" "+sub.Name), cc.Args().Slice(), env)
				return nil
			}
		}
	}
	err := app.RunContext(ctx, flagsFirst(app, argv))
	if err == nil {
		return status
	}
	return report(err, env.Stderr)
}

// report prints err, one line a fault, and returns the exit status.
func report(err error, w io.Writer) int {
	var exit *exitError
	if errors.As(err, &exit) {
		print(w, exit.text+"\n")
		return exit.status
	}
	var usage *cliUsageError
	if errors.As(err, &usage) {
		print(w, "Error: "+usage.Error()+"\n")
		return exitUsage
	}
	print(w, "Error: "+err.Error()+"\n")
	return exitSoftware
}

// cliUsageError is a command line of warren itself that is wrong.
type cliUsageError struct{ text string }

// Error implements error.
func (e *cliUsageError) Error() string { return e.text }

func newApp(name string, env Env, server RunServer) *cli.App {
	commands := []*cli.Command{}
	if server != nil {
		commands = append(commands, serverCommand(env, server), recoverCommand(env, server))
	}
	commands = append(
		commands,
		clusterCommand(env),
		completionCommand(env),
		clientCommand(env),
		&cli.Command{Name: "ctl", Usage: "rabbitmqctl: operate a node or cluster"},
		&cli.Command{Name: "queues", Usage: "rabbitmq-queues"},
		&cli.Command{Name: "diagnostics", Usage: "rabbitmq-diagnostics"},
		&cli.Command{Name: "upgrade", Usage: "rabbitmq-upgrade"},
		&cli.Command{Name: "version", Usage: "print the version", Action: func(*cli.Context) error {
			print(env.Stdout, Version+"\n")
			return nil
		}},
	)
	app := &cli.App{
		Name: name, Usage: "a message broker with mirrored queues", Version: Version, Commands: commands,
		Writer: env.Stdout, ErrWriter: env.Stderr,
		ExitErrHandler: func(*cli.Context, error) {}, // or the library ends the process
		Action:         refuseUnknown,
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return &cliUsageError{fmt.Sprintf("%v; see %s --help", err, name)}
		},
	}
	prepareCommands(app.Commands)
	return app
}

// prepareCommands makes wrong flags and unknown subcommands errors with an exit status, instead of the library's own answers.
func prepareCommands(commands []*cli.Command) {
	for _, cmd := range commands {
		cmd.OnUsageError = func(cc *cli.Context, err error, _ bool) error {
			return &cliUsageError{fmt.Sprintf("%v; see %s --help", err, cc.Command.HelpName)}
		}
		if cmd.Action == nil && len(cmd.Subcommands) > 0 {
			cmd.Action = refuseUnknown
		}
		prepareCommands(cmd.Subcommands)
	}
}

// refuseUnknown is the action of a command that has only subcommands.
func refuseUnknown(cc *cli.Context) error {
	known := cc.App.Commands
	if cc.Command != nil && len(cc.Command.Subcommands) > 0 {
		known = cc.Command.Subcommands
	}
	names := make([]string, 0, len(known))
	for _, cmd := range known {
		if cmd.Name != "help" {
			names = append(names, cmd.Name)
		}
	}
	if !cc.Args().Present() {
		return &cliUsageError{"a command is missing; there are " + strings.Join(names, ", ")}
	}
	t := &tool{}
	for _, n := range names {
		t.commands = append(t.commands, command{name: n})
	}
	typed := cc.Args().First()
	if near := t.nearest(typed); near != "" {
		return &cliUsageError{fmt.Sprintf("unknown command %q; did you mean %q?", typed, near)}
	}
	return &cliUsageError{fmt.Sprintf("unknown command %q; there are %s", typed, strings.Join(names, ", "))}
}

// flagsFirst puts the flags of a command before its arguments, where the library looks for them.
func flagsFirst(app *cli.App, argv []string) []string {
	commands, at := app.Commands, 1
	var found *cli.Command
	for at < len(argv) {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == argv[at] })
		if i < 0 {
			break
		}
		found, commands = commands[i], commands[i].Subcommands
		at++
	}
	if found == nil || found.SkipFlagParsing {
		return argv
	}
	boolean := map[string]bool{"help": true, "h": true}
	for _, f := range found.Flags {
		if _, ok := f.(*cli.BoolFlag); ok {
			boolean[f.Names()[0]] = true
		}
	}
	var flags, arguments []string
	for i := at; i < len(argv); i++ {
		arg := argv[i]
		if arg == "--" {
			arguments = append(arguments, argv[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			arguments = append(arguments, arg)
			continue
		}
		flags = append(flags, arg)
		name := strings.TrimLeft(arg, "-")
		if !strings.Contains(name, "=") && !boolean[name] && i+1 < len(argv) {
			i++
			flags = append(flags, argv[i])
		}
	}
	result := append(slices.Clone(argv[:at]), flags...)
	if len(arguments) > 0 && len(found.Subcommands) == 0 {
		result = append(result, "--")
	}
	return append(result, arguments...)
}
