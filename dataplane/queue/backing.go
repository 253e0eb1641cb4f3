package queue

import "warren/dataplane/backingqueue"

// Op identifies a change made through a Backing, in the order of its epoch; 0 is "nothing to wait for".
type Op uint64

// Taken says what became of a publish.
type Taken uint8

const (
	// TakenNew: stored at Seq; Backing reports it confirmable later.
	TakenNew Taken = iota + 1
	// TakenRepeat: the queue had it already (Seq is its position if it is still there); it is confirmed once NewMaster and
	// everything broadcast before the repeat came is persisted by all (mirroring.md, origins).
	TakenRepeat
	// TakenLost: a repeat that this master, promoted without being synchronised, does not hold: nack it.
	TakenLost
	// TakenGap: the number is not the origin's next; the caller has a defect, nothing was stored.
	TakenGap
	// TakenFull: the ring's window is full; nothing was stored; try again after Events.WindowOpen.
	TakenFull
	// TakenRefused: a repeat of a publish that was refused: nack it again.
	TakenRefused
)

// Backing is what a queue process stores its messages in: the master of a mirrored queue, or the plain backing queue.
// It is called by the queue process's owner goroutine only, and calls Events on the same goroutine; WindowOpen never from
// within one of these methods. Slices handed over belong to the Backing. What a change does is seen by the reading methods
// at once.
type Backing interface {
	// Publish takes the next message of an attached origin.
	Publish(origin backingqueue.OriginID, e backingqueue.Entry) (Taken, uint64, error)
	// Refuse takes the next number of the origin without a message (reject-publish, too few in sync).
	Refuse(origin backingqueue.OriginID, number uint64) (Taken, error)
	// AttachOrigin: the channel's node still keeps publishes from lowest on (or will send lowest next).
	AttachOrigin(origin backingqueue.OriginID, lowest uint64) error
	// CloseOrigin: the channel is gone and all its publishes are stable.
	CloseOrigin(origin backingqueue.OriginID) error
	// Remove drops messages for good; Events.OpStable(op) follows when that is persisted by all of the view.
	Remove(rs []backingqueue.Range, reason Reason) (Op, error)
	// Delivered marks messages as delivered, lazily.
	Delivered(rs []backingqueue.Range) error
	// Find looks a message up by origin and number (an acknowledgement whose position the new master does not know).
	Find(origin backingqueue.OriginID, number uint64) (seq uint64, ok bool)
	Get(seq uint64) (e backingqueue.Entry, ok bool, err error)
	Next(from uint64) (seq uint64, ok bool)
	// EpochOf is the epoch in which seq was given.
	EpochOf(seq uint64) uint64
	Stats() backingqueue.Stats
}

// Reason of a Remove.
type Reason uint8

const (
	ReasonAcked Reason = iota + 1
	ReasonExpired
	ReasonDropped
	ReasonPurged
	ReasonRejected
)

// Events is what a Backing tells its queue process.
type Events interface {
	// Confirmable: every publish of the origin up to number may be confirmed (lost or refused ones excepted, which were
	// answered when they came).
	Confirmable(origin backingqueue.OriginID, number uint64)
	// OpStable: every Remove up to op is persisted by all of the view.
	OpStable(op Op)
	WindowOpen()
}

// OriginTable is what a Backing offers besides, if it can. Without it acknowledgements of deliveries from before a
// failover are matched by position alone, and origins whose node died together with the old master stay in the table.
type OriginTable interface {
	// OriginOf is the origin that entries mention as ref; ok is false if it is closed.
	OriginOf(ref uint64) (id backingqueue.OriginID, ok bool)
	// Origins is the table. Lines whose ID.Node is empty (sources of dead letters) are not the queue process's business.
	Origins() []backingqueue.Origin
}
