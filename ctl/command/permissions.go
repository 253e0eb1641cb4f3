package command

import (
	"context"
	"fmt"

	"warren/ctl/admin"
)

// Commands about what users may do.

const groupAccess = "Access Control"

func permissionCommands() []command {
	return []command{
		clearPermissionsCommand(), clearTopicPermissionsCommand(), listPermissionsCommand(), listTopicPermissionsCommand(),
		listUserPermissionsCommand(), listUserTopicPermissionsCommand(), setPermissionsCommand(), setTopicPermissionsCommand(),
	}
}

func setPermissionsCommand() command {
	return command{
		name: "set_permissions", tools: []string{toolCtl}, group: groupAccess, summary: "Says what a user may configure, write and read in a virtual host",
		usage: "[--vhost <vhost>] <username> <conf> <write> <read>",
		details: []string{
			"<username>", "name of the user",
			"<conf>", "Configuration permission pattern",
			"<write>", "Write permission pattern",
			"<read>", "Read permission pattern",
		},
		guides: []string{"access-control"}, least: 4, most: 4, running: true,
		banner: line(func(c *call) string {
			return fmt.Sprintf(`Setting permissions for user "%s" in vhost "%s" ...`, c.args[0], c.vhost)
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			return badPattern(plainNoSuch(node.SetPermissions(ctx, admin.PermissionInfo{
				User: c.args[0], VHost: c.vhost, Configure: c.args[1], Write: c.args[2], Read: c.args[3],
			})), "'")
		}),
	}
}

func clearPermissionsCommand() command {
	return command{
		name: "clear_permissions", tools: []string{toolCtl}, group: groupAccess, summary: "Takes a user's permissions in a virtual host away",
		usage: "[--vhost <vhost>] <username>", details: userName(), guides: []string{"access-control"}, least: 1, most: 1, running: true,
		banner: line(func(c *call) string {
			return fmt.Sprintf(`Clearing permissions for user "%s" in vhost "%s" ...`, c.args[0], c.vhost)
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			return plainNoSuch(node.ClearPermissions(ctx, admin.PermissionInfo{User: c.args[0], VHost: c.vhost}))
		}),
	}
}

func setTopicPermissionsCommand() command {
	return command{
		name: "set_topic_permissions", tools: []string{toolCtl}, group: groupAccess,
		summary: "Says with which routing keys a user may publish to and bind to a topic exchange",
		usage:   "[--vhost <vhost>] <username> <exchange> <write> <read>",
		details: []string{
			"<username>", "name of the user",
			"<exchange>", "name of the topic exchange",
			"<write>", "Write permission pattern",
			"<read>", "Read permission pattern",
		},
		guides: []string{"access-control"}, least: 4, most: 4, running: true,
		banner: line(func(c *call) string {
			return fmt.Sprintf(`Setting topic permissions on "%s" for user "%s" in vhost "%s" ...`, c.args[1], c.args[0], c.vhost)
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			return badPattern(plainNoSuch(node.SetTopicPermissions(ctx, admin.PermissionInfo{
				User: c.args[0], VHost: c.vhost, Exchange: c.args[1], Write: c.args[2], Read: c.args[3],
			})), `"`)
		}),
	}
}

func clearTopicPermissionsCommand() command {
	return command{
		name: "clear_topic_permissions", tools: []string{toolCtl}, group: groupAccess,
		summary: "Takes a user's topic permissions for one or all exchanges of a virtual host away",
		usage:   "[--vhost <vhost>] <username> [<exchange>]",
		details: []string{"<username>", "name of the user", "<exchange>", "Exchange"},
		guides:  []string{"access-control"}, least: 1, most: 2, running: true,
		banner: line(func(c *call) string {
			on := ""
			if len(c.args) > 1 {
				on = fmt.Sprintf(` on "%s"`, c.args[1])
			}
			return fmt.Sprintf(`Clearing topic permissions%s for user "%s" in vhost "%s" ...`, on, c.args[0], c.vhost)
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			p := admin.PermissionInfo{User: c.args[0], VHost: c.vhost, All: len(c.args) == 1}
			if !p.All {
				p.Exchange = c.args[1]
			}
			return plainNoSuch(node.ClearTopicPermissions(ctx, p))
		}),
	}
}

func permissionColumns(names ...string) (chosen []column[admin.PermissionInfo]) {
	type p = admin.PermissionInfo
	all := []column[p]{
		fixed("user", func(p p) any { return p.User }),
		fixed("vhost", func(p p) any { return p.VHost }),
		fixed("exchange", func(p p) any { return p.Exchange }),
		fixed("configure", func(p p) any { return p.Configure }),
		fixed("write", func(p p) any { return p.Write }),
		fixed("read", func(p p) any { return p.Read }),
	}
	for _, name := range names {
		for _, c := range all {
			if c.name == name {
				chosen = append(chosen, c)
			}
		}
	}
	return chosen
}

func listPermissionsCommand() command {
	return command{
		name: "list_permissions", tools: readOnly(), group: groupAccess, summary: "Shows who may do what in a virtual host",
		usage: "[--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]", guides: []string{"access-control"}, running: true,
		banner: line(func(c *call) string { return fmt.Sprintf(`Listing permissions for vhost "%s" ...`, c.vhost) }),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			all, err := node.ListPermissions(ctx, admin.AccessQuery{VHost: c.vhost, ByHost: true})
			if err != nil {
				return err
			}
			return table(c, all, permissionColumns("user", "configure", "write", "read")...)
		}),
	}
}

func listUserPermissionsCommand() command {
	return command{
		name: "list_user_permissions", tools: readOnly(), group: groupAccess,
		summary: "Shows what a user may do, virtual host by virtual host",
		usage:   "[--no-table-headers] <username> [--timeout <timeout>]", details: userName(),
		guides: []string{"access-control"}, least: 1, most: 1, running: true,
		banner: named(`Listing permissions for user "%s" ...`),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			all, err := node.ListPermissions(ctx, admin.AccessQuery{User: c.args[0], ByUser: true})
			if err != nil {
				return termNoSuch(err)
			}
			return table(c, all, permissionColumns("vhost", "configure", "write", "read")...)
		}),
	}
}

func listTopicPermissionsCommand() command {
	return command{
		name: "list_topic_permissions", tools: readOnly(), group: groupAccess, summary: "Shows the topic permissions of a virtual host",
		usage: "[--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]", guides: []string{"access-control"}, running: true,
		banner: line(func(c *call) string { return fmt.Sprintf(`Listing topic permissions for vhost "%s" ...`, c.vhost) }),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			all, err := node.ListTopicPermissions(ctx, admin.AccessQuery{VHost: c.vhost, ByHost: true})
			if err != nil {
				return err
			}
			return table(c, all, permissionColumns("user", "exchange", "write", "read")...)
		}),
	}
}

func listUserTopicPermissionsCommand() command {
	return command{
		name: "list_user_topic_permissions", tools: readOnly(), group: groupAccess, summary: "Shows the topic permissions of a user",
		usage: "[--no-table-headers] <username> [--timeout <timeout>]", details: userName(),
		guides: []string{"access-control"}, least: 1, most: 1, running: true,
		banner: named(`Listing topic permissions for user "%s" ...`),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			all, err := node.ListTopicPermissions(ctx, admin.AccessQuery{User: c.args[0], ByUser: true})
			if err != nil {
				return termNoSuch(err)
			}
			c.set["table-headers"] = false // as recorded: this list has none
			return table(c, all, permissionColumns("vhost", "exchange", "write", "read")...)
		}),
	}
}
