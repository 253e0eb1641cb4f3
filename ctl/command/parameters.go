package command

import (
	"context"
	"encoding/json"
	"fmt"

	"warren/ctl/admin"
)

// Commands about runtime parameters. Of the components that RabbitMQ and its plugins have, there is one here: the limits of
// virtual hosts.

const (
	groupParameters = "Parameters"
	vhostLimits     = "vhost-limits"
)

func parameterCommands() []command {
	return []command{
		clearGlobalParameterCommand(), clearParameterCommand(), listGlobalParametersCommand(), listParametersCommand(),
		setGlobalParameterCommand(), setParameterCommand(), setClusterNameCommand(),
	}
}

func setParameterCommand() command {
	return command{
		name: "set_parameter", tools: []string{toolCtl}, group: groupParameters, summary: "Gives a runtime parameter of a virtual host its value",
		usage: "[--vhost <vhost>] <component_name> <name> <value>",
		details: []string{
			"<component_name>", "component name", "<name>", "parameter name (identifier)", "<value>", "parameter value",
		},
		guides: []string{"parameters"}, least: 3, most: 3, running: true,
		banner: line(func(c *call) string {
			return fmt.Sprintf(`Setting runtime parameter "%s" for component "%s" to "%s" in vhost "%s" ...`,
				c.args[1], c.args[0], c.args[2], c.vhost)
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			switch component := c.args[0]; {
			case !json.Valid([]byte(c.args[2])):
				return &admin.Error{Code: admin.CodeBadJSON}
			case component == "policy" || component == "operator_policy":
				return errorf(exitUnavailable, "policies may not be set using this method")
			case component != vhostLimits:
				return &admin.Error{Code: admin.CodeValidation, Text: "component " + component + " not found"}
			}
			return node.SetVHostLimits(ctx, admin.LimitsInfo{Owner: c.vhost, Definition: c.args[2]})
		}),
	}
}

func clearParameterCommand() command {
	return command{
		name: "clear_parameter", tools: []string{toolCtl}, group: groupParameters, summary: "Takes a runtime parameter of a virtual host away",
		usage:   "[--vhost <vhost>] <component_name> <name>",
		details: []string{"<component_name>", "component name", "<name>", "parameter name (identifier)"},
		guides:  []string{"parameters"}, least: 2, most: 2, running: true,
		banner: line(func(c *call) string {
			return fmt.Sprintf(`Clearing runtime parameter "%s" for component "%s" on vhost "%s" ...`, c.args[1], c.args[0], c.vhost)
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			if c.args[0] != vhostLimits || c.args[1] != "limits" {
				return errorf(exitUnavailable, "Parameter does not exist")
			}
			return missingParameter(node.SetVHostLimits(ctx, admin.LimitsInfo{Owner: c.vhost}))
		}),
	}
}

func listParametersCommand() command {
	return command{
		name: "list_parameters", tools: readOnly(), group: groupParameters, summary: "Shows the runtime parameters of a virtual host",
		usage: "[--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]", guides: []string{"parameters"}, running: true,
		banner: line(func(c *call) string { return fmt.Sprintf(`Listing runtime parameters for vhost "%s" ...`, c.vhost) }),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			all, err := node.ListVHostLimits(ctx, admin.AccessQuery{VHost: c.vhost, ByHost: true})
			if err != nil {
				return err
			}
			return table(c, all, fixed("component", func(admin.LimitsInfo) any { return vhostLimits }),
				fixed("name", func(admin.LimitsInfo) any { return "limits" }),
				fixed("value", func(l admin.LimitsInfo) any { return l.Definition }))
		}),
	}
}

func setGlobalParameterCommand() command {
	return command{
		name: "set_global_parameter", tools: []string{toolCtl}, group: groupParameters, summary: "Gives a global runtime parameter its value",
		usage:   "<name> <value>",
		details: []string{"<name>", "parameter name (identifier)", "<value>", "parameter value"},
		guides:  []string{"parameters"}, least: 2, most: 2, running: true,
		banner: line(func(c *call) string {
			return fmt.Sprintf(`Setting global runtime parameter "%s" to "%s" ...`, c.args[0], c.args[1])
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			return node.SetGlobalParameter(ctx, admin.ParameterInfo{Name: c.args[0], Value: c.args[1]})
		}),
	}
}

func clearGlobalParameterCommand() command {
	return command{
		name: "clear_global_parameter", tools: []string{toolCtl}, group: groupParameters, summary: "Takes a global runtime parameter away",
		usage: "<name>", details: []string{"<name>", "parameter name (identifier)"}, guides: []string{"parameters"}, least: 1, most: 1,
		running: true,
		banner:  named(`Clearing global runtime parameter "%s" ...`),
		run: change(func(ctx context.Context, c *call, node Client) error {
			return missingParameter(node.ClearGlobalParameter(ctx, c.args[0]))
		}),
	}
}

func listGlobalParametersCommand() command {
	return command{
		name: "list_global_parameters", tools: readOnly(), group: groupParameters, summary: "Shows the global runtime parameters",
		usage: "[--no-table-headers] [--timeout <timeout>]", guides: []string{"parameters"}, running: true,
		banner: line(func(*call) string { return "Listing global runtime parameters ..." }),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			all, err := node.ListGlobalParameters(ctx)
			if err != nil {
				return err
			}
			return table(c, all, fixed("name", func(p admin.ParameterInfo) any { return p.Name }),
				fixed("value", func(p admin.ParameterInfo) any { return p.Value }))
		}),
	}
}

func setClusterNameCommand() command {
	return command{
		name: "set_cluster_name", tools: []string{toolCtl}, group: "Configuration and Environment", summary: "Names the cluster, as clients see it in the server properties",
		usage: "<name>", details: []string{"<name>", "New cluster name"}, least: 1, most: 1, running: true,
		banner: named(`Setting cluster name to %s ...`),
		run: change(func(ctx context.Context, c *call, node Client) error {
			value, err := json.Marshal(c.args[0])
			if err != nil {
				return fmt.Errorf("encode the name: %w", err)
			}
			return node.SetGlobalParameter(ctx, admin.ParameterInfo{Name: "cluster_name", Value: string(value)})
		}),
	}
}
