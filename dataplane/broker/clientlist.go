package broker

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/amqp"
	"warren/dataplane/broker/clienttls"
	"warren/dataplane/link"
	"warren/metadata/state"
)

// What operators see of clients. Each node knows its own; the node that is asked gathers.

// Connection is a client's connection. Its name in lists is <Node.Incarnation.Number.0>.
type Connection struct {
	Node        string `msgpack:"n"`
	Incarnation uint64 `msgpack:"i"`
	Number      uint64 `msgpack:"c"` // unique in the node's incarnation
	User        string `msgpack:"u"`
	Vhost       string `msgpack:"v"`
	Remote      string `msgpack:"r"` // host:port
	Local       string `msgpack:"l"`
	State       string `msgpack:"s"`
	Mechanism   string `msgpack:"m"`
	FrameMax    uint32 `msgpack:"f"`
	ChannelMax  uint16 `msgpack:"cm"`
	Heartbeat   uint16 `msgpack:"h"`  // seconds
	ConnectedAt int64  `msgpack:"at"` // ms since 1970
	Properties  []byte `msgpack:"p"`  // AMQP table, in lists of connections
	Count       int    `msgpack:"k"`  // of channels
	// TLS is nil without it.
	TLS      *clienttls.Facts `msgpack:"tls"`
	Received uint64           `msgpack:"ro"` // octets
	Reads    uint64           `msgpack:"rc"`
	Sent     uint64           `msgpack:"so"` // octets
	Writes   uint64           `msgpack:"sc"`
	Pending  uint64           `msgpack:"sp"` // octets that the peer has not acknowledged
	Channels []ChannelInfo    `msgpack:"ch"` // in lists of channels and consumers
}

// ChannelInfo is one channel; its name in lists is <Node.Incarnation.Connection's number.ID>.
type ChannelInfo struct {
	Number        uint16         `msgpack:"n"`
	ID            uint64         `msgpack:"i"`
	Transactional bool           `msgpack:"t"`
	Confirm       bool           `msgpack:"c"`
	Consumers     int            `msgpack:"k"`
	Unacked       int            `msgpack:"u"`
	Unconfirmed   int            `msgpack:"uc"`
	Uncommitted   int            `msgpack:"um"`
	AcksOpen      int            `msgpack:"ua"`
	Prefetch      uint16         `msgpack:"p"`
	Global        uint16         `msgpack:"g"`
	Consuming     []ConsumerInfo `msgpack:"cs"` // in lists of consumers
}

// ConsumerInfo is one consumer.
type ConsumerInfo struct {
	Queue     string `msgpack:"q"`
	Tag       string `msgpack:"t"`
	NoAck     bool   `msgpack:"n"`
	Prefetch  uint16 `msgpack:"p"`
	Arguments []byte `msgpack:"a"` // AMQP table
	// ID is its number among its node's consumers of the queue; 0: not known.
	ID uint64 `msgpack:"i"`
}

// ClientDetail says how much of each connection a list shows.
type ClientDetail uint8

const (
	DetailConnections ClientDetail = iota + 1
	DetailChannels
	DetailConsumers
)

// clientsPage is how many connections one call between nodes lists.
const clientsPage = 100

// Calls between nodes about clients; see network.go.
const (
	callClients      = "clients.list"
	callCloseClients = "clients.close"
	callCountClients = "clients.count"
)

func (n *Node) registerClientCalls() {
	n.links.HandleCall(callClients, answer(func(_ context.Context, q clientsQuestion) ([]Connection, error) {
		return n.localClients(q), nil
	}))
	n.links.HandleCall(callCloseClients, answer(n.closeLocal))
	n.links.HandleCall(callCountClients, answer(func(_ context.Context, q countQuestion) (clientCounts, error) {
		return n.countLocal(q), nil
	}))
}

// answer makes a handler of a call whose question and answer are msgpack.
func answer[Q, A any](f func(context.Context, Q) (A, error)) func(context.Context, link.PeerID, []byte) ([]byte, error) {
	return func(ctx context.Context, _ link.PeerID, body []byte) ([]byte, error) {
		var q Q
		if err := link.Unmarshal(body, &q); err != nil {
			return nil, fmt.Errorf("read a question about clients: %w", err)
		}
		a, err := f(ctx, q)
		if err != nil {
			return nil, err
		}
		return msgpack.Marshal(a)
	}
}

// ask calls another node; answer is the other side.
func ask[A any](ctx context.Context, n *Node, node, call string, q any) (a A, err error) {
	body, err := msgpack.Marshal(q)
	if err != nil {
		return a, err
	}
	b, err := n.links.Call(ctx, node, call, body)
	if err != nil {
		return a, fmt.Errorf("%s at %s: %w", call, node, err)
	}
	if err := link.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("read the answer of %s to %s: %w", node, call, err)
	}
	return a, nil
}

// clientsQuestion asks for connections with numbers above After, in their order.
type clientsQuestion struct {
	Detail ClientDetail `msgpack:"d"`
	Vhost  string       `msgpack:"v"` // with DetailConsumers
	After  uint64       `msgpack:"a"`
}

func (n *Node) localClients(q clientsQuestion) []Connection {
	l := n.currentLife()
	if l == nil {
		return nil
	}
	all := l.describeClients()
	all = slices.DeleteFunc(all, func(c amqp.ConnectionStatus) bool {
		s := c.Session.(*session)
		return s.conn <= q.After || q.Detail == DetailConsumers && c.VHost != q.Vhost
	})
	slices.SortFunc(all, func(a, b amqp.ConnectionStatus) int {
		return cmp.Compare(a.Session.(*session).conn, b.Session.(*session).conn)
	})
	var out []Connection
	for _, c := range all[:min(len(all), clientsPage)] {
		out = append(out, l.connection(c, q.Detail))
	}
	return out
}

func (l *life) describeClients() []amqp.ConnectionStatus {
	l.clientsMu.Lock()
	defer l.clientsMu.Unlock()
	if l.clients == nil {
		return nil
	}
	return l.clients.server.Describe()
}

func (l *life) connection(c amqp.ConnectionStatus, detail ClientDetail) Connection {
	s := c.Session.(*session)
	out := Connection{
		Node: l.self.Name, Incarnation: l.self.Incarnation, Number: s.conn, User: c.User.Name, Vhost: c.VHost,
		Remote: addressText(c.Remote), Local: addressText(c.Local), State: c.State, Mechanism: c.Mechanism, FrameMax: c.FrameMax,
		ChannelMax: c.ChannelMax, Heartbeat: c.HeartbeatSeconds, ConnectedAt: c.Connected.UnixMilli(), Count: len(c.Channels),
		Received: c.Traffic.Received, Reads: c.Traffic.Reads, Sent: c.Traffic.Sent, Writes: c.Traffic.Writes, Pending: c.Traffic.Pending,
	}
	if c.TLS != nil {
		out.TLS = clienttls.Describe(c.TLS)
	}
	if detail == DetailConnections {
		// A table that came over the wire can be written again; one that cannot is left out of the list.
		out.Properties, _ = amqp.AppendTable(nil, c.ClientProperties)
		return out
	}
	for _, ch := range c.Channels {
		info := ChannelInfo{
			Number: ch.Number, ID: ch.ID, Transactional: ch.Transactional, Confirm: ch.Confirm, Consumers: ch.Consumers,
			Unacked: ch.Unacked, Unconfirmed: ch.Unconfirmed, Uncommitted: ch.Uncommitted, AcksOpen: ch.AcksUncommitted,
			Prefetch: ch.Prefetch, Global: ch.GlobalPrefetch,
		}
		if detail == DetailConsumers {
			info.Consuming = s.consuming(ch.ID)
		}
		out.Channels = append(out.Channels, info)
	}
	return out
}

func addressText(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}

// Clients calls row for the connections of all nodes that are up, node by node as they answer, until row fails. It returns how
// many nodes did not answer.
func (n *Node) Clients(ctx context.Context, detail ClientDetail, vhost string, row func(Connection) error) (silent int, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, node := range n.upNodes() {
		wg.Go(func() {
			q := clientsQuestion{Detail: detail, Vhost: vhost}
			for {
				page, failed := n.clientsOf(ctx, node, q)
				mu.Lock()
				if failed != nil {
					silent++
					n.log.Warn("a node did not answer for its clients", "peer", node, "error", failed)
				}
				for _, c := range page {
					if err == nil {
						err = row(c)
					}
				}
				stop := err != nil || len(page) < clientsPage
				mu.Unlock()
				if stop {
					return
				}
				q.After = page[len(page)-1].Number
			}
		})
	}
	wg.Wait()
	return silent, err
}

func (n *Node) clientsOf(ctx context.Context, node string, q clientsQuestion) ([]Connection, error) {
	if node == n.cfg.Node {
		return n.localClients(q), nil
	}
	return ask[[]Connection](ctx, n, node, callClients, q)
}

// upNodes are the names of the nodes that are up.
func (n *Node) upNodes() (names []string) {
	n.meta.View(func(s *state.State) {
		for _, node := range s.Nodes() {
			if node.Status.Up() {
				names = append(names, node.Name)
			}
		}
	})
	return names
}

// CloseQuery selects connections: the one of that Number and Incarnation, those of a user, of a vhost (ByVhost), or all.
// Limit, if not 0, is how many at most, Delay the pause between two.
type CloseQuery struct {
	Incarnation uint64        `msgpack:"i"`
	Number      uint64        `msgpack:"n"`
	User        string        `msgpack:"u"`
	Vhost       string        `msgpack:"v"`
	ByVhost     bool          `msgpack:"b"`
	Limit       uint64        `msgpack:"l"`
	Delay       time.Duration `msgpack:"d"`
	Reason      string        `msgpack:"r"`
}

func (q CloseQuery) wants(l *life, c amqp.ConnectionStatus) bool {
	switch {
	case q.Number != 0:
		return q.Incarnation == l.self.Incarnation && c.Session.(*session).conn == q.Number
	case q.User != "":
		return c.User.Name == q.User
	}
	return !q.ByVhost || c.VHost == q.Vhost
}

// CloseClients closes connections of the nodes named, or of all that are up, with 320 and the reason. It returns how many it
// told, and how many nodes did not answer.
func (n *Node) CloseClients(ctx context.Context, q CloseQuery, nodes ...string) (closed uint64, silent int) {
	if len(nodes) == 0 {
		nodes = n.upNodes()
	}
	for _, node := range nodes {
		part := q
		if q.Limit > 0 {
			if closed >= q.Limit {
				break
			}
			part.Limit = q.Limit - closed
		}
		var count uint64
		var err error
		if node == n.cfg.Node {
			count, err = n.closeLocal(ctx, part)
		} else {
			count, err = ask[uint64](ctx, n, node, callCloseClients, part)
		}
		closed += count
		if err != nil {
			silent++
			n.log.Warn("a node did not close its clients' connections", "peer", node, "error", err)
		}
	}
	return closed, silent
}

func (n *Node) closeLocal(ctx context.Context, q CloseQuery) (closed uint64, err error) {
	l := n.currentLife()
	if l == nil {
		return 0, nil
	}
	for _, c := range l.describeClients() {
		if !q.wants(l, c) || q.Limit > 0 && closed >= q.Limit {
			continue
		}
		if closed > 0 && q.Delay > 0 {
			select {
			case <-time.After(q.Delay):
			case <-ctx.Done():
				return closed, ctx.Err()
			}
		}
		if l.closeConnection(c.ID, q.Reason) {
			closed++
		}
	}
	return closed, nil
}

func (l *life) closeConnection(id uint64, reason string) bool {
	l.clientsMu.Lock()
	defer l.clientsMu.Unlock()
	return l.clients != nil && l.clients.server.CloseConnection(id, reason)
}

// closeClientsOf closes this node's connections of a vhost or a user that is gone; it does not wait.
func (l *life) closeClientsOf(q CloseQuery) {
	l.spawn(func() {
		if n, err := l.node.closeLocal(l.ctx, q); err != nil || n > 0 {
			l.log.Info("connections were closed", "connections", n, "reason", q.Reason, "error", err)
		}
	})
}
