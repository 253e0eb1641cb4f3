package mirror

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/message/wire"
)

// Limits of a synchronisation.
const (
	// offerHeld is how many messages one part of an offer tells of at most.
	offerHeld = 1 << 14
	// batchBytes ends a batch, with the message that reaches it.
	batchBytes = 128 << 10
	// walkLength is how many messages of the master one step of the walk looks at.
	walkLength = 1 << 13
	// aheadBytes and aheadBatches limit what one mirror was sent and has not taken: it is what other queues' frames have to
	// wait for on the link.
	aheadBytes   = 512 << 10
	aheadBatches = 64
	// unstoredBytes limits what it was sent and does not have on disk: it is what other queues' syncs have to wait for there.
	// The mirror asks its disk for a sync at once after storeBytes or storeBatches, which must be less, and soon for what is less.
	unstoredBytes = 2 << 20
	storeBytes    = 512 << 10
	storeBatches  = aheadBatches / 2
	// stalledAfter is how many ticks a mirror may leave the walk waiting before it is left out, for pausedFor ticks.
	stalledAfter = 10
	pausedFor    = 2
	// defaultBatch is the number of messages in a batch where nobody says it.
	defaultBatch = 4096
)

// syncSize holds what a simulation makes smaller.
type syncSize struct{ offer, walk int }

// SyncPolicy is what the queue's policy says of synchronisation.
type SyncPolicy struct {
	// Automatic: a mirror that has nothing to offer is copied to without being asked. One that has is always repaired.
	Automatic bool
	// Blocking: the queue takes no operation meanwhile (Replica.Blocked).
	Blocking bool
	// Batch is the largest number of messages in a batch, 0: 4096.
	Batch int
}

// Progress of a synchronisation. ToGo and the bytes to go are estimates.
type Progress struct {
	Mirrors    int    // that take part
	Done       uint64 // messages that the walk has passed
	ToGo       uint64
	Sent       uint64 // messages that were sent, to each mirror
	Bytes      uint64 // their bytes
	Discarded  uint64 // messages that mirrors were told to drop, because they were removed in their absence
	BytesAhead uint64 // estimate of what is still to be sent
}

// syncKind names a message of a synchronisation on the links.
type syncKind uint8

const (
	syncOffer syncKind = iota + 1
	syncBatch
	syncAck
)

const syncVersion = 1

// syncMessage is a message of a synchronisation between a mirror and its master, beside the ring.
type syncMessage struct {
	kind  syncKind
	epoch uint64
	id    uint64

	// Offer: what the mirror holds from from on, below to.
	returner bool
	from, to uint64 // Batch: the master holds nothing below to that the mirror lacks once it has taken this
	held     *roaring64.Bitmap

	number uint64 // Batch, Ack
	stored uint64 // Ack: the newest batch that is on disk with all before it
	gone   []backingqueue.Range
	count  int // of encoded entries that follow (Batch)
}

// encode gives all of the message but a batch's entries, which follow it.
func (m *syncMessage) encode() []byte {
	b := make([]byte, 0, 64+20*len(m.gone))
	fields := map[syncKind]int{syncOffer: 8, syncBatch: 7 + m.count, syncAck: 6}[m.kind]
	b = wire.AppendUint(wire.AppendArray(b, fields), syncVersion)
	b = wire.AppendUint(wire.AppendUint(wire.AppendUint(b, uint64(m.kind)), m.epoch), m.id)
	switch m.kind {
	case syncOffer:
		b = wire.AppendUint(wire.AppendUint(wire.AppendBool(b, m.returner), m.from), m.to)
		m.held.RunOptimize()
		held, err := m.held.ToBytes()
		if err != nil {
			panic(fmt.Sprintf("mirror: a bitmap cannot be written to memory: %v", err))
		}
		return wire.AppendBytes(b, held)
	case syncBatch:
		return appendRanges(wire.AppendUint(wire.AppendUint(b, m.number), m.to), m.gone)
	}
	return wire.AppendUint(wire.AppendUint(b, m.number), m.stored)
}

// appendEntry adds one entry of a batch, an array [seq, ref, number, delivered, message].
func appendEntry(b []byte, e *backingqueue.Entry) []byte {
	b = wire.AppendUint(wire.AppendUint(wire.AppendUint(wire.AppendArray(b, 5), e.Seq), e.Ref), e.Number)
	return message.Append(wire.AppendBool(b, e.Delivered), &e.Message)
}

// decodeSync reads a message and calls entry for each entry of a batch, which aliases b. The version and the head are there
// before the first of them.
func decodeSync(b []byte, head func(*syncMessage) (bool, error), entry func(*backingqueue.Entry) error) error {
	r := wire.NewReader(b)
	n := r.Array()
	if v := r.Uint(); r.Err() == nil && (v != syncVersion || n < 5) {
		return fmt.Errorf("%w: message of a synchronisation of version %d with %d fields", ErrDefect, v, n)
	}
	m := &syncMessage{kind: syncKind(r.Uint()), epoch: r.Uint(), id: r.Uint()}
	switch m.kind {
	case syncOffer:
		m.returner, m.from, m.to = r.Bool(), r.Uint(), r.Uint()
		m.held = roaring64.New()
		if err := m.held.UnmarshalBinary(r.Bytes()); err != nil {
			return fmt.Errorf("%w: read what a mirror offers: %w", ErrDefect, err)
		}
	case syncBatch:
		m.number, m.to, m.gone = r.Uint(), r.Uint(), readRanges(&r)
		m.count = n - 7
	case syncAck:
		m.number = r.Uint()
		if m.stored = m.number; n > 5 {
			m.stored = r.Uint()
		}
	default:
		return fmt.Errorf("%w: message %d of a synchronisation", ErrDefect, m.kind)
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("%w: read a message of a synchronisation: %w", ErrDefect, err)
	}
	if wanted, err := head(m); err != nil || !wanted {
		return err
	}
	var e backingqueue.Entry // one for all: entry copies what it keeps
	for ; m.count > 0; m.count-- {
		fields := r.Array()
		e = backingqueue.Entry{Seq: r.Uint(), Ref: r.Uint(), Number: r.Uint(), Delivered: r.Bool()}
		var err error
		if e.Message, err = message.Decode(&r); err != nil {
			return fmt.Errorf("%w: read a message that is synchronised: %w", ErrDefect, err)
		}
		r.SkipN(fields - 5)
		if err := r.Err(); err != nil {
			return fmt.Errorf("%w: read a batch of a synchronisation: %w", ErrDefect, err)
		}
		if err := entry(&e); err != nil {
			return err
		}
	}
	return nil
}

// SyncStep does the next piece of a synchronisation, as master or as mirror; more: there is another one to do at once. The
// owner calls it again and again between other inputs, so that a synchronisation yields to them.
func (r *Replica) SyncStep() (more bool, err error) {
	switch {
	case r.role == Expelled:
		return false, nil
	case r.run != nil:
		return r.walk()
	case r.incoming != nil:
		return r.offerStep(), nil
	}
	return false, nil
}

// SyncMessage takes a message that a member sent with Env.SendSync. What belongs to no synchronisation that is under way is
// ignored: it comes late, and whoever sent it knows or will know.
func (r *Replica) SyncMessage(node string, incarnation uint64, payload []byte) error {
	if r.role == Expelled {
		return nil
	}
	err := decodeSync(payload, func(m *syncMessage) (bool, error) {
		switch m.kind {
		case syncOffer:
			r.takeOffer(node, incarnation, m)
		case syncAck:
			r.takeAck(node, incarnation, m)
		case syncBatch:
			return r.beginBatch(node, incarnation, m)
		}
		return false, nil
	}, r.takeEntry)
	if err == nil {
		r.endBatch(len(payload))
		return r.settle()
	}
	if r.role == Expelled {
		return err
	}
	return r.failed(fmt.Sprintf("take part of a synchronisation from %s", node), err)
}

// SyncPending tells whether SyncTick is needed: this master has mirrors that are not synchronised.
func (r *Replica) SyncPending() bool { return r.role == Master && len(r.joiners) > 0 }

// SyncTick says that about a second has passed.
func (r *Replica) SyncTick() error {
	if r.role != Master {
		return nil
	}
	for m, j := range r.joiners {
		if j.paused > 0 {
			j.paused--
			r.joiners[m] = j
		}
	}
	if r.run != nil {
		for m, t := range r.run.targets {
			if t.waits(r.run.cursor) {
				t.ticks++
			}
			if t.ticks > stalledAfter {
				r.leaveOut(m, "it does not answer")
			}
		}
	}
	return r.settle()
}

// LinkDown says that the link to an incarnation of a node has ended, and what was under way to it is lost.
func (r *Replica) LinkDown(node string, incarnation uint64) error {
	if r.run == nil {
		return nil
	}
	for m := range r.run.targets {
		if m.Node == node && m.Incarnation == incarnation {
			r.leaveOut(m, "the link to it ended")
		}
	}
	return r.settle()
}
