package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"warren/dataplane/amqp"
	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/origin"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

// attachment is the shell around this node's half of one queue: it serialises the calls of the channels and of the link,
// and carries the core's outputs out in order.
//
// Lock order: attachment.mu, then channel.mu. Nothing that is called under it waits.
type attachment struct {
	life *life
	id   backingqueue.ID

	mu       sync.Mutex
	core     *origin.Attachment
	channels map[origin.Channel]*channel
	replies  map[uint64]chan *origin.Reply
}

func newAttachment(l *life, id backingqueue.ID) *attachment {
	return &attachment{
		life: l, id: id,
		core:     origin.New(origin.Config{Self: l.self, NextSession: l.nextSession}),
		channels: map[origin.Channel]*channel{},
		replies:  map[uint64]chan *origin.Reply{},
	}
}

// do runs f on the core and carries out what follows.
func (a *attachment) do(f func(core *origin.Attachment)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(a.core)
	a.carryOut()
}

// publish takes a message of ch for this queue. Blocked: it was not taken; ch holds it and tries again when the core says
// Unblocked (ch.hold runs under the lock so that this cannot be missed). What follows from it gathers until flush.
func (a *attachment) publish(ch *channel, seq uint64, m message.Message) (blocked bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.channels[ch.key] = ch
	_, err = a.core.Publish(ch.key, m)
	switch {
	case errors.Is(err, origin.ErrBlocked):
		ch.hold(a, seq, m)
		return true, nil
	case err != nil:
		return false, fmt.Errorf("publish to queue %d: %w", a.id, err)
	}
	ch.published(a, seq)
	return false, nil
}

// settle tells the core what a channel decided about deliveries. What follows from it gathers until flush.
func (a *attachment) settle(ch *channel, o amqp.Outcome, ids []uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch o {
	case amqp.Acked:
		a.core.Ack(ch.key, ids)
	case amqp.Rejected:
		a.core.Reject(ch.key, ids)
	case amqp.Requeued:
		a.core.Requeue(ch.key, ids)
	}
}

// flush carries out what publishes and settlements have gathered, unless another call has done so.
func (a *attachment) flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.carryOut()
}

// call starts a call of ch and waits for its reply.
func (a *attachment) call(ctx context.Context, ch *channel, start func(core *origin.Attachment) (uint64, error)) (*origin.Reply, error) {
	reply := make(chan *origin.Reply, 1)
	a.mu.Lock()
	if ch != nil {
		a.channels[ch.key] = ch
	}
	id, err := start(a.core)
	if err == nil {
		a.replies[id] = reply
	}
	a.carryOut()
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case r := <-reply:
		return r, r.Code.Err()
	case <-ctx.Done():
	case <-a.life.ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, waiting := a.replies[id]; waiting {
		delete(a.replies, id)
		a.core.Abandon(id)
		a.carryOut()
		return nil, fmt.Errorf("call to the queue's master: %w", context.Cause(ctx))
	}
	r := <-reply
	return r, r.Code.Err()
}

// closeChannel forgets ch: what it did not settle goes back to the queue.
func (a *attachment) closeChannel(ch *channel) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.core.CloseChannel(ch.key)
	delete(a.channels, ch.key)
	a.carryOut()
}

// receive handles a message of a queue process.
func (a *attachment) receive(from protocol.NodeID, m protocol.Message) {
	a.do(func(core *origin.Attachment) { core.Handle(from, m) })
}

// carryOut is called with mu held.
func (a *attachment) carryOut() {
	for _, o := range a.core.Outputs() {
		switch o.Kind {
		case origin.Send:
			a.life.toMaster(a.id, o.To, o.Message)
		case origin.Lettered:
			a.life.lettered(a, o.Letter, o.Code)
		case origin.Replied:
			if reply, ok := a.replies[o.Reply.Call]; ok {
				delete(a.replies, o.Reply.Call)
				reply <- o.Reply
			}
		default:
			if ch := a.channels[o.Channel]; ch != nil {
				ch.output(a, o)
			}
		}
	}
}

// assign takes the queue's record: who is master, or that nobody is.
func (a *attachment) assign(q *state.Queue) {
	a.do(func(core *origin.Attachment) {
		if m, ok := q.MasterMember(); ok {
			core.SetMaster(protocol.NodeID{Name: m.Node, Incarnation: m.Incarnation}, q.Epoch)
			return
		}
		core.Down(q.Epoch)
	})
}

func (a *attachment) deleted() { a.do((*origin.Attachment).Delete) }
func (a *attachment) linkUp(n protocol.NodeID) {
	a.do(func(core *origin.Attachment) { core.LinkUp(n) })
}
func (a *attachment) linkDown(n protocol.NodeID) {
	a.do(func(core *origin.Attachment) { core.LinkDown(n) })
}
