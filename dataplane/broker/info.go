package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/amqp"
	"warren/dataplane/backingqueue"
	"warren/dataplane/link"
	"warren/dataplane/origin"
	"warren/dataplane/queue/protocol"
	"warren/metadata/raftstore"
	"warren/metadata/state"
)

// QueueFigures are what only a queue's master knows. Bytes are those of bodies, Memory those of this copy's index and of
// the bodies that it holds in memory.
type QueueFigures struct {
	Queue           uint64 `msgpack:"q"`
	Known           bool   `msgpack:"k"`
	Ready           int    `msgpack:"r"`
	Unacknowledged  int    `msgpack:"u"`
	Persistent      int    `msgpack:"p"`
	Consumers       int    `msgpack:"c"`
	Bytes           int64  `msgpack:"b"`
	BytesUnacked    int64  `msgpack:"bu"`
	BytesPersistent int64  `msgpack:"bp"`
	MessagesRAM     int    `msgpack:"mr"`
	BytesRAM        int64  `msgpack:"br"`
	Memory          int64  `msgpack:"m"`

	// The active consumer of a queue with a single active one; SoleConsumer is ConsumerInfo.ID, 0: there is none.
	SoleNode        string `msgpack:"an"`
	SoleIncarnation uint64 `msgpack:"ai"`
	SoleConsumer    uint64 `msgpack:"ac"`

	// Lost is how many messages promotions of unsynchronised copies are known to have cost the queue, LostMore that there are others.
	Lost     uint64 `msgpack:"l"`
	LostMore bool   `msgpack:"lm"`

	// ExclusiveTag is that of the consumer that shuts out all others.
	ExclusiveTag string `msgpack:"et"`

	// Of a synchronisation that is under way. The walk has passed SyncDone messages; SyncToGo, the time and the bytes to go
	// are estimates. SyncRate is messages passed per second.
	Syncing       bool          `msgpack:"s"`
	SyncDone      uint64        `msgpack:"sd"`
	SyncToGo      uint64        `msgpack:"st"`
	SyncBytes     uint64        `msgpack:"sb"`
	SyncBytesToGo uint64        `msgpack:"sg"`
	SyncRate      float64       `msgpack:"sr"`
	SyncTimeToGo  time.Duration `msgpack:"se"`
}

// figuresBatch is how many queues one call asks about.
const figuresBatch = 1000

// figures reads a copy's numbers; those of a copy that is not master, or does not answer in time, are not known.
func (c *queueCopy) figures(ctx context.Context) QueueFigures {
	f := QueueFigures{Queue: uint64(c.id)}
	if !c.master.Load() {
		return f
	}
	done := make(chan QueueFigures, 1)
	c.post(evFigures{done})
	select {
	case f = <-done:
	case <-ctx.Done():
	}
	return f
}

func (c *queueCopy) count() QueueFigures {
	f := QueueFigures{Queue: uint64(c.id)}
	if c.replica == nil || !c.master.Load() {
		return f
	}
	counters, stats := c.process.Counters(), c.replica.Store().Stats()
	f = QueueFigures{
		Queue: uint64(c.id), Known: true, Ready: counters.Ready, Unacknowledged: counters.Unacked, Consumers: counters.Consumers,
		Persistent: stats.Persistent, Bytes: stats.Bytes, BytesPersistent: stats.PersistBytes, BytesUnacked: counters.UnackedBytes, ExclusiveTag: counters.ExclusiveTag,
		MessagesRAM: stats.MessagesRAM, BytesRAM: stats.BytesRAM, Memory: stats.IndexBytes + stats.BytesRAM,
	}
	f.SoleNode, f.SoleIncarnation, f.SoleConsumer = counters.Sole.Node.Name, counters.Sole.Node.Incarnation, counters.Sole.Consumer
	f.Lost, f.LostMore = c.replica.Losses()
	c.syncFigures(&f)
	return f
}

func (n *Node) localFigures(ctx context.Context, ids []uint64) []QueueFigures {
	out := make([]QueueFigures, len(ids))
	l := n.currentLife()
	for i, id := range ids {
		out[i] = QueueFigures{Queue: id}
		if l == nil {
			continue
		}
		l.mu.RLock()
		c := l.copies[backingqueue.ID(id)]
		l.mu.RUnlock()
		if c != nil {
			out[i] = c.figures(ctx)
		}
	}
	return out
}

func (n *Node) answerFigures(ctx context.Context, _ link.PeerID, body []byte) ([]byte, error) {
	var ids []uint64
	if err := link.Unmarshal(body, &ids); err != nil {
		return nil, fmt.Errorf("read a question about queues: %w", err)
	}
	if len(ids) > figuresBatch {
		return nil, fmt.Errorf("a question about %d queues, more than %d", len(ids), figuresBatch)
	}
	return msgpack.Marshal(n.localFigures(ctx, ids))
}

// Figures asks the masters' nodes about queues and calls row for each queue, node by node as the answers arrive, until row
// fails. A queue whose master cannot be asked is not Known. It returns how many nodes did not answer in time; one that is not
// connected, as it has just died, is not among them: nobody waited for it.
func (n *Node) Figures(ctx context.Context, queues []*state.Queue, row func(*state.Queue, QueueFigures) error) (silent int, err error) {
	byNode := map[string][]*state.Queue{}
	for _, q := range queues {
		node := q.Master
		if q.Status == state.QueueDown {
			node = ""
		}
		byNode[node] = append(byNode[node], q)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for node, qs := range byNode {
		wg.Go(func() {
			for start := 0; start < len(qs); start += figuresBatch {
				part := qs[start:min(start+figuresBatch, len(qs))]
				figures, failed := n.askFigures(ctx, node, part)
				mu.Lock()
				if failed != nil {
					if errors.Is(failed, context.DeadlineExceeded) {
						silent++
					}
					n.log.Warn("a node did not answer for its queues", "peer", node, "error", failed)
				}
				for i, q := range part {
					if err == nil {
						err = row(q, figures[i])
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return silent, err
}

// askFigures always returns one entry per queue.
func (n *Node) askFigures(ctx context.Context, node string, queues []*state.Queue) ([]QueueFigures, error) {
	ids := make([]uint64, len(queues))
	unknown := make([]QueueFigures, len(queues))
	for i, q := range queues {
		ids[i], unknown[i].Queue = q.ID, q.ID
	}
	switch node {
	case "":
		return unknown, nil
	case n.cfg.Node:
		return n.localFigures(ctx, ids), nil
	}
	body, err := msgpack.Marshal(ids)
	if err != nil {
		return unknown, err
	}
	b, err := n.links.Call(ctx, node, callFigures, body)
	if err != nil {
		return unknown, err
	}
	var out []QueueFigures
	if err := link.Unmarshal(b, &out); err != nil {
		return unknown, fmt.Errorf("read figures of %s: %w", node, err)
	}
	if len(out) != len(queues) {
		return unknown, fmt.Errorf("%s answered for %d queues of %d", node, len(out), len(queues))
	}
	return out, nil
}

// View reads the metadata; see raftstore.Store.View.
func (n *Node) View(fn func(*state.State)) { n.meta.View(fn) }

// Leader is the leader of the metadata group, "" if this node knows none.
func (n *Node) Leader() string {
	leader, _ := n.meta.Leader()
	return leader
}

// Members are the servers of the metadata group.
func (n *Node) Members() ([]raftstore.Member, error) { return n.meta.Members() }

// Reachable says whether a node was heard just now.
func (n *Node) Reachable(node string) bool { return n.detector.Reachable(node) }

// Uptime is the time since Start.
func (n *Node) Uptime() time.Duration { return time.Since(n.began) }

// Serving says whether this node serves clients at present.
func (n *Node) Serving() bool {
	l := n.currentLife()
	if l == nil {
		return false
	}
	l.clientsMu.Lock()
	defer l.clientsMu.Unlock()
	return l.clients != nil
}

// Ready says whether this node does what it is there for: it serves clients or, a witness, is up and not paused.
func (n *Node) Ready() bool {
	if !n.cfg.Witness {
		return n.Serving()
	}
	l := n.currentLife()
	if l == nil || n.Paused() != "" || n.InMaintenance() {
		return false
	}
	l.clientsMu.Lock()
	defer l.clientsMu.Unlock()
	return l.serving
}

// Connections are the clients' connections to this node.
func (n *Node) Connections() []amqp.ConnectionInfo {
	l := n.currentLife()
	if l == nil {
		return nil
	}
	l.clientsMu.Lock()
	defer l.clientsMu.Unlock()
	if l.clients == nil {
		return nil
	}
	return l.clients.server.Connections()
}

// ErrNotUp: the node takes no part in its cluster at present.
var ErrNotUp = errors.New("the node is not up in its cluster at present")

// Propose has a command executed for an operator, as a client's would be: it returns when every node that can be reached has
// applied it. The error is a *state.Error if it was refused.
func (n *Node) Propose(ctx context.Context, cmd state.Command) (state.Result, error) {
	l := n.currentLife()
	if l == nil {
		return state.Result{}, ErrNotUp
	}
	return l.propose(ctx, cmd)
}

// Why a queue was not deleted: it has consumers (if-unused), or messages (if-empty).
const (
	ErrQueueInUse    = protocol.ErrInUse
	ErrQueueNotEmpty = protocol.ErrNotEmpty
)

// DeleteQueue deletes a queue for an operator and returns how many ready messages it had. Errors: ErrQueueInUse,
// ErrQueueNotEmpty, an *amqp.Error where a client would get one.
func (n *Node) DeleteQueue(ctx context.Context, q *state.Queue, ifUnused, ifEmpty bool) (uint64, error) {
	l := n.currentLife()
	if l == nil {
		return 0, ErrNotUp
	}
	return l.deleteQueue(ctx, q, nil, ifUnused, ifEmpty)
}

// PurgeQueue drops a queue's ready messages for an operator and returns how many.
func (n *Node) PurgeQueue(ctx context.Context, q *state.Queue) (uint64, error) {
	l := n.currentLife()
	if l == nil {
		return 0, ErrNotUp
	}
	r, err := l.operatorCall(ctx, q, func(core *origin.Attachment, key origin.Channel) (uint64, error) { return core.Purge(key) })
	if err != nil {
		return 0, err
	}
	return r.Messages, nil
}
