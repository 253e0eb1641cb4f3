package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/link"
)

// Clients is what operators see of clients and do about them, over the whole cluster.
type Clients interface {
	// ListConnections, ListChannels and ListConsumers (of a vhost) call row as the nodes answer. CodeTimeout after the rows
	// that did arrive says that some node did not answer.
	ListConnections(ctx context.Context, row func(ConnectionInfo) error) error
	ListChannels(ctx context.Context, row func(ChannelInfo) error) error
	ListConsumers(ctx context.Context, vhost string, row func(ConsumerInfo) error) error
	// CloseConnections closes those that q selects with 320 and the reason, and returns how many it told.
	CloseConnections(ctx context.Context, q CloseQuery) (uint64, error)
}

// CloseQuery selects connections: the one PID, or those of a user, of a vhost (ByHost), or all. Here: only those of the node asked.
// Delay is the pause between two; Limit, if not 0, how many at most.
type CloseQuery struct {
	PID    PID           `msgpack:"pid"`
	User   string        `msgpack:"user"`
	VHost  string        `msgpack:"vhost"`
	ByHost bool          `msgpack:"by_host"`
	Here   bool          `msgpack:"here"`
	Delay  time.Duration `msgpack:"delay"`
	Limit  uint64        `msgpack:"limit"`
	Reason string        `msgpack:"reason"`
}

// ConnectionInfo is a client's connection.
type ConnectionInfo struct {
	PID         PID        `msgpack:"pid"`
	User        string     `msgpack:"user"`
	VHost       string     `msgpack:"vhost"`
	PeerHost    string     `msgpack:"peer_host"`
	PeerPort    uint16     `msgpack:"peer_port"`
	Host        string     `msgpack:"host"`
	Port        uint16     `msgpack:"port"`
	State       string     `msgpack:"state"` // running, blocked, closing
	Channels    uint64     `msgpack:"channels"`
	Mechanism   string     `msgpack:"mechanism"`
	FrameMax    uint32     `msgpack:"frame_max"`
	ChannelMax  uint16     `msgpack:"channel_max"`
	Heartbeat   uint16     `msgpack:"heartbeat"`
	TLS         *TLSInfo   `msgpack:"tls_info"` // nil: without TLS
	Received    uint64     `msgpack:"recv_oct"`
	Reads       uint64     `msgpack:"recv_cnt"`
	Sent        uint64     `msgpack:"send_oct"`
	Writes      uint64     `msgpack:"send_cnt"`
	Pending     uint64     `msgpack:"send_pend"`    // octets that the peer has not acknowledged
	ConnectedAt int64      `msgpack:"connected_at"` // ms since 1970
	Properties  []Argument `msgpack:"properties"`
}

// TLSInfo are RabbitMQ's words for a connection's TLS; the last three are empty if the client gave no certificate.
type TLSInfo struct {
	Protocol     string `msgpack:"protocol"`
	KeyExchange  string `msgpack:"key_exchange"`
	Cipher       string `msgpack:"cipher"`
	Hash         string `msgpack:"hash"`
	PeerSubject  string `msgpack:"peer_subject"`
	PeerIssuer   string `msgpack:"peer_issuer"`
	PeerValidity string `msgpack:"peer_validity"`
}

// Name is "peer:port -> host:port".
func (c ConnectionInfo) Name() string {
	return fmt.Sprintf("%s:%d -> %s:%d", c.PeerHost, c.PeerPort, c.Host, c.Port)
}

// ChannelInfo is one channel of a connection.
type ChannelInfo struct {
	PID           PID            `msgpack:"pid"`
	Connection    ConnectionInfo `msgpack:"connection"` // its PID, user, vhost and addresses
	Number        uint16         `msgpack:"number"`
	Transactional bool           `msgpack:"transactional"`
	Confirm       bool           `msgpack:"confirm"`
	Consumers     uint64         `msgpack:"consumers"`
	Unacked       uint64         `msgpack:"unacked"`
	Unconfirmed   uint64         `msgpack:"unconfirmed"`
	Uncommitted   uint64         `msgpack:"uncommitted"`      // publishes of an open transaction
	AcksOpen      uint64         `msgpack:"acks_uncommitted"` // acknowledgements of an open transaction
	Prefetch      uint16         `msgpack:"prefetch"`
	Global        uint16         `msgpack:"global_prefetch"`
}

// ConsumerInfo is one consumer.
type ConsumerInfo struct {
	Queue     string     `msgpack:"queue"`
	VHost     string     `msgpack:"vhost"`
	Channel   PID        `msgpack:"channel"`
	Tag       string     `msgpack:"tag"`
	Ack       bool       `msgpack:"ack"`
	Prefetch  uint16     `msgpack:"prefetch"`
	Activity  string     `msgpack:"activity"` // up, single_active, waiting; "" from a node of before: up
	Arguments []Argument `msgpack:"arguments"`
}

const (
	cmdListConnections  = "list_connections"
	cmdListChannels     = "list_channels"
	cmdListConsumers    = "list_consumers"
	cmdCloseConnections = "close_connections"
)

func clientHandlers() map[string]handler {
	return map[string]handler{
		cmdListConnections: func(ctx context.Context, node Node, _ msgpack.RawMessage, row func(any) error) error {
			return node.ListConnections(ctx, func(c ConnectionInfo) error { return row(c) })
		},
		cmdListChannels: func(ctx context.Context, node Node, _ msgpack.RawMessage, row func(any) error) error {
			return node.ListChannels(ctx, func(c ChannelInfo) error { return row(c) })
		},
		cmdListConsumers: func(ctx context.Context, node Node, args msgpack.RawMessage, row func(any) error) error {
			a, err := decode[named](args)
			if err != nil {
				return err
			}
			return node.ListConsumers(ctx, a.VHost, func(c ConsumerInfo) error { return row(c) })
		},
		cmdCloseConnections: one(func(ctx context.Context, n Node, q CloseQuery) (uint64, error) {
			return n.CloseConnections(ctx, q)
		}),
	}
}

// streamed gives each row of an answer as it arrives.
func streamed[R any](ctx context.Context, c *Client, command string, args any, row func(R) error) error {
	return c.call(ctx, command, args, func(raw msgpack.RawMessage) error {
		var r R
		if err := link.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("%s: decode row: %w", command, err)
		}
		return row(r)
	})
}

// ListConnections implements Node.
func (c *Client) ListConnections(ctx context.Context, row func(ConnectionInfo) error) error {
	return streamed(ctx, c, cmdListConnections, nothing{}, row)
}

// ListChannels implements Node.
func (c *Client) ListChannels(ctx context.Context, row func(ChannelInfo) error) error {
	return streamed(ctx, c, cmdListChannels, nothing{}, row)
}

// ListConsumers implements Node.
func (c *Client) ListConsumers(ctx context.Context, vhost string, row func(ConsumerInfo) error) error {
	return streamed(ctx, c, cmdListConsumers, named{VHost: vhost}, row)
}

// CloseConnections implements Node.
func (c *Client) CloseConnections(ctx context.Context, q CloseQuery) (uint64, error) {
	return single[uint64](ctx, c, cmdCloseConnections, q)
}
