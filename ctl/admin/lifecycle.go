package admin

import "context"

// Names of the requests about the life of nodes and of the cluster; see commands.go.
const (
	cmdStopApp        = "stop_app"
	cmdStartApp       = "start_app"
	cmdReset          = "reset"
	cmdJoinCluster    = "join_cluster"
	cmdForgetNode     = "forget_cluster_node"
	cmdDrain          = "drain"
	cmdRevive         = "revive"
	cmdCriticalQueues = "critical_queues"
	cmdEnableFeature  = "enable_feature_flag"
)

// Lifecycle is the part of Node about the life of nodes and of the cluster. A node whose application is stopped answers
// Status, ClusterStatus, Stop, StartApp, Reset and JoinCluster, what concerns its process and its log, and nothing else.
type Lifecycle interface {
	// StopApp begins to stop the application in good order; Status has State "stopped" once it is. StartApp is its
	// counterpart. Both return at once, and the connection ends soon after; neither does anything to a node that is in that state
	// already.
	StopApp(ctx context.Context) error
	StartApp(ctx context.Context) error
	// Reset takes the node out of its cluster and empties it; with force without asking the other members. Errors: CodeRefused
	// while the application runs, CodeUnreachable.
	Reset(ctx context.Context, force bool) error
	// JoinCluster makes the node a member of the cluster of another. Errors: CodeRefused while the application runs or if it is
	// the node itself, CodeAlreadyExists if it is a member, CodeUnreachable with one reason a line.
	JoinCluster(ctx context.Context, node string) error
	// ForgetNode takes another node out of the cluster. Errors: CodeNotFound, CodeInUse while it is up.
	ForgetNode(ctx context.Context, node string) error
	// Drain puts this node into maintenance and Revive takes it out again; both return when it is done.
	Drain(ctx context.Context) error
	Revive(ctx context.Context) error
	// CriticalQueues are the queues that would lose their last synchronised copy with this node.
	CriticalQueues(ctx context.Context) (CriticalQueues, error)
	// EnableFeature enables a feature flag, or all that every node supports. CodeNotFound: this node does not know it.
	EnableFeature(ctx context.Context, name string) error
}

// CriticalQueues is the answer to that request. Alone: there is no other node, so the question means nothing.
type CriticalQueues struct {
	Alone  bool        `msgpack:"alone"`
	Queues []QueueName `msgpack:"queues"`
}

// QueueName names a queue.
type QueueName struct {
	VHost string `msgpack:"vhost"`
	Name  string `msgpack:"name"`
}

// Gate is a Node that does not take every request: Serve asks it first.
type Gate interface {
	// Allow returns why a request, by its name on the wire, is not taken; nil if it is.
	Allow(command string) error
}

// AllowedStopped says whether a node whose application is stopped takes a request.
func AllowedStopped(command string) bool {
	switch command {
	case cmdStatus, cmdClusterStatus, cmdStop, cmdStopApp, cmdStartApp, cmdReset, cmdJoinCluster,
		cmdProcess, cmdLog, cmdSetLogLevel, cmdCollectGarbage, cmdResolve:
		return true
	}
	return false
}

type forced struct {
	Force bool `msgpack:"force"`
}

func lifecycleHandlers() map[string]handler {
	return map[string]handler{
		cmdStopApp:     none(func(ctx context.Context, n Node, _ nothing) error { return n.StopApp(ctx) }),
		cmdStartApp:    none(func(ctx context.Context, n Node, _ nothing) error { return n.StartApp(ctx) }),
		cmdReset:       none(func(ctx context.Context, n Node, a forced) error { return n.Reset(ctx, a.Force) }),
		cmdJoinCluster: none(func(ctx context.Context, n Node, a named) error { return n.JoinCluster(ctx, a.Name) }),
		cmdForgetNode:  none(func(ctx context.Context, n Node, a named) error { return n.ForgetNode(ctx, a.Name) }),
		cmdDrain:       none(func(ctx context.Context, n Node, _ nothing) error { return n.Drain(ctx) }),
		cmdRevive:      none(func(ctx context.Context, n Node, _ nothing) error { return n.Revive(ctx) }),
		cmdCriticalQueues: one(func(ctx context.Context, n Node, _ nothing) (CriticalQueues, error) {
			return n.CriticalQueues(ctx)
		}),
		cmdEnableFeature: none(func(ctx context.Context, n Node, a named) error { return n.EnableFeature(ctx, a.Name) }),
	}
}

// StopApp implements Node.
func (c *Client) StopApp(ctx context.Context) error { return c.ask(ctx, cmdStopApp, nothing{}) }

// StartApp implements Node.
func (c *Client) StartApp(ctx context.Context) error { return c.ask(ctx, cmdStartApp, nothing{}) }

// Reset implements Node.
func (c *Client) Reset(ctx context.Context, force bool) error {
	return c.ask(ctx, cmdReset, forced{force})
}

// JoinCluster implements Node.
func (c *Client) JoinCluster(ctx context.Context, node string) error {
	return c.ask(ctx, cmdJoinCluster, named{Name: node})
}

// ForgetNode implements Node.
func (c *Client) ForgetNode(ctx context.Context, node string) error {
	return c.ask(ctx, cmdForgetNode, named{Name: node})
}

// Drain implements Node.
func (c *Client) Drain(ctx context.Context) error { return c.ask(ctx, cmdDrain, nothing{}) }

// Revive implements Node.
func (c *Client) Revive(ctx context.Context) error { return c.ask(ctx, cmdRevive, nothing{}) }

// CriticalQueues implements Node.
func (c *Client) CriticalQueues(ctx context.Context) (CriticalQueues, error) {
	return single[CriticalQueues](ctx, c, cmdCriticalQueues, nothing{})
}

// EnableFeature implements Node.
func (c *Client) EnableFeature(ctx context.Context, name string) error {
	return c.ask(ctx, cmdEnableFeature, named{Name: name})
}
