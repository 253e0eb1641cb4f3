package gm

import (
	"math"

	"warren/dataplane/gm/internal/mutation"
)

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
		n := 1
		if e.num > e.s.fwd && e.s != g.succ {
			if n = g.inOneFrame(e); n == 0 {
				return
			}
			g.transmit(e, n)
		}
		g.passed(n)
	}
}

// passed moves the cursor over n messages of one sender that the successor now has, or needs not.
func (g *Group) passed(n int) {
	o := &g.out
	s := o.cursor.s
	for range n {
		e := o.cursor
		s.fwd = max(s.fwd, e.num)
		o.cursor = e.next
		if e.num <= s.stable {
			g.remove(e)
		}
	}
	g.settle(s)
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

// asItCame tells whether the frame that e begins can go on byte for byte: it came under the present view, for then every
// place in it means the same.
func (g *Group) asItCame(e *entry) bool {
	return e.frame != nil && e.at == 0 && e.view == g.view.Version
}

// inOneFrame is the number of messages from e on that leave in one frame: those that came in one, or messages of one sender
// that stand next to each other in the log, within limits. Credit counts by message (R10): none is sent that could not go
// alone. A frame that waits for a message (mark) stays behind it, and before the next.
func (g *Group) inOneFrame(e *entry) int {
	limit := uint64(math.MaxUint64)
	if len(g.out.marks) > 0 {
		limit = g.out.marks[0].pos
	}
	most, room := 1, 0
	whole := g.asItCame(e)
	switch {
	case whole:
		most = int(e.of)
	case g.gathers(e):
		most, room = maxBatch, g.batchBytes()
	}
	n, credit := 0, g.out.credit
	for x := e; x != nil && n < most && x.s == e.s && x.pos <= limit; x = x.next {
		if x.class == Bulk {
			if credit <= 0 && g.rule != mutation.IgnoreCredit {
				break
			}
			credit -= x.size()
		}
		if n > 0 && !whole {
			if room -= len(x.payload); room < 0 || g.asItCame(x) || !g.gathers(x) {
				break
			}
		} else {
			room -= len(x.payload)
		}
		n++
	}
	return n
}

// gathers tells whether a message may share a frame with its neighbours.
func (g *Group) gathers(e *entry) bool {
	return e.class != classClosed && e.frags == nil && len(e.payload) <= g.batchBytes()
}

func (g *Group) batchBytes() int { return min(batchBytes, g.cfg.Fragment) }

// transmit sends n messages, from e on along the log, to the successor.
func (g *Group) transmit(e *entry, n int) {
	g.forwards += uint64(n)
	lazy := true
	for x, i := e, 0; i < n; x, i = x.next, i+1 {
		lazy = lazy && x.lazy
		if x.class == Bulk {
			g.out.credit -= x.size()
			g.out.sent += x.size()
		}
	}
	v := g.view.Version
	switch {
	case g.asItCame(e) && int(e.of) == n:
		g.send(g.succ, e.frame)
	case n > 1:
		frame, rest := encodeBatch(v, e, n)
		g.emit(Output{Kind: Send, To: g.succ.id, Frame: frame, Rest: rest, Lazy: lazy})
	case e.view == v && e.frags != nil:
		for _, f := range e.frags {
			g.send(g.succ, f)
		}
		e.frags = nil
	default:
		g.encode(e)
	}
}

// encode sends one message in a frame of its own, or in fragments (R11).
func (g *Group) encode(e *entry) {
	v := g.view.Version
	e.frags, e.frame, e.at, e.of, e.view = nil, nil, 0, 1, v
	size := len(e.payload)
	switch {
	case size > g.cfg.Fragment:
		for at := 0; at < size; at += g.cfg.Fragment {
			piece := e.payload[at:min(at+g.cfg.Fragment, size)]
			g.emit(Output{Kind: Send, To: g.succ.id, Frame: fragmentHead(v, e, at, len(piece)), Rest: [][]byte{piece}})
		}
	case size >= inPlace:
		g.emit(Output{Kind: Send, To: g.succ.id, Frame: dataHead(v, e.s, e.num, e.class, size, 0), Rest: [][]byte{e.payload}, Lazy: e.lazy})
	default:
		e.frame, e.payload = encodeData(v, e.s, e.num, e.class, e.payload)
		g.emit(Output{Kind: Send, To: g.succ.id, Frame: e.frame, Lazy: e.lazy})
	}
}
