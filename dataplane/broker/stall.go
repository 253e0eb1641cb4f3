package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"warren/dataplane/gm"
	"warren/dataplane/link"
	"warren/dataplane/mirror"
	"warren/dataplane/queue/protocol"
	"warren/metadata/state"
)

// How long a mirror that was dropped because it held up the ring is kept out: longer each time, and as at first after it
// was in the ring for longer than holdOffMax without being dropped.
const (
	holdOffMin = 5 * time.Second
	holdOffMax = 5 * time.Minute
)

var errHeldOff = errors.New("that mirror held up the ring and is kept out for a while")

// stall is how long the ring of a master has not got on, and whom it kept out for that.
type stall struct {
	received, persisted uint64
	last                uint64 // the newest own message when it was seen first
	view                uint64
	since               time.Time
	asking              bool // the members are being asked
	out                 map[protocol.NodeID]holdOff
}

type holdOff struct {
	pause time.Duration
	until time.Time
}

// again is for how long a mirror is kept out that holds up the ring once more.
func (h holdOff) again(now time.Time) holdOff {
	pause := min(2*h.pause, holdOffMax)
	if h.until.IsZero() || now.Sub(h.until) > holdOffMax {
		pause = holdOffMin
	}
	return holdOff{pause, now.Add(pause)}
}

// evWatch has a master look whether its ring gets on.
type evWatch struct{}

func (evWatch) apply(c *queueCopy) error {
	c.watch(time.Now())
	return nil
}

// noteRing is called at the end of a batch: only masters with something under way are watched.
func (c *queueCopy) noteRing() {
	last, received, persisted, ok := c.replica.Progress()
	busy := ok && c.replica.Role() == mirror.Master && (received < last || persisted < last)
	if c.ringBusy.Load() != busy {
		c.ringBusy.Store(busy)
	}
	if !busy {
		c.stall.since = time.Time{}
	}
}

// watch asks the members how far they are once nothing became stable for ha-mirror-timeout (metadata.md, promotion).
func (c *queueCopy) watch(now time.Time) {
	if c.replica == nil || c.replica.Role() != mirror.Master {
		c.ringBusy.Store(false)
		return
	}
	s := &c.stall
	last, received, persisted, ok := c.replica.Progress()
	if !ok || received >= last && persisted >= last {
		s.since = time.Time{}
		return
	}
	if s.since.IsZero() || received != s.received || persisted != s.persisted || c.q.ViewVersion != s.view {
		s.received, s.persisted, s.last, s.view, s.since = received, persisted, last, c.q.ViewVersion, now
		return
	}
	timeout := time.Duration(c.q.Effective.HA().MirrorTimeout) * time.Millisecond
	if s.asking || now.Sub(s.since) < timeout {
		return
	}
	s.asking = true
	q, limit := c.q, min(max(timeout/2, 200*time.Millisecond), callTimeout)
	c.life.spawn(func() { c.post(evReports{q, c.askWatermarks(q, limit)}) })
}

// report is what one member of the view says of the master's stream.
type report struct {
	Received  uint64 `msgpack:"r"`
	Persisted uint64 `msgpack:"p"`
	// Missing is how many older messages a copy that is not synchronised lacks, More that it may lack others.
	Missing  int   `msgpack:"m"`
	More     bool  `msgpack:"o"`
	Window   int64 `msgpack:"w"` // bytes of Limit that are in use
	Limit    int64 `msgpack:"l"`
	answered bool
}

// askWatermarks asks every other member of the view beside the ring, in the order in which the stream reaches them.
func (c *queueCopy) askWatermarks(q *state.Queue, limit time.Duration) []report {
	ctx, cancel := context.WithTimeout(c.life.ctx, limit)
	defer cancel()
	members := downstream(q)
	reports := make([]report, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() {
			b, err := c.life.node.links.Call(ctx, m.Node, callWatermarks, binary.AppendUvarint(nil, q.ID))
			if err == nil && link.Unmarshal(b, &reports[i]) == nil {
				reports[i].answered = true
			}
		})
	}
	wg.Wait()
	return reports
}

// downstream are the other members of the view in the order of the ring, from the master's successor on (gm.md: age order).
func downstream(q *state.Queue) []state.Member {
	var up []state.Member
	at := 0
	for _, m := range q.Members {
		if m.State == state.MemberUp {
			if m.Node == q.Master {
				at = len(up)
			}
			up = append(up, m)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return append(append([]state.Member(nil), up[at+1:]...), up[:at]...)
}

// evReports are the answers to askWatermarks.
type evReports struct {
	q       *state.Queue
	reports []report
}

func (e evReports) apply(c *queueCopy) error {
	c.judge(e.q, e.reports)
	return nil
}

// Verdicts of culprit that are no index.
const (
	nobody  = -1
	oneself = -2
)

// culprit finds who holds up the ring: index of a report, oneself (only the own disk is behind), or nobody. received and
// persisted are what every member has, last what has been sent since a while.
func culprit(received, persisted, last, own uint64, reports []report) int {
	for i, r := range reports {
		if !r.answered || received < last && r.Received <= received {
			return i // those behind it cannot have more
		}
	}
	if persisted >= last {
		return nobody
	}
	worst := nobody
	for i, r := range reports {
		if r.Persisted <= persisted && (worst == nobody || r.Persisted < reports[worst].Persisted) {
			worst = i
		}
	}
	if worst == nobody && own <= persisted {
		return oneself
	}
	return worst
}

// judge has the member dropped that holds up the ring, or moves the master if it is its own disk.
func (c *queueCopy) judge(q *state.Queue, reports []report) {
	s := &c.stall
	s.asking = false
	if c.replica == nil || c.replica.Role() != mirror.Master || c.q.ViewVersion != q.ViewVersion || s.since.IsZero() {
		return
	}
	last, received, persisted, ok := c.replica.Progress()
	if !ok || received != s.received || persisted != s.persisted {
		return // it got on meanwhile
	}
	members := downstream(q)
	switch i := culprit(received, persisted, min(s.last, last), c.watermarks().Persisted, reports); i {
	case nobody:
		s.since = time.Time{} // what is missing is on its way back; look again after another timeout
	case oneself:
		s.since = time.Time{}
		c.log.Warn("the disk of the master's node holds up the queue; the master is handed over", "epoch", c.q.Epoch)
		c.handOver()
	default:
		c.dropMirror(members[i])
	}
}

// dropMirror takes a mirror out of the view and keeps it out for a while.
func (c *queueCopy) dropMirror(m state.Member) {
	id := nodeID(m)
	if c.stall.out == nil {
		c.stall.out = map[protocol.NodeID]holdOff{}
	}
	h := c.stall.out[id].again(time.Now())
	c.stall.out[id] = h
	c.stall.since = time.Time{}
	c.log.Warn("a mirror holds up the queue and is taken out of its view", "peer", m.Node, "epoch", c.q.Epoch,
		"view", c.q.ViewVersion, "synchronised", m.Synchronised, "back_in", h.pause)
	cmd := &state.DropMirror{Queue: uint64(c.id), Node: m.Node, JoinIndex: m.JoinIndex, View: c.q.ViewVersion}
	c.background("take a mirror out of the view", func(ctx context.Context) error {
		r, err := c.life.node.meta.Propose(ctx, cmd)
		if err == nil {
			err = r.Refusal()
		}
		if errors.Is(err, state.ErrStale) || errors.Is(err, state.ErrNotFound) {
			return nil // the view has changed: whether it gets on now is seen
		}
		return err
	})
}

// heldOff tells whether a mirror must not come back into the view yet.
func (c *queueCopy) heldOff(n protocol.NodeID) bool {
	h, ok := c.stall.out[n]
	return ok && time.Now().Before(h.until)
}

// forgetHoldOffs drops those of incarnations that are over.
func (c *queueCopy) forgetHoldOffs(gone protocol.NodeID) { delete(c.stall.out, gone) }

// watermarks are how much of the master's stream this copy has.
func (c *queueCopy) watermarks() (r report) {
	if c.ring == nil || c.replica == nil {
		return r
	}
	m, ok := c.q.MasterMember()
	if !ok {
		return r
	}
	r.Missing, r.More = c.replica.Lacks()
	for _, s := range c.ring.Group().Senders() {
		if s.Sender == (gm.Member{Node: m.Node, Incarnation: m.Incarnation, JoinIndex: m.JoinIndex}) {
			r.Received, r.Persisted = s.Received, s.Persisted
		}
	}
	// The window of who sends is what is not received by all yet; of who passes on, what it holds and has not passed on and kept.
	st := c.ring.Group().Stats()
	if r.Window, r.Limit = st.Held, st.Window; m.Node == c.life.self.Name {
		r.Window = st.Unstable
	}
	return r
}

// evWatermarks asks a copy how far it is.
type evWatermarks struct{ answer chan<- report } // has room

func (e evWatermarks) apply(c *queueCopy) error {
	e.answer <- c.watermarks()
	return nil
}

func (n *Node) answerWatermarks(ctx context.Context, _ link.PeerID, body []byte) ([]byte, error) {
	return n.localWatermarks(ctx, body)
}

func (n *Node) localWatermarks(ctx context.Context, body []byte) ([]byte, error) {
	id, size := binary.Uvarint(body)
	if size <= 0 {
		return nil, errors.New("a question about watermarks names no queue")
	}
	c := n.copyOf(id)
	if c == nil {
		return nil, errNoPlace
	}
	answer := make(chan report, 1)
	c.post(evWatermarks{answer})
	select {
	case r := <-answer:
		return msgpack.Marshal(&r)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
