package queue

import (
	"sort"

	"warren/dataplane/queue/deque"
	"warren/dataplane/queue/protocol"
)

// hello begins a session: what the node says from here on replaces what it said before.
func (p *Process) hello(n *node, h *protocol.Hello) {
	if h.Session <= n.session {
		return
	}
	if p.frozenBy != nil {
		if p.frozenBy != n {
			return // asked again when the queue goes on
		}
		p.unfreeze()
	}
	n.session, n.open, n.attached = h.Session, true, false
	n.refs = map[uint64]*originState{}
	n.held, n.heldLetters = deque.Deque[protocol.PublishItem]{}, deque.Deque[protocol.PublishItem]{}
	n.acks, n.firstAck, n.unstable, n.throttled = deque.Deque[ackBatch]{}, 1, 0, false
	n.confirm, n.deliver = nil, nil
	for _, c := range n.consumers {
		c.stale = true
	}
	p.dropCalls(n)
	p.toNode(n, &protocol.Welcome{
		Header: p.head(n), Publish: p.opt.PublishWindow, Consumer: p.opt.ConsumerWindow,
	})
}

// resync asks n to begin another session: what was sent in this one may not have been taken.
func (p *Process) resync(n *node) {
	n.open, n.attached = false, false
	p.toNode(n, &protocol.Ready{Header: protocol.Header{Epoch: p.epoch}})
}

func (p *Process) attach(n *node, m *protocol.Attach) {
	for _, a := range m.Origins {
		p.attachOrigin(n, a)
	}
	if n.attached {
		return
	}
	for i := range m.Consumers {
		p.consume(n, &m.Consumers[i], m.Consumers[i].Call)
	}
	for i := range m.Outstanding {
		p.attachOutstanding(n, &m.Outstanding[i])
	}
	if m.Last {
		p.nodeAttached(n)
	}
}

func (p *Process) attachOrigin(n *node, a protocol.AttachOrigin) {
	if a.Lowest == 0 {
		p.defects++
		return
	}
	p.sources = p.sources || IsLetter(a.ID)
	o := p.origins[a.ID]
	if o == nil {
		o = &originState{id: a.ID}
		p.origins[a.ID] = o
	}
	o.node, o.ref, o.session, o.closing = n, a.Ref, n.session, false
	o.taken = max(o.taken, a.Lowest-1)
	n.refs[a.Ref] = o
	p.fail("attach an origin", p.b.AttachOrigin(o.id, a.Lowest))
	if len(p.missing) > 0 {
		p.voidMissing(func(k missingKey) bool { return k.origin == o.id && k.number <= o.taken })
	}
}

// attachOutstanding notes a delivery that n's channel still has. One that the process has given to somebody else in the
// meantime stays there; the acknowledgement of either counts.
func (p *Process) attachOutstanding(n *node, d *protocol.Outstanding) {
	c := n.consumers[d.Consumer]
	seq, ok := p.locate(&d.Named)
	if !ok {
		if p.mayCome(&d.Named) {
			p.note(missing{node: n, consumer: c, session: n.session}, &d.Named)
		}
		return
	}
	u, held := p.unacked[seq]
	_, dies := p.dying[seq]
	switch {
	case dies || held && u.node != n:
		return
	case !held && p.state != gathering:
		return // given back while the node was away; its acknowledgement is valid all the same
	case held && u.consumer != nil:
		u.consumer.unacked--
	}
	if c != nil {
		c.unacked++
	}
	now := unacked{node: n, consumer: c, session: n.session, size: p.sizeOf(seq)}
	if d.Position != (protocol.Position{Epoch: p.b.EpochOf(seq), Seq: seq}) {
		now.pin = p.pin(d.Origin)
	}
	p.hold(seq, now)
	if held {
		p.unpin(u.pin)
		p.closeUnpinned()
	} else {
		p.mark(seq)
	}
}

// nodeAttached: the node has told all. What it had outstanding before and did not name was lost with the link.
func (p *Process) nodeAttached(n *node) {
	n.attached, n.awaited = true, false
	for _, c := range sortedConsumers(n) {
		if c.stale {
			p.dropConsumer(c)
		}
	}
	p.returnOutstanding(n, func(u unacked) bool { return u.session != n.session })
	for _, m := range p.missing {
		if m.node == n && m.session != n.session {
			p.loseClaim(m)
		}
	}
	for _, o := range p.originsWhere(func(o *originState) bool { return o.node == n && o.session != n.session }) {
		p.loseOrigin(o)
	}
	p.activateNode(n)
	p.openGate()
}

// nodeDown: the incarnation is gone for good.
func (p *Process) nodeDown(n *node) {
	delete(p.nodes, n.id)
	for i := range p.order {
		if p.order[i] == n {
			p.order = append(p.order[:i], p.order[i+1:]...)
			break
		}
	}
	n.open, n.attached, n.awaited = false, false, false
	p.dropCalls(n)
	p.returnOutstanding(n, func(unacked) bool { return true })
	for _, c := range sortedConsumers(n) {
		p.dropConsumer(c)
	}
	for _, m := range p.missing {
		if m.node == n {
			p.loseClaim(m)
		}
	}
	for _, o := range p.originsWhere(func(o *originState) bool { return o.node == n }) {
		p.loseOrigin(o)
	}
	if p.frozenBy == n {
		p.unfreeze()
	}
	p.openGate()
}

// loseClaim: the node that spoke of a missing message does so no longer. What it acknowledged stays acknowledged.
func (p *Process) loseClaim(m *missing) {
	m.ack = 0
	if m.outcome == 0 {
		m.outcome = protocol.Requeued
	}
	if m.consumer != nil {
		m.consumer.unacked--
		m.consumer = nil
	}
}

// returnOutstanding makes ready what n has outstanding no longer.
func (p *Process) returnOutstanding(n *node, which func(unacked) bool) {
	var seqs []uint64
	for seq, u := range p.unacked {
		if u.node == n && which(u) {
			seqs = append(seqs, seq)
		}
	}
	sort.Slice(seqs, func(i, j int) bool { return seqs[i] < seqs[j] })
	for _, seq := range seqs {
		p.settle(nil, seq, p.unacked[seq], protocol.Requeued)
	}
	p.closeUnpinned()
}

// openGate begins to serve once no node is awaited: everything that was not claimed is ready (mirroring.md, "Failover").
func (p *Process) openGate() {
	if p.state != gathering {
		p.closeOrphans()
		return
	}
	for _, n := range p.order {
		if n.awaited {
			return
		}
	}
	p.state = serving
	p.voidMissing(func(k missingKey) bool { return p.origins[k.origin] == nil })
	for _, o := range p.originsWhere(func(o *originState) bool { return o.closing }) {
		p.closeIfStable(o)
	}
	p.closeOrphans()
	calls := p.deferred
	p.deferred = nil
	for _, d := range calls {
		switch {
		case d.node.session != d.session || !d.node.open:
		case p.frozenBy == nil:
			p.call(d.node, d.call)
		case p.frozenBy == d.node && d.call.Op == protocol.OpAbortDelete:
			p.unfreeze()
		}
	}
}

// unfreeze goes on after a PrepareDelete from which nothing came: the nodes say again what was not taken meanwhile.
func (p *Process) unfreeze() {
	p.frozenBy = nil
	for _, n := range p.order {
		p.resync(n)
	}
}
