package command

import (
	"context"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// Commands about virtual hosts and users.

func vhostColumns() []column[admin.VHostInfo] {
	type v = admin.VHostInfo
	return []column[v]{
		fixed("name", func(v v) any { return v.Name }),
		fixed("tracing", func(v v) any { return v.Tracing }),
		fixed("tags", func(v v) any { return textList(v.Tags) }),
		fixed("description", func(v v) any { return v.Description }),
		fixed("default_queue_type", func(v v) any { return v.DefaultQueueType }),
		fixed("cluster_state", func(v v) any {
			state := make(format.Map, len(v.ClusterState))
			for i, s := range v.ClusterState {
				state[i] = format.Pair{Name: s.Node, Value: format.Atom(s.Text)}
			}
			return state
		}),
	}
}

func listVHostsCommand() command {
	return command{
		name: "list_vhosts", tools: []string{toolCtl}, group: "Virtual hosts",
		summary: "Lists virtual hosts",
		usage:   "[--no-table-headers] [<column> ...] [--timeout <timeout>]",
		details: []string{"<column>", columnNames(vhostColumns())},
		guides:  []string{"virtual-hosts", "access-control"},
		most:    anyNumber,
		running: true,
		check:   checkColumns(vhostColumns()),
		banner:  func(*call) []string { return []string{"Listing vhosts ..."} },
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			chosen, err := choose(vhostColumns(), c.args, []string{"name"})
			if err != nil {
				return err
			}
			all, err := node.ListVHosts(ctx)
			if err != nil {
				return err
			}
			return printRows(c, chosen, all, true)
		}),
	}
}

func listUsersCommand() command {
	return command{
		name: "list_users", tools: []string{toolCtl}, group: "Users",
		summary: "List user names and tags",
		usage:   "[--no-table-headers] [--timeout <timeout>]",
		guides:  []string{"access-control"},
		running: true,
		banner:  func(*call) []string { return []string{"Listing users ..."} },
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			all, err := node.ListUsers(ctx)
			if err != nil {
				return err
			}
			return printRows(c, []column[admin.UserInfo]{
				fixed("user", func(u admin.UserInfo) any { return u.Name }),
				fixed("tags", func(u admin.UserInfo) any { return textList(u.Tags) }),
			}, all, true)
		}),
	}
}
