package gm

import (
	"fmt"

	"warren/dataplane/gm/internal/mutation"
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
	frags   [][]byte
	payload []byte
	credit  int64 // owed to the predecessor
}

// accept is the common part of R1 and R2: append, forward, deliver, in this order.
func (g *Group) accept(s *sender, num uint64, c Class, m message) {
	s.recv = num
	if c == Bulk || c == Barrier {
		s.queue = append(s.queue, held{num, m.credit})
		g.held += m.credit
	}
	payload := m.payload
	if g.succ != nil {
		e := g.log.append(s, num, c)
		e.view, e.frame, e.frags, e.payload = m.view, m.frame, m.frags, m.payload
		g.log.bytes += e.size()
		if s == g.me {
			g.count(e, 1)
		}
		if g.out.cursor == nil && g.out.started {
			g.out.cursor = e
		}
		if m.frame == nil && m.frags == nil && len(m.payload) <= g.cfg.Fragment {
			e.view = g.view.Version
			e.frame, e.payload = encodeData(e.view, s, num, c, m.payload)
			payload = e.payload
		}
		g.pump()
	}
	s.refreshPersisted()
	g.settle(s)
	if c == classClosed {
		g.deliverClosed(s, num, payload)
	} else {
		g.emit(Output{Kind: Deliver, Sender: s.id, Number: num, Class: c, Payload: payload})
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

// onData is R2. A message whose credit is not kept in the sender's queue gives it back at once (R10).
func (g *Group) onData(from Member, p *parsed) string {
	s, ok := g.resolve(p.view, p.ref)
	if !ok {
		return g.unreadable(from, p)
	}
	size := int64(0)
	if p.class == Bulk {
		size = int64(len(p.body)) + MessageOverhead
		if p.typ == frameFragment {
			size = int64(p.total) + MessageOverhead
		}
	}
	last := p.typ == frameData || p.offset+uint64(len(p.body)) == p.total
	switch {
	case s == nil || p.num <= s.recv:
		if last {
			g.repeats++
			g.giveBack(size)
		}
		return ""
	case s.state == stateRemembered:
		g.defects.AfterClose++
		if last {
			g.giveBack(size)
		}
		return ""
	case p.num != s.recv+1 || s == g.me:
		g.defects.Gaps++
		g.reset(from)
		return ""
	}
	m := message{view: p.view, frame: p.raw, payload: p.body, credit: size}
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
	if p.class == Bulk && g.unstable > 0 && s.state == stateMember {
		g.defects.BulkSenders++
	}
	g.accept(s, p.num, p.class, m)
	return ""
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

// pump sends what may be sent to the successor: messages in log order as far as its credit goes (R10), and the frames that
// waited for them. Progress and Stable do not pass through here: the minimum at the receiver (R3) makes it harmless
// that Progress overtakes a message which waits for credit, and Stable is cut to what was sent.
func (g *Group) pump() {
	o := &g.out
	for o.started {
		if len(o.marks) > 0 && (o.cursor == nil || o.cursor.pos > o.marks[0].pos) {
			g.passMark()
			continue
		}
		e := o.cursor
		if e == nil {
			return
		}
		if e.num > e.s.fwd && e.s != g.succ {
			if e.class == Bulk {
				if o.credit <= 0 && g.rule != mutation.IgnoreCredit {
					return
				}
				o.credit -= e.size()
				o.sent += e.size()
			}
			g.transmit(e)
		}
		s := e.s
		s.fwd = max(s.fwd, e.num)
		o.cursor = e.next
		if e.num <= s.stable {
			g.remove(e)
		}
		g.settle(s)
	}
}

func (g *Group) passMark() {
	m := g.out.marks[0]
	g.out.marks = g.out.marks[1:]
	if len(g.out.marks) == 0 {
		g.out.marks = nil
	}
	for _, r := range m.rise {
		r.s.fwd = max(r.s.fwd, r.to)
	}
	g.send(g.succ, m.frame)
}

// transmit sends one message to the successor: as it came in, if it came under the present view, for then every index in it
// means the same.
func (g *Group) transmit(e *entry) {
	g.forwards++
	v := g.view.Version
	if e.view == v && e.frame != nil {
		g.send(g.succ, e.frame)
		return
	}
	if e.view == v && e.frags != nil {
		for _, f := range e.frags {
			g.send(g.succ, f)
		}
		e.frags = nil
		return
	}
	e.frags, e.frame, e.view = nil, nil, v
	if len(e.payload) <= g.cfg.Fragment {
		e.frame, e.payload = encodeData(v, e.s, e.num, e.class, e.payload)
		g.send(g.succ, e.frame)
		return
	}
	for at := 0; at < len(e.payload); at += g.cfg.Fragment {
		g.send(g.succ, encodeFragment(v, e, at, e.payload[at:min(at+g.cfg.Fragment, len(e.payload))]))
	}
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
