package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/backingqueue"
	"warren/dataplane/link"
	"warren/dataplane/queue"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

// A target remembers where a dead letter came from until its source says that it will not come again. Where that word is lost
// (the source's master died after its Remove, or the queue was deleted) the sweep asks.

const (
	sweepPause = 10 * time.Second
	sweepBatch = 4096 // positions in one question
)

// sweepQuestion asks a source's master which letters it will never send again.
type sweepQuestion struct {
	Queue     uint64              `msgpack:"q"`
	Positions []protocol.Position `msgpack:"p"`
}

// sweepLetters runs as long as the life.
func (l *life) sweepLetters() {
	tick := time.NewTicker(sweepPause)
	defer tick.Stop()
	seen := map[backingqueue.ID]map[backingqueue.OriginID]bool{}
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-tick.C:
		}
		next := map[backingqueue.ID]map[backingqueue.OriginID]bool{}
		for _, c := range l.copyList() {
			if c.master.Load() {
				l.sweep(c, seen[c.id], next)
			}
		}
		seen = next
	}
}

// sweep asks about what a queue has remembered for two rounds; what is younger is most likely under way.
func (l *life) sweep(c *queueCopy, before map[backingqueue.OriginID]bool, next map[backingqueue.ID]map[backingqueue.OriginID]bool) {
	ctx, cancel := context.WithTimeout(l.ctx, callTimeout)
	defer cancel()
	answer := make(chan []backingqueue.OriginID, 1)
	c.post(evSources{answer})
	var ids []backingqueue.OriginID
	select {
	case ids = <-answer:
	case <-ctx.Done():
		return
	}
	old := map[uint64][]protocol.Position{}
	for _, id := range ids {
		if before[id] {
			if ps := old[id.Incarnation]; len(ps) < sweepBatch {
				old[id.Incarnation] = append(ps, protocol.Position{Epoch: id.Connection, Seq: id.Channel})
			}
			continue
		}
		if next[c.id] == nil {
			next[c.id] = map[backingqueue.OriginID]bool{}
		}
		next[c.id][id] = true
	}
	for source, ps := range old {
		gone, err := l.forgotten(ctx, source, ps)
		if err != nil {
			l.log.Debug("the source of dead letters cannot be asked", "queue", source, "error", err)
		}
		var forget []backingqueue.OriginID
		for _, at := range gone {
			letter := queue.Letter{Position: at}
			forget = append(forget, letter.ID(backingqueue.ID(source)))
		}
		if len(forget) > 0 {
			c.post(evForget{forget})
		}
	}
}

// forgotten asks the source's master, wherever it is; a queue that does not exist never sends anything.
func (l *life) forgotten(ctx context.Context, source uint64, ps []protocol.Position) ([]protocol.Position, error) {
	q, ok := l.queueByID(backingqueue.ID(source))
	switch {
	case !ok:
		return ps, nil
	case q.Status == state.QueueDown:
		return nil, nil
	case q.Master == l.self.Name:
		return l.localForgotten(ctx, source, ps), nil
	}
	body, err := msgpack.Marshal(sweepQuestion{source, ps})
	if err != nil {
		return nil, err
	}
	b, err := l.node.links.Call(ctx, q.Master, callLetters, body)
	if err != nil {
		return nil, err
	}
	var gone []protocol.Position
	return gone, link.Unmarshal(b, &gone)
}

func (l *life) localForgotten(ctx context.Context, source uint64, ps []protocol.Position) (gone []protocol.Position) {
	l.mu.RLock()
	c := l.copies[backingqueue.ID(source)]
	l.mu.RUnlock()
	if c == nil || !c.master.Load() {
		return nil
	}
	answer := make(chan []protocol.Position, 1)
	c.post(evForgotten{ps, answer})
	select {
	case gone = <-answer:
	case <-ctx.Done():
	}
	return gone
}

func (n *Node) answerLetters(ctx context.Context, _ link.PeerID, body []byte) ([]byte, error) {
	var question sweepQuestion
	if err := link.Unmarshal(body, &question); err != nil {
		return nil, fmt.Errorf("read a question about dead letters: %w", err)
	}
	if len(question.Positions) > sweepBatch {
		return nil, fmt.Errorf("a question about %d dead letters, more than %d", len(question.Positions), sweepBatch)
	}
	var gone []protocol.Position
	if l := n.currentLife(); l != nil {
		gone = l.localForgotten(ctx, question.Queue, question.Positions)
	}
	return msgpack.Marshal(gone)
}
