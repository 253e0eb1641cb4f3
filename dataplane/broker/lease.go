package broker

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"warren/dataplane/link"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

// lapsedPause is how often a master that found a lease expired looks again.
const lapsedPause = 20 * time.Millisecond

// noteLapsed has a master, whose batch could not be told because a lease is missing, try again soon.
func (l *life) noteLapsed(c *queueCopy) {
	l.lapsedMu.Lock()
	defer l.lapsedMu.Unlock()
	l.lapsed[c] = true
	if !l.watching {
		l.watching = true
		l.spawn(l.watchLapsed)
	}
}

// watchLapsed runs while there is a master that misses a lease.
func (l *life) watchLapsed() {
	tick := time.NewTicker(lapsedPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
		l.lapsedMu.Lock()
		if len(l.lapsed) == 0 {
			l.watching = false
			l.lapsedMu.Unlock()
			return
		}
		lapsed := l.lapsed
		l.lapsed = map[*queueCopy]bool{}
		l.lapsedMu.Unlock()
		for c := range lapsed {
			c.post(evFlush{})
		}
	}
}

// grantsClear asks other nodes whether they have no unexpired grant left to any incarnation that was declared down unfenced.
// The death of a node concerns all its queues in one entry of the log, so one answer serves them all.
type grantsClear struct {
	l *life

	mu    sync.Mutex
	nodes map[protocol.NodeID]*clearNode
}

type clearNode struct {
	mu sync.Mutex // one question at a time
	to uint64     // clear as of this index of the log
}

func newGrantsClear(l *life) *grantsClear {
	return &grantsClear{l: l, nodes: map[protocol.NodeID]*clearNode{}}
}

func (g *grantsClear) node(id protocol.NodeID) *clearNode {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[id]
	if n == nil {
		n = &clearNode{}
		g.nodes[id] = n
	}
	return n
}

// wait returns true once the node has said that it is clear as of index, false when ctx ended before.
func (g *grantsClear) wait(ctx context.Context, id protocol.NodeID, index uint64) bool {
	n := g.node(id)
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.to < index {
		if ctx.Err() != nil {
			return false
		}
		if id == g.l.self {
			if g.l.node.waitGrantsClear(ctx, index) == nil {
				n.to = index
			}
			continue
		}
		call, cancel := context.WithTimeout(ctx, 2*g.l.node.cfg.Timing.Lease)
		_, err := g.l.node.links.Call(call, id.Name, callGrants, binary.AppendUvarint(nil, index))
		cancel()
		if err == nil {
			n.to = index
			continue
		}
		select {
		case <-time.After(lapsedPause):
		case <-ctx.Done():
		}
	}
	return true
}

// askGrants asks the members of the view for a promoted master and tells its replica when all are clear.
func (c *queueCopy) askGrants(q *state.Queue) {
	if c.asking != nil {
		c.asking()
	}
	c.asked = q.ViewVersion
	ctx, cancel := context.WithCancel(c.life.ctx)
	c.asking = cancel
	var members []protocol.NodeID
	for _, m := range q.Members {
		if m.State == state.MemberUp {
			members = append(members, nodeID(m))
		}
	}
	c.life.spawn(func() {
		defer cancel()
		for _, m := range members {
			if !c.life.grants.wait(ctx, m, q.ViewVersion) {
				return
			}
		}
		c.post(evGrants{q.ViewVersion})
	})
}

// answerGrants answers once this node has no unexpired grant left to any incarnation declared down unfenced.
func (n *Node) answerGrants(ctx context.Context, _ link.PeerID, body []byte) ([]byte, error) {
	index, _ := binary.Uvarint(body)
	return nil, n.waitGrantsClear(ctx, index)
}

func (n *Node) waitGrantsClear(ctx context.Context, index uint64) error {
	if err := n.meta.WaitApplied(ctx, index); err != nil {
		return err
	}
	for {
		left := n.detector.OutstandingUnfenced()
		if left <= 0 {
			return nil
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
