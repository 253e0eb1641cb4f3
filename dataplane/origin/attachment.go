package origin

import (
	"fmt"
	"sort"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/queue/deque"
	"warren/dataplane/queue/protocol"
)

// Config of an Attachment.
type Config struct {
	Self   protocol.NodeID
	Limits Limits
	// NextSession numbers sessions; over the attachments that a node has for a queue one after the other, it must grow.
	// Nil: the attachment counts by itself, which is enough where it lives as long as the node.
	NextSession func() uint64
}

// Attachment is this node's half of one queue. See the package comment for how to drive it.
type Attachment struct {
	cfg Config

	// Who is master, and how far the session with it has come.
	master  protocol.NodeID
	epoch   uint64 // 0: none known yet
	session uint64
	state   sessionState
	links   map[protocol.NodeID]bool
	down    protocol.Code // not 0: the queue has no master and none is to come soon
	closed  bool          // deleted

	channels map[Channel]*channel

	// Publishes.
	origins   []*originState // ascending ref
	byRef     map[uint64]*originState
	nextRef   uint64
	unsent    deque.Deque[*originState] // one element per kept publish that was not sent in this session
	credit    protocol.Credit
	keptCount int
	keptBytes int64
	blocked   []*channel

	// Consumers and deliveries.
	consumers    map[uint64]*consumer
	nextConsumer uint64
	nextDelivery uint64
	window       protocol.Credit // of each consumer

	// Acknowledgements until they are stable.
	keptAcks  deque.Deque[keptAck]
	ackNumber uint64

	// Dead letters (letters.go).
	letters    map[backingqueue.OriginID]*letter
	letterRefs map[uint64]*letter

	calls    []*call // ascending ID
	nextCall uint64

	outs            []Output
	openPublish     *protocol.Publish // the newest in outs, while it may still grow
	openBytes       int64
	openAck         *protocol.Ack
	openLetters     *protocol.Attach
	openLetterItems *protocol.Publish
	openLetterBytes int64
	openCovered     int
	openGrant       *protocol.CreditGrant
}

type sessionState uint8

const (
	detached sessionState = iota // no master, or no link to it
	greeting                     // Hello is under way
	open
)

// channel is what the attachment knows of one local channel.
type channel struct {
	key         Channel
	origin      *originState // nil before the first publish
	outstanding map[uint64]outstanding
	tags        map[string]*consumer
	waits       bool // to be told Unblocked
}

type consumer struct {
	id      uint64
	ch      *channel
	args    Consume
	active  bool   // the master has answered
	pending uint64 // the call that has to be answered first
	// Credit: what the channel has to take, what of that belongs to an earlier session, and what is to be granted back.
	untaken, skip, taken protocol.Credit
}

type outstanding struct {
	protocol.Named
	consumer uint64
	epoch    uint64 // the term in which it was delivered
}

type call struct {
	protocol.Call
	ch  *channel
	tag string
}

// New makes an attachment that knows no master yet.
func New(cfg Config) *Attachment {
	if cfg.Limits.Publishes <= 0 {
		cfg.Limits.Publishes = DefaultPublishes
	}
	if cfg.Limits.Bytes <= 0 {
		cfg.Limits.Bytes = DefaultBytes
	}
	return &Attachment{
		cfg: cfg, links: map[protocol.NodeID]bool{cfg.Self: true},
		channels: map[Channel]*channel{}, byRef: map[uint64]*originState{}, consumers: map[uint64]*consumer{},
		letters: map[backingqueue.OriginID]*letter{}, letterRefs: map[uint64]*letter{},
	}
}

// Outputs returns what is to be carried out since the last call, in order; the slice belongs to the caller.
func (a *Attachment) Outputs() []Output {
	outs := a.outs
	a.outs = nil
	a.seal()
	return outs
}

// Idle reports whether the attachment holds nothing: no channel, publish, acknowledgement or call. Only then may its owner
// drop it, since a channel's publishes are numbered here.
func (a *Attachment) Idle() bool {
	return len(a.channels) == 0 && len(a.origins) == 0 && a.keptAcks.Len() == 0 && len(a.calls) == 0 && len(a.letters) == 0
}

// Blocked reports whether Publish would return ErrBlocked now.
func (a *Attachment) Blocked() bool {
	return a.keptCount >= a.cfg.Limits.Publishes || a.keptBytes >= a.cfg.Limits.Bytes
}

// Kept is how many publishes and acknowledgements are kept, and the publishes' size.
func (a *Attachment) Kept() (publishes int, bytes int64, acks int) {
	return a.keptCount, a.keptBytes, a.keptAcks.Len()
}

// Session is the state of the session with the master: its epoch, and whether the node has attached.
func (a *Attachment) Session() (epoch uint64, attached bool) { return a.epoch, a.state == open }

func (a *Attachment) channel(key Channel) *channel {
	ch := a.channels[key]
	if ch == nil {
		ch = &channel{key: key, outstanding: map[uint64]outstanding{}, tags: map[string]*consumer{}}
		a.channels[key] = ch
	}
	return ch
}

// CloseChannel forgets the channel: its deliveries go back to the queue, its consumers end, its calls are not answered
// any more. Publishes that wait for their confirm are kept until they are stable all the same; nobody is told.
func (a *Attachment) CloseChannel(key Channel) {
	ch := a.channels[key]
	if ch == nil {
		return
	}
	delete(a.channels, key)
	ids := make([]uint64, 0, len(ch.outstanding))
	for id := range ch.outstanding {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	a.settle(ch, ids, protocol.Requeued)
	cs := make([]*consumer, 0, len(ch.tags))
	for _, c := range ch.tags {
		cs = append(cs, c)
	}
	sort.Slice(cs, func(i, j int) bool { return cs[i].id < cs[j].id })
	for _, c := range cs {
		a.dropConsumer(c)
	}
	kept := a.calls[:0]
	for _, c := range a.calls {
		if c.ch != ch {
			kept = append(kept, c)
			continue
		}
		if c.Op == protocol.OpPrepareDelete && a.state == open {
			a.send(&protocol.Call{Header: a.head(), Op: protocol.OpAbortDelete})
		}
	}
	a.calls = kept
	if o := ch.origin; o != nil {
		o.ch = nil
		a.closeOriginIfDone(o)
	}
}

// Publish takes the channel's next message for this queue and returns its number: the numbers of a channel to a queue
// count from 1 without gaps, and each is answered by Confirmed or Nacked, confirm mode or not. ErrBlocked: nothing was taken.
// While the queue is down the publish is nacked at once.
func (a *Attachment) Publish(key Channel, m message.Message) (number uint64, err error) {
	if a.closed {
		return 0, fmt.Errorf("publish: %w", ErrClosed)
	}
	ch := a.channel(key)
	if a.Blocked() && a.down == 0 {
		if !ch.waits {
			ch.waits = true
			a.blocked = append(a.blocked, ch)
		}
		return 0, ErrBlocked
	}
	o := ch.origin
	if o == nil {
		o = a.newOrigin(ch)
	}
	number = o.base + uint64(o.kept.Len())
	if a.down != 0 {
		o.base++
		a.outs = append(a.outs, Output{Kind: Nacked, Channel: key, First: number, Last: number})
		return number, nil
	}
	size := protocol.Size(&m)
	o.kept.Push(keptPublish{message: m, size: size})
	a.keptCount++
	a.keptBytes += size
	a.unsent.Push(o)
	a.pump()
	return number, nil
}

// Taken says that the channel has taken deliveries of a consumer off the attachment's hands (written them to its client,
// say), which lets the master send more. Deliveries that are never taken stop that consumer, and nobody else.
func (a *Attachment) Taken(consumer uint64, count, bytes int64) {
	c := a.consumers[consumer]
	if c == nil {
		return
	}
	c.untaken.Count -= count
	c.untaken.Bytes -= bytes
	skip := protocol.Credit{Count: min(count, c.skip.Count), Bytes: min(bytes, c.skip.Bytes)}
	c.skip.Count -= skip.Count
	c.skip.Bytes -= skip.Bytes
	c.taken.Count += count - skip.Count
	c.taken.Bytes += bytes - skip.Bytes
	if a.state != open || (c.taken.Count*2 < a.window.Count && c.taken.Bytes*2 < a.window.Bytes) {
		return
	}
	if a.openGrant == nil || len(a.openGrant.Items) >= protocol.MaxItems {
		a.openGrant = &protocol.CreditGrant{Header: a.head()}
		a.send(a.openGrant)
	}
	a.openGrant.Items = append(a.openGrant.Items, protocol.ConsumerCredit{Consumer: c.id, Credit: c.taken})
	c.taken = protocol.Credit{}
}

// Ack ends deliveries of the channel for good; unknown IDs are ignored. It is kept until its removal is stable.
func (a *Attachment) Ack(key Channel, ids []uint64) { a.settle(a.channels[key], ids, protocol.Acked) }

// Reject drops deliveries of the channel (to the dead letters where the queue has them); kept like an Ack.
func (a *Attachment) Reject(key Channel, ids []uint64) {
	a.settle(a.channels[key], ids, protocol.Rejected)
}

// Requeue gives deliveries back to the queue, to their old positions, redelivered.
func (a *Attachment) Requeue(key Channel, ids []uint64) {
	a.settle(a.channels[key], ids, protocol.Requeued)
}

func (a *Attachment) head() protocol.Header {
	return protocol.Header{Epoch: a.epoch, Session: a.session}
}

func (a *Attachment) send(m protocol.Message) {
	a.outs = append(a.outs, Output{Kind: Send, To: a.master, Message: m})
}

// seal ends the batches under construction: what follows must not overtake them.
func (a *Attachment) seal() {
	a.openPublish, a.openAck, a.openGrant = nil, nil, nil
	a.openLetters, a.openLetterItems = nil, nil
}

// originState is one channel's publishes to this queue.
type originState struct {
	ref      uint64
	id       backingqueue.OriginID
	ch       *channel // nil: closed
	base     uint64   // the number of kept's first
	kept     deque.Deque[keptPublish]
	sent     int  // how many of kept were sent in this session
	attached bool // named in this session
}

type keptPublish struct {
	message message.Message
	size    int64
	void    bool // answered with a nack; holds the number's place
}
