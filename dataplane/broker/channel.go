package broker

import (
	"slices"
	"sync"

	"warren/dataplane/amqp"
	"warren/dataplane/exchange"
	"warren/dataplane/message"
	"warren/dataplane/origin"
)

// channel is one client channel: it spreads publishes over attachments, gathers their confirms, and names deliveries.
type channel struct {
	sess *session
	info amqp.ChannelInfo
	sink amqp.Sink
	key  origin.Channel

	// Of the channel's own goroutine.
	targets []*attachment
	scratch exchange.Scratch
	used    map[*attachment]bool
	drawn   map[*attachment]bool // it consumed or got from these
	corked  []*attachment        // those that gather what this channel does, until Flush
	ids     []uint64             // of one Settle

	retrying sync.Mutex // one retryHeld at a time

	mu     sync.Mutex
	queues map[*attachment]*channelQueue
	// votes holds the publishes that went to more than one queue, by sequence number.
	votes map[uint64]*vote
	// held are publishes that an attachment could not take yet; wait is closed when there are none left.
	held []heldPublish
	wait chan struct{}
	// untaken are the deliveries given to the sink and not yet written, by consumer tag, in order.
	untaken map[string]*fifo[takenDelivery]
	global  globalPrefetch
	// consumers are where each tag consumes, shown is what lists show of them.
	consumers map[string]consumerPlace
	replyTo   *replyConsumer // of direct reply-to
	shown     map[string]ConsumerInfo
}

func newChannel(s *session, info amqp.ChannelInfo, sink amqp.Sink, key origin.Channel) *channel {
	return &channel{
		sess: s, info: info, sink: sink, key: key,
		queues: map[*attachment]*channelQueue{},
		used:   map[*attachment]bool{}, drawn: map[*attachment]bool{}, consumers: map[string]consumerPlace{},
		votes:   map[uint64]*vote{},
		untaken: map[string]*fifo[takenDelivery]{},
	}
}

// consumerPlace is where a consumer is attached, and the prefetch of its own.
type consumerPlace struct {
	at       *attachment
	prefetch uint32
}

// channelQueue is what a channel published to one queue: seqs[i] is the channel's sequence number of publish base+i to
// that queue, 0 if nobody waits for its confirm, or wasAnswered: refusals come before the confirms of what was published earlier.
type channelQueue struct {
	base uint64
	seqs fifo[uint64]
}

// maxCorked is how many attachments a channel lets gather at a time.
const maxCorked = 32

// wasAnswered stands in the place of a publish that was answered before an earlier one.
const wasAnswered = ^uint64(0)

// vote gathers the answers for one publish; it is confirmed if every queue took it.
type vote struct {
	missing int
	refused bool
}

type heldPublish struct {
	to  *attachment
	seq uint64
	m   message.Message
}

type takenDelivery struct {
	from     *attachment
	consumer uint64
	size     int64
}

// published notes, under the attachment's lock, that the attachment took a publish.
func (c *channel) published(a *attachment, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[a]
	if q == nil {
		q = &channelQueue{base: 1}
		c.queues[a] = q
	}
	q.seqs.push(seq)
}

// output carries out what an attachment says to this channel; called under the attachment's lock.
func (c *channel) output(a *attachment, o origin.Output) {
	switch o.Kind {
	case origin.Confirmed:
		c.answered(a, o.First, o.Last, true)
	case origin.Nacked:
		c.answered(a, o.First, o.Last, false)
	case origin.Deliveries:
		c.deliver(a, o.Deliveries)
	case origin.Cancelled:
		c.hideConsumer(o.Tag)
		c.sink.ConsumerCancelled(o.Tag)
	case origin.Unblocked:
		c.sess.life.spawn(c.retryHeld)
	}
}

// answered turns answers for publishes to one queue into confirms of the channel.
func (c *channel) answered(a *attachment, first, last uint64, ok bool) {
	c.mu.Lock()
	q := c.queues[a]
	if q == nil {
		c.mu.Unlock()
		return
	}
	var acked, nacked []uint64
	for n := max(first, q.base); n <= last && n < q.base+uint64(q.seqs.len()); n++ {
		at := q.seqs.at(int(n - q.base))
		seq := *at
		if *at = wasAnswered; seq == 0 || seq == wasAnswered {
			continue
		}
		if v := c.votes[seq]; v != nil {
			v.missing--
			v.refused = v.refused || !ok
			if v.missing > 0 {
				continue
			}
			delete(c.votes, seq)
			if v.refused {
				nacked = append(nacked, seq)
				continue
			}
		} else if !ok {
			nacked = append(nacked, seq)
			continue
		}
		acked = append(acked, seq)
	}
	for q.seqs.len() > 0 && *q.seqs.at(0) == wasAnswered {
		q.seqs.pop()
		q.base++
	}
	c.mu.Unlock()
	if len(acked) > 0 {
		c.sink.Confirm(acked, true)
	}
	if len(nacked) > 0 {
		c.sink.Confirm(nacked, false)
	}
}

// deliver hands deliveries to the client, as far as the channel's global prefetch allows.
func (c *channel) deliver(a *attachment, ds []origin.Delivery) {
	out := make([]amqp.Delivery, 0, len(ds))
	c.mu.Lock()
	for _, d := range ds {
		taken := c.untaken[d.Tag]
		if taken == nil {
			taken = &fifo[takenDelivery]{}
			c.untaken[d.Tag] = taken
		}
		taken.push(takenDelivery{a, d.Consumer, d.Size})
		delivery := amqp.Delivery{
			ConsumerTag: d.Tag, Token: amqp.Token{Ref: a, Pos: d.ID}, Redelivered: d.Redelivered, Message: d.Message,
		}
		if c.global.admit(delivery, d.NoAck) {
			out = append(out, delivery)
		}
	}
	c.mu.Unlock()
	if len(out) > 0 {
		c.sink.Deliver(out)
	}
}

// Drained implements amqp.ChannelBackend. It runs on the connection's writer and must not wait for long.
func (c *channel) Drained(tag string, messages int, _ int64) {
	type credit struct {
		from     *attachment
		consumer uint64
		count    int64
		bytes    int64
	}
	var credits []credit
	c.mu.Lock()
	if c.repliesDrained(tag, messages) {
		c.mu.Unlock()
		return
	}
	taken := c.untaken[tag]
	for range messages {
		if taken == nil || taken.len() == 0 {
			break
		}
		d := taken.pop()
		if n := len(credits); n == 0 || credits[n-1].from != d.from || credits[n-1].consumer != d.consumer {
			credits = append(credits, credit{from: d.from, consumer: d.consumer})
		}
		credits[len(credits)-1].count++
		credits[len(credits)-1].bytes += d.size
	}
	c.mu.Unlock()
	for _, cr := range credits {
		cr.from.do(func(core *origin.Attachment) { core.Taken(cr.consumer, cr.count, cr.bytes) })
	}
}

// Settle implements amqp.ChannelBackend.
func (c *channel) Settle(o amqp.Outcome, tokens []amqp.Token) {
	for start := 0; start < len(tokens); {
		a, end := tokens[start].Ref.(*attachment), start
		ids := c.ids[:0]
		for ; end < len(tokens) && tokens[end].Ref == a; end++ {
			ids = append(ids, tokens[end].Pos)
		}
		a.settle(c, o, ids)
		c.cork(a)
		c.ids, start = ids[:0], end
	}
	c.mu.Lock()
	released := c.global.settled(tokens)
	c.mu.Unlock()
	if len(released) > 0 {
		c.sink.Deliver(released)
	}
}

// cork notes that the attachment gathers: a run of publishes and settlements becomes few messages to the queue's master.
func (c *channel) cork(a *attachment) {
	if !slices.Contains(c.corked, a) {
		c.corked = append(c.corked, a)
	}
}

// Flush implements amqp.ChannelBackend.
func (c *channel) Flush() {
	for _, a := range c.corked {
		a.flush()
	}
	clear(c.corked)
	c.corked = c.corked[:0]
}

// Publish implements amqp.ChannelBackend.
func (c *channel) Publish(p amqp.Publish) (<-chan struct{}, error) {
	if err := c.withReplyTo(&p.Message); err != nil {
		return nil, err
	}
	targets, err := c.sess.route(c, &p.Message)
	if err != nil {
		return nil, err
	}
	if len(targets) == 0 {
		c.unrouted(&p)
		return nil, nil
	}
	wait := c.publishAll(targets, p.Seq, p.Message)
	if wait == nil {
		wait = c.sess.life.node.store.Calm()
	}
	return wait, nil
}

// unrouted deals with a message that goes to no queue.
func (c *channel) unrouted(p *amqp.Publish) {
	if isReply(&p.Message) {
		c.Flush() // another node may have to be asked
		if c.sess.life.reply(&p.Message, p.Mandatory) {
			p.Mandatory = false
		}
	}
	if p.Mandatory {
		c.sink.Return(amqp.NoRoute, "NO_ROUTE", p.Message)
	}
	if p.Seq != 0 {
		c.sink.Confirm([]uint64{p.Seq}, true)
	}
}

// Check implements amqp.ChannelBackend.
func (c *channel) Check(p amqp.Publish) error {
	if err := c.withReplyTo(&p.Message); err != nil {
		return err
	}
	_, err := c.sess.route(c, &p.Message)
	return err
}

// publishAll hands a message to all the queues that take it; a wait that is not nil is closed when more may be published.
func (c *channel) publishAll(targets []*attachment, seq uint64, m message.Message) (wait <-chan struct{}) {
	if seq != 0 && len(targets) > 1 {
		c.mu.Lock()
		c.votes[seq] = &vote{missing: len(targets)}
		c.mu.Unlock()
	}
	for _, a := range targets {
		c.publishTo(a, seq, m)
		c.cork(a)
	}
	if len(c.corked) > maxCorked {
		c.Flush()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wait
}

// publishTo hands a message to an attachment, which has it held where there is no room. A queue that was deleted since the
// message was routed refuses it.
func (c *channel) publishTo(a *attachment, seq uint64, m message.Message) (blocked bool) {
	blocked, err := a.publish(c, seq, m)
	if err != nil && seq != 0 {
		c.refused(seq)
	}
	return blocked
}

// hold keeps a publish that an attachment could not take; called under the attachment's lock.
func (c *channel) hold(a *attachment, seq uint64, m message.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = append(c.held, heldPublish{a, seq, m})
	if c.wait == nil {
		c.wait = make(chan struct{})
	}
}

// refused counts a queue that can take nothing any more.
func (c *channel) refused(seq uint64) {
	c.mu.Lock()
	if v := c.votes[seq]; v != nil {
		v.missing--
		v.refused = true
		if v.missing > 0 {
			c.mu.Unlock()
			return
		}
		delete(c.votes, seq)
	}
	c.mu.Unlock()
	c.sink.Confirm([]uint64{seq}, false)
}

// retryHeld publishes again what was held, in order for each queue, and lets the channel go on once nothing is held. The
// channel publishes nothing else meanwhile.
func (c *channel) retryHeld() {
	c.retrying.Lock()
	defer c.retrying.Unlock()
	c.mu.Lock()
	held := c.held
	c.held = nil
	c.mu.Unlock()
	stuck := map[*attachment]bool{}
	for _, h := range held {
		if stuck[h.to] {
			c.hold(h.to, h.seq, h.m)
			continue
		}
		stuck[h.to] = c.publishTo(h.to, h.seq, h.m)
	}
	for a := range stuck {
		a.flush()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) == 0 && c.wait != nil {
		close(c.wait)
		c.wait = nil
	}
}
