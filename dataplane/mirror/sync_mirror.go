package mirror

import (
	"errors"
	"fmt"
	"iter"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
)

// incoming is a synchronisation as a mirror sees it, from SyncStart to SyncEnd.
type incoming struct {
	master  gm.Member
	epoch   uint64
	id      uint64
	offered uint64 // what is below has been offered
	ended   bool   // all was offered, or the master cannot be reached
	batch   uint64 // the last that was taken
	to      uint64 // of the batch that is being taken, 0: none
	stored  uint64 // the newest that is on disk
	storing []storing
	asked   uint64 // the newest up to which the disk was asked for a sync at once
	bytes   int    // that were taken since then
	// removed are the positions below the baseline that the stream removed since SyncStart: a batch under way may bring
	// back what this copy had and removed (mirroring.md, synchronisation).
	removed *roaring64.Bitmap
}

// storing is a batch that is not known to be on disk, and the change that ends it.
type storing struct {
	batch uint64
	lsn   backingqueue.LSN
}

// catchUp is how far a mirror's content below its baseline is known to be the master's.
type catchUp struct {
	incoming *incoming
	returner bool   // came with content of an earlier membership
	from     uint64 // the present master has been told what is held below, and has mended it
	verified uint64 // nothing is held below that a master had not in this membership
}

// applySyncStart begins to offer.
func (r *Replica) applySyncStart(sender gm.Member, p *op) {
	if !named(p.members, r.self) {
		return
	}
	r.incoming = &incoming{
		master: sender, epoch: r.stream.epoch, id: p.number, offered: min(r.from, r.meta.baseline), removed: roaring64.New(),
	}
}

// applySyncEnd ends a synchronisation; a copy that it names has all that the master holds below its baseline.
func (r *Replica) applySyncEnd(p *op) (need, error) {
	if !named(p.members, r.self) {
		if p.flags&flagOver != 0 && r.incoming != nil && r.incoming.id == p.number {
			r.incoming = nil
		}
		return needNothing, nil
	}
	r.incoming, r.missing, r.unknown = nil, 0, false
	if !r.meta.unreconciled {
		return needNow, nil
	}
	if p.flags&flagDrained != 0 && r.meta.baseline > 0 {
		if _, _, err := r.drop([]backingqueue.Range{{First: 0, Last: r.meta.baseline - 1}}); err != nil {
			return needNothing, err
		}
	}
	r.from, r.verified = r.meta.baseline, r.meta.baseline
	r.meta.unreconciled = false
	return needNow, r.saveMeta()
}

// offerStep tells the master the next part of what this copy holds below its baseline.
func (r *Replica) offerStep() (more bool) {
	in := r.incoming
	if in.ended {
		return false
	}
	m := syncMessage{
		kind: syncOffer, epoch: in.epoch, id: in.id, returner: r.returner, from: in.offered, to: r.meta.baseline, held: roaring64.New(),
	}
	n := 0
	for seq, ok := r.q.Next(in.offered); ok && seq < r.meta.baseline; seq, ok = r.q.Next(seq + 1) {
		if n++; n > r.size.offer {
			m.to = seq
			break
		}
		m.held.Add(seq)
	}
	in.offered = m.to
	in.ended = !r.env.SendSync(in.master, m.encode(), nil) || m.to == r.meta.baseline
	return !in.ended
}

// beginBatch drops what the master removed while this copy was away.
func (r *Replica) beginBatch(node string, incarnation uint64, m *syncMessage) (wanted bool, err error) {
	in := r.incoming
	if in == nil || m.epoch != in.epoch || m.id != in.id || in.master.Node != node || in.master.Incarnation != incarnation || m.number != in.batch+1 {
		return false, nil
	}
	for _, g := range m.gone {
		if g.Last >= r.meta.baseline {
			return false, fmt.Errorf("%w: positions up to %d are dropped, the baseline is %d", ErrDefect, g.Last, r.meta.baseline)
		}
	}
	if _, _, err := r.drop(m.gone); err != nil {
		return false, err
	}
	in.to, in.batch = max(m.to, 1), m.number
	return true, nil
}

// takeEntry stores an entry of a batch, unless it was removed since it was read.
func (r *Replica) takeEntry(e *backingqueue.Entry) error {
	if e.Seq >= r.meta.baseline {
		return fmt.Errorf("%w: position %d is synchronised, the baseline is %d", ErrDefect, e.Seq, r.meta.baseline)
	}
	if r.incoming.removed.Contains(e.Seq) {
		return nil
	}
	if _, err := r.q.Insert(*e); errors.Is(err, backingqueue.ErrExists) {
		return nil
	} else if err != nil {
		return r.failed("store a message that is synchronised", err)
	}
	r.missing = max(0, r.missing-1)
	return nil
}

// endBatch tells the master that a batch of that many bytes was taken.
func (r *Replica) endBatch(bytes int) {
	in := r.incoming
	if in == nil || in.to == 0 {
		return
	}
	r.from, r.verified = max(r.from, in.to), max(r.verified, in.to)
	in.to = 0
	in.storing = append(in.storing, storing{in.batch, r.q.Last()})
	if in.bytes += bytes; in.bytes >= storeBytes || in.batch-in.asked >= storeBatches {
		in.bytes, in.asked = 0, in.batch
		r.q.Sync()
	} else {
		r.q.SyncSoon() // other queues may wait for what this one has unstored, and it for them: it must not stay so
	}
	r.batchesStored()
	r.ackBatches()
}

// batchesStored tells whether the disk has come on with the batches that were taken.
func (r *Replica) batchesStored() (moved bool) {
	in := r.incoming
	if in == nil || len(in.storing) == 0 {
		return false
	}
	durable := r.q.Durable()
	for len(in.storing) > 0 && in.storing[0].lsn <= durable {
		in.stored, in.storing, moved = in.storing[0].batch, in.storing[1:], true
	}
	return moved
}

func (r *Replica) ackBatches() {
	in := r.incoming
	m := syncMessage{kind: syncAck, epoch: in.epoch, id: in.id, number: in.batch, stored: in.stored}
	r.env.SendSync(in.master, m.encode(), nil)
}

// entomb remembers what the stream removes while a synchronisation is under way.
func (r *Replica) entomb(rs []backingqueue.Range) {
	if r.incoming == nil {
		return
	}
	for _, g := range rs {
		if g.First < r.meta.baseline {
			r.incoming.removed.AddRange(g.First, min(g.Last+1, r.meta.baseline))
		}
	}
}

// shared is the run of positions [lo, hi) at which what this copy holds is what the master of a Position has, or had and
// removed (mirroring.md, delta): up to the smaller end of the newest epoch that both tables have, and not below the floor of a
// loss that this copy did not see.
func (r *Replica) shared(p *op) (lo, hi uint64) {
	if r.damaged {
		return 0, 0
	}
	hi = min(commonEnd(r.meta.epochs, r.next, p.epochs, p.seq), p.seq)
	if f := p.floor; f.epoch > 0 && f != r.meta.floor {
		lo = p.seq
		for _, e := range p.epochs {
			if e.epoch >= f.epoch {
				lo = e.first
				break
			}
		}
		if f.known {
			lo = min(lo, f.seq)
		}
	}
	return min(lo, hi), hi
}

// commonEnd is the smaller of the two ends of the newest epoch in both tables, 0 if they have none in common.
func commonEnd(a []epochStart, nextA uint64, b []epochStart, nextB uint64) uint64 {
	end := func(es []epochStart, i int, next uint64) uint64 {
		if i+1 < len(es) {
			return es[i+1].first
		}
		return next
	}
	i, j := len(a)-1, len(b)-1
	for i >= 0 && j >= 0 {
		switch {
		case a[i] == b[j]:
			return min(end(a, i, nextA), end(b, j, nextB))
		case a[i].epoch > b[j].epoch:
			i--
		case a[i].epoch < b[j].epoch:
			j--
		default:
			i, j = i-1, j-1
		}
	}
	return 0
}

// keepShared drops what this copy held before it joined and does not share with the master: set aside if a loss was counted
// in its absence. It returns how many messages are left.
func (r *Replica) keepShared(p *op) (kept int, err error) {
	st := r.q.Stats()
	held := st.Messages
	if held == 0 {
		return 0, nil
	}
	r.returner = true
	lo, hi := r.shared(p)
	var other []backingqueue.Range
	if lo > 0 {
		other = append(other, backingqueue.Range{First: 0, Last: lo - 1})
	}
	other = append(other, backingqueue.Range{First: hi, Last: max(hi, st.LastSeq)})
	n := r.count(other)
	loss := r.a.LastLossEpoch > r.meta.lastEpoch() || p.floor.epoch > 0 && p.floor != r.meta.floor
	switch {
	case n == 0:
	case loss && n == held:
		why := fmt.Sprintf("a loss was counted in epoch %d, this copy ends with epoch %d", r.a.LastLossEpoch, r.meta.lastEpoch())
		if r.a.LastLossEpoch <= r.meta.lastEpoch() {
			why = fmt.Sprintf("a loss was counted in epoch %d: what the queue had before cannot be told from what it lost", r.a.LastLossEpoch)
		}
		return 0, r.setAside(n, why)
	case loss:
		why := fmt.Sprintf("a loss was counted in epoch %d; of this copy only positions %d to %d are shared", r.a.LastLossEpoch, lo, hi)
		if err := r.setAsidePart(other, n, why); err != nil {
			return 0, err
		}
	default:
		r.env.Report(r.event(Discarded, r.self, n, "content of an earlier membership; the master's stands"))
		if _, _, err := r.drop(other); err != nil {
			return 0, err
		}
	}
	if p.count > 0 {
		return held - n, nil
	}
	if held > n {
		if _, _, err := r.drop([]backingqueue.Range{{First: 0, Last: st.LastSeq}}); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// count is how many messages this copy holds in the ranges.
func (r *Replica) count(rs []backingqueue.Range) (n int) {
	for _, g := range rs {
		for seq, ok := r.q.Next(g.First); ok && seq <= g.Last; seq, ok = r.q.Next(seq + 1) {
			n++
		}
	}
	return n
}

// setAsidePart keeps n messages out of the queue's way, and goes on with the rest.
func (r *Replica) setAsidePart(rs []backingqueue.Range, n int, why string) error {
	if err := r.env.SetAsidePart(why, r.entries(rs)); err != nil {
		return r.failed("set part of the content aside", err)
	}
	r.env.Report(r.event(SetAside, r.self, n, why))
	_, _, err := r.drop(rs)
	return err
}

// entries are what this copy holds in the ranges.
func (r *Replica) entries(rs []backingqueue.Range) iter.Seq2[backingqueue.Entry, error] {
	return func(yield func(backingqueue.Entry, error) bool) {
		for _, g := range rs {
			for seq, ok := r.q.Next(g.First); ok && seq <= g.Last; seq, ok = r.q.Next(seq + 1) {
				e, held, err := r.q.Get(seq)
				if held || err != nil {
					if !yield(e, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

func named(ms []gm.Member, m gm.Member) bool {
	for _, x := range ms {
		if x == m {
			return true
		}
	}
	return false
}
