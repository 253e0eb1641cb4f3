package state

// Command is one change of the state. The types below are all there are.
type Command interface{ number() uint16 }

// Numbers of the commands: given by hand, never changed, never given twice.
const (
	numInitCluster          = 1
	numNodeUp               = 2
	numNodesDown            = 3
	numMirrorReady          = 4
	numMirrorSynchronised   = 5
	numMirrorUnsynchronised = 6
	numRecoverQueue         = 7
	numMasterActing         = 8
	numTransferMaster       = 9
	numKeepMaster           = 10
	numDropMirror           = 11
	numReplaceMirror        = 12
	numPromoteMirror        = 13
	numDeclareQueue         = 20
	numDeleteQueue          = 21
	numSetHadConsumers      = 22
	numDeclareExchange      = 30
	numDeleteExchange       = 31
	numBind                 = 32
	numUnbind               = 33
	numSetPolicy            = 40
	numClearPolicy          = 41
	numAddVhost             = 50
	numDeleteVhost          = 51
	numPutUser              = 52
	numDeleteUser           = 53
	numSetPermission        = 54
	numClearPermission      = 55
)

// InitCluster makes the first vhost, user, permissions and exchanges. The first leader of a new cluster proposes it; in a
// cluster that has an ID already it is refused with CodeExists.
type InitCluster struct {
	ID           string `msgpack:"id"` // unique name of the cluster, chosen at random by the proposer
	Name         string `msgpack:"n"`  // cluster name that users see
	User         string `msgpack:"u"`  // guest
	PasswordHash []byte `msgpack:"p"`  // HashPassword(salt, "guest")
	// Features are the flags that the new cluster begins with: a cluster is formed by nodes of one version.
	Features []string `msgpack:"f,omitempty"`
	// Default, if set, says what the vhost and the user are instead of "/", an administrator and all permissions. It is left
	// out where it says just that, so that a log which has it not is read by every version.
	Default *InitialData `msgpack:"d,omitempty"`
}

// InitialData is the first vhost with its user, or with None no vhost and no user: definitions will bring them.
type InitialData struct {
	None       bool       `msgpack:"n,omitempty"`
	Vhost      string     `msgpack:"v,omitempty"`
	Tags       []string   `msgpack:"t,omitempty"` // sorted
	Permission Permission `msgpack:"p"`           // its patterns
}

// NodeUp brings a node's new incarnation: proposed by the node only when its stores are recovered, its links are up and it
// has applied the log that it found. An older incarnation that still counts as up is closed first, as by NodesDown
// (failure, fenced: the same node says that it is gone). Refused with CodeStale if Incarnation is not above the newest
// known; repeating the same incarnation while it is up changes nothing.
type NodeUp struct {
	Node        string    `msgpack:"n"`
	Incarnation uint64    `msgpack:"i"`
	Addresses   Addresses `msgpack:"a"`
	Versions    Versions  `msgpack:"v"`
	Witness     bool      `msgpack:"w"`
}

// Reason is why a node is down.
type Reason uint8

const (
	ReasonFailure Reason = iota + 1
	ReasonShutdown
)

// String is the word used in logs.
func (r Reason) String() string {
	if r == ReasonShutdown {
		return "shutdown"
	}
	return "failure"
}

// DownNode is one node that went down. Fenced: its process is known to be gone, so leases need not run out.
type DownNode struct {
	Node        string `msgpack:"n"`
	Incarnation uint64 `msgpack:"i"`
	Reason      Reason `msgpack:"r"`
	Fenced      bool   `msgpack:"f"`
}

// NodesDown closes all incarnations that were found gone together (metadata.md, Commands): for all queues at once their
// members become away, promotions are decided, views and epochs raised; exclusive queues owned through them and
// transient queues without a living copy are deleted. Entries that are not up with that incarnation are ignored; if none is,
// the command is refused with CodeStale.
type NodesDown struct {
	Nodes []DownNode `msgpack:"n"`
}

// MirrorReady lets a joining member into the view as its youngest, not synchronised. The master's node proposes it when
// the mirror's store is open and has offered what it has. CodeStale if the member is not joining with that incarnation;
// CodeQueueDown if there is no master.
type MirrorReady struct {
	Queue       uint64 `msgpack:"q"`
	Node        string `msgpack:"n"`
	Incarnation uint64 `msgpack:"i"`
}

// MirrorSynchronised makes a member count as synchronised. The master's node proposes it. CodeStale if the member or the
// view has changed: look again and propose again.
type MirrorSynchronised struct {
	Queue       uint64 `msgpack:"q"`
	Node        string `msgpack:"n"`
	Incarnation uint64 `msgpack:"i"`
	JoinIndex   uint64 `msgpack:"j"`
	View        uint64 `msgpack:"v"` // the queue's ViewVersion
}

// MirrorUnsynchronised takes back what a member vouched for (damage, an empty disk, a raised baseline). From a mirror: it
// counts as unsynchronised. From the named master, which then has not acted: the promotion table chooses again, and the
// old one leaves the view unless it is itself chosen. From one of LastSynchronised of a queue that is down: it is no longer one
// of them; when the last one is gone, the promotion table decides as for none synchronised.
type MirrorUnsynchronised struct {
	Queue       uint64 `msgpack:"q"`
	Node        string `msgpack:"n"`
	Incarnation uint64 `msgpack:"i"`
	JoinIndex   uint64 `msgpack:"j"`
	Reason      string `msgpack:"r"` // for the log
}

// RecoverQueue lets a member of LastSynchronised, whose node is up again, go on with a queue that is down, from its own
// disk, as the only member of a new view and under a new epoch. CodeStale if the epoch, the incarnation or the status is another.
// The last master should propose it at once, others only after warren.recovery_wait.
type RecoverQueue struct {
	Queue       uint64 `msgpack:"q"`
	Epoch       uint64 `msgpack:"e"` // the queue's present epoch
	Node        string `msgpack:"n"`
	Incarnation uint64 `msgpack:"i"`
}

// MasterActing says that a master named by RecoverQueue is about to act: from now on only its own copy counts, and
// LastSynchronised is forgotten. It must be committed before that master takes its first operation. MirrorReady implies it.
type MasterActing struct {
	Queue       uint64 `msgpack:"q"`
	Epoch       uint64 `msgpack:"e"`
	Node        string `msgpack:"n"`
	Incarnation uint64 `msgpack:"i"`
}

// TransferMaster names another synchronised member master (mirroring.md, planned moves): epoch+1, the view stays. Epoch is
// the one that the old master ended; CodeStale if it is no longer the present one or To is not a synchronised member.
type TransferMaster struct {
	Queue uint64 `msgpack:"q"`
	Epoch uint64 `msgpack:"e"`
	To    string `msgpack:"t"`
}

// KeepMaster makes a pending TransferMaster stale and lets the old master resume under Epoch, which must be one above
// the present one.
type KeepMaster struct {
	Queue uint64 `msgpack:"q"`
	Epoch uint64 `msgpack:"e"` // the new epoch
	Node  string `msgpack:"n"` // the master that resumes
}

// DropMirror takes a mirror that holds up the ring out of the view; it stays assigned and comes back by MirrorReady.
// CodeStale for the master, for another view or join index; CodeLastSynchronised for the last synchronised member.
type DropMirror struct {
	Queue     uint64 `msgpack:"q"`
	Node      string `msgpack:"n"`
	JoinIndex uint64 `msgpack:"j"`
	View      uint64 `msgpack:"v"`
}

// ReplaceMirror assigns a stand-in for a member that has been away too long (ha-mode exactly). Proposed by the leader after
// warren.mirror_replacement_delay. CodeStale if the member is not away or has a stand-in; CodeNoNode if no node is left.
type ReplaceMirror struct {
	Queue uint64 `msgpack:"q"`
	Node  string `msgpack:"n"` // the member that is away
}

// PromoteMirror is an operator's decision about a queue that is down (metadata.md, promotion): a member whose node is up goes on
// from its own disk. One of LastSynchronised loses nothing, as by RecoverQueue; of any other it counts as a loss. CodeStale if the
// epoch, the incarnation or the status is another, or if the member was never in a view and so holds nothing.
type PromoteMirror struct {
	Queue       uint64 `msgpack:"q"`
	Epoch       uint64 `msgpack:"e"` // the queue's present epoch
	Node        string `msgpack:"n"`
	Incarnation uint64 `msgpack:"i"`
}

// DeclareQueue creates a queue, or finds the same one (Result.Created is false). Policy, Operator and PolicyVersion are
// filled in by Prepare. A queue that differs: CodeInequivalent; exclusive to another connection: CodeLocked; down: CodeQueueDown.
type DeclareQueue struct {
	Vhost          string     `msgpack:"v"`
	Name           string     `msgpack:"n"`
	Durable        bool       `msgpack:"d"`
	AutoDelete     bool       `msgpack:"ad"`
	Exclusive      bool       `msgpack:"x"`
	Owner          Owner      `msgpack:"ow"` // the declaring connection, always set
	Arguments      []byte     `msgpack:"g"`
	Compared       []Argument `msgpack:"c"`  // sorted by key
	Node           string     `msgpack:"nd"` // where the client is connected (client-local)
	Locator        string     `msgpack:"l"`  // x-queue-master-locator; "" if absent
	DefaultLocator string     `msgpack:"dl"` // configured; "" is client-local
	Seed           uint64     `msgpack:"sd"` // for the locator random

	Match         Match  `msgpack:"m"`
	PolicyVersion uint64 `msgpack:"pv"`
}

// Match names the policy and operator policy that apply to an object.
type Match struct {
	Policy      string `msgpack:"p"`
	Operator    string `msgpack:"o"`
	HasPolicy   bool   `msgpack:"hp"`
	HasOperator bool   `msgpack:"ho"`
}

// DeleteQueue deletes a queue and its bindings. The proposer (the master) has decided if-unused and if-empty. ID 0 means
// whatever queue has that name; another ID than the present one is CodeNotFound.
type DeleteQueue struct {
	Vhost string `msgpack:"v"`
	Name  string `msgpack:"n"`
	ID    uint64 `msgpack:"id"`
	Owner Owner  `msgpack:"ow"` // the deleting connection; zero: the broker itself or an operator, exclusive or not
}

// SetHadConsumers remembers that an auto-delete queue had a consumer (reference Q3).
type SetHadConsumers struct {
	Queue uint64 `msgpack:"q"`
}

// DeclareExchange creates an exchange, or finds the same one. Match and PolicyVersion are filled in by Prepare.
type DeclareExchange struct {
	Vhost         string     `msgpack:"v"`
	Name          string     `msgpack:"n"`
	Type          string     `msgpack:"t"`
	Durable       bool       `msgpack:"d"`
	AutoDelete    bool       `msgpack:"ad"`
	Internal      bool       `msgpack:"i"`
	Arguments     []byte     `msgpack:"g"`
	Compared      []Argument `msgpack:"c"`
	Match         Match      `msgpack:"m"`
	PolicyVersion uint64     `msgpack:"pv"`
}

// DeleteExchange deletes an exchange and the bindings from and to it. With IfUnused it is refused with CodeInUse while
// bindings lead from it.
type DeleteExchange struct {
	Vhost    string `msgpack:"v"`
	Name     string `msgpack:"n"`
	IfUnused bool   `msgpack:"u"`
}

// Bind adds a binding; one that exists already is no error. Owner is the binding connection (exclusive queues), or zero.
type Bind struct {
	Binding Binding `msgpack:"b"`
	Owner   Owner   `msgpack:"ow"`
}

// Unbind removes a binding; one that does not exist is no error (RabbitMQ since 3.2), a missing exchange or queue is
// CodeNotFound.
type Unbind struct {
	Binding Binding `msgpack:"b"`
	Owner   Owner   `msgpack:"ow"`
}

// SetPolicy sets or replaces a policy (Operator: an operator policy). The Plan is filled in by Prepare; the definition must
// have passed policy.Check.
type SetPolicy struct {
	Policy   Policy `msgpack:"p"`
	Operator bool   `msgpack:"o"`
	Plan     Plan   `msgpack:"pl"`
}

// ClearPolicy removes a policy; CodeNotFound if there is none. The Plan is filled in by Prepare.
type ClearPolicy struct {
	Vhost    string `msgpack:"v"`
	Name     string `msgpack:"n"`
	Operator bool   `msgpack:"o"`
	Plan     Plan   `msgpack:"pl"`
}

// Plan is what a change of policies does to the objects of a vhost: those whose matching policy becomes another one, and the
// versions of both sets that this was computed from.
type Plan struct {
	PolicyVersion uint64          `msgpack:"pv"`
	ObjectVersion uint64          `msgpack:"ov"`
	Queues        []QueueMatch    `msgpack:"q"`
	Exchanges     []ExchangeMatch `msgpack:"x"`
}

// QueueMatch is the new match of one queue.
type QueueMatch struct {
	Queue uint64 `msgpack:"q"`
	Match Match  `msgpack:"m"`
}

// ExchangeMatch is the new match of one exchange.
type ExchangeMatch struct {
	Exchange string `msgpack:"x"`
	Match    Match  `msgpack:"m"`
}

// AddVhost creates a virtual host and its predeclared exchanges; CodeExists if there is one.
type AddVhost struct {
	Name string `msgpack:"n"`
}

// DeleteVhost deletes a virtual host with all that is in it.
type DeleteVhost struct {
	Name string `msgpack:"n"`
}

// PutUser creates a user or replaces it; with Create it is refused with CodeExists if there is one.
type PutUser struct {
	User   User `msgpack:"u"`
	Create bool `msgpack:"c"`
}

// DeleteUser deletes a user and its permissions.
type DeleteUser struct {
	Name string `msgpack:"n"`
}

// SetPermission sets a user's permissions in a vhost.
type SetPermission struct {
	Permission Permission `msgpack:"p"`
}

// ClearPermission removes a user's permissions in a vhost; there may be none.
type ClearPermission struct {
	User  string `msgpack:"u"`
	Vhost string `msgpack:"v"`
}

func (*InitCluster) number() uint16          { return numInitCluster }
func (*NodeUp) number() uint16               { return numNodeUp }
func (*NodesDown) number() uint16            { return numNodesDown }
func (*MirrorReady) number() uint16          { return numMirrorReady }
func (*MirrorSynchronised) number() uint16   { return numMirrorSynchronised }
func (*MirrorUnsynchronised) number() uint16 { return numMirrorUnsynchronised }
func (*RecoverQueue) number() uint16         { return numRecoverQueue }
func (*MasterActing) number() uint16         { return numMasterActing }
func (*TransferMaster) number() uint16       { return numTransferMaster }
func (*KeepMaster) number() uint16           { return numKeepMaster }
func (*DropMirror) number() uint16           { return numDropMirror }
func (*ReplaceMirror) number() uint16        { return numReplaceMirror }
func (*PromoteMirror) number() uint16        { return numPromoteMirror }
func (*DeclareQueue) number() uint16         { return numDeclareQueue }
func (*DeleteQueue) number() uint16          { return numDeleteQueue }
func (*SetHadConsumers) number() uint16      { return numSetHadConsumers }
func (*DeclareExchange) number() uint16      { return numDeclareExchange }
func (*DeleteExchange) number() uint16       { return numDeleteExchange }
func (*Bind) number() uint16                 { return numBind }
func (*Unbind) number() uint16               { return numUnbind }
func (*SetPolicy) number() uint16            { return numSetPolicy }
func (*ClearPolicy) number() uint16          { return numClearPolicy }
func (*AddVhost) number() uint16             { return numAddVhost }
func (*DeleteVhost) number() uint16          { return numDeleteVhost }
func (*PutUser) number() uint16              { return numPutUser }
func (*DeleteUser) number() uint16           { return numDeleteUser }
func (*SetPermission) number() uint16        { return numSetPermission }
func (*ClearPermission) number() uint16      { return numClearPermission }
