package config

import (
	"crypto/tls"
	"log/slog"
	"time"
)

// Limits of the text. A configuration is written by hand; anything larger is a mistake.
const (
	MaxText = 1 << 20 // bytes of a file
	MaxPeer = 64      // entries of a numbered list (listeners, peers)
)

// PauseMinority is the only way in which a cluster deals with a partition (metadata.md, "Never two masters").
const PauseMinority = "pause_minority"

// Config is a node's configuration. Default gives the one of an empty file; no field is left for its user to default, except
// where a comment says what the zero value means. A Config is not changed after Parse and may be read by all goroutines.
type Config struct {
	Listeners []Listener // AMQP, in the order of their numbers; empty: serve no clients

	SSLListeners []Listener // AMQP over TLS, as Listeners
	ClientTLS    ClientTLS
	// TLSHandshakeTimeout is the time for TLS's own handshake, before HandshakeTimeout begins.
	TLSHandshakeTimeout time.Duration
	AuthMechanisms      []string // PLAIN, AMQPLAIN, EXTERNAL; in the order in which clients are told
	CertLogin           CertLogin

	Heartbeat  time.Duration // offered to clients; 0: none
	FrameMax   uint32        // bytes, offered to clients; 0: the most there is, MaxFrame
	ChannelMax uint16        // offered to clients; 0: no limit but AMQP's, 65535

	HandshakeTimeout time.Duration // from a client's connection to its connection.open
	ConnectionMax    int           // clients' connections to this node, 0: no limit
	MaxMessageSize   int64         // bytes of a body
	ConsumerTimeout  time.Duration // after which a delivery that is not acknowledged closes its channel
	TCP              TCP

	// What a new cluster begins with. With Definitions it begins with nothing else.
	DefaultUser        string
	DefaultPassword    Secret
	DefaultUserTags    []string // sorted
	DefaultPermissions Permissions
	DefaultVHost       string
	// Definitions is a file of definitions, or a directory of them, that is imported at each start; empty: none.
	Definitions string
	// LoopbackUsers may only connect through the loopback interface. Sorted.
	LoopbackUsers []string

	ClusterName string // empty: named after the first node
	// Peers are the other (and own) nodes of cluster_formation.classic_config, in the order of their numbers; empty: the node
	// starts a cluster of its own.
	Peers []Peer
	// PartitionHandling is always PauseMinority; another value gives a Warning.
	PartitionHandling string

	LogLevel slog.Level

	MemoryLimit Limit // memory high watermark
	DiskFree    Limit // free disk space below which publishers are blocked

	QueueMasterLocator string // client-local, min-masters or random
	QuorumAsMirrored   bool   // declarations of quorum queues make mirrored ones; else they are refused
	SyncBatchSize      int    // messages in a synchronisation batch where no policy says it

	SyncMaxThroughput uint64 // bytes per second that a queue's synchronisation sends, 0: no limit

	Internode Internode
	Timing    Timing
	// SnapshotAfter is after how many changes of the metadata their log is cut to half as many, the rest being in a snapshot; 0: the
	// default of package raftstore.
	SnapshotAfter uint64
	// Witness: the node votes, and carries no queues and serves no clients (metadata.md, reads and writes).
	Witness bool
	// DebugListen is where net/http/pprof is served: a loopback address, or empty for nowhere.
	DebugListen string
}

// Listener is an address to listen on. An empty Host means all interfaces.
type Listener struct {
	Host string
	Port uint16
}

// Secret is a password: it prints as a word that says nothing.
type Secret string

// String implements fmt.Stringer.
func (Secret) String() string { return "(hidden)" }

// Permissions are the patterns of a user's permissions in a vhost.
type Permissions struct{ Configure, Write, Read string }

// TCP are options of clients' sockets.
type TCP struct {
	NoDelay, KeepAlive bool
	SendBuffer         int           // bytes, 0: the system's
	ReceiveBuffer      int           // bytes, 0: the system's
	Linger             bool          // at close, for LingerTime; false: the system goes on sending
	LingerTime         time.Duration // whole seconds
}

// Peer is a node of the cluster to form. Address is its inter-node address, host:port; where the file gives none it is
// the host part of the name and the default port.
type Peer struct {
	Node    string
	Address string
}

// Internode says where Raft, rings and operators' tools reach this node.
type Internode struct {
	Listen Listener
	// Address is told to the other nodes, host:port; empty: the host part of the node's name and the port of Listen.
	Address string
	// TLS, if set, wraps every connection between nodes, and of operators' tools, with mutual authentication.
	TLS TLS
}

// TLS names PEM files: all three, or none for connections without TLS.
type TLS struct{ CACertFile, CertFile, KeyFile string }

// On tells whether the files are named.
func (t TLS) On() bool { return t != TLS{} }

// Timing are the intervals of failure detection and of what follows it (metadata.md).
type Timing struct {
	HeartbeatInterval      time.Duration
	Lease                  time.Duration
	UnreachableAfter       time.Duration
	MirrorReplacementDelay time.Duration
	RecoveryWait           time.Duration
}

// Limit is an amount of memory or disk: exactly one of the fields is not zero.
type Limit struct {
	Absolute uint64  // bytes
	Relative float64 // of the machine's memory
}

// Warning is a remark on a file that was accepted.
type Warning struct {
	File string
	Line int
	Text string
}

// MaxFrame is the largest frame_max, in bytes: above it the limit protects the node's memory.
const MaxFrame = 64 << 20

// DefaultInternodePort is the port of the inter-node listener.
const DefaultInternodePort = 25672

// Default is the configuration of an empty file. The defaults are RabbitMQ's 3.13 where it has the key.
func Default() *Config {
	return &Config{
		Listeners:           []Listener{{Port: 5672}},
		Heartbeat:           60 * time.Second,
		FrameMax:            131072,
		ChannelMax:          2047,
		ClientTLS:           ClientTLS{Depth: 10, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS13},
		TLSHandshakeTimeout: 5 * time.Second,
		AuthMechanisms:      []string{"PLAIN", "AMQPLAIN"},
		CertLogin:           CertLogin{From: LoginDistinguishedName, SANType: SANDNS},
		HandshakeTimeout:    10 * time.Second,
		MaxMessageSize:      128 << 20,
		ConsumerTimeout:     30 * time.Minute,
		TCP:                 TCP{NoDelay: true, KeepAlive: true},
		DefaultUser:         "guest",
		DefaultPassword:     "guest",
		DefaultUserTags:     []string{"administrator"},
		DefaultPermissions:  Permissions{".*", ".*", ".*"},
		DefaultVHost:        "/",
		LoopbackUsers:       []string{"guest"},
		PartitionHandling:   PauseMinority,
		LogLevel:            slog.LevelInfo,
		MemoryLimit:         Limit{Relative: 0.4},
		DiskFree:            Limit{Absolute: 50_000_000},
		QueueMasterLocator:  "client-local",
		SyncBatchSize:       4096,
		Internode:           Internode{Listen: Listener{Host: "0.0.0.0", Port: DefaultInternodePort}},
		Timing: Timing{
			HeartbeatInterval:      500 * time.Millisecond,
			Lease:                  3 * time.Second,
			UnreachableAfter:       3 * time.Second,
			MirrorReplacementDelay: 60 * time.Second,
			RecoveryWait:           30 * time.Second,
		},
	}
}
