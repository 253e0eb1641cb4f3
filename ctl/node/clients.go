package node

import (
	"context"
	"net"
	"strconv"

	"warren/ctl/admin"
	"warren/dataplane/broker"
)

func hostPort(addr string) (host string, port uint16) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return addr, 0
	}
	n, _ := strconv.ParseUint(text, 10, 16)
	return host, uint16(n)
}

func connectionInfo(c broker.Connection) admin.ConnectionInfo {
	out := admin.ConnectionInfo{
		PID:  admin.PID{Node: c.Node, Creation: c.Incarnation, ID: c.Number},
		User: c.User, VHost: c.Vhost, State: c.State, Channels: uint64(c.Count), Mechanism: c.Mechanism, FrameMax: c.FrameMax,
		ChannelMax: c.ChannelMax, Heartbeat: c.Heartbeat, ConnectedAt: c.ConnectedAt, Properties: arguments(c.Properties),
		Received: c.Received, Reads: c.Reads, Sent: c.Sent, Writes: c.Writes, Pending: c.Pending,
	}
	if c.TLS != nil {
		facts := admin.TLSInfo(*c.TLS)
		out.TLS = &facts
	}
	out.PeerHost, out.PeerPort = hostPort(c.Remote)
	out.Host, out.Port = hostPort(c.Local)
	return out
}

// silence is what a list says at its end of nodes that did not answer.
func silence(nodes int, err error) error {
	if err == nil && nodes > 0 {
		return admin.Errorf(admin.CodeTimeout, "some nodes did not answer for their clients")
	}
	return err
}

// ListConnections implements admin.Node.
func (a *adapter) ListConnections(ctx context.Context, row func(admin.ConnectionInfo) error) error {
	return silence(a.n.Clients(ctx, broker.DetailConnections, "", func(c broker.Connection) error {
		return row(connectionInfo(c))
	}))
}

// ListChannels implements admin.Node.
func (a *adapter) ListChannels(ctx context.Context, row func(admin.ChannelInfo) error) error {
	return silence(a.n.Clients(ctx, broker.DetailChannels, "", func(c broker.Connection) error {
		for _, ch := range c.Channels {
			err := row(admin.ChannelInfo{
				PID:        admin.PID{Node: c.Node, Creation: c.Incarnation, ID: c.Number, Serial: ch.ID},
				Connection: connectionInfo(c), Number: ch.Number, Transactional: ch.Transactional, Confirm: ch.Confirm,
				Consumers: uint64(ch.Consumers), Unacked: uint64(ch.Unacked), Unconfirmed: uint64(ch.Unconfirmed),
				Uncommitted: uint64(ch.Uncommitted), AcksOpen: uint64(ch.AcksOpen), Prefetch: ch.Prefetch, Global: ch.Global,
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// ListConsumers implements admin.Node.
func (a *adapter) ListConsumers(ctx context.Context, vhost string, row func(admin.ConsumerInfo) error) error {
	activity, mute := a.n.Activities(ctx, vhost)
	silent, err := a.n.Clients(ctx, broker.DetailConsumers, vhost, func(c broker.Connection) error {
		for _, ch := range c.Channels {
			for _, k := range ch.Consuming {
				err := row(admin.ConsumerInfo{
					Queue: k.Queue, VHost: c.Vhost, Tag: k.Tag, Ack: !k.NoAck, Prefetch: k.Prefetch, Arguments: arguments(k.Arguments),
					Activity: string(activity(c, k)), Channel: admin.PID{Node: c.Node, Creation: c.Incarnation, ID: c.Number, Serial: ch.ID},
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	return silence(max(silent, mute), err)
}

// CloseConnections implements admin.Node.
func (a *adapter) CloseConnections(ctx context.Context, q admin.CloseQuery) (uint64, error) {
	query := broker.CloseQuery{
		User: q.User, Vhost: q.VHost, ByVhost: q.ByHost, Limit: q.Limit, Delay: q.Delay, Reason: q.Reason,
		Incarnation: q.PID.Creation, Number: q.PID.ID,
	}
	var nodes []string
	switch {
	case q.PID.Node != "":
		nodes = []string{q.PID.Node}
	case q.Here:
		nodes = []string{a.cfg.Node}
	}
	closed, _ := a.n.CloseClients(ctx, query, nodes...)
	return closed, nil
}
