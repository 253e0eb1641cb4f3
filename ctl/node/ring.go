package node

import (
	"context"

	"warren/ctl/admin"
	"warren/dataplane/broker"
	"warren/metadata/state"
)

// Ring implements admin.Node.
func (a *adapter) Ring(ctx context.Context, vhost, name string) (admin.RingInfo, error) {
	q, err := a.queue(vhost, name)
	if err != nil {
		return admin.RingInfo{}, err
	}
	ha := q.Effective.HA()
	info := admin.RingInfo{
		Policy: q.Policy, Mode: ha.Mode, Count: ha.Count, Nodes: ha.Nodes, Status: q.Status.String(), Master: q.Master,
		Epoch: q.Epoch, View: q.ViewVersion, OnFailure: successor(q, state.ReasonFailure), OnShutdown: successor(q, state.ReasonShutdown),
	}
	for _, p := range q.LastSynchronised {
		info.Recoverers = append(info.Recoverers, p.Node)
	}
	if info.LossEpoch = q.LastLossEpoch; info.LossEpoch > 0 {
		_, err = a.n.Figures(ctx, []*state.Queue{q}, func(_ *state.Queue, f broker.QueueFigures) error {
			info.LossKnown, info.Lost, info.LostMore = f.Known, f.Lost, f.LostMore
			return nil
		})
		if err != nil {
			return info, refusal(err)
		}
	}
	marks := a.n.Watermarks(ctx, q)
	a.n.View(func(s *state.State) {
		for _, m := range q.Members {
			out := admin.RingMember{
				Node: m.Node, NodeStatus: "unknown", State: m.State.String(), Synchronised: m.Synchronised, Age: m.JoinIndex, Replaces: m.Replaces,
			}
			if n, ok := s.Node(m.Node); ok {
				out.NodeStatus = n.Status.String()
			}
			mark, ok := marks[m.Node]
			out.Answered, out.Received, out.Persisted = ok, mark.Received, mark.Persisted
			out.Missing, out.More = mark.Missing, mark.More
			out.Window, out.WindowLimit = mark.Window, mark.Limit
			info.Members = append(info.Members, out)
		}
	})
	return info, nil
}

func successor(q *state.Queue, reason state.Reason) admin.Successor {
	node, loss, ok := q.Successor(reason)
	if !ok {
		return admin.Successor{}
	}
	return admin.Successor{Node: node, Loss: loss}
}
