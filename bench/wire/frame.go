package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Frame types and methods that occur (AMQP 0-9-1 sections 4.2.3 and 1.4 of the reference).
const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	frameEnd       = 0xCE

	frameOverhead = 8 // header of seven octets and the end octet
	maxFrame      = 1 << 20
	readBuffer    = 256 << 10

	connectionStart   = 10<<16 | 10
	connectionStartOk = 10<<16 | 11
	connectionTune    = 10<<16 | 30
	connectionTuneOk  = 10<<16 | 31
	connectionOpen    = 10<<16 | 40
	connectionOpenOk  = 10<<16 | 41
	connectionClose   = 10<<16 | 50
	connectionCloseOk = 10<<16 | 51
	connectionBlocked = 10<<16 | 60
	connectionUnblock = 10<<16 | 61
	channelOpen       = 20<<16 | 10
	channelOpenOk     = 20<<16 | 11
	channelClose      = 20<<16 | 40
	basicQos          = 60<<16 | 10
	basicQosOk        = 60<<16 | 11
	basicConsume      = 60<<16 | 20
	basicConsumeOk    = 60<<16 | 21
	basicCancel       = 60<<16 | 30
	basicPublish      = 60<<16 | 40
	basicReturn       = 60<<16 | 50
	basicDeliver      = 60<<16 | 60
	basicAck          = 60<<16 | 80
	basicNack         = 60<<16 | 120
	confirmSelect     = 85<<16 | 10
	confirmSelectOk   = 85<<16 | 11
)

// frame is one frame; its payload aliases the reader's buffer until the next call of next.
type frame struct {
	kind    uint8
	payload []byte
}

// reader cuts frames out of a stream.
type reader struct {
	src  io.Reader
	buf  []byte
	r, w int
}

func newReader(src io.Reader) *reader { return &reader{src: src, buf: make([]byte, readBuffer)} }

// buffered says whether a whole frame can be given without reading from the connection.
func (r *reader) buffered() bool {
	n := r.w - r.r
	if n < 7 {
		return false
	}
	return n >= int(binary.BigEndian.Uint32(r.buf[r.r+3:]))+frameOverhead
}

func (r *reader) fill(n int) error {
	if r.w-r.r >= n {
		return nil
	}
	if len(r.buf)-r.r < n {
		if n > len(r.buf) {
			grown := make([]byte, n)
			r.w = copy(grown, r.buf[r.r:r.w])
			r.buf, r.r = grown, 0
		} else {
			r.w = copy(r.buf, r.buf[r.r:r.w])
			r.r = 0
		}
	}
	for r.w-r.r < n {
		k, err := r.src.Read(r.buf[r.w:])
		r.w += k
		if err != nil && r.w-r.r < n {
			return err
		}
	}
	return nil
}

func (r *reader) next() (frame, error) {
	if r.r == r.w {
		r.r, r.w = 0, 0
	}
	if err := r.fill(7); err != nil {
		return frame{}, err
	}
	head := r.buf[r.r:]
	size := binary.BigEndian.Uint32(head[3:])
	if size > maxFrame {
		return frame{}, fmt.Errorf("a frame of %d bytes", size)
	}
	total := int(size) + frameOverhead
	if err := r.fill(total); err != nil {
		return frame{}, err
	}
	b := r.buf[r.r : r.r+total]
	r.r += total
	if b[total-1] != frameEnd {
		return frame{}, fmt.Errorf("a frame ends with octet %#x", b[total-1])
	}
	return frame{kind: b[0], payload: b[7 : total-1]}, nil
}

// args writes a method's arguments.
type args struct{ b []byte }

func (a *args) octet(v uint8)  { a.b = append(a.b, v) }
func (a *args) short(v uint16) { a.b = binary.BigEndian.AppendUint16(a.b, v) }
func (a *args) long(v uint32)  { a.b = binary.BigEndian.AppendUint32(a.b, v) }
func (a *args) longlong(v uint64) {
	a.b = binary.BigEndian.AppendUint64(a.b, v)
}
func (a *args) shortstr(s string) { a.octet(uint8(len(s))); a.b = append(a.b, s...) }
func (a *args) longstr(s string)  { a.long(uint32(len(s))); a.b = append(a.b, s...) }

// boolTable is a field table of true values.
func (a *args) boolTable(names ...string) {
	var t args
	for _, n := range names {
		t.shortstr(n)
		t.octet('t')
		t.octet(1)
	}
	a.longstr(string(t.b))
}

func openFrame(b []byte, kind uint8, channel uint16) []byte {
	return append(b, kind, byte(channel>>8), byte(channel), 0, 0, 0, 0)
}

func closeFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start+3:], uint32(len(b)-start-7))
	return append(b, frameEnd)
}

func methodFrame(b []byte, channel uint16, id uint32, fill func(*args)) []byte {
	start := len(b)
	a := args{openFrame(b, frameMethod, channel)}
	a.long(id)
	if fill != nil {
		fill(&a)
	}
	return closeFrame(a.b, start)
}
