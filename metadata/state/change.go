package state

// ChangeKind names a Change.
type ChangeKind uint8

const (
	// NodeChanged: Node is the new record, OldNode the one before (nil: new).
	NodeChanged ChangeKind = iota + 1
	// QueueCreated: Queue.
	QueueCreated
	// QueueChanged: Queue is the new record, OldQueue the one before. A raised LastLossEpoch is a loss to log and count.
	QueueChanged
	// QueueDeleted: OldQueue.
	QueueDeleted
	// ExchangeCreated, ExchangeChanged (its policy), ExchangeDeleted: Exchange.
	ExchangeCreated
	ExchangeChanged
	ExchangeDeleted
	// BindingAdded, BindingRemoved: Binding.
	BindingAdded
	BindingRemoved
	// PoliciesChanged: of Vhost; the queues concerned have their own QueueChanged.
	PoliciesChanged
	// VhostCreated, VhostDeleted: Vhost.
	VhostCreated
	VhostDeleted
	// UsersChanged: users or permissions. User is one that was deleted.
	UsersChanged
	// NodeForgotten: OldNode left the cluster.
	NodeForgotten
	// Reset: everything may have changed (a snapshot was installed): reconcile with the whole state.
	Reset
)

// Change tells the node what a command changed, so that it can reconcile. The records are immutable.
type Change struct {
	Kind     ChangeKind
	Vhost    string
	User     string
	Node     *Node
	OldNode  *Node
	Queue    *Queue
	OldQueue *Queue
	Exchange *Exchange
	Binding  *Binding
}
