package command

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// rabbitmq-diagnostics: checks with exit status 0 or 69, and what they look at.

func diagnosticCommands() []command {
	return []command{
		alarmsCommand("alarms", "Shows the memory and disk alarms that are in force", "any known", false, false),
		alarmsCommand("check_alarms", "Fails while an alarm is in force anywhere in the cluster",
			"any local", true, false),
		alarmsCommand("check_local_alarms", "Fails while an alarm of this very node is in force",
			"any local", true, true),
		checkPortConnectivityCommand(), checkPortListenerCommand(), checkProtocolListenerCommand(),
		runningCommand("check_running", "Fails unless the broker runs on the node",
			"Checking if RabbitMQ is running on node %s ..."),
		checkVirtualHostsCommand(), isBootingCommand(),
		runningCommand("is_running", "Fails unless the node has started and serves clients", "Asking node %s for its status ..."),
		listenersCommand(), memoryBreakdownCommand(), serverVersionCommand(), erlangVersionCommand(),
		nodeHealthCheckCommand(),
	}
}

func diagnostic(name, summary, usage string, banner string, run func(context.Context, *call, Client) error) command {
	return command{
		name: name, tools: []string{toolDiagnostics}, group: groupMonitoring, summary: summary, usage: usage,
		guides: []string{"monitoring"},
		banner: line(func(c *call) string { return fmt.Sprintf(banner, c.node) }), run: withClient(run),
	}
}

const timeoutUsage = "[--timeout <timeout>]"

// unhealthy is a failed check: its text is on standard error alone, unless -s.
func (c *call) unhealthy(text string) error {
	if c.set["silent"] {
		return &exitError{status: exitUnavailable}
	}
	return &exitError{exitUnavailable, text}
}

// result prints a check's good outcome.
func (c *call) result(text string) error {
	if c.format == format.FormatJSON {
		return c.document(map[string]any{"result": "ok"})
	}
	if c.set["silent"] {
		return nil
	}
	return c.message(text)
}

func alarmsCommand(name, summary, which string, check, local bool) command {
	return diagnostic(name, summary, timeoutUsage, "Asking node %s to report "+which+" resource alarms ...",
		func(ctx context.Context, c *call, node Client) error {
			cluster, err := node.ClusterStatus(ctx)
			if err != nil {
				return err
			}
			var all []string
			for _, a := range cluster.Alarms {
				if !local || a.Node == c.node {
					all = append(all, a.Text)
				}
			}
			kind := "alarms, local or clusterwide"
			if local {
				kind = "local alarms"
			}
			switch {
			case !check && c.format == format.FormatJSON:
				return c.document(map[string]any{"alarms": textList(all), "node": c.node, "result": "ok"})
			case len(all) == 0 && check:
				return c.result(fmt.Sprintf("Node %s reported no %s", c.node, kind))
			case len(all) == 0:
				return c.message(fmt.Sprintf("Node %s reported no %s", c.node, kind))
			case !check:
				return c.message(strings.Join(all, "\n"))
			case local:
				return c.unhealthy(fmt.Sprintf("Error:\nNode %s reported the following local alarms:\n%s", c.node, strings.Join(all, "\n")))
			}
			return c.unhealthy(fmt.Sprintf("Error:\nNode %s reported the following alarms:\n%s", c.node, strings.Join(all, "\n")))
		})
}

func runningCommand(name, summary, banner string) command {
	return diagnostic(name, summary, timeoutUsage, banner, func(ctx context.Context, c *call, node Client) error {
		s, err := node.Status(ctx)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("RabbitMQ on node %s is fully booted and running", c.node)
		if !s.Running {
			text = fmt.Sprintf("RabbitMQ on node %s is not running or has not fully booted yet (check with is_booting)", c.node)
		}
		switch {
		case !s.Running && name == "check_running":
			return c.unhealthy("Error:\n" + text)
		case name == "is_running" && c.format == format.FormatJSON:
			return c.document(map[string]any{"message": text, "result": s.Running})
		}
		return c.message(text)
	})
}

func isBootingCommand() command {
	return diagnostic("is_booting", "Fails unless the node is starting", timeoutUsage,
		"Asking node %s for its boot status ...", func(ctx context.Context, c *call, node Client) error {
			s, err := node.Status(ctx)
			if err != nil {
				return err
			}
			booting := s.State == "starting"
			text := fmt.Sprintf("RabbitMQ on node %s is fully booted (check with is_running), stopped or has not started booting yet", c.node)
			if booting {
				text = fmt.Sprintf("RabbitMQ on node %s is booting", c.node)
			}
			if c.format == format.FormatJSON {
				return c.document(map[string]any{"message": text, "result": booting})
			}
			return c.message(text)
		})
}

func ports(all []admin.Listener) string {
	var numbers []int
	for _, l := range all {
		numbers = append(numbers, int(l.Port))
	}
	slices.Sort(numbers)
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ", ")
}

func checkPortListenerCommand() command {
	cmd := diagnostic("check_port_listener",
		"Fails unless the node listens on a port",
		"<port> [--timeout <timeout>]", "", func(ctx context.Context, c *call, node Client) error {
			s, err := node.Status(ctx)
			if err != nil {
				return err
			}
			for _, l := range s.Listeners {
				if strconv.Itoa(int(l.Port)) == c.args[0] {
					return c.result(fmt.Sprintf("A listener for port %s is running on node %s.", c.args[0], c.node))
				}
			}
			return c.unhealthy(fmt.Sprintf("No listener for port %s is active on node %s. Found listeners that use the following ports: %s",
				c.args[0], c.node, ports(s.Listeners)))
		})
	cmd.least, cmd.most = 1, 1
	cmd.check = func(c *call) error {
		if n, err := strconv.ParseUint(c.args[0], 10, 32); err != nil || n == 0 {
			return &usageError{status: exitDataErr, text: "Bad argument: Argument must be a positive integer"}
		}
		return nil
	}
	cmd.banner = line(func(c *call) string {
		return fmt.Sprintf("Asking node %s if there's an active listener on port %s ...", c.node, c.args[0])
	})
	return cmd
}

// protocolName is what lists call a protocol that may be given by another name.
func protocolName(typed string) string {
	switch strings.ToLower(typed) {
	case "amqp091", "amqp0.9.1", "amqp09", "amqp0-9-1":
		return "amqp"
	case "amqps", "amqp/ssl":
		return "amqp/ssl"
	}
	return strings.ToLower(typed)
}

func checkProtocolListenerCommand() command {
	cmd := diagnostic("check_protocol_listener",
		"Fails unless the node listens for a protocol",
		"<protocol> [--timeout <timeout>]", "", func(ctx context.Context, c *call, node Client) error {
			s, err := node.Status(ctx)
			if err != nil {
				return err
			}
			name := protocolName(c.args[0])
			var found []string
			for _, l := range s.Listeners {
				if l.Protocol == name {
					return c.result(fmt.Sprintf("A listener for protocol %s is running on node %s.", name, c.node))
				}
				found = append(found, l.Protocol)
			}
			slices.Sort(found)
			return c.unhealthy(fmt.Sprintf("Error:\nNo listener for protocol %s is active on node %s. Found listeners for the following protocols: %s",
				c.args[0], c.node, strings.Join(slices.Compact(found), ", ")))
		})
	cmd.least, cmd.most = 1, 1
	cmd.banner = line(func(c *call) string {
		return fmt.Sprintf("Asking node %s if there's an active listener for protocol %s ...", c.node, c.args[0])
	})
	return cmd
}

// connectTimeout is how long one port may take to accept.
const connectTimeout = 5 * time.Second

func checkPortConnectivityCommand() command {
	return diagnostic("check_port_connectivity", "Connects once to each port that the node listens on, and fails if one refuses",
		timeoutUsage, "Testing TCP connections to all active listeners on node %s ...",
		func(ctx context.Context, c *call, node Client) error {
			s, err := node.Status(ctx)
			if err != nil {
				return err
			}
			var failed []string
			for _, l := range s.Listeners {
				if err := c.connect(ctx, l); err != nil {
					failed = append(failed, fmt.Sprintf("%d (%v)", l.Port, err))
				}
			}
			if len(failed) > 0 {
				return c.unhealthy(fmt.Sprintf("Error:\nConnection to ports of the following listeners on node %s failed: %s",
					c.node, strings.Join(failed, ", ")))
			}
			return c.result(fmt.Sprintf("Successfully connected to ports %s on node %s.", ports(s.Listeners), c.node))
		})
}

// connect tries a listener from here: at its own address, or at the node's host if it listens everywhere.
func (c *call) connect(ctx context.Context, l admin.Listener) error {
	host := strings.Trim(l.Interface, "[]")
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		_, host, _ = strings.Cut(c.node, "@")
	}
	d := net.Dialer{Timeout: connectTimeout}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(l.Port))))
	if err != nil {
		return err
	}
	return conn.Close()
}

func checkVirtualHostsCommand() command {
	return diagnostic("check_virtual_hosts", "Fails unless every virtual host can be used", timeoutUsage,
		"Checking if all vhosts are running on node %s ...", func(ctx context.Context, c *call, node Client) error {
			s, err := node.Status(ctx)
			if err != nil {
				return err
			}
			if !s.Running {
				return c.unhealthy(fmt.Sprintf("Error:\nThe vhosts on node %s are not running: the node is %s", c.node, s.State))
			}
			return c.result(fmt.Sprintf("Node %s reported all vhosts as running", c.node))
		})
}

func listenersCommand() command {
	return diagnostic("listeners", "Shows on which addresses, ports and for which protocols the node listens", timeoutUsage,
		"Asking node %s to report its protocol listeners ...", func(ctx context.Context, c *call, node Client) error {
			s, err := node.Status(ctx)
			if err != nil {
				return err
			}
			if c.format == format.FormatJSON {
				return c.document(map[string]any{"listeners": listenerDocuments(s.Listeners), "node": c.node, "result": "ok"})
			}
			for _, l := range s.Listeners {
				print(c.env.Stdout, fmt.Sprintf("Interface: %s, port: %d, protocol: %s, purpose: %s\n", l.Interface, l.Port, l.Protocol, l.Purpose))
			}
			return nil
		})
}

func memoryBreakdownCommand() command {
	cmd := diagnostic("memory_breakdown", "Shows what the node's memory is used for", "[--unit <unit>] [--timeout <timeout>]",
		"Reporting memory breakdown on node %s...", func(ctx context.Context, c *call, node Client) error {
			s, err := node.Status(ctx)
			if err != nil {
				return err
			}
			shares := slices.Clone(s.MemoryBreakdown)
			slices.SortFunc(shares, func(a, b admin.MemoryShare) int { return int(int64(b.Bytes) - int64(a.Bytes)) })
			percent := func(m admin.MemoryShare) string {
				return fixedText(100*float64(m.Bytes)/float64(max(s.MemoryTotal, 1)), 100)
			}
			if c.format == format.FormatJSON {
				document := make(format.Map, len(shares))
				for i, m := range shares {
					p, _ := strconv.ParseFloat(percent(m), 64)
					document[i] = format.Pair{Name: m.Name, Value: map[string]any{"bytes": m.Bytes, "percentage": p}}
				}
				return c.document(document)
			}
			unit := "gb"
			if u, ok := c.text["unit"]; ok {
				unit = u
			}
			for _, m := range shares {
				print(c.env.Stdout, fmt.Sprintf("%s: %s (%s%%)\n", m.Name, inUnit(m.Bytes, unit), percent(m)))
			}
			return nil
		})
	cmd.flags = []flag{{"unit", 0, flagText}}
	cmd.check = checkUnit
	return cmd
}

func checkUnit(c *call) error {
	if unit, ok := c.text["unit"]; ok && unitSize(unit) == 0 {
		return badArguments(`"unit '%s' is not supported. Please use one of: bytes, mb, gb"`, unit)
	}
	return nil
}

func serverVersionCommand() command {
	return diagnostic("server_version", "Prints the version that the node runs", timeoutUsage,
		"Asking node %s for its RabbitMQ version...", func(ctx context.Context, c *call, node Client) error {
			s, err := node.Status(ctx)
			if err != nil {
				return err
			}
			if c.format == format.FormatJSON {
				return c.document(map[string]any{"result": "ok", "value": s.Version})
			}
			return c.message(s.Version)
		})
}

func erlangVersionCommand() command {
	return diagnostic("erlang_version", "Displays the version of the runtime on the target node: Go's", timeoutUsage,
		"Asking node %s for its runtime's version...", func(ctx context.Context, c *call, node Client) error {
			s, err := node.Status(ctx)
			if err != nil {
				return err
			}
			return c.message("There is no Erlang; the node's runtime is " + s.GoVersion)
		})
}

func addressFamily(c *call) string {
	if strings.EqualFold(c.text["address-family"], "ipv6") {
		return "IPv6"
	}
	return "IPv4"
}

func nodeHealthCheckCommand() command {
	return command{
		name: "node_health_check", tools: readOnly(), group: "Deprecated", usage: timeoutUsage,
		summary: "DEPRECATED. Says whether the node is up and serves clients. See https://www.rabbitmq.com/monitoring.html",
		banner: func(c *call) []string {
			return []string{
				"This command is DEPRECATED and will be removed in a future version.",
				"It performs intrusive, opinionated health checks and requires a fully booted node.",
				"Use one of the options covered in https://www.rabbitmq.com/monitoring.html#health-checks instead.",
				fmt.Sprintf("Timeout: %s seconds ...", format.Text(c.timeout.Seconds())),
				fmt.Sprintf("Checking health of node %s ...", c.node),
			}
		},
		limit: 70 * time.Second,
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			s, err := node.Status(ctx)
			if err != nil {
				return err
			}
			switch {
			case !s.Running:
				return errorf(exitSoftware, "health check failed. Message: the node is %s", s.State)
			case len(s.Alarms) > 0:
				return errorf(exitSoftware, "health check failed. Message: %s", strings.Join(s.Alarms, ", "))
			}
			return c.message("Health check passed")
		}),
	}
}
