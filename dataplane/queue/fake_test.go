package queue_test

import (
	"math/rand/v2"
	"slices"
	"sort"

	"warren/dataplane/backingqueue"
	"warren/dataplane/queue"
)

// fake is a Backing: a log of operations, and what it amounts to. A promotion is a new fake made from the first part of
// the old one's log: what the ring had brought to the survivor. It is honest about origins (repeats, gaps, refused
// publishes, losses) and about when something is confirmable, and knows nothing else.
type fake struct {
	ev        queue.Events
	log       []fakeOp
	persisted int // how much of log is persisted by all
	window    int // publishes that may be unpersisted
	full      bool
	epochs    []fakeEpoch
	repeats   []fakeRepeat

	seqs      []uint64 // held, ascending
	entries   map[uint64]backingqueue.Entry
	nextSeq   uint64
	table     map[backingqueue.OriginID]*backingqueue.Origin
	refs      map[uint64]backingqueue.OriginID
	nextRef   uint64
	refused   map[fakeKey]bool
	lossyUpTo map[backingqueue.OriginID]uint64 // promoted without being synchronised: what its table had
	publishes int                              // unpersisted
	closed    int
	read      func() // called by Get; nil: nothing
}

type fakeKey struct {
	id     backingqueue.OriginID
	number uint64
}

type fakeEpoch struct{ epoch, first uint64 }

type fakeRepeat struct {
	id     backingqueue.OriginID
	number uint64
	after  int
}

type fakeOp struct {
	kind   byte // p publish, f refuse, r remove, d delivered, a attach, c close, n new master, l loss
	origin backingqueue.OriginID
	number uint64
	entry  backingqueue.Entry
	ranges []backingqueue.Range
	epoch  uint64
	reason queue.Reason
}

func newFake(epoch uint64, window int) *fake {
	f := &fake{
		window: window, entries: map[uint64]backingqueue.Entry{}, nextSeq: 1,
		table: map[backingqueue.OriginID]*backingqueue.Origin{}, refs: map[uint64]backingqueue.OriginID{},
		refused: map[fakeKey]bool{}, lossyUpTo: map[backingqueue.OriginID]uint64{},
	}
	f.append(fakeOp{kind: 'n', epoch: epoch})
	return f
}

// promote makes the master of epoch from the first n operations of f, of which those that f knew to be persisted are.
func (f *fake) promote(epoch uint64, n int) *fake {
	g := newFake(0, f.window)
	g.log, g.epochs = nil, nil
	for _, op := range f.log[:n] {
		g.append(op)
	}
	g.persisted = min(f.persisted, n)
	g.append(fakeOp{kind: 'n', epoch: epoch})
	g.publishes = 0
	for _, op := range g.log[g.persisted:] {
		if op.kind == 'p' {
			g.publishes++
		}
	}
	return g
}

// lose forgets messages as a mirror lacks them that was promoted without being synchronised.
func (f *fake) lose(r *rand.Rand) (lost []backingqueue.Entry) {
	var rs []backingqueue.Range
	for _, seq := range f.seqs {
		if r.IntN(3) == 0 {
			lost = append(lost, f.entries[seq])
			rs = append(rs, backingqueue.Range{First: seq, Last: seq})
		}
	}
	f.append(fakeOp{kind: 'l', ranges: rs})
	return lost
}

func (f *fake) append(op fakeOp) int {
	f.log = append(f.log, op)
	switch op.kind {
	case 'n':
		f.epochs = append(f.epochs, fakeEpoch{op.epoch, f.nextSeq})
	case 'p':
		f.seqs = append(f.seqs, op.entry.Seq)
		f.entries[op.entry.Seq] = op.entry
		f.nextSeq = op.entry.Seq + 1
		f.table[op.origin].Number = op.number
		f.publishes++
	case 'f':
		f.table[op.origin].Number = op.number
		f.refused[fakeKey{op.origin, op.number}] = true
	case 'r':
		f.each(op.ranges, f.drop)
	case 'l':
		f.each(op.ranges, f.drop)
		for id, o := range f.table {
			f.lossyUpTo[id] = o.Number
		}
	case 'd':
		f.each(op.ranges, func(seq uint64) {
			e := f.entries[seq]
			e.Delivered = true
			f.entries[seq] = e
		})
	case 'a':
		o := f.table[op.origin]
		if o == nil {
			f.nextRef++
			o = &backingqueue.Origin{Ref: f.nextRef, ID: op.origin}
			f.table[op.origin] = o
			f.refs[o.Ref] = op.origin
		}
		o.Number = max(o.Number, op.number-1)
	case 'c':
		if o := f.table[op.origin]; o != nil {
			delete(f.refs, o.Ref)
			delete(f.table, op.origin)
		}
		f.closed++
	}
	return len(f.log)
}

func (f *fake) each(rs []backingqueue.Range, do func(uint64)) {
	for _, r := range rs {
		for {
			seq, ok := f.Next(r.First)
			if !ok || seq > r.Last {
				break
			}
			do(seq)
			r.First = seq + 1
		}
	}
}

func (f *fake) drop(seq uint64) {
	if i, ok := slices.BinarySearch(f.seqs, seq); ok {
		f.seqs = slices.Delete(f.seqs, i, i+1)
		delete(f.entries, seq)
	}
}

// advance makes n more operations persisted, and tells what follows from that.
func (f *fake) advance(n int) {
	to := min(len(f.log), f.persisted+n)
	for f.persisted < to {
		op := f.log[f.persisted]
		f.persisted++
		switch op.kind {
		case 'p':
			f.publishes--
			f.ev.Confirmable(op.origin, op.number)
		case 'r':
			f.ev.OpStable(queue.Op(f.persisted))
		}
		for len(f.repeats) > 0 && f.repeats[0].after <= f.persisted {
			r := f.repeats[0]
			f.repeats = f.repeats[1:]
			f.ev.Confirmable(r.id, r.number)
		}
	}
	for len(f.repeats) > 0 && f.repeats[0].after <= f.persisted {
		r := f.repeats[0]
		f.repeats = f.repeats[1:]
		f.ev.Confirmable(r.id, r.number)
	}
	if f.full && f.publishes < f.window {
		f.full = false
		f.ev.WindowOpen()
	}
}

func (f *fake) Publish(id backingqueue.OriginID, e backingqueue.Entry) (queue.Taken, uint64, error) {
	o := f.table[id]
	switch {
	case o == nil || e.Number > o.Number+1:
		return queue.TakenGap, 0, nil
	case e.Number <= o.Number:
		taken, seq := f.repeat(id, e.Number)
		return taken, seq, nil
	case f.publishes >= f.window:
		f.full = true
		return queue.TakenFull, 0, nil
	}
	e.Seq, e.Ref = f.nextSeq, o.Ref
	f.append(fakeOp{kind: 'p', origin: id, number: e.Number, entry: e})
	return queue.TakenNew, e.Seq, nil
}

func (f *fake) repeat(id backingqueue.OriginID, number uint64) (queue.Taken, uint64) {
	seq, ok := f.Find(id, number)
	if f.refused[fakeKey{id, number}] {
		return queue.TakenRefused, 0
	}
	if !ok && number <= f.lossyUpTo[id] {
		return queue.TakenLost, 0
	}
	f.repeats = append(f.repeats, fakeRepeat{id, number, len(f.log)})
	return queue.TakenRepeat, seq
}

func (f *fake) Refuse(id backingqueue.OriginID, number uint64) (queue.Taken, error) {
	o := f.table[id]
	switch {
	case o == nil || number > o.Number+1:
		return queue.TakenGap, nil
	case number <= o.Number:
		taken, _ := f.repeat(id, number)
		return taken, nil
	}
	f.append(fakeOp{kind: 'f', origin: id, number: number})
	return queue.TakenNew, nil
}

func (f *fake) AttachOrigin(id backingqueue.OriginID, lowest uint64) error {
	f.append(fakeOp{kind: 'a', origin: id, number: lowest})
	return nil
}

func (f *fake) CloseOrigin(id backingqueue.OriginID) error {
	f.append(fakeOp{kind: 'c', origin: id})
	return nil
}

func (f *fake) Remove(rs []backingqueue.Range, reason queue.Reason) (queue.Op, error) {
	return queue.Op(f.append(fakeOp{kind: 'r', ranges: rs, reason: reason})), nil
}

func (f *fake) Delivered(rs []backingqueue.Range) error {
	f.append(fakeOp{kind: 'd', ranges: rs})
	return nil
}

func (f *fake) Find(id backingqueue.OriginID, number uint64) (uint64, bool) {
	for _, seq := range f.seqs {
		if e := f.entries[seq]; e.Number == number && f.refs[e.Ref] == id {
			return seq, true
		}
	}
	return 0, false
}

func (f *fake) Get(seq uint64) (backingqueue.Entry, bool, error) {
	if f.read != nil {
		f.read()
	}
	e, ok := f.entries[seq]
	return e, ok, nil
}

func (f *fake) Next(from uint64) (uint64, bool) {
	i, _ := slices.BinarySearch(f.seqs, from)
	if i == len(f.seqs) {
		return 0, false
	}
	return f.seqs[i], true
}

func (f *fake) EpochOf(seq uint64) uint64 {
	i := sort.Search(len(f.epochs), func(i int) bool { return f.epochs[i].first > seq })
	if i == 0 {
		return 0
	}
	return f.epochs[i-1].epoch
}

func (f *fake) Stats() backingqueue.Stats {
	s := backingqueue.Stats{Messages: len(f.seqs), NextSeq: f.nextSeq}
	for _, e := range f.entries {
		s.Bytes += int64(len(e.Message.Body))
	}
	if len(f.seqs) > 0 {
		s.FirstSeq, s.LastSeq = f.seqs[0], f.seqs[len(f.seqs)-1]
	}
	return s
}

func (f *fake) OriginOf(ref uint64) (backingqueue.OriginID, bool) {
	id, ok := f.refs[ref]
	return id, ok
}

func (f *fake) Origins() []backingqueue.Origin {
	os := make([]backingqueue.Origin, 0, len(f.table))
	for _, o := range f.table {
		os = append(os, *o)
	}
	sort.Slice(os, func(i, j int) bool { return os[i].Ref < os[j].Ref })
	return os
}
