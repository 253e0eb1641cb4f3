package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// What rabbitmq-diagnostics tells of a node's process and its machine.

func processCommands() []command {
	return []command{
		osEnvCommand(), commandLineCommand(), networkInterfacesCommand(), resolverInfoCommand(), resolveHostnameCommand(),
		cookieHashCommand(), cookieSourcesCommand(), threadStatsCommand(), maybeStuckCommand(), discoverPeersCommand(),
		tlsVersionsCommand(), cipherSuitesCommand(), certificatesCommand(), certificateExpirationCommand(),
	}
}

// aboutProcess makes a command that prints a part of a node's ProcessInfo.
func aboutProcess(name, group, summary, usage, banner string, show func(*call, admin.ProcessInfo) error) command {
	cmd := diagnostic(name, summary, usage, banner, func(ctx context.Context, c *call, node Client) error {
		p, err := node.Process(ctx)
		if err != nil {
			return err
		}
		return show(c, p)
	})
	cmd.group, cmd.guides = group, nil
	return cmd
}

func (c *call) lines(all []string) error {
	for _, l := range all {
		print(c.env.Stdout, l+"\n")
	}
	return nil
}

func osEnvCommand() command {
	return aboutProcess("os_env", groupConfiguration, "Shows the environment variables that the node looks at", timeoutUsage,
		"Listing RabbitMQ-specific environment variables defined on node %s...", func(c *call, p admin.ProcessInfo) error {
			if c.format != format.FormatJSON {
				return c.lines(p.Environment)
			}
			variables := map[string]any{}
			for _, v := range p.Environment {
				name, value, _ := strings.Cut(v, "=")
				variables[name] = value
			}
			return c.document(map[string]any{"node": c.node, "result": "ok", "variables": variables})
		})
}

func commandLineCommand() command {
	return aboutProcess("command_line_arguments", groupConfiguration,
		"Shows with which arguments the node was started", "", "Command line arguments of node %s ...",
		func(c *call, p admin.ProcessInfo) error {
			if c.format == format.FormatJSON {
				return c.document(textList(p.Arguments))
			}
			quoted := make([]string, len(p.Arguments))
			for i, a := range p.Arguments {
				quoted[i] = strconv.Quote(a)
			}
			return c.message("[" + strings.Join(quoted, ",\n ") + "]")
		})
}

func networkInterfacesCommand() command {
	return aboutProcess("list_network_interfaces", groupMonitoring, "Shows the network interfaces of the node's machine", timeoutUsage,
		"Asking node %s to report its network interfaces ...", func(c *call, p admin.ProcessInfo) error {
			if c.format == format.FormatJSON {
				all := map[string]any{}
				for _, i := range p.Interfaces {
					all[i.Name] = map[string]any{"hwaddr": i.Hardware, "addr": textList(i.Addresses), "flags": textList(i.Flags)}
				}
				return c.document(map[string]any{"interfaces": all, "node": c.node, "result": "ok"})
			}
			for _, i := range p.Interfaces {
				lines := []string{format.Bold("Interface " + i.Name), ""}
				if i.Hardware != "" {
					lines = append(lines, "hwaddr: "+i.Hardware)
				}
				for _, a := range i.Addresses {
					lines = append(lines, "addr: "+a)
				}
				if err := c.lines(append(lines, "flags: "+strings.Join(i.Flags, ", "), "", "")); err != nil {
					return err
				}
			}
			return nil
		})
}

func resolverInfoCommand() command {
	return aboutProcess("resolver_info", groupConfiguration, "Displays what decides how target node resolves hostnames", "",
		"Asking node %s for its effective hostname resolver (inetrc) configuration...", func(c *call, p admin.ProcessInfo) error {
			if c.format == format.FormatJSON {
				all := map[string]any{}
				for _, r := range p.Resolver {
					all[strings.ReplaceAll(strings.ToLower(r.Node), " ", "_")] = r.Text
				}
				return c.document(map[string]any{"node": c.node, "resolver_settings": all, "result": "ok"})
			}
			lines := []string{format.Bold("Hostname Resolver Settings"), ""}
			for _, r := range p.Resolver {
				lines = append(lines, r.Node+": "+r.Text)
			}
			return c.lines(lines)
		})
}

func resolveHostnameCommand() command {
	cmd := diagnostic("resolve_hostname", "Looks a host name up as the node does",
		"<hostname> [--address-family <ipv4 | ipv6>]", "", func(ctx context.Context, c *call, node Client) error {
			network := map[string]string{"IPv4": "ip4", "IPv6": "ip6"}[addressFamily(c)]
			all, err := node.Resolve(ctx, admin.HostQuery{Host: c.args[0], Network: network})
			var refused *admin.Error
			if errors.As(err, &refused) && refused.Code == admin.CodeNotFound {
				return errorf(exitDataErr, "Hostname does not resolve (resolution failed with an %s)", refused.Text)
			}
			if err != nil {
				return err
			}
			if c.format == format.FormatJSON {
				return c.document(map[string]any{"addresses": textList(all), "node": c.node, "result": "ok"})
			}
			return c.lines(all)
		})
	cmd.group, cmd.least, cmd.most, cmd.guides = groupConfiguration, 1, 1, nil
	cmd.flags = []flag{{"address-family", 0, flagText}}
	cmd.check = func(c *call) error {
		if f, ok := c.text["address-family"]; ok && !strings.EqualFold(f, "ipv4") && !strings.EqualFold(f, "ipv6") {
			return badArguments(`"unsupported address family %s. Please use one of: ipv4, ipv6"`, f)
		}
		return nil
	}
	cmd.banner = line(func(c *call) string {
		return fmt.Sprintf("Asking node %s to resolve hostname %s to %s addresses...", c.node, c.args[0], addressFamily(c))
	})
	return cmd
}

func cookieHashCommand() command {
	return aboutProcess("erlang_cookie_hash", groupConfiguration, "Displays a hash of the cookie (shared secret) used by the target node", timeoutUsage,
		"Asking node %s its Erlang cookie hash...", func(c *call, p admin.ProcessInfo) error {
			if c.format == format.FormatJSON {
				return c.document(map[string]any{"result": "ok", "value": p.CookieHash})
			}
			return c.message(p.CookieHash)
		})
}

// cookieSourcesCommand tells where this tool would take the cookie from; it asks no node.
func cookieSourcesCommand() command {
	cmd := diagnostic("erlang_cookie_sources", "Displays where the tool takes the cookie from that it authenticates with", timeoutUsage,
		"Listing cookie sources used by CLI tools...", nil)
	cmd.group, cmd.guides = groupConfiguration, nil
	cmd.banner = line(func(*call) string { return "Listing cookie sources used by CLI tools..." })
	cmd.run = func(_ context.Context, c *call) error {
		file := c.text["cookie-file"]
		switched := file != ""
		if c.env.CookieFile != nil {
			found, err := c.env.CookieFile(Target{Node: c.node, CookieFile: file})
			if err != nil {
				return errorf(exitUnavailable, "%v", err)
			}
			file = found
		}
		info, err := os.Stat(file)
		lines := []string{
			format.Bold("Cookie File"), "", "Effective user: " + c.env.Getenv("USER"), "Cookie file path: " + file,
			fmt.Sprintf("Cookie file exists? %t", err == nil),
		}
		if err == nil {
			lines = append(lines, "Cookie file access: "+info.Mode().Perm().String(), fmt.Sprintf("Cookie file size: %d", info.Size()))
		}
		return c.lines(append(lines, "", format.Bold("Cookie CLI Switch"), "", fmt.Sprintf("--cookie-file value set? %t", switched)))
	}
	return cmd
}

func threadStatsCommand() command {
	interval := func(c *call) (time.Duration, error) {
		text, ok := c.text["sample-interval"]
		if !ok {
			return 5 * time.Second, nil
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 {
			return 0, badArguments("Invalid options for this command:\n--sample-interval : %s", text)
		}
		return time.Duration(n) * time.Second, nil
	}
	cmd := diagnostic("runtime_thread_stats", "Shows how busy the Go runtime of the node is",
		"[--sample-interval <interval>]", "", func(ctx context.Context, c *call, node Client) error {
			d, err := interval(c)
			if err != nil {
				return err
			}
			before, err := node.Process(ctx)
			if err != nil {
				return err
			}
			began, timer := time.Now(), time.NewTimer(d)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			after, err := node.Process(ctx)
			if err != nil {
				return err
			}
			return c.lines(threadStats(before.CPU, after.CPU, time.Since(began)))
		})
	cmd.guides, cmd.details = []string{"runtime"}, []string{"--sample-interval <seconds>", "how many seconds to observe"}
	cmd.flags = []flag{{"sample-interval", 0, flagInteger}}
	cmd.check = func(c *call) error { _, err := interval(c); return err }
	cmd.banner = line(func(c *call) string {
		d, err := interval(c)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("Will collect runtime thread stats on %s for %d seconds...", c.node, int(d.Seconds()))
	})
	return cmd
}

// threadStats is what each thread did between two samples.
func threadStats(before, after []admin.CPUTime, took time.Duration) []string {
	lines := []string{
		fmt.Sprintf("Average thread real-time    : %7d us", took.Microseconds()), "",
		"        Thread     user   system    sleep", "", "Stats per thread:",
	}
	row := func(name string, user, system float64) string {
		share := func(seconds float64) float64 { return min(100, 100*seconds/max(took.Seconds(), 1e-9)) }
		return fmt.Sprintf("%14s %7.2f%% %7.2f%% %7.2f%%", name, share(user), share(system), max(0, 100-share(user)-share(system)))
	}
	var user, system float64
	for _, t := range after {
		if i := slices.IndexFunc(before, func(b admin.CPUTime) bool { return b.Name == t.Name }); i >= 0 {
			t.User, t.System = t.User-before[i].User, t.System-before[i].System
		}
		user, system = user+t.User, system+t.System
		lines = append(lines, row("thread "+t.Name, t.User, t.System))
	}
	return append(lines, "", "Stats of all threads together:", row("all", user, system))
}

func maybeStuckCommand() command {
	return aboutProcess("maybe_stuck", groupMonitoring, "Lists goroutines of the target node that have waited for a lock for a minute or more", timeoutUsage,
		"Asking node %s to detect potentially stuck goroutines...", func(c *call, p admin.ProcessInfo) error {
			if c.format == format.FormatJSON {
				list := format.List{}
				for _, g := range p.Waiting {
					list = append(list, map[string]any{"count": g.Count, "state": g.State, "since": g.Since, "stack": textList(g.Stack)})
				}
				return c.document(list)
			}
			lines := []string{fmt.Sprintf("Found %d suspicious places.", len(p.Waiting))}
			for _, g := range p.Waiting {
				lines = append(lines, "", fmt.Sprintf("%d in state %s for %s:", g.Count, g.State, g.Since))
				lines = append(lines, g.Stack...)
			}
			return c.lines(lines)
		})
}

func discoverPeersCommand() command {
	cmd := diagnostic("discover_peers", "Lists the nodes that the target node was told to form a cluster with, or found in it", timeoutUsage,
		"Discovering peers nodes ...", func(ctx context.Context, c *call, node Client) error {
			s, err := node.ClusterStatus(ctx)
			if err != nil {
				return err
			}
			var peers []string
			for _, n := range s.Nodes {
				if n.Name != s.Node {
					peers = append(peers, n.Name)
				}
			}
			switch {
			case c.format == format.FormatJSON:
				return c.document(map[string]any{"nodes": textList(peers), "result": "ok"})
			case len(peers) == 0:
				return c.message("No peers discovered")
			}
			return c.lines(peers)
		})
	cmd.banner, cmd.guides = line(func(*call) string { return "Discovering peers nodes ..." }), nil
	return cmd
}

// tlsVersionsCommand and cipherSuitesCommand tell what the runtime can; the node is of the tool's version or close to it.
func tlsVersionsCommand() command {
	cmd := diagnostic("tls_versions", "Shows which TLS versions the node could speak", timeoutUsage, "", nil)
	cmd.banner, cmd.guides = line(func(*call) string { return "Listing all TLS versions supported by the runtime..." }), nil
	cmd.run = func(_ context.Context, c *call) error {
		versions := []string{"tlsv1.3", "tlsv1.2"}
		if c.format == format.FormatJSON {
			return c.document(map[string]any{"versions": textList(versions)})
		}
		return c.lines(versions)
	}
	return cmd
}

func cipherSuitesCommand() command {
	cmd := diagnostic("cipher_suites", "Shows the cipher suites that TLS uses, or with --all those that it could",
		"[--format <openssl | erlang | map>] [--all] [--timeout <timeout>]", "", nil)
	cmd.details = []string{"--format", "accepted for scripts; the names are always those of the IANA", "--all", "those too that are off"}
	cmd.flags = []flag{{"format", 0, flagText}, {"all", 0, flagBool}}
	cmd.guides = nil
	cmd.check = func(c *call) error {
		if f, ok := c.text["format"]; ok && !slices.Contains([]string{"openssl", "erlang", "map"}, f) {
			return badArguments("\"Format %s is not supported. Please use one of: openssl, erlang, map\"", f)
		}
		return nil
	}
	cmd.banner = line(func(*call) string { return "Listing available cipher suites by their IANA names" })
	cmd.run = func(_ context.Context, c *call) error {
		suites := tls.CipherSuites()
		if c.set["all"] {
			suites = append(suites, tls.InsecureCipherSuites()...)
		}
		var names []string
		for _, s := range suites {
			names = append(names, s.Name)
		}
		if c.format == format.FormatJSON {
			return c.document(map[string]any{"cipher_suites": textList(names)})
		}
		return c.lines(names)
	}
	return cmd
}
