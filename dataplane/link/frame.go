package link

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	kindKeepalive FrameKind = 0
	kindCall      FrameKind = 1
	kindAnswer    FrameKind = 2
	kindGoodbye   FrameKind = 3

	frameHeader = 5
	chunkSize   = 32 << 10
)

// frameReader cuts a byte stream into frames. Small bodies are carved from a chunk that is read into and never reused,
// so that they need no copy; a body that does not fit gets a buffer of its own.
type frameReader struct {
	r          io.Reader
	max        int // largest body
	buf        []byte
	start, end int
	carved     bool // bodies in buf were handed out: it is not read into again
}

// next returns the next frame. It fails with ErrFrame or ErrTooLarge on bytes that are none, with io.EOF at an end
// between frames.
func (f *frameReader) next() (FrameKind, []byte, error) {
	if err := f.fill(frameHeader); err != nil {
		return 0, nil, err
	}
	n := int64(binary.BigEndian.Uint32(f.buf[f.start:]))
	kind := FrameKind(f.buf[f.start+4])
	switch {
	case n < 1:
		return 0, nil, fmt.Errorf("%w: length 0", ErrFrame)
	case n-1 > int64(f.max):
		return 0, nil, fmt.Errorf("%w: %d bytes of kind %d, at most %d are allowed", ErrTooLarge, n-1, kind, f.max)
	}
	size := int(n) - 1
	if frameHeader+size > chunkSize/2 {
		body, err := f.large(size)
		return kind, body, err
	}
	if err := f.fill(frameHeader + size); err != nil {
		return 0, nil, err
	}
	from := f.start + frameHeader
	f.start = from + size
	f.carved = true
	return kind, f.buf[from:f.start:f.start], nil
}

// fill makes n ≤ chunkSize/2 contiguous bytes available at start.
func (f *frameReader) fill(n int) error {
	for f.end-f.start < n {
		if f.start+n > len(f.buf) || f.end == len(f.buf) {
			next := f.buf
			if f.carved || next == nil {
				next = make([]byte, chunkSize)
			}
			f.end = copy(next, f.buf[f.start:f.end])
			f.buf, f.start, f.carved = next, 0, false
		}
		got, err := f.r.Read(f.buf[f.end:])
		f.end += got
		if err != nil && f.end-f.start < n {
			if err == io.EOF && f.end > f.start {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// large reads a body of size bytes into a buffer of its own; the header stands at start.
func (f *frameReader) large(size int) ([]byte, error) {
	body := make([]byte, size)
	f.start += frameHeader
	got := copy(body, f.buf[f.start:f.end])
	f.start += got
	if _, err := io.ReadFull(f.r, body[got:]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return body, nil
}

func putHeader(b []byte, kind FrameKind, size int) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(size+1))
	return append(b, byte(kind))
}

// callFrame is a decoded call.
type callFrame struct {
	id      uint64
	timeout uint64 // milliseconds, 0: none
	method  string
	body    []byte
}

func decodeCall(b []byte) (callFrame, error) {
	var c callFrame
	var n int
	if c.id, n = binary.Uvarint(b); n <= 0 {
		return c, fmt.Errorf("%w: call id", ErrFrame)
	}
	b = b[n:]
	if c.timeout, n = binary.Uvarint(b); n <= 0 {
		return c, fmt.Errorf("%w: call timeout", ErrFrame)
	}
	b = b[n:]
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return c, fmt.Errorf("%w: call method", ErrFrame)
	}
	c.method, c.body = string(b[1:1+int(b[0])]), b[1+int(b[0]):]
	return c, nil
}

func encodeCall(c callFrame) []byte {
	b := binary.AppendUvarint(nil, c.id)
	b = binary.AppendUvarint(b, c.timeout)
	b = append(b, byte(len(c.method)))
	return append(b, c.method...)
}

func decodeAnswer(b []byte) (id uint64, code int, body []byte, err error) {
	id, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, 0, nil, fmt.Errorf("%w: answer id", ErrFrame)
	}
	b = b[n:]
	c, n := binary.Uvarint(b)
	if n <= 0 || c > 1<<31-1 {
		return 0, 0, nil, fmt.Errorf("%w: answer code", ErrFrame)
	}
	return id, int(c), b[n:], nil
}
