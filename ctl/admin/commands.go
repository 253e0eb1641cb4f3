package admin

import (
	"context"
	"maps"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/link"
)

// Names of requests on the wire. A name is never used again for something else.
const (
	cmdStatus        = "status"
	cmdClusterStatus = "cluster_status"
	cmdStop          = "stop"
	cmdSetPolicy     = "set_policy"
	cmdClearPolicy   = "clear_policy"
	cmdListPolicies  = "list_policies"
	cmdListQueues    = "list_queues"
	cmdDeleteQueue   = "delete_queue"
	cmdPurgeQueue    = "purge_queue"
	cmdListExchanges = "list_exchanges"
	cmdListBindings  = "list_bindings"
	cmdListVHosts    = "list_vhosts"
	cmdListUsers     = "list_users"
)

// named are the arguments of requests about one thing in a vhost, or about a vhost.
type named struct {
	VHost string `msgpack:"vhost"`
	Name  string `msgpack:"name"`
}

// nothing are the arguments of requests without any.
type nothing struct{}

// handler runs one request: it decodes the arguments, calls the node and sends the rows.
type handler func(ctx context.Context, node Node, args msgpack.RawMessage, row func(any) error) error

// handlers is the table of requests that this node answers.
func handlers() map[string]handler {
	all := map[string]handler{
		cmdStatus: one(func(ctx context.Context, n Node, _ nothing) (NodeStatus, error) { return n.Status(ctx) }),
		cmdClusterStatus: one(func(ctx context.Context, n Node, _ nothing) (ClusterStatus, error) {
			return n.ClusterStatus(ctx)
		}),
		cmdStop:        none(func(ctx context.Context, n Node, _ nothing) error { return n.Stop(ctx) }),
		cmdSetPolicy:   none(func(ctx context.Context, n Node, p PolicyInfo) error { return n.SetPolicy(ctx, p) }),
		cmdClearPolicy: none(func(ctx context.Context, n Node, a named) error { return n.ClearPolicy(ctx, a.VHost, a.Name) }),
		cmdListPolicies: many(func(ctx context.Context, n Node, a named) ([]PolicyInfo, error) {
			return n.ListPolicies(ctx, a.VHost)
		}),
		cmdListQueues: func(ctx context.Context, node Node, args msgpack.RawMessage, row func(any) error) error {
			q, err := decode[QueueQuery](args)
			if err != nil {
				return err
			}
			return node.ListQueues(ctx, q, func(q QueueInfo) error { return row(q) })
		},
		cmdDeleteQueue: one(func(ctx context.Context, n Node, d QueueDeletion) (uint64, error) {
			return n.DeleteQueue(ctx, d)
		}),
		cmdPurgeQueue: one(func(ctx context.Context, n Node, a named) (uint64, error) {
			return n.PurgeQueue(ctx, a.VHost, a.Name)
		}),
		cmdListExchanges: many(func(ctx context.Context, n Node, a named) ([]ExchangeInfo, error) {
			return n.ListExchanges(ctx, a.VHost)
		}),
		cmdListBindings: many(func(ctx context.Context, n Node, a named) ([]BindingInfo, error) {
			return n.ListBindings(ctx, a.VHost)
		}),
		cmdListVHosts: many(func(ctx context.Context, n Node, _ nothing) ([]VHostInfo, error) { return n.ListVHosts(ctx) }),
		cmdListUsers:  many(func(ctx context.Context, n Node, _ nothing) ([]UserInfo, error) { return n.ListUsers(ctx) }),
	}
	maps.Copy(all, mirroringHandlers())
	maps.Copy(all, accessHandlers())
	maps.Copy(all, clientHandlers())
	maps.Copy(all, lifecycleHandlers())
	maps.Copy(all, runtimeHandlers())
	return all
}

func decode[A any](args msgpack.RawMessage) (A, error) {
	var a A
	if err := link.Unmarshal(args, &a); err != nil {
		return a, Errorf(CodeBadRequest, "arguments: %v", err)
	}
	return a, nil
}

// none makes a handler of a request without an answer but its success.
func none[A any](call func(context.Context, Node, A) error) handler {
	return func(ctx context.Context, node Node, args msgpack.RawMessage, _ func(any) error) error {
		a, err := decode[A](args)
		if err != nil {
			return err
		}
		return call(ctx, node, a)
	}
}

// one makes a handler of a request that is answered by one row.
func one[A, R any](call func(context.Context, Node, A) (R, error)) handler {
	return func(ctx context.Context, node Node, args msgpack.RawMessage, row func(any) error) error {
		a, err := decode[A](args)
		if err != nil {
			return err
		}
		r, err := call(ctx, node, a)
		if err != nil {
			return err
		}
		return row(r)
	}
}

// many makes a handler of a request that is answered by a list, one row each.
func many[A, R any](call func(context.Context, Node, A) ([]R, error)) handler {
	return func(ctx context.Context, node Node, args msgpack.RawMessage, row func(any) error) error {
		a, err := decode[A](args)
		if err != nil {
			return err
		}
		list, err := call(ctx, node, a)
		if err != nil {
			return err
		}
		for _, r := range list {
			if err := row(r); err != nil {
				return err
			}
		}
		return nil
	}
}
