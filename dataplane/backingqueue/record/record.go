package record

import (
	"encoding/binary"
	"fmt"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
)

// Type of a record. The numbers are on disk: never reuse one.
type Type uint8

const (
	TypeMark Type = iota + 1
	// TypeAppend and TypeInsert hold an entry.
	TypeAppend
	TypeInsert
	// TypeRemove and TypeDelivered hold ranges.
	TypeRemove
	TypeDelivered
	// TypeTruncate and TypeSkip hold a sequence number.
	TypeTruncate
	TypeSkip
	// TypePassed stands for the append of a transient message: the sequence number, and the origin's ref and number.
	TypePassed
	TypeOrigin
	TypeCloseOrigin
	TypeMeta
	// TypeState is all of a queue but its entries; the first record of a queue is one.
	TypeState
	// TypeDelete ends the queue.
	TypeDelete
)

// Segment is a segment file as a State knows it: at least Size bytes of it are durable.
type Segment struct {
	File uint32
	Size int64
}

// State is all of a queue but its entries.
type State struct {
	NextSeq     uint64
	NextSegment uint32
	Segments    []Segment // ascending File
	Origins     []backingqueue.Origin
	Meta        []byte
	Damaged     string // what was lost, until the queue's owner has taken note
}

// Record is a decoded payload. Which fields are set follows from Type.
type Record struct {
	Type   Type
	Queue  backingqueue.ID
	Number uint64 // of the record within its queue's journal records, growing by one; 0 in segments
	Entry  backingqueue.Entry
	Ranges []backingqueue.Range
	At     uint64
	Origin backingqueue.Origin
	Meta   []byte
	State  State
}

// Head appends type, queue and number, with which every payload begins.
func Head(b []byte, t Type, q backingqueue.ID, number uint64) []byte {
	b = append(b, byte(t))
	b = binary.AppendUvarint(b, uint64(q))
	return binary.AppendUvarint(b, number)
}

const (
	flagDelivered  = 1
	flagPersistent = 2
)

// AppendEntry appends an entry but for its body, which must follow as the payload's end.
func AppendEntry(b []byte, e *backingqueue.Entry) []byte {
	b = binary.AppendUvarint(b, e.Seq)
	b = binary.AppendUvarint(b, e.Ref)
	b = binary.AppendUvarint(b, e.Number)
	var flags byte
	if e.Delivered {
		flags |= flagDelivered
	}
	if e.Message.Persistent {
		flags |= flagPersistent
	}
	b = append(b, flags, e.Message.Priority)
	b = binary.AppendVarint(b, e.Message.Expiry)
	b = appendString(b, e.Message.Exchange)
	b = appendString(b, e.Message.RoutingKey)
	return appendString(b, e.Message.Properties)
}

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendRanges appends ranges.
func AppendRanges(b []byte, rs []backingqueue.Range) []byte {
	b = binary.AppendUvarint(b, uint64(len(rs)))
	for _, r := range rs {
		b = binary.AppendUvarint(b, r.First)
		b = binary.AppendUvarint(b, r.Last-r.First)
	}
	return b
}

// AppendOrigin appends one line of the table of origins.
func AppendOrigin(b []byte, o backingqueue.Origin) []byte {
	b = binary.AppendUvarint(b, o.Ref)
	b = appendString(b, o.ID.Node)
	b = binary.AppendUvarint(b, o.ID.Incarnation)
	b = binary.AppendUvarint(b, o.ID.Connection)
	b = binary.AppendUvarint(b, o.ID.Channel)
	return binary.AppendUvarint(b, o.Number)
}

// AppendState appends a State.
func AppendState(b []byte, s State) []byte {
	b = binary.AppendUvarint(b, s.NextSeq)
	b = binary.AppendUvarint(b, uint64(s.NextSegment))
	b = binary.AppendUvarint(b, uint64(len(s.Segments)))
	for _, g := range s.Segments {
		b = binary.AppendUvarint(b, uint64(g.File))
		b = binary.AppendUvarint(b, uint64(g.Size))
	}
	b = binary.AppendUvarint(b, uint64(len(s.Origins)))
	for _, o := range s.Origins {
		b = AppendOrigin(b, o)
	}
	b = appendString(b, s.Meta)
	return appendString(b, s.Damaged)
}

// reader takes a payload apart; bad is sticky.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// count reads a length of a list whose elements have at least size bytes each.
func (r *reader) count(size uint64) int {
	n := r.uvarint()
	if n > uint64(len(r.b))/size {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

// Decode takes a payload apart. Byte slices of the result alias p.
func Decode(p []byte) (Record, error) {
	r := reader{b: p}
	rec := Record{Type: Type(r.byte())}
	rec.Queue, rec.Number = backingqueue.ID(r.uvarint()), r.uvarint()
	switch rec.Type {
	case TypeAppend, TypeInsert:
		rec.Entry = r.entry(&Names{})
	case TypeRemove, TypeDelivered:
		rec.Ranges = r.ranges()
	case TypeTruncate, TypeSkip, TypeCloseOrigin:
		rec.At = r.uvarint()
	case TypePassed:
		rec.At = r.uvarint()
		rec.Origin.Ref, rec.Origin.Number = r.uvarint(), r.uvarint()
	case TypeOrigin:
		rec.Origin = r.origin()
	case TypeMeta:
		rec.Meta = r.bytes()
	case TypeState:
		rec.State = r.state()
	case TypeDelete:
	default:
		return rec, fmt.Errorf("record type %d: %w", rec.Type, ErrFormat)
	}
	if r.bad {
		return rec, fmt.Errorf("record of type %d is cut short: %w", rec.Type, backingqueue.ErrDamaged)
	}
	return rec, nil
}

// Names remembers the strings of the last entry decoded, as the next one mostly has the same.
type Names struct{ exchange, key string }

// DecodeEntry is Decode for an entry, with names to save allocations.
func DecodeEntry(p []byte, names *Names) (Record, error) {
	if len(p) == 0 || Type(p[0]) != TypeAppend && Type(p[0]) != TypeInsert {
		return Record{}, fmt.Errorf("record is no entry: %w", backingqueue.ErrDamaged)
	}
	r := reader{b: p[1:]}
	rec := Record{Type: Type(p[0]), Queue: backingqueue.ID(r.uvarint()), Number: r.uvarint()}
	rec.Entry = r.entry(names)
	if r.bad {
		return rec, fmt.Errorf("record of an entry is cut short: %w", backingqueue.ErrDamaged)
	}
	return rec, nil
}

// DecodeSlim is Decode for the index: an entry's message has only Persistent and the body, no strings are made.
func DecodeSlim(p []byte) (Record, error) {
	if len(p) == 0 || Type(p[0]) != TypeAppend && Type(p[0]) != TypeInsert {
		return Decode(p)
	}
	r := reader{b: p[1:]}
	rec := Record{Type: Type(p[0]), Queue: backingqueue.ID(r.uvarint()), Number: r.uvarint()}
	rec.Entry = r.entry(nil)
	if r.bad {
		return rec, fmt.Errorf("record of an entry is cut short: %w", backingqueue.ErrDamaged)
	}
	return rec, nil
}

// entry reads an entry; names nil: without what only a consumer wants.
func (r *reader) entry(names *Names) (e backingqueue.Entry) {
	e.Seq, e.Ref, e.Number = r.uvarint(), r.uvarint(), r.uvarint()
	flags := r.byte()
	prio := r.byte()
	expiry := r.varint()
	exchange, key, props := r.bytes(), r.bytes(), r.bytes()
	e.Delivered = flags&flagDelivered != 0
	e.Message = message.Message{Persistent: flags&flagPersistent != 0, Body: r.b[:len(r.b):len(r.b)]}
	r.b = nil
	if len(e.Message.Body) == 0 {
		e.Message.Body = nil
	}
	if names != nil {
		if names.exchange != string(exchange) {
			names.exchange = string(exchange)
		}
		if names.key != string(key) {
			names.key = string(key)
		}
		e.Message.Exchange, e.Message.RoutingKey = names.exchange, names.key
		e.Message.Properties, e.Message.Priority, e.Message.Expiry = props, prio, expiry
	}
	return e
}

func (r *reader) ranges() []backingqueue.Range {
	rs := make([]backingqueue.Range, r.count(2))
	for i := range rs {
		rs[i].First = r.uvarint()
		rs[i].Last = rs[i].First + r.uvarint()
	}
	return rs
}

func (r *reader) origin() (o backingqueue.Origin) {
	o.Ref = r.uvarint()
	o.ID.Node = string(r.bytes())
	o.ID.Incarnation, o.ID.Connection, o.ID.Channel = r.uvarint(), r.uvarint(), r.uvarint()
	o.Number = r.uvarint()
	return o
}

func (r *reader) state() (s State) {
	s.NextSeq, s.NextSegment = r.uvarint(), uint32(r.uvarint())
	s.Segments = make([]Segment, r.count(2))
	for i := range s.Segments {
		s.Segments[i] = Segment{File: uint32(r.uvarint()), Size: int64(r.uvarint())}
	}
	s.Origins = make([]backingqueue.Origin, r.count(6))
	for i := range s.Origins {
		s.Origins[i] = r.origin()
	}
	s.Meta = r.bytes()
	s.Damaged = string(r.bytes())
	return s
}
