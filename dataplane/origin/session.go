package origin

import (
	"sort"

	"warren/dataplane/queue/deque"
	"warren/dataplane/queue/protocol"
)

// SetMaster says who is master, as the metadata has it. A lower or equal epoch than known is ignored. When another node
// (or incarnation) takes over, consumers that asked for it are cancelled, the others move.
func (a *Attachment) SetMaster(node protocol.NodeID, epoch uint64) {
	if a.closed || epoch <= a.epoch {
		return
	}
	moved := a.epoch != 0 && a.master != node
	a.master, a.epoch, a.down = node, epoch, 0
	if moved {
		a.cancelConsumers(protocol.ErrFailover, func(c *consumer) bool { return c.args.CancelOnFailover && c.active })
	}
	a.greet()
}

// LinkUp says that messages can be sent to node; a link to the own node is always up.
func (a *Attachment) LinkUp(node protocol.NodeID) {
	if a.links[node] {
		return
	}
	a.links[node] = true
	if node == a.master && a.epoch != 0 {
		a.greet()
	}
}

// LinkDown says that the link to node broke, and that messages on their way may be lost. Whoever reports a new link
// without having reported the end of the old one loses that: LinkDown comes first.
func (a *Attachment) LinkDown(node protocol.NodeID) {
	if node == a.cfg.Self {
		return
	}
	delete(a.links, node)
	if node == a.master {
		a.state = detached
	}
}

// Down says that the queue has no master since that of epoch, and that none is expected soon: publishes are nacked, calls fail
// and consumers end. Acknowledgements and deliveries are kept for the master that returns (SetMaster with a higher epoch). That
// master's own word may come before what this node's metadata say of the time before it: then Down is too old, and ignored.
func (a *Attachment) Down(epoch uint64) {
	if epoch >= a.epoch {
		a.fail(protocol.ErrDown)
	}
}

// Delete says that the queue is gone for good: as Down, but nothing is kept and every later operation fails.
func (a *Attachment) Delete() {
	a.fail(protocol.ErrDeleted)
	a.closed = true
	a.keptAcks = deque.Deque[keptAck]{}
	for _, ch := range a.channels {
		clear(ch.outstanding)
	}
}

func (a *Attachment) fail(code protocol.Code) {
	if a.closed {
		return
	}
	a.down, a.state = code, detached
	a.seal()
	a.nackAll()
	a.failLetters(code)
	a.cancelConsumers(code, func(c *consumer) bool { return c.active })
	calls := a.calls
	a.calls = nil
	for _, c := range calls {
		a.reply(c, &Reply{Code: code})
	}
}

func (a *Attachment) greet() {
	a.state = detached
	a.seal()
	if a.closed || a.down != 0 || !a.links[a.master] {
		return
	}
	if a.cfg.NextSession != nil {
		a.session = a.cfg.NextSession()
	} else {
		a.session++
	}
	a.state = greeting
	a.send(&protocol.Hello{Header: a.head()})
}

// Handle takes a message from the queue process on node from. Messages of other sessions than the present one are
// ignored.
func (a *Attachment) Handle(from protocol.NodeID, m protocol.Message) {
	h := m.Head()
	if _, ok := m.(*protocol.Ready); ok {
		a.ready(from, h.Epoch)
		return
	}
	if a.closed || from != a.master || h.Epoch != a.epoch || h.Session != a.session || a.state == detached {
		return
	}
	switch m := m.(type) {
	case *protocol.Welcome:
		a.welcome(m)
	case *protocol.Deliver:
		a.deliver(m)
	case *protocol.Confirm:
		a.credit.Count += m.Credit.Count
		a.credit.Bytes += m.Credit.Bytes
		for _, r := range m.Results {
			a.result(r)
		}
		a.acksStable(m.AckStable)
		a.pump()
	case *protocol.Reply:
		a.replied(m)
	case *protocol.Cancelled:
		a.cancelled(m)
	}
}

// ready: a master began its term, or asks for a new session. It is believed, as it knows its own term from the metadata.
func (a *Attachment) ready(from protocol.NodeID, epoch uint64) {
	a.links[from] = true
	switch {
	case epoch > a.epoch:
		a.SetMaster(from, epoch)
	case epoch == a.epoch && from == a.master:
		a.greet()
	}
}

// welcome tells the master everything (mirroring.md: origins, acknowledgements, consumers, deliveries), then goes on
// with the publishes, the oldest first.
func (a *Attachment) welcome(w *protocol.Welcome) {
	if a.state != greeting {
		return
	}
	a.state = open
	a.seal()
	a.credit, a.window = w.Publish, w.Consumer
	a.attachOrigins()
	a.attachLetters()
	a.ackNumber = 0
	for i := range a.keptAcks.Len() {
		k := a.keptAcks.At(i)
		k.batch = a.sendAck(k.Named, k.outcome, false)
	}
	a.seal()
	a.attachConsumers()
	a.attachOutstanding()
	a.send(&protocol.Attach{Header: a.head(), Last: true})
	for _, c := range a.calls {
		if c.Op != protocol.OpConsume { // those went with the consumers
			a.sendCall(c)
		}
	}
	a.resendLetters()
	a.pump()
}

func (a *Attachment) attachOrigins() {
	a.unsent = deque.Deque[*originState]{}
	var at *protocol.Attach
	longest := 0
	for _, o := range a.origins {
		if at == nil || len(at.Origins) >= protocol.MaxItems {
			at = &protocol.Attach{Header: a.head()}
			a.send(at)
		}
		at.Origins = append(at.Origins, protocol.AttachOrigin{Ref: o.ref, ID: o.id, Lowest: o.base})
		o.attached, o.sent = true, 0
		longest = max(longest, o.kept.Len())
	}
	for round := range longest { // in turn, so that no channel waits for another's backlog
		for _, o := range a.origins {
			if round < o.kept.Len() {
				a.unsent.Push(o)
			}
		}
	}
}

func (a *Attachment) attachConsumers() {
	var at *protocol.Attach
	for _, c := range a.sortedConsumers() {
		if at == nil || len(at.Consumers) >= protocol.MaxItems {
			at = &protocol.Attach{Header: a.head()}
			a.send(at)
		}
		at.Consumers = append(at.Consumers, c.wire())
		c.skip, c.taken = c.untaken, protocol.Credit{}
	}
}

func (a *Attachment) attachOutstanding() {
	type numbered struct {
		id uint64
		outstanding
	}
	var all []numbered
	for _, ch := range a.channels {
		for id, d := range ch.outstanding {
			all = append(all, numbered{id, d})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].id < all[j].id })
	var at *protocol.Attach
	for _, d := range all {
		if at == nil || len(at.Outstanding) >= protocol.MaxItems {
			at = &protocol.Attach{Header: a.head()}
			a.send(at)
		}
		item := protocol.Outstanding{Named: d.Named}
		if a.consumers[d.consumer] != nil {
			item.Consumer = d.consumer
		}
		at.Outstanding = append(at.Outstanding, item)
	}
}

func (a *Attachment) sortedConsumers() []*consumer {
	cs := make([]*consumer, 0, len(a.consumers))
	for _, c := range a.consumers {
		cs = append(cs, c)
	}
	sort.Slice(cs, func(i, j int) bool { return cs[i].id < cs[j].id })
	return cs
}
