package amqp

import (
	"sync"

	"warren/dataplane/message"
)

// Kinds of items in an outbox.
const (
	itemReply uint8 = iota
	itemDeliver
	itemGet
	itemReturn
)

// item is one thing to send on a channel.
type item struct {
	kind        uint8
	redelivered bool
	last        bool // nothing follows on the channel
	code        uint16
	count       uint32
	tag         uint64
	text        string
	m           method
	consumer    *consumer
	msg         message.Message
}

// consumer is a channel's consumer.
type consumer struct {
	tag   string
	noAck bool
	// Under the outbox's lock: what is under way, to hold the backend to the window.
	messages int
	bytes    int64
	gone     bool
	waiting  bool       // consume-ok was not queued yet
	held     []Delivery // that came before it
	// Of the writer alone: what was written and not yet given back.
	drained      int
	drainedBytes int64
}

// outbox gathers what a channel has to say, in order, from the channel's goroutine and from the backend's. Nothing here
// blocks. What it holds is bounded: deliveries by the consumers' windows, confirms by MaxUnconfirmed, and everything else
// because the channel handles no method while weight is above maxWeight.
type outbox struct {
	w       *writer
	channel uint16
	drained func(tag string, messages int, bytes int64)

	mu        sync.Mutex
	items     []item
	weight    int // octets, roughly, of replies, gets and returns
	queued    bool
	closed    bool
	confirms  confirms
	unacked   unacked
	marks     []mark // by ascending time and tag; see overdue.go
	nextTag   uint64
	consumers map[string]*consumer
	tx        txWait        // replaces confirms towards the client if active
	room      chan struct{} // signalled when weight fell
	window    int
}

// maxWeight is how much a client may leave unread before its channel handles no further method.
const maxWeight = 1 << 20

// itemWeight is what an item weighs besides its body.
const itemWeight = 256

// push adds an item; the caller holds mu.
func (o *outbox) push(it item) {
	if o.closed {
		return
	}
	if it.last && !o.tx.active {
		for _, f := range o.confirms.flush(nil) { // what was confirmed before the close is still told
			o.items = append(o.items, item{kind: itemReply, m: f.method()})
		}
	}
	o.items = append(o.items, it)
	if it.kind != itemDeliver {
		o.weight += itemWeight + len(it.msg.Body)
	}
	o.closed = it.last
}

// ready has the writer come; the caller does not hold mu.
func (o *outbox) ready() {
	o.mu.Lock()
	first := !o.queued
	o.queued = true
	o.mu.Unlock()
	if first {
		o.w.enqueue(o)
	}
}

// reply sends a method on the channel.
func (o *outbox) reply(m method, last bool) {
	o.mu.Lock()
	o.push(item{kind: itemReply, m: m, last: last})
	o.mu.Unlock()
	o.ready()
}

// shut has everything ignored that is still to come.
func (o *outbox) shut() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
}

// batch is what the writer takes at one turn.
type batch struct {
	items    []item
	confirms []confirmFrame
}

// take swaps what is waiting into b, whose memory is used again. Items and confirms are taken together, so that a return
// that came before its confirm is sent before it.
func (o *outbox) take(b *batch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queued = false
	b.items, o.items = o.items, b.items[:0]
	b.confirms = b.confirms[:0]
	if !o.closed && !o.tx.active {
		b.confirms = o.confirms.flush(b.confirms)
	}
	o.weight = 0
	select {
	case o.room <- struct{}{}:
	default:
	}
}

// sent gives window back after n deliveries to c were encoded.
func (o *outbox) sent(c *consumer, messages int, bytes int64) {
	o.mu.Lock()
	c.messages -= messages
	c.bytes -= bytes
	o.mu.Unlock()
	if o.drained != nil {
		o.drained(c.tag, messages, bytes)
	}
}

// deliver queues a delivery to c under the next delivery tag; the caller holds mu.
func (o *outbox) deliver(c *consumer, d *Delivery) {
	o.nextTag++
	if !c.noAck {
		o.unacked.add(o.nextTag, d.Token)
	}
	o.push(item{kind: itemDeliver, tag: o.nextTag, consumer: c, redelivered: d.Redelivered, msg: d.Message})
}
