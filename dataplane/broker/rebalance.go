package broker

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"

	"warren/metadata/state"
)

// NodeMasters is how many masters of the queues in question a node has.
type NodeMasters struct {
	Node    string
	Masters int
}

// ErrRebalancing: this node is rebalancing already.
var ErrRebalancing = errors.New("a rebalancing is in progress on this node")

// Rebalance spreads the masters of mirrored queues that match chooses over the nodes that may have masters (reference L5): from each
// that has more than its share, smallest queues first, to the synchronised mirror on the node with the fewest. Queues that
// are deleted or change meanwhile are passed over. It returns what the nodes have in the end, by name; nil if no queue
// is in question.
func (n *Node) Rebalance(ctx context.Context, match func(*state.Queue) bool) ([]NodeMasters, error) {
	if !n.rebalancing.TryLock() {
		return nil, ErrRebalancing
	}
	defer n.rebalancing.Unlock()
	queues := n.balanced(match)
	if len(queues) == 0 {
		return nil, nil
	}
	var size sync.Map
	if _, err := n.Figures(ctx, queues, func(q *state.Queue, f QueueFigures) error {
		size.Store(q.ID, f.Ready+f.Unacknowledged)
		return nil
	}); err != nil {
		return nil, err
	}
	messages := func(q *state.Queue) int { m, _ := size.Load(q.ID); k, _ := m.(int); return k }
	sort.SliceStable(queues, func(i, j int) bool { return messages(queues[i]) < messages(queues[j]) })
	for _, q := range queues {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		to, ok := n.lighter(q, match)
		if !ok {
			continue
		}
		if err := n.Transfer(ctx, q, to); err != nil {
			n.log.Warn("a master could not be moved while rebalancing", "queue", q.Name, "vhost", q.Vhost, "peer", to, "error", err)
		}
	}
	counts, _ := n.masters(match)
	return counts, nil
}

// balanced are the queues that a rebalancing is about.
func (n *Node) balanced(match func(*state.Queue) bool) (queues []*state.Queue) {
	n.meta.View(func(s *state.State) {
		for _, q := range s.Queues() {
			if q.Status == state.QueueRunning && q.Mirrored() && match(q) {
				queues = append(queues, q)
			}
		}
	})
	return queues
}

// masters counts per node that may have masters; share is what none should exceed.
func (n *Node) masters(match func(*state.Queue) bool) (counts []NodeMasters, share int) {
	queues := n.balanced(match)
	n.meta.View(func(s *state.State) {
		for _, node := range s.Nodes() {
			if node.Status == state.NodeRunning && !node.Witness {
				counts = append(counts, NodeMasters{Node: node.Name})
			}
		}
	})
	for _, q := range queues {
		if i := slices.IndexFunc(counts, func(c NodeMasters) bool { return c.Node == q.Master }); i >= 0 {
			counts[i].Masters++
		}
	}
	if len(counts) > 0 {
		share = (len(queues) + len(counts) - 1) / len(counts)
	}
	return counts, share
}

// lighter is where the master of q should go, as the counts are now; ok is false if it should stay.
func (n *Node) lighter(q *state.Queue, match func(*state.Queue) bool) (to string, ok bool) {
	now, known := (*state.Queue)(nil), false
	n.meta.View(func(s *state.State) { now, known = s.QueueByID(q.ID) })
	if !known || now.Status != state.QueueRunning || now.Master != q.Master || now.Epoch != q.Epoch {
		return "", false
	}
	counts, share := n.masters(match)
	at := func(node string) int {
		return slices.IndexFunc(counts, func(c NodeMasters) bool { return c.Node == node })
	}
	if i := at(q.Master); i < 0 || counts[i].Masters <= share {
		return "", false
	}
	fewest := share
	for _, m := range now.Members {
		i := at(m.Node)
		if i >= 0 && m.State == state.MemberUp && m.Synchronised && counts[i].Masters < fewest {
			to, fewest, ok = m.Node, counts[i].Masters, true
		}
	}
	return to, ok
}
