package gm

import "warren/dataplane/gm/internal/mutation"

// Persisted tells that this member has made durable every Bulk and Barrier message of sender up to number upTo. Control
// messages need no call: the group keeps the contiguous watermark itself. A number that is passed already does nothing; one
// above what was received counts as what was received. It is also to be told of senders that are closed.
func (g *Group) Persisted(m Member, upTo uint64) {
	if g.expelled {
		return
	}
	s := g.find(m)
	if s == nil {
		for _, t := range g.ghosts {
			if t.id == m {
				s = t
			}
		}
	}
	if s == nil {
		return
	}
	upTo = min(upTo, s.recv)
	if upTo <= s.userPersisted {
		return
	}
	s.userPersisted = upTo
	changed := s.refreshPersisted()
	g.settle(s)
	if s.state == stateForgotten {
		g.settleGhosts()
	}
	if changed && s == g.me {
		g.complete()
	}
	g.check()
}

// Awaited tells that sender waits for the receipt of its message number by all, whether or not anything before it is durable:
// this member tells that receipt at once, not with durability. It takes that every member is told so by its user. Unknown
// senders, and numbers that are told already, do nothing.
func (g *Group) Awaited(sender Member, number uint64) {
	if s := g.find(sender); s != nil && !g.expelled {
		s.awaited = max(s.awaited, number)
	}
}

// onProgress is R3 at the receiver.
func (g *Group) onProgress(p *parsed) string {
	for i := range p.items {
		if r := p.items[i].ref.index; r >= len(g.ring) && p.view == g.view.Version {
			return "member index outside of the view"
		}
	}
	for i := range p.items {
		it := &p.items[i]
		s, ok := g.resolve(p.view, it.ref)
		if !ok || s == nil {
			continue
		}
		s.upKnown, s.upRecv, s.upPers = true, it.a, it.b
		if s == g.me {
			g.complete()
		}
	}
	return ""
}

// flushProgress tells the successor the watermarks that changed, in one frame for all senders (R3).
func (g *Group) flushProgress() {
	if !g.out.started {
		return
	}
	n := 0
	b := g.scratch[:0]
	for _, s := range g.ring {
		if s == g.me {
			continue
		}
		recv, pers := s.recv, s.persisted
		if s != g.pred && g.rule != mutation.ProgressAlone {
			if !s.upKnown {
				continue
			}
			recv, pers = min(recv, s.upRecv), min(pers, s.upPers)
		}
		// Nothing is lost by silence about a sender that has not sent anything.
		if recv == 0 || s.told && recv == s.toldRecv && pers == s.toldPers {
			continue
		}
		// Receipt alone is not told while something before it is not durable: it goes with that. Nobody can use it sooner, for what
		// is complete is told to users in order, but for what the sender waits for by itself.
		awaited := s.toldRecv < s.awaited && s.awaited <= recv
		if s.told && pers == s.toldPers && pers < recv && !awaited {
			continue
		}
		s.told, s.toldRecv, s.toldPers = true, recv, pers
		b = appendUint(appendUint(appendRef(b, s), recv), pers)
		n++
	}
	g.scratch = b
	if n > 0 {
		f := appendArray(appendHead(make([]byte, 0, 16+len(b)), frameProgress, g.view.Version), 3*n)
		g.send(g.succ, append(f, b...))
	}
}

// complete is R4: it learns what all have of the own messages.
func (g *Group) complete() {
	me := g.me
	recv, pers := me.recv, me.persisted
	if g.succ != nil {
		if !me.upKnown {
			return
		}
		recv, pers = min(me.upRecv, me.recv), min(me.upPers, me.persisted)
		if g.rule == mutation.PersistedByOthers {
			pers = me.upPers
		}
	}
	if recv > me.stable {
		me.stable = recv
		me.stableDirty = g.succ != nil
		g.dropStable(me)
		g.forgetClosedBy(me)
	}
	if recv > g.userRecv || pers > g.userPers {
		g.userRecv, g.userPers = max(recv, g.userRecv), max(pers, g.userPers)
		g.userDirty = true
	}
}

// onStable is R4 at the members of the chain.
func (g *Group) onStable(from Member, p *parsed) string {
	for i := range p.items {
		if _, ok := g.resolve(p.view, p.items[i].ref); !ok {
			return g.unreadable(from, p)
		}
	}
	for i := range p.items {
		it := &p.items[i]
		s, _ := g.resolve(p.view, it.ref)
		if s == nil || it.a <= s.stable {
			continue
		}
		if it.a > s.recv || s == g.me {
			g.defects.StableAhead++
			g.reset(from)
			return ""
		}
		s.stable = it.a
		s.stableDirty = true
		g.dropStable(s)
		g.forgetClosedBy(s)
	}
	return ""
}

// flushStable passes on what is stable (R4), never past a message that waits for credit.
func (g *Group) flushStable() {
	if !g.out.started {
		return
	}
	n := 0
	b := g.scratch[:0]
	for _, s := range g.senders {
		if !s.stableDirty {
			continue
		}
		to := s.stable
		if s.first != nil && g.rule != mutation.StableOvertakes {
			to = min(to, s.fwd)
		}
		s.stableDirty = to < s.stable
		if s == g.succ || to <= s.stableSent {
			continue
		}
		s.stableSent = to
		b = appendUint(appendRef(b, s), to)
		n++
	}
	g.scratch = b
	if n > 0 {
		f := appendArray(appendHead(make([]byte, 0, 16+len(b)), frameStable, g.view.Version), 2*n)
		g.emit(Output{Kind: Send, To: g.succ.id, Frame: append(f, b...), Lazy: true})
	}
}

// flush sends and tells what is coalesced until the outputs are taken.
func (g *Group) flush() {
	if g.expelled || g.view.Version == 0 {
		return
	}
	g.answer()
	g.pump()
	g.flushStable()
	g.flushProgress()
	g.flushCredit()
	if g.userDirty {
		g.userDirty = false
		g.emit(Output{Kind: Progress, Received: g.userRecv, Persisted: g.userPers})
	}
	if g.wantOpen && (g.succ == nil || g.out.started && g.unstable <= int64(g.cfg.Window)/2 && g.control <= int64(g.cfg.ControlWindow)/2) {
		g.wantOpen = false
		g.emit(Output{Kind: WindowOpen})
	}
}

// settle gives the predecessor back the credit of what of s is forwarded and persisted (R10).
func (g *Group) settle(s *sender) {
	if n := s.settle(); n > 0 {
		g.held -= n
		g.giveBack(n)
	}
}

func (g *Group) settleGhosts() {
	k := 0
	for _, s := range g.ghosts {
		g.settle(s)
		if len(s.queue) > 0 {
			g.ghosts[k] = s
			k++
		}
	}
	clear(g.ghosts[k:])
	g.ghosts = g.ghosts[:k]
}

func (g *Group) giveBack(n int64) {
	g.in.returned += n
}

// flushCredit tells the predecessor what it may send again, a quarter of the window at a time (R10).
func (g *Group) flushCredit() {
	if !g.in.started || g.in.returned-g.in.announced < max(1, int64(g.cfg.Window)/4) {
		return
	}
	g.in.announced = g.in.returned
	b := appendHead(make([]byte, 0, 24), frameCredit, g.view.Version)
	b = appendUint(b, g.in.session)
	g.send(g.pred, appendUint(b, uint64(g.in.returned)))
}

// onCredit is R10 at the sending end. Credit of an earlier session says nothing.
func (g *Group) onCredit(p *parsed) {
	if !g.out.started || p.session != g.out.session {
		return
	}
	g.out.credit = g.out.window + int64(min(p.amount, 1<<62)) - g.out.sent
}
