package store

import (
	"fmt"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/journal"
	"warren/dataplane/backingqueue/record"
)

// recovery is what start knows while it rebuilds the queues.
type recovery struct {
	s       *Store
	queues  map[backingqueue.ID]*recovering
	deleted map[backingqueue.ID]bool
}

// recovering is one queue while it is rebuilt.
type recovering struct {
	q       *queue
	stated  bool // its State was seen
	stopped bool // a record is missing: nothing after it counts
	last    journal.Pos
}

// start rebuilds the queues from the disk and starts the store's goroutines.
func (s *Store) start() error {
	j, holes, err := journal.Load(journal.Options{
		FS: s.fs, Dir: s.dir("journal"), FileSize: s.o.JournalFileSize, Log: s.log, OnFatal: s.fail,
	})
	if err != nil {
		return err
	}
	s.j = j
	r := &recovery{s: s, queues: map[backingqueue.ID]*recovering{}, deleted: map[backingqueue.ID]bool{}}
	if err := j.Replay(r.visit); err != nil {
		return fmt.Errorf("replay the journal: %w", err)
	}
	for id, rq := range r.queues {
		rq.judge(holes)
		s.queues[id] = rq.q
	}
	j.Start()
	return nil
}

// judge finds out whether the queue lost something in a hole of the journal: it did if it said so (a missing number), or
// if nothing of it follows the hole, as then nothing proves that it did not.
func (rq *recovering) judge(holes []journal.Hole) {
	switch {
	case rq.q.damaged != "":
	case !rq.stated:
		rq.q.damaged = "the journal does not hold the queue's state any more"
	default:
		for _, h := range holes {
			if rq.last.File < h.File || rq.last.File == h.File && int64(rq.last.Off) < h.From {
				rq.q.damaged = fmt.Sprintf("journal file %d is damaged from %d to %d", h.File, h.From, h.To)
			}
		}
	}
}

func (r *recovery) visit(pos journal.Pos, payload []byte) error {
	rec, err := record.DecodeSlim(payload)
	if err != nil {
		return fmt.Errorf("%s at %d: %w", r.s.j.Path(pos.File), pos.Off, err)
	}
	if r.deleted[rec.Queue] {
		return nil
	}
	if rec.Type == record.TypeDelete {
		r.forget(rec.Queue)
		return nil
	}
	rq := r.queues[rec.Queue]
	if rq == nil {
		rq = &recovering{q: newQueue(r.s, rec.Queue)}
		rq.q.durable = true
		rq.q.number = rec.Number - 1
		r.queues[rec.Queue] = rq
	}
	if rq.stopped {
		return nil
	}
	if rec.Number != rq.q.number+1 {
		rq.stopped = true
		rq.q.damaged = fmt.Sprintf("records %d to %d are missing before %s at %d",
			rq.q.number+1, rec.Number-1, r.s.j.Path(pos.File), pos.Off)
		return nil
	}
	rq.q.number = rec.Number
	rq.last = pos
	rq.q.replay(rec, pos)
	rq.stated = rq.stated || rec.Type == record.TypeState
	return nil
}

func (r *recovery) forget(id backingqueue.ID) {
	r.deleted[id] = true
	if rq := r.queues[id]; rq != nil {
		rq.q.release(0, ^uint64(0))
		delete(r.queues, id)
	}
}

// replay applies a record. The queue may already be ahead of it in parts: what the end of the log says wins.
func (q *queue) replay(rec record.Record, pos journal.Pos) {
	switch rec.Type {
	case record.TypeAppend, record.TypeInsert:
		q.release(rec.Entry.Seq, rec.Entry.Seq)
		q.st.j.Hold(pos.File, 1)
		q.hold(&rec.Entry, slot{file: pos.File, off: pos.Off, size: pos.Size}, false)
		if rec.Type == record.TypeAppend {
			q.nextSeq = max(q.nextSeq, rec.Entry.Seq+1)
			q.raise(rec.Entry.Ref, rec.Entry.Number)
		}
	case record.TypePassed:
		q.nextSeq = max(q.nextSeq, rec.At+1)
		q.raise(rec.Origin.Ref, rec.Origin.Number)
	case record.TypeRemove:
		for _, r := range rec.Ranges {
			q.release(r.First, r.Last)
		}
	case record.TypeDelivered:
		for _, r := range rec.Ranges {
			q.idx.markDelivered(r.First, r.Last, func(item) {})
		}
	case record.TypeTruncate:
		q.release(rec.At, ^uint64(0))
		q.nextSeq = rec.At
	case record.TypeSkip:
		q.nextSeq = max(q.nextSeq, rec.At)
	case record.TypeOrigin:
		q.origins[rec.Origin.Ref] = rec.Origin
	case record.TypeCloseOrigin:
		delete(q.origins, rec.At)
	case record.TypeMeta:
		q.meta = append([]byte(nil), rec.Meta...)
	case record.TypeState:
		q.nextSeq = rec.State.NextSeq
		clear(q.origins)
		for _, o := range rec.State.Origins {
			q.origins[o.Ref] = o
		}
		q.meta = append([]byte(nil), rec.State.Meta...)
	}
}

// forget drops a queue that is not open for good; s.mu is held.
func (s *Store) forget(q *queue) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(s.queues, q.id)
	var err error
	if q.durable {
		if q.stream == nil {
			q.stream = journal.NewStream(nil)
		}
		_, err = q.put(q.begin(record.TypeDelete), nil, false)
		s.j.Sync()
	}
	q.release(0, ^uint64(0))
	if err != nil {
		return fmt.Errorf("delete queue %d: %w", q.id, err)
	}
	return nil
}
