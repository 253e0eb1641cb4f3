package store

import (
	"cmp"
	"errors"
	"slices"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/segment"
)

const (
	// pageStep is how much a queue gives back while its lock is held once, in bytes.
	pageStep = 4 << 20
	// segmentBits are set in the id of a file that is not the journal's.
	segmentBits = segment.Bit | segment.VolatileBit
)

// SetBudget changes how many bytes of memory message bodies may take, from 0 up; what is over is paged out soon.
func (s *Store) SetBudget(bytes int64) {
	s.budget.Store(bytes)
	s.subside()
	if !s.stopping.Load() {
		s.kick(s.pageC)
	}
}

// page makes the store's messages in memory fit the budget again, as far as they are on disk or may go there. It starts
// with the queue that has most in memory, and in a queue with the end, which will be wanted last.
func (s *Store) page() error {
	s.paging.Lock()
	defer s.paging.Unlock()
	for {
		budget := s.budget.Load()
		target := budget - budget/16
		over := s.ram.Load() - target
		if over <= budget/16 {
			return nil
		}
		var freed int64
		for _, q := range s.byMemory() {
			for over > freed && !s.stopping.Load() {
				n, err := q.pageOut(min(over-freed, pageStep))
				if err != nil {
					return err
				}
				if n == 0 {
					break
				}
				freed += n
			}
		}
		if freed == 0 {
			// All that is left is not written yet: the next commit wakes the pager again.
			s.j.Sync()
			return nil
		}
	}
}

// byMemory are the queues that have messages in memory, the one with most first.
func (s *Store) byMemory() []*queue {
	type sized struct {
		q *queue
		n int64
	}
	var qs []sized
	s.mu.Lock()
	for _, q := range s.queues {
		q.mu.Lock()
		if q.inRAM > 0 {
			qs = append(qs, sized{q, q.ramBytes + 256*int64(q.inRAM)})
		}
		q.mu.Unlock()
	}
	s.mu.Unlock()
	slices.SortFunc(qs, func(a, b sized) int { return cmp.Compare(b.n, a.n) })
	out := make([]*queue, len(qs))
	for i, e := range qs {
		out[i] = e.q
	}
	return out
}

// pageOut gives back up to want bytes or a little more, and says how many.
func (q *queue) pageOut(want int64) (int64, error) {
	q.mu.Lock()
	if q.gone {
		q.mu.Unlock()
		return 0, nil
	}
	var freed int64
	var out []*backingqueue.Entry
	var outBytes int64
	q.idx.fromEnd(q.inRAM, func(seq uint64, it item) bool {
		c := cost(it.ram)
		switch {
		case it.file == 0:
			out = append(out, it.ram)
			outBytes += c
		case it.file >= segment.VolatileBit || q.st.j.Written(it.file, it.off):
			q.evict(seq, it)
			freed += c
		}
		return freed+outBytes < want
	})
	q.mu.Unlock()
	if len(out) == 0 {
		return freed, nil
	}
	n, err := q.spillOut(out)
	return freed + n, err
}

func (q *queue) evict(seq uint64, it item) {
	q.idx.evict(seq)
	q.inRAM--
	q.ramBytes -= int64(it.body)
	q.st.ram.Add(-cost(it.ram))
	q.st.subside()
}

// spillOut writes transient messages to disk, without a sync, and forgets their bodies.
func (q *queue) spillOut(out []*backingqueue.Entry) (freed int64, err error) {
	to := make([]slot, len(out))
	for i, e := range out {
		rec := entryRecord(q.id, e)
		id, off, err := q.spill.Append(rec, e.Seq)
		if err != nil {
			return 0, spilled(err)
		}
		to[i] = slot{file: id, off: off, size: uint32(len(rec)), body: uint32(len(e.Message.Body))}
	}
	if err := q.spill.Commit(); err != nil {
		return 0, spilled(err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, e := range out {
		if it, ok := q.idx.get(e.Seq); ok && it.ram == e {
			q.idx.move(e.Seq, to[i])
			q.spill.Hold(to[i].file, 1)
			q.evict(e.Seq, it)
			freed += cost(e)
		}
	}
	q.st.untidy(q)
	return freed, nil
}

// spilled is what a failed spill means: that the queue was deleted meanwhile is no failure.
func spilled(err error) error {
	if errors.Is(err, backingqueue.ErrClosed) {
		return nil
	}
	return err
}

// Flood. When bodies come faster than they are paged out, this node's own publishers are held (Calm) from five quarters of the
// budget on, until the budget holds; what other nodes send goes on, and from twice the budget on it is an alarm (Flooded).

// Flooded says that message bodies take twice their budget. It costs nothing.
func (s *Store) Flooded() bool { return s.ram.Load() > 2*s.budget.Load() }

// Calm is nil, or during a flood a channel that is closed at its end. It costs nothing.
func (s *Store) Calm() <-chan struct{} {
	if c := s.calm.Load(); c != nil {
		return *c
	}
	return nil
}

// added notes that bodies take ram bytes after so many were added.
func (s *Store) added(ram, bytes int64) {
	budget := s.budget.Load()
	if ram <= budget {
		return
	}
	s.kick(s.pageC)
	if ram > budget/4*5 && s.calm.Load() == nil {
		c := make(chan struct{})
		s.calm.CompareAndSwap(nil, &c)
		s.subside() // the pager may have been done just before
	}
	if 2*budget < ram && 2*budget >= ram-bytes && s.o.OnFlood != nil {
		s.o.OnFlood()
	}
}

// subside ends a flood once the budget holds.
func (s *Store) subside() {
	c := s.calm.Load()
	if c != nil && s.ram.Load() <= s.budget.Load() && s.calm.CompareAndSwap(c, nil) {
		close(*c)
	}
}

// Usage is what the store takes, in bytes.
type Usage struct {
	Bodies  int64 // messages in memory
	Budget  int64 // what Bodies is kept to
	Index   int64 // memory of the queues' indexes
	Pending int64 // memory of what waits for the journal
	Free    uint64
	Total   uint64 // of the file system that holds the directory
}

// Usage measures the store, for the memory and disk alarms: whoever sees too little Free, or too much memory, blocks
// publishers. It visits every queue: call it about once a second, not for every message.
func (s *Store) Usage() (Usage, error) {
	u := Usage{Bodies: s.ram.Load(), Budget: s.budget.Load(), Pending: s.j.Pending()}
	s.mu.Lock()
	for _, q := range s.queues {
		q.mu.Lock()
		u.Index += q.idx.bytes
		q.mu.Unlock()
	}
	s.mu.Unlock()
	sp, err := s.fs.Space(s.o.Dir)
	u.Free, u.Total = sp.Free, sp.Total
	return u, err
}
