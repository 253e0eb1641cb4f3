package queue

import (
	"sort"

	"warren/dataplane/backingqueue"
	"warren/dataplane/queue/deque"
	"warren/dataplane/queue/protocol"
)

// consumer is one basic.consume of one node.
type consumer struct {
	node    *node
	args    protocol.Consumer
	unacked int
	credit  protocol.Credit
	group   *group
	queued  bool // in its group's line
	gone    bool
	stale   bool // not named in the node's newest session so far
	idle    bool // of a queue with a single active consumer: it is another's turn
	order   uint64
}

// consumers are all consumers of the queue, those with room in line per priority.
type consumers struct {
	count     int
	exclusive *consumer
	groups    []*group  // descending priority
	sole      *consumer // the active one of a queue with a single active consumer
	order     uint64
}

type group struct {
	priority int32
	members  int
	line     deque.Deque[*consumer] // who has room, next first; checked when taken out
}

func sortedConsumers(n *node) []*consumer {
	cs := make([]*consumer, 0, len(n.consumers))
	for _, c := range n.consumers {
		cs = append(cs, c)
	}
	sort.Slice(cs, func(i, j int) bool { return cs[i].args.ID < cs[j].args.ID })
	return cs
}

// consume adds a consumer, takes over one of the node's former session, or changes the prefetch of one; call is 0 if no reply is wanted.
func (p *Process) consume(n *node, args *protocol.Consumer, call uint64) {
	if c := n.consumers[args.ID]; c != nil {
		if c.stale {
			c.stale, c.credit = false, p.opt.ConsumerWindow
		}
		c.args.Prefetch = args.Prefetch
		p.consumed(n, args.ID, call, 0)
		p.activate(c)
		return
	}
	if p.consumers.exclusive != nil || (args.Exclusive && p.consumers.count > 0) {
		p.consumed(n, args.ID, call, protocol.ErrExclusiveConsumer)
		return
	}
	p.consumers.order++
	c := &consumer{node: n, args: *args, credit: p.opt.ConsumerWindow, order: p.consumers.order}
	n.consumers[args.ID] = c
	if p.opt.SingleActive {
		if c.idle = p.consumers.sole != nil; !c.idle {
			p.consumers.sole = c
		}
	}
	c.group = p.consumers.groupOf(args.Priority)
	c.group.members++
	p.consumers.count++
	if args.Exclusive {
		p.consumers.exclusive = c
	}
	p.had, p.toldGone = true, false
	if p.opt.AutoDelete && !p.toldHad {
		p.toldHad = true
		p.outs = append(p.outs, Output{Kind: FirstConsumer})
	}
	p.consumed(n, args.ID, call, 0)
	p.activate(c)
}

func (p *Process) consumed(n *node, id, call uint64, code protocol.Code) {
	switch {
	case call != 0:
		p.toNode(n, &protocol.Reply{
			Header: p.head(n), ID: call, Code: code,
			Messages: uint64(p.readyCount()), Consumers: uint64(p.consumers.count),
		})
	case code != 0:
		p.toNode(n, &protocol.Cancelled{Header: p.head(n), Consumer: id, Code: code})
	}
}

// dropConsumer ends a consumer; what it has outstanding stays with its node.
func (p *Process) dropConsumer(c *consumer) {
	c.gone = true
	delete(c.node.consumers, c.args.ID)
	p.consumers.count--
	if p.consumers.exclusive == c {
		p.consumers.exclusive = nil
	}
	if c.group.members--; c.group.members == 0 {
		p.consumers.drop(c.group)
	}
	if p.consumers.sole == c {
		p.consumers.sole = nil
		p.nextSole()
	}
	if p.consumers.count == 0 {
		p.used()
	}
	if c.unacked == 0 {
		return
	}
	for seq, u := range p.unacked {
		if u.consumer == c {
			u.consumer = nil
			p.unacked[seq] = u
		}
	}
	for _, m := range p.missing {
		if m.consumer == c {
			m.consumer = nil
		}
	}
	c.unacked = 0
}

// nextSole makes active whom the queue's single active consumer leaves behind: of the highest priority, who has waited
// longest.
func (p *Process) nextSole() {
	var sole *consumer
	for _, n := range p.order {
		for _, c := range n.consumers {
			if sole == nil || c.args.Priority > sole.args.Priority ||
				c.args.Priority == sole.args.Priority && c.order < sole.order {
				sole = c
			}
		}
	}
	if p.consumers.sole = sole; sole != nil {
		sole.idle = false
		p.activate(sole)
	}
}

// someRoom tells whether a consumer seems to have room.
func (p *Process) someRoom() bool {
	if len(p.gets) > 0 {
		return true
	}
	for _, g := range p.consumers.groups {
		if g.line.Len() > 0 {
			return true
		}
	}
	return false
}

func (cs *consumers) groupOf(priority int32) *group {
	i := sort.Search(len(cs.groups), func(i int) bool { return cs.groups[i].priority <= priority })
	if i < len(cs.groups) && cs.groups[i].priority == priority {
		return cs.groups[i]
	}
	cs.groups = append(cs.groups, nil)
	copy(cs.groups[i+1:], cs.groups[i:])
	cs.groups[i] = &group{priority: priority}
	return cs.groups[i]
}

func (cs *consumers) drop(g *group) {
	for i := range cs.groups {
		if cs.groups[i] == g {
			cs.groups = append(cs.groups[:i], cs.groups[i+1:]...)
			return
		}
	}
}

func (c *consumer) hasRoom() bool {
	return !c.gone && !c.stale && !c.idle && c.node.attached && !c.node.throttled &&
		(c.args.Prefetch == 0 || c.unacked < int(c.args.Prefetch)) && c.credit.Count > 0 && c.credit.Bytes > 0
}

// activate puts c at the end of the line if it has room.
func (p *Process) activate(c *consumer) {
	if !c.queued && c.hasRoom() {
		c.queued = true
		c.group.line.Push(c)
	}
}

func (p *Process) activateNode(n *node) {
	for _, c := range sortedConsumers(n) {
		p.activate(c)
	}
}

// nextConsumer takes the next consumer with room out of the line of the highest priority that has one.
func (p *Process) nextConsumer() *consumer {
	for _, g := range p.consumers.groups {
		for g.line.Len() > 0 {
			c := g.line.Pop()
			c.queued = false
			if c.hasRoom() {
				return c
			}
		}
	}
	return nil
}

func (p *Process) grant(n *node, m *protocol.CreditGrant) {
	for _, g := range m.Items {
		if c := n.consumers[g.Consumer]; c != nil && g.Count >= 0 && g.Bytes >= 0 {
			c.credit.Count += g.Count
			c.credit.Bytes += g.Bytes
			p.activate(c)
		}
	}
}

// dispatch delivers what is ready: to gets first, then to consumers in turn. It reports whether it stopped only because
// it did enough for one Flush.
func (p *Process) dispatch() (more bool) {
	p.serveGets()
	for budget := flushBudget; p.active(); budget-- {
		c := p.nextConsumer()
		if c == nil {
			break
		}
		if budget == 0 {
			p.unget(c)
			more = true
			break
		}
		e, ok := p.next()
		if !ok {
			p.unget(c)
			break
		}
		p.deliver(c, &e)
		p.activate(c)
	}
	return more
}

// delivered tells the Backing what leaves now.
func (p *Process) delivered() {
	if len(p.marks) > 0 && p.active() {
		p.fail("mark messages delivered", p.b.Delivered(p.marks))
	}
	p.remove(p.drops.ranges, ReasonAcked)
	p.marks, p.drops = nil, drops{}
}

// unget puts c back at the head of its line: it was not its fault.
func (p *Process) unget(c *consumer) {
	c.queued = true
	c.group.line.Unpop(c)
}

func (p *Process) deliver(c *consumer, e *backingqueue.Entry) {
	n := c.node
	size := protocol.Size(&e.Message)
	c.credit.Count--
	c.credit.Bytes -= size
	if n.deliver == nil || len(n.deliver.Items) >= protocol.MaxItems || n.deliverBytes >= protocol.BatchBytes {
		n.deliver, n.deliverBytes, n.deliverRefs = &protocol.Deliver{Header: p.head(n)}, 0, n.deliverRefs[:0]
		p.outs = append(p.outs, Output{Kind: ToNode, Node: n.id, Message: n.deliver})
	}
	n.deliverBytes += size
	n.deliver.Items = append(n.deliver.Items, p.item(n, n.deliver, c.args.ID, e))
	if c.args.NoAck {
		p.drops.add(e)
		return
	}
	c.unacked++
	p.give(n, c, e)
}

// drops are messages that are acknowledged as soon as they leave.
type drops struct {
	ranges   []backingqueue.Range
	messages int
	bytes    int64 // bodies
}

func (d *drops) add(e *backingqueue.Entry) {
	d.ranges = addRange(d.ranges, e.Seq)
	d.messages++
	d.bytes += int64(len(e.Message.Body))
}

// give notes that n has the message.
func (p *Process) give(n *node, c *consumer, e *backingqueue.Entry) {
	p.hold(e.Seq, unacked{node: n, consumer: c, session: n.session, size: int64(len(e.Message.Body))})
	if !e.Delivered {
		p.marks = addRange(p.marks, e.Seq)
	}
}

func (p *Process) item(n *node, d *protocol.Deliver, consumer uint64, e *backingqueue.Entry) protocol.DeliverItem {
	return protocol.DeliverItem{
		Consumer: consumer, Position: protocol.Position{Epoch: p.b.EpochOf(e.Seq), Seq: e.Seq},
		Origin: p.originIndex(n, d, e.Ref), Number: e.Number, Redelivered: e.Delivered, Message: e.Message,
	}
}

// originIndex names the origin ref in d. It looks a few entries back only; one that is named twice does no harm.
func (p *Process) originIndex(n *node, d *protocol.Deliver, ref uint64) uint32 {
	if ref == 0 || p.table == nil {
		return 0
	}
	for i := len(n.deliverRefs) - 1; i >= max(0, len(n.deliverRefs)-16); i-- {
		if n.deliverRefs[i] == ref {
			return uint32(i + 1)
		}
	}
	id, ok := p.refs[ref]
	if !ok {
		if id, ok = p.table.OriginOf(ref); !ok {
			return 0
		}
		if len(p.refs) >= maxRefs {
			clear(p.refs)
		}
		p.refs[ref] = id
	}
	d.Origins = append(d.Origins, id)
	n.deliverRefs = append(n.deliverRefs, ref)
	return uint32(len(d.Origins))
}

// maxRefs bounds the cache of the table of origins.
const maxRefs = 16384

// autoDelete tells once that the last consumer has gone.
func (p *Process) autoDelete() {
	if p.opt.AutoDelete && p.had && !p.toldGone && p.consumers.count == 0 {
		p.toldGone = true
		p.outs = append(p.outs, Output{Kind: LastConsumerGone})
	}
}
