// Package backingqueue is the storage contract of one queue's copy on one node, and its memory model.
package backingqueue

import "warren/dataplane/message"

// ID identifies a queue: the Raft index of the entry that created it. It is never used twice.
type ID uint64

// LSN orders the changes of one Queue. A change is on disk once the queue's durable watermark has reached its LSN.
type LSN uint64

// Range is a run of sequence numbers, both ends included.
type Range struct{ First, Last uint64 }

// OriginID names who published: one channel (as seen by one queue), or the source of a dead letter.
type OriginID struct {
	Node        string
	Incarnation uint64
	Connection  uint64
	Channel     uint64
}

// Origin is one line of the table of origins: Number is the highest publish number taken from ID. Ref is the short
// name under which entries mention it; a Ref is never used twice in one queue.
type Origin struct {
	Ref    uint64
	ID     OriginID
	Number uint64
}

// Entry is one message at its position. Positions are sequence numbers that grow by one for ever; which epoch a
// sequence number belongs to follows from the epoch table, which the owner keeps in Meta.
type Entry struct {
	Seq       uint64
	Ref       uint64 // the origin's Ref, 0: none
	Number    uint64 // the publish's number at that origin
	Delivered bool   // may have been delivered before: the redelivered flag after a promotion or recovery
	Message   message.Message
}

// Stats is what a queue holds.
type Stats struct {
	Messages     int
	Bytes        int64 // bodies
	Persistent   int
	MessagesRAM  int    // messages whose body is in memory
	BytesRAM     int64  // their bodies
	IndexBytes   int64  // memory of the index
	FirstSeq     uint64 // lowest held, 0 if empty
	LastSeq      uint64 // highest held, 0 if empty
	NextSeq      uint64 // what Append expects at least: one above the highest ever appended, survives removal
	PersistBytes int64
}

// Queue is one queue's copy. One caller at a time (its owner serialises); every method returns without waiting for the
// disk, except Get, which may read. A change is made at once in memory; it is durable when the watermark says so.
// Changes become durable in the order in which they were made. An error from a change is fatal for the copy.
type Queue interface {
	// Append adds an entry at e.Seq ≥ Stats().NextSeq (a gap is a hole that Insert may fill later), and raises the
	// number of origin e.Ref to e.Number if that is higher. ErrOrder if e.Seq is too low.
	Append(e Entry) (LSN, error)
	// Insert fills a hole below NextSeq, in any order; ErrExists if the seq is held. It does not touch the origins.
	Insert(e Entry) (LSN, error)
	// Remove drops what it finds in the ranges; what is not held is ignored.
	Remove(rs []Range) (LSN, error)
	// Truncate drops everything at or above seq and makes NextSeq = seq.
	Truncate(seq uint64) (LSN, error)
	// SkipTo raises NextSeq to seq; lower is ignored.
	SkipTo(seq uint64) (LSN, error)
	// SetDelivered marks what it finds in the ranges. Lazily durable: no Sync is owed for it.
	SetDelivered(rs []Range) (LSN, error)
	// SetOrigin adds or replaces the line with o.Ref; CloseOrigin drops it.
	SetOrigin(o Origin) (LSN, error)
	CloseOrigin(ref uint64) (LSN, error)
	// SetMeta replaces the owner's small opaque state (epoch table, floor, baseline, marks), at most 64 KiB.
	SetMeta(meta []byte) (LSN, error)

	// Get reads the entry at seq; ok is false if it is not held.
	Get(seq uint64) (e Entry, ok bool, err error)
	Has(seq uint64) bool
	// Next is the lowest held seq ≥ from.
	Next(from uint64) (seq uint64, ok bool)
	Origins() []Origin // ascending Ref
	Meta() []byte
	Stats() Stats

	// Sync asks that everything changed so far becomes durable soon (group commit); it does not wait.
	Sync()
	// SyncSoon is Sync for what nobody waits for by the clock: it may let a few milliseconds pass, so that it shares the sync of
	// what comes meanwhile.
	SyncSoon()
	// Durable is the watermark: every change with an LSN up to it is on disk. OnDurable tells when it moved.
	Durable() LSN
	// Last is the LSN of the newest change.
	Last() LSN

	// Close ends use and keeps what is durable after a final sync; Delete gives everything back (space in the background).
	Close() error
	Delete() error
}

// Options of Open.
type Options struct {
	// Durable: false for a transient queue, whose entries are forgotten at recovery.
	Durable bool
	// OnDurable is called from the store's goroutine after the watermark rose, perhaps for several changes at once; it
	// must not block and must not call the Queue.
	OnDurable func(LSN)
}

// Recovery tells what Open found on disk.
type Recovery struct {
	Found   bool   // the queue existed on disk
	Damaged bool   // something was lost beyond a torn tail: the copy must count as unsynchronised
	Detail  string // what, for the log
}

// Store is the store of one node. Its methods may be called from any goroutine.
type Store interface {
	// Open creates or recovers the queue. Transient messages of an earlier run are gone. ErrOpen if it is open already.
	Open(id ID, o Options) (Queue, Recovery, error)
	// IDs are the queues that have something on disk, ascending.
	IDs() []ID
	// SetAside moves what an unknown queue has on disk out of the way (kept for seven days) and says where.
	SetAside(id ID) (path string, err error)
	// Close closes every queue after a final sync.
	Close() error
}
