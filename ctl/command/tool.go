package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"warren/ctl/admin"
	"warren/ctl/format"
	"warren/ctl/locate"
)

// Env is what a tool knows of the world; a test gives its own.
type Env struct {
	Stdin          io.Reader // passwords and definitions; nil is empty
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Hostname       func() (string, error) // short
	// Dial connects to a node and authenticates. Its error is printed as that of an unreachable node, unless it is an
	// *unreachableError or the context's.
	Dial func(ctx context.Context, t Target) (Client, error)
	// CookieFile is where Dial takes the cookie from; nil if that is not known.
	CookieFile func(t Target) (string, error)
}

// Client is a connection to a node; *admin.Client is one.
type Client interface {
	admin.Node
	Close() error
}

// Target says which node to talk to. All but Node is empty unless the user named it.
type Target struct {
	Node       string
	Address    string
	CookieFile string
	TLS        locate.TLS
}

// command is one command of the tools. Functions that are nil do nothing.
type command struct {
	name    string
	tools   []string // that have it
	group   string   // heading in the help
	summary string   // one line without a full stop
	usage   string   // after the name
	details []string // of arguments and options: what, explanation, what, explanation, …
	guides  []string // RabbitMQ's pages about it
	flags   []flag
	least   int // positional arguments
	most    int
	running bool                               // needs a node that runs; this is found out before the banner
	require func(context.Context, *call) error // what else it needs of the node, found out before the banner
	limit   time.Duration                      // time limit if -t gives none; 0: defaultLimit
	check   func(*call) error
	banner  func(*call) []string
	run     func(context.Context, *call) error
}

const defaultLimit = 5 * time.Minute

// anyNumber of arguments.
const anyNumber = math.MaxInt32

// call is one run of a command.
type call struct {
	tool    *tool
	command *command
	argv    []string
	parsed
	env     Env
	node    string
	vhost   string
	timeout time.Duration
	format  format.Format
	dialled Client
}

// tool is one of the command line tools.
type tool struct {
	script   string // the name it was called by
	name     string // rabbitmqctl, …
	commands []command
}

// runTool runs one command line of a tool and returns the exit status.
func runTool(ctx context.Context, t *tool, argv []string, env Env) int {
	if env.Getenv("NO_COLOR") != "" {
		env.Stdout, env.Stderr = uncoloured{env.Stdout}, uncoloured{env.Stderr}
	}
	all := generalFlags()
	for _, cmd := range t.commands {
		all = append(all, cmd.flags...)
	}
	first := parse(argv, all)
	if len(first.args) == 0 {
		return t.runWithoutCommand(first, env)
	}
	cmd := t.find(first.args[0])
	if cmd == nil {
		print(env.Stderr, t.unknown(first.args[0]))
		return exitUsage
	}
	c := &call{tool: t, command: cmd, argv: argv, env: env, format: format.FormatTable}
	c.parsed = parse(argv, append(generalFlags(), cmd.flags...))
	c.args = without(c.args, first.args[0])
	if c.set["help"] {
		print(env.Stdout, t.helpFor(cmd))
		return exitOK
	}
	err := c.execute(ctx)
	if c.dialled != nil {
		_ = c.dialled.Close() // the answer is complete, or its error is known
	}
	if err == nil {
		return exitOK
	}
	exit := c.describe(err)
	if exit.text != "" {
		print(env.Stderr, exit.text+"\n")
	}
	return exit.status
}

// print writes to the terminal; nobody is left to be told when that fails.
func print(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// without removes the first argument equal to name: the command itself.
func without(args []string, name string) []string {
	for i, a := range args {
		if a == name {
			return append(append([]string{}, args[:i]...), args[i+1:]...)
		}
	}
	return args
}

func (t *tool) runWithoutCommand(p parsed, env Env) int {
	switch {
	case p.set["version"]:
		print(env.Stdout, Version+"\n")
		return exitOK
	case p.set["help"]:
		print(env.Stdout, t.help())
		return exitOK
	}
	print(env.Stderr, t.help())
	return exitUsage
}

func (t *tool) find(name string) *command {
	for i := range t.commands {
		if t.commands[i].name == name {
			return &t.commands[i]
		}
	}
	return nil
}

// execute checks the command line, connects where the command needs it, prints the banner and runs the command.
func (c *call) execute(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if c.set["dry-run"] {
		c.printBanner()
		return nil
	}
	if c.command.running {
		if err := c.requireRunning(ctx); err != nil {
			return err
		}
	}
	if c.command.require != nil {
		if err := c.command.require(ctx, c); err != nil {
			return err
		}
	}
	c.printBanner()
	if c.command.run == nil {
		return nil
	}
	return c.command.run(ctx, c)
}

// prepare checks all that can be checked without a node, in the order in which RabbitMQ's tools report it.
func (c *call) prepare() error {
	if name, ok := c.text["formatter"]; ok {
		f, known := format.Lookup(name)
		if !known {
			return &exitError{exitFormatter, fmt.Sprintf("Error: the formatter %q is not supported; there are table, pretty_table, json, csv and erlang", name)}
		}
		c.format = f
	}
	if len(c.invalid) > 0 {
		return c.invalidFlags()
	}
	switch {
	case len(c.args) < c.command.least:
		return badArguments("not enough arguments.")
	case len(c.args) > c.command.most:
		return badArguments("too many arguments.")
	}
	if err := c.resolve(); err != nil {
		return err
	}
	if c.command.check != nil {
		return c.command.check(c)
	}
	return nil
}

func (c *call) invalidFlags() error {
	var b strings.Builder
	b.WriteString("Invalid options for this command:")
	for _, bad := range c.invalid {
		fmt.Fprintf(&b, "\n%s : %s", bad.name, bad.value)
	}
	return badArguments("%s", b.String())
}

// resolve fills in what has a default: time limit, vhost and node.
func (c *call) resolve() error {
	c.timeout = c.command.limit
	if c.timeout == 0 {
		c.timeout = defaultLimit
	}
	if text, ok := c.text["timeout"]; ok {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil || seconds < 0 {
			return badArguments("Invalid options for this command:\n--timeout : %s", text)
		}
		c.timeout = min(time.Duration(seconds)*time.Second, admin.MaxTimeout)
	}
	c.vhost = "/"
	if v, ok := c.text["vhost"]; ok {
		c.vhost = v
	}
	typed, ok := c.text["node"]
	if !ok {
		if typed = c.env.Getenv("RABBITMQ_NODENAME"); typed == "" {
			typed = locate.DefaultName
		}
	}
	node, err := locate.NodeName(typed, c.env.Hostname)
	if err != nil {
		return err
	}
	c.node = node
	if c.timeout == 0 {
		return c.timedOut()
	}
	return nil
}

// target is the node that the command line names.
func (c *call) target() Target {
	return Target{
		Node: c.node, Address: c.text["address"], CookieFile: c.text["cookie-file"],
		TLS: locate.TLS{CACertFile: c.text["tls-cacertfile"], CertFile: c.text["tls-certfile"], KeyFile: c.text["tls-keyfile"]},
	}
}

// client connects to the node; a second call gives the same connection.
func (c *call) client(ctx context.Context) (Client, error) {
	if c.dialled != nil {
		return c.dialled, nil
	}
	client, err := c.env.Dial(ctx, c.target())
	if err != nil {
		var known *unreachableError
		if ctx.Err() != nil || errors.As(err, &known) {
			return nil, err
		}
		return nil, &unreachableError{Node: c.node, Reasons: []string{err.Error()}}
	}
	c.dialled = client
	return client, nil
}

func (c *call) requireRunning(ctx context.Context) error {
	client, err := c.client(ctx)
	if err != nil {
		return err
	}
	status, err := client.Status(ctx)
	if err != nil {
		return err
	}
	if status.State == "paused" {
		cluster, err := client.ClusterStatus(ctx)
		if err != nil {
			return err
		}
		return errorf(exitUnavailable, "node %s is paused: %s. It serves no clients and takes no commands until it reaches a "+
			"majority again; cluster_status tells what it sees", status.Name, cluster.Paused)
	}
	if status.State == "starting" {
		return errorf(exitUsage, "node %s is starting, and takes commands when it is up: 'await_startup' waits for that. If it "+
			"lasts, its log says what the node waits for, such as a majority of its cluster", status.Name)
	}
	if !status.Running {
		return &usageError{status: exitUsage, state: true, text: "this command requires the 'rabbit' app to be running on the " +
			"target node. Start it with 'rabbitmqctl start_app'."}
	}
	return nil
}

// printBanner prints what is about to be done, unless -q, -s or a format for programs.
func (c *call) printBanner() {
	if c.command.banner == nil || c.set["quiet"] || c.set["silent"] || c.format.Machine() {
		return
	}
	for _, line := range c.command.banner(c) {
		print(c.env.Stdout, line+"\n")
	}
}

// rows begins the list that the command prints.
func (c *call) rows(columns []string, whole bool) *format.Rows {
	headers, given := c.set["table-headers"]
	return format.NewRows(c.env.Stdout, c.format, columns, (!given || headers) && !c.set["silent"], whole)
}

// done prints the success of a command that has nothing else to say.
func (c *call) done() error {
	if c.format != format.FormatJSON {
		return nil
	}
	return c.document(map[string]any{"node": c.node, "result": "ok"})
}

// message prints the one line that is a command's answer.
func (c *call) message(text string) error {
	if c.format == format.FormatJSON {
		return c.document(map[string]any{"message": text})
	}
	print(c.env.Stdout, text+"\n")
	return nil
}

// document prints v as JSON.
func (c *call) document(v any) error {
	text, err := format.JSON(v)
	if err != nil {
		return err
	}
	print(c.env.Stdout, string(text)+"\n")
	return nil
}

// withClient makes a run function of one that needs a connection.
func withClient(run func(context.Context, *call, Client) error) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		client, err := c.client(ctx)
		if err != nil {
			return err
		}
		return run(ctx, c, client)
	}
}
