package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"warren/dataplane/gm"
)

// What all synchronisations of this node together may have under way to one other node, in bytes: on the link, where other
// queues' frames wait behind it, and before that node's disk, where their syncs do. One queue alone is limited by its replica.
const (
	syncAheadShare    = 1 << 20
	syncUnstoredShare = 4 << 20
	// syncRetry is after how long a synchronisation that found no room looks again, where up to syncLookers wait.
	syncRetry   = 5 * time.Millisecond
	syncLookers = 16
)

// syncRetryOf grows with the number of those that wait, so that ten thousand queues do not look more often than a few do together.
func syncRetryOf(waiting int) time.Duration {
	return syncRetry * time.Duration(1+waiting/syncLookers)
}

// underway is what was sent to a node: bytes that it has not taken, and bytes that are not on its disk.
type underway struct {
	node            string
	ahead, unstored int
}

// syncShare adds up what is under way to each node.
type syncShare struct {
	mu      sync.Mutex
	nodes   map[string]underway
	waiting atomic.Int64 // synchronisations that found no room and are to look again
}

// replace counts what a queue has under way now instead of what it had.
func (s *syncShare) replace(before, now []underway) {
	if len(before) == 0 && len(now) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes == nil {
		s.nodes = map[string]underway{}
	}
	for _, u := range before {
		s.add(u.node, -u.ahead, -u.unstored)
	}
	for _, u := range now {
		s.add(u.node, u.ahead, u.unstored)
	}
}

func (s *syncShare) add(node string, ahead, unstored int) {
	u := s.nodes[node]
	if u.ahead, u.unstored = u.ahead+ahead, u.unstored+unstored; u.ahead == 0 && u.unstored == 0 {
		delete(s.nodes, node)
		return
	}
	s.nodes[node] = u
}

// room tells whether more may be sent to all those nodes.
func (s *syncShare) room(to []underway) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range to {
		if n := s.nodes[u.node]; n.ahead >= syncAheadShare || n.unstored >= syncUnstoredShare {
			return false
		}
	}
	return true
}

// countSync tells the node what this copy has under way.
func (c *queueCopy) countSync() {
	s := &c.syncing
	now := s.spare[:0]
	if c.replica != nil && !c.failed {
		c.replica.SyncAhead(func(m gm.Member, ahead, unstored int) {
			now = append(now, underway{m.Node, ahead, unstored})
		})
	}
	c.life.syncShare.replace(s.underway, now)
	s.underway, s.spare = now, s.underway
}

// syncRoom tells whether this copy may send more now; if not, it looks again soon.
func (c *queueCopy) syncRoom() bool {
	if c.life.syncShare.room(c.syncing.underway) {
		return true
	}
	if !c.syncing.waits {
		c.syncing.waits = true
		s := &c.life.syncShare
		time.AfterFunc(syncRetryOf(int(s.waiting.Add(1))), func() {
			s.waiting.Add(-1)
			c.post(evSyncRoom{})
		})
	}
	return false
}

type evSyncRoom struct{}

func (evSyncRoom) apply(c *queueCopy) error {
	c.syncing.waits = false
	return nil
}
