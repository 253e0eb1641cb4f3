package mirror

import (
	"fmt"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
)

// deliver applies a ring message of another member.
func (r *Replica) deliver(o gm.Output) error {
	need := needNothing
	err := decodeOps(o.Payload, &r.decoded, func(p *op) error {
		if p.code == opMasterEnds {
			r.ring.Awaited(o.Sender, o.Number) // a planned move waits for no disk
		}
		n, err := r.apply(o.Sender, p)
		need = max(need, n)
		return err
	})
	r.decoded = op{} // an idle copy holds no frame
	if err != nil {
		if r.role == Expelled {
			return err
		}
		return r.failed(fmt.Sprintf("apply message %d of %s", o.Number, o.Sender.Node), err)
	}
	if r.role != Expelled {
		r.persist.push(o.Sender, o.Number, r.q.Last(), r.durable(need))
	}
	return nil
}

// apply applies one operation, and says what of it must be durable before the message counts as persisted.
func (r *Replica) apply(sender gm.Member, p *op) (need, error) {
	switch p.code {
	case opNewMaster:
		return needNow, r.applyNewMaster(sender, p)
	case opMasterEnds:
		if r.stream.master == sender || !r.anchored {
			r.stream = stream{p.epoch, sender, true}
		}
		r.incoming = nil
		return needNothing, nil
	case opOrigins:
		if p.first {
			r.lines, r.table = nil, true
		}
		r.lines = append(r.lines, p.lines...)
		return needNothing, nil
	case opPosition:
		return needNow, r.applyPosition(sender, p)
	case opNeedPosition:
		delete(r.joiners, sender)
		return needNothing, nil
	}
	if !r.anchored {
		return needNothing, nil // before its baseline: not of this copy's part of the queue
	}
	if sender != r.stream.master || r.stream.ended {
		return needNothing, r.defect(fmt.Sprintf("operation %d of %s, which is not the master of epoch %d", p.code, sender.Node, r.stream.epoch))
	}
	switch p.code {
	case opPublish:
		return needFor(p.msg.Persistent, needNow), r.applyPublish(p)
	case opRemove:
		return r.applyRemove(p)
	case opDelivered:
		if _, err := r.q.SetDelivered(p.ranges); err != nil {
			return needNothing, r.failed("mark as delivered", err)
		}
		return needNothing, nil
	case opOriginOpened:
		return needNothing, r.open(p.ref, p.number, p.id)
	case opSyncStart:
		r.applySyncStart(sender, p)
		return needNothing, nil
	case opSyncEnd:
		return r.applySyncEnd(p)
	}
	s := r.origin.byRef[p.ref]
	switch {
	case s == nil:
		return needNothing, r.defect(fmt.Sprintf("operation %d of an unknown origin %d", p.code, p.ref))
	case p.code == opRefused && p.number != s.Number+1:
		return needNothing, r.defect(fmt.Sprintf("number %d of origin %d was refused after %d", p.number, p.ref, s.Number))
	case p.code == opRefused:
		return needNothing, r.refuse(s, p.number)
	}
	return needNothing, r.close(s)
}

// applyNewMaster begins an epoch. It counts as persisted when all that this copy holds is durable (gm.md).
func (r *Replica) applyNewMaster(sender gm.Member, p *op) error {
	r.stream = stream{epoch: p.epoch, master: sender}
	r.incoming, r.from = nil, 0
	if !r.anchored {
		return nil
	}
	if p.seq != r.next {
		why := fmt.Sprintf("epoch %d begins at %d, this copy is at %d", p.epoch, p.seq, r.next)
		if r.recorded(r.self) {
			return r.defect(why)
		}
		return r.lose(why)
	}
	r.meta.begin(p.epoch, p.seq)
	r.meta.lost.raise(p.lost)
	if p.flags&flagLossy != 0 {
		r.markLoss()
	}
	return r.saveMeta()
}

func (r *Replica) applyPublish(p *op) error {
	s := r.origin.byRef[p.ref]
	if p.seq != r.next || s == nil && p.ref != 0 {
		return r.defect(fmt.Sprintf("publish at %d by origin %d, this copy is at %d", p.seq, p.ref, r.next))
	}
	e := backingqueue.Entry{Seq: p.seq, Ref: p.ref, Number: p.number, Message: p.msg}
	if _, err := r.q.Append(e); err != nil {
		return r.failed("store a publish", err)
	}
	r.next++
	if s != nil {
		s.Number = max(s.Number, p.number)
	}
	return nil
}

func (r *Replica) applyRemove(p *op) (need, error) {
	n, persistent, err := r.drop(p.ranges)
	if err != nil {
		return needNothing, err
	}
	r.entomb(p.ranges)
	r.missing = max(0, r.missing-max(0, p.count-n))
	return needFor(persistent > 0, needSoon), nil
}

// drop removes from the store, and says how many messages, and how many persistent ones, that were.
func (r *Replica) drop(rs []backingqueue.Range) (n, persistent int, err error) {
	before := r.q.Stats()
	if _, err := r.q.Remove(rs); err != nil {
		return 0, 0, r.failed("remove messages", err)
	}
	after := r.q.Stats()
	return before.Messages - after.Messages, before.Persistent - after.Persistent, nil
}

// applyPosition tells a mirror that follows the stream nothing new; one that it names begins here.
func (r *Replica) applyPosition(sender gm.Member, p *op) error {
	lines, whole := r.lines, r.table
	r.lines, r.table = nil, false
	named := false
	for _, m := range p.members {
		named = named || m == r.self
		if m != r.self && holds(r.view, m) {
			r.joiners[m] = joiner{baseline: p.seq}
		}
	}
	if named && !whole {
		return r.lose("a position came without its table of origins")
	}
	if named {
		return r.anchor(sender, p, lines)
	}
	if r.anchored && p.seq != r.next {
		return r.defect(fmt.Sprintf("the master is at %d, this copy is at %d", p.seq, r.next))
	}
	return nil
}

// anchor begins this copy's part of the queue: the master's tables, all that follows, and below the baseline what an earlier
// membership left of the history that both share.
func (r *Replica) anchor(sender gm.Member, p *op, lines []originLine) error {
	kept, err := r.keepShared(p)
	if err != nil {
		return err
	}
	if _, err := r.q.Truncate(p.seq); err != nil {
		return r.failed("discard an earlier content", err)
	}
	if _, err := r.q.SkipTo(p.seq); err != nil {
		return r.failed("set the position", err)
	}
	r.next, r.missing, r.unknown = p.seq, max(0, p.count-kept), false
	r.incoming, r.from, r.verified = nil, 0, 0
	r.meta.epochs, r.meta.floor, r.meta.nextRef = p.epochs, p.floor, p.ref
	r.meta.lost.raise(p.lost)
	r.meta.unreconciled, r.meta.baseline, r.meta.baselineKnown = p.count > 0, p.seq, true
	if err := r.replaceOrigins(lines); err != nil {
		return err
	}
	r.damaged, r.anchored = false, true
	r.stream = stream{epoch: p.epoch, master: sender}
	r.env.Report(r.event(BaselineKnown, sender, r.missing, fmt.Sprintf("from position %d on", p.seq)))
	return r.saveMeta()
}

// setAside keeps what this copy holds out of the queue's way, and goes on with an empty store at the same position.
func (r *Replica) setAside(n int, why string) error {
	q, err := r.env.SetAside(why)
	if err != nil {
		return r.failed("set content aside", err)
	}
	r.q = q
	r.persist.replaced()
	r.term.replaced()
	r.env.Report(r.event(SetAside, r.self, n, why))
	if _, err := r.q.SkipTo(r.next); err != nil {
		return r.failed("set the position", err)
	}
	return r.writeOrigins()
}

// defect protects the copy from something that the rules exclude.
func (r *Replica) defect(why string) error {
	r.env.Report(r.event(Defect, r.self, 0, why))
	r.damaged = true
	return r.lose(why)
}

// lose stops following the stream: part of it will never come. The master is asked for a new baseline.
func (r *Replica) lose(why string) error {
	r.anchored, r.incoming, r.unknown = false, nil, true
	r.meta.unreconciled, r.meta.baselineKnown = true, false
	if err := r.saveMeta(); err != nil {
		return err
	}
	if r.recorded(r.self) {
		r.contest(why)
	}
	return r.tell(encodeNeedPosition())
}
