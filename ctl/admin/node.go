package admin

import (
	"context"
	"time"
)

// Node is what a node does for its operators. Serve calls it from one goroutine per connection, so all methods may be
// called at the same time. A context always has a deadline; a method returns soon after its context is done.
//
// A refusal that the operator should read is returned as an *Error (or wraps one): its code decides the exit status of the
// tool and the form of the text. Any other error reaches the operator as CodeInternal with its text.
type Node interface {
	Mirroring
	Lifecycle

	// Status describes this node. It never asks another one.
	Status(ctx context.Context) (NodeStatus, error)
	// ClusterStatus describes the cluster as this node knows it; it works without a Raft leader.
	ClusterStatus(ctx context.Context) (ClusterStatus, error)
	// Stop begins a stop in good order (masters handed over) and returns at once; the process ends later.
	Stop(ctx context.Context) error

	// SetPolicy creates or replaces p (VHost, Name) and returns when every reachable node has applied it. Errors:
	// CodeNoSuchVHost, CodeBadJSON (Definition is not JSON), CodeValidation with RabbitMQ's text.
	SetPolicy(ctx context.Context, p PolicyInfo) error
	// ClearPolicy removes a policy. Errors: CodeNoSuchVHost, CodeNotFound.
	ClearPolicy(ctx context.Context, vhost, name string) error
	// ListPolicies returns the policies of a vhost, by ascending priority, then by name. Error: CodeNoSuchVHost.
	ListPolicies(ctx context.Context, vhost string) ([]PolicyInfo, error)

	// ListQueues calls row for every queue that q selects, from all nodes, as the answers arrive, until row returns an
	// error (which it returns). A vhost that does not exist has no queues. Queues whose figures could not be had (their node
	// is down) come with Known false. CodeTimeout after the rows that did arrive says that some node did not answer.
	ListQueues(ctx context.Context, q QueueQuery, row func(QueueInfo) error) error
	// DeleteQueue deletes a queue and returns how many ready messages it had. Errors: CodeNoSuchVHost, CodeNotFound,
	// CodeNotEmpty (ifEmpty), CodeInUse (ifUnused).
	DeleteQueue(ctx context.Context, d QueueDeletion) (messages uint64, err error)
	// PurgeQueue drops a queue's ready messages and returns how many. Errors: CodeNoSuchVHost, CodeNotFound.
	PurgeQueue(ctx context.Context, vhost, name string) (messages uint64, err error)

	// ListExchanges and ListBindings of a vhost that does not exist return nothing.
	ListExchanges(ctx context.Context, vhost string) ([]ExchangeInfo, error)
	ListBindings(ctx context.Context, vhost string) ([]BindingInfo, error)
	ListVHosts(ctx context.Context) ([]VHostInfo, error)
	ListUsers(ctx context.Context) ([]UserInfo, error)

	Access
	Clients
	Runtime
}

// PID names a process of a node the way RabbitMQ does, <node.creation.id.serial>; scripts split slave_pids by this form.
// The zero PID is "none". Creation is the node's incarnation, ID tells the queues' processes on one node apart.
type PID struct {
	Node     string `msgpack:"node"`
	Creation uint64 `msgpack:"creation"`
	ID       uint64 `msgpack:"id"`
	Serial   uint64 `msgpack:"serial"`
}

// QueueQuery selects queues. Without Online, Offline and Local all queues of the vhost are meant.
type QueueQuery struct {
	VHost   string `msgpack:"vhost"`
	Name    string `msgpack:"name"`    // only the queue of that name, if not empty; a node of an older version lists all
	Online  bool   `msgpack:"online"`  // only those whose master serves
	Offline bool   `msgpack:"offline"` // only those that are down
	Local   bool   `msgpack:"local"`   // only those whose master is on the node asked
	// Figures: the caller wants what only the queue's process knows (messages, consumers, bytes …). Without it a node
	// may answer from metadata alone, and leave the figures zero.
	Figures bool `msgpack:"figures"`
}

// QueueInfo is one queue. The figures from Messages on are meaningful only with Known.
type QueueInfo struct {
	Name       string     `msgpack:"name"`
	VHost      string     `msgpack:"vhost"`
	Node       string     `msgpack:"node"` // of the master; for a queue that is down, of its last master
	Durable    bool       `msgpack:"durable"`
	AutoDelete bool       `msgpack:"auto_delete"`
	Exclusive  bool       `msgpack:"exclusive"`
	Arguments  []Argument `msgpack:"arguments"`
	Policy     string     `msgpack:"policy"` // the name of the effective one, or empty
	PID        PID        `msgpack:"pid"`
	OwnerPID   PID        `msgpack:"owner_pid"` // the connection that owns an exclusive queue

	// Mirrored: a policy mirrors this queue (though it may have no mirror). Slaves are the mirrors that are up, oldest
	// first; SynchronisedSlaves those of them that are synchronised, in the same order.
	Mirrored           bool  `msgpack:"mirrored"`
	Slaves             []PID `msgpack:"slaves"`
	SynchronisedSlaves []PID `msgpack:"synchronised_slaves"`

	// State: running, down, syncing, stopped, … Syncing is the number of messages done, when State is syncing.
	State   string `msgpack:"state"`
	Syncing uint64 `msgpack:"syncing"`
	// More of a synchronisation: bytes sent, estimates of what is to go, messages per second, seconds to go.
	SyncToGo      uint64  `msgpack:"sync_to_go"`
	SyncBytes     uint64  `msgpack:"sync_bytes"`
	SyncBytesToGo uint64  `msgpack:"sync_bytes_to_go"`
	SyncRate      float64 `msgpack:"sync_rate"`
	SyncTimeToGo  float64 `msgpack:"sync_time_to_go"`

	// Lost is how many messages promotions of unsynchronised mirrors are known to have cost this queue, LostMore that there are
	// others. A figure.
	Lost     uint64 `msgpack:"lost"`
	LostMore bool   `msgpack:"lost_more"`

	Known                  bool   `msgpack:"known"`
	Messages               uint64 `msgpack:"messages"`
	MessagesReady          uint64 `msgpack:"messages_ready"`
	MessagesUnacknowledged uint64 `msgpack:"messages_unacknowledged"`
	MessagesPersistent     uint64 `msgpack:"messages_persistent"`
	MessageBytes           uint64 `msgpack:"message_bytes"`        // bodies only
	MessageBytesReady      uint64 `msgpack:"message_bytes_ready"`  //
	MessageBytesUnacked    uint64 `msgpack:"message_bytes_unack"`  //
	MessageBytesPersistent uint64 `msgpack:"message_bytes_persis"` //
	MessagesRAM            uint64 `msgpack:"messages_ram"`
	MessageBytesRAM        uint64 `msgpack:"message_bytes_ram"`
	Memory                 uint64 `msgpack:"memory"` // bytes
	Consumers              uint64 `msgpack:"consumers"`
	ExclusiveConsumerTag   string `msgpack:"exclusive_consumer_tag"`
	ExclusiveConsumerPID   PID    `msgpack:"exclusive_consumer_pid"`
}

// QueueDeletion says which queue to delete and under what conditions.
type QueueDeletion struct {
	VHost    string `msgpack:"vhost"`
	Name     string `msgpack:"name"`
	IfEmpty  bool   `msgpack:"if_empty"`
	IfUnused bool   `msgpack:"if_unused"`
}

// PolicyInfo is one policy. ApplyTo is queues, exchanges or all. Definition is JSON: as the operator typed it in a SetPolicy,
// with sorted keys and without spaces in a list.
type PolicyInfo struct {
	VHost      string `msgpack:"vhost"`
	Name       string `msgpack:"name"`
	Pattern    string `msgpack:"pattern"`
	ApplyTo    string `msgpack:"apply_to"`
	Definition string `msgpack:"definition"`
	Priority   int64  `msgpack:"priority"`
}

// ExchangeInfo is one exchange.
type ExchangeInfo struct {
	Name       string     `msgpack:"name"`
	VHost      string     `msgpack:"vhost"`
	Type       string     `msgpack:"type"`
	Durable    bool       `msgpack:"durable"`
	AutoDelete bool       `msgpack:"auto_delete"`
	Internal   bool       `msgpack:"internal"`
	Arguments  []Argument `msgpack:"arguments"`
	Policy     string     `msgpack:"policy"`
}

// BindingInfo is one binding; the default exchange's implicit ones are among them (source "").
type BindingInfo struct {
	VHost           string     `msgpack:"vhost"`
	Source          string     `msgpack:"source"`
	Destination     string     `msgpack:"destination"`
	DestinationKind string     `msgpack:"destination_kind"` // queue or exchange
	RoutingKey      string     `msgpack:"routing_key"`
	Arguments       []Argument `msgpack:"arguments"`
}

// VHostInfo is one virtual host. ClusterState is its state on each running node.
type VHostInfo struct {
	Name             string     `msgpack:"name"`
	Description      string     `msgpack:"description"`
	Tags             []string   `msgpack:"tags"`
	DefaultQueueType string     `msgpack:"default_queue_type"`
	Tracing          bool       `msgpack:"tracing"`
	ClusterState     []NodeText `msgpack:"cluster_state"`
}

// NodeText is a text about a node.
type NodeText struct {
	Node string `msgpack:"node"`
	Text string `msgpack:"text"`
}

// UserInfo is one user; never a password or its hash.
type UserInfo struct {
	Name string   `msgpack:"name"`
	Tags []string `msgpack:"tags"`
}

// Listener is one listening socket of a node.
type Listener struct {
	Node      string `msgpack:"node"`
	Interface string `msgpack:"interface"` // address as RabbitMQ writes it: 127.0.0.1, [::]
	Port      uint16 `msgpack:"port"`
	Protocol  string `msgpack:"protocol"` // clustering, amqp, amqp/ssl
	Purpose   string `msgpack:"purpose"`
}

// NodeInfo is one member of the cluster.
type NodeInfo struct {
	Name        string `msgpack:"name"`
	Address     string `msgpack:"address"` // inter-node, host:port
	Version     string `msgpack:"version"`
	Status      string `msgpack:"status"` // running, draining, stopped, down
	Incarnation uint64 `msgpack:"incarnation"`
	Voter       bool   `msgpack:"voter"`
	Witness     bool   `msgpack:"witness"`
	Leader      bool   `msgpack:"leader"` // of the metadata's Raft group
}

// Running says whether the node takes part in the cluster now.
func (n NodeInfo) Running() bool { return n.Status == "running" || n.Status == "draining" }

// ClusterStatus is the cluster as one node sees it. Nodes are sorted by name.
type ClusterStatus struct {
	Node         string        `msgpack:"node"` // the one that answered
	ClusterName  string        `msgpack:"cluster_name"`
	Nodes        []NodeInfo    `msgpack:"nodes"`
	Alarms       []NodeText    `msgpack:"alarms"`
	Unreachable  []NodeText    `msgpack:"unreachable"` // which nodes the answering one cannot reach, and why
	Listeners    []Listener    `msgpack:"listeners"`
	FeatureFlags []FeatureFlag `msgpack:"feature_flags"`
	HasLeader    bool          `msgpack:"has_leader"` // the metadata group has a leader that this node knows
	Paused       string        `msgpack:"paused"`     // why this node serves no clients; empty: it serves
}

// FeatureFlag is a capability that the whole cluster has or has not.
type FeatureFlag struct {
	Name        string `msgpack:"name"`
	State       string `msgpack:"state"` // enabled, disabled
	Stability   string `msgpack:"stability"`
	Description string `msgpack:"description"`
}

// NodeStatus is one node's account of itself. Sizes are in bytes.
type NodeStatus struct {
	Name        string        `msgpack:"name"`
	Version     string        `msgpack:"version"`
	GoVersion   string        `msgpack:"go_version"`
	OS          string        `msgpack:"os"`
	PID         int           `msgpack:"pid"`
	Uptime      time.Duration `msgpack:"uptime"`
	Running     bool          `msgpack:"running"` // serves clients; false while it starts, pauses or stops
	State       string        `msgpack:"state"`   // starting, running, paused, stopping
	Maintenance bool          `msgpack:"maintenance"`

	DataDir     string   `msgpack:"data_dir"`
	RaftDir     string   `msgpack:"raft_dir"`
	ConfigFiles []string `msgpack:"config_files"`
	LogFiles    []string `msgpack:"log_files"`
	Alarms      []string `msgpack:"alarms"`

	MemoryTotal     uint64        `msgpack:"memory_total"`
	MemoryBreakdown []MemoryShare `msgpack:"memory_breakdown"`
	// MemoryLimitSetting is the high watermark as configured ("0.4 of available memory", "2147483648"), MemoryLimit what
	// it comes to; empty and 0: none is enforced.
	MemoryLimitSetting string `msgpack:"memory_limit_setting"`
	MemoryLimit        uint64 `msgpack:"memory_limit"`
	FilesUsed          uint64 `msgpack:"files_used"`
	FilesLimit         uint64 `msgpack:"files_limit"`
	SocketsUsed        uint64 `msgpack:"sockets_used"`
	SocketsLimit       uint64 `msgpack:"sockets_limit"`
	DiskFree           uint64 `msgpack:"disk_free"`
	DiskFreeLimit      uint64 `msgpack:"disk_free_limit"`
	Goroutines         uint64 `msgpack:"goroutines"`
	Connections        uint64 `msgpack:"connections"`
	Queues             uint64 `msgpack:"queues"`
	VHosts             uint64 `msgpack:"vhosts"`

	Listeners []Listener `msgpack:"listeners"`
}

// MemoryShare is one part of the memory a node uses.
type MemoryShare struct {
	Name  string `msgpack:"name"`
	Bytes uint64 `msgpack:"bytes"`
}
