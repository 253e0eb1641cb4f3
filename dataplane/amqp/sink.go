package amqp

import "warren/dataplane/message"

// The channel is its backend's Sink.
var _ Sink = (*channel)(nil)

// Deliver implements Sink.
func (ch *channel) Deliver(ds []Delivery) {
	o := &ch.out
	o.mu.Lock()
	over := false
	for i := range ds {
		d := &ds[i]
		c := o.consumers[d.ConsumerTag]
		if c == nil || c.gone || o.closed {
			continue
		}
		over = over || c.messages >= o.window
		c.messages++
		c.bytes += int64(len(d.Message.Body))
		if c.waiting {
			c.held = append(c.held, *d)
			continue
		}
		o.deliver(c, d)
	}
	o.mu.Unlock()
	o.ready()
	if over {
		ch.Fail(Errorf(InternalError, "more deliveries under way than the window allows"))
	}
}

// Confirm implements Sink.
func (ch *channel) Confirm(seqs []uint64, ok bool) {
	o := &ch.out
	o.mu.Lock()
	before := o.confirms.open
	for _, seq := range seqs {
		if o.confirms.answer(seq, ok) && !ok {
			o.tx.nacked = true
		}
	}
	o.tx.check(&o.confirms)
	limit := ch.conn.srv.cfg.MaxUnconfirmed
	fell := before >= limit && o.confirms.open < limit
	o.mu.Unlock()
	if fell {
		ch.signalRoom()
	}
	o.ready()
}

// Return implements Sink.
func (ch *channel) Return(code uint16, text string, m message.Message) {
	o := &ch.out
	o.mu.Lock()
	o.push(item{kind: itemReturn, code: code, text: text, msg: m})
	o.mu.Unlock()
	o.ready()
}

// ConsumerCancelled implements Sink.
func (ch *channel) ConsumerCancelled(tag string) {
	o := &ch.out
	o.mu.Lock()
	c := o.consumers[tag]
	if c == nil || c.gone {
		o.mu.Unlock()
		return
	}
	c.gone = true
	if c.waiting {
		o.mu.Unlock()
		return // told after consume-ok
	}
	ch.cancelled(c)
	o.mu.Unlock()
	o.ready()
}

// cancelled tells the client that c is gone; the caller holds the outbox's lock.
func (ch *channel) cancelled(c *consumer) {
	delete(ch.out.consumers, c.tag)
	if ch.conn.caps.consumerCancelNotify {
		ch.out.push(item{kind: itemReply, m: &basicCancel{ConsumerTag: c.tag, NoWait: true}})
	}
}

// Fail implements Sink.
func (ch *channel) Fail(err error) {
	ch.failOnce.Do(func() {
		ch.failErr = err
		close(ch.failed)
	})
}

func (ch *channel) signalRoom() {
	select {
	case ch.out.room <- struct{}{}:
	default:
	}
}
