package link

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Proto is the first byte of a connection: the protocol that it carries.
type Proto byte

// The protocols of a Warren node. A caller may register others with [Transport.Handle].
const (
	ProtoRaft  Proto = 'R'
	ProtoPeer  Proto = 'L' // served by this package alone
	ProtoAdmin Proto = 'A'
	// ProtoMembers is for nodes that are not linked: one question about membership, one answer.
	ProtoMembers Proto = 'M'
)

// FrameKind names what a frame on a peer link carries. Kinds below FirstUserKind belong to this package.
type FrameKind uint8

// FirstUserKind is the lowest FrameKind that a caller may use.
const FirstUserKind FrameKind = 16

// Protocol versions of the peer link that this build speaks (design/upgrades.md).
const (
	MinProtocol = 1
	MaxProtocol = 1
)

// HandshakeTimeout bounds connecting and all handshakes of one connection, TLS included.
const HandshakeTimeout = 5 * time.Second

// MinCookie is the least length of a cookie in bytes: an empty one would let everybody in.
const MinCookie = 8

// Hello is what a node says of itself in the handshake of a peer link (design/upgrades.md).
type Hello struct {
	Cluster     string // cluster id; empty: not yet in a cluster, fits every other
	Node        string // node name
	Incarnation uint64
	Min, Max    int // protocol versions; both 0: MinProtocol and MaxProtocol
	Features    []string
	Addr        string // host:port of its inter-node listener, where it can be dialled now; may be empty
}

// Peer is a node that should be connected.
type Peer struct {
	Node string
	Addr string // host:port of its inter-node listener
}

// PeerID names one established peer link: a node, its incarnation, and the connection. It is comparable. Session
// numbers the established links of one Transport, ascending from 1; it is 0 in an id that was made by hand.
type PeerID struct {
	Node        string
	Incarnation uint64
	Session     uint64
}

// Watcher is told of peer links. The calls for one peer are serialised, frames included: Up, then frames, then Down
// before the next Up. They run on the link's own goroutines: they must not block, and must not call Transport.Close.
type Watcher interface {
	// LinkUp: the link can be sent to from now on.
	LinkUp(PeerID)
	// LinkDown: no frame of this link will follow, what was not sent is lost.
	LinkDown(PeerID, Cause)
	// LinkDrained: the backlog, which had reached Config.SoftLimit, is below half of it. Unlike the other two it comes
	// from the writer's goroutine, unordered with them.
	LinkDrained(PeerID)
}

// Config describes a Transport. Zero values of limits and times mean the defaults named.
type Config struct {
	// Addr is where to listen, host:port. Ignored if Listener is set.
	Addr string
	// Listener, if set, is used instead of a new one; the Transport closes it.
	Listener net.Listener
	// Node is this node's name. It cannot change.
	Node string
	// Cookie is the cluster's secret, at least MinCookie bytes.
	Cookie []byte
	// Hello is asked in every handshake; its Node is overwritten with Node. When the answer changes, call Rehello.
	Hello func() Hello
	// ServerTLS and ClientTLS, both or none, wrap every connection of every protocol. For mutual authentication set
	// ClientAuth and ClientCAs in the first, Certificates and RootCAs in the second.
	ServerTLS, ClientTLS *tls.Config
	// Keepalive is the time after which a silent link sends a keepalive. Default 1 s.
	Keepalive time.Duration
	// Timeout is the time after which a link that receives nothing is closed. Default 10 s.
	Timeout time.Duration
	// MaxFrame is the largest body of a frame in bytes, in both directions. Default 16 MiB.
	MaxFrame int
	// SoftLimit is the backlog in bytes from which LinkDrained is told when it has shrunk. Default 256 KiB.
	SoftLimit int
	// HardLimit is the backlog in bytes at which a link is closed. Default 64 MiB.
	HardLimit int
	// MaxCalls limits the own calls that wait for an answer, per peer, and the calls of peers that wait for a
	// goroutine. Default 4096.
	MaxCalls int
	// MaxHandlers limits the goroutines that run calls of peers. Default 256.
	MaxHandlers int
	// RetryMin and RetryMax bound the pause between two attempts to connect. Default 20 ms and 1 s.
	RetryMin, RetryMax time.Duration
	// Log, default slog.Default.
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Node == "" {
		return c, fmt.Errorf("link: no node name in the configuration")
	}
	if len(c.Cookie) < MinCookie {
		return c, fmt.Errorf("link: the cookie has %d bytes, at least %d are needed", len(c.Cookie), MinCookie)
	}
	if c.Hello == nil {
		return c, fmt.Errorf("link: no Hello in the configuration")
	}
	if (c.ServerTLS == nil) != (c.ClientTLS == nil) {
		return c, fmt.Errorf("link: ServerTLS and ClientTLS must be set together")
	}
	defaultTo(&c.Keepalive, time.Second)
	defaultTo(&c.Timeout, 10*time.Second)
	defaultTo(&c.MaxFrame, 16<<20)
	defaultTo(&c.SoftLimit, 256<<10)
	defaultTo(&c.HardLimit, 64<<20)
	defaultTo(&c.MaxCalls, 4096)
	defaultTo(&c.MaxHandlers, 256)
	defaultTo(&c.RetryMin, 20*time.Millisecond)
	defaultTo(&c.RetryMax, time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c, nil
}

func defaultTo[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
