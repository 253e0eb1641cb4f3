package broker

import (
	"encoding/binary"
	"fmt"
	"iter"
	"time"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/link"
	"warren/dataplane/mirror"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

const (
	// syncPart is the largest part of a message of a synchronisation in one frame, so that other queues' frames do not wait. It
	// has room for a batch with all but the largest messages: what comes in one frame is not copied.
	syncPart = 256 << 10
	// maxSyncMessage limits what is put together from parts: the largest message body and a batch's rest.
	maxSyncMessage = 600 << 20
	// syncTick is how often a master looks whether its synchronisation moves.
	syncTick = time.Second
)

// syncing is what a copy knows of synchronisations, its own as master and those in which it is a mirror.
type syncing struct {
	timer *time.Timer // of the next tick; nil: none is needed
	// parts are the beginnings of messages that arrive in several frames, by sender.
	parts map[protocol.NodeID][]byte
	// held are the events of clients that wait until a blocking synchronisation is done; the clients' credit bounds them.
	held []any
	// began is when the synchronisation that is under way was seen first; zero: there is none.
	began time.Time
	bytes uint64    // of the present synchronisation that were paced
	next  time.Time // before which nothing is sent (mirroring_sync_max_throughput)
	// underway is what this copy was counted with last (syncshare.go); waits: it found no room and is to look again.
	underway, spare []underway
	waits           bool
}

type (
	evSync struct {
		from protocol.NodeID
		more bool // the message goes on in the next frame
		part []byte
	}
	evSyncTick struct{}
)

// syncPolicy is what a queue's policy and the node's configuration say of synchronisation.
func (c *queueCopy) syncPolicy(q *state.Queue) mirror.SyncPolicy {
	ha := q.Effective.HA()
	p := mirror.SyncPolicy{Automatic: ha.SyncMode == "automatic", Blocking: ha.SyncStrategy == "blocking", Batch: ha.SyncBatchSize}
	if p.Batch == 0 {
		p.Batch = c.life.node.cfg.SyncBatchSize
	}
	return p
}

// SendSync implements mirror.Env.
func (c *queueCopy) SendSync(to gm.Member, head, rest []byte) bool {
	info, ok := c.life.node.links.Peer(to.Node)
	if !ok || info.ID.Incarnation != to.Incarnation {
		return false
	}
	for first := true; first || len(head)+len(rest) > 0; first = false {
		h := head[:min(len(head), syncPart)]
		r := rest[:min(len(rest), syncPart-len(h))]
		head, rest = head[len(h):], rest[len(r):]
		more := byte(0)
		if len(head)+len(rest) > 0 {
			more = 1
		}
		name := append(binary.AppendUvarint(make([]byte, 0, 11), uint64(c.id)), more)
		if c.life.node.links.SendTo(info.ID, frameSync, name, h, r) != nil {
			return false
		}
	}
	return true
}

// syncFrame takes a frame of a synchronisation.
func (n *Node) syncFrame(from link.PeerID, body []byte) {
	id, size := binary.Uvarint(body)
	if size <= 0 || len(body) == size {
		n.log.Error("part of a synchronisation names no queue; closing the link", "peer", from.Node)
		n.links.Reset(from.Node)
		return
	}
	if c := n.copyOf(id); c != nil {
		c.post(evSync{protocol.NodeID{Name: from.Node, Incarnation: from.Incarnation}, body[size] == 1, body[size+1:]})
	}
}

// apply puts the parts of a message together and hands it over when it is whole.
func (e evSync) apply(c *queueCopy) error {
	if c.replica == nil {
		return nil
	}
	whole, begun := c.syncing.parts[e.from]
	if begun || e.more {
		if len(whole)+len(e.part) > maxSyncMessage {
			delete(c.syncing.parts, e.from)
			return fmt.Errorf("a message of a synchronisation from %s is larger than %d bytes", e.from.Name, maxSyncMessage)
		}
		whole = append(whole, e.part...)
	} else {
		whole = e.part
	}
	if e.more {
		if c.syncing.parts == nil {
			c.syncing.parts = map[protocol.NodeID][]byte{}
		}
		c.syncing.parts[e.from] = whole
		return nil
	}
	delete(c.syncing.parts, e.from)
	return c.replica.SyncMessage(e.from.Name, e.from.Incarnation, whole)
}

func (evSyncTick) apply(c *queueCopy) error {
	c.syncing.timer = nil
	if c.replica == nil || c.syncPaused() {
		return nil // EndBatch arms it again
	}
	return c.replica.SyncTick()
}

// syncLinkDown forgets what was under way to and from a node.
func (c *queueCopy) syncLinkDown(node protocol.NodeID) error {
	delete(c.syncing.parts, node)
	if c.replica == nil {
		return nil
	}
	return c.replica.LinkDown(node.Name, node.Incarnation)
}

// syncPaused: a node is short of memory, so that nothing is copied to fill it. Cancelling works meanwhile.
func (c *queueCopy) syncPaused() bool { return c.life.node.alarms.all()&alarmMemory != 0 }

// syncStep does the next piece of a synchronisation, and has the next one done after what came in the meantime.
func (c *queueCopy) syncStep() error {
	if c.replica.SyncPending() && c.syncing.timer == nil {
		c.syncing.timer = time.AfterFunc(syncTick, func() { c.post(evSyncTick{}) })
	}
	p, ok := c.replica.Syncing()
	switch {
	case !ok:
		c.syncing.began, c.syncing.bytes = time.Time{}, 0
	case c.syncing.began.IsZero():
		c.syncing.began = time.Now()
	}
	c.countSync()
	if c.syncPaused() || ok && (c.pace(p) || !c.syncRoom()) {
		return nil
	}
	more, err := c.replica.SyncStep()
	c.countSync()
	if more {
		c.post(evFlush{})
	}
	return err
}

// pace tells whether the throughput limit lets nothing be sent now.
func (c *queueCopy) pace(p mirror.Progress) bool {
	limit := c.life.node.cfg.SyncMaxThroughput
	if limit == 0 {
		return false
	}
	s := &c.syncing
	now := time.Now()
	if p.Bytes > s.bytes {
		if s.next.Before(now) {
			s.next = now
		}
		s.next = s.next.Add(time.Duration(float64(p.Bytes-s.bytes) / float64(limit) * float64(time.Second)))
		s.bytes = p.Bytes
		if wait := time.Until(s.next); wait > 0 {
			time.AfterFunc(wait, func() { c.post(evFlush{}) })
		}
	}
	return now.Before(s.next)
}

// hold keeps an event of the clients' side while a blocking synchronisation is under way; false: it is to be handled.
func (c *queueCopy) hold(ev any) bool {
	if c.replica == nil || !c.replica.Blocked() {
		return false
	}
	switch ev.(type) {
	case evMessage, evNodes, evLinkUp, evLinkDown:
		c.syncing.held = append(c.syncing.held, ev)
		return true
	}
	return false
}

// releaseHeld handles what waited for a blocking synchronisation.
func (c *queueCopy) releaseHeld() {
	if len(c.syncing.held) == 0 || c.replica != nil && c.replica.Blocked() {
		return
	}
	held := c.syncing.held
	c.syncing.held = nil
	for i, ev := range held {
		if c.replica != nil && c.replica.Blocked() {
			c.syncing.held = append(held[i:], c.syncing.held...)
			return
		}
		c.HandleEvent(ev)
	}
}

// SetAsidePart implements mirror.Env.
func (c *queueCopy) SetAsidePart(why string, entries iter.Seq2[backingqueue.Entry, error]) error {
	path, err := c.life.node.store.SetPartAside(c.id, c.label(why), entries)
	if err != nil {
		return err
	}
	c.log.Warn("part of what this copy held is set aside", "reason", why, "path", path)
	return nil
}

// syncFigures adds how far a synchronisation has come.
func (c *queueCopy) syncFigures(f *QueueFigures) {
	p, ok := c.replica.Syncing()
	if !ok {
		return
	}
	f.Syncing, f.SyncDone, f.SyncToGo, f.SyncBytes, f.SyncBytesToGo = true, p.Done, p.ToGo, p.Bytes, p.BytesAhead
	if c.syncing.began.IsZero() {
		return
	}
	f.SyncRate = float64(p.Done) / max(time.Since(c.syncing.began).Seconds(), 0.001)
	if f.SyncRate > 0 {
		f.SyncTimeToGo = time.Duration(float64(p.ToGo) / f.SyncRate * float64(time.Second))
	}
}
