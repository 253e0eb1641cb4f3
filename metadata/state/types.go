package state

import "warren/metadata/policy"

// NodeStatus is what the cluster thinks of a node.
type NodeStatus uint8

const (
	// NodeRunning: its incarnation is up; it may carry masters and mirrors.
	NodeRunning NodeStatus = iota + 1
	// NodeDraining: up, keeps what it has, gets no new mirrors (metadata.md, Placement).
	NodeDraining
	// NodeStopped: it went down in good order (NodesDown with ReasonShutdown).
	NodeStopped
	// NodeDown: it was declared down (NodesDown with ReasonFailure).
	NodeDown
)

// String is the word that lists show.
func (s NodeStatus) String() string {
	switch s {
	case NodeRunning:
		return "running"
	case NodeDraining:
		return "draining"
	case NodeStopped:
		return "stopped"
	case NodeDown:
		return "down"
	}
	return "unknown"
}

// Up says whether an incarnation with this status counts as up.
func (s NodeStatus) Up() bool { return s == NodeRunning || s == NodeDraining }

// Addresses are where a node can be reached, each host:port.
type Addresses struct {
	AMQP      string `msgpack:"a"`
	Internode string `msgpack:"i"`
	AMQPS     string `msgpack:"t,omitempty"` // AMQP over TLS; for lists only
}

// Versions is what a node can speak (upgrades.md).
type Versions struct {
	Software    string   `msgpack:"s"`
	ProtocolMin uint32   `msgpack:"l"`
	ProtocolMax uint32   `msgpack:"h"`
	Features    []string `msgpack:"f"` // sorted
}

// Node is one node of the cluster. Immutable.
type Node struct {
	Name        string     `msgpack:"n"`
	Incarnation uint64     `msgpack:"i"` // the newest one; grows with every NodeUp
	Addresses   Addresses  `msgpack:"a"`
	Versions    Versions   `msgpack:"v"`
	Status      NodeStatus `msgpack:"s"`
	Since       uint64     `msgpack:"x"` // Raft index of the last change of Status
	Fenced      bool       `msgpack:"f"` // down or stopped: the process is known to be gone
	Witness     bool       `msgpack:"w"` // votes, carries no queues
	// Draining: an operator put it into maintenance; kept while it is not up.
	Draining bool `msgpack:"dr,omitempty"`
}

// Vhost is a virtual host. Immutable.
type Vhost struct {
	Name string `msgpack:"n"`
	// PolicyVersion is the index of the last change of a policy or operator policy of this vhost.
	PolicyVersion uint64 `msgpack:"p"`
	// ObjectVersion is the index of the last creation of a queue or exchange in this vhost.
	ObjectVersion uint64 `msgpack:"o"`
	Description   string `msgpack:"d,omitempty"`
	// Tags are for the operators; the broker does not look at them.
	Tags []string `msgpack:"t,omitempty"`
	// DefaultQueueType is what a definition file or an operator gave; all queues are classic ones.
	DefaultQueueType string `msgpack:"q,omitempty"`
}

// User is a user with a salted hash as RabbitMQ stores it. Immutable.
type User struct {
	Name string `msgpack:"n"`
	// PasswordHash is the 4-byte salt followed by the hash of salt + password, by SHA-256, or by SHA-512 or MD5 if it was
	// imported so (its length tells); empty: no password login.
	PasswordHash []byte   `msgpack:"p"`
	Tags         []string `msgpack:"t"`
}

// Permission is what a user may do in a virtual host: three regular expressions. Immutable.
type Permission struct {
	User      string `msgpack:"u"`
	Vhost     string `msgpack:"v"`
	Configure string `msgpack:"c"`
	Write     string `msgpack:"w"`
	Read      string `msgpack:"r"`
}

// Argument is one declaration argument that must be the same when the object is declared again, rendered by the
// proposer, who knows AMQP's field types.
type Argument struct {
	Key  string `msgpack:"k"`
	Type string `msgpack:"t"` // RabbitMQ's name of the type: longstr, signedint, long, bool, …
	Text string `msgpack:"v"` // the value as RabbitMQ prints it
}

// Exchange is an exchange. Immutable.
type Exchange struct {
	Vhost          string            `msgpack:"v"`
	Name           string            `msgpack:"n"`
	Type           string            `msgpack:"t"`
	Durable        bool              `msgpack:"d"`
	AutoDelete     bool              `msgpack:"a"`
	Internal       bool              `msgpack:"i"`
	Arguments      []byte            `msgpack:"g"` // opaque to this package
	Compared       []Argument        `msgpack:"c"`
	Policy         string            `msgpack:"p"`
	OperatorPolicy string            `msgpack:"o"`
	HasPolicy      bool              `msgpack:"hp"`
	HasOperator    bool              `msgpack:"ho"`
	Effective      policy.Definition `msgpack:"e"`
}

// Kind says what a binding leads to, or an error is about.
type Kind string

const (
	KindQueue    Kind = "queue"
	KindExchange Kind = "exchange"
	KindVhost    Kind = "vhost"
	KindUser     Kind = "user"
	KindPolicy   Kind = "policy"
	KindBinding  Kind = "binding"
	KindNode     Kind = "node"
	KindMember   Kind = "member"
	KindFeature  Kind = "feature flag"
)

// Binding leads from an exchange to a queue or an exchange. Two bindings are the same when all fields are. Immutable.
type Binding struct {
	Vhost       string `msgpack:"v"`
	Source      string `msgpack:"s"`
	Kind        Kind   `msgpack:"k"` // KindQueue or KindExchange
	Destination string `msgpack:"d"`
	RoutingKey  string `msgpack:"r"`
	// Arguments is opaque to this package; it is compared byte by byte, so the proposer must encode it canonically.
	Arguments []byte `msgpack:"a"`
}

// Policy is a policy or an operator policy. Immutable.
type Policy struct {
	Vhost      string            `msgpack:"v"`
	Name       string            `msgpack:"n"`
	Pattern    string            `msgpack:"p"`
	ApplyTo    policy.ApplyTo    `msgpack:"a"`
	Priority   int64             `msgpack:"r"`
	Definition policy.Definition `msgpack:"d"`
}

// Owner is the connection that an exclusive queue belongs to; zero for other queues.
type Owner struct {
	Node        string `msgpack:"n"`
	Incarnation uint64 `msgpack:"i"`
	Connection  uint64 `msgpack:"c"`
}

// MemberState says where a member of a queue stands.
type MemberState uint8

const (
	// MemberUp: in the view.
	MemberUp MemberState = iota + 1
	// MemberAway: its node is down; out of the view, its place is kept.
	MemberAway
	// MemberJoining: its node is up, it shall carry a mirror, but it is not in the view: it enters by MirrorReady (or, in
	// a queue that is down, by RecoverQueue).
	MemberJoining
)

// String is the word used in logs.
func (s MemberState) String() string {
	switch s {
	case MemberUp:
		return "up"
	case MemberAway:
		return "away"
	case MemberJoining:
		return "joining"
	}
	return "unknown"
}

// Member is one node's place in a queue.
type Member struct {
	Node        string `msgpack:"n"`
	Incarnation uint64 `msgpack:"i"`
	// JoinIndex is the Raft index at which it last entered the view; 0: never yet. It is the member's age.
	JoinIndex uint64 `msgpack:"j"`
	// Synchronised is true only in a member that is up.
	Synchronised bool        `msgpack:"y"`
	State        MemberState `msgpack:"s"`
	// Replaces names the away member that this one stands in for (ReplaceMirror).
	Replaces string `msgpack:"r"`
}

// Place is a node's incarnation.
type Place struct {
	Node        string `msgpack:"n"`
	Incarnation uint64 `msgpack:"i"`
}

// QueueStatus says whether a queue can serve.
type QueueStatus uint8

const (
	// QueueRunning: Master is in the view.
	QueueRunning QueueStatus = iota + 1
	// QueueDown: nobody fit is left; Master is the last one, LastSynchronised says who may recover it.
	QueueDown
)

// String is the word that lists show.
func (s QueueStatus) String() string {
	if s == QueueDown {
		return "down"
	}
	return "running"
}

// Queue is a queue and its replication. Immutable.
type Queue struct {
	// ID is the Raft index of the entry that created it; never used twice.
	ID           uint64     `msgpack:"id"`
	Vhost        string     `msgpack:"v"`
	Name         string     `msgpack:"n"`
	Durable      bool       `msgpack:"d"`
	AutoDelete   bool       `msgpack:"ad"`
	Exclusive    bool       `msgpack:"x"`
	Owner        Owner      `msgpack:"ow"`
	Arguments    []byte     `msgpack:"g"` // opaque to this package
	Compared     []Argument `msgpack:"c"`
	HadConsumers bool       `msgpack:"hc"`

	Policy         string            `msgpack:"p"`
	OperatorPolicy string            `msgpack:"o"`
	HasPolicy      bool              `msgpack:"hp"`
	HasOperator    bool              `msgpack:"ho"`
	Effective      policy.Definition `msgpack:"e"`

	Status QueueStatus `msgpack:"s"`
	// Master is the node of the master; of a queue that is down, of the last one.
	Master string `msgpack:"m"`
	// Epoch is the master's term: raised whenever a master is named.
	Epoch uint64 `msgpack:"ep"`
	// ViewVersion is the Raft index of the entry that last changed which members are up.
	ViewVersion uint64 `msgpack:"vv"`
	// Members: those that are up first, in age order (JoinIndex, then node name), then the others by node name.
	Members []Member `msgpack:"mb"`
	// LastSynchronised are those who may recover the queue from their own disks. Set when the queue goes down, kept after
	// RecoverQueue until the revived master acts (MasterActing).
	LastSynchronised []Place `msgpack:"ls"`
	// LastLossEpoch is the epoch of the last promotion that counted a loss; 0: none.
	LastLossEpoch uint64 `msgpack:"le"`
}

// ViewMember is one member of a view.
type ViewMember struct {
	Node        string
	Incarnation uint64
	JoinIndex   uint64
}

// View is the group's view in age order: the members that are up. The slice is the caller's.
func (q *Queue) View() []ViewMember {
	var v []ViewMember
	for _, m := range q.Members {
		if m.State == MemberUp {
			v = append(v, ViewMember{m.Node, m.Incarnation, m.JoinIndex})
		}
	}
	return v
}

// Member is the place of a node in the queue; ok is false if it has none.
func (q *Queue) Member(node string) (m Member, ok bool) {
	for _, m := range q.Members {
		if m.Node == node {
			return m, true
		}
	}
	return Member{}, false
}

// MasterMember is the master's place; ok is false while the queue is down.
func (q *Queue) MasterMember() (m Member, ok bool) {
	if q.Status != QueueRunning {
		return Member{}, false
	}
	return q.Member(q.Master)
}

// Mirrored says whether a mirroring policy applies, even if there is no mirror (reference P1: such a queue has the ring).
func (q *Queue) Mirrored() bool { return q.rule().Mode != "" }

// Mirrors are the nodes of the mirrors in the view in age order, the master left out, and the synchronised ones of
// them: what list_queues shows as slave_pids and synchronised_slave_pids.
func (q *Queue) Mirrors() (all, synchronised []string) {
	for _, m := range q.Members {
		if m.State != MemberUp || (m.Node == q.Master && q.Status == QueueRunning) {
			continue
		}
		all = append(all, m.Node)
		if m.Synchronised {
			synchronised = append(synchronised, m.Node)
		}
	}
	return all, synchronised
}
