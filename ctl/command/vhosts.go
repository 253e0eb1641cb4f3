package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// Commands about virtual hosts.

func vhostCommands() []command {
	return []command{addVHostCommand(), deleteVHostCommand(), restartVHostCommand(), setVHostTagsCommand()}
}

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
		name: "list_vhosts", tools: readOnly(), group: groupAccess,
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

func addVHostCommand() command {
	return command{
		name: "add_vhost", tools: []string{toolCtl}, group: "Virtual hosts", summary: "Makes an empty virtual host",
		usage: `<vhost> [--description <description> --tags "<tag1>,<tag2>,<...>" --default-queue-type <quorum|classic|stream>]`,
		details: []string{
			"<vhost>", "Virtual host name",
			"--description <description>", "Virtual host description",
			"--tags <tags>", "tags, separated by commas",
			"--default-queue-type <quorum|classic|stream>", "Kept for definition files; all queues are classic ones",
		},
		guides: []string{"vhosts"},
		flags:  []flag{{"description", 0, flagText}, {"tags", 0, flagText}, {"default-queue-type", 0, flagText}},
		least:  1, most: 1, running: true,
		banner: named(`Adding vhost "%s" ...`),
		run: change(func(ctx context.Context, c *call, node Client) error {
			v := admin.VHostInfo{Name: c.args[0], Description: c.text["description"], DefaultQueueType: c.text["default-queue-type"]}
			for tag := range strings.SplitSeq(c.text["tags"], ",") {
				if tag = strings.TrimSpace(tag); tag != "" {
					v.Tags = append(v.Tags, tag)
				}
			}
			return node.PutVHost(ctx, v)
		}),
	}
}

func deleteVHostCommand() command {
	return command{
		name: "delete_vhost", tools: []string{toolCtl}, group: "Virtual hosts",
		summary: "Removes a virtual host with everything in it", usage: "<vhost>",
		details: []string{"<vhost>", "Name of the virtual host to delete, with everything in it"}, guides: []string{"vhosts"},
		least: 1, most: 1, running: true,
		banner: named(`Deleting vhost "%s" ...`),
		run:    change(func(ctx context.Context, c *call, node Client) error { return node.DeleteVHost(ctx, c.args[0]) }),
	}
}

func setVHostTagsCommand() command {
	return command{
		name: "set_vhost_tags", tools: []string{toolCtl}, group: "Virtual hosts", summary: "Replaces the tags of a virtual host",
		usage: "<vhost> <tag> [...]", details: []string{"<vhost>", "Virtual host name", "<tags>", "tags, one argument each"},
		guides: []string{"virtual-hosts"}, least: 1, most: anyNumber, running: true,
		banner: line(func(c *call) string {
			return fmt.Sprintf(`Setting tags for virtual host "%s" to %s ...`, c.args[0], bracketed(c.args[1:]))
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			err := node.SetVHostTags(ctx, admin.VHostInfo{Name: c.args[0], Tags: c.args[1:]})
			if admin.CodeOf(err) == admin.CodeNoSuchVHost {
				return errorf(exitDataErr, `Virtual host "%s" does not exist`, c.args[0])
			}
			return err
		}),
	}
}

func restartVHostCommand() command {
	return command{
		name: "restart_vhost", tools: []string{toolCtl}, group: "Virtual hosts",
		summary: "Says that a virtual host runs: its stores are the node's, and do not fail alone",
		usage:   "[--vhost <vhost>] [--timeout <timeout>]", guides: []string{"vhosts"}, running: true,
		banner: line(func(c *call) string {
			return fmt.Sprintf("Trying to restart vhost '%s' on node '%s' ...", c.vhost, c.node)
		}),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			all, err := node.ListVHosts(ctx)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(all, func(v admin.VHostInfo) bool { return v.Name == c.vhost }) {
				return errorf(exitSoftware, "Failed to start vhost '%s' on node '%s'Reason: {:no_such_vhost, \"%s\"}", c.vhost, c.node, c.vhost)
			}
			return c.message(fmt.Sprintf("Vhost '%s' is already running on node '%s'", c.vhost, c.node))
		}),
	}
}
