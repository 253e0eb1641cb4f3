package broker

import (
	"context"
	"errors"
	"time"

	"warren/metadata/state"
)

const (
	handOverDeadline = 10 * time.Second // for all masters of a node that stops
	shutDeadline     = 30 * time.Second // for closing all copies
	farewellTimeout  = 5 * time.Second  // for telling the cluster
)

// canTakeMasters says whether masters may be handed to a node.
func (l *life) canTakeMasters(node string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := l.nodes[node]
	return n != nil && n.Status == state.NodeRunning
}

// end ends the life; reason is nil when the node stops in good order, and is returned where the whole node has to stop.
func (l *life) end(reason error) error {
	text := "broker forced connection closure with reason 'shutdown'"
	if reason != nil {
		text = "the node left the cluster for a moment: " + reason.Error()
	}
	l.clientsMu.Lock()
	l.serving = false
	l.closeClients(text)
	l.clientsMu.Unlock()
	if reason == nil && l.ctx.Err() == nil {
		l.handOverMasters()
	}
	l.leaveMetadata()
	err := l.shutCopies()
	l.cancel(ErrStopped)
	if reason == nil && err == nil {
		l.sayFarewell()
	}
	l.spawnMu.Lock()
	l.over = true
	l.spawnMu.Unlock()
	l.wg.Wait()
	var disk *diskError
	if errors.As(reason, &disk) {
		return errors.Join(disk, err)
	}
	return err
}

// handOverMasters moves every master that has a synchronised mirror elsewhere, within one deadline.
func (l *life) handOverMasters() {
	deadline := time.After(handOverDeadline)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, c := range l.copyList() {
		c.post(evHandOver{})
	}
	for {
		left := l.movableMasters()
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		case <-deadline:
			l.log.Warn("some masters could not be handed over before the node stops", "queues", left)
			return
		}
	}
}

// movableMasters counts the masters here that a synchronised mirror elsewhere could take.
func (l *life) movableMasters() int {
	movable := 0
	for _, c := range l.copyList() {
		if !c.master.Load() {
			continue
		}
		q, ok := l.queueByID(c.id)
		if !ok || q.Master != l.self.Name {
			continue
		}
		for _, m := range q.Members {
			if m.Node != l.self.Name && m.State == state.MemberUp && m.Synchronised && l.canTakeMasters(m.Node) {
				movable++
				break
			}
		}
	}
	return movable
}

// leaveMetadata ends following the metadata.
func (l *life) leaveMetadata() {
	n := l.node
	n.applyMu.Lock()
	defer n.applyMu.Unlock()
	if n.life == l {
		n.life = nil
		n.present.Store(nil)
	}
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
}

func (l *life) shutCopies() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutDeadline)
	defer cancel()
	var errs []error
	for _, c := range l.copyList() {
		errs = append(errs, c.shut(ctx))
	}
	return errors.Join(errs...)
}

// sayFarewell tells the cluster that this incarnation is over. Its copies are closed, so nobody has to wait for leases.
func (l *life) sayFarewell() {
	ctx, cancel := context.WithTimeout(context.Background(), farewellTimeout)
	defer cancel()
	_, err := l.node.meta.Propose(ctx, &state.NodesDown{Nodes: []state.DownNode{{
		Node: l.self.Name, Incarnation: l.self.Incarnation, Reason: state.ReasonShutdown, Fenced: true,
	}}})
	if err != nil {
		l.log.Warn("the cluster could not be told that this node stops; it will notice", "error", err)
	}
}
