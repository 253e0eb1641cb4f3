package store

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"warren/dataplane/backingqueue"
	"warren/dataplane/backingqueue/journal"
	"warren/dataplane/backingqueue/record"
	"warren/dataplane/backingqueue/segment"
)

// queue is one queue of the store, open or not. Its lock is never held while the disk is read or written.
type queue struct {
	st *Store
	id backingqueue.ID

	mu      sync.Mutex
	durable bool
	stream  *journal.Stream
	h       *handle // nil: not open; guarded by st.mu as well
	damaged string  // what Recovery will say, until the owner's next SetMeta
	busy    bool    // being set aside; guarded by st.mu
	gone    bool    // deleted or set aside: nothing of it is worth moving
	segs    *segment.Set
	spill   *segment.Set // transient messages that memory had no room for

	stateFile uint32      // journal file of the newest State
	stopAt    journal.Pos // records from here on do not count: one before them was lost

	lsn     uint64 // of the newest change
	number  uint64 // of the newest record
	idx     index
	nextSeq uint64
	origins map[uint64]backingqueue.Origin
	meta    []byte

	bytes, persistBytes, ramBytes int64
	persistent, inRAM             int

	freed   freed
	scratch []byte
}

// freed gathers what Journal.Free will be told, run by run of equal files.
type freed struct {
	file uint32
	n    int
}

// handle is an open queue. It dies with Close and Delete; the queue may be opened again.
type handle struct {
	q      *queue
	closed bool // guarded by q.mu
	stream *journal.Stream
	read   window
	names  record.Names
}

func newQueue(s *Store, id backingqueue.ID) *queue {
	q := &queue{st: s, id: id, origins: map[uint64]backingqueue.Origin{}, stream: journal.NewStream(nil)}
	o := segment.Options{FS: s.fs, Dir: s.queueDir(id), MaxSize: s.o.JournalFileSize}
	q.segs = segment.New(o)
	o.Volatile = true
	q.spill = segment.New(o)
	return q
}

// cost is what a message in memory takes, its entry and allocations included.
func cost(e *backingqueue.Entry) int64 {
	m := &e.Message
	return 256 + int64(len(m.Body)+len(m.Properties)+len(m.Exchange)+len(m.RoutingKey))
}

func (q *queue) open(o backingqueue.Options, fresh bool) (*handle, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var onDurable func(uint64)
	if f := o.OnDurable; f != nil {
		onDurable = func(lsn uint64) { f(backingqueue.LSN(lsn)) }
	}
	q.durable, q.lsn = o.Durable, 0
	q.stream = journal.NewStream(onDurable)
	q.h = &handle{q: q, stream: q.stream}
	if fresh && q.durable {
		if err := q.putState(); err != nil {
			return nil, err
		}
	}
	return q.h, nil
}

// putState logs all of the queue but its entries.
func (q *queue) putState() error {
	head := record.Head(q.scratch[:0], record.TypeState, q.id, q.number+1)
	head = record.AppendState(head, q.state())
	q.scratch = head
	pos, err := q.st.j.Put(q.stream, q.lsn, head, nil, false)
	if err == nil {
		q.number++
		q.stateFile = pos.File
	}
	return err
}

func (q *queue) state() record.State {
	st := record.State{NextSeq: q.nextSeq, Origins: q.originList(), Meta: q.meta, Damaged: q.damaged}
	st.NextSegment, st.Segments = q.segs.State()
	return st
}

func (q *queue) originList() []backingqueue.Origin {
	os := make([]backingqueue.Origin, 0, len(q.origins))
	for _, ref := range slices.Sorted(maps.Keys(q.origins)) {
		os = append(os, q.origins[ref])
	}
	return os
}

// begin starts a record of the next change.
func (q *queue) begin(t record.Type) []byte {
	return record.Head(q.scratch[:0], t, q.id, q.number+1)
}

// put logs a change, or only counts it if the queue keeps nothing on disk.
func (q *queue) put(head, body []byte, entry bool) (slot, error) {
	q.scratch = head[:0]
	if !q.durable {
		return slot{}, q.touch()
	}
	pos, err := q.st.j.Put(q.stream, q.lsn+1, head, body, entry)
	if err != nil {
		return slot{}, err
	}
	q.lsn++
	q.number++
	return slot{file: pos.File, off: pos.Off, size: pos.Size}, nil
}

// touch counts a change that needs no record.
func (q *queue) touch() error {
	if err := q.st.j.Touch(q.stream, q.lsn+1); err != nil {
		return err
	}
	q.lsn++
	return nil
}

// hold puts a message into the index.
func (q *queue) hold(e *backingqueue.Entry, s slot, ram bool) {
	n := int64(len(e.Message.Body))
	s.body = uint32(n)
	it := item{slot: s, persistent: e.Message.Persistent, delivered: e.Delivered}
	if ram {
		it.ram = e
		q.inRAM++
		q.ramBytes += n
		q.st.added(q.st.ram.Add(cost(e)), cost(e))
	}
	q.bytes += n
	if it.persistent {
		q.persistent++
		q.persistBytes += n
	}
	q.idx.add(e.Seq, it)
}

// release drops what is held from first to last, and reports whether the disk has some of it.
func (q *queue) release(first, last uint64) (onDisk bool) {
	var ram int64
	q.idx.remove(first, last, func(_ uint64, it item) {
		n := int64(it.body)
		q.bytes -= n
		if it.persistent {
			q.persistent--
			q.persistBytes -= n
			onDisk = onDisk || q.durable
		}
		if it.ram != nil {
			q.inRAM--
			q.ramBytes -= n
			ram += cost(it.ram)
		}
		q.free(it.slot)
	})
	q.st.ram.Add(-ram)
	q.st.subside()
	q.freeRest()
	return onDisk
}

func (q *queue) free(s slot) {
	if s.file == 0 {
		return
	}
	if s.file != q.freed.file {
		q.freeRest()
		q.freed.file = s.file
	}
	q.freed.n++
}

func (q *queue) freeRest() {
	if q.freed.n > 0 {
		q.letGo(q.freed.file, q.freed.n)
	}
	q.freed = freed{}
}

// letGo says that n messages fewer are wanted in a file.
func (q *queue) letGo(file uint32, n int) {
	switch {
	case file&segment.Bit != 0:
		if q.segs.Free(file, n) {
			q.st.untidy(q)
		}
	case file&segment.VolatileBit != 0:
		if q.spill.Free(file, n) {
			q.st.untidy(q)
		}
	default:
		q.st.j.Free(file, n)
	}
}

func (q *queue) raise(ref, number uint64) {
	if o, ok := q.origins[ref]; ok && o.Number < number {
		o.Number = number
		q.origins[ref] = o
	}
}

func (q *queue) stats() backingqueue.Stats {
	st := backingqueue.Stats{
		Messages: q.idx.count, Bytes: q.bytes, Persistent: q.persistent, PersistBytes: q.persistBytes,
		MessagesRAM: q.inRAM, BytesRAM: q.ramBytes, IndexBytes: q.idx.bytes, NextSeq: q.nextSeq,
	}
	st.FirstSeq, st.LastSeq = q.idx.bounds()
	return st
}

// shut ends use of an open queue after what it did is durable or cannot become so.
func (q *queue) shut() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.h != nil {
		q.h.closed = true
		q.h = nil
	}
}

// reset forgets everything.
func (q *queue) reset() {
	q.release(0, ^uint64(0))
	q.nextSeq, q.meta = 0, nil
	clear(q.origins)
}

// dropTransient forgets what a recovery would not find.
func (q *queue) dropTransient() {
	for seq, ok := q.idx.next(0); ok; seq, ok = q.idx.next(seq + 1) {
		if it, _ := q.idx.get(seq); !it.persistent {
			q.release(seq, seq)
		}
	}
}

func (h *handle) check(what string) error {
	if h.closed {
		return fmt.Errorf("%s queue %d: %w", what, h.q.id, backingqueue.ErrClosed)
	}
	return nil
}
