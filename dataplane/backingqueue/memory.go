package backingqueue

import (
	"fmt"
	"slices"
	"sync"
)

// Memory is the model of a Store. Nothing in it happens by itself: a change becomes durable when the test calls Flush,
// FlushQueue or FlushOne, which call Options.OnDurable on the test's own goroutine, so that a simulation with one seed
// always runs the same way. Auto makes it act on Sync by itself, for tests that need no such control.
type Memory struct {
	mu     sync.Mutex
	queues map[ID]*memQueue
	closed bool
	auto   chan struct{} // nil: the test flushes
	done   chan struct{}
}

// memQueue is one queue of Memory. cur is what its owner sees; dur is what a crash leaves; pending lies between.
type memQueue struct {
	store   *Memory
	id      ID
	opts    Options
	open    *memHandle // nil: on disk only
	cur     *memState
	dur     *memState
	pending []change // in order; pending[i] has LSN durable+1+i
	durable LSN
	synced  LSN // what Sync asked for
	exists  bool
	damaged string
}

// memHandle is what Open gave out; it dies with Close, Delete and Crash while memQueue may live on.
type memHandle struct {
	q      *memQueue
	closed bool
}

// NewMemory returns an empty model in which durability advances only by Flush, FlushQueue and FlushOne.
func NewMemory() *Memory {
	return &Memory{queues: map[ID]*memQueue{}}
}

// Auto starts a goroutine that makes changes durable as soon as Sync was called, and calls OnDurable from there, as a
// real store does. Call it once, before the first Open; Close ends the goroutine and waits for it.
func (m *Memory) Auto() *Memory {
	m.auto, m.done = make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(m.done)
		for range m.auto {
			m.flush(func(q *memQueue) LSN { return q.synced })
		}
	}()
	return m
}

// Flush makes every change of every queue durable, synced or not, in ascending order of ID, and calls OnDurable of each
// queue whose watermark moved.
func (m *Memory) Flush() {
	m.flush(func(q *memQueue) LSN { return q.last() })
}

// FlushQueue makes every change of one queue durable. It reports whether its watermark moved.
func (m *Memory) FlushQueue(id ID) bool {
	return m.flush(func(q *memQueue) LSN {
		if q.id != id {
			return 0
		}
		return q.last()
	})
}

// FlushOne makes the oldest change of one queue that is not durable so. It reports whether there was one.
func (m *Memory) FlushOne(id ID) bool {
	return m.flush(func(q *memQueue) LSN {
		if q.id != id {
			return 0
		}
		return min(q.durable+1, q.last())
	})
}

// FlushSynced makes durable what Sync was called for, and nothing else. It reports whether a watermark moved.
func (m *Memory) FlushSynced() bool {
	return m.flush(func(q *memQueue) LSN { return q.synced })
}

// SyncPending are the queues, ascending, that have been asked to Sync changes that are not durable.
func (m *Memory) SyncPending() []ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []ID
	for _, q := range m.sorted() {
		if q.synced > q.durable {
			ids = append(ids, q.id)
		}
	}
	return ids
}

func (m *Memory) flush(upTo func(*memQueue) LSN) bool {
	type call struct {
		f func(LSN)
		l LSN
	}
	var calls []call
	moved := false
	m.mu.Lock()
	for _, q := range m.sorted() {
		if !q.flushTo(upTo(q)) {
			continue
		}
		moved = true
		if q.opts.OnDurable != nil && q.open != nil {
			calls = append(calls, call{q.opts.OnDurable, q.durable})
		}
	}
	m.mu.Unlock()
	for _, c := range calls {
		c.f(c.l)
	}
	return moved
}

func (m *Memory) sorted() []*memQueue {
	qs := make([]*memQueue, 0, len(m.queues))
	for _, q := range m.queues {
		qs = append(qs, q)
	}
	slices.SortFunc(qs, func(a, b *memQueue) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return qs
}

// Crash is a power failure: every queue falls back to what was durable, without transient messages; transient queues
// vanish. All open handles are dead (ErrClosed); the store itself goes on and Open recovers.
func (m *Memory) Crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, q := range m.queues {
		if q.open != nil {
			q.open.closed, q.open = true, nil
		}
		if !q.recover() {
			delete(m.queues, id)
		}
	}
}

// CrashedAt returns what a power failure now would leave if the queue were durable up to lsn (at least its watermark, at
// most Last), and every other queue up to its own watermark. The Memory itself does not change.
func (m *Memory) CrashedAt(id ID, lsn LSN) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMemory()
	for _, q := range m.queues {
		n := &memQueue{
			store: c, id: q.id, opts: q.opts, dur: q.dur.clone(), pending: q.pending, durable: q.durable,
			exists: q.exists, damaged: q.damaged,
		}
		if q.id == id {
			n.flushTo(lsn)
		}
		if n.recover() {
			c.queues[q.id] = n
		}
	}
	return c
}

// Damage makes the next Open of the queue, which must not be open, report Recovery.Damaged and loses every entry at or
// above seq, as a flipped bit in the middle of a file would.
func (m *Memory) Damage(id ID, seq uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[id]
	if q == nil || q.open != nil {
		return fmt.Errorf("damage queue %d: %w", id, ErrNotFound)
	}
	q.dur.truncateEntries(seq)
	q.cur = q.dur.clone()
	q.damaged = fmt.Sprintf("entries from %d on were lost", seq)
	return nil
}

// Open implements Store.
func (m *Memory) Open(id ID, o Options) (Queue, Recovery, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, Recovery{}, fmt.Errorf("open queue %d: %w", id, ErrClosed)
	}
	q := m.queues[id]
	if q != nil && q.open != nil {
		return nil, Recovery{}, fmt.Errorf("open queue %d: %w", id, ErrOpen)
	}
	if q == nil {
		q = &memQueue{store: m, id: id, cur: newMemState(), dur: newMemState()}
		m.queues[id] = q
	}
	rec := Recovery{Found: q.exists, Damaged: q.damaged != "", Detail: q.damaged}
	q.damaged = ""
	q.opts = o
	q.open = &memHandle{q: q}
	return q.open, rec, nil
}

// IDs implements Store.
func (m *Memory) IDs() []ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := []ID{}
	for _, q := range m.sorted() {
		if q.exists || q.open != nil && q.opts.Durable {
			ids = append(ids, q.id)
		}
	}
	return ids
}

// SetAside implements Store; the model forgets the queue.
func (m *Memory) SetAside(id ID) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[id]
	switch {
	case q == nil:
		return "", fmt.Errorf("set queue %d aside: %w", id, ErrNotFound)
	case q.open != nil:
		return "", fmt.Errorf("set queue %d aside: %w", id, ErrOpen)
	}
	delete(m.queues, id)
	return fmt.Sprintf("memory:aside/%d", id), nil
}

// Close implements Store.
func (m *Memory) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	for _, q := range m.queues {
		if q.open != nil {
			q.close()
		}
	}
	m.mu.Unlock()
	if m.auto != nil {
		close(m.auto)
		<-m.done
	}
	return nil
}

func (q *memQueue) last() LSN { return q.durable + LSN(len(q.pending)) }

// flushTo applies pending changes up to l to the durable state; it reports whether the watermark moved.
func (q *memQueue) flushTo(l LSN) bool {
	if l <= q.durable || len(q.pending) == 0 {
		return false
	}
	n := min(int(l-q.durable), len(q.pending))
	for _, c := range q.pending[:n] {
		q.dur.apply(c)
	}
	q.pending = q.pending[n:]
	q.durable += LSN(n)
	return true
}

// recover leaves what a restart finds; false if that is nothing.
func (q *memQueue) recover() bool {
	if !q.opts.Durable {
		return false
	}
	q.exists = true
	q.dur.dropTransient()
	q.cur = q.dur.clone()
	q.pending, q.durable, q.synced = nil, 0, 0
	return true
}

func (q *memQueue) close() {
	q.flushTo(q.last())
	q.open.closed, q.open = true, nil
	if !q.recover() {
		delete(q.store.queues, q.id)
	}
}
