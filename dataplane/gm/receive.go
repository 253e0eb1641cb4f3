package gm

import "warren/dataplane/gm/internal/mutation"

// asideFrames are frames of views that this member has not installed yet, in order (R5).
type asideFrames struct {
	frames []asideFrame
	bytes  int64
}

type asideFrame struct {
	from  Member
	frame []byte
}

// Kept is a frame of a view that the member had not installed.
type Kept struct {
	From  Member // Node and Incarnation
	Frame []byte
}

// Leftover returns, once, the frames that an expelled member still kept aside, in order. Its node may join the group again
// under the same incarnation, and they may be meant for that new member: the caller keeps them like the frames of a group
// that it does not have yet, and hands them to the new Group's Receive, unless their link broke in between.
func (g *Group) Leftover() []Kept {
	if !g.expelled {
		return nil
	}
	var k []Kept
	for _, f := range g.aside.frames {
		k = append(k, Kept{f.from, f.frame})
	}
	g.aside = asideFrames{}
	return k
}

func (a *asideFrames) drop(node string, inc uint64) {
	k := 0
	for _, f := range a.frames {
		if f.from.Node == node && f.from.Incarnation == inc {
			a.bytes -= int64(len(f.frame)) + MessageOverhead
			continue
		}
		a.frames[k] = f
		k++
	}
	clear(a.frames[k:])
	a.frames = a.frames[:k]
	if k == 0 {
		a.frames = nil
	}
}

// Receive takes a frame of this group from the link to that Node and Incarnation (the JoinIndex is ignored). The group
// keeps frame: it must not change any more. A *FrameError means that the peer speaks nonsense: close the link, tell
// LinkDown.
func (g *Group) Receive(from Member, frame []byte) error {
	if g.expelled || !g.linkUp(from.Node, from.Incarnation) {
		g.discarded++
		return nil
	}
	why := "longer than the limit"
	if len(frame) <= g.cfg.MaxFrame {
		why = g.rx.parse(frame, g.cfg.MaxMessage)
	}
	if why == "" {
		why = g.dispatch(from, &g.rx)
	}
	g.rx.raw, g.rx.body = nil, nil // an idle group holds no frame
	if why != "" {
		return &FrameError{From: from, Reason: why}
	}
	g.check()
	return nil
}

// dispatch applies R5 and hands the frame to its rule. It returns why a frame is malformed.
func (g *Group) dispatch(from Member, p *parsed) string {
	isPred := g.pred.is(from.Node, from.Incarnation)
	isSucc := g.succ.is(from.Node, from.Incarnation)
	if p.typ == frameCredit {
		// Credit belongs to a session, not to a view: held back, it could stop a group for as long as the views differ.
		if isSucc && p.view >= g.succ.id.JoinIndex {
			g.onCredit(p)
		}
		return ""
	}
	if p.view > g.view.Version {
		g.keepAside(from, p)
		return ""
	}
	if p.view < g.cfg.Self.JoinIndex {
		g.discarded++
		return ""
	}
	if p.view < g.view.Version && !g.takesOlder(p) {
		g.discarded++
		return ""
	}
	if p.typ == frameResume {
		if !isSucc {
			g.discarded++
			return ""
		}
		g.onResume(p)
		return ""
	}
	answering := p.typ == frameStart && !p.flag
	if g.rule == mutation.AcceptAnybody && (p.typ == frameData || p.typ == frameBatch || p.typ == frameStable) {
		isPred, answering = true, true
	}
	if !isPred || g.pred == nil || p.view < g.pred.id.JoinIndex || !g.in.started && !answering {
		g.discarded++
		return ""
	}
	g.trimHist(p.view)
	switch p.typ {
	case frameStart:
		g.onStart(p)
	case frameProgress:
		return g.onProgress(p)
	case frameClosing:
		g.onTokens(p)
	case frameStable:
		return g.onStable(from, p)
	case frameBatch:
		return g.onBatch(from, p)
	default:
		return g.onData(from, p)
	}
	return ""
}

// takesOlder lists what is taken from a member whose view is older than mine (R5).
func (g *Group) takesOlder(p *parsed) bool {
	switch p.typ {
	case frameData, frameFragment, frameBatch, frameStable:
		return true
	case frameStart:
		return p.flag || g.rule == mutation.OpenOlderStart
	case frameProgress:
		return g.rule == mutation.KeepWatermarks
	case frameClosing:
		return g.rule == mutation.OldToken
	}
	return false
}

func (g *Group) keepAside(from Member, p *parsed) {
	g.aside.frames = append(g.aside.frames, asideFrame{from, p.raw})
	g.aside.bytes += int64(len(p.raw)) + MessageOverhead
	if g.aside.bytes > int64(g.cfg.KeepAside) {
		g.defects.Overflow++
		g.reset(from)
	}
}

// replayAside takes up the frames whose view is now installed.
func (g *Group) replayAside() {
	if len(g.aside.frames) == 0 {
		return
	}
	list := g.aside
	g.aside = asideFrames{}
	for _, f := range list.frames {
		if g.expelled {
			return
		}
		if !g.linkUp(f.from.Node, f.from.Incarnation) {
			continue
		}
		why := g.rx.parse(f.frame, g.cfg.MaxMessage)
		if why == "" {
			why = g.dispatch(f.from, &g.rx)
		}
		if why != "" {
			g.defects.UnknownView++
			g.reset(f.from)
		}
	}
}

// trimHist drops the meaning of views that the predecessor has left behind.
func (g *Group) trimHist(view uint64) {
	k := 0
	for k < len(g.hist) && g.hist[k].version < view {
		k++
	}
	if k > 0 {
		g.hist = g.hist[k:]
	}
}

// resolve finds the sender that a frame of that view names: nil if it is unknown or forgotten. ok is false if the frame
// cannot be read: the view was never installed here, or has fewer members.
func (g *Group) resolve(view uint64, r ref) (s *sender, ok bool) {
	if r.index < 0 {
		return g.findRef(r), true
	}
	ring := g.ring
	if view != g.view.Version {
		ring = nil
		for _, h := range g.hist {
			if h.version == view {
				ring = h.ring
			}
		}
	}
	if r.index >= len(ring) {
		return nil, false
	}
	if s = ring[r.index]; s.state == stateForgotten {
		s = nil
	}
	return s, true
}

// unreadable answers a frame that resolve could not read.
func (g *Group) unreadable(from Member, p *parsed) string {
	if p.view == g.view.Version {
		return "member index outside of the view"
	}
	g.defects.UnknownView++
	g.reset(from)
	return ""
}
