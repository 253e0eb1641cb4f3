package command

import (
	"context"
	"errors"
	"fmt"

	"warren/ctl/admin"
)

// Commands about the limits of virtual hosts and users.

func limitCommands() []command {
	return []command{
		clearUserLimitsCommand(), listUserLimitsCommand(), setUserLimitsCommand(),
		clearVHostLimitsCommand(), listVHostLimitsCommand(), setVHostLimitsCommand(),
	}
}

func setVHostLimitsCommand() command {
	return command{
		name: "set_vhost_limits", tools: []string{toolCtl}, group: "Virtual hosts", summary: "Limits how many connections or queues a virtual host may have",
		usage:   "[--vhost <vhost>] <definition>",
		details: []string{"<definition>", "Limit definitions, must be a valid JSON document: max-connections, max-queues; -1 is no limit"},
		guides:  []string{"vhosts"}, least: 1, most: 1, running: true,
		banner: line(func(c *call) string {
			return fmt.Sprintf(`Setting vhost limits to "%s" for vhost "%s" ...`, c.args[0], c.vhost)
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			if c.args[0] == "" {
				return &admin.Error{Code: admin.CodeBadJSON}
			}
			return node.SetVHostLimits(ctx, admin.LimitsInfo{Owner: c.vhost, Definition: c.args[0]})
		}),
	}
}

func clearVHostLimitsCommand() command {
	return command{
		name: "clear_vhost_limits", tools: []string{toolCtl}, group: "Virtual hosts", summary: "Takes all limits of a virtual host away",
		usage: "[--vhost <vhost>]", guides: []string{"vhosts"}, running: true,
		banner: line(func(c *call) string { return fmt.Sprintf(`Clearing vhost "%s" limits ...`, c.vhost) }),
		run: change(func(ctx context.Context, c *call, node Client) error {
			return missingParameter(node.SetVHostLimits(ctx, admin.LimitsInfo{Owner: c.vhost}))
		}),
	}
}

// missingParameter words what is not there, or is in a vhost that is not there.
func missingParameter(err error) error {
	switch admin.CodeOf(err) {
	case admin.CodeNotFound, admin.CodeNoSuchVHost:
		return errorf(exitUnavailable, "Parameter does not exist")
	}
	return err
}

// limitRows prints limits: with their owners if all was asked for, else alone and without a header.
func limitRows(c *call, owner string, all []admin.LimitsInfo) error {
	of := fixed(owner, func(l admin.LimitsInfo) any { return l.Owner })
	limits := fixed("limits", func(l admin.LimitsInfo) any { return l.Definition })
	if c.set["global"] {
		return table(c, all, of, limits)
	}
	c.set["table-headers"] = false
	return table(c, all, limits)
}

func listVHostLimitsCommand() command {
	return command{
		name: "list_vhost_limits", tools: readOnly(), group: "Virtual hosts", summary: "Shows the limits of one or of all virtual hosts",
		usage:   "[--vhost <vhost>] [--global] [--no-table-headers]",
		details: []string{"--global", "list global limits (those not associated with a particular virtual host)"},
		guides:  []string{"vhosts"}, flags: []flag{{"global", 0, flagBool}}, running: true,
		banner: line(func(c *call) string {
			if c.set["global"] {
				return "Listing limits for all vhosts ..."
			}
			return fmt.Sprintf(`Listing limits for vhost "%s" ...`, c.vhost)
		}),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			all, err := node.ListVHostLimits(ctx, admin.AccessQuery{VHost: c.vhost, ByHost: !c.set["global"]})
			if err != nil {
				return err
			}
			return limitRows(c, "vhost", all)
		}),
	}
}

// unwrapped words a refused definition without RabbitMQ's heading, as the commands about user limits do.
func unwrapped(err error) error {
	var refused *admin.Error
	if errors.As(err, &refused) && refused.Code == admin.CodeValidation {
		return errorf(exitUnavailable, "%s", refused.Text)
	}
	return termNoSuch(err)
}

func setUserLimitsCommand() command {
	return command{
		name: "set_user_limits", tools: []string{toolCtl}, group: "Users", summary: "Sets user limits",
		usage: "<username> <definition>",
		details: []string{
			"<username>", "name of the user",
			"<definition>", "Limit definitions, must be a valid JSON document: max-connections, max-channels; -1 is no limit",
		},
		least: 2, most: 2, running: true,
		banner: line(func(c *call) string {
			return fmt.Sprintf(`Setting user limits to "%s" for user "%s" ...`, c.args[1], c.args[0])
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			return unwrapped(node.SetUserLimits(ctx, admin.LimitsInfo{Owner: c.args[0], Definition: c.args[1]}))
		}),
	}
}

func clearUserLimitsCommand() command {
	return command{
		name: "clear_user_limits", tools: []string{toolCtl}, group: "Users", summary: "Takes one limit of a user, or all of them, away",
		usage:   "<username> <limit_type> | all",
		details: []string{"<username>", "name of the user", "<limit_type>", "max-connections or max-channels"},
		least:   2, most: 2, running: true,
		banner: line(func(c *call) string {
			if c.args[1] == "all" {
				return fmt.Sprintf(`Clearing all limits for user "%s" ...`, c.args[0])
			}
			return fmt.Sprintf(`Clearing "%s" limit for user "%s" ...`, c.args[1], c.args[0])
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			return termNoSuch(node.ClearUserLimits(ctx, c.args[0], c.args[1]))
		}),
	}
}

func listUserLimitsCommand() command {
	return command{
		name: "list_user_limits", tools: readOnly(), group: "Users", summary: "Shows the limits of one or of all users",
		usage:   "[--user <username>] [--global]",
		details: []string{"--user <username>", "user for which the limits should be displayed", "--global", "list limits of all users"},
		flags:   []flag{{"global", 0, flagBool}, {"user", 0, flagText}}, running: true,
		banner: line(func(c *call) string {
			if c.set["global"] {
				return "Listing limits for all users ..."
			}
			return fmt.Sprintf(`Listing limits for user "%s" ...`, limitedUser(c))
		}),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			all, err := node.ListUserLimits(ctx, admin.AccessQuery{User: limitedUser(c), ByUser: !c.set["global"]})
			if err != nil {
				return termNoSuch(err)
			}
			return limitRows(c, "user", all)
		}),
	}
}

func limitedUser(c *call) string {
	if user, ok := c.text["user"]; ok {
		return user
	}
	return "guest"
}
