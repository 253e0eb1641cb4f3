package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"warren/dataplane/backingqueue"
	"warren/dataplane/link"
	"warren/dataplane/mirror"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

// How often a copy that waits to enter the view offers itself again.
const (
	offerMin = 50 * time.Millisecond
	offerMax = 2 * time.Second
)

var (
	errNotMaster = errors.New("not the queue's acting master")
	errNoLease   = errors.New("that node has not granted a lease yet, without which the master would have to pause")
	errNoPlace   = errors.New("the queue's record has no place for that mirror to join")
)

// join begins what brings this node's copy, which the record has a place for but the view does not hold, into the view.
func (c *queueCopy) join(q *state.Queue) {
	if q.Status == state.QueueDown {
		c.recover(q)
		return
	}
	master, ok := q.MasterMember()
	if !ok || master.Node == c.life.self.Name {
		return
	}
	ctx, cancel := context.WithCancel(c.life.ctx)
	c.offering = cancel
	body := binary.AppendUvarint(nil, q.ID)
	c.life.spawn(func() { c.keepOffering(ctx, master.Node, body) })
}

// keepOffering tells the master's node that this copy is open, until the record changes.
func (c *queueCopy) keepOffering(ctx context.Context, master string, body []byte) {
	for pause := offerMin; ctx.Err() == nil; pause = min(2*pause, offerMax) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		_, err := c.life.node.links.Call(call, master, callOffer, body)
		cancel()
		if err != nil && ctx.Err() == nil {
			c.log.Debug("the master did not take this copy into its view yet", "peer", master, "error", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// recover proposes that this copy goes on with a queue that is down, from its own disk: the last master at once, another
// member of the last synchronised set when the last master has not come back for a while (metadata.md, promotion). A copy
// that does not have what the record thinks says so instead.
func (c *queueCopy) recover(q *state.Queue) {
	vouched := func(node string) bool {
		return slices.ContainsFunc(q.LastSynchronised, func(p state.Place) bool { return p.Node == node })
	}
	if !vouched(c.life.self.Name) {
		return
	}
	var cmd state.Command = &state.RecoverQueue{
		Queue: q.ID, Epoch: q.Epoch, Node: c.life.self.Name, Incarnation: c.life.self.Incarnation,
	}
	wait := time.Duration(0)
	switch m, _ := q.Member(c.life.self.Name); {
	case !c.found || !c.replica.Synchronised():
		cmd = &state.MirrorUnsynchronised{
			Queue: q.ID, Node: m.Node, Incarnation: m.Incarnation, JoinIndex: m.JoinIndex, Reason: "its copy on disk is missing or damaged",
		}
	case q.Master != c.life.self.Name && vouched(q.Master): // one that came back without what it had does not count
		wait = c.life.node.cfg.Timing.RecoveryWait
		c.log.Warn("the queue is down; this copy takes over if its last master does not come back", "peer", q.Master, "after", wait)
	}
	ctx, cancel := context.WithCancel(c.life.ctx)
	c.offering = cancel
	c.life.spawn(func() { c.proposeRecovery(ctx, wait, cmd) })
}

func (c *queueCopy) proposeRecovery(ctx context.Context, wait time.Duration, cmd state.Command) {
	for pause := wait; ; pause = time.Second {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		r, err := c.life.node.meta.Propose(ctx, cmd)
		if err == nil {
			err = r.Refusal()
		}
		if err == nil || errors.Is(err, state.ErrStale) || errors.Is(err, state.ErrNotFound) {
			return // the record has changed, or is about to: assign sees it
		}
		c.log.Warn("the recovery of the queue could not be proposed", "error", err)
	}
}

// endOffer ends the offer or recovery that an older record began.
func (c *queueCopy) endOffer() {
	if c.offering != nil {
		c.offering()
		c.offering = nil
	}
}

// answerOffer takes a mirror's offer at the master's node.
func (n *Node) answerOffer(ctx context.Context, from link.PeerID, body []byte) ([]byte, error) {
	id, size := binary.Uvarint(body)
	if size <= 0 {
		return nil, errors.New("an offer names no queue")
	}
	l := n.currentLife()
	if l == nil {
		return nil, errNotMaster
	}
	l.mu.RLock()
	c := l.copies[backingqueue.ID(id)]
	l.mu.RUnlock()
	if c == nil {
		return nil, errNotMaster
	}
	answer := make(chan error, 1)
	c.post(evOffer{protocol.NodeID{Name: from.Node, Incarnation: from.Incarnation}, answer})
	select {
	case err := <-answer:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// offer proposes MirrorReady for a mirror whose copy is open. From here on this master needs the joiner's lease, whether
// or not the view has come (metadata.md, MirrorReady).
func (c *queueCopy) offer(from protocol.NodeID) error {
	if c.replica == nil || c.replica.Role() != mirror.Master {
		return fmt.Errorf("queue '%s' in vhost '%s': %w", c.q.Name, c.q.Vhost, errNotMaster)
	}
	m, ok := c.q.Member(from.Name)
	if !ok || m.State != state.MemberJoining || nodeID(m) != from {
		return fmt.Errorf("queue '%s' in vhost '%s': %w", c.q.Name, c.q.Vhost, errNoPlace)
	}
	if c.joiners[from] {
		return nil
	}
	if c.heldOff(from) {
		return fmt.Errorf("queue '%s' in vhost '%s': %w", c.q.Name, c.q.Vhost, errHeldOff)
	}
	if !c.life.node.detector.Held(from.Name, from.Incarnation) {
		return fmt.Errorf("queue '%s' in vhost '%s': %w", c.q.Name, c.q.Vhost, errNoLease)
	}
	c.joiners[from] = true
	cmd := &state.MirrorReady{Queue: uint64(c.id), Node: from.Name, Incarnation: from.Incarnation}
	c.background("take a mirror into the view", func(ctx context.Context) error {
		r, err := c.life.node.meta.Propose(ctx, cmd)
		if err != nil {
			return err // it may still be committed: the lease stays needed until the node is up no more
		}
		if err := r.Refusal(); err != nil {
			c.post(evNotReady{from})
			if !errors.Is(err, state.ErrStale) {
				return err
			}
		}
		return nil
	})
	return nil
}
