package gm

import "warren/dataplane/gm/internal/mutation"

// inLink is the link from the predecessor.
type inLink struct {
	started   bool   // R7
	session   uint64 // counts this member's Resumes; the Start that answers the last one opens the link
	returned  int64  // credit given back in this session (R10)
	announced int64  // of which the predecessor was told
	partial   partial
}

// partial is a fragmented message that is not whole yet (R11). Fragments of one message are never interleaved with others
// of their group, so there is one at most.
type partial struct {
	s     *sender
	num   uint64
	class Class
	total uint64
	got   uint64
	view  uint64
	frags [][]byte
	parts [][]byte
}

// outLink is the link to the successor.
type outLink struct {
	started bool
	session uint64 // of the Resume that was answered
	window  int64
	sent    int64  // bulk sent in this session
	credit  int64  // bytes that may still be sent; the last message may take it below zero
	cursor  *entry // the first message not yet sent
	marks   []mark // frames that wait for the messages before them
	pending resume // unanswered, session 0: none
}

// mark is a frame that must not pass the messages which stood in the log when it arose (R8, R10): pos is the last of them.
type mark struct {
	pos   uint64
	frame []byte
	token bool
	rise  []rise // a Start{again}: what the successor has once it got it
}

type rise struct {
	s  *sender
	to uint64
}

// resume is what a Resume said.
type resume struct {
	session uint64
	fresh   bool
	window  int64
	has     []Baseline // resolved when it is answered: a fresh member learns of senders by its own Start
}

// maxMarks limits the frames that wait for credit; they are few, since each stems from a Start or a round of tokens.
const maxMarks = 256

func (o *outLink) dropTokens() {
	k := 0
	for _, m := range o.marks {
		if !m.token {
			o.marks[k] = m
			k++
		}
	}
	clear(o.marks[k:])
	o.marks = o.marks[:k]
}

func (g *Group) linkUp(node string, inc uint64) bool {
	for _, l := range g.links {
		if l.incarnation == inc && l.node == node {
			return true
		}
	}
	return false
}

// LinkUp tells that the link to that incarnation of node is there, for the first time or again. It must come before the
// frames that arrive over it; outputs from before it must not go out over it. A LinkUp without a LinkDown counts as both.
func (g *Group) LinkUp(node string, incarnation uint64) {
	if g.expelled {
		return
	}
	for i := 0; i < len(g.links); i++ {
		if l := g.links[i]; l.node == node {
			g.LinkDown(l.node, l.incarnation)
			i--
		}
	}
	g.links = append(g.links, linkID{node, incarnation})
	g.sendResume()
	g.check()
}

// LinkDown tells that the link to that incarnation of node broke: frames handed to it may be lost.
func (g *Group) LinkDown(node string, incarnation uint64) {
	if g.expelled {
		return
	}
	for i, l := range g.links {
		if l.node == node && l.incarnation == incarnation {
			g.links = append(g.links[:i], g.links[i+1:]...)
			break
		}
	}
	g.aside.drop(node, incarnation)
	if g.pred.is(node, incarnation) {
		g.stopIn()
	}
	if g.succ.is(node, incarnation) {
		g.stopOut()
	}
	g.check()
}

func (s *sender) is(node string, inc uint64) bool {
	return s != nil && s.id.Incarnation == inc && s.id.Node == node
}

// reset gives up a link that did what the rules exclude (R2, R5); nothing from it counts until its LinkUp.
func (g *Group) reset(m Member) {
	g.LinkDown(m.Node, m.Incarnation)
	g.emit(Output{Kind: ResetLink, To: m})
}

func (g *Group) stopIn() {
	g.in.started = false
	if g.rule != mutation.KeepPartial {
		g.in.partial = partial{}
	}
	g.hist = nil
}

// stopOut closes the link to the successor and drops the messages that were kept for it alone.
func (g *Group) stopOut() {
	g.out = outLink{}
	for e := g.log.head; e != nil; {
		next := e.next
		if e.num <= e.s.stable {
			g.remove(e)
		}
		e = next
	}
	for _, s := range g.senders {
		g.settle(s)
	}
	g.settleGhosts()
}

// sendResume asks the predecessor to start its link, if there is one that is up and not started (R7).
func (g *Group) sendResume() {
	if g.pred == nil || g.in.started || !g.linkUp(g.pred.id.Node, g.pred.id.Incarnation) {
		return
	}
	g.in.session++
	free := int64(g.cfg.Window) - g.held
	g.in.returned, g.in.announced = min(0, free), 0 // what is above the window must be settled before any credit
	b := appendHead(make([]byte, 0, 64+48*len(g.senders)), frameResume, g.view.Version)
	b = appendUint(b, g.in.session)
	b = appendBool(b, g.fresh)
	b = appendUint(b, uint64(max(0, free)))
	b = appendArray(b, 2*len(g.senders))
	for _, s := range g.senders {
		b = appendUint(appendMember(b, s.id), s.recv)
	}
	g.send(g.pred, b)
}

func (g *Group) send(to *sender, frame []byte) {
	g.emit(Output{Kind: Send, To: to.id, Frame: frame})
}

// onResume keeps the successor's Resume. flush answers it as soon as this member is not fresh (R7), and so answers once
// when several came at a time.
func (g *Group) onResume(p *parsed) {
	r := resume{session: p.session, fresh: p.flag, window: int64(min(p.amount, 1<<40))}
	for _, it := range p.items {
		r.has = append(r.has, Baseline{it.ref.member(), it.a})
	}
	g.stopOut()
	g.out.pending = r
}

// answer opens the link to the successor: Start, the messages that it lacks in log order, Progress, tokens (R7).
func (g *Group) answer() {
	r := g.out.pending
	if r.session == 0 || g.fresh && g.rule != mutation.FreshAnswers {
		return
	}
	g.out = outLink{started: true, session: r.session, window: r.window, credit: r.window, cursor: g.log.head}
	for _, s := range g.senders {
		s.told, s.stableDirty, s.stableSent = false, false, s.stable
		s.fwd = s.stable
		if !r.fresh {
			s.fwd = ^uint64(0) // a sender that the successor has forgotten: it would drop its messages
		}
	}
	if !r.fresh {
		for _, h := range r.has {
			if s := g.find(h.Sender); s != nil {
				s.fwd = max(h.Number, s.stable)
			}
		}
	}
	g.send(g.succ, g.encodeStart(r.session, false))
	if g.rule == mutation.ResumeUnordered {
		g.unorder()
	}
	g.pump()
	g.flushProgress()
	g.sendTokens(func(s *sender) bool { return s.token })
}

// unorder is mutation.ResumeUnordered: it sorts the log by sender.
func (g *Group) unorder() {
	for _, s := range g.senders {
		for e := s.first; e != nil; e = e.after {
			if e.num > s.fwd && s != g.succ {
				g.transmit(e, 1)
			}
		}
	}
	g.out.cursor = nil
}

func (g *Group) encodeStart(session uint64, again bool) []byte {
	b := appendHead(make([]byte, 0, 64+48*len(g.senders)), frameStart, g.view.Version)
	b = appendUint(b, session)
	b = appendBool(b, again)
	b = appendArray(b, 2*len(g.senders))
	for _, s := range g.senders {
		b = appendUint(appendMember(b, s.id), s.stable)
	}
	return b
}

// onStart applies a Start or a Start{again} from the predecessor (R7, R9).
func (g *Group) onStart(p *parsed) {
	again := p.flag
	if !again {
		if p.session != g.in.session && g.rule != mutation.OpenOlderStart {
			g.discarded++
			return
		}
		g.in.started = true
		g.hist = nil
		if g.rule != mutation.KeepPartial {
			g.in.partial = partial{}
		}
		if g.fresh {
			g.adopt(p)
			return
		}
	}
	if g.raise(p) && g.out.started {
		m := mark{pos: g.log.pos, frame: g.encodeStart(0, true)}
		for _, s := range g.senders {
			m.rise = append(m.rise, rise{s, s.stable})
		}
		g.addMark(m)
	}
}

// adopt is the first Start of a fresh member: its baseline (R9).
func (g *Group) adopt(p *parsed) {
	g.fresh = false
	for _, s := range g.senders {
		s.listed = false
	}
	base := make([]Baseline, 0, len(p.items))
	for _, it := range p.items {
		s := g.findRef(it.ref)
		if s == nil {
			s = &sender{id: it.ref.member(), index: -1, state: stateClosing}
			g.senders = append(g.senders, s)
		}
		s.listed = true
		s.jump(it.a)
		base = append(base, Baseline{s.id, it.a})
	}
	g.emit(Output{Kind: Joined, Baselines: base})
	g.closeUnlisted(g.view.Version)
	g.userRecv, g.userPers = g.me.stable, g.me.persisted
}

// raise is every other Start (R7, R9). It says whether anything changed.
func (g *Group) raise(p *parsed) bool {
	changed := false
	for _, s := range g.senders {
		s.listed = false
	}
	for i := range p.items {
		it := &p.items[i]
		s := g.findRef(it.ref)
		if s == nil {
			continue
		}
		s.listed = true
		switch {
		case it.a <= s.stable || s == g.me:
			continue
		case it.a > s.recv && g.rule == mutation.NoRaise:
			continue
		case it.a > s.recv:
			from := s.recv
			s.jump(it.a)
			g.raised++
			g.emit(Output{Kind: BaselineRaised, Sender: s.id, From: from, Number: it.a})
			g.noteToken(s)
		default:
			s.stable = it.a
		}
		changed = true
		g.dropStable(s)
		g.forgetClosedBy(s)
	}
	return g.closeUnlisted(p.view) || changed
}

// closeUnlisted closes the senders in closing that a Start of that view could have listed and did not (R7).
func (g *Group) closeUnlisted(view uint64) bool {
	changed := false
	for i := 0; i < len(g.senders); i++ {
		s := g.senders[i]
		if s.state != stateClosing || s.listed || s.id.JoinIndex > view {
			continue
		}
		changed = true
		g.emit(Output{Kind: SenderClosed, Sender: s.id, Number: s.recv})
		s.stable = s.recv
		g.dropStable(s)
		g.forget(s)
		g.forgetClosedBy(s)
		i = -1
	}
	return changed
}

// addMark queues a frame behind the messages in the log and sends what may go.
func (g *Group) addMark(m mark) {
	if !g.out.started {
		return
	}
	if len(g.out.marks) >= maxMarks {
		g.reset(g.succ.id)
		return
	}
	g.out.marks = append(g.out.marks, m)
	g.pump()
}
