package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"warren/metadata/state"
)

// A disk that is older than its node (a restored backup, a snapshot of a machine, a disk that was swapped) lacks votes that the node
// gave, metadata that it confirmed and messages that it vouched for. So the node asks the others before it takes part, and looks
// into the metadata again once it has caught up; in both cases it ends rather than bring back what is no longer true.

// newestTimeout bounds how long a start waits for the other members' answers.
const newestTimeout = time.Second

// holdsBack says whether this node has to ask the others before it votes: it was up before, on this disk.
func (n *Node) holdsBack() bool { return n.data.found > 0 && !n.data.id.Joining }

// askNewestOf asks all members that can be asked whether they know a newer incarnation of this node than its disk does, or have
// given it up.
func (n *Node) askNewestOf() error {
	members, err := n.data.members()
	if err != nil {
		n.log.Warn("the other members cannot be asked about this node's disk", "error", err)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), newestTimeout)
	defer cancel()
	var mu sync.Mutex
	newest, shunnedBy := uint64(0), ""
	var wg sync.WaitGroup
	for _, m := range members {
		if m.Name == n.cfg.Node {
			continue
		}
		wg.Go(func() {
			// One that does not run, or is of a version that does not know the question, says nothing about the disk.
			a, err := askMembership(ctx, n.links, m.Addr, membershipQuestion{Kind: askNewest, Node: n.cfg.Node})
			if err == nil {
				mu.Lock()
				newest = max(newest, a.Newest)
				if a.Shunned {
					shunnedBy = m.Name
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if shunnedBy != "" {
		return n.shunnedBy(shunnedBy)
	}
	return n.checkNewest(newest)
}

// checkNewest compares what somebody knows of this node with what its disk knows.
func (n *Node) checkNewest(known uint64) error {
	if !n.holdsBack() || known <= n.data.id.Up {
		return nil
	}
	return &UnwelcomeError{fmt.Sprintf("the data directory %s is older than what the cluster knows of %s (it was up as incarnation %d "+
		"since, the disk knows %d): restored from a backup? Move it away and start the node empty: it gets everything from the others",
		n.cfg.DataDir, n.cfg.Node, known, n.data.id.Up)}
}

// checkDisk does it again with the metadata, once all of it is here.
func (l *life) checkDisk() error {
	n := l.node
	known := uint64(0)
	n.meta.View(func(s *state.State) {
		if r, ok := s.Node(l.self.Name); ok {
			known = r.Incarnation
		}
	})
	if err := n.checkNewest(known); err != nil {
		return err
	}
	if known >= l.self.Incarnation { // the clock of a node that lost its disk is behind
		n.data.id.Incarnation = known
		return fmt.Errorf("incarnation %d of this node is known already", known)
	}
	return nil
}

// newestOf is the newest incarnation of another node that this one knows to have been proposed, also before its own start.
func (n *Node) newestOf(node string) (newest uint64) {
	n.meta.View(func(s *state.State) {
		if r, ok := s.Node(node); ok {
			newest = r.Incarnation
		}
	})
	stored, err := n.data.storedMembers()
	if err != nil {
		n.log.Warn("the file of members cannot be read", "error", err)
	}
	for _, m := range stored {
		if m.Node == node {
			newest = max(newest, m.Incarnation)
		}
	}
	return newest
}
