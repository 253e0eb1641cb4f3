package mirror

import (
	"fmt"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/message"
	"warren/dataplane/message/wire"
)

// opsVersion is the first value of every payload. Fields may be added behind those that are there, and are skipped by
// who does not know them; a new operation needs a feature flag (design/upgrades.md).
const opsVersion = 1

// opCode names an operation on the ring.
type opCode uint8

const (
	opNewMaster opCode = iota + 1
	opMasterEnds
	opPosition
	opPublish
	opRefused
	opRemove
	opDelivered
	opOriginOpened
	opOriginClosed
	opOrigins
	opNeedPosition
	opSyncStart
	opSyncEnd
)

// op is one decoded operation; which fields mean something depends on code (see doc.go for the formats).
type op struct {
	code   opCode
	epoch  uint64                // NewMaster, MasterEnds, Position
	seq    uint64                // NewMaster: firstSeq; Position: nextSeq; Publish
	flags  uint64                // NewMaster, SyncEnd
	lost   shortfall             // NewMaster, Position: of the queue
	ref    uint64                // Publish, Refused, OriginOpened, OriginClosed; Position: the next ref
	number uint64                // Publish, Refused; OriginOpened: the lowest that is still kept, less one; SyncStart, SyncEnd: which
	count  int                   // Remove: how many messages the master dropped; Position: how many it holds
	first  bool                  // Origins: the first chunk
	id     backingqueue.OriginID // OriginOpened
	ranges []backingqueue.Range  // Remove, Delivered
	msg    message.Message       // Publish

	oldest  uint64      // Position
	members []gm.Member // Position, SyncStart, SyncEnd: whom it concerns
	epochs  []epochStart
	floor   floor
	lines   []originLine // Origins
}

// originLine is one line of the table of origins as it goes over the ring.
type originLine struct {
	origin  backingqueue.Origin
	loss    uint64
	refused []backingqueue.Range
}

func start(n int) []byte {
	b := make([]byte, 0, n+32)
	b = wire.AppendUint(b, opsVersion)
	return b
}

func head(b []byte, fields int, code opCode) []byte {
	return wire.AppendUint(wire.AppendArray(b, fields+1), uint64(code))
}

// flagLossy of NewMaster: promoted without being synchronised.
const flagLossy = 1

func encodeNewMaster(epoch, first, flags uint64, lost shortfall) []byte {
	fields := 3
	if lost != (shortfall{}) {
		fields = 5
	}
	b := head(start(32), fields, opNewMaster)
	b = wire.AppendUint(wire.AppendUint(wire.AppendUint(b, epoch), first), flags)
	if fields == 3 {
		return b
	}
	return appendShortfall(b, lost)
}

func encodeMasterEnds(epoch uint64) []byte {
	return wire.AppendUint(head(start(12), 1, opMasterEnds), epoch)
}

func encodePublish(e *backingqueue.Entry) []byte {
	b := head(start(message.Size(&e.Message)), 4, opPublish)
	b = wire.AppendUint(wire.AppendUint(wire.AppendUint(b, e.Seq), e.Ref), e.Number)
	return message.Append(b, &e.Message)
}

func encodeRefused(ref, number uint64) []byte {
	return wire.AppendUint(wire.AppendUint(head(start(24), 2, opRefused), ref), number)
}

func encodeRemove(rs []backingqueue.Range, reason uint8, count int) []byte {
	b := head(start(16+10*len(rs)), 3, opRemove)
	b = wire.AppendUint(wire.AppendUint(b, uint64(reason)), uint64(count))
	return appendRanges(b, rs)
}

func encodeDelivered(rs []backingqueue.Range) []byte {
	return appendRanges(head(start(16+10*len(rs)), 1, opDelivered), rs)
}

func encodeOriginOpened(ref, number uint64, id backingqueue.OriginID) []byte {
	b := head(start(64), 6, opOriginOpened)
	return appendOriginID(wire.AppendUint(wire.AppendUint(b, ref), number), id)
}

func encodeOriginClosed(ref uint64) []byte {
	return wire.AppendUint(head(start(12), 1, opOriginClosed), ref)
}

func encodeNeedPosition() []byte { return head(start(4), 0, opNeedPosition) }

func encodeOrigins(first bool, lines []originLine) []byte {
	b := head(start(64*len(lines)), 2, opOrigins)
	b = wire.AppendArray(wire.AppendBool(b, first), len(lines))
	for _, l := range lines {
		b = wire.AppendArray(b, 8)
		b = wire.AppendUint(wire.AppendUint(b, l.origin.Ref), l.origin.Number)
		b = appendOriginID(b, l.origin.ID)
		b = appendRanges(wire.AppendUint(b, l.loss), l.refused)
	}
	return b
}

func encodePosition(o *op) []byte {
	fields := 8
	if o.lost != (shortfall{}) {
		fields = 10
	}
	b := head(start(256+16*len(o.epochs)), fields, opPosition)
	for _, v := range []uint64{o.epoch, o.seq, o.oldest, uint64(o.count), o.ref} {
		b = wire.AppendUint(b, v)
	}
	b = appendFloor(appendEpochs(appendMembers(b, o.members), o.epochs), o.floor)
	if fields == 8 {
		return b
	}
	return appendShortfall(b, o.lost)
}

// Flags of SyncEnd.
const (
	flagOver    = 1 // the synchronisation is over for all
	flagDrained = 2 // the master holds nothing below the baselines of those that are named
)

func encodeSyncStart(id uint64, to []gm.Member) []byte {
	return appendMembers(wire.AppendUint(head(start(64*len(to)), 2, opSyncStart), id), to)
}

func encodeSyncEnd(id, flags uint64, done []gm.Member) []byte {
	b := head(start(64*len(done)), 3, opSyncEnd)
	return appendMembers(wire.AppendUint(wire.AppendUint(b, id), flags), done)
}

func appendMembers(b []byte, ms []gm.Member) []byte {
	b = wire.AppendArray(b, len(ms))
	for _, m := range ms {
		b = wire.AppendString(wire.AppendArray(b, 3), m.Node)
		b = wire.AppendUint(wire.AppendUint(b, m.Incarnation), m.JoinIndex)
	}
	return b
}

func readMembers(r *wire.Reader) (ms []gm.Member) {
	for n := r.Array(); n > 0 && r.Err() == nil; n-- {
		k := r.Array()
		ms = append(ms, gm.Member{Node: cloneString(r.String()), Incarnation: r.Uint(), JoinIndex: r.Uint()})
		r.SkipN(k - 3)
	}
	return ms
}

func appendRanges(b []byte, rs []backingqueue.Range) []byte {
	b = wire.AppendArray(b, 2*len(rs))
	for _, r := range rs {
		b = wire.AppendUint(wire.AppendUint(b, r.First), r.Last-r.First)
	}
	return b
}

func readRanges(r *wire.Reader) []backingqueue.Range {
	n := r.Array() / 2
	if n == 0 {
		return nil
	}
	rs := make([]backingqueue.Range, 0, n)
	for i := 0; i < n && r.Err() == nil; i++ {
		first := r.Uint()
		rs = append(rs, backingqueue.Range{First: first, Last: first + r.Uint()})
	}
	return rs
}

// appendOriginID adds the four fields of id, readOriginID reads them.
func appendOriginID(b []byte, id backingqueue.OriginID) []byte {
	b = wire.AppendUint(wire.AppendString(b, id.Node), id.Incarnation)
	return wire.AppendUint(wire.AppendUint(b, id.Connection), id.Channel)
}

func readOriginID(r *wire.Reader) backingqueue.OriginID {
	return backingqueue.OriginID{Node: cloneString(r.String()), Incarnation: r.Uint(), Connection: r.Uint(), Channel: r.Uint()}
}

// cloneString frees a small string, which lives long, from the frame that it came with.
func cloneString(s string) string { return string([]byte(s)) }

// decodeOps calls f for each operation of a payload, decoded into o; messages alias the payload. The first error ends it.
func decodeOps(payload []byte, o *op, f func(*op) error) error {
	r := wire.NewReader(payload)
	if v := r.Uint(); r.Err() == nil && v != opsVersion {
		return fmt.Errorf("%w: ring message of version %d", ErrDefect, v)
	}
	for r.Len() > 0 && r.Err() == nil {
		n := r.Array()
		if n == 0 {
			return fmt.Errorf("%w: empty operation at byte %d: %w", ErrDefect, r.Offset(), wire.ErrMalformed)
		}
		*o = op{code: opCode(r.Uint())}
		known, err := o.decode(&r, n-1)
		switch {
		case err != nil:
			return fmt.Errorf("%w: operation %d: %w", ErrDefect, o.code, err)
		case r.Err() != nil:
			return fmt.Errorf("%w: operation %d: %w", ErrDefect, o.code, r.Err())
		case n-1 < known:
			return fmt.Errorf("%w: operation %d has %d fields", ErrDefect, o.code, n-1)
		}
		r.SkipN(n - 1 - known)
		if err := f(o); err != nil {
			return err
		}
	}
	if err := r.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrDefect, err)
	}
	return nil
}

// decode reads the fields behind the code, of which there are n, and says how many it knew.
func (o *op) decode(r *wire.Reader, n int) (fields int, err error) {
	switch o.code {
	case opNewMaster:
		o.epoch, o.seq, o.flags = r.Uint(), r.Uint(), r.Uint()
		if n < 5 {
			return 3, nil
		}
		o.lost = readShortfall(r)
		return 5, nil
	case opMasterEnds:
		o.epoch = r.Uint()
		return 1, nil
	case opPosition:
		if err := o.decodePosition(r); err != nil || n < 10 {
			return 8, err
		}
		o.lost = readShortfall(r)
		return 10, nil
	case opPublish:
		o.seq, o.ref, o.number = r.Uint(), r.Uint(), r.Uint()
		o.msg, err = message.Decode(r)
		return 4, err
	case opRefused:
		o.ref, o.number = r.Uint(), r.Uint()
		return 2, nil
	case opRemove:
		r.Uint() // the reason is for who watches the ring
		o.count, o.ranges = int(r.Uint()), readRanges(r)
		return 3, nil
	case opDelivered:
		o.ranges = readRanges(r)
		return 1, nil
	case opOriginOpened:
		o.ref, o.number, o.id = r.Uint(), r.Uint(), readOriginID(r)
		return 6, nil
	case opOriginClosed:
		o.ref = r.Uint()
		return 1, nil
	case opOrigins:
		return 2, o.decodeOrigins(r)
	case opNeedPosition:
		return 0, nil
	case opSyncStart:
		o.number, o.members = r.Uint(), readMembers(r)
		return 2, nil
	case opSyncEnd:
		o.number, o.flags, o.members = r.Uint(), r.Uint(), readMembers(r)
		return 3, nil
	}
	return 0, fmt.Errorf("unknown operation")
}

func (o *op) decodePosition(r *wire.Reader) error {
	o.epoch, o.seq, o.oldest, o.count, o.ref = r.Uint(), r.Uint(), r.Uint(), int(r.Uint()), r.Uint()
	o.members = readMembers(r)
	o.epochs, o.floor = readEpochs(r), readFloor(r)
	return r.Err()
}

func (o *op) decodeOrigins(r *wire.Reader) error {
	o.first = r.Bool()
	for n := r.Array(); n > 0 && r.Err() == nil; n-- {
		k := r.Array()
		l := originLine{origin: backingqueue.Origin{Ref: r.Uint(), Number: r.Uint(), ID: readOriginID(r)}}
		l.loss, l.refused = r.Uint(), readRanges(r)
		r.SkipN(k - 8)
		o.lines = append(o.lines, l)
	}
	return r.Err()
}
