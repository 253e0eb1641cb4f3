package origin

import (
	"fmt"

	"warren/dataplane/queue/protocol"
)

// Consume asks for a consumer; Replied with OpConsume follows, or Cancelled with the tag later. The tag must not be in use
// on the channel (the channel's own rule; ErrClosed if the queue was deleted). Deliveries may come at once after the reply.
func (a *Attachment) Consume(key Channel, args Consume) (call uint64, err error) {
	if a.closed {
		return 0, fmt.Errorf("consume: %w", ErrClosed)
	}
	ch := a.channel(key)
	a.nextConsumer++
	c := &consumer{id: a.nextConsumer, ch: ch, args: args}
	cl := a.newCall(ch, protocol.Call{Op: protocol.OpConsume}, args.Tag)
	c.pending = cl.ID
	cl.Consumer = c.wire()
	a.consumers[c.id] = c
	ch.tags[args.Tag] = c
	a.submit(cl)
	return cl.ID, nil
}

// ConsumerID is the number of the channel's consumer in this attachment, by which the master knows it; 0: there is none.
func (a *Attachment) ConsumerID(key Channel, tag string) uint64 {
	ch := a.channels[key]
	if ch == nil || ch.tags[tag] == nil {
		return 0
	}
	return ch.tags[tag].id
}

// SetPrefetch changes how much of the channel's consumer may be outstanding; 0 is no limit. What is outstanding beyond it stays so.
func (a *Attachment) SetPrefetch(key Channel, tag string, n uint32) {
	c := a.channel(key).tags[tag]
	if c == nil || c.args.Prefetch == n {
		return
	}
	c.args.Prefetch = n
	for _, cl := range a.calls {
		if cl.ID == c.pending && cl.Op == protocol.OpConsume {
			cl.Consumer.Prefetch = n
		}
	}
	if a.state == open {
		wire := c.wire()
		wire.Call = 0
		a.sendCall(&call{Call: protocol.Call{Op: protocol.OpConsume, Consumer: wire}})
	}
}

// Cancel ends the channel's consumer; Replied with OpCancel follows, and no delivery for it after that. Its deliveries
// stay to be acknowledged. An unknown tag is answered all the same, as AMQP wants it.
func (a *Attachment) Cancel(key Channel, tag string) (call uint64, err error) {
	cl := protocol.Call{Op: protocol.OpCancel}
	ch := a.channel(key)
	if c := ch.tags[tag]; c != nil {
		cl.Consumer.ID = c.id
	}
	return a.request(key, cl, tag)
}

// Get asks for one message; Replied with OpGet follows.
func (a *Attachment) Get(key Channel, noAck bool) (call uint64, err error) {
	return a.request(key, protocol.Call{Op: protocol.OpGet, NoAck: noAck}, "")
}

// Purge drops all ready messages; Replied tells how many. After a failover it may be carried out again.
func (a *Attachment) Purge(key Channel) (call uint64, err error) {
	return a.request(key, protocol.Call{Op: protocol.OpPurge}, "")
}

// Depth asks for the number of ready messages and of consumers.
func (a *Attachment) Depth(key Channel) (call uint64, err error) {
	return a.request(key, protocol.Call{Op: protocol.OpDepth}, "")
}

// PrepareDelete checks the conditions of a queue.delete at the master, which then takes no further operation until Delete,
// AbortDelete or the end of the channel. Replied tells ErrInUse, ErrNotEmpty, or how many messages will go with the queue.
// With neither condition the freeze only makes the count exact; ask with both false for that.
func (a *Attachment) PrepareDelete(key Channel, ifUnused, ifEmpty bool) (call uint64, err error) {
	return a.request(key, protocol.Call{Op: protocol.OpPrepareDelete, IfUnused: ifUnused, IfEmpty: ifEmpty}, "")
}

// AbortDelete lets the queue go on after a PrepareDelete that succeeded; nothing is answered.
func (a *Attachment) AbortDelete() {
	if a.state == open {
		a.seal()
		a.send(&protocol.Call{Header: a.head(), Op: protocol.OpAbortDelete})
	}
}

// Abandon gives a call up (its caller waited long enough): it will not be answered, what it brings goes back, and a
// consumer that it made ends.
func (a *Attachment) Abandon(id uint64) {
	c := a.takeCall(id)
	if c == nil {
		return
	}
	switch c.Op {
	case protocol.OpConsume:
		if k := a.consumers[c.Consumer.ID]; k != nil {
			a.dropConsumer(k)
		}
	case protocol.OpPrepareDelete:
		a.AbortDelete()
	}
}

func (a *Attachment) request(key Channel, c protocol.Call, tag string) (uint64, error) {
	if a.closed {
		return 0, fmt.Errorf("call to the queue: %w", ErrClosed)
	}
	cl := a.newCall(a.channel(key), c, tag)
	a.submit(cl)
	return cl.ID, nil
}

func (a *Attachment) newCall(ch *channel, c protocol.Call, tag string) *call {
	a.nextCall++
	c.ID = a.nextCall
	return &call{Call: c, ch: ch, tag: tag}
}

func (a *Attachment) submit(c *call) {
	if a.down != 0 {
		a.reply(c, &Reply{Code: a.down})
		return
	}
	a.calls = append(a.calls, c)
	if a.state == open {
		a.sendCall(c)
	}
}

func (a *Attachment) sendCall(c *call) {
	a.seal()
	wire := c.Call
	wire.Header = a.head()
	a.send(&wire)
}

func (a *Attachment) takeCall(id uint64) *call {
	for i, c := range a.calls {
		if c.ID == id {
			a.calls = append(a.calls[:i], a.calls[i+1:]...)
			return c
		}
	}
	return nil
}

// reply finishes c: consumers come and go here, so that what follows in the outputs sees them as the channel does.
func (a *Attachment) reply(c *call, r *Reply) {
	r.Call, r.Op, r.Tag = c.ID, c.Op, c.tag
	k := a.consumers[c.Consumer.ID]
	switch {
	case k == nil:
	case c.Op == protocol.OpConsume && r.Code == 0:
		k.active, k.pending = true, 0
	case c.Op == protocol.OpConsume || c.Op == protocol.OpCancel:
		a.forgetConsumer(k)
	}
	a.outs = append(a.outs, Output{Kind: Replied, Channel: c.ch.key, Reply: r})
}

func (a *Attachment) replied(m *protocol.Reply) {
	c := a.takeCall(m.ID)
	if c == nil { // abandoned, or its channel is closed
		if m.Get != nil {
			a.giveBack(m.Get.Items)
		}
		return
	}
	r := &Reply{Code: m.Code, Messages: m.Messages, Consumers: m.Consumers}
	if m.Get != nil && len(m.Get.Items) > 0 {
		item := &m.Get.Items[0]
		d := a.newDelivery(item)
		d.NoAck = c.NoAck
		if !c.NoAck {
			c.ch.outstanding[d.ID] = a.outstandingOf(m.Get, item)
		}
		r.Get = &d
	}
	a.reply(c, r)
}

func (c *consumer) wire() protocol.Consumer {
	return protocol.Consumer{
		ID: c.id, Call: c.pending, Tag: c.args.Tag, Prefetch: c.args.Prefetch, NoAck: c.args.NoAck,
		Exclusive: c.args.Exclusive, Priority: c.args.Priority, Args: c.args.Args,
	}
}

// dropConsumer ends a consumer that its channel gave up.
func (a *Attachment) dropConsumer(c *consumer) {
	a.forgetConsumer(c)
	if a.state == open {
		a.sendCall(&call{Call: protocol.Call{Op: protocol.OpCancel, Consumer: protocol.Consumer{ID: c.id}}})
	}
}

func (a *Attachment) forgetConsumer(c *consumer) {
	delete(a.consumers, c.id)
	if c.ch.tags[c.args.Tag] == c {
		delete(c.ch.tags, c.args.Tag)
	}
}

func (a *Attachment) cancelConsumers(code protocol.Code, which func(*consumer) bool) {
	for _, c := range a.sortedConsumers() {
		if which(c) {
			a.forgetConsumer(c)
			a.outs = append(a.outs, Output{Kind: Cancelled, Channel: c.ch.key, Tag: c.args.Tag, Code: code})
		}
	}
}

func (a *Attachment) cancelled(m *protocol.Cancelled) {
	a.cancelConsumers(m.Code, func(c *consumer) bool { return c.id == m.Consumer })
}

// deliver hands deliveries to their channels, runs of one channel together.
func (a *Attachment) deliver(m *protocol.Deliver) {
	ds := make([]Delivery, 0, len(m.Items))
	for i := range m.Items {
		item := &m.Items[i]
		c := a.consumers[item.Consumer]
		if c == nil {
			a.giveBack(m.Items[i : i+1])
			continue
		}
		d := a.newDelivery(item)
		d.Tag, d.NoAck = c.args.Tag, c.args.NoAck
		if !d.NoAck {
			c.ch.outstanding[d.ID] = a.outstandingOf(m, item)
		}
		c.untaken.Count++
		c.untaken.Bytes += d.Size
		ds = append(ds, d)
		if k := len(a.outs); len(ds) > 1 && a.outs[k-1].Kind == Deliveries && a.outs[k-1].Channel == c.ch.key {
			a.outs[k-1].Deliveries = a.outs[k-1].Deliveries[:len(a.outs[k-1].Deliveries)+1]
		} else {
			a.outs = append(a.outs, Output{Kind: Deliveries, Channel: c.ch.key, Deliveries: ds[len(ds)-1:]})
		}
	}
}

func (a *Attachment) newDelivery(item *protocol.DeliverItem) Delivery {
	a.nextDelivery++
	return Delivery{
		ID: a.nextDelivery, Consumer: item.Consumer, Redelivered: item.Redelivered,
		Size: protocol.Size(&item.Message), Message: item.Message,
	}
}

func (a *Attachment) outstandingOf(m *protocol.Deliver, item *protocol.DeliverItem) outstanding {
	d := outstanding{consumer: item.Consumer, epoch: a.epoch, Named: protocol.Named{
		Position: item.Position, Number: item.Number,
	}}
	if k := int(item.Origin); k > 0 && k <= len(m.Origins) {
		d.Origin = m.Origins[k-1]
	}
	return d
}

// giveBack returns deliveries that nobody here waits for any more. For a consumer without acknowledgements the master
// ignores it.
func (a *Attachment) giveBack(items []protocol.DeliverItem) {
	for i := range items {
		a.sendAck(protocol.Named{Position: items[i].Position}, protocol.Requeued, true)
	}
}
