package node

import (
	"context"
	"errors"
	"slices"

	"warren/ctl/admin"
	"warren/dataplane/amqp"
	"warren/dataplane/broker"
	"warren/metadata/policy"
	"warren/metadata/state"
)

// adapter is a node as the admin protocol sees it.
type adapter struct {
	process
	n *broker.Node
}

var _ admin.Node = (*adapter)(nil)

// Stop implements admin.Node.
func (a *adapter) Stop(context.Context) error {
	a.n.Stop()
	return nil
}

// refusal translates an error of the broker.
func refusal(err error) error {
	var invalid *policy.ValidationError
	var refused *state.Error
	var exception *amqp.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return admin.Errorf(admin.CodeValidation, "%s", invalid.Text)
	case errors.As(err, &refused):
		return admin.Errorf(codeOf(refused), "%s", refused.Error())
	case errors.As(err, &exception):
		if exception.Code == amqp.NotFound {
			return admin.Errorf(admin.CodeNotFound, "%s", exception.Text)
		}
		return admin.Errorf(admin.CodeRefused, "%s", exception.Text)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, broker.ErrNotUp):
		return admin.Errorf(admin.CodeUnavailable, "%v", err)
	}
	return err
}

func codeOf(e *state.Error) admin.Code {
	switch e.Code {
	case state.CodeNotFound:
		if e.Kind == state.KindVhost {
			return admin.CodeNoSuchVHost
		}
		return admin.CodeNotFound
	case state.CodeExists:
		return admin.CodeAlreadyExists
	case state.CodeInUse, state.CodeLocked:
		return admin.CodeInUse
	case state.CodePattern:
		return admin.CodeValidation
	}
	return admin.CodeRefused
}

func (a *adapter) hasVhost(name string) (ok bool) {
	a.n.View(func(s *state.State) { _, ok = s.Vhost(name) })
	return ok
}

func noVhost(name string) error { return &admin.Error{Code: admin.CodeNoSuchVHost, Text: name} }

// DeleteQueue implements admin.Node.
func (a *adapter) DeleteQueue(ctx context.Context, d admin.QueueDeletion) (uint64, error) {
	q, err := a.queue(d.VHost, d.Name)
	if err != nil {
		return 0, err
	}
	n, err := a.n.DeleteQueue(ctx, q, d.IfUnused, d.IfEmpty)
	switch {
	case errors.Is(err, broker.ErrQueueInUse):
		return 0, admin.Errorf(admin.CodeInUse, "%v", err)
	case errors.Is(err, broker.ErrQueueNotEmpty):
		return 0, admin.Errorf(admin.CodeNotEmpty, "%v", err)
	}
	return n, refusal(err)
}

// PurgeQueue implements admin.Node.
func (a *adapter) PurgeQueue(ctx context.Context, vhost, name string) (uint64, error) {
	q, err := a.queue(vhost, name)
	if err != nil {
		return 0, err
	}
	n, err := a.n.PurgeQueue(ctx, q)
	return n, refusal(err)
}

func (a *adapter) queue(vhost, name string) (q *state.Queue, err error) {
	ok, exists := false, false
	a.n.View(func(s *state.State) {
		q, ok = s.Queue(vhost, name)
		_, exists = s.Vhost(vhost)
	})
	switch {
	case !exists:
		return nil, noVhost(vhost)
	case !ok:
		return nil, admin.Errorf(admin.CodeNotFound, "no queue '%s' in vhost '%s'", name, vhost)
	}
	return q, nil
}

// ListQueues implements admin.Node.
func (a *adapter) ListQueues(ctx context.Context, query admin.QueueQuery, row func(admin.QueueInfo) error) error {
	var queues []*state.Queue
	nodes := map[string]*state.Node{}
	a.n.View(func(s *state.State) {
		queues = s.VhostQueues(query.VHost)
		for _, n := range s.Nodes() {
			nodes[n.Name] = n
		}
	})
	queues = slices.DeleteFunc(slices.Clone(queues), func(q *state.Queue) bool {
		down := q.Status == state.QueueDown
		return query.Name != "" && q.Name != query.Name || query.Online && down || query.Offline && !down || query.Local && q.Master != a.cfg.Node
	})
	if !query.Figures {
		for _, q := range queues {
			if err := row(queueInfo(q, nodes, broker.QueueFigures{})); err != nil {
				return err
			}
		}
		return nil
	}
	silent, err := a.n.Figures(ctx, queues, func(q *state.Queue, f broker.QueueFigures) error {
		return row(queueInfo(q, nodes, f))
	})
	if err == nil && silent > 0 {
		err = admin.Errorf(admin.CodeTimeout, "some nodes did not answer for their queues")
	}
	return err
}

func queueInfo(q *state.Queue, nodes map[string]*state.Node, f broker.QueueFigures) admin.QueueInfo {
	pid := func(node string) admin.PID {
		m, _ := q.Member(node)
		return admin.PID{Node: node, Creation: m.Incarnation, ID: q.ID}
	}
	info := admin.QueueInfo{
		Name: q.Name, VHost: q.Vhost, Node: q.Master, Durable: q.Durable, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive,
		Arguments: arguments(q.Arguments), Policy: q.Policy, Mirrored: q.Mirrored(), State: q.Status.String(),
		Known: f.Known, Messages: uint64(f.Ready + f.Unacknowledged), MessagesReady: uint64(f.Ready),
		MessagesUnacknowledged: uint64(f.Unacknowledged), MessagesPersistent: uint64(f.Persistent),
		MessageBytes:      uint64(f.Bytes),
		MessageBytesReady: uint64(max(f.Bytes-f.BytesUnacked, 0)), MessageBytesUnacked: uint64(f.BytesUnacked), MessageBytesPersistent: uint64(f.BytesPersistent), MessagesRAM: uint64(f.MessagesRAM), MessageBytesRAM: uint64(f.BytesRAM),
		Memory: uint64(f.Memory), Consumers: uint64(f.Consumers), ExclusiveConsumerTag: f.ExclusiveTag,
	}
	info.Lost, info.LostMore = f.Lost, f.LostMore
	if f.Syncing {
		info.State, info.Syncing = "syncing", f.SyncDone
		info.SyncToGo, info.SyncBytes, info.SyncBytesToGo = f.SyncToGo, f.SyncBytes, f.SyncBytesToGo
		info.SyncRate, info.SyncTimeToGo = f.SyncRate, f.SyncTimeToGo.Seconds()
	}
	if q.Status == state.QueueRunning {
		info.PID = pid(q.Master)
	}
	if q.Exclusive {
		info.OwnerPID = admin.PID{Node: q.Owner.Node, Creation: q.Owner.Incarnation, ID: q.Owner.Connection}
	}
	all, synchronised := q.Mirrors()
	for _, node := range all {
		info.Slaves = append(info.Slaves, pid(node))
	}
	for _, node := range synchronised {
		info.SynchronisedSlaves = append(info.SynchronisedSlaves, pid(node))
	}
	return info
}

// ListExchanges implements admin.Node.
func (a *adapter) ListExchanges(_ context.Context, vhost string) (out []admin.ExchangeInfo, _ error) {
	a.n.View(func(s *state.State) {
		for _, x := range s.Exchanges(vhost) {
			out = append(out, admin.ExchangeInfo{
				Name: x.Name, VHost: x.Vhost, Type: x.Type, Durable: x.Durable, AutoDelete: x.AutoDelete, Internal: x.Internal,
				Arguments: arguments(x.Arguments), Policy: x.Policy,
			})
		}
	})
	return out, nil
}

// ListBindings implements admin.Node.
func (a *adapter) ListBindings(_ context.Context, vhost string) (out []admin.BindingInfo, _ error) {
	a.n.View(func(s *state.State) {
		for _, q := range s.VhostQueues(vhost) {
			out = append(out, admin.BindingInfo{
				VHost: vhost, Destination: q.Name, DestinationKind: string(state.KindQueue), RoutingKey: q.Name,
			})
		}
		for _, b := range s.Bindings(vhost) {
			out = append(out, admin.BindingInfo{
				VHost: vhost, Source: b.Source, Destination: b.Destination, DestinationKind: string(b.Kind),
				RoutingKey: b.RoutingKey, Arguments: arguments(b.Arguments),
			})
		}
	})
	return out, nil
}

// ListVHosts implements admin.Node.
func (a *adapter) ListVHosts(context.Context) (out []admin.VHostInfo, _ error) {
	a.n.View(func(s *state.State) {
		var running []admin.NodeText
		for _, n := range s.Nodes() {
			if n.Status.Up() {
				running = append(running, admin.NodeText{Node: n.Name, Text: "running"})
			}
		}
		for _, v := range s.Vhosts() {
			kind := v.DefaultQueueType
			if kind == "" {
				kind = "classic"
			}
			out = append(out, admin.VHostInfo{
				Name: v.Name, Description: v.Description, Tags: v.Tags, DefaultQueueType: kind, ClusterState: running,
			})
		}
	})
	return out, nil
}

// ListUsers implements admin.Node.
func (a *adapter) ListUsers(context.Context) (out []admin.UserInfo, _ error) {
	a.n.View(func(s *state.State) {
		for _, u := range s.Users() {
			out = append(out, admin.UserInfo{Name: u.Name, Tags: u.Tags})
		}
	})
	return out, nil
}
