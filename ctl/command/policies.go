package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"warren/ctl/admin"
)

// Commands about policies and operator policies, which differ in name only.

// policyWords are what the commands about one kind of policies say.
type policyWords struct {
	prefix, list   string // of the names of the commands: set_PREFIXpolicy, list_PREFIXpolicies
	summary, about string
	setting, clear string
	listing        string
	set            func(Client, context.Context, admin.PolicyInfo) error
	remove         func(Client, context.Context, string, string) error
	all            func(Client, context.Context, string) ([]admin.PolicyInfo, error)
}

func userPolicies() policyWords {
	return policyWords{
		summary: "Sets a policy, or replaces the one of that name", about: "a policy", setting: "policy", clear: "policy",
		list: "Shows the policies of a virtual host", listing: "policies",
		set: Client.SetPolicy, remove: Client.ClearPolicy, all: Client.ListPolicies,
	}
}

func operatorPolicies() policyWords {
	return policyWords{
		prefix: "operator_", summary: "Sets an operator policy: bounds that users' policies cannot exceed",
		about: "an operator policy", setting: "operator policy override", clear: "operator policy",
		list: "Shows the operator policies of a virtual host", listing: "operator policy overrides",
		set: Client.SetOperatorPolicy, remove: Client.ClearOperatorPolicy, all: Client.ListOperatorPolicies,
	}
}

func setPolicyCommand(w policyWords) command {
	return command{
		name: "set_" + w.prefix + "policy", tools: []string{toolCtl}, group: "Policies",
		summary: w.summary,
		usage:   "[--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>",
		details: []string{
			"<name>", "policy name (identifier)",
			"<pattern>", "regular expression; what it matches gets the policy",
			"<definition>", "JSON object of the policy's keys and values",
			"--priority <priority>", "policy priority",
			"--apply-to <queues | exchanges | all>", "whether it is for queues, exchanges or both",
		},
		guides:  []string{"parameters"},
		flags:   []flag{{"priority", 0, flagInteger}, {"apply-to", 0, flagText}},
		least:   3,
		most:    3,
		running: true,
		check: func(c *call) error {
			if _, err := policyPriority(c); err != nil {
				return badArguments("Invalid options for this command:\n--priority : %s", c.text["priority"])
			}
			return nil
		},
		banner: func(c *call) []string {
			priority, _ := policyPriority(c)
			return []string{fmt.Sprintf(`Setting %s "%s" for pattern "%s" to "%s" with priority "%d" for vhost "%s" ...`,
				w.setting, c.args[0], c.args[1], c.args[2], priority, c.vhost)}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error { return setPolicy(ctx, c, node, w) }),
	}
}

func policyPriority(c *call) (int64, error) {
	text, ok := c.text["priority"]
	if !ok {
		return 0, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

func setPolicy(ctx context.Context, c *call, node Client, w policyWords) error {
	priority, err := policyPriority(c)
	if err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	p := admin.PolicyInfo{VHost: c.vhost, Name: c.args[0], Pattern: c.args[1], Definition: c.args[2], Priority: priority, ApplyTo: "all"}
	if to, ok := c.text["apply-to"]; ok {
		p.ApplyTo = to
	}
	if !json.Valid([]byte(p.Definition)) {
		return &admin.Error{Code: admin.CodeBadJSON}
	}
	if err := w.set(node, ctx, p); err != nil {
		return err
	}
	return c.done()
}

func clearPolicyCommand(w policyWords) command {
	return command{
		name: "clear_" + w.prefix + "policy", tools: []string{toolCtl}, group: "Policies",
		summary: "Takes away " + w.about,
		usage:   "[--vhost <vhost>] <name>",
		details: []string{"<name>", "name of the policy"},
		guides:  []string{"parameters"},
		least:   1,
		most:    1,
		running: true,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf(`Clearing %s "%s" on vhost "%s" ...`, w.clear, c.args[0], c.vhost)}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			err := w.remove(node, ctx, c.vhost, c.args[0])
			switch admin.CodeOf(err) {
			case "":
				return c.done()
			case admin.CodeNotFound, admin.CodeNoSuchVHost:
				return errorf(exitUnavailable, "Parameter does not exist")
			}
			return err
		}),
	}
}

func listPoliciesCommand(w policyWords) command {
	return command{
		name: "list_" + w.prefix + "policies", tools: readOnly(), group: "Policies",
		summary: w.list,
		usage:   "[--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]",
		guides:  []string{"parameters"},
		running: true,
		banner: func(c *call) []string {
			return []string{fmt.Sprintf(`Listing %s for vhost "%s" ...`, w.listing, c.vhost)}
		},
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			policies, err := w.all(node, ctx, c.vhost)
			if err != nil {
				return err
			}
			rows := c.rows([]string{"vhost", "name", "pattern", "apply-to", "definition", "priority"}, true)
			for _, p := range policies {
				if err := rows.Row([]any{p.VHost, p.Name, p.Pattern, p.ApplyTo, p.Definition, p.Priority}); err != nil {
					return err
				}
			}
			return rows.Close()
		}),
	}
}
