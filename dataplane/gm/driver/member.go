package driver

import (
	"encoding/binary"
	"errors"
	"fmt"

	"warren/dataplane/gm"
	"warren/dataplane/link"
)

// ErrHosted: the group has a member on this node already.
var ErrHosted = errors.New("driver: the group has a member here already")

// Member is an actor's membership in a group. Its methods may be called on the actor's goroutine only, that is from
// inside the Handler's methods.
type Member struct {
	host  *Host
	actor *Actor
	id    uint64
	head  []byte // id on the wire
	group *gm.Group
	links []*memberLink
	left  bool
	late  bool // the host will post evLate
}

// memberLink is what the group was told of the link to one node, and the frames that are to go there.
type memberLink struct {
	node  string
	id    link.PeerID
	up    bool
	reset bool // the peer was asked to start afresh and has not answered: down, for the group
	out   *outbox
	queue []outFrame
	lazy  bool // nobody waits for what is in queue
}

// outFrame is one frame of a group, or the reset of its link.
type outFrame struct {
	kind  link.FrameKind
	frame []byte
	rest  [][]byte // of the frame, see gm.Output
}

func (f *outFrame) size() int {
	n := len(f.frame)
	for _, p := range f.rest {
		n += len(p)
	}
	return n
}

// Join makes the actor a member of a group, in a view that is to be installed next. It is called from inside the actor's
// handler. The group id is the queue's id, the same on all nodes. Errors: ErrHosted (Leave first), ErrClosed.
func (h *Host) Join(a *Actor, group uint64, cfg gm.Config) (*Member, error) {
	if a.member != nil {
		return nil, fmt.Errorf("%w: group %d, actor of group %d", ErrHosted, group, a.member.id)
	}
	m := &Member{host: h, actor: a, id: group, head: binary.AppendUvarint(nil, group), group: gm.New(cfg)}
	if err := h.register(m); err != nil {
		return nil, fmt.Errorf("driver: join group %d: %w", group, err)
	}
	a.member = m
	return m, nil
}

// Install hands over the next view (R6); views come in the order of the metadata log, each once. It fails only with
// ErrClosed, after Leave.
func (m *Member) Install(v gm.View) error {
	if m.left {
		return ErrClosed
	}
	for i, member := range v.Members {
		if member.Node != m.host.node && m.neighbour(v, i) {
			m.link(member.Node)
		}
	}
	m.group.Install(v)
	return nil
}

// neighbour tells whether the i-th member of v stands next to one of this node.
func (m *Member) neighbour(v gm.View, i int) bool {
	n := len(v.Members)
	return v.Members[(i+1)%n].Node == m.host.node || v.Members[(i+n-1)%n].Node == m.host.node
}

// Broadcast sends payload, which the ring keeps, to all members, this one included, and returns its number (R1). Errors:
// those of gm.Group.Broadcast (gm.ErrWindowFull: gm.WindowOpen follows), ErrClosed after Leave.
func (m *Member) Broadcast(class gm.Class, payload []byte) (uint64, error) {
	if m.left {
		return 0, ErrClosed
	}
	return m.group.Broadcast(payload, class)
}

// Lazy says that nobody waits for the newest own message (gm.Group.Lazy).
func (m *Member) Lazy(number uint64) {
	if !m.left {
		m.group.Lazy(number)
	}
}

// Awaited says that sender waits for the receipt of its message number, durable or not (gm.Group.Awaited).
func (m *Member) Awaited(sender gm.Member, number uint64) {
	if !m.left {
		m.group.Awaited(sender, number)
	}
}

// Persisted says that everything of sender up to number is durable here (R3). Unknown senders are ignored.
func (m *Member) Persisted(sender gm.Member, upTo uint64) {
	if !m.left {
		m.group.Persisted(sender, upTo)
	}
}

// Leave ends the membership: no output follows, frames of the group are not taken any more. Leave twice does nothing.
func (m *Member) Leave() {
	if m.left {
		return
	}
	m.left = true
	m.host.unregister(m)
	if m.actor.member == m {
		m.actor.member = nil
	}
}

// Group is the core, for reading: View, Received, Stable, Stats, ….
func (m *Member) Group() *gm.Group { return m.group }

// ID is the group's.
func (m *Member) ID() uint64 { return m.id }

// link returns what is known of the link to node; at the first time it begins to watch it.
func (m *Member) link(node string) *memberLink {
	for _, l := range m.links {
		if l.node == node {
			return l
		}
	}
	out, id, up := m.host.watch(m, node)
	l := &memberLink{node: node, id: id, up: up, out: out}
	m.links = append(m.links, l)
	if up {
		m.group.LinkUp(node, id.Incarnation)
	}
	return l
}

// ring handles one event of the links. Outputs are drained around changes of a link, so that none from before goes out
// over the new one; frames are handed over several at a time, for the core gathers progress and credit.
func (m *Member) ring(a *Actor, e *event) {
	if e.kind == evLate {
		m.late = false
		for _, l := range m.links {
			l.lazy = false
		}
		return
	}
	l := m.link(e.from.Node)
	switch e.kind {
	case evFrame:
		if l.up && l.id == e.from {
			m.receive(l, e.frame)
		}
	case evLinkUp:
		if l.id == e.from && l.up {
			return // it was up when the member began to watch
		}
		a.drain()
		l.id, l.up, l.reset, l.queue = e.from, true, false, nil
		m.group.LinkUp(l.node, l.id.Incarnation)
	case evLinkDown:
		a.reopen(e.from)
		if l.id != e.from || !l.up {
			return
		}
		a.drain()
		l.up, l.reset, l.queue = false, false, nil
		m.group.LinkDown(l.node, l.id.Incarnation)
	default:
		if l.up && l.id == e.from {
			a.drain()
			m.afresh(l, e.kind)
		}
	}
}

// afresh starts the group's link anew at both ends, as if it had broken and come back (R7). The end that wants it asks
// (evReset), and is down until the answer (evResetDone); the answer stands before all that the other end sends anew.
func (m *Member) afresh(l *memberLink, why eventKind) {
	switch why {
	case evReset:
		m.actor.shutOut(l.id)
		if l.reset {
			return
		}
		l.reset, l.lazy, l.queue = true, false, append(l.queue, outFrame{kind: KindReset})
		m.group.LinkDown(l.node, l.id.Incarnation)
	case evPeerReset:
		l.lazy, l.queue = false, append(l.queue, outFrame{kind: KindResetDone})
		if !l.reset {
			m.group.LinkUp(l.node, l.id.Incarnation)
		}
	case evResetDone:
		l.reset = false
		m.group.LinkUp(l.node, l.id.Incarnation)
	}
}

func (m *Member) receive(l *memberLink, frame []byte) {
	if err := m.group.Receive(gm.Member{Node: l.node, Incarnation: l.id.Incarnation}, frame); err != nil {
		m.host.log.Error("malformed ring frame, closing the link", "queue", m.id, "peer", l.node, "err", err)
		l.up, l.reset, l.queue = false, false, nil
		m.group.LinkDown(l.node, l.id.Incarnation)
		m.host.resetPeer(l.id)
	}
}

// resetLink carries out gm.ResetLink: the group has given the link up; both ends start afresh. No other group's link does.
func (m *Member) resetLink(to gm.Member) {
	l := m.link(to.Node)
	if !l.up || l.id.Incarnation != to.Incarnation {
		return
	}
	m.host.log.Error("ring defect, resuming the group's link", "queue", m.id, "peer", to.Node)
	_ = m.actor.post(event{kind: evReset, member: m, from: l.id}, false)
}

func (m *Member) send(o *gm.Output) {
	if l := m.link(o.To.Node); l.up && l.id.Incarnation == o.To.Incarnation {
		l.lazy = o.Lazy && (l.lazy || len(l.queue) == 0) && len(l.queue) < maxLazy
		l.queue = append(l.queue, outFrame{kind: KindRing, frame: o.Frame, rest: o.Rest})
	}
}

// flush gives the gathered frames to the links. What nobody waits for stays until something joins it, or until evLate.
func (m *Member) flush() {
	for _, l := range m.links {
		if len(l.queue) == 0 {
			continue
		}
		if l.lazy {
			if !m.late {
				m.late = true
				m.host.late.add(m)
			}
			continue
		}
		l.out.submit(m, l.id, l.queue)
		clear(l.queue)
		l.queue = l.queue[:0]
		if cap(l.queue) > 64 {
			l.queue = nil
		}
	}
}
