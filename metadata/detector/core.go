package detector

import (
	"math"
	"time"

	"warren/metadata/state"
)

// Timing are the durations of metadata.md. Tests shorten them.
type Timing struct {
	Interval    time.Duration // between heartbeats; 500 ms
	Grant       time.Duration // for which a granter holds still; 3 s
	Lease       time.Duration // for which a holder relies on it; 2.7 s
	Unreachable time.Duration // without a heartbeat: declared down; 3 s
	Dial        time.Duration // one dial of the fast path, or one question to a voter; 500 ms
}

// DefaultTiming is metadata.md's.
func DefaultTiming() Timing {
	return Timing{Interval: 500 * time.Millisecond, Grant: 3 * time.Second, Lease: 2700 * time.Millisecond,
		Unreachable: 3 * time.Second, Dial: 500 * time.Millisecond}
}

// sentKept is how many of the own heartbeats' times are kept: enough for any lease that is still good.
const sentKept = 256

// core is what this node knows. It is pure: now, the caller's clock, is an argument of everything that needs it.
type core struct {
	self        string
	incarnation uint64
	t           Timing
	started     time.Duration
	lastTick    time.Duration

	seq  uint64
	sent [sentKept]time.Duration // by seq modulo sentKept

	peers map[string]*peer              // by node name; only looked up, walked by names()
	nodes map[string]*state.Node        // newest records
	order []string                      // names of peers, ascending
	given map[state.Place]time.Duration // grants: until when this node holds still
}

// peer is what was heard of another node.
type peer struct {
	incarnation uint64        // of its newest heartbeat, 0: none yet
	heard       time.Duration // when
	answered    time.Duration // when the newest of this node's heartbeats was sent that it has heard
	ever        bool
	last        heartbeat
	lastSeq     uint64
	leaseOf     uint64 // incarnation of the granter
	leaseUntil  time.Duration
}

func newCore(self string, incarnation uint64, t Timing, now time.Duration) *core {
	return &core{self: self, incarnation: incarnation, t: t, started: now, lastTick: now,
		peers: map[string]*peer{}, nodes: map[string]*state.Node{}, given: map[state.Place]time.Duration{}}
}

func (c *core) peer(now time.Duration, node string) *peer {
	p := c.peers[node]
	if p == nil {
		p = &peer{heard: now, answered: now} // the benefit of the doubt: silence counts from now
		c.peers[node] = p
		i := 0
		for i < len(c.order) && c.order[i] < node {
			i++
		}
		c.order = append(c.order, "")
		copy(c.order[i+1:], c.order[i:])
		c.order[i] = node
	}
	return p
}

// compose makes the next heartbeat to a node, with a grant if the node may have one.
func (c *core) compose(now time.Duration, to string, leader string, term, applied uint64, ask bool) heartbeat {
	c.seq++
	c.sent[c.seq%sentKept] = now
	if leader != "" && leader != c.self && c.quiet(now, c.peer(now, leader)) > 3*c.t.Interval {
		leader = "" // this node does not reach it either: nobody has to pause for not reaching it
	}
	h := heartbeat{Incarnation: c.incarnation, Seq: c.seq, Leader: leader, Term: term, Applied: applied, Ask: ask}
	p := c.peer(now, to)
	if p.ever {
		h.HeardOf, h.Heard = p.incarnation, p.lastSeq
	}
	if p.ever && c.mayGrant(to, p.incarnation) {
		h.Holder, h.Answers = p.incarnation, p.lastSeq
		c.given[state.Place{Node: to, Incarnation: p.incarnation}] = now + c.t.Grant
	}
	return h
}

// mayGrant: only to an incarnation that the metadata applied here count as up. What they do not know yet may have been declared
// down already, and a promoted master that asked before the grant would not hear of it.
func (c *core) mayGrant(node string, incarnation uint64) bool {
	n := c.nodes[node]
	return n != nil && incarnation == n.Incarnation && n.Status.Up()
}

// hear takes a heartbeat. reply says whether to send one back at once: it was asked for, or the sender is new here.
func (c *core) hear(now time.Duration, from string, h heartbeat) (reply bool) {
	p := c.peer(now, from)
	if h.Incarnation < p.incarnation {
		return false // a straggler of an earlier incarnation
	}
	reply = h.Ask || !p.ever || h.Incarnation > p.incarnation
	if h.Incarnation > p.incarnation {
		p.lastSeq = 0
	}
	p.ever, p.incarnation, p.heard = true, h.Incarnation, now
	if h.Seq > p.lastSeq {
		p.lastSeq, p.last = h.Seq, h
	}
	c.takeGrant(now, p, h)
	c.takeAnswer(now, p, h)
	return reply
}

// takeAnswer notes that the sender hears this node. One of an earlier version does not say whether it does.
func (c *core) takeAnswer(now time.Duration, p *peer, h heartbeat) {
	switch {
	case h.HeardOf == 0:
		p.answered = now
	case h.HeardOf == c.incarnation && h.Heard <= c.seq && c.seq-h.Heard < sentKept:
		p.answered = max(p.answered, c.sent[h.Heard%sentKept])
	}
}

// quiet is for how long a node has given no answer: it was not heard, or does not hear this node, which is known one interval later.
func (c *core) quiet(now time.Duration, p *peer) time.Duration {
	return now - min(p.heard, p.answered+c.t.Interval)
}

// takeGrant counts the lease from when the heartbeat that the grant names was sent.
func (c *core) takeGrant(now time.Duration, p *peer, h heartbeat) {
	if h.Holder == 0 || h.Holder != c.incarnation || h.Answers == 0 || h.Answers > c.seq || c.seq-h.Answers >= sentKept {
		return
	}
	until := c.sent[h.Answers%sentKept] + c.t.Lease
	if p.leaseOf != h.Incarnation {
		p.leaseOf, p.leaseUntil = h.Incarnation, until
	}
	p.leaseUntil = max(p.leaseUntil, until)
}

// held says whether this node holds an unexpired lease from that incarnation.
func (c *core) held(now time.Duration, of state.Place) bool {
	return now < c.heldUntil(of)
}

// heldUntil is when the lease from a member ends that this node holds, 0 if it holds none; never for the node itself.
func (c *core) heldUntil(of state.Place) time.Duration {
	if of.Node == c.self {
		return math.MaxInt64
	}
	if p := c.peers[of.Node]; p != nil && p.leaseOf == of.Incarnation {
		return p.leaseUntil
	}
	return 0
}

// outstanding is how long a grant of this node to that incarnation still runs; 0 if none does. A process that has just
// started cannot know what the one before it granted, and counts as having granted everything at its start.
func (c *core) outstanding(now time.Duration, to state.Place) time.Duration {
	left := c.started + c.t.Grant - now
	if until, ok := c.given[to]; ok {
		left = max(left, until-now)
	}
	return max(left, 0)
}

// outstandingUnfenced is the longest that a grant to any incarnation still runs that was declared down without being fenced.
func (c *core) outstandingUnfenced(now time.Duration) (left time.Duration) {
	for name, n := range c.nodes {
		if !n.Status.Up() && !n.Fenced && name != c.self {
			left = max(left, c.outstanding(now, state.Place{Node: name, Incarnation: n.Incarnation}))
		}
	}
	return left
}

// renew begins a new incarnation: leases were granted to the old one, so none is held any more.
func (c *core) renew(incarnation uint64) {
	c.incarnation = incarnation
	for _, p := range c.peers {
		p.leaseOf, p.leaseUntil = 0, 0
		p.answered = max(p.answered, c.lastTick) // what they hear from now on
	}
}

// setNode takes a record of the metadata. deposed is true if it says that this node's incarnation is down.
func (c *core) setNode(now time.Duration, n *state.Node) (deposed bool) {
	old := c.nodes[n.Name]
	c.nodes[n.Name] = n
	if n.Name == c.self {
		return n.Incarnation == c.incarnation && !n.Status.Up()
	}
	p := c.peer(now, n.Name)
	if n.Status.Up() && (old == nil || !old.Status.Up() || old.Incarnation != n.Incarnation) {
		p.heard, p.answered = max(p.heard, now), max(p.answered, now) // its time begins with its NodeUp
	}
	return false
}

// wake notes a tick. After a gap in which this process did not run, nobody is blamed for not having been heard.
func (c *core) wake(now time.Duration) (stalled time.Duration) {
	gap := now - c.lastTick
	c.lastTick = now
	for to, until := range c.given {
		if now >= until {
			delete(c.given, to)
		}
	}
	if gap <= 2*c.t.Interval {
		return 0
	}
	for _, p := range c.peers {
		p.heard += gap - c.t.Interval
		p.answered += gap - c.t.Interval
	}
	return gap
}
