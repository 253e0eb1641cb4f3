package admin

import "context"

// Names of the requests about operator policies and about where masters are; see commands.go.
const (
	cmdSetOperatorPolicy    = "set_operator_policy"
	cmdClearOperatorPolicy  = "clear_operator_policy"
	cmdListOperatorPolicies = "list_operator_policies"
	cmdTransferQueue        = "transfer_queue"
	cmdPlanPromotion        = "plan_promotion"
	cmdPromoteQueue         = "promote_queue"
	cmdRebalance            = "rebalance"
	cmdSyncQueue            = "sync_queue"
	cmdCancelSyncQueue      = "cancel_sync_queue"
	cmdListSalvage          = "list_salvage"
	cmdSalvage              = "salvage"
)

// Mirroring is the part of Node about operator policies and the masters of mirrored queues.
type Mirroring interface {
	// SetOperatorPolicy, ClearOperatorPolicy and ListOperatorPolicies are to operator policies what SetPolicy, ClearPolicy
	// and ListPolicies are to policies.
	SetOperatorPolicy(ctx context.Context, p PolicyInfo) error
	ClearOperatorPolicy(ctx context.Context, vhost, name string) error
	ListOperatorPolicies(ctx context.Context, vhost string) ([]PolicyInfo, error)

	// TransferQueue moves a queue's master to the synchronised mirror on t.Node, without loss, and returns when it is done.
	// Errors: CodeNoSuchVHost, CodeNotFound, CodeRefused with the reason (nothing has changed then).
	TransferQueue(ctx context.Context, t QueueOnNode) error
	// PlanPromotion says what the promotion of a copy of a queue that is down would mean; t.Node "" leaves the choice to the
	// node. It changes nothing. Errors: as TransferQueue.
	PlanPromotion(ctx context.Context, t QueueOnNode) (PromotionPlan, error)
	// PromoteQueue carries a plan out. CodeRefused if it does not fit any more.
	PromoteQueue(ctx context.Context, p PromotionPlan) error
	// Rebalance spreads the masters of the mirrored queues that r chooses over the running nodes, and returns how many each
	// has then, by name; nothing if no queue is chosen. Errors: CodeValidation for a pattern, CodeRefused while one is in progress.
	Rebalance(ctx context.Context, r Rebalancing) ([]NodeMasters, error)

	// SyncQueue synchronises all mirrors of a queue; it returns when that is done or was cancelled. Errors:
	// CodeNoSuchVHost, CodeNotFound, CodeNotMirrored, CodeUnavailable.
	SyncQueue(ctx context.Context, vhost, name string) error
	// CancelSyncQueue ends it. Errors: CodeNoSuchVHost, CodeNotFound, CodeNotSyncing, CodeUnavailable.
	CancelSyncQueue(ctx context.Context, vhost, name string) error

	// ListSalvage are the sets of messages that copies on this node had to give up, oldest first.
	ListSalvage(ctx context.Context) ([]AsideSet, error)
	// Salvage publishes such a set again, in order, and returns when all is confirmed. What was published before is left out, so
	// that it may be repeated after an error, whose text says how far it came. Errors: CodeNotFound (the set, or its target),
	// CodeInUse (another call publishes it), CodeRefused, CodeUnavailable.
	Salvage(ctx context.Context, s Salvage) (Salvaged, error)
}

// AsideSet is a set of messages of one queue that a copy of it had to give up. VHost and Queue are empty if the node does not know
// them, Reason if an earlier version set it aside. Time is in Unix seconds.
type AsideSet struct {
	Name      string `msgpack:"name"`
	VHost     string `msgpack:"vhost"`
	Queue     string `msgpack:"queue"`
	ID        uint64 `msgpack:"id"`
	Time      int64  `msgpack:"time"`
	Reason    string `msgpack:"reason"`
	Messages  int    `msgpack:"messages"`
	Bytes     int64  `msgpack:"bytes"` // of bodies
	Published int    `msgpack:"published"`
	Path      string `msgpack:"path"`
}

// Salvage says what to publish again, and where: Queue, or Exchange with RoutingKey ("": each message's own), or else the queue that
// the set is of. VHost "" is the set's. Restart: from the first message. Keep: the set is not removed afterwards.
type Salvage struct {
	Set        string `msgpack:"set"`
	VHost      string `msgpack:"vhost"`
	Queue      string `msgpack:"queue"`
	Exchange   string `msgpack:"exchange"`
	RoutingKey string `msgpack:"routing_key"`
	Restart    bool   `msgpack:"restart"`
	Keep       bool   `msgpack:"keep"`
}

// Salvaged says what came of it: Published now, Before by earlier calls. Kept: the set is still there. Damage: what of it could not
// be read, one line each.
type Salvaged struct {
	Published int    `msgpack:"published"`
	Before    int    `msgpack:"before"`
	Kept      bool   `msgpack:"kept"`
	Damage    string `msgpack:"damage"`
	Target    string `msgpack:"target"`
}

// Rebalancing chooses queues by regular expressions; "" is every name.
type Rebalancing struct {
	VHostPattern string `msgpack:"vhost_pattern"`
	QueuePattern string `msgpack:"queue_pattern"`
}

// NodeMasters is how many masters of mirrored queues a node has.
type NodeMasters struct {
	Node    string `msgpack:"node"`
	Masters int    `msgpack:"masters"`
}

// QueueOnNode names a queue and a node.
type QueueOnNode struct {
	VHost string `msgpack:"vhost"`
	Name  string `msgpack:"name"`
	Node  string `msgpack:"node"`
}

// PromotionPlan is one possible promotion. Vouched: nothing that was confirmed is lost. Messages: how many the copy holds, -1
// if that could not be found out. ID, Epoch and Incarnation tie it to the state in which it was made.
type PromotionPlan struct {
	VHost       string `msgpack:"vhost"`
	Name        string `msgpack:"name"`
	Node        string `msgpack:"node"`
	LastMaster  string `msgpack:"last_master"`
	Vouched     bool   `msgpack:"vouched"`
	Messages    int    `msgpack:"messages"`
	ID          uint64 `msgpack:"id"`
	Epoch       uint64 `msgpack:"epoch"`
	Incarnation uint64 `msgpack:"incarnation"`
}

func mirroringHandlers() map[string]handler {
	return map[string]handler{
		cmdSetOperatorPolicy: none(func(ctx context.Context, n Node, p PolicyInfo) error { return n.SetOperatorPolicy(ctx, p) }),
		cmdClearOperatorPolicy: none(func(ctx context.Context, n Node, a named) error {
			return n.ClearOperatorPolicy(ctx, a.VHost, a.Name)
		}),
		cmdListOperatorPolicies: many(func(ctx context.Context, n Node, a named) ([]PolicyInfo, error) {
			return n.ListOperatorPolicies(ctx, a.VHost)
		}),
		cmdTransferQueue: none(func(ctx context.Context, n Node, t QueueOnNode) error { return n.TransferQueue(ctx, t) }),
		cmdPlanPromotion: one(func(ctx context.Context, n Node, t QueueOnNode) (PromotionPlan, error) {
			return n.PlanPromotion(ctx, t)
		}),
		cmdRebalance:    many(func(ctx context.Context, n Node, r Rebalancing) ([]NodeMasters, error) { return n.Rebalance(ctx, r) }),
		cmdPromoteQueue: none(func(ctx context.Context, n Node, p PromotionPlan) error { return n.PromoteQueue(ctx, p) }),
		cmdSyncQueue:    none(func(ctx context.Context, n Node, a named) error { return n.SyncQueue(ctx, a.VHost, a.Name) }),
		cmdCancelSyncQueue: none(func(ctx context.Context, n Node, a named) error {
			return n.CancelSyncQueue(ctx, a.VHost, a.Name)
		}),
		cmdListSalvage: many(func(ctx context.Context, n Node, _ nothing) ([]AsideSet, error) { return n.ListSalvage(ctx) }),
		cmdSalvage:     one(func(ctx context.Context, n Node, s Salvage) (Salvaged, error) { return n.Salvage(ctx, s) }),
	}
}

// SetOperatorPolicy implements Node.
func (c *Client) SetOperatorPolicy(ctx context.Context, p PolicyInfo) error {
	return c.ask(ctx, cmdSetOperatorPolicy, p)
}

// ClearOperatorPolicy implements Node.
func (c *Client) ClearOperatorPolicy(ctx context.Context, vhost, name string) error {
	return c.ask(ctx, cmdClearOperatorPolicy, named{vhost, name})
}

// ListOperatorPolicies implements Node.
func (c *Client) ListOperatorPolicies(ctx context.Context, vhost string) ([]PolicyInfo, error) {
	return list[PolicyInfo](ctx, c, cmdListOperatorPolicies, named{VHost: vhost})
}

// TransferQueue implements Node.
func (c *Client) TransferQueue(ctx context.Context, t QueueOnNode) error {
	return c.ask(ctx, cmdTransferQueue, t)
}

// PlanPromotion implements Node.
func (c *Client) PlanPromotion(ctx context.Context, t QueueOnNode) (PromotionPlan, error) {
	return single[PromotionPlan](ctx, c, cmdPlanPromotion, t)
}

// PromoteQueue implements Node.
func (c *Client) PromoteQueue(ctx context.Context, p PromotionPlan) error {
	return c.ask(ctx, cmdPromoteQueue, p)
}

// Rebalance implements Node.
func (c *Client) Rebalance(ctx context.Context, r Rebalancing) ([]NodeMasters, error) {
	return list[NodeMasters](ctx, c, cmdRebalance, r)
}

// SyncQueue implements Node.
func (c *Client) SyncQueue(ctx context.Context, vhost, name string) error {
	return c.ask(ctx, cmdSyncQueue, named{vhost, name})
}

// CancelSyncQueue implements Node.
func (c *Client) CancelSyncQueue(ctx context.Context, vhost, name string) error {
	return c.ask(ctx, cmdCancelSyncQueue, named{vhost, name})
}

// ListSalvage implements Node.
func (c *Client) ListSalvage(ctx context.Context) ([]AsideSet, error) {
	return list[AsideSet](ctx, c, cmdListSalvage, nothing{})
}

// Salvage implements Node.
func (c *Client) Salvage(ctx context.Context, s Salvage) (Salvaged, error) {
	return single[Salvaged](ctx, c, cmdSalvage, s)
}
