package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"warren/metadata/state"
)

// Why a node is not forgotten.
var (
	ErrNotMember = errors.New("the node is not in the cluster")
	ErrStillUp   = errors.New("the node is up")
)

// maintenanceText is RabbitMQ's reason for the clients of a node that is drained.
const maintenanceText = "Node was put into maintenance mode"

// ForgetNode takes a node that is not up out of the cluster, and out of every queue: those that waited for it are given to
// another copy at once (state.ForgetNode). Errors: ErrNotMember, ErrStillUp, ErrNotUp (of this node), or what the metadata
// said.
func (n *Node) ForgetNode(ctx context.Context, name string) error {
	l := n.currentLife()
	if l == nil {
		return ErrNotUp
	}
	members, err := n.Members()
	if err != nil {
		return err
	}
	var record *state.Node
	known, enabled := false, false
	n.View(func(s *state.State) {
		record, known = s.Node(name)
		enabled = s.FeatureEnabled(state.FeatureLifecycle)
	})
	member := slices.ContainsFunc(members, func(m Member) bool { return m.Name == name })
	switch {
	case !known && !member:
		return ErrNotMember
	case known && record.Status.Up():
		return ErrStillUp
	case known && !enabled:
		return fmt.Errorf("forget %s: feature flag %s is not enabled", name, state.FeatureLifecycle)
	}
	if err := n.meta.RemoveMember(ctx, name); err != nil {
		return err
	}
	if known {
		if _, err := l.propose(ctx, &state.ForgetNode{Node: name}); err != nil && !errors.Is(err, state.ErrNotFound) {
			return err // not found: the leader has tidied up already
		}
	}
	n.connect()
	return nil
}

// Drain puts this node into maintenance (upgrades.md): clients are sent away and kept away, masters that have a synchronised
// mirror elsewhere are handed over, and no new mirrors come. It is kept over a restart. It returns when the masters are gone.
func (n *Node) Drain(ctx context.Context) error {
	l := n.currentLife()
	if l == nil {
		return ErrNotUp
	}
	if _, err := l.propose(ctx, &state.SetDraining{Node: l.self.Name, On: true}); err != nil {
		return err
	}
	l.followPause()
	l.handOverMasters()
	l.awaitEverywhere(ctx, n.meta.Applied()) // who looks at another node next finds the masters moved
	return ctx.Err()
}

// Revive takes this node out of maintenance and returns when it serves clients again, which a witness never does.
func (n *Node) Revive(ctx context.Context) error {
	l := n.currentLife()
	if l == nil {
		return ErrNotUp
	}
	if _, err := l.propose(ctx, &state.SetDraining{Node: l.self.Name}); err != nil {
		return err
	}
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for !n.Ready() {
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return ErrNotUp
		case <-ctx.Done():
			return fmt.Errorf("the node is out of maintenance, but does not serve clients yet: %w", ctx.Err())
		}
	}
	return nil
}

// InMaintenance says whether this node is up and drained.
func (n *Node) InMaintenance() bool {
	l := n.currentLife()
	if l == nil {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	self := l.nodes[l.self.Name]
	return self != nil && self.Status == state.NodeDraining
}

// whyNoClients says why this node serves no clients, "" if it does.
func (l *life) whyNoClients() string {
	if why := l.node.Paused(); why != "" {
		return "the node is paused: " + why
	}
	if l.node.InMaintenance() {
		return maintenanceText
	}
	if l.node.cfg.Witness {
		return witnessText
	}
	return ""
}

// Critical are the queues whose master is here and that have no synchronised mirror which is up elsewhere, although their
// policy asks for one and a node for it is a member: stopping this node would take them down (reference U2, U3; a queue of
// which there shall be one copy only is none). alone: no other node could carry a mirror, so the question means nothing.
func (n *Node) Critical() (queues []*state.Queue, alone bool) {
	n.View(func(s *state.State) {
		var others []string
		for _, node := range s.Nodes() {
			if node.Name != n.cfg.Node && !node.Witness {
				others = append(others, node.Name)
			}
		}
		if alone = len(others) == 0; alone {
			return
		}
		for _, q := range s.Queues() {
			if q.Status != state.QueueRunning || q.Master != n.cfg.Node || !wantsMirror(q, others) {
				continue
			}
			if _, synchronised := q.Mirrors(); len(synchronised) == 0 {
				queues = append(queues, q)
			}
		}
	})
	return queues, alone
}

// wantsMirror says whether the queue's policy asks for a mirror that one of the others could carry.
func wantsMirror(q *state.Queue, others []string) bool {
	if q.Exclusive {
		return false
	}
	mode, count, listed := q.Effective.Placement()
	switch mode {
	case "all":
		return true
	case "exactly":
		return count > 1
	case "nodes":
		return slices.ContainsFunc(listed, func(name string) bool { return slices.Contains(others, name) })
	}
	return false
}

// Features are the flags of this version, and whether the cluster has them enabled.
func (n *Node) Features() (enabled map[string]bool) {
	enabled = map[string]bool{}
	n.View(func(s *state.State) {
		for _, f := range state.SupportedFeatures() {
			enabled[f] = s.FeatureEnabled(f)
		}
	})
	return enabled
}
