package command

import (
	"context"
	"fmt"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// Commands about exchanges and bindings.

func exchangeColumns() []column[admin.ExchangeInfo] {
	type x = admin.ExchangeInfo
	return []column[x]{
		fixed("name", func(x x) any { return x.Name }),
		fixed("type", func(x x) any { return format.Atom(x.Type) }),
		fixed("durable", func(x x) any { return x.Durable }),
		fixed("auto_delete", func(x x) any { return x.AutoDelete }),
		fixed("internal", func(x x) any { return x.Internal }),
		fixed("arguments", func(x x) any { return argumentTable(x.Arguments) }),
		fixed("policy", func(x x) any { return x.Policy }),
	}
}

func listExchangesCommand() command {
	return command{
		name: "list_exchanges", tools: readOnly(), group: "Exchanges and bindings",
		summary: "Lists exchanges",
		usage:   "[--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]",
		details: []string{"<column>", columnNames(exchangeColumns())},
		most:    anyNumber,
		running: true,
		check:   checkColumns(exchangeColumns()),
		banner:  func(c *call) []string { return []string{fmt.Sprintf("Listing exchanges for vhost %s ...", c.vhost)} },
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			chosen, err := choose(exchangeColumns(), c.args, []string{"name", "type"})
			if err != nil {
				return err
			}
			all, err := node.ListExchanges(ctx, c.vhost)
			if err != nil {
				return err
			}
			return printRows(c, chosen, all, false)
		}),
	}
}

func bindingColumns() []column[admin.BindingInfo] {
	type b = admin.BindingInfo
	return []column[b]{
		fixed("source_name", func(b b) any { return b.Source }),
		fixed("source_kind", func(b) any { return format.Atom("exchange") }),
		fixed("destination_name", func(b b) any { return b.Destination }),
		fixed("destination_kind", func(b b) any { return format.Atom(b.DestinationKind) }),
		fixed("routing_key", func(b b) any { return b.RoutingKey }),
		fixed("arguments", func(b b) any { return argumentTable(b.Arguments) }),
	}
}

func listBindingsCommand() command {
	return command{
		name: "list_bindings", tools: readOnly(), group: "Exchanges and bindings",
		summary: "Shows the bindings of a virtual host, a row each",
		usage:   "[--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]",
		details: []string{"<column>", columnNames(bindingColumns())},
		most:    anyNumber,
		running: true,
		check:   checkColumns(bindingColumns()),
		banner:  func(c *call) []string { return []string{fmt.Sprintf("Listing bindings for vhost %s...", c.vhost)} },
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			standard := headers(bindingColumns())
			chosen, err := choose(bindingColumns(), c.args, standard)
			if err != nil {
				return err
			}
			all, err := node.ListBindings(ctx, c.vhost)
			if err != nil {
				return err
			}
			return printRows(c, chosen, all, false)
		}),
	}
}
