package queue

import (
	"warren/dataplane/backingqueue"
	"warren/dataplane/queue/protocol"
)

// originState is one channel's publishes to this queue, as this term has seen them.
type originState struct {
	id        backingqueue.OriginID
	node      *node
	ref       uint64
	session   uint64 // in which it was attached last
	taken     uint64 // highest number seen; at least one below what the node still keeps
	stored    uint64 // highest number that a confirm is owed for
	confirmed uint64 // as the Backing reported
	due       uint64 // as the Backing reported, but too few members are synchronised
	closing   bool
}

// publish takes what it can; the rest waits in order until the ring's window opens.
func (p *Process) publish(n *node, m *protocol.Publish) {
	if int64(n.held.Len()+len(m.Items)) > p.opt.PublishWindow.Count {
		p.defects++
		p.resync(n)
		return
	}
	for i := range m.Items {
		if o := n.refs[m.Items[i].Ref]; o != nil && IsLetter(o.id) {
			if n.heldLetters.Len() > 0 || !p.take(n, &m.Items[i]) {
				n.heldLetters.Push(m.Items[i])
			}
		} else if n.held.Len() > 0 || !p.take(n, &m.Items[i]) {
			n.held.Push(m.Items[i])
		}
	}
}

// WindowOpen implements Events: what was held is taken, the nodes in turn.
func (p *Process) WindowOpen() {
	if !p.active() || len(p.order) == 0 {
		return
	}
	for _, n := range p.order {
		for n.heldLetters.Len() > 0 && p.active() {
			if !p.take(n, n.heldLetters.At(0)) {
				return
			}
			n.heldLetters.Pop()
		}
	}
	const turn = 64
	for idle := 0; idle < len(p.order) && p.active(); {
		n := p.order[p.nextHeldRun%len(p.order)]
		idle++
		for range turn {
			if n.held.Len() == 0 {
				break
			}
			if !p.take(n, n.held.At(0)) {
				return
			}
			n.held.Pop()
			idle = 0
		}
		p.nextHeldRun++
	}
}

// take hands one publish to the Backing; false: the window is full, try again later.
func (p *Process) take(n *node, item *protocol.PublishItem) bool {
	if !p.active() {
		return true
	}
	o := n.refs[item.Ref]
	if o == nil || o.node != n { // confirmed while its repeat waited here, and then closed; or a letter that moved
		if o == nil {
			p.credit(n, nil, item)
		}
		return true
	}
	ruling := accept
	if !item.Void {
		if ruling = p.judge(o, item); ruling == wait {
			p.waiting = true
			return false
		}
	}
	var taken Taken
	var seq uint64
	var err error
	if item.Void || ruling == refuse {
		if taken, err = p.b.Refuse(o.id, item.Number); taken == TakenNew && !item.Void {
			taken = TakenRefused
		}
	} else {
		p.stamp(&item.Message)
		taken, seq, err = p.b.Publish(o.id, backingqueue.Entry{Number: item.Number, Message: item.Message})
	}
	if err != nil {
		p.fail("store a publish", err)
		return true
	}
	if taken == TakenFull {
		return false
	}
	p.credit(n, o, item)
	if taken == TakenGap {
		p.defects++
	} else {
		o.taken = max(o.taken, item.Number)
	}
	if taken == TakenNew && !item.Void {
		p.published(seq, item.Message.Priority)
		if ruling == deadLetter {
			p.doom(seq, dying{reason: ReasonDropped, size: int64(len(item.Message.Body))})
			taken = TakenRefused
		}
	}
	p.answer(n, o, item, taken)
	if len(p.missing) > 0 {
		p.arrived(o, item.Number, seq, taken == TakenNew && !item.Void)
	}
	return true
}

func (p *Process) answer(n *node, o *originState, item *protocol.PublishItem, taken Taken) {
	switch taken {
	case TakenNew, TakenRepeat:
		if item.Void {
			return
		}
		o.stored = max(o.stored, item.Number)
		if o.confirmed >= item.Number {
			p.result(n, protocol.Result{Ref: o.ref, Last: item.Number})
		}
	case TakenLost, TakenGap, TakenRefused:
		if !item.Void {
			p.result(n, protocol.Result{Ref: o.ref, First: item.Number, Last: item.Number, Nack: true})
		}
	}
}

// Confirmable implements Events.
func (p *Process) Confirmable(id backingqueue.OriginID, number uint64) {
	o := p.origins[id]
	if o == nil || !p.active() || number <= o.confirmed {
		return
	}
	if p.short {
		o.due = max(o.due, number)
		return
	}
	o.confirmed = number
	if o.session == o.node.session && !o.closing {
		p.result(o.node, protocol.Result{Ref: o.ref, Last: number})
	}
	p.closeIfStable(o)
}

// SetInSync says whether as many members of the queue are synchronised as ha-min-in-sync asks for (metadata.md, promotion). While
// they are not, what is published is refused before it is stored, and what is stored already is confirmed later. The owner
// tells it before the view in which they are too few takes effect.
func (p *Process) SetInSync(enough bool) {
	if p.short = !enough; p.short {
		return
	}
	for _, o := range p.originsWhere(func(o *originState) bool { return o.due > o.confirmed }) {
		p.Confirmable(o.id, o.due)
	}
}

// confirmOf is the Confirm to n that may still grow.
func (p *Process) confirmOf(n *node) *protocol.Confirm {
	if n.confirm == nil || len(n.confirm.Results) >= protocol.MaxItems {
		c := &protocol.Confirm{Header: p.head(n)}
		p.outs = append(p.outs, Output{Kind: ToNode, Node: n.id, Message: c})
		n.confirm = c
	}
	return n.confirm
}

func (p *Process) result(n *node, r protocol.Result) {
	c := p.confirmOf(n)
	if k := len(c.Results); k > 0 && c.Results[k-1].Ref == r.Ref && c.Results[k-1].Nack == r.Nack {
		last := &c.Results[k-1]
		if !r.Nack || last.Last+1 == r.First {
			last.Last = max(last.Last, r.Last)
			return
		}
	}
	c.Results = append(c.Results, r)
}

// credit gives back what a publish took of the node's window; letters take none.
func (p *Process) credit(n *node, o *originState, item *protocol.PublishItem) {
	if o != nil && IsLetter(o.id) {
		return
	}
	c := p.confirmOf(n)
	c.Credit.Count++
	if item.Void {
		c.Credit.Bytes += protocol.Overhead
	} else {
		c.Credit.Bytes += protocol.Size(&item.Message)
	}
}

// detachOrigin: the channel is gone. Its line is dropped once all that it published is stable.
func (p *Process) detachOrigin(o *originState) {
	if o.node.refs[o.ref] == o {
		delete(o.node.refs, o.ref)
	}
	o.closing = true
	p.voidMissing(func(k missingKey) bool { return k.origin == o.id })
	p.closeIfStable(o)
}

// loseOrigin: the node speaks of the origin no more. A letter's source may be master elsewhere by now, so its line stays until
// that one says that it never sends it again.
func (p *Process) loseOrigin(o *originState) {
	if !IsLetter(o.id) {
		p.detachOrigin(o)
		return
	}
	if o.node.refs[o.ref] == o {
		delete(o.node.refs, o.ref)
	}
	if !o.closing {
		delete(p.origins, o.id)
	}
}

func (p *Process) closeIfStable(o *originState) {
	if o.closing && o.confirmed >= o.stored && p.mayClose(o.id) {
		delete(p.origins, o.id)
		p.fail("close an origin", p.b.CloseOrigin(o.id))
	}
}
