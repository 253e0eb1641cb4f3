package gm

import "warren/dataplane/gm/internal/mutation"

// startTokens begins a round for every sender that is not closed, at the oldest member of a view (R8).
func (g *Group) startTokens() {
	for i := 0; i < len(g.senders); i++ {
		if s := g.senders[i]; s.state == stateClosing {
			if g.rule == mutation.CloseWithoutToken {
				g.broadcast(encodeClosed(s.id, s.recv), classClosed)
				continue
			}
			g.startToken(s)
		}
	}
	g.sendTokens(func(s *sender) bool { return s.tokOut })
}

func (g *Group) startToken(s *sender) {
	s.token, s.tokMin, s.tokMax = true, s.recv, s.recv
	s.tokOut, s.tokStart = true, s.recv
}

// noteToken starts a returned token again once the closer's own number differs from the one it started with (R8).
func (g *Group) noteToken(s *sender) {
	if s.state != stateClosing || g.me.index != 0 || g.succ == nil || s.tokOut || !s.token || s.recv == s.tokStart {
		return
	}
	g.startToken(s)
	g.sendTokens(func(t *sender) bool { return t == s })
}

// sendTokens sends the last tokens of the chosen senders in one frame, behind the messages that are in the log (R8). While
// the link is not started they stay remembered, and go out after its Start.
func (g *Group) sendTokens(which func(*sender) bool) {
	if !g.out.started {
		return
	}
	n := 0
	var b []byte
	for _, s := range g.senders {
		if s.token && (s.state == stateClosing || s.state == stateRemembered) && which(s) {
			b = appendUint(appendUint(appendMember(b, s.id), s.tokMin), s.tokMax)
			n++
		}
	}
	if n > 0 {
		f := appendArray(appendHead(make([]byte, 0, 16+len(b)), frameClosing, g.view.Version), 3*n)
		g.addMark(mark{pos: g.log.pos, frame: append(f, b...), token: true})
	}
}

// onTokens folds and passes on, or, at the closer, ends the round (R8). A sender that is forgotten here is closed: the token
// ends.
func (g *Group) onTokens(p *parsed) {
	closer := g.me.index == 0
	for _, s := range g.senders {
		s.listed = false
	}
	for i := range p.items {
		it := &p.items[i]
		s := g.findRef(it.ref)
		if s == nil || s.state == stateMember {
			continue
		}
		if closer {
			g.tokenBack(s, it.a, it.b)
			continue
		}
		s.token, s.tokMin, s.tokMax = true, min(it.a, s.recv), max(it.b, s.recv)
		s.listed = true
	}
	if !closer {
		g.sendTokens(func(s *sender) bool { return s.listed })
	}
}

func (g *Group) tokenBack(s *sender, lo, hi uint64) {
	if s.state != stateClosing {
		return
	}
	equal := lo == hi
	if g.rule == mutation.CloseMinOnly {
		equal = lo == s.tokStart
	}
	if equal {
		g.broadcast(encodeClosed(s.id, lo), classClosed)
		return
	}
	s.tokOut = false
	g.noteToken(s)
}

// deliverClosed applies SenderClosed, message num of closer (R8). A second one for the same sender is ignored.
func (g *Group) deliverClosed(closer *sender, num uint64, payload []byte) {
	r := reader{b: payload}
	target, last := r.member(), r.uint()
	s := g.findRef(target)
	if s == nil || s.state == stateRemembered {
		return
	}
	if s.state == stateMember || s.recv != last {
		g.defects.CloseAt++
		if s.state == stateMember {
			return
		}
	}
	s.stable = max(s.stable, last)
	s.state, s.closer, s.closedAt = stateRemembered, closer, num
	g.emit(Output{Kind: SenderClosed, Sender: s.id, Number: last})
	g.dropStable(s)
	g.forgetClosedBy(s)
	if g.rule == mutation.ForgetAtOnce || g.succ == nil {
		g.forget(s)
	}
}
