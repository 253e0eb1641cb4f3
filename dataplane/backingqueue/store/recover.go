package store

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/journal"
	"warren/dataplane/backingqueue/record"
)

// recovery is what start knows while it rebuilds the queues.
type recovery struct {
	s       *Store
	queues  map[backingqueue.ID]*recovering
	deleted map[backingqueue.ID]journal.Pos // where the journal last says so; what follows is of a new queue with that ID
	newest  uint32                          // journal file at start
	damaged bool                            // a segment was
}

// recovering is one queue while it is rebuilt.
type recovering struct {
	q      *queue
	state  record.State // the newest in the journal
	stated bool         // there is one
	dir    bool         // has a directory
	lost   string       // what of its segments is damaged
	begun  bool         // a record was replayed
	last   journal.Pos  // of the last record replayed
}

// start rebuilds the queues from the disk and starts the store's goroutines.
func (s *Store) start() error {
	r := &recovery{s: s, queues: map[backingqueue.ID]*recovering{}, deleted: map[backingqueue.ID]journal.Pos{}}
	j, holes, err := journal.Load(journal.Options{
		FS: s.fs, Dir: s.dir("journal"), FileSize: s.o.JournalFileSize, Log: s.log, OnFatal: s.o.OnFatal,
		OnCommit: s.committed,
	}, r.survey)
	if err != nil {
		return err
	}
	s.j = j
	for _, f := range j.Files() {
		r.newest = f.ID
	}
	if err := r.run(holes); err != nil {
		return errors.Join(err, r.close())
	}
	j.Start()
	if err := r.finish(holes); err != nil {
		return errors.Join(err, j.Close(), r.closeSegments())
	}
	s.startHelpers()
	s.kick(s.tendC)
	return nil
}

// committed is the journal's OnCommit.
func (s *Store) committed(rotated bool) {
	if rotated {
		s.kick(s.tendC)
	}
	if s.ram.Load() > s.budget.Load() {
		s.kick(s.pageC)
	}
}

// run reads the segments, which the journal's first reading (survey) said there must be, and then the journal again for
// all that it says.
func (r *recovery) run(holes []journal.Hole) error {
	if err := r.loadSegments(); err != nil {
		return err
	}
	if err := r.s.j.Replay(r.visit); err != nil {
		return fmt.Errorf("replay the journal: %w", err)
	}
	for id, rq := range r.queues {
		rq.judge(holes)
		if rq.q.damaged != "" {
			r.s.log.Error("queue is damaged", "queue", uint64(id), "what", rq.q.damaged)
		}
		r.s.queues[id] = rq.q
		r.s.untidy(rq.q)
	}
	return nil
}

func (r *recovery) close() error {
	return errors.Join(r.s.j.Abandon(), r.closeSegments())
}

func (r *recovery) closeSegments() (err error) {
	for _, rq := range r.queues {
		err = errors.Join(err, rq.q.segs.Close())
	}
	return err
}

// finish brings the disk into a state that the next recovery reads without the holes of this one.
func (r *recovery) finish(holes []journal.Hole) error {
	s := r.s
	s.work.Lock()
	defer s.work.Unlock()
	s.sweepAside()
	if len(holes) == 0 && !r.damaged {
		return nil
	}
	for i, h := range holes {
		if i > 0 && holes[i-1].File == h.File {
			continue
		}
		if err := s.saveHole(h); err != nil {
			return err
		}
	}
	for _, rq := range r.queues {
		rq.q.mu.Lock()
		err := rq.q.putState()
		rq.q.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if err := s.j.Flush(); err != nil {
		return err
	}
	for _, f := range s.j.Files() {
		if f.ID > r.newest {
			break
		}
		if err := s.retireFile(f, true); err != nil {
			return err
		}
	}
	for _, rq := range r.queues {
		rq.q.stopAt = journal.Pos{}
	}
	return nil
}

// get is the queue being rebuilt.
func (r *recovery) get(id backingqueue.ID) *recovering {
	rq := r.queues[id]
	if rq == nil {
		rq = &recovering{q: newQueue(r.s, id)}
		rq.q.durable = true
		r.queues[id] = rq
	}
	return rq
}

// survey takes from the journal's first reading the newest State of each queue, and which were deleted.
func (r *recovery) survey(pos journal.Pos, payload []byte) error {
	if t := record.Type(payload[0]); t != record.TypeState && t != record.TypeDelete {
		return nil
	}
	rec, err := record.Decode(payload)
	if err != nil {
		return err
	}
	if rec.Type == record.TypeDelete {
		r.deleted[rec.Queue] = pos
		delete(r.queues, rec.Queue)
		return nil
	}
	rq := r.get(rec.Queue)
	rec.State.Meta = nil // aliases a buffer, and is of no use here
	rq.state, rq.stated = rec.State, true
	return nil
}

// dead says whether a queue was deleted and not begun anew. Where it was, its directory has nothing of the old one: Open
// saw to that first.
func (r *recovery) dead(id backingqueue.ID) bool {
	_, deleted := r.deleted[id]
	return deleted && r.queues[id] == nil
}

// loadSegments reads the segments of every queue that has some, several queues at once.
func (r *recovery) loadSegments() error {
	names, err := r.s.fs.ReadDir(r.s.dir("queues"))
	if err != nil {
		return fmt.Errorf("list the queues: %w", err)
	}
	for _, name := range names {
		id, err := strconv.ParseUint(name, 10, 64)
		switch {
		case err != nil:
			r.s.log.Warn("unknown name among the queues' directories", "file", r.s.dir("queues", name))
		case r.dead(backingqueue.ID(id)):
			// For good, as the journal will forget that the queue was deleted.
			if err := errors.Join(r.s.fs.RemoveAll(r.s.dir("queues", name)), r.s.fs.SyncDir(r.s.dir("queues"))); err != nil {
				return fmt.Errorf("remove the segments of deleted queue %d: %w", id, err)
			}
		default:
			r.get(backingqueue.ID(id)).dir = true
		}
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	for id, rq := range r.queues {
		if !rq.dir && len(rq.state.Segments) == 0 {
			continue
		}
		g.Go(func() error {
			damages, err := rq.q.segs.Load(rq.state, rq.stated, rq.visitSegment, func(path string, content []byte) error {
				mu.Lock()
				defer mu.Unlock()
				return r.s.save(path, content)
			})
			if err != nil {
				return fmt.Errorf("recover queue %d: %w", id, err)
			}
			for _, d := range damages {
				mu.Lock()
				r.damaged = true
				mu.Unlock()
				what := fmt.Sprintf("is damaged from %d to %d", d.From, d.To)
				if d.Missing {
					what = "is missing"
				}
				rq.lost = rq.q.segs.Path(d.ID) + " " + what
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for id, rq := range r.queues {
		if !rq.stated && len(rq.q.segs.Files()) == 0 {
			delete(r.queues, id) // only transient messages were there
		}
	}
	return nil
}

func (rq *recovering) visitSegment(id uint32, off int64, size int, payload []byte) error {
	rec, err := record.DecodeSlim(payload)
	if err != nil {
		return err
	}
	if rec.Type == record.TypeAppend || rec.Type == record.TypeInsert {
		if _, _, held := rq.q.idx.at(rec.Entry.Seq); held {
			rq.q.release(rec.Entry.Seq, rec.Entry.Seq)
		}
		rq.q.segs.Hold(id, 1)
		rq.q.hold(&rec.Entry, slot{file: id, off: uint32(off), size: uint32(size)}, false)
		if !rq.stated {
			rq.q.nextSeq = max(rq.q.nextSeq, rec.Entry.Seq+1)
		}
		return nil
	}
	rq.q.replay(rec, journal.Pos{})
	return nil
}

// judge finds out whether the queue lost something in a hole of the journal: it did if it said so (a missing number), or
// if nothing of it follows the hole, as then nothing proves that it did not.
func (rq *recovering) judge(holes []journal.Hole) {
	switch {
	case rq.lost != "":
		rq.q.damaged = rq.lost
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
	if end := r.deleted[rec.Queue]; pos.File < end.File || pos.File == end.File && pos.Off <= end.Off {
		return nil
	}
	rq := r.get(rec.Queue)
	q := rq.q
	if q.stopAt.File != 0 {
		return nil
	}
	if rq.begun && rec.Number != q.number+1 {
		q.stopAt = pos
		q.damaged = fmt.Sprintf("records %d to %d are missing before %s at %d",
			q.number+1, rec.Number-1, r.s.j.Path(pos.File), pos.Off)
		return nil
	}
	rq.begun, q.number, rq.last = true, rec.Number, pos
	if rec.Type == record.TypeState {
		q.stateFile = pos.File
	}
	q.replay(rec, pos)
	return nil
}

// replay applies a record. The queue may already be ahead of it in parts: what the end of the log says wins.
func (q *queue) replay(rec record.Record, pos journal.Pos) {
	switch rec.Type {
	case record.TypeAppend, record.TypeInsert:
		if _, _, held := q.idx.at(rec.Entry.Seq); held {
			q.release(rec.Entry.Seq, rec.Entry.Seq)
		}
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
		q.meta, q.damaged = append([]byte(nil), rec.Meta...), ""
	case record.TypeState:
		q.nextSeq = rec.State.NextSeq
		clear(q.origins)
		for _, o := range rec.State.Origins {
			q.origins[o.Ref] = o
		}
		q.meta = append([]byte(nil), rec.State.Meta...)
		q.damaged = rec.State.Damaged
	}
}
