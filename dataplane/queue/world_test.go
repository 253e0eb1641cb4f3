package queue_test

import (
	"encoding/binary"
	"errors"
	"fmt"

	"warren/dataplane/message"
	"warren/dataplane/origin"
	"warren/dataplane/queue"
	"warren/dataplane/queue/protocol"
)

// clientAction lets a channel of n do something.
func (s *sim) clientAction(n *simNode) {
	if !n.up {
		return
	}
	if len(n.chans) < 2 {
		n.lastChan++
		n.chans = append(n.chans, &simChannel{
			node: n, key: origin.Channel{Connection: 1, Channel: n.lastChan}, next: 1, waiting: map[uint64]int{},
			tags: map[string]bool{}, calls: map[uint64]protocol.Op{}, order: map[string]uint64{},
		})
	}
	ch := n.chans[s.r.IntN(len(n.chans))]
	switch k := s.r.IntN(100); {
	case k < 45:
		s.publish(ch)
	case k < 55:
		s.consume(ch, s.r.IntN(8) == 0)
	case k < 58:
		for tag := range ch.tags { // one at most, so the order is no matter
			id, err := n.att.Cancel(ch.key, tag)
			s.called(ch, id, err, protocol.OpCancel)
			break
		}
	case k < 62:
		id, err := n.att.Get(ch.key, false)
		s.called(ch, id, err, protocol.OpGet)
	case k < 64:
		id, err := n.att.Depth(ch.key)
		s.called(ch, id, err, protocol.OpDepth)
	case k < 72:
		s.takeAll(ch)
	case k < 94:
		s.settle(ch, 1+s.r.IntN(3), s.r.IntN(5) == 0)
	case k < 96:
		s.close(ch)
	case k < 97:
		id, err := n.att.PrepareDelete(ch.key, false, false)
		s.called(ch, id, err, protocol.OpPrepareDelete)
	}
}

func (s *sim) called(ch *simChannel, id uint64, err error, op protocol.Op) {
	s.must(err)
	ch.calls[id] = op
}

func (s *sim) publish(ch *simChannel) {
	if ch.blocked {
		return
	}
	id := s.check.newMessage()
	body := binary.BigEndian.AppendUint32(nil, uint32(id))
	body = binary.BigEndian.AppendUint32(body, uint32(ch.next))
	m := message.Message{
		RoutingKey: fmt.Sprintf("%s/%d/%d", ch.node.id.Name, ch.node.id.Incarnation, ch.key.Channel), Body: body,
		Priority: uint8(ch.key.Channel % 2),
	}
	if s.dead && s.r.IntN(3) == 0 {
		m.Expiry = s.now + 1 + int64(s.r.IntN(200))
	}
	num, err := ch.node.att.Publish(ch.key, m)
	switch {
	case errors.Is(err, origin.ErrBlocked):
		ch.blocked = true
		s.check.nacked[id] = true // never made
	case err != nil:
		s.fatalf("publish: %v", err)
	case num != ch.next:
		s.fatalf("publish of %v got number %d, want %d", ch.key, num, ch.next)
	default:
		ch.waiting[num] = id
		ch.next++
	}
}

func (s *sim) consume(ch *simChannel, noAck bool) {
	if len(ch.tags) > 0 {
		return
	}
	s.tags++
	tag := fmt.Sprint("tag", s.tags)
	ch.tags[tag] = noAck
	id, err := ch.node.att.Consume(ch.key, origin.Consume{
		Tag: tag, NoAck: noAck, Prefetch: uint32(s.r.IntN(4)), Priority: int32(s.r.IntN(2)),
	})
	s.called(ch, id, err, protocol.OpConsume)
	ch.node.consumes++
	s.check.noAck[simConsumer{ch.node.id, ch.node.consumes}] = noAck
}

func (s *sim) takeAll(ch *simChannel) {
	for _, d := range ch.untaken {
		ch.node.att.Taken(d.Consumer, 1, d.Size)
	}
	ch.untaken = nil
}

func (s *sim) settle(ch *simChannel, n int, requeue bool) {
	n = min(n, len(ch.held))
	var ids []uint64
	for range n {
		i := 0
		if s.r.IntN(4) == 0 {
			i = s.r.IntN(len(ch.held))
		}
		d := ch.held[i]
		ch.held = append(ch.held[:i:i], ch.held[i+1:]...)
		ids = append(ids, d.id)
		s.check.settled(ch.node, d.msg, !requeue)
	}
	switch {
	case requeue:
		ch.node.att.Requeue(ch.key, ids)
	case s.r.IntN(4) == 0:
		ch.node.att.Reject(ch.key, ids)
	default:
		ch.node.att.Ack(ch.key, ids)
	}
}

func (s *sim) close(ch *simChannel) {
	n := ch.node
	for _, d := range ch.held {
		s.check.settled(n, d.msg, false)
	}
	n.att.CloseChannel(ch.key)
	for i := range n.chans {
		if n.chans[i] == ch {
			n.chans = append(n.chans[:i:i], n.chans[i+1:]...)
			return
		}
	}
}

// rest heals everything, lets consumers take all there is, and looks at what is left: nothing.
func (s *sim) rest() {
	s.calm = true
	for _, n := range s.nodes {
		if !n.up {
			s.boot(n)
			s.procUp = s.ups()
		}
		n.linked = true
		n.att.LinkUp(s.master.id)
		for _, ch := range n.chans {
			s.takeAll(ch)
		}
	}
	for round := 0; !s.drained(); round++ {
		if round > 20000 {
			s.fatalf("does not come to rest: %+v, %d messages", s.proc.Counters(), len(s.b.seqs))
		}
		n := s.nodes[s.r.IntN(simNodes)]
		if round%50 == 0 && len(s.nodes[0].chans) == 0 {
			s.clientAction(s.nodes[0])
		}
		for _, ch := range n.chans {
			if len(ch.tags) == 0 {
				s.consume(ch, false)
			}
			s.takeAll(ch)
			s.settle(ch, len(ch.held), false)
		}
		s.step()
	}
	if err := s.check.end(); err != nil {
		s.fatalf("at rest: %v", err)
	}
	if d := s.proc.Counters().Defects; d != 0 {
		s.fatalf("%d defects", d)
	}
	s.wind()
}

// wind closes all channels: nothing may be left of them anywhere.
func (s *sim) wind() {
	for _, n := range s.nodes {
		for len(n.chans) > 0 {
			s.close(n.chans[0])
		}
	}
	for round := 0; len(s.b.table) > 0 || s.proc.Counters().Consumers > 0; round++ {
		if round > 5000 {
			s.fatalf("origins or consumers are left: %v, %+v", s.b.Origins(), s.proc.Counters())
		}
		s.step()
	}
	for _, n := range s.nodes {
		if !n.att.Idle() {
			s.fatalf("attachment of %v is not idle", n.id)
		}
	}
}

func (s *sim) drained() bool {
	c := s.proc.Counters()
	if s.procUp != nil || len(s.b.seqs) > 0 || c.Unacked > 0 || c.Held > 0 || c.Waiting > 0 || !s.proc.Serving() {
		return false
	}
	for _, n := range s.nodes {
		p, _, a := n.att.Kept()
		if p > 0 || a > 0 || len(n.toMaster) > 0 || len(n.toNode) > 0 || len(n.meta) > 0 {
			return false
		}
		for _, ch := range n.chans {
			if len(ch.waiting) > 0 || len(ch.held) > 0 || len(ch.calls) > 0 || ch.blocked {
				return false
			}
		}
	}
	return true
}

// checker knows what channels did and saw.
type checker struct {
	confirmed, nacked, exempt map[int]bool
	consumed                  map[int]bool             // acknowledged, or sent without acknowledgement
	ackedBy                   map[int]protocol.NodeID  // a living node acknowledged it
	heldBy                    map[int]*simNode         // outstanding there
	sends                     map[int]int              // how often a master sent it
	seenIn                    map[int]uint64           // the last term that knows it was delivered
	dead                      map[protocol.NodeID]bool // incarnations
	noAck                     map[simConsumer]bool
	letters                   map[int]protocol.Position // where what was dead-lettered stood
	toldBy                    map[int]*simNode          // who alone told the present term of it

	n, nConfirmed, nNacked, nLost, nDeliveries, nAgain, nLetters int
}

func newChecker() *checker {
	return &checker{
		confirmed: map[int]bool{}, nacked: map[int]bool{}, exempt: map[int]bool{}, consumed: map[int]bool{},
		ackedBy: map[int]protocol.NodeID{}, heldBy: map[int]*simNode{}, sends: map[int]int{},
		seenIn: map[int]uint64{}, dead: map[protocol.NodeID]bool{},
		noAck: map[simConsumer]bool{}, toldBy: map[int]*simNode{}, letters: map[int]protocol.Position{},
	}
}

func (c *checker) newMessage() int { c.n++; return c.n }

func (c *checker) lost(id int) { c.exempt[id] = true }

func (c *checker) nodeDied(n *simNode) {
	c.dead[n.id] = true
	for id, h := range c.heldBy {
		if h == n {
			delete(c.heldBy, id)
		}
	}
	c.cut(n)
}

// cut: what n told the master may not have arrived; the mark that a message was delivered is lazy, and may be lost with both.
func (c *checker) cut(n *simNode) {
	for id, by := range c.toldBy {
		if by == n {
			delete(c.seenIn, id)
		}
	}
}

type simConsumer struct {
	node protocol.NodeID
	id   uint64
}

func (c *checker) sent(to protocol.NodeID, m protocol.Message) {
	d, ok := m.(*protocol.Deliver)
	if r, is := m.(*protocol.Reply); is && r.Get != nil {
		d, ok = r.Get, true
	}
	if ok {
		for i := range d.Items {
			id := msgID(&d.Items[i].Message)
			c.sends[id]++
			if c.noAck[simConsumer{to, d.Items[i].Consumer}] {
				c.consumed[id] = true
			}
		}
	}
}

func (c *checker) delivery(s *sim, ch *simChannel, d origin.Delivery, id int) error {
	c.nDeliveries++
	if by, ok := c.ackedBy[id]; ok && !c.dead[by] {
		return fmt.Errorf("was acknowledged by %v, which lives", by)
	}
	if h := c.heldBy[id]; h != nil {
		return fmt.Errorf("is outstanding at %s", h.id.Name)
	}
	if c.seenIn[id] == s.epoch && !d.Redelivered {
		return errors.New("was delivered before, and comes without the flag")
	}
	if d.Redelivered {
		if c.sends[id] < 2 {
			return errors.New("was never sent before, and comes with the flag")
		}
		c.nAgain++
	} else if c.sends[id] == 1 { // else the mark was lost with a master, and the first delivery with its node or link
		who := d.Tag + "<" + d.Message.RoutingKey
		num := uint64(binary.BigEndian.Uint32(d.Message.Body[4:]))
		if last := ch.order[who]; num <= last {
			return fmt.Errorf("is number %d of its publisher, after %d", num, last)
		}
		ch.order[who] = num
	}
	if d.NoAck {
		c.consumed[id] = true
		return nil
	}
	c.heldBy[id] = ch.node
	c.seenIn[id] = s.epoch
	delete(c.toldBy, id)
	return nil
}

// lettered: a target has the letter; it would not know the same one again from another position.
func (c *checker) lettered(l *queue.Letter) error {
	id := msgID(&l.Message)
	if at, again := c.letters[id]; again && at != l.Position {
		return fmt.Errorf("message %d became a letter at %v and at %v", id, at, l.Position)
	}
	if h := c.heldBy[id]; h != nil {
		return fmt.Errorf("message %d became a letter, and is outstanding at %s", id, h.id.Name)
	}
	c.letters[id] = l.Position
	c.consumed[id] = true
	return nil
}

func (c *checker) settled(n *simNode, id int, acked bool) {
	delete(c.heldBy, id)
	if epoch, open := n.att.Session(); open {
		if epoch > c.seenIn[id] { // given back, or acknowledged, to this term's master
			c.seenIn[id], c.toldBy[id] = epoch, n
		}
	}
	if acked {
		c.ackedBy[id] = n.id
		c.consumed[id] = true
	}
}

func (c *checker) end() error {
	for id := range c.confirmed {
		if c.nacked[id] {
			return fmt.Errorf("message %d was confirmed and nacked", id)
		}
		if !c.consumed[id] && !c.exempt[id] {
			return fmt.Errorf("message %d was confirmed and is lost", id)
		}
	}
	return nil
}

func (c *checker) count(o *checker) {
	c.n += o.n
	c.nConfirmed += len(o.confirmed)
	c.nNacked += len(o.nacked)
	c.nLost += len(o.exempt)
	c.nDeliveries += o.nDeliveries
	c.nAgain += o.nAgain
	c.nLetters += len(o.letters)
}
