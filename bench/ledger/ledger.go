package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"
)

// HeadSize is how many bytes of a body the books need.
const HeadSize = 24

const magic = 0x77626e63 // "wbnc"

// Head is what the first bytes of a body say.
type Head struct {
	Book uint32
	Seq  uint64    // from 1
	At   time.Time // when it was due to be sent
}

// Append writes the head.
func (h Head) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, magic)
	b = binary.BigEndian.AppendUint32(b, h.Book)
	b = binary.BigEndian.AppendUint64(b, h.Seq)
	return binary.BigEndian.AppendUint64(b, uint64(h.At.UnixNano()))
}

// ParseHead reads a head. Error: the body is not of a measurement.
func ParseHead(body []byte) (Head, error) {
	if len(body) < HeadSize || binary.BigEndian.Uint32(body) != magic {
		return Head{}, fmt.Errorf("a body of %d bytes that no measurement sent", len(body))
	}
	return Head{
		Book: binary.BigEndian.Uint32(body[4:]), Seq: binary.BigEndian.Uint64(body[8:]),
		At: time.Unix(0, int64(binary.BigEndian.Uint64(body[16:]))),
	}, nil
}

// Errors of the books.
var (
	ErrNeverPublished = errors.New("a message that was never published")
	ErrTwice          = errors.New("a message that was settled before")
)

type bitset []uint64

func (s *bitset) has(i uint64) bool {
	w := i / 64
	return w < uint64(len(*s)) && (*s)[w]&(1<<(i%64)) != 0
}

func (s *bitset) set(i uint64) {
	for w := i / 64; w >= uint64(len(*s)); {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

// Book is one publisher's. All methods may be called by any goroutine.
type Book struct {
	ID uint32

	mu        sync.Mutex
	sent      uint64 // the highest number given out
	low       uint64 // all up to here are settled (confirmed, refused or given up)
	settled   bitset
	confirmed bitset
	delivered bitset
	n         Counts
}

// Counts are a book's totals.
type Counts struct {
	Sent        uint64
	Confirmed   uint64
	Nacked      uint64
	Unknown     uint64 // given up when a connection was lost: neither confirmed nor refused
	Delivered   uint64 // different messages
	Doubled     uint64 // deliveries of a message that had been delivered before
	Redelivered uint64 // of these, how many bore the redelivered flag
}

// New opens a book.
func New(id uint32) *Book { return &Book{ID: id} }

// Send gives out the next n numbers: first … first+n-1.
func (b *Book) Send(n uint64) (first uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first = b.sent + 1
	b.sent += n
	b.n.Sent = b.sent
	return first
}

// Settle notes a confirm (ok) or a negative one for seq, or with multiple for all from the oldest unsettled one on, and calls
// each with every message that it settles. Error: ErrNeverPublished, ErrTwice.
func (b *Book) Settle(seq uint64, multiple, ok bool, each func(seq uint64)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if seq == 0 || seq > b.sent {
		return fmt.Errorf("confirm of number %d of publisher %d, which sent %d: %w", seq, b.ID, b.sent, ErrNeverPublished)
	}
	first := seq
	if multiple {
		first = b.low + 1
	}
	news := 0
	for s := first; s <= seq; s++ {
		if !b.settled.has(s) {
			b.settleOne(s, ok)
			each(s)
			news++
		}
	}
	if news == 0 {
		return fmt.Errorf("confirm of number %d of publisher %d: %w", seq, b.ID, ErrTwice)
	}
	for b.settled.has(b.low + 1) {
		b.low++
	}
	return nil
}

func (b *Book) settleOne(s uint64, ok bool) {
	b.settled.set(s)
	if ok {
		b.confirmed.set(s)
		b.n.Confirmed++
	} else {
		b.n.Nacked++
	}
}

// GiveUp settles all that is unsettled as unknown: its connection is gone. It returns how many these are.
func (b *Book) GiveUp() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var n uint64
	for s := b.low + 1; s <= b.sent; s++ {
		if !b.settled.has(s) {
			b.settled.set(s)
			n++
		}
	}
	b.low = b.sent
	b.n.Unknown += n
	return n
}

// Deliver notes a delivery. first is false when that message had been delivered before. Error: ErrNeverPublished.
func (b *Book) Deliver(seq uint64, redelivered bool) (first bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if seq == 0 || seq > b.sent {
		return false, fmt.Errorf("delivery of number %d of publisher %d, which sent %d: %w", seq, b.ID, b.sent, ErrNeverPublished)
	}
	if b.delivered.has(seq) {
		b.n.Doubled++
		if redelivered {
			b.n.Redelivered++
		}
		return false, nil
	}
	b.delivered.set(seq)
	b.n.Delivered++
	return true, nil
}

// Low is the number up to which all are settled.
func (b *Book) Low() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.low
}

// Counts are the totals up to now.
func (b *Book) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// Outstanding is how many are neither confirmed nor refused nor given up.
func (b *Book) Outstanding() uint64 {
	c := b.Counts()
	return c.Sent - c.Confirmed - c.Nacked - c.Unknown
}

// Audit counts the bits: how many were confirmed, and how many of these were never delivered; example is one of them.
// It counts anew from the messages themselves, so that a wrong running total shows.
func (b *Book) Audit() (confirmed, lost, example uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for w, c := range b.confirmed {
		confirmed += uint64(bits.OnesCount64(c))
		missing := c
		if w < len(b.delivered) {
			missing &^= b.delivered[w]
		}
		if missing != 0 && lost == 0 {
			example = uint64(w)*64 + uint64(bits.TrailingZeros64(missing))
		}
		lost += uint64(bits.OnesCount64(missing))
	}
	return confirmed, lost, example
}

// Add adds two counts.
func (c Counts) Add(o Counts) Counts {
	return Counts{
		Sent: c.Sent + o.Sent, Confirmed: c.Confirmed + o.Confirmed, Nacked: c.Nacked + o.Nacked, Unknown: c.Unknown + o.Unknown,
		Delivered: c.Delivered + o.Delivered, Doubled: c.Doubled + o.Doubled, Redelivered: c.Redelivered + o.Redelivered,
	}
}
