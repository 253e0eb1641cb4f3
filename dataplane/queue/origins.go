package queue

import (
	"sort"

	"warren/dataplane/backingqueue"
	"warren/dataplane/queue/protocol"
)

// When an origin may be closed. Its line in the table does two things: it recognises repeats, which a channel that is gone
// does not send; and it finds, by origin and number, a message that a node knows by the position which it had under an
// earlier master. So it stays as long as a node has such a message outstanding (a pin), and before every node has attached,
// when nobody knows who has what.

// pin keeps the origin open for a message that is outstanding under another position than it has here.
func (p *Process) pin(id backingqueue.OriginID) *backingqueue.OriginID {
	p.pins[id]++
	return &id
}

// unpin takes a pin back; closeUnpinned follows, once what was acknowledged is removed.
func (p *Process) unpin(id *backingqueue.OriginID) {
	if id == nil {
		return
	}
	if p.pins[*id]--; p.pins[*id] == 0 {
		delete(p.pins, *id)
		p.unpinned = append(p.unpinned, *id)
	}
}

func (p *Process) closeUnpinned() {
	if len(p.unpinned) == 0 {
		return
	}
	ids := p.unpinned
	p.unpinned = nil
	for _, id := range ids {
		if o := p.origins[id]; o != nil {
			p.closeIfStable(o)
		}
	}
	p.closeOrphans()
}

func (p *Process) mayClose(id backingqueue.OriginID) bool {
	return p.state == serving && p.pins[id] == 0
}

// closeOrphans drops origins that no channel here belongs to: their node is down, or has attached without them.
func (p *Process) closeOrphans() {
	if p.table == nil || p.state != serving {
		return
	}
	for _, line := range p.table.Origins() {
		id := protocol.NodeID{Name: line.ID.Node, Incarnation: line.ID.Incarnation}
		n := p.nodes[id]
		if line.ID.Node == "" || p.origins[line.ID] != nil || (p.up[id] && (n == nil || !n.attached)) || !p.mayClose(line.ID) {
			continue
		}
		p.fail("close an origin", p.b.CloseOrigin(line.ID))
	}
}

// originsWhere are those that which chooses, in a fixed order.
func (p *Process) originsWhere(which func(*originState) bool) []*originState {
	var os []*originState
	for _, o := range p.origins {
		if which(o) {
			os = append(os, o)
		}
	}
	sort.Slice(os, func(i, j int) bool {
		return lessMissing(missingKey{origin: os[i].id}, missingKey{origin: os[j].id})
	})
	return os
}
