package mirror

import (
	"maps"
	"slices"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/queue"
)

// clients is the part of a node that stands between clients and the master: its channels, its consumer, and, if the master
// is here, the queue process. Each node has one channel at a time and one consumer.
type clients struct {
	channel *channel
	epoch   uint64 // of the master with which the node's session is
	to      int
	up      []upMessage   // under way to the master
	down    []downMessage // and back
	unacked []delivery
	acks    []delivery // acknowledged, kept until their Remove is stable
	term    *simTerm
}

type channel struct {
	id       backingqueue.OriginID
	next     uint64
	kept     []publish
	attached uint64 // the epoch
}

type publish struct {
	number, id uint64
	persistent bool
	void       bool // nacked, and kept only because a lower number is
}

type delivery struct {
	epoch, seq uint64
	origin     backingqueue.OriginID
	number, id uint64
}

type upKind uint8

const (
	upAttach upKind = iota // number: the lowest that is kept
	upPublish
	upAck
	upHas   // a delivery that is neither acknowledged nor given back
	upReady // all acknowledgements were sent
	upClose
)

type upMessage struct {
	kind   upKind
	origin backingqueue.OriginID
	number uint64
	pub    publish
	ack    delivery
}

type downMessage struct {
	origin  backingqueue.OriginID
	number  uint64
	nack    bool
	refused bool
	stable  []uint64 // ids whose acknowledgement is stable
}

// simTerm is the queue process of one term.
type simTerm struct {
	n         *simNode
	epoch     uint64
	ready     map[int]uint64 // nodes that have sent their acknowledgements
	delivered map[uint64]incarnation
	confirmed map[backingqueue.OriginID]uint64
	ops       map[queue.Op]opAck
	waiting   []opAck // acknowledgements of repeats that have not come
	stableTo  queue.Op
}

type opAck struct {
	node int
	inc  uint64
	ack  delivery
	held bool // not acknowledged yet
}

func (n *simNode) beginTerm(t Term) queue.Events {
	n.term = &simTerm{
		n: n, epoch: t.Epoch, ready: map[int]uint64{}, delivered: map[uint64]incarnation{},
		confirmed: map[backingqueue.OriginID]uint64{}, ops: map[queue.Op]opAck{},
	}
	return n.term
}

// Confirmable implements queue.Events.
func (t *simTerm) Confirmable(o backingqueue.OriginID, number uint64) {
	s := t.n.s
	s.served(t.n, t.epoch)
	if number <= t.confirmed[o] {
		s.fail("%s epoch %d: origin %v confirmed up to %d twice", t.n.name, t.epoch, o, number)
	}
	t.confirmed[o] = number
	if c := s.session(t.n, t.epoch, o.Node); c != nil {
		c.down = append(c.down, downMessage{origin: o, number: number})
	}
}

// OpStable implements queue.Events.
func (t *simTerm) OpStable(op queue.Op) {
	s := t.n.s
	s.served(t.n, t.epoch)
	if op <= t.stableTo {
		s.fail("%s epoch %d: operation %d stable twice", t.n.name, t.epoch, op)
	}
	for ; t.stableTo < op; t.stableTo++ {
		a, ok := t.ops[t.stableTo+1]
		if n := s.nodes[a.node]; ok && n.inc == a.inc && n.epoch == t.epoch {
			n.down = append(n.down, downMessage{stable: []uint64{a.ack.id}})
		}
	}
}

// WindowOpen implements queue.Events.
func (t *simTerm) WindowOpen() {}

// session is the node of that name if its session is with that term of n.
func (s *sim) session(n *simNode, epoch uint64, node string) *simNode {
	for _, o := range s.nodes {
		if o.name == node && o.alive && o.epoch == epoch && o.to == n.id {
			return o
		}
	}
	return nil
}

// connect begins a session with the master that this node knows of: acknowledgements first, then what the channel keeps.
// Deliveries from before can still be acknowledged.
func (n *simNode) connect() bool {
	r := n.s.log[n.applied-1]
	if r.epoch == n.epoch || r.status != Running {
		return false
	}
	n.epoch, n.to, n.up, n.down = r.epoch, r.master, nil, nil
	for _, a := range n.acks {
		n.up = append(n.up, upMessage{kind: upAck, ack: a})
	}
	for _, d := range n.unacked {
		n.up = append(n.up, upMessage{kind: upHas, ack: d})
	}
	n.up = append(n.up, upMessage{kind: upReady})
	if n.channel != nil {
		n.attach()
	}
	return true
}

func (n *simNode) attach() {
	c := n.channel
	lowest := c.next
	if len(c.kept) > 0 {
		lowest = c.kept[0].number
	}
	n.up = append(n.up, upMessage{kind: upAttach, origin: c.id, number: lowest})
	for _, p := range c.kept {
		n.up = append(n.up, upMessage{kind: upPublish, origin: c.id, pub: p})
	}
	c.attached = n.epoch
}

// publish is a client's publish.
func (n *simNode) publish() {
	s := n.s
	if n.channel == nil {
		s.channels++
		n.channel = &channel{id: backingqueue.OriginID{Node: n.name, Incarnation: n.inc, Connection: 1, Channel: s.channels}, next: 1}
		if n.epoch != 0 {
			n.attach()
		}
	}
	c := n.channel
	if len(c.kept) >= 12 {
		return
	}
	s.lastID++
	p := publish{number: c.next, id: s.lastID, persistent: !s.mode.transient || s.chance(50)}
	c.next++
	c.kept = append(c.kept, p)
	s.published[p.id] = pubKey{c.id, p.number, p.persistent}
	if n.epoch != 0 {
		n.up = append(n.up, upMessage{kind: upPublish, origin: c.id, pub: p})
	}
}

// closeChannel closes a channel whose publishes are all settled.
func (n *simNode) closeChannel() {
	if c := n.channel; c != nil && len(c.kept) == 0 && n.epoch != 0 {
		n.up = append(n.up, upMessage{kind: upClose, origin: c.id})
		n.channel = nil
	}
}

// hear takes the master's next word.
func (n *simNode) hear() {
	d := n.down[0]
	n.down = n.down[1:]
	for _, id := range d.stable {
		n.acks = slices.DeleteFunc(n.acks, func(a delivery) bool { return a.id == id })
	}
	c := n.channel
	if c == nil || d.number == 0 || c.id != d.origin {
		return
	}
	for i := range c.kept {
		if p := &c.kept[i]; d.nack && p.number == d.number && !p.void {
			p.void = true
			n.s.nacked(p.id, d.refused)
		}
	}
	for len(c.kept) > 0 && (c.kept[0].void || !d.nack && c.kept[0].number <= d.number) {
		if !c.kept[0].void {
			n.s.confirm(c.kept[0].id)
		}
		c.kept = c.kept[1:]
	}
}

// ack acknowledges the consumer's oldest delivery, or one of the others.
func (n *simNode) ack() {
	if len(n.unacked) == 0 {
		return
	}
	i := n.s.rng.IntN(len(n.unacked))
	a := n.unacked[i]
	n.unacked = slices.Delete(n.unacked, i, i+1)
	n.acks = append(n.acks, a)
	n.s.acknowledge(a.id, n)
	if n.epoch != 0 {
		n.up = append(n.up, upMessage{kind: upAck, ack: a})
	}
}

// take lets the master's queue process take the next message of a node's session; false: nothing can be taken.
func (t *simTerm) take(from *simNode) bool {
	n := t.n
	if from.epoch != t.epoch || from.to != n.id || len(from.up) == 0 || n.rep.Role() != Master ||
		n.downs[incarnation{from.id, from.inc}] {
		return false
	}
	m := from.up[0]
	b := n.rep.Backing()
	var err error
	switch m.kind {
	case upAttach:
		err = b.AttachOrigin(m.origin, m.number)
		t.confirmed[m.origin] = m.number - 1
	case upPublish:
		if !t.publish(b, from, m) {
			return false
		}
	case upAck:
		err = t.acked(b, from, m.ack)
	case upHas:
		if seq, ok := t.locate(b, m.ack); ok {
			t.delivered[seq] = incarnation{from.id, from.inc}
		} else {
			t.waiting = append(t.waiting, opAck{from.id, from.inc, m.ack, true})
		}
	case upReady:
		t.ready[from.id] = from.inc
	case upClose:
		err = b.CloseOrigin(m.origin)
	}
	if err != nil {
		n.s.fail("%s epoch %d: %+v: %v", n.name, t.epoch, m, err)
	}
	from.up = from.up[1:]
	return true
}

func (t *simTerm) publish(b queue.Backing, from *simNode, m upMessage) bool {
	s := t.n.s
	var taken queue.Taken
	var seq uint64
	var err error
	refuse := m.pub.void || s.chance(5)
	if refuse {
		taken, err = b.Refuse(m.origin, m.pub.number)
	} else {
		e := backingqueue.Entry{Number: m.pub.number, Message: message.Message{Body: encodeID(m.pub.id), Persistent: m.pub.persistent}}
		taken, seq, err = b.Publish(m.origin, e)
	}
	s.tracef("%s epoch %d: publish id %d number %d of %v: taken %d seq %d refuse %v", t.n.name, t.epoch, m.pub.id, m.pub.number, m.origin, taken, seq, refuse)
	if err != nil || taken == queue.TakenGap {
		s.fail("%s epoch %d: publish %+v: taken %d, %v", t.n.name, t.epoch, m, taken, err)
	}
	switch {
	case taken == queue.TakenFull:
		return false
	case m.pub.void:
	case taken == queue.TakenRepeat:
		s.Repeats++
		if s.refused[m.pub.id] {
			s.fail("%s epoch %d: id %d was refused, its repeat is taken", t.n.name, t.epoch, m.pub.id)
		}
	case taken == queue.TakenLost || taken == queue.TakenRefused || refuse:
		if refuse && taken == queue.TakenNew {
			s.Refused++
		}
		from.down = append(from.down, downMessage{origin: m.origin, number: m.pub.number, nack: true, refused: taken != queue.TakenLost})
	default:
		t.arrived(b, m, seq)
	}
	return true
}

// arrived removes a repeat that was acknowledged before it came.
func (t *simTerm) arrived(b queue.Backing, m upMessage, seq uint64) {
	for i, w := range t.waiting {
		if w.ack.origin == m.origin && w.ack.number == m.pub.number {
			if w.held {
				t.delivered[seq] = incarnation{w.node, w.inc}
			} else {
				t.remove(b, w, seq)
			}
			t.waiting = slices.Delete(t.waiting, i, i+1)
			return
		}
	}
}

func (t *simTerm) remove(b queue.Backing, a opAck, seq uint64) {
	op, err := b.Remove([]backingqueue.Range{{First: seq, Last: seq}}, queue.ReasonAcked)
	if err != nil {
		t.n.s.fail("%s: remove: %v", t.n.name, err)
	}
	t.ops[op] = a
}

// acked is an acknowledgement: by position, else by origin and number, else it waits for the repeat.
func (t *simTerm) acked(b queue.Backing, from *simNode, a delivery) error {
	w := opAck{from.id, from.inc, a, false}
	t.waiting = slices.DeleteFunc(t.waiting, func(o opAck) bool { return o.held && o.ack.id == a.id })
	if seq, ok := t.locate(b, a); ok {
		t.remove(b, w, seq)
		return nil
	}
	t.waiting = append(t.waiting, w)
	return nil
}

func (t *simTerm) locate(b queue.Backing, a delivery) (seq uint64, ok bool) {
	e, held, err := b.Get(a.seq)
	if err != nil {
		t.n.s.fail("get: %v", err)
	}
	if b.EpochOf(a.seq) == a.epoch && (!held || decodeID(e.Message.Body) == a.id) {
		return a.seq, true
	}
	return b.Find(a.origin, a.number)
}

// deliver gives the oldest ready message to a node's consumer.
func (t *simTerm) deliver() bool {
	n := t.n
	s := n.s
	if n.rep.Role() != Master || !n.LeasesHeld() {
		return false
	}
	ups := s.log[n.applied-1].ups
	for _, id := range slices.Sorted(maps.Keys(ups)) {
		if t.ready[id] != ups[id] {
			return false
		}
	}
	b := n.rep.Backing()
	for seq, ok := b.Next(0); ok; seq, ok = b.Next(seq + 1) {
		if to, ok := t.delivered[seq]; ok && !n.downs[to] {
			continue
		}
		to := s.nodes[s.rng.IntN(len(s.nodes))]
		if !to.alive || to.epoch != t.epoch || to.to != n.id || n.downs[incarnation{to.id, to.inc}] {
			return false
		}
		e, _, err := b.Get(seq)
		if err != nil {
			s.fail("get: %v", err)
		}
		s.served(n, t.epoch)
		t.delivered[seq] = incarnation{to.id, to.inc}
		id := decodeID(e.Message.Body)
		s.delivered(id, to)
		if err := b.Delivered([]backingqueue.Range{{First: seq, Last: seq}}); err != nil {
			s.fail("delivered: %v", err)
		}
		k := s.published[id]
		to.unacked = append(to.unacked, delivery{b.EpochOf(seq), seq, k.origin, k.number, id})
		return true
	}
	return false
}
