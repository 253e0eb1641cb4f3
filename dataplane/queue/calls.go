package queue

import (
	"sort"

	"warren/dataplane/backingqueue"
	"warren/dataplane/queue/protocol"
)

// get is a basic.get that waits for the next Flush.
type get struct {
	node  *node
	id    uint64
	noAck bool
}

// deferredCall waits until every node has attached: before, nobody knows what is ready.
type deferredCall struct {
	node    *node
	session uint64
	call    *protocol.Call
}

func (p *Process) call(n *node, m *protocol.Call) {
	if p.state == gathering && m.Op != protocol.OpConsume && m.Op != protocol.OpCancel {
		p.deferred = append(p.deferred, deferredCall{n, n.session, m})
		return
	}
	p.used()
	switch m.Op {
	case protocol.OpConsume:
		p.consume(n, &m.Consumer, m.ID)
	case protocol.OpCancel:
		if c := n.consumers[m.Consumer.ID]; c != nil {
			p.dropConsumer(c)
		}
		p.reply(n, m.ID, 0, 0)
	case protocol.OpGet:
		p.gets = append(p.gets, get{n, m.ID, m.NoAck})
	case protocol.OpDepth:
		p.reply(n, m.ID, 0, p.readyCount())
	case protocol.OpPurge:
		p.reply(n, m.ID, 0, p.purge())
	case protocol.OpPrepareDelete:
		p.prepareDelete(n, m)
	case protocol.OpAbortDelete: // nothing is frozen
	default:
		p.reply(n, m.ID, protocol.ErrUnknownCall, 0)
	}
}

func (p *Process) reply(n *node, id uint64, code protocol.Code, messages int) {
	if id != 0 {
		p.toNode(n, &protocol.Reply{
			Header: p.head(n), ID: id, Code: code,
			Messages: uint64(messages), Consumers: uint64(p.consumers.count),
		})
	}
}

// dropCalls forgets the calls of n's former session; it makes them again.
func (p *Process) dropCalls(n *node) {
	gets, deferred := p.gets[:0], p.deferred[:0]
	for _, g := range p.gets {
		if g.node != n {
			gets = append(gets, g)
		}
	}
	for _, d := range p.deferred {
		if d.node != n {
			deferred = append(deferred, d)
		}
	}
	p.gets, p.deferred = gets, deferred
}

// serveGets answers the gets. It runs in Flush alone, as what it delivers must reach its node or stay.
func (p *Process) serveGets() {
	for _, g := range p.gets {
		r := &protocol.Reply{Header: p.head(g.node), ID: g.id}
		e, ok := p.next()
		if p.err != nil {
			return
		}
		if ok {
			g.node.deliverRefs = g.node.deliverRefs[:0]
			r.Get = &protocol.Deliver{Header: r.Header}
			r.Get.Items = []protocol.DeliverItem{p.item(g.node, r.Get, 0, &e)}
			if g.noAck {
				p.drops.add(&e)
			} else {
				p.give(g.node, nil, &e)
			}
		}
		p.expireHeads() // what comes next is not counted if it expired
		r.Messages, r.Consumers = uint64(p.readyCount()), uint64(p.consumers.count)
		p.toNode(g.node, r)
	}
	p.gets = nil
}

// purge removes what is ready: everything but the unacked.
func (p *Process) purge() int {
	stats := p.b.Stats()
	count := p.readyCount()
	if count == 0 {
		return 0
	}
	held := make([]uint64, 0, len(p.unacked)+len(p.dying))
	for seq := range p.unacked {
		held = append(held, seq)
	}
	for seq := range p.dying {
		held = append(held, seq)
	}
	sort.Slice(held, func(i, j int) bool { return held[i] < held[j] })
	var rs []backingqueue.Range
	first := stats.FirstSeq
	for _, seq := range held {
		if seq > first {
			rs = append(rs, backingqueue.Range{First: first, Last: seq - 1})
		}
		first = max(first, seq+1)
	}
	if first <= stats.LastSeq {
		rs = append(rs, backingqueue.Range{First: first, Last: stats.LastSeq})
	}
	p.remove(rs, ReasonPurged)
	p.ready.returned = nil
	clear(p.ready.redelivered)
	p.ready.cursor = max(p.ready.cursor, stats.LastSeq+1)
	for l := range p.ready.levels {
		p.ready.levels[l] = level{}
	}
	p.ready.scanned = p.ready.levels != nil
	return count
}

// prepareDelete checks the conditions; where they hold the queue stands still until the metadata decide.
func (p *Process) prepareDelete(n *node, m *protocol.Call) {
	switch count := p.readyCount(); {
	case m.IfUnused && p.consumers.count > 0:
		p.reply(n, m.ID, protocol.ErrInUse, count)
	case m.IfEmpty && count > 0:
		p.reply(n, m.ID, protocol.ErrNotEmpty, count)
	default:
		p.frozenBy = n
		p.reply(n, m.ID, 0, count)
	}
}
