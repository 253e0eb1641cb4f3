package driver

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"warren/dataplane/link"
)

// Kinds of the link frames that this package sends and takes (doc.go).
const (
	KindRing      = link.FirstUserKind
	KindReset     = link.FirstUserKind + 1
	KindResetDone = link.FirstUserKind + 2
)

// Links is what a Host needs of a link.Transport.
type Links interface {
	Node() string
	HandleFrame(kind link.FrameKind, h func(from link.PeerID, body []byte))
	Watch(w link.Watcher)
	// Queue and Flush: see link.Transport. SoftLimit is the backlog from which LinkDrained is told.
	Queue(to link.PeerID, kind link.FrameKind, parts ...[]byte) error
	Flush(to link.PeerID)
	Backlog(node string) int
	SoftLimit() int
	Reset(node string)
}

// Config holds a Host's limits. Zero values mean the defaults named.
type Config struct {
	// MailboxEvents is the number of events that may wait in one actor. Default 65536.
	MailboxEvents int
	// MailboxBytes limits the ring frames that wait in one actor. Default 32 MiB, far above a group's credit.
	MailboxBytes int
	// AsideFrames and AsideBytes limit the frames kept for groups that are not hosted yet, all together. Default 65536
	// frames and 16 MiB.
	AsideFrames, AsideBytes int
	// WaitingBytes limits the frames that wait, per peer, while its link is over the soft limit; beyond it the link is
	// reset. Default 256 MiB.
	WaitingBytes int
	// Log, default slog.Default.
	Log *slog.Logger
}

// maxLeft bounds the groups that are remembered after their member left.
const maxLeft = 65536

func (c Config) withDefaults() Config {
	for v, def := range map[*int]int{
		&c.MailboxEvents: 65536, &c.MailboxBytes: 32 << 20, &c.AsideFrames: 65536, &c.AsideBytes: 16 << 20, &c.WaitingBytes: 256 << 20,
	} {
		if *v <= 0 {
			*v = def
		}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

// Host runs the groups of one node. All methods may be called from any goroutine, Join excepted.
//
// Lock order: Host.mu, then Actor.mu or outbox.mu, then Host.life.
type Host struct {
	cfg   Config
	links Links
	node  string
	log   *slog.Logger
	wg    sync.WaitGroup

	late lateMembers

	// Mailboxes that only an actor at work needs: 10,000 idle ones hold none.
	queues sync.Pool

	overflows atomic.Uint64 // mailboxes that were full
	warm      atomic.Int64  // actors that keep large output buffers
	closing   atomic.Bool
	life      sync.RWMutex // held to set closing, and to begin a goroutine

	mu      sync.RWMutex
	members map[uint64]*Member
	// left are the groups that had a member here; leftUnknown: there were too many to remember.
	left        map[uint64]struct{}
	leftUnknown bool
	nodes       map[string]*nodeLink
	aside       asideFrames
}

// nodeLink is the link to one node and the members that want to know of it.
type nodeLink struct {
	id       link.PeerID
	up       bool
	evicted  bool // frames of groups that were not hosted were dropped: a group that joins resets its end
	out      outbox
	watchers map[*Member]struct{}
}

// NewHost makes a Host and registers it with the links, which must not have been started yet.
func NewHost(links Links, cfg Config) *Host {
	h := &Host{
		cfg: cfg.withDefaults(), links: links, node: links.Node(),
		members: map[uint64]*Member{}, nodes: map[string]*nodeLink{},
	}
	h.log = h.cfg.Log.With("node", h.node)
	h.queues.New = func() any { q := make([]event, 0, 64); return &q }
	links.HandleFrame(KindRing, h.ringFrame)
	links.HandleFrame(KindReset, h.resetFrame)
	links.HandleFrame(KindResetDone, h.resetDoneFrame)
	links.Watch(h)
	return h
}

// Close ends every actor: those at work finish the event at hand, what waits is dropped, posting fails with ErrClosed.
// It waits for all their goroutines. The links may be closed before or after.
func (h *Host) Close() {
	h.life.Lock()
	h.closing.Store(true)
	h.life.Unlock()
	h.late.stop()
	h.wg.Wait()
}

// begin counts a goroutine of an actor, unless the host is closed.
func (h *Host) begin() bool {
	h.life.RLock()
	defer h.life.RUnlock()
	if h.closing.Load() {
		return false
	}
	h.wg.Add(1)
	return true
}

func (h *Host) register(m *Member) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing.Load() {
		return ErrClosed
	}
	if h.members[m.id] != nil {
		return ErrHosted
	}
	h.members[m.id] = m
	// Under the lock, so that no frame that arrives now overtakes those kept aside.
	rejoins := h.rejoins(m.id)
	for _, n := range h.nodes {
		if n.up && (n.evicted || rejoins) {
			_ = m.actor.post(event{kind: evReset, member: m, from: n.id}, false)
		}
	}
	for _, f := range h.aside.take(m.id) {
		m.actor.postFrame(m, f.from, f.frame)
	}
	return nil
}

func (h *Host) unregister(m *Member) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.members[m.id] == m {
		delete(h.members, m.id)
		h.noteLeft(m.id)
	}
	for _, n := range h.nodes {
		delete(n.watchers, m)
	}
}

// noteLeft remembers that a member of the group left. What was on its way to it, a neighbour's Resume among it, may be meant
// for the member that this node has next, so that one begins by having the group's links started afresh. h.mu is held.
func (h *Host) noteLeft(group uint64) {
	if len(h.left) >= maxLeft {
		h.left, h.leftUnknown = nil, true
	}
	if h.left == nil {
		h.left = map[uint64]struct{}{}
	}
	h.left[group] = struct{}{}
}

// rejoins says whether the group may have had a member here before, and forgets it. h.mu is held.
func (h *Host) rejoins(group uint64) bool {
	_, was := h.left[group]
	delete(h.left, group)
	return was || h.leftUnknown
}

// at returns the entry of a node. h.mu is held for writing.
func (h *Host) at(node string) *nodeLink {
	n := h.nodes[node]
	if n == nil {
		n = &nodeLink{watchers: map[*Member]struct{}{}}
		n.out.host = h
		h.nodes[node] = n
	}
	return n
}

// watch returns the present link to node; the member is told of all later changes.
func (h *Host) watch(m *Member, node string) (*outbox, link.PeerID, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.at(node)
	if !m.left {
		n.watchers[m] = struct{}{}
	}
	return &n.out, n.id, n.up
}

// LinkUp is called by the links.
func (h *Host) LinkUp(id link.PeerID) { h.change(id, true) }

// LinkDown is called by the links. Frames kept for groups that are not hosted go with their link (R5).
func (h *Host) LinkDown(id link.PeerID, _ link.Cause) { h.change(id, false) }

func (h *Host) change(id link.PeerID, up bool) {
	h.mu.Lock()
	n := h.at(id.Node)
	n.id, n.up, n.evicted = id, up, false
	n.out.renew(id, up)
	if !up {
		h.aside.drop(id)
	}
	// Members that begin to watch after this see the new state; those that watch are told, in a list of their own, since
	// 10,000 posts under the lock would hold up every reader.
	told := make([]*Member, 0, len(n.watchers))
	for m := range n.watchers {
		told = append(told, m)
	}
	h.mu.Unlock()
	kind := evLinkDown
	if up {
		kind = evLinkUp
	}
	for i, m := range told {
		_ = m.actor.post(event{kind: kind, member: m, from: id}, false)
		if i%256 == 255 {
			runtime.Gosched() // let the first ones work while the others are told
		}
	}
}

// LinkDrained is called by the links.
func (h *Host) LinkDrained(id link.PeerID) {
	h.mu.RLock()
	n := h.nodes[id.Node]
	h.mu.RUnlock()
	if n != nil {
		n.out.drain(id)
	}
}

// resetPeer has the whole link to a node made anew: it spoke nonsense.
func (h *Host) resetPeer(id link.PeerID) {
	h.mu.RLock()
	n := h.nodes[id.Node]
	same := n != nil && n.id == id
	h.mu.RUnlock()
	if same {
		h.links.Reset(id.Node)
	}
}

func (h *Host) ringFrame(from link.PeerID, body []byte) {
	group, n := binary.Uvarint(body)
	if n <= 0 {
		h.log.Error("ring frame without a group, closing the link", "peer", from.Node)
		h.links.Reset(from.Node)
		return
	}
	frame := body[n:]
	h.mu.RLock()
	m := h.members[group]
	if m != nil {
		m.actor.postFrame(m, from, frame)
	}
	h.mu.RUnlock()
	if m != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if m = h.members[group]; m != nil {
		m.actor.postFrame(m, from, frame)
		return
	}
	for _, id := range h.aside.keep(group, from, frame, h.cfg) {
		if n := h.at(id.Node); n.id == id {
			n.evicted = true
		}
	}
}

func (h *Host) resetFrame(from link.PeerID, body []byte) {
	group, n := binary.Uvarint(body)
	if n <= 0 {
		h.malformedReset(from)
		return
	}
	h.mu.Lock()
	m := h.members[group]
	if m != nil {
		_ = m.actor.post(event{kind: evPeerReset, member: m, from: from}, false)
	} else {
		// Nothing was started at this end; what came before is not to be mixed with what comes now.
		h.aside.dropFrom(group, from)
	}
	h.mu.Unlock()
	if m == nil && h.links.Queue(from, KindResetDone, body) == nil {
		h.links.Flush(from)
	}
}

func (h *Host) resetDoneFrame(from link.PeerID, body []byte) {
	group, n := binary.Uvarint(body)
	if n <= 0 {
		h.malformedReset(from)
		return
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if m := h.members[group]; m != nil {
		m.actor.postResetDone(m, from)
	}
}

func (h *Host) malformedReset(from link.PeerID) {
	h.log.Error("malformed reset of a group, closing the link", "peer", from.Node)
	h.links.Reset(from.Node)
}

// Stats counts what a Host holds.
type Stats struct {
	Groups      int
	AsideFrames int
	AsideBytes  int
	Overflows   uint64 // times that a group's link was given up because its mailbox was full
}

// Stats returns the present numbers.
func (h *Host) Stats() Stats {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return Stats{len(h.members), h.aside.count, h.aside.bytes, h.overflows.Load()}
}

// String is for logs.
func (s Stats) String() string {
	return fmt.Sprintf("groups=%d aside=%d/%dB overflows=%d", s.Groups, s.AsideFrames, s.AsideBytes, s.Overflows)
}
