package store

import (
	"errors"
	"fmt"
	"slices"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/journal"
	"warren/dataplane/backingqueue/record"
)

// mover copies what is still wanted of one file, of the journal or of a segment, to the segments of its queues: first it
// picks, then it writes.
type mover struct {
	s      *Store
	known  map[backingqueue.ID]*queue
	queues []*moving // in order of first mention
	byID   map[*queue]*moving
}

// moving is one queue's part of a move.
type moving struct {
	q       *queue
	items   []moved
	removed []backingqueue.Range // gathered from consecutive removals
}

// moved is a record on its way; rec aliases the file's content.
type moved struct {
	rec      []byte // frame and payload of an entry
	seq      uint64
	from, to slot
	control  record.Type // of a record without an entry, 0: an entry
	ranges   []backingqueue.Range
}

func newMover(s *Store) *mover {
	return &mover{s: s, known: map[backingqueue.ID]*queue{}, byID: map[*queue]*moving{}}
}

func (m *mover) queue(id backingqueue.ID) *queue {
	q, ok := m.known[id]
	if !ok {
		q = m.s.lookup(id)
		m.known[id] = q
	}
	return q
}

func (m *mover) add(q *queue, it moved) {
	g := m.byID[q]
	if g == nil {
		g = &moving{q: q}
		m.byID[q] = g
		m.queues = append(m.queues, g)
	}
	g.items = append(g.items, it)
}

// pickJournal picks from a journal file. tolerant: holes are known of.
func (m *mover) pickJournal(id uint32, content []byte, tolerant bool) error {
	holes, err := record.Scan(content, uint64(id), func(off int64, size int, p []byte) error {
		rec, err := record.DecodeSlim(p)
		if err != nil {
			return err
		}
		q := m.queue(rec.Queue)
		if q == nil || q.stopped(journal.Pos{File: id, Off: uint32(off)}) {
			return nil
		}
		switch rec.Type {
		case record.TypeAppend, record.TypeInsert:
			if from, _, ok := q.wants(rec.Entry.Seq, id, uint32(off)); ok {
				m.add(q, moved{rec: content[off : off+int64(size)], seq: rec.Entry.Seq, from: from})
			}
		case record.TypeRemove, record.TypeDelivered:
			m.add(q, moved{control: rec.Type, ranges: rec.Ranges})
		case record.TypeTruncate:
			m.add(q, moved{control: record.TypeRemove, ranges: []backingqueue.Range{{First: rec.At, Last: ^uint64(0)}}})
		}
		return nil
	}, nil)
	if err == nil && len(holes) > 0 && !tolerant {
		err = fmt.Errorf("from %d to %d: %w", holes[0].From, holes[0].To, backingqueue.ErrDamaged)
	}
	if err != nil {
		return fmt.Errorf("move what is alive out of %s: %w", m.s.j.Path(id), err)
	}
	return nil
}

// stopped says whether a record at pos does not count, as one of the queue's before it was lost.
func (q *queue) stopped(pos journal.Pos) bool {
	return q.stopAt.File != 0 && (pos.File > q.stopAt.File || pos.File == q.stopAt.File && pos.Off >= q.stopAt.Off)
}

// wants says whether the queue has seq at this place.
func (q *queue) wants(seq uint64, file, off uint32) (s slot, delivered, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it, ok := q.idx.get(seq)
	return it.slot, it.delivered, ok && it.file == file && it.off == off && !q.gone
}

// pickSegment picks from a segment file of one queue. Removals and marks are wanted where they concern older files, and
// what they say is still so.
func (m *mover) pickSegment(q *queue, id uint32, content []byte) error {
	holes, err := record.Scan(content, uint64(id), func(off int64, size int, p []byte) error {
		rec, err := record.DecodeSlim(p)
		if err != nil {
			return err
		}
		switch rec.Type {
		case record.TypeAppend, record.TypeInsert:
			from, delivered, ok := q.wants(rec.Entry.Seq, id, uint32(off))
			if !ok {
				return nil
			}
			raw := content[off : off+int64(size)]
			if delivered && !rec.Entry.Delivered {
				raw = marked(p)
			}
			m.add(q, moved{rec: raw, seq: rec.Entry.Seq, from: from})
		case record.TypeRemove, record.TypeDelivered:
			q.mu.Lock()
			rs := q.stillSo(rec.Type, clip(rec.Ranges, q.segs.Spans(id)))
			q.mu.Unlock()
			if len(rs) > 0 {
				m.add(q, moved{control: rec.Type, ranges: rs})
			}
		}
		return nil
	}, nil)
	if err == nil && len(holes) > 0 {
		err = fmt.Errorf("from %d to %d: %w", holes[0].From, holes[0].To, backingqueue.ErrDamaged)
	}
	if err != nil {
		return fmt.Errorf("move what is alive out of %s: %w", q.segs.Path(id), err)
	}
	return nil
}

// marked is the whole record of an entry, with the delivered mark set.
func marked(payload []byte) []byte {
	rec, err := record.Decode(payload)
	if err != nil {
		return nil
	}
	rec.Entry.Delivered = true
	return entryRecord(rec.Queue, &rec.Entry)
}

// entryRecord is a whole record for a segment.
func entryRecord(id backingqueue.ID, e *backingqueue.Entry) []byte {
	b := make([]byte, record.FrameSize, 128+cost(e))
	b = record.AppendEntry(record.Head(b, record.TypeAppend, id, 0), e)
	b = append(b, e.Message.Body...)
	record.PutFrame(b, b[record.FrameSize:], nil)
	return b
}

// clip is what ranges and spans have in common.
func clip(rs, spans []backingqueue.Range) []backingqueue.Range {
	var out []backingqueue.Range
	for _, r := range rs {
		for _, s := range spans {
			if f, l := max(r.First, s.First), min(r.Last, s.Last); f <= l {
				out = append(out, backingqueue.Range{First: f, Last: l})
			}
		}
	}
	return out
}

// stillSo leaves of the ranges of an old removal what is not held now, of an old mark what is held and delivered now.
func (q *queue) stillSo(t record.Type, rs []backingqueue.Range) []backingqueue.Range {
	var out []backingqueue.Range
	for _, r := range rs {
		at := r.First
		for seq, ok := q.idx.next(at); ok && seq <= r.Last; seq, ok = q.idx.next(at) {
			if t == record.TypeRemove && seq > at {
				out = append(out, backingqueue.Range{First: at, Last: seq - 1})
			}
			if it, _ := q.idx.get(seq); t == record.TypeDelivered && it.delivered {
				out = append(out, backingqueue.Range{First: seq, Last: seq})
			}
			if at = seq + 1; at == 0 {
				return out
			}
		}
		if t == record.TypeRemove && at <= r.Last {
			out = append(out, backingqueue.Range{First: at, Last: r.Last})
		}
	}
	return out
}

// write writes what was picked, makes it durable, and lets the queues know the new places.
func (m *mover) write() error {
	for _, g := range m.queues {
		if err := g.write(); errors.Is(err, backingqueue.ErrClosed) {
			continue
		} else if err != nil {
			return fmt.Errorf("move entries of queue %d to its segments: %w", g.q.id, err)
		}
		g.settle()
	}
	return nil
}

func (g *moving) write() error {
	for i := range g.items {
		it := &g.items[i]
		if it.control == record.TypeRemove {
			g.removed = merge(g.removed, it.ranges)
			continue
		}
		if err := g.flushRemoved(); err != nil {
			return err
		}
		if it.control != 0 {
			if err := g.control(it.control, it.ranges); err != nil {
				return err
			}
			continue
		}
		id, off, err := g.q.segs.Append(it.rec, it.seq)
		if err != nil {
			return err
		}
		it.to = slot{file: id, off: off, size: uint32(len(it.rec)), body: it.from.body}
	}
	if err := g.flushRemoved(); err != nil {
		return err
	}
	return g.q.segs.Commit()
}

// merge adds ranges, joining what touches the last one.
func merge(rs, more []backingqueue.Range) []backingqueue.Range {
	for _, r := range more {
		if n := len(rs); n > 0 && r.First >= rs[n-1].First && r.First-1 <= rs[n-1].Last {
			rs[n-1].Last = max(rs[n-1].Last, r.Last)
			continue
		}
		rs = append(rs, r)
	}
	return rs
}

func (g *moving) flushRemoved() error {
	rs := g.removed
	g.removed = nil
	return g.control(record.TypeRemove, rs)
}

// control writes the part of the ranges that concerns what the segments hold, if there is any.
func (g *moving) control(t record.Type, rs []backingqueue.Range) error {
	const most = 4096 // ranges of one record
	rs = clip(rs, joined(g.q.segs.Spans(0)))
	for len(rs) > 0 {
		n := min(len(rs), most)
		if err := g.q.segs.Control(record.AppendRanges(record.Head(nil, t, g.q.id, 0), rs[:n])); err != nil {
			return err
		}
		rs = rs[n:]
	}
	return nil
}

// joined is spans, which mostly ascend, with neighbours that overlap made one.
func joined(spans []backingqueue.Range) []backingqueue.Range {
	var out []backingqueue.Range
	for _, s := range spans {
		if n := len(out); n > 0 && s.First >= out[n-1].First && s.First-1 <= out[n-1].Last {
			out[n-1].Last = max(out[n-1].Last, s.Last)
			continue
		}
		out = append(out, s)
	}
	return out
}

// settleStep is for how many entries the queue's lock is held once: its owner wants it meanwhile.
const settleStep = 1024

// settle tells the queue where its entries are now, but for those that are gone meanwhile.
func (g *moving) settle() {
	for items := range slices.Chunk(g.items, settleStep) {
		g.settleSome(items)
	}
}

func (g *moving) settleSome(items []moved) {
	q := g.q
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range items {
		if it.control != 0 {
			continue
		}
		now, ok := q.idx.get(it.seq)
		if ok && now.file == it.from.file && now.off == it.from.off {
			q.idx.move(it.seq, it.to)
			q.segs.Hold(it.to.file, 1)
			q.free(now.slot)
		}
	}
	q.freeRest()
}

// retire moves what is alive in the oldest journal file to the segments, logs again what else only that file says, and
// drops the file.
func (s *Store) retire(f journal.FileInfo) error {
	return s.retireFile(f, false)
}

func (s *Store) retireFile(f journal.FileInfo, tolerant bool) error {
	m := newMover(s)
	stale := s.concerned(f.ID)
	if f.Live > 0 || len(stale.segmented) > 0 {
		content, err := s.j.Content(f.ID)
		if err != nil {
			return err
		}
		if err := m.pickJournal(f.ID, content, tolerant); err != nil {
			return err
		}
		if err := m.write(); err != nil {
			return err
		}
	}
	for _, g := range m.queues {
		stale.stated[g.q] = true
	}
	for q := range stale.stated {
		q.mu.Lock()
		var err error
		if !q.gone {
			err = q.putState()
		}
		q.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if err := s.j.Flush(); err != nil {
		return err
	}
	return s.j.Drop(f.ID)
}

// concern is whom the end of a journal file concerns.
type concern struct {
	stated    map[*queue]bool // their State is in the file
	segmented []*queue        // they have segments, so removals may matter
}

func (s *Store) concerned(file uint32) concern {
	c := concern{stated: map[*queue]bool{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		q.mu.Lock()
		if q.durable && q.stateFile <= file {
			c.stated[q] = true
		}
		if len(q.segs.Files()) > 0 {
			c.segmented = append(c.segmented, q)
		}
		q.mu.Unlock()
	}
	return c
}
