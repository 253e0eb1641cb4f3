package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"warren/ctl/admin"
	"warren/ctl/format"
)

// Commands about clients: connections, channels, consumers.

const groupOperations = "Operations"

func clientCommands() []command {
	return []command{
		listChannelsCommand(), listConnectionsCommand(), listConsumersCommand(), closeAllConnectionsCommand(),
		closeAllUserConnectionsCommand(), closeConnectionCommand(),
	}
}

// streamed prints a list whose rows come one by one. Nodes that do not answer are missing from it, and named on standard error.
func streamed[R any](c *call, columns []column[R], standard []string, list func(row func(R) error) error) error {
	chosen, err := choose(columns, c.args, standard)
	if err != nil {
		return err
	}
	rows := c.rows(headers(chosen), false)
	err = list(func(r R) error { return rows.Row(values(chosen, r)) })
	late := admin.CodeOf(err) == admin.CodeTimeout
	if err != nil && !late {
		return err
	}
	if late {
		var refused *admin.Error
		text := err.Error()
		if errors.As(err, &refused) {
			text = refused.Text
		}
		print(c.env.Stderr, "Warning: "+text+"\n")
	}
	return rows.Close()
}

// tlsWord and tlsText are a value about a connection's TLS; without TLS there is none.
func tlsWord(field func(*admin.TLSInfo) string) func(admin.ConnectionInfo) any {
	return func(x admin.ConnectionInfo) any {
		if x.TLS == nil {
			return nil
		}
		return format.Atom(field(x.TLS))
	}
}

func tlsText(field func(*admin.TLSInfo) string) func(admin.ConnectionInfo) any {
	return func(x admin.ConnectionInfo) any {
		if x.TLS == nil || field(x.TLS) == "" {
			return nil
		}
		return field(x.TLS)
	}
}

func connectionColumns() []column[admin.ConnectionInfo] {
	type x = admin.ConnectionInfo
	return []column[x]{
		fixed("pid", func(x x) any { return pidValue(x.PID) }),
		fixed("name", func(x x) any { return x.Name() }),
		fixed("port", func(x x) any { return x.Port }),
		fixed("host", func(x x) any { return x.Host }),
		fixed("peer_port", func(x x) any { return x.PeerPort }),
		fixed("peer_host", func(x x) any { return x.PeerHost }),
		fixed("ssl", func(x x) any { return x.TLS != nil }),
		fixed("ssl_protocol", tlsWord(func(t *admin.TLSInfo) string { return t.Protocol })),
		fixed("ssl_key_exchange", tlsWord(func(t *admin.TLSInfo) string { return t.KeyExchange })),
		fixed("ssl_cipher", tlsWord(func(t *admin.TLSInfo) string { return t.Cipher })),
		fixed("ssl_hash", tlsWord(func(t *admin.TLSInfo) string { return t.Hash })),
		fixed("peer_cert_subject", tlsText(func(t *admin.TLSInfo) string { return t.PeerSubject })),
		fixed("peer_cert_issuer", tlsText(func(t *admin.TLSInfo) string { return t.PeerIssuer })),
		fixed("peer_cert_validity", tlsText(func(t *admin.TLSInfo) string { return t.PeerValidity })),
		fixed("state", func(x x) any { return format.Atom(x.State) }),
		fixed("channels", func(x x) any { return x.Channels }),
		fixed("protocol", func(x) any { return format.Version{0, 9, 1} }),
		fixed("auth_mechanism", func(x x) any { return x.Mechanism }),
		fixed("user", func(x x) any { return x.User }),
		fixed("vhost", func(x x) any { return x.VHost }),
		fixed("timeout", func(x x) any { return x.Heartbeat }),
		fixed("frame_max", func(x x) any { return x.FrameMax }),
		fixed("channel_max", func(x x) any { return x.ChannelMax }),
		fixed("client_properties", func(x x) any { return argumentTable(x.Properties) }),
		fixed("connected_at", func(x x) any { return x.ConnectedAt }),
		fixed("recv_oct", func(x x) any { return x.Received }),
		fixed("recv_cnt", func(x x) any { return x.Reads }),
		fixed("send_oct", func(x x) any { return x.Sent }),
		fixed("send_cnt", func(x x) any { return x.Writes }),
		fixed("send_pend", func(x x) any { return x.Pending }),
	}
}

func listConnectionsCommand() command {
	return command{
		name: "list_connections", tools: readOnly(), group: groupMonitoring, summary: "Shows the AMQP connections of the cluster, a row each",
		usage:   "[--no-table-headers] [<column> ...] [--timeout <timeout>]",
		details: []string{"<column>", columnNames(connectionColumns())}, guides: []string{"connections"},
		most: anyNumber, running: true, check: checkColumns(connectionColumns()),
		banner: line(func(*call) string { return "Listing connections ..." }),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			return streamed(c, connectionColumns(), []string{"user", "peer_host", "peer_port", "state"},
				func(row func(admin.ConnectionInfo) error) error { return node.ListConnections(ctx, row) })
		}),
	}
}

func channelColumns() []column[admin.ChannelInfo] {
	type x = admin.ChannelInfo
	return []column[x]{
		fixed("pid", func(x x) any { return pidValue(x.PID) }),
		fixed("connection", func(x x) any { return pidValue(x.Connection.PID) }),
		fixed("name", func(x x) any { return fmt.Sprintf("%s (%d)", x.Connection.Name(), x.Number) }),
		fixed("number", func(x x) any { return x.Number }),
		fixed("user", func(x x) any { return x.Connection.User }),
		fixed("vhost", func(x x) any { return x.Connection.VHost }),
		fixed("transactional", func(x x) any { return x.Transactional }),
		fixed("confirm", func(x x) any { return x.Confirm }),
		fixed("consumer_count", func(x x) any { return x.Consumers }),
		fixed("messages_unacknowledged", func(x x) any { return x.Unacked }),
		fixed("messages_uncommitted", func(x x) any { return x.Uncommitted }),
		fixed("acks_uncommitted", func(x x) any { return x.AcksOpen }),
		fixed("messages_unconfirmed", func(x x) any { return x.Unconfirmed }),
		fixed("prefetch_count", func(x x) any { return x.Prefetch }),
		fixed("global_prefetch_count", func(x x) any { return x.Global }),
	}
}

func listChannelsCommand() command {
	return command{
		name: "list_channels", tools: readOnly(), group: groupMonitoring, summary: "Shows the AMQP channels of the cluster, a row each",
		usage:   "[--no-table-headers] [<column> ...]",
		details: []string{"<column>", columnNames(channelColumns())}, guides: []string{"channels"},
		most: anyNumber, running: true, check: checkColumns(channelColumns()),
		banner: line(func(*call) string { return "Listing channels ..." }),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			return streamed(c, channelColumns(), []string{"pid", "user", "consumer_count", "messages_unacknowledged"},
				func(row func(admin.ChannelInfo) error) error { return node.ListChannels(ctx, row) })
		}),
	}
}

func consumerColumns() []column[admin.ConsumerInfo] {
	type x = admin.ConsumerInfo
	return []column[x]{
		fixed("queue_name", func(x x) any { return x.Queue }),
		fixed("channel_pid", func(x x) any { return pidValue(x.Channel) }),
		fixed("consumer_tag", func(x x) any { return x.Tag }),
		fixed("ack_required", func(x x) any { return x.Ack }),
		fixed("prefetch_count", func(x x) any { return x.Prefetch }),
		fixed("active", func(x x) any { return x.Activity != "waiting" }),
		fixed("activity_status", func(x x) any { return format.Atom(cmp.Or(x.Activity, "up")) }),
		fixed("arguments", func(x x) any { return argumentTable(x.Arguments) }),
	}
}

func listConsumersCommand() command {
	return command{
		name: "list_consumers", tools: readOnly(), group: groupMonitoring, summary: "Shows who consumes from which queue of a virtual host",
		usage:   "[--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]",
		details: []string{"<column>", columnNames(consumerColumns())}, guides: []string{"consumers"},
		most: anyNumber, running: true, check: checkColumns(consumerColumns()),
		banner: line(func(c *call) string { return fmt.Sprintf("Listing consumers in vhost %s ...", c.vhost) }),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			standard := []string{"queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count", "active", "arguments"}
			return streamed(c, consumerColumns(), standard,
				func(row func(admin.ConsumerInfo) error) error { return node.ListConsumers(ctx, c.vhost, row) })
		}),
	}
}

var errPID = errors.New("not of the form <node@host.creation.id.serial>")

// parsePID reads what lists show as a pid.
func parsePID(text string) (p admin.PID, err error) {
	if !strings.HasPrefix(text, "<") || !strings.HasSuffix(text, ">") {
		return p, errPID
	}
	inner := strings.Trim(text, "<>")
	parts := strings.Split(inner, ".")
	if len(parts) < 4 || !strings.Contains(inner, "@") {
		return p, errPID
	}
	at := len(parts) - 3
	p.Node = strings.Join(parts[:at], ".")
	for i, to := range []*uint64{&p.Creation, &p.ID, &p.Serial} {
		if *to, err = strconv.ParseUint(parts[at+i], 10, 64); err != nil {
			return p, errPID
		}
	}
	return p, nil
}

func closeConnectionCommand() command {
	return command{
		name: "close_connection", tools: []string{toolCtl}, group: groupOperations,
		summary: "Closes one client connection, named by its pid",
		usage:   "<connection pid> <explanation>",
		details: []string{
			"<connection pid>", "connection identifier (see list_connections pid)",
			"<explanation>", "reason for connection closure, which the client is told",
		},
		guides: []string{"connections"}, least: 2, most: 2, running: true,
		banner: line(func(c *call) string { return fmt.Sprintf("Closing connection %s, reason: %s...", c.args[0], c.args[1]) }),
		run: change(func(ctx context.Context, c *call, node Client) error {
			pid, err := parsePID(c.args[0])
			if err != nil {
				return errorf(exitUnavailable, "Error:\n{:invalid_pid_syntax, %q}", c.args[0])
			}
			_, err = node.CloseConnections(ctx, admin.CloseQuery{PID: pid, Reason: c.args[1]})
			return err
		}),
	}
}

func closeAllUserConnectionsCommand() command {
	return command{
		name: "close_all_user_connections", tools: []string{toolCtl}, group: groupOperations,
		summary: "Closes every client connection of a user",
		usage:   "<username> <explanation>",
		details: []string{"<username>", "name of the user", "<explanation>", "reason for connection closure, which the clients are told"},
		guides:  []string{"connections"}, least: 2, most: 2, running: true,
		banner: line(func(c *call) string {
			return fmt.Sprintf("Closing connections of user %s, reason: %s...", c.args[0], c.args[1])
		}),
		run: change(func(ctx context.Context, c *call, node Client) error {
			if c.args[0] == "" {
				return nil // nobody has that name, and no name is all to the node
			}
			_, err := node.CloseConnections(ctx, admin.CloseQuery{User: c.args[0], Reason: c.args[1]})
			return err
		}),
	}
}

func closeAllConnectionsCommand() command {
	return command{
		name: "close_all_connections", tools: []string{toolCtl}, group: groupOperations,
		summary: "Closes the client connections of a virtual host, or of a whole node",
		usage:   "[--vhost <vhost> --limit <limit>] [-n <node> --global] [--per-connection-delay <delay>] <explanation>",
		details: []string{
			"<explanation>", "reason for connection closure, which the clients are told",
			"--global", "connections to any virtual host",
			"--limit <limit>", "at most so many of them",
			"--per-connection-delay <milliseconds>", "pause after each, in milliseconds",
		},
		guides: []string{"connections"},
		flags:  []flag{{"global", 0, flagBool}, {"limit", 0, flagInteger}, {"per-connection-delay", 0, flagInteger}},
		least:  1, most: 1, running: true,
		banner: line(func(c *call) string {
			if c.set["global"] {
				return fmt.Sprintf("Closing all connections to node %s (across all vhosts), reason: %s...", c.node, c.args[0])
			}
			return fmt.Sprintf("Closing all connections in vhost %s, reason: %s...", c.vhost, c.args[0])
		}),
		run: withClient(func(ctx context.Context, c *call, node Client) error {
			limit, _ := strconv.ParseUint(c.text["limit"], 10, 64)
			delay, _ := strconv.ParseInt(c.text["per-connection-delay"], 10, 32)
			q := admin.CloseQuery{
				VHost: c.vhost, ByHost: true, Limit: limit, Delay: time.Duration(max(delay, 0)) * time.Millisecond, Reason: c.args[0],
			}
			if c.set["global"] { // of the node, as in RabbitMQ
				q.VHost, q.ByHost, q.Here = "", false, true
			}
			closed, err := node.CloseConnections(ctx, q)
			if err != nil {
				return err
			}
			return c.message(fmt.Sprintf("Closed %d connections", closed))
		}),
	}
}
