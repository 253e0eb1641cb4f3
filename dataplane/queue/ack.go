package queue

import (
	"sort"

	"warren/dataplane/backingqueue"
	"warren/dataplane/queue/protocol"
)

// ackBatch is an Ack until it is stable.
type ackBatch struct {
	op      Op
	items   int
	missing int // of its messages, those whose repeat may still come
}

type missingKey struct {
	origin backingqueue.OriginID
	number uint64
}

// missing is a message that a node acknowledged, has outstanding or gave back, and that this master does not have: if the
// publisher's node sends it again, it must not become ready as if it were new (mirroring.md, "Failover").
type missing struct {
	node     *node
	outcome  protocol.Outcome // 0: outstanding
	consumer *consumer        // outstanding
	session  uint64
	ack      uint64 // the Ack that waits for it, of session; 0: none
}

// ack ends deliveries.
func (p *Process) ack(n *node, m *protocol.Ack) {
	if m.Number != 0 {
		if m.Number != n.firstAck+uint64(n.acks.Len()) {
			p.defects++
			p.resync(n)
			return
		}
		n.acks.Push(ackBatch{})
	}
	var rs []backingqueue.Range
	items := len(m.Named)
	for _, r := range m.Seqs {
		for seq := r.First; seq <= r.Last && items <= 2*protocol.MaxItems; seq++ {
			items++
			if u, ok := p.unacked[seq]; ok && u.node == n {
				rs = p.settle(rs, seq, u, m.Outcome)
			}
		}
	}
	for i := range m.Named {
		rs = p.settleNamed(rs, n, m, &m.Named[i])
	}
	if m.Outcome == protocol.Rejected && p.set.DeadLetter {
		p.doomRejected(rs, n, n.session, m.Number)
	} else {
		p.remove(rs, reasonOf(m.Outcome))
	}
	p.closeUnpinned()
	if m.Number != 0 {
		b := n.acks.At(n.acks.Len() - 1)
		b.op, b.items = p.lastOp, items
		n.unstable += items
		n.throttled = n.throttled || n.unstable >= p.opt.UnstableAcks
		p.releaseAcks(n)
	}
}

func reasonOf(o protocol.Outcome) Reason {
	if o == protocol.Rejected {
		return ReasonRejected
	}
	return ReasonAcked
}

// settle ends one delivery: the message is given back, or added to what is to be removed.
func (p *Process) settle(rs []backingqueue.Range, seq uint64, u unacked, outcome protocol.Outcome) []backingqueue.Range {
	delete(p.unacked, seq)
	p.unackedBytes -= u.size
	p.unpin(u.pin)
	if c := u.consumer; c != nil {
		c.unacked--
		p.activate(c)
	}
	if outcome == protocol.Requeued {
		p.giveBack(seq)
		return rs
	}
	return addRange(rs, seq)
}

// settleNamed ends a delivery that another master, or an earlier session, made.
func (p *Process) settleNamed(rs []backingqueue.Range, n *node, m *protocol.Ack, nm *protocol.Named) []backingqueue.Range {
	seq, ok := p.locate(nm)
	if ok {
		u, held := p.unacked[seq]
		switch {
		case held && (u.node == n || m.Outcome != protocol.Requeued):
			return p.settle(rs, seq, u, m.Outcome)
		case !held && m.Outcome != protocol.Requeued:
			delete(p.ready.redelivered, seq)
			return addRange(rs, seq) // a dying one included: somebody has dealt with it after all
		}
		return rs
	}
	if p.mayCome(nm) {
		p.note(missing{node: n, outcome: m.Outcome, session: n.session, ack: m.Number}, nm)
	}
	return rs
}

// locate finds the message by its position, or by who published it.
func (p *Process) locate(nm *protocol.Named) (seq uint64, ok bool) {
	if seq, ok = p.b.Next(nm.Seq); ok && seq == nm.Seq && p.b.EpochOf(seq) == nm.Epoch {
		return seq, true
	}
	if nm.Origin == (backingqueue.OriginID{}) || p.b.EpochOf(nm.Seq) == nm.Epoch {
		return 0, false // nobody gave the position to another message: what stood there was removed
	}
	return p.b.Find(nm.Origin, nm.Number)
}

// mayCome: the message may yet come as a repeat, as its origin has not attached so far or has not sent it yet.
func (p *Process) mayCome(nm *protocol.Named) bool {
	if nm.Origin == (backingqueue.OriginID{}) {
		return false
	}
	if o := p.origins[nm.Origin]; o != nil {
		return !o.closing && o.taken < nm.Number
	}
	return p.state == gathering
}

// note remembers what is to become of a message that this master lacks, in place of what was known before.
func (p *Process) note(m missing, nm *protocol.Named) {
	k := missingKey{nm.Origin, nm.Number}
	if old := p.missing[k]; old != nil {
		p.unnote(k, old)
	}
	p.missing[k] = &m
	if m.ack != 0 {
		m.node.acks.At(int(m.ack-m.node.firstAck)).missing++
	}
	if m.consumer != nil {
		m.consumer.unacked++
	}
}

// unnote ends what note began; the Ack that waited for it may become stable with everything removed so far.
func (p *Process) unnote(k missingKey, m *missing) {
	delete(p.missing, k)
	if m.consumer != nil {
		m.consumer.unacked--
		p.activate(m.consumer)
	}
	if m.ack != 0 && m.session == m.node.session && p.nodes[m.node.id] == m.node {
		b := m.node.acks.At(int(m.ack - m.node.firstAck))
		b.missing--
		b.op = p.lastOp
		p.releaseAcks(m.node)
	}
}

// arrived is called for each publish while something is missing: number of o came and is at seq if stored.
func (p *Process) arrived(o *originState, number, seq uint64, stored bool) {
	k := missingKey{o.id, number}
	m := p.missing[k]
	if m == nil {
		return
	}
	if stored {
		switch m.outcome {
		case 0:
			p.hold(seq, unacked{
				node: m.node, consumer: m.consumer, session: m.session, pin: p.pin(k.origin), size: p.sizeOf(seq),
			})
			if m.consumer != nil {
				m.consumer.unacked++
			}
			p.mark(seq)
		case protocol.Requeued:
			p.ready.redelivered[seq] = struct{}{}
			p.mark(seq)
		default:
			rs := []backingqueue.Range{{First: seq, Last: seq}}
			if m.outcome == protocol.Rejected && p.set.DeadLetter {
				p.doomRejected(rs, m.node, m.session, m.ack)
			} else {
				p.remove(rs, reasonOf(m.outcome))
			}
		}
	}
	p.unnote(k, m)
}

func (p *Process) mark(seq uint64) {
	p.fail("mark a message delivered", p.b.Delivered([]backingqueue.Range{{First: seq, Last: seq}}))
}

// voidMissing forgets messages that cannot come any more.
func (p *Process) voidMissing(which func(missingKey) bool) {
	var ks []missingKey
	for k := range p.missing {
		if which(k) {
			ks = append(ks, k)
		}
	}
	sort.Slice(ks, func(i, j int) bool { return lessMissing(ks[i], ks[j]) })
	for _, k := range ks {
		p.unnote(k, p.missing[k])
	}
}

func lessMissing(a, b missingKey) bool {
	if a.number != b.number {
		return a.number < b.number
	}
	x, y := a.origin, b.origin
	switch {
	case x.Node != y.Node:
		return x.Node < y.Node
	case x.Incarnation != y.Incarnation:
		return x.Incarnation < y.Incarnation
	case x.Connection != y.Connection:
		return x.Connection < y.Connection
	}
	return x.Channel < y.Channel
}

func (p *Process) remove(rs []backingqueue.Range, reason Reason) {
	if len(rs) == 0 || !p.active() {
		return
	}
	op, err := p.b.Remove(rs, reason)
	if err != nil {
		p.fail("remove messages", err)
		return
	}
	p.lastOp = max(p.lastOp, op)
}

// OpStable implements Events.
func (p *Process) OpStable(op Op) {
	p.stable = max(p.stable, op)
	if !p.active() {
		return
	}
	for _, n := range p.order {
		p.releaseAcks(n)
	}
	p.closeGraves()
}

// hold notes that a node has a message.
func (p *Process) hold(seq uint64, u unacked) {
	if old, ok := p.unacked[seq]; ok {
		p.unackedBytes -= old.size
	}
	p.unacked[seq] = u
	p.unackedBytes += u.size
}

// releaseAcks tells n which of its Acks are stable, in order.
func (p *Process) releaseAcks(n *node) {
	released := false
	for n.acks.Len() > 0 {
		b := n.acks.At(0)
		if b.missing > 0 || b.op > p.stable {
			break
		}
		n.unstable -= b.items
		n.acks.Pop()
		n.firstAck++
		released = true
	}
	if released {
		p.confirmOf(n).AckStable = n.firstAck - 1
	}
	if n.throttled && n.unstable <= p.opt.UnstableAcks/2 {
		n.throttled = false
		p.activateNode(n)
	}
}
