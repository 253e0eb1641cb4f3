package gmtest

import (
	"bytes"
	"slices"
	"sort"

	"warren/dataplane/gm"
)

// message is one that a user broadcast. deps are the numbers of each member's last message that the user had delivered.
type message struct {
	number uint64
	class  gm.Class
	body   []byte
	deps   []uint64
}

// inst is one member as its user sees it: what was delivered and told, nothing of the core.
type inst struct {
	id       int
	self     gm.Member
	node     *node
	g        *gm.Group
	sent     []*message
	rows     []row // by member number
	view     gm.View
	joined   bool
	expelled bool
	raised   bool
	leaving  map[int]bool // left the view, not closed
	recv     uint64       // told by Progress
	pers     uint64
	needFrom map[int]uint64 // what was stable when the view came that brought a member (R9)
}

// row is what one member knows of one sender. base and next are places in the sender's sent.
type row struct {
	seen       bool
	known      bool // from its baseline on, or from the view that brought it
	base, next int
	last       uint64 // number of the last delivered one
	depMax     uint64 // the highest number that something delivered depends on
	pending    []uint64
	durable    uint64
	closed     bool
}

func (in *inst) row(id int) *row {
	for len(in.rows) <= id {
		in.rows = append(in.rows, row{})
	}
	return &in.rows[id]
}

func (in *inst) deps() []uint64 {
	d := make([]uint64, len(in.rows))
	for i := range in.rows {
		d[i] = in.rows[i].last
	}
	return d
}

// mayLead tells whether this member may be the one that broadcasts bulk ("Who may act as master").
func (in *inst) mayLead() bool {
	return in.joined && len(in.view.Members) > 0 && in.view.Members[0] == in.self && len(in.leaving) == 0
}

// after is the place in sent of the first message above number n.
func (in *inst) after(n uint64) int {
	return sort.Search(len(in.sent), func(i int) bool { return in.sent[i].number > n })
}

func (w *world) inLatest(m gm.Member) bool { return slices.Contains(w.latest().Members, m) }

// observe checks one output that a user gets.
func (w *world) observe(in *inst, o gm.Output) {
	if in.expelled {
		w.fail("R6", "member %d gets output %d after its expulsion", in.id, o.Kind)
	}
	switch o.Kind {
	case gm.Deliver:
		w.onDeliver(in, o)
	case gm.Progress:
		w.onProgress(in, o)
	case gm.SenderClosed:
		w.onClosed(in, o)
	case gm.Joined:
		w.tracef("%s: joined at %v", in.node.name, o.Baselines)
		if in.joined {
			w.fail("R9", "member %d joins twice", in.id)
		}
		in.joined = true
		for _, b := range o.Baselines {
			id := w.ids[b.Sender]
			r := in.row(id)
			r.seen, r.known, r.last = true, true, b.Number
			r.base = w.insts[id].after(b.Number)
			r.next = r.base
			if !slices.Contains(in.view.Members, b.Sender) {
				in.leave(id)
			}
		}
	case gm.BaselineRaised:
		w.tracef("%s: baseline of %v raised from %d to %d", in.node.name, o.Sender, o.From, o.Number)
		w.res.Covered.Raised++
		id := w.ids[o.Sender]
		r := in.row(id)
		r.base = w.insts[id].after(o.Number)
		r.next, r.last, in.raised = r.base, o.Number, true
	case gm.Expelled:
		w.tracef("%s: expelled", in.node.name)
		in.expelled = true
	case gm.ViewInstalled:
		w.onView(in, o)
	}
}

func (in *inst) leave(id int) {
	if in.leaving == nil {
		in.leaving = map[int]bool{}
	}
	in.leaving[id] = true
}

func (w *world) onView(in *inst, o gm.Output) {
	if in.needFrom == nil {
		in.needFrom = map[int]uint64{}
	}
	for _, m := range o.View.Members {
		id := w.ids[m]
		in.row(id).seen = true
		in.row(id).known = in.row(id).known || in.joined
		if !slices.Contains(in.view.Members, m) {
			in.needFrom[id] = o.Number
		}
	}
	for _, m := range in.view.Members {
		if !slices.Contains(o.View.Members, m) {
			in.leave(w.ids[m])
		}
	}
	if len(o.View.Members) == 1 {
		w.res.Covered.Alone++
	}
	in.view = o.View
}

// onDeliver checks I2, I3 and I5's last half.
func (w *world) onDeliver(in *inst, o gm.Output) {
	w.tracef("%s: delivers %s/%d number %d", in.node.name, o.Sender.Node, o.Sender.JoinIndex, o.Number)
	id := w.ids[o.Sender]
	s := w.insts[id]
	r := in.row(id)
	if !in.joined {
		w.fail("R9", "member %d delivers before it joined", in.id)
	}
	if r.closed {
		w.fail("I5", "member %d delivers %d of member %d after SenderClosed", in.id, o.Number, id)
	}
	if r.next >= len(s.sent) || s.sent[r.next].number != o.Number {
		w.fail("I2", "member %d delivers %d of member %d, last was %d", in.id, o.Number, id, r.last)
	}
	m := s.sent[r.next]
	if m.class != o.Class || !bytes.Equal(m.body, o.Payload) {
		w.fail("I2", "member %d delivers another body for %d of member %d", in.id, o.Number, id)
	}
	if o.Number <= r.depMax {
		w.fail("I3", "member %d delivers %d of member %d after a message that depends on it", in.id, o.Number, id)
	}
	r.next++
	r.last = o.Number
	if o.Class != gm.Control {
		r.pending = append(r.pending, o.Number)
	}
	for d, n := range m.deps {
		if d != id {
			q := in.row(d)
			q.depMax = max(q.depMax, n)
		}
	}
}

// onProgress checks I4: what is told now and was not before.
func (w *world) onProgress(in *inst, o gm.Output) {
	w.tracef("%s: told received %d persisted %d", in.node.name, o.Received, o.Persisted)
	if o.Received < in.recv || o.Persisted < in.pers || o.Persisted > o.Received {
		w.fail("I4", "member %d is told %d/%d after %d/%d", in.id, o.Received, o.Persisted, in.recv, in.pers)
	}
	for _, m := range in.view.Members {
		mi := w.insts[w.ids[m]]
		r := mi.row(in.id)
		for k := in.after(max(in.recv, in.needFrom[mi.id])); k < in.after(o.Received); k++ {
			if k < r.base || k >= r.next {
				w.fail("I4", "member %d is told received %d, member %d lacks %d", in.id, o.Received, mi.id, in.sent[k].number)
			}
		}
		for k := in.after(max(in.pers, in.needFrom[mi.id])); k < in.after(o.Persisted); k++ {
			if n := in.sent[k]; k < r.base || k >= r.next || n.class != gm.Control && r.durable < n.number {
				w.fail("I4", "member %d is told persisted %d, member %d has not persisted %d", in.id, o.Persisted, mi.id, n.number)
			}
		}
	}
	in.recv, in.pers = o.Received, o.Persisted
}

// onClosed checks I5: who closes a sender has delivered the same of it as everybody who closed it before.
func (w *world) onClosed(in *inst, o gm.Output) {
	w.tracef("%s: closes %s/%d at %d", in.node.name, o.Sender.Node, o.Sender.JoinIndex, o.Number)
	id := w.ids[o.Sender]
	r := in.row(id)
	if r.closed {
		w.fail("I5", "member %d closes member %d twice", in.id, id)
	}
	if slices.Contains(in.view.Members, o.Sender) {
		w.fail("I5", "member %d closes member %d, which is in its view", in.id, id)
	}
	if o.Number < r.last {
		w.fail("I5", "member %d closes member %d at %d after delivering %d", in.id, id, o.Number, r.last)
	}
	r.closed = true
	delete(in.leaving, id)
	w.res.Covered.Closed++
	for _, other := range w.insts {
		if other == in || id >= len(other.rows) || !w.lives(other.self) || other.node.inst != other || other.raised || in.raised {
			continue
		}
		q := &other.rows[id]
		if q.closed && q.next != r.next && q.base <= r.next && r.base <= q.next && w.inLatest(in.self) && w.inLatest(other.self) {
			w.fail("I5", "member %d closes member %d at %d, member %d had closed it at %d", in.id, id, r.last, other.id, q.last)
		}
	}
}

// checkStep runs after every event: I6, and I7's limits.
func (w *world) checkStep() {
	v := w.latest()
	for _, m := range v.Members {
		in := w.insts[w.ids[m]]
		if !w.lives(m) || in.g == nil {
			continue
		}
		for id := range in.rows {
			if in.rows[id].seen && !in.g.Fresh() {
				w.checkHeld(in, w.insts[id])
			}
		}
	}
	if n := w.someNode(); n != nil {
		w.checkMemory(n.inst)
	}
}

// checkHeld is I6: if q lacks a message of s that somebody else in the view has, it stands in somebody's log.
func (w *world) checkHeld(q, s *inst) {
	if q.rows[s.id].closed {
		return
	}
	have := q.g.Received(s.self)
	if q.g.Stable(s.self) > have {
		w.fail("I6", "member %d knows %d of member %d stable and has only %d", q.id, q.g.Stable(s.self), s.id, have)
	}
	most, logged := have, false
	for _, m := range w.latest().Members {
		p := w.insts[w.ids[m]]
		if p.g == nil || !w.lives(m) {
			continue
		}
		got := p.g.Received(s.self)
		most = max(most, got)
		logged = logged || got > have && p.g.Stable(s.self) <= have
	}
	if most == have || logged {
		return
	}
	// What was stable before the sender counted q is no loss for q: a Start will raise its baseline (R9).
	if need, counted := s.needFrom[q.id]; counted && have >= need || q.counted(s) {
		w.fail("I6", "member %d lacks %d of member %d, which others dropped", q.id, have+1, s.id)
	}
}

// counted tells whether q belonged to the group from its first view, so that every sender counts it.
func (q *inst) counted(s *inst) bool { return q.self.JoinIndex <= s.self.JoinIndex }

// checkMemory is I7: the own unstable bulk, what the predecessor may fill, and what is kept aside stay in their limits.
func (w *world) checkMemory(in *inst) {
	st := in.g.Stats()
	w.res.Covered.Blocked += min(1, st.Unsent)
	one := int64(w.plan.maxBody+4) + gm.MessageOverhead
	if st.Unstable > st.Window+one && st.Members > 1 {
		w.fail("I7", "member %d has %d unstable bytes, window %d", in.id, st.Unstable, st.Window)
	}
	if st.Held > st.Window+one {
		w.fail("I7", "member %d holds %d bytes of its predecessor, window %d", in.id, st.Held, st.Window)
	}
	if st.AsideBytes > int64(w.plan.config.KeepAside) {
		w.fail("I7", "member %d keeps %d bytes aside", in.id, st.AsideBytes)
	}
}

// checkRest is what must hold when nothing moves any more: I1, I5, and everything at rest.
func (w *world) checkRest() {
	v := w.latest()
	for _, m := range v.Members {
		in := w.insts[w.ids[m]]
		if in.g == nil || in.node.inst != in {
			w.fail("rest", "member %d of the last view has no instance", in.id)
		}
		st := in.g.Stats()
		if st.LogMessages > 0 || st.Fresh || st.Closing > 0 || st.Remembered > 0 || st.View != v.Version || !in.g.Idle() {
			w.fail("rest", "member %d is not at rest: %+v", in.id, st)
		}
		d := st.Defects
		if w.opt.KeepAside > 0 {
			w.res.Covered.Overflow += int(d.Overflow)
			d.Overflow = 0
		}
		if !w.plan.oneBulk {
			d.BulkSenders = 0
		}
		if d != (gm.Defects{}) {
			w.fail("rest", "member %d counted defects: %+v", in.id, d)
		}
		if n := len(in.sent); n > 0 && (in.recv < in.sent[n-1].number || in.pers < in.sent[n-1].number) {
			w.fail("rest", "member %d was told %d/%d of %d", in.id, in.recv, in.pers, in.sent[n-1].number)
		}
		for id := range in.rows {
			w.checkRestRow(in, w.insts[id])
		}
	}
}

func (w *world) checkRestRow(in, s *inst) {
	r := &in.rows[s.id]
	switch {
	case !r.seen:
	case w.inLatest(s.self):
		if r.next != len(s.sent) {
			w.fail("I1", "member %d has delivered %d of %d messages of member %d", in.id, r.next, len(s.sent), s.id)
		}
		if g := in.g; g.Stable(s.self) != s.g.Received(s.self) || g.Received(s.self) != s.g.Received(s.self) {
			w.fail("rest", "member %d has of member %d received %d stable %d", in.id, s.id, g.Received(s.self), g.Stable(s.self))
		}
	case !r.closed:
		w.fail("I5", "member %d never closed member %d", in.id, s.id)
	case r.known && !in.raised:
		for _, m := range w.latest().Members {
			other := w.insts[w.ids[m]]
			if s.id < len(other.rows) && other.rows[s.id].known && !other.raised && other.rows[s.id].next != r.next {
				w.fail("I1", "of member %d, which left, member %d delivered %d messages, member %d %d",
					s.id, in.id, r.next, other.id, other.rows[s.id].next)
			}
		}
	}
}
