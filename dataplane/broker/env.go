package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/mirror"
	"warren/dataplane/queue"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

var _ mirror.Env = (*queueCopy)(nil)

// JoinRing implements mirror.Env.
func (c *queueCopy) JoinRing(self gm.Member) (mirror.Ring, error) {
	m, err := c.life.node.host.Join(c.actor, uint64(c.id), gm.Config{Self: self})
	if err != nil {
		return nil, err
	}
	c.ring = m
	return m, nil
}

// Propose implements mirror.Env.
func (c *queueCopy) Propose(cmd mirror.Command) {
	c.life.spawn(func() {
		ctx, cancel := context.WithTimeout(c.life.ctx, proposeTimeout)
		defer cancel()
		r, err := c.life.node.meta.Propose(ctx, c.command(cmd))
		if err == nil {
			err = r.Refusal()
		}
		if err == nil || c.life.ctx.Err() != nil {
			return
		}
		if !errors.Is(err, state.ErrStale) {
			c.log.Warn("a proposal about this queue failed", "command", fmt.Sprintf("%T", cmd), "error", err)
		}
		select {
		case <-time.After(retryPause):
			c.post(evFailed{cmd})
		case <-c.life.ctx.Done():
		}
	})
}

// command translates a replica's proposal.
func (c *queueCopy) command(cmd mirror.Command) state.Command {
	id := uint64(c.id)
	switch cmd := cmd.(type) {
	case mirror.MirrorSynchronised:
		return &state.MirrorSynchronised{
			Queue: id, Node: cmd.Member.Node, Incarnation: cmd.Member.Incarnation, JoinIndex: cmd.Member.JoinIndex, View: cmd.View,
		}
	case mirror.MirrorUnsynchronised:
		return &state.MirrorUnsynchronised{
			Queue: id, Node: cmd.Member.Node, Incarnation: cmd.Member.Incarnation, JoinIndex: cmd.Member.JoinIndex, Reason: cmd.Reason,
		}
	case mirror.MasterActing:
		return &state.MasterActing{Queue: id, Epoch: cmd.Epoch, Node: cmd.Self.Node, Incarnation: cmd.Self.Incarnation}
	case mirror.TransferMaster:
		return &state.TransferMaster{Queue: id, Epoch: cmd.Epoch, To: cmd.To.Node}
	case mirror.KeepMaster:
		return &state.KeepMaster{Queue: id, Epoch: cmd.Epoch, Node: cmd.Self.Node}
	}
	panic(fmt.Sprintf("broker: a replica proposes %T, which the metadata do not know", cmd))
}

// LeasesHeld implements mirror.Env: the other members of the view and the joiners that were proposed have promised not to
// act (metadata.md, never two masters). Within the end of a batch the answer is the last of askLeases.
func (c *queueCopy) LeasesHeld() bool {
	if c.leases.asked {
		return c.leases.held
	}
	return c.askLeases()
}

// askLeases looks at the clock.
func (c *queueCopy) askLeases() bool {
	until := time.Duration(math.MaxInt64)
	for _, m := range c.q.Members {
		if m.State == state.MemberUp && m.Node != c.life.self.Name {
			until = min(until, c.life.node.detector.HeldUntil(m.Node, m.Incarnation))
		}
	}
	for n := range c.joiners {
		until = min(until, c.life.node.detector.HeldUntil(n.Name, n.Incarnation))
	}
	c.leases.held = until == math.MaxInt64 || bootTime() < until
	return c.leases.held
}

// IncarnationUp implements mirror.Env.
func (c *queueCopy) IncarnationUp(node string, incarnation uint64) bool {
	return c.life.incarnationUp(node, incarnation)
}

// SetAside implements mirror.Env.
func (c *queueCopy) SetAside(why string) (backingqueue.Queue, error) {
	if err := c.opened.Close(); err != nil {
		return nil, fmt.Errorf("close a copy to set it aside: %w", err)
	}
	path, err := c.life.node.store.SetAsideAs(c.id, c.label(why))
	if err != nil {
		return nil, fmt.Errorf("set a copy aside: %w", err)
	}
	c.log.Warn("what this copy held is set aside", "reason", why, "path", path)
	if _, err := c.openStore(); err != nil {
		return nil, err
	}
	return c.opened, nil
}

// Acting implements mirror.Env.
func (c *queueCopy) Acting(t mirror.Term) queue.Events {
	c.master.Store(true)
	c.forgetLetters()
	c.check(c.process.Promote(c.replica.Backing(), t.Epoch, t.New))
	c.post(evReview{})
	return c.process
}

// Resigned implements mirror.Env.
func (c *queueCopy) Resigned(r mirror.Resignation) {
	if r == mirror.Suspended {
		c.process.Suspend()
		c.forgetLetters()
		return
	}
	c.master.Store(false)
	c.resign()
}

// Report implements mirror.Env.
func (c *queueCopy) Report(e mirror.Event) {
	log := c.log.With("epoch", e.Epoch, "view", e.View)
	switch e.Kind {
	case mirror.Promoted:
		log.Info("this node's copy is master", "messages", e.Messages)
	case mirror.PromotedWithLoss:
		log.Error("this node's copy was promoted without being synchronised", "messages_lost", lossText(e.Messages), "detail", e.Detail)
	case mirror.MasterStopped:
		log.Info("this node's copy is no longer master", "successor", e.Member.Node)
	case mirror.Discarded:
		log.Info("messages of an earlier life of this copy were dropped; the master has the queue", "messages", e.Messages)
	case mirror.SetAside:
		log.Warn("messages of this copy that may be the only ones were set aside", "messages", e.Messages, "detail", e.Detail)
	case mirror.BaselineKnown:
		log.Info("this node's copy follows the master", "messages_missing", e.Messages)
	case mirror.Defect:
		log.Error("something that the protocol excludes was seen", "detail", e.Detail)
	case mirror.SyncStarted:
		log.Info("a mirror is being synchronised", "peer", e.Member.Node, "messages", e.Messages)
	case mirror.SyncDone:
		log.Info("a mirror was sent what it lacked", "peer", e.Member.Node, "messages_sent", e.Messages, "detail", e.Detail)
	case mirror.SyncCancelled:
		log.Warn("a synchronisation was cancelled", "messages_sent", e.Messages)
	case mirror.SyncInterrupted:
		log.Warn("a synchronisation goes on without a mirror, which is tried again", "peer", e.Member.Node, "detail", e.Detail)
	case mirror.WasExpelled:
		log.Info("this node's copy is out of the view", "detail", e.Detail)
	}
}

// lossText is a number of lost messages as the log has it.
func lossText(n int) any {
	if n < 0 {
		return "unknown"
	}
	return n
}

// forgetJoiners drops those that the record has taken into the view.
func (c *queueCopy) forgetJoiners(q *state.Queue) {
	for n := range c.joiners {
		if m, ok := q.Member(n.Name); ok && m.State == state.MemberUp && m.Incarnation == n.Incarnation || !ok {
			delete(c.joiners, n)
		}
	}
}

func nodeID(m state.Member) protocol.NodeID {
	return protocol.NodeID{Name: m.Node, Incarnation: m.Incarnation}
}
