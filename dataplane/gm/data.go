package gm

import (
	"fmt"
)

// Broadcast sends payload to every member of the group, this one included, and returns the message's number (R1). Numbers of
// a sender grow, but not always by one: the group broadcasts SenderClosed under the same count. The group keeps payload:
// it must not change any more. Errors: ErrWindowFull, ErrExpelled, ErrNotJoined, ErrTooLarge. Bulk may be broadcast by
// one member at a time only (R10).
func (g *Group) Broadcast(payload []byte, c Class) (uint64, error) {
	switch {
	case g.expelled:
		return 0, ErrExpelled
	case g.view.Version == 0 || g.fresh:
		return 0, ErrNotJoined
	case c > Barrier:
		return 0, fmt.Errorf("gm: broadcast: unknown class %d", c)
	case len(payload) > g.cfg.MaxMessage:
		return 0, fmt.Errorf("gm: broadcast %d bytes, limit %d: %w", len(payload), g.cfg.MaxMessage, ErrTooLarge)
	case g.succ == nil:
	case c == Bulk && (!g.out.started || g.unstable >= int64(g.cfg.Window)),
		c != Bulk && g.control >= int64(g.cfg.ControlWindow):
		g.wantOpen = true
		return 0, ErrWindowFull
	}
	n := g.broadcast(payload, c)
	g.check()
	return n, nil
}

// Lazy says that nobody waits for the own message number, the newest, so that the frame that carries it, if it carries no other,
// may wait for company (Output.Lazy). It holds for the first hop: whoever gets the message passes it on at once.
func (g *Group) Lazy(number uint64) {
	if g.me != nil && g.me.last != nil && g.me.last.num == number {
		g.me.last.lazy = true
	}
}

func (g *Group) broadcast(payload []byte, c Class) uint64 {
	n := g.me.recv + 1
	g.accept(g.me, n, c, message{payload: payload})
	if g.succ == nil {
		g.complete()
	}
	return n
}

// message is how a message came: in one frame, in fragments, or from the user.
type message struct {
	view    uint64
	frame   []byte
	at, of  uint16 // its place in frame, among so many
	frags   [][]byte
	payload []byte
	credit  int64 // owed to the predecessor
}

// accept is the common part of R1 and R2: append, forward, deliver, in this order. What is forwarded leaves, gathered into
// few frames, when the outputs are taken; the log keeps the order in which it may leave.
func (g *Group) accept(s *sender, num uint64, c Class, m message) {
	s.recv = num
	if c == Bulk || c == Barrier {
		s.queue = append(s.queue, held{num, m.credit})
		g.held += m.credit
	}
	if g.succ != nil {
		e := g.log.append(s, num, c)
		e.view, e.frame, e.at, e.of, e.frags, e.payload = m.view, m.frame, m.at, m.of, m.frags, m.payload
		g.log.bytes += e.size()
		if s == g.me {
			g.count(e, 1)
		}
		if g.out.cursor == nil && g.out.started {
			g.out.cursor = e
		}
	}
	s.refreshPersisted()
	g.settle(s)
	if c == classClosed {
		g.deliverClosed(s, num, m.payload)
	} else {
		g.emit(Output{Kind: Deliver, Sender: s.id, Number: num, Class: c, Payload: m.payload})
	}
	g.noteToken(s)
}

// count keeps the sums of own messages in the log, against Window and ControlWindow.
func (g *Group) count(e *entry, sign int64) {
	if e.class == Bulk {
		g.unstable += sign * e.size()
	} else {
		g.control += sign * e.size()
	}
}

func (g *Group) remove(e *entry) {
	if e.s == g.me {
		g.count(e, -1)
	}
	g.log.remove(e)
}

// verdict is what R2 says of a message that came in.
type verdict uint8

const (
	accepted verdict = iota
	dropped          // a repeat, or of a closed sender
	refused          // a gap: the link was reset
)

// judge is R2. A message whose credit is not kept in the sender's queue gives it back at once (R10); whole is false while
// more fragments of it follow.
func (g *Group) judge(from Member, s *sender, num uint64, credit int64, whole bool) verdict {
	switch {
	case s == nil || num <= s.recv:
		if whole {
			g.repeats++
			g.giveBack(credit)
		}
		return dropped
	case s.state == stateRemembered:
		g.defects.AfterClose++
		if whole {
			g.giveBack(credit)
		}
		return dropped
	case num != s.recv+1 || s == g.me:
		g.defects.Gaps++
		g.reset(from)
		return refused
	}
	return accepted
}

// creditOf is what a message of so many bytes uses of the window (R10).
func creditOf(c Class, size uint64) int64 {
	if c != Bulk {
		return 0
	}
	return int64(size) + MessageOverhead
}

// onData is R2 for one message, or one fragment.
func (g *Group) onData(from Member, p *parsed) string {
	s, ok := g.resolve(p.view, p.ref)
	if !ok {
		return g.unreadable(from, p)
	}
	size := uint64(len(p.body))
	if p.typ == frameFragment {
		size = p.total
	}
	credit := creditOf(p.class, size)
	whole := p.typ == frameData || p.offset+uint64(len(p.body)) == p.total
	if g.judge(from, s, p.num, credit, whole) != accepted {
		return ""
	}
	m := message{view: p.view, frame: p.raw, of: 1, payload: p.body, credit: credit}
	if p.typ == frameFragment {
		whole, why := g.gather(s, p)
		if why != "" || whole == nil {
			return why
		}
		m.frame, m.frags, m.payload = nil, g.in.partial.frags, whole
		g.in.partial = partial{}
	} else if g.in.partial.s != nil {
		return "message between fragments"
	}
	g.noteBulk(s, p.class)
	g.accept(s, p.num, p.class, m)
	return ""
}

// onBatch is R2 for several messages in one frame, one after the other.
func (g *Group) onBatch(from Member, p *parsed) string {
	s, ok := g.resolve(p.view, p.ref)
	if !ok {
		return g.unreadable(from, p)
	}
	m := message{view: p.view, frame: p.raw, of: uint16(p.count)}
	r := reader{b: p.body}
	for i := range p.count {
		num := p.num + uint64(i)
		c := Class(r.uint())
		m.at, m.payload = uint16(i), r.bin()
		m.credit = creditOf(c, uint64(len(m.payload)))
		switch g.judge(from, s, num, m.credit, true) {
		case refused:
			return ""
		case dropped:
			continue
		}
		if g.in.partial.s != nil {
			return "message between fragments"
		}
		g.noteBulk(s, c)
		g.accept(s, num, c, m)
	}
	return ""
}

// noteBulk counts a second sender of bulk beside this member (R10).
func (g *Group) noteBulk(s *sender, c Class) {
	if c == Bulk && g.unstable > 0 && s.state == stateMember {
		g.defects.BulkSenders++
	}
}

// gather collects the fragments of one message (R11) and returns it once it is whole. Memory is taken for what has arrived,
// never for what a frame announces.
func (g *Group) gather(s *sender, p *parsed) (whole []byte, why string) {
	f := &g.in.partial
	if f.s == nil {
		*f = partial{s: s, num: p.num, class: p.class, total: p.total, view: p.view}
	}
	if f.s != s || f.num != p.num || f.class != p.class || f.total != p.total || f.view != p.view || f.got != p.offset {
		return nil, "fragments do not fit together"
	}
	f.got += uint64(len(p.body))
	f.frags = append(f.frags, p.raw)
	f.parts = append(f.parts, p.body)
	if f.got < f.total {
		return nil, ""
	}
	whole = make([]byte, 0, f.total)
	for _, b := range f.parts {
		whole = append(whole, b...)
	}
	return whole, ""
}

// dropStable removes the messages of s that are stable from the log, save those that still wait for the successor's credit:
// a successor that the sender did not count when they became stable gets them nevertheless, or it would see a gap.
func (g *Group) dropStable(s *sender) {
	for e := s.first; e != nil && e.num <= s.stable; e = s.first {
		if g.out.started && g.out.cursor != nil && e.pos >= g.out.cursor.pos {
			break
		}
		g.remove(e)
	}
	g.settle(s)
}
