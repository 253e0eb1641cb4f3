package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/record"
	"warren/dataplane/backingqueue/segment"
)

// chores are what the janitor has to do besides looking at the journal's size.
type chores struct {
	mu     sync.Mutex
	untidy map[*queue]struct{}     // has files that are dead or sparse
	buried []*queue                // deleted: memory and files are to be given back
	graves map[backingqueue.ID]int // of each queue: how many of its lives were buried and not cleared yet
}

func (s *Store) untidy(q *queue) {
	s.chores.mu.Lock()
	if s.chores.untidy == nil {
		s.chores.untidy = map[*queue]struct{}{}
	}
	s.chores.untidy[q] = struct{}{}
	s.chores.mu.Unlock()
	s.kick(s.tendC)
}

func (s *Store) bury(q *queue) {
	s.chores.mu.Lock()
	s.chores.buried = append(s.chores.buried, q)
	if s.chores.graves == nil {
		s.chores.graves = map[backingqueue.ID]int{}
	}
	s.chores.graves[q.id]++
	s.chores.mu.Unlock()
	s.kick(s.tendC)
}

// cleared notes that a buried queue left nothing.
func (c *chores) cleared(id backingqueue.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.graves[id]--; c.graves[id] == 0 {
		delete(c.graves, id)
	}
}

// inherited says whether an earlier life of a queue still has files.
func (c *chores) inherited(id backingqueue.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.graves[id] > 0
}

// takeBuried takes the lives of one queue off the list.
func (c *chores) takeBuried(id backingqueue.ID) (mine []*queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buried = slices.DeleteFunc(c.buried, func(q *queue) bool {
		if q.id == id {
			mine = append(mine, q)
		}
		return q.id == id
	})
	return mine
}

// makeRoom clears what earlier lives of a queue left, before a new one begins: it uses the same directory, and the journal must
// say that the old one ended.
func (s *Store) makeRoom(id backingqueue.ID) error {
	if !s.chores.inherited(id) {
		return nil
	}
	s.work.Lock()
	defer s.work.Unlock()
	return s.clearAll(s.chores.takeBuried(id))
}

// clearAll clears deleted queues; work is held.
func (s *Store) clearAll(buried []*queue) error {
	if len(buried) == 0 {
		return nil
	}
	// Were the files gone before the queue is, a crash would find a queue without them.
	if err := s.j.Flush(); err != nil {
		return err
	}
	for _, q := range buried {
		if err := s.clear(q); err != nil {
			return err
		}
		s.chores.cleared(q.id)
	}
	return nil
}

// take empties the list of chores.
func (c *chores) take() (untidy map[*queue]struct{}, buried []*queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	untidy, buried = c.untidy, c.buried
	c.untidy, c.buried = nil, nil
	return untidy, buried
}

// startHelpers starts the janitor and the pager; stop ends them and waits.
func (s *Store) startHelpers() {
	s.helpers.Add(2)
	go func() {
		defer s.helpers.Done()
		for range s.tendC {
			if s.stopping.Load() {
				return
			}
			if err := s.tend(); err != nil && !s.stopping.Load() {
				s.j.Fail(err)
				return
			}
		}
	}()
	go func() {
		defer s.helpers.Done()
		for range s.pageC {
			if s.stopping.Load() {
				return
			}
			if err := s.page(); err != nil && !s.stopping.Load() {
				s.j.Fail(err)
				return
			}
		}
	}()
}

func (s *Store) stop() {
	s.stopping.Store(true)
	s.kick(s.tendC)
	s.kick(s.pageC)
	s.helpers.Wait()
}

// tend does what has to be done now. What was deleted goes first: its directory must be gone before the journal forgets
// that it was deleted.
func (s *Store) tend() error {
	s.work.Lock()
	defer s.work.Unlock()
	for {
		untidy, buried := s.chores.take()
		if err := s.clearAll(buried); err != nil {
			return err
		}
		for q := range untidy {
			if err := s.tidy(q); err != nil {
				return err
			}
		}
		files := s.j.Complete()
		if len(files) <= s.o.JournalFiles || s.stopping.Load() {
			return nil
		}
		if err := s.retire(files[0]); err != nil {
			return err
		}
	}
}

// clear gives back what a deleted queue held.
func (s *Store) clear(q *queue) error {
	q.mu.Lock()
	q.release(0, ^uint64(0))
	q.mu.Unlock()
	s.paging.Lock()
	defer s.paging.Unlock()
	used := len(q.segs.Files())+len(q.spill.Files()) > 0
	if err := errors.Join(q.segs.Close(), q.spill.Close()); err != nil {
		return fmt.Errorf("close the segments of deleted queue %d: %w", q.id, err)
	}
	if !used && !q.durable {
		return nil
	}
	if err := errors.Join(s.fs.RemoveAll(s.queueDir(q.id)), s.fs.SyncDir(s.dir("queues"))); err != nil {
		return fmt.Errorf("remove the segments of deleted queue %d: %w", q.id, err)
	}
	return nil
}

// tidy drops the queue's dead segment files and writes sparse ones again.
func (s *Store) tidy(q *queue) error {
	for _, f := range q.spill.Files() {
		if f.Live == 0 {
			if err := q.dropSpill(f.ID); err != nil {
				return err
			}
		}
	}
	for {
		f, ok := q.wasteful()
		if !ok || s.stopping.Load() {
			return nil
		}
		if err := s.rewrite(q, f); err != nil {
			return err
		}
	}
}

// wasteful picks the oldest segment file that should go: a dead one, or a sparse one that is no longer written.
func (q *queue) wasteful() (segment.Info, bool) {
	q.mu.Lock()
	gone := q.gone
	q.mu.Unlock()
	if gone {
		return segment.Info{}, false
	}
	files := q.segs.Files()
	for i, f := range files {
		if f.Live == 0 && (!f.Active || i == 0) || !f.Active && segment.Sparse(f.Live, f.Entries) {
			return f, true
		}
	}
	return segment.Info{}, false
}

// dropSpill drops a file of transient messages, if it is dead still.
func (q *queue) dropSpill(id uint32) error {
	q.st.paging.Lock()
	defer q.st.paging.Unlock()
	q.mu.Lock()
	unlink := func() error { return nil }
	for _, f := range q.spill.Files() {
		if f.ID == id && f.Live == 0 {
			unlink = q.spill.Detach(id)
		}
	}
	q.mu.Unlock()
	return unlink()
}

// rewrite moves what a segment file still has to the newest one, and drops it.
func (s *Store) rewrite(q *queue, f segment.Info) error {
	m := newMover(s)
	if f.Live > 0 || f.Controls && len(q.segs.Spans(f.ID)) > 0 {
		content, err := q.segs.Content(f.ID)
		if err != nil {
			return err
		}
		if err := m.pickSegment(q, f.ID, content); err != nil {
			return err
		}
		// What is about to be written says what the queue is like now: that must not get ahead of the journal.
		if err := s.j.Flush(); err != nil {
			return err
		}
	}
	if err := m.write(); err != nil {
		return err
	}
	q.mu.Lock()
	if q.gone {
		q.mu.Unlock()
		return nil
	}
	unlink := q.segs.Detach(f.ID)
	err := q.putState()
	q.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.j.Flush(); err != nil {
		return err
	}
	return unlink()
}

// forget drops a queue that is not open for good; s.mu is held.
func (s *Store) forget(q *queue) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(s.queues, q.id)
	q.gone = true
	var err error
	if q.durable {
		_, err = q.put(q.begin(record.TypeDelete), nil, false)
		s.j.Sync()
	}
	s.bury(q)
	if err != nil {
		return fmt.Errorf("delete queue %d: %w", q.id, err)
	}
	return nil
}

// lookup is the queue, if there is one.
func (s *Store) lookup(id backingqueue.ID) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues[id]
}
