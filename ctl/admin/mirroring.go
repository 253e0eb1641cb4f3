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
