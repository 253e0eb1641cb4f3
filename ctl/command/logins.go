package command

import (
	"context"
	"fmt"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// How often clients tried to log in.

func loginCommands() []command {
	return []command{
		loginStatsCommand(),
		trackSourcesCommand("enable_auth_attempt_source_tracking", "Starts counting logins by user and client address",
			"Enabling authentication attempt source tracking ...", true),
		trackSourcesCommand("disable_auth_attempt_source_tracking", "Ends the counting of logins by user and client address",
			"Disabling authentication attempt source tracking ...", false),
		resetLoginsCommand(),
	}
}

func loginStatsCommand() command {
	type l = admin.LoginCount
	figures := []column[l]{
		fixed("protocol", func(x l) any { return x.Protocol }),
		fixed("auth_attempts", func(x l) any { return x.Failed + x.Succeeded }),
		fixed("auth_attempts_failed", func(x l) any { return x.Failed }),
		fixed("auth_attempts_succeeded", func(x l) any { return x.Succeeded }),
	}
	bySource := append([]column[l]{
		fixed("remote_address", func(x l) any { return x.Source }), fixed("username", func(x l) any { return x.User }),
	}, figures...)
	return command{
		name: "list_node_auth_attempt_stats", tools: readOnly(), group: groupMonitoring, usage: "[--by-source]", running: true,
		summary: "Shows how many logins succeeded and failed on the node", guides: []string{"access-control", "monitoring"},
		details: []string{"--by-source", "list authentication attempts by remote address and username; see enable_auth_attempt_source_tracking"},
		flags:   []flag{{"by-source", 0, flagBool}},
		banner: line(func(c *call) string {
			return fmt.Sprintf("Listing authentication\n attempts for node \"%s\" ...", c.node)
		}),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			columns := figures
			if c.set["by-source"] {
				columns = bySource
			}
			all, err := node.Logins(ctx, c.set["by-source"])
			if err != nil {
				return err
			}
			if len(all) == 1 && all[0].Failed+all[0].Succeeded == 0 && !c.set["by-source"] {
				all = nil
			}
			if c.format == format.FormatJSON {
				list := make(format.List, len(all))
				for i, x := range all {
					row := format.Map{}
					for _, col := range columns {
						row = append(row, format.Pair{Name: col.name, Value: col.value(x)})
					}
					list[i] = row
				}
				return c.document(map[string]any{"attempts": list, "node": c.node, "result": "ok"})
			}
			if len(all) == 0 {
				return c.message(fmt.Sprintf("Node %s reported no authentication attempt stats", c.node))
			}
			return table(c, all, columns...)
		}),
	}
}

func trackSourcesCommand(name, summary, banner string, on bool) command {
	return command{
		name: name, tools: []string{toolDiagnostics}, group: groupConfiguration, summary: summary, running: true,
		guides: []string{"access-control", "monitoring"}, banner: line(func(*call) string { return banner }),
		run: change(func(ctx context.Context, _ *call, node Client) error { return node.TrackLoginSources(ctx, on) }),
	}
}

func resetLoginsCommand() command {
	return command{
		name: "reset_node_auth_attempt_metrics", tools: []string{toolDiagnostics}, group: groupConfiguration, running: true,
		summary: "Sets the counters of logins to zero", guides: []string{"access-control", "monitoring"},
		banner: line(func(c *call) string { return fmt.Sprintf("Reset auth attempt metrics on node %s ...", c.node) }),
		run:    change(func(ctx context.Context, _ *call, node Client) error { return node.ResetLogins(ctx) }),
	}
}
