package mirror

import (
	"errors"
	"fmt"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/queue"
)

// maxRanges limits the ranges of one Remove on the ring; more go in several messages.
const maxRanges = 1024

// term is a master's state while it is one; received, persisted and last are the ring member's and outlive it.
type term struct {
	Term
	events  queue.Events
	pending []waiting // publishes and repeats, in the order in which they came
	removes []waiting
	ops     queue.Op
	index   *index

	received, persisted uint64 // own messages that every member of the view has received, and made durable
	last                uint64 // the newest own message on the ring; 0: none
	outbox              []deferred

	move move
}

// waiting is something that becomes stable. number is the ring's, once it is sent; 0 means that only the local disk counts.
type waiting struct {
	origin  *originState // publishes
	n       uint64       // publish number, or queue.Op
	number  uint64
	lsn     backingqueue.LSN
	persist bool
	unsent  bool
}

// makeLocal says that the ring is gone and what was pending has only the local disk to wait for, up to the change it returns.
func (t *term) makeLocal() (lsn backingqueue.LSN) {
	for _, ws := range [][]waiting{t.pending, t.removes} {
		for i := range ws {
			ws[i].number, ws[i].unsent = 0, false
			if ws[i].persist {
				lsn = max(lsn, ws[i].lsn)
			}
		}
	}
	t.received, t.persisted, t.last, t.outbox = 0, 0, 0, nil
	return lsn
}

// sent says that nothing waits in the outbox: what waited for it waits for the newest message.
func (t *term) sent() {
	for _, ws := range [][]waiting{t.pending, t.removes} {
		for i := len(ws) - 1; i >= 0 && ws[i].unsent; i-- {
			ws[i].number, ws[i].unsent = t.last, false
		}
	}
	if t.move.number == unsentNumber {
		t.move.number = t.last
	}
}

// replaced says that a new store took the old one's place.
func (t *term) replaced() {
	for _, ws := range [][]waiting{t.pending, t.removes} {
		for i := range ws {
			ws[i].lsn = 0
		}
	}
}

// stable tells whether w has come about.
func (r *Replica) stable(w *waiting) bool {
	switch {
	case w.unsent:
		return false
	case w.number == 0:
		return !w.persist || w.lsn <= r.q.Durable()
	case w.persist:
		return w.number <= r.term.persisted
	}
	return w.number <= r.term.received
}

// emit gives the events that are due: publishes in the order in which they came, each origin's as one.
func (r *Replica) emit() {
	t := &r.term
	var touched []*originState
	n := 0
	for ; n < len(t.pending) && r.stable(&t.pending[n]); n++ {
		o := t.pending[n].origin
		if o.due == 0 {
			touched = append(touched, o)
		}
		o.due = max(o.due, t.pending[n].n)
	}
	t.pending = shift(t.pending, n)
	for _, o := range touched {
		due := o.due
		o.due = 0
		if o.attached && due > o.confirmed {
			o.confirmed = due
			t.events.Confirmable(o.ID, due)
		}
	}
	n = 0
	for ; n < len(t.removes) && r.stable(&t.removes[n]); n++ {
	}
	if n > 0 {
		op := queue.Op(t.removes[n-1].n)
		t.removes = shift(t.removes, n)
		t.events.OpStable(op)
	}
}

// shift drops the first n of s without keeping their memory for ever.
func shift(s []waiting, n int) []waiting {
	if n == len(s) {
		clear(s)
		return s[:0]
	}
	if n == 0 {
		return s
	}
	if n < len(s)/2 {
		clear(s[:n])
		return s[n:]
	}
	m := copy(s, s[n:])
	clear(s[m:])
	return s[:m]
}

// backing is the Replica as its queue process sees it. Errors other than ErrNotActing and ErrUnknownOrigin mean that the copy
// has failed.
type backing struct{ r *Replica }

var (
	_ queue.Backing     = backing{}
	_ queue.OriginTable = backing{}
)

func (b backing) attached(id backingqueue.OriginID) (*originState, error) {
	if b.r.role != Master {
		return nil, fmt.Errorf("queue %q, epoch %d: %w", b.r.cfg.Name, b.r.a.Epoch, ErrNotActing)
	}
	s := b.r.origin.byID[id]
	if s == nil || !s.attached {
		return nil, fmt.Errorf("origin %v of queue %q: %w", id, b.r.cfg.Name, ErrUnknownOrigin)
	}
	return s, nil
}

// Publish implements queue.Backing. The position of a repeat is given only if the copy had to look it up (0: not looked up).
func (b backing) Publish(id backingqueue.OriginID, e backingqueue.Entry) (queue.Taken, uint64, error) {
	r := b.r
	s, err := b.attached(id)
	if err != nil {
		return 0, 0, err
	}
	if taken, seq, err := r.known(s, e.Number); taken != queue.TakenNew || err != nil {
		return taken, seq, err
	}
	e.Seq, e.Ref = r.next, s.Ref
	w := waiting{origin: s, n: e.Number, persist: e.Message.Persistent && r.cfg.Durable}
	if r.ring != nil {
		if w.number, err = r.bulk(encodePublish(&e)); err != nil {
			if errors.Is(err, gm.ErrWindowFull) {
				return queue.TakenFull, 0, nil
			}
			return 0, 0, err
		}
	}
	if w.lsn, err = r.q.Append(e); err != nil {
		return 0, 0, r.failed("store a publish", err)
	}
	r.next++
	s.Number = e.Number
	if r.term.index != nil {
		r.term.index.add(e.Ref, e.Number, e.Seq)
	}
	r.track(w)
	r.term.pending = append(r.term.pending, w)
	return queue.TakenNew, e.Seq, nil
}

// known tells what the table of origins says of the number; TakenNew: it is the next.
func (r *Replica) known(s *originState, number uint64) (queue.Taken, uint64, error) {
	switch {
	case number == s.Number+1:
		return queue.TakenNew, 0, nil
	case number > s.Number:
		return queue.TakenGap, 0, nil
	case r.meta.isRefused(s.Ref, number):
		return queue.TakenRefused, 0, nil
	}
	var seq uint64
	if number <= r.meta.losses[s.Ref] {
		held, ok, err := r.lookup(0, s.Ref, number)
		if err != nil {
			return 0, 0, err
		}
		if !ok {
			return queue.TakenLost, 0, nil
		}
		seq = held
	}
	// All that was broadcast before it came, NewMaster included, must be persisted by all.
	w := r.wait(waiting{origin: s, n: number, persist: r.cfg.Durable}, needNow)
	r.term.pending = append(r.term.pending, w)
	return queue.TakenRepeat, seq, nil
}

// wait makes w wait for all that was done so far.
func (r *Replica) wait(w waiting, n need) waiting {
	w.lsn, w.number, w.unsent = r.q.Last(), r.term.last, len(r.term.outbox) > 0
	if w.number == 0 && w.persist {
		r.persist.want(w.lsn, n)
	}
	return w
}

// bulk broadcasts what uses credit; it must not overtake what waits.
func (r *Replica) bulk(payload []byte) (uint64, error) {
	if len(r.term.outbox) > 0 {
		return 0, gm.ErrWindowFull
	}
	n, err := r.ring.Broadcast(gm.Bulk, payload)
	if err == nil {
		r.term.last = n
		return n, nil
	}
	if errors.Is(err, gm.ErrWindowFull) {
		return 0, err
	}
	return 0, r.failed("broadcast a publish", err)
}

// track notes what must be durable here for an own operation.
func (r *Replica) track(w waiting) {
	if r.ring != nil {
		r.persist.push(r.self, w.number, w.lsn, needFor(w.persist, needNow))
	} else if w.persist {
		r.persist.want(w.lsn, needNow)
	}
}

// Refuse implements queue.Backing.
func (b backing) Refuse(id backingqueue.OriginID, number uint64) (queue.Taken, error) {
	r := b.r
	s, err := b.attached(id)
	if err != nil {
		return 0, err
	}
	if taken, _, err := r.known(s, number); taken != queue.TakenNew || err != nil {
		return taken, err
	}
	w := waiting{}
	if r.ring != nil {
		if w.number, err = r.bulk(encodeRefused(s.Ref, number)); err != nil {
			if errors.Is(err, gm.ErrWindowFull) {
				return queue.TakenFull, nil
			}
			return 0, err
		}
	}
	if err := r.refuse(s, number); err != nil {
		return 0, err
	}
	w.lsn = r.q.Last()
	r.track(w)
	return queue.TakenNew, nil
}

// AttachOrigin implements queue.Backing. It comes before the first Publish of the origin in each term.
func (b backing) AttachOrigin(id backingqueue.OriginID, lowest uint64) error {
	r := b.r
	if r.role != Master {
		return fmt.Errorf("attach to queue %q, epoch %d: %w", r.cfg.Name, r.a.Epoch, ErrNotActing)
	}
	number := max(lowest, 1) - 1
	s := r.origin.byID[id]
	ref := r.meta.nextRef
	if s != nil {
		ref = s.Ref
	}
	ref = max(ref, 1)
	if s == nil || number > s.Number || r.unsettled(ref, number) {
		if err := r.open(ref, number, id); err != nil {
			return err
		}
		if err := r.tell(encodeOriginOpened(ref, number, id)); err != nil {
			return err
		}
		s = r.origin.byRef[ref]
	}
	s.attached, s.confirmed = true, number
	return nil
}

// unsettled tells whether something is remembered of publishes of ref up to number, which never come again.
func (r *Replica) unsettled(ref, number uint64) bool {
	l, ok := r.meta.losses[ref]
	rs := r.meta.refused[ref]
	return ok && l <= number || len(rs) > 0 && rs[0].Last <= number
}

// CloseOrigin implements queue.Backing. One that is not known is ignored.
func (b backing) CloseOrigin(id backingqueue.OriginID) error {
	r := b.r
	if r.role != Master {
		return fmt.Errorf("close an origin of queue %q, epoch %d: %w", r.cfg.Name, r.a.Epoch, ErrNotActing)
	}
	if s := r.origin.byID[id]; s != nil {
		return r.closeOrigin(s)
	}
	return nil
}

func (r *Replica) closeOrigin(s *originState) error {
	s.attached = false
	if err := r.close(s); err != nil {
		return err
	}
	return r.tell(encodeOriginClosed(s.Ref))
}

// tell broadcasts a control operation that was applied here.
func (r *Replica) tell(payload []byte) error {
	if r.ring == nil {
		return nil
	}
	return r.cast(gm.Control, payload, needNothing)
}

// Remove implements queue.Backing.
func (b backing) Remove(rs []backingqueue.Range, reason queue.Reason) (queue.Op, error) {
	r := b.r
	if r.role != Master {
		return 0, fmt.Errorf("remove from queue %q, epoch %d: %w", r.cfg.Name, r.a.Epoch, ErrNotActing)
	}
	t := &r.term
	t.ops++
	op := t.ops
	for len(rs) > 0 {
		part := rs[:min(len(rs), maxRanges)]
		rs = rs[len(part):]
		n, persistent, err := r.drop(part)
		if err != nil {
			return 0, err
		}
		need := persistent > 0 && r.cfg.Durable
		if err := r.removed(op, part, reason, n, need); err != nil {
			return 0, err
		}
	}
	return op, nil
}

// removed broadcasts a removal that was made here, and notes when it will be stable. What was removed before is stable
// with all that was broadcast so far.
func (r *Replica) removed(op queue.Op, rs []backingqueue.Range, reason queue.Reason, n int, need bool) error {
	if n == 0 {
		need = r.cfg.Durable
	} else if r.ring != nil {
		class := gm.Control
		if need {
			class = gm.Barrier
		}
		d := deferred{
			class: class, payload: encodeRemove(rs, uint8(reason), n), lsn: r.q.Last(), need: needFor(need, needSoon), lazy: true,
		}
		if err := r.castDeferred(d); err != nil {
			return err
		}
	}
	r.term.removes = append(r.term.removes, r.wait(waiting{n: uint64(op), persist: need}, needSoon))
	return nil
}

// Delivered implements queue.Backing. It is a hint: where the ring is full it is not sent.
func (b backing) Delivered(rs []backingqueue.Range) error {
	r := b.r
	if r.role != Master {
		return fmt.Errorf("mark as delivered in queue %q, epoch %d: %w", r.cfg.Name, r.a.Epoch, ErrNotActing)
	}
	if _, err := r.q.SetDelivered(rs); err != nil {
		return r.failed("mark as delivered", err)
	}
	if r.ring == nil || len(r.term.outbox) > 0 {
		return nil
	}
	return r.tell(encodeDelivered(rs))
}

// Find implements queue.Backing. A message can stand at another position than the one under which it was delivered only if it
// was lost and published again under a later epoch, so only what the first failover left behind it is looked at, and read
// once in a term. A caller that finds EpochOf(position) to be the epoch of the delivery need not ask: then the position is
// shared history, and the message is there or was removed.
func (b backing) Find(id backingqueue.OriginID, number uint64) (seq uint64, ok bool) {
	s := b.r.origin.byID[id]
	from, again := b.r.meta.again()
	if s == nil || number > s.Number || !again {
		return 0, false
	}
	seq, ok, err := b.r.lookup(from, s.Ref, number)
	return seq, ok && err == nil
}

func (b backing) Get(seq uint64) (backingqueue.Entry, bool, error) { return b.r.q.Get(seq) }
func (b backing) Next(from uint64) (uint64, bool)                  { return b.r.q.Next(from) }
func (b backing) EpochOf(seq uint64) uint64                        { return b.r.meta.epochOf(seq) }
func (b backing) Stats() backingqueue.Stats                        { return b.r.q.Stats() }

// OriginOf implements queue.OriginTable.
func (b backing) OriginOf(ref uint64) (id backingqueue.OriginID, ok bool) {
	if s := b.r.origin.byRef[ref]; s != nil {
		return s.ID, true
	}
	return backingqueue.OriginID{}, false
}

// Origins implements queue.OriginTable.
func (b backing) Origins() []backingqueue.Origin {
	refs := b.r.origin.refs()
	os := make([]backingqueue.Origin, len(refs))
	for i, ref := range refs {
		os[i] = b.r.origin.byRef[ref].Origin
	}
	return os
}
