package mirror

import (
	"fmt"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
)

// tryAct makes a promoted copy the acting master as soon as nothing stands in the way (gm.md, who may act as master).
func (r *Replica) tryAct() error {
	if r.fresh || r.closing() {
		return nil
	}
	if e := r.awaitEnds; e.ended && r.stream != e && holds(r.view, e.master) {
		return nil // a planned move: the old master is in the view and has not ended its epoch
	}
	if r.ring != nil && r.grants < r.a.View.Version {
		return nil
	}
	if !r.lossy() && (!r.Synchronised() || r.meta.lastEpoch() < r.lastLoss) {
		r.contest("named master, but its content is not what the record vouches for")
		return nil
	}
	if r.a.Recovering {
		if !r.acting {
			r.acting = true
			r.env.Propose(MasterActing{Epoch: r.a.Epoch, Self: r.self})
		}
		return nil
	}
	return r.act()
}

// closing tells whether a sender that left is not closed.
func (r *Replica) closing() bool {
	for _, closed := range r.departed {
		if !closed {
			return true
		}
	}
	return false
}

// act begins a term: the epoch is written down and announced before anything else is done under it.
func (r *Replica) act() error {
	lossy := r.lossy()
	fresh := len(r.meta.epochs) == 0 && r.a.Epoch == 1
	var flags uint64
	t := &r.term
	r.term = term{
		Term:     Term{Epoch: r.a.Epoch, Lossy: lossy, New: fresh},
		received: t.received, persisted: t.persisted, last: t.last, outbox: t.outbox,
	}
	if lossy {
		r.term.Lost = r.missing
		if err := r.settleContent(); err != nil {
			return err
		}
		r.meta.lost.messages += uint64(r.term.Lost)
		if r.meta.lost.more = r.meta.lost.more || r.unknown; r.unknown {
			r.term.Lost = -1
		}
		r.markLoss()
		flags |= flagLossy
	}
	r.term.FirstSeq = r.next
	r.meta.begin(r.a.Epoch, r.next)
	r.meta.unreconciled, r.damaged, r.anchored, r.missing, r.unknown = false, false, true, 0, false
	r.lines, r.run, r.catchUp = nil, nil, catchUp{}
	if err := r.saveMeta(); err != nil {
		return err
	}
	r.stream = stream{epoch: r.a.Epoch, master: r.self}
	if r.ring != nil {
		if err := r.cast(gm.Barrier, encodeNewMaster(r.a.Epoch, r.next, flags, r.meta.lost), needNow); err != nil {
			return err
		}
	}
	r.role = Master
	for m, j := range r.joiners {
		r.joiners[m] = joiner{baseline: j.baseline}
	}
	for _, ref := range r.origin.refs() {
		s := r.origin.byRef[ref]
		s.attached, s.confirmed, s.due = false, 0, 0
		if s.ID.Node != "" && !r.env.IncarnationUp(s.ID.Node, s.ID.Incarnation) {
			if err := r.closeOrigin(s); err != nil {
				return err
			}
		}
	}
	if err := r.sendPosition(); err != nil {
		return err
	}
	r.announce()
	return nil
}

// newest is the number of the newest own operation; while it waits for the window, one that is replaced when it is sent.
func (r *Replica) newest() uint64 {
	if len(r.term.outbox) > 0 {
		return unsentNumber
	}
	return r.term.last
}

func (r *Replica) announce() {
	held := r.q.Stats().Messages
	if r.term.Lossy {
		r.env.Report(r.event(PromotedWithLoss, r.self, r.term.Lost, fmt.Sprintf("not synchronised; goes on with %d messages", held)))
	} else {
		r.env.Report(r.event(Promoted, r.self, held, ""))
	}
	r.term.events = r.env.Acting(r.term.Term)
}

// settleContent decides what of an unsynchronised copy is the queue now (mirroring.md, synchronised or not): not what it had
// before it joined, and not what precedes a loss that it did not see. What is not is set aside, and the floor recorded.
func (r *Replica) settleContent() error {
	f := floor{epoch: r.a.Epoch, seq: r.meta.baseline, known: r.meta.baselineKnown}
	held := r.q.Stats().Messages
	stale := r.meta.lastEpoch() < r.lastLoss || r.meta.unreconciled && !r.meta.baselineKnown
	switch {
	case r.anchored:
		unseen := []backingqueue.Range{{First: r.verified, Last: max(f.seq, 1) - 1}}
		if n := r.count(unseen); r.meta.unreconciled && n > 0 {
			if err := r.setAsidePart(unseen, n, "promoted before it was known which of these messages were removed in its absence"); err != nil {
				return err
			}
		}
	case stale && held > 0:
		if err := r.setAside(held, "promoted without being synchronised, and this is of an earlier membership"); err != nil {
			return err
		}
		r.term.Lost += held
		f.known = false
	}
	clear(r.joiners) // they may hold what this copy lacks: each begins anew, and tells
	r.meta.floor = f
	return nil
}

// Losses is how many messages promotions of unsynchronised copies are known to have cost the queue in its life; more: and others,
// nobody knows how many.
func (r *Replica) Losses() (messages uint64, more bool) {
	return r.meta.lost.messages, r.meta.lost.more
}

// Lacks is how many of the messages below its baseline, which the master holds, this copy does not have; more: it may lack others.
func (r *Replica) Lacks() (messages int, more bool) { return r.missing, r.unknown }

// NodeDown closes the origins of an incarnation that is gone: their publishes cannot come again.
func (r *Replica) NodeDown(node string, incarnation uint64) error {
	if r.role != Master {
		return nil
	}
	return r.closeOrigins(func(id backingqueue.OriginID) bool { return id.Node == node && id.Incarnation <= incarnation })
}

func (r *Replica) closeOrigins(gone func(backingqueue.OriginID) bool) error {
	for _, ref := range r.origin.refs() {
		s := r.origin.byRef[ref]
		if gone(s.ID) {
			if err := r.closeOrigin(s); err != nil {
				return err
			}
		}
	}
	return nil
}
