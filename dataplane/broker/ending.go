package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"warren/metadata/state"
)

const (
	handOverDeadline = 10 * time.Second // for all masters of a node that stops
	shutDeadline     = 30 * time.Second // for closing all copies
	farewellTimeout  = 5 * time.Second  // for telling the cluster
	leavingTimeout   = 500 * time.Millisecond
	stepDownTimeout  = 3 * time.Second
	majorityPause    = 50 * time.Millisecond // between two looks whether a majority is left to tell
)

// canTakeMasters says whether masters may be handed to a node.
func (l *life) canTakeMasters(node string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n := l.nodes[node]
	return n != nil && n.Status == state.NodeRunning && !l.node.members.isLeaving(node, n.Incarnation)
}

// end ends the life; reason is nil when the node stops in good order, and is returned where the whole node has to stop.
func (l *life) end(reason error) error {
	text := "broker forced connection closure with reason 'shutdown'"
	if reason != nil {
		text = "the node left the cluster for a moment: " + reason.Error()
	}
	if reason == nil && l.ctx.Err() == nil {
		l.stepDown()
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

// stepDown tells the others that this node stops, and gives the lead of the metadata to one of them.
func (l *life) stepDown() {
	l.node.tellLeaving()
	staying := l.staying()
	if len(staying) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepDownTimeout)
	defer cancel()
	if err := l.node.meta.StepDown(ctx, staying); err != nil {
		l.log.Warn("the lead of the metadata could not be handed over before the node stops", "error", err)
	}
}

// staying are the nodes that are up, linked and not stopping themselves, this one left out.
func (l *life) staying() (nodes []string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, p := range l.node.links.Connected() {
		n := l.nodes[p.ID.Node]
		if n != nil && n.Status.Up() && n.Incarnation == p.ID.Incarnation && !l.node.members.isLeaving(n.Name, n.Incarnation) {
			nodes = append(nodes, n.Name)
		}
	}
	return nodes
}

// majorityLinked says whether enough voters are linked for anything to be decided.
func (l *life) majorityLinked() bool {
	voters := l.node.meta.Voters()
	reached := 0
	for _, v := range voters {
		if _, linked := l.node.links.Peer(v); linked || v == l.self.Name {
			reached++
		}
	}
	return reached > len(voters)/2
}

// handOverMasters moves every master that has a synchronised mirror elsewhere, within one deadline.
func (l *life) handOverMasters() {
	deadline := time.After(handOverDeadline)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for next := time.Now(); ; {
		if !time.Now().Before(next) { // at first, and again for those whose move fell through
			for _, c := range l.copyList() {
				c.post(evHandOver{})
			}
			next = next.Add(2 * handOverTimeout)
		}
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

// sayFarewell tells the cluster that this incarnation is over, as long as a majority is there to hear it; its copies are
// closed, so nobody has to wait for leases. Then the node gives up its vote where the others would lose their majority by its end.
func (l *life) sayFarewell() {
	ctx, cancel := context.WithTimeout(context.Background(), farewellTimeout)
	defer cancel()
	staying := l.staying()
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		tick := time.NewTicker(majorityPause)
		defer tick.Stop()
		for l.majorityLinked() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	})
	_, err := l.node.meta.Propose(ctx, &state.NodesDown{Nodes: []state.DownNode{{
		Node: l.self.Name, Incarnation: l.self.Incarnation, Reason: state.ReasonShutdown, Fenced: true,
	}}})
	if err == nil && len(staying) > 0 {
		err = l.node.meta.Yield(ctx, staying)
	}
	switch {
	case errors.Is(err, context.Canceled):
		l.log.Info("the others are stopping too, or cannot be reached: nobody is told that this node stops")
	case err != nil:
		l.log.Warn("the cluster could not be told that this node stops; it will notice", "error", err)
	}
}
