package queue

import (
	"warren/dataplane/backingqueue"
	"warren/dataplane/queue/protocol"
)

// Limits count the ready messages and their bodies, as RabbitMQ does: not what is unacknowledged.

func (p *Process) limited() bool { return p.set.MaxLength.Set || p.set.MaxBytes.Set }

func (p *Process) readyBytes() int64 {
	return max(0, p.b.Stats().Bytes-p.unackedBytes-p.dyingBytes-p.drops.bytes)
}

// exceeded tells whether so many messages and bytes more than are ready would be too much.
func (p *Process) exceeded(messages int, bytes int64) bool {
	s := &p.set
	return s.MaxLength.Set && int64(p.readyCount()+messages) > s.MaxLength.Value ||
		s.MaxBytes.Set && p.readyBytes()+bytes > s.MaxBytes.Value
}

// trim drops the head of a queue that is too long.
func (p *Process) trim() {
	if !p.limited() || p.set.Overflow != DropHead || !p.active() || !p.exceeded(0, 0) {
		return
	}
	var rs []backingqueue.Range
	gone, bytes := 0, int64(0)
	for p.active() && p.mayBury() && p.exceeded(-gone, -bytes) {
		l, e, ok := p.first()
		if !ok {
			break
		}
		p.popHead(l, e.Seq)
		before := len(p.dying)
		rs = p.bury(rs, &e, ReasonDropped)
		if len(p.dying) == before { // else it does not count as ready any more
			gone, bytes = gone+1, bytes+int64(len(e.Message.Body))
		}
	}
	p.remove(rs, ReasonDropped)
}

// verdict on a publish that is about to be taken.
type verdict uint8

const (
	accept verdict = iota
	wait           // until something was delivered, or dead letters have left
	refuse
	deadLetter // take it and dead-letter it, but nack it
)

// crowded: with this publish more would have to be dropped than letters may be under way.
func (p *Process) crowded(item *protocol.PublishItem) bool {
	if !p.exceeded(1, int64(len(item.Message.Body))) {
		return false
	}
	room := int64(p.opt.Letters - len(p.dying))
	return !p.mayBury() || p.set.MaxLength.Set && int64(p.readyCount())+1-p.set.MaxLength.Value > room
}

// judge looks at a publish: the queue may be full, or have too few members in sync.
func (p *Process) judge(o *originState, item *protocol.PublishItem) verdict {
	switch {
	case p.short && IsLetter(o.id):
		return wait // its source keeps it, and would take a refusal for the end
	case p.short:
		return refuse
	case !p.limited():
		return accept
	}
	if p.set.Overflow == DropHead {
		// What is to be dropped stays until its letters have left; only other queues' dead letters may come meanwhile, or two
		// full queues might wait for each other for ever.
		if p.set.DeadLetter && !IsLetter(o.id) && p.crowded(item) {
			return wait
		}
		return accept
	}
	switch {
	case !p.exceeded(1, int64(len(item.Message.Body))):
		return accept
	case p.state == gathering || p.someRoom() && p.readyCount() > 0:
		return wait // nobody knows yet what is ready, or it is about to be delivered
	case p.set.Overflow == RejectPublishDLX && p.set.DeadLetter:
		return deadLetter
	}
	return refuse
}
