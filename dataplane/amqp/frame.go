package amqp

import (
	"bufio"
	"encoding/binary"
	"io"
)

// Frame types and sizes (AMQP 0-9-1 section 4.2.3).
const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	frameEnd       = 0xCE

	frameOverhead    = 8    // header and end octet
	frameMinSize     = 4096 // the least a peer may negotiate
	initialFrameMax  = 8192 // before tune-ok
	basicClass       = 60
	headerFixed      = 12 // class, weight, body size
	protocolHeader   = "AMQP\x00\x00\x09\x01"
	defaultFrameMax  = 131072
	heartbeatPayload = "\x08\x00\x00\x00\x00\x00\x00\xCE"
)

// frame is one frame's header; its payload has not been read yet.
type frame struct {
	typ     uint8
	channel uint16
	size    uint32
}

// frameReader cuts frames. It allocates at most max octets, and that only for frames that say that they are so large.
type frameReader struct {
	br  *bufio.Reader
	max uint32 // frame-max
	buf []byte
	hdr [7]byte
}

// next reads a frame's header and refuses what no frame can be, before anything is allocated for it.
func (r *frameReader) next() (frame, error) {
	if _, err := io.ReadFull(r.br, r.hdr[:]); err != nil {
		return frame{}, err
	}
	f := frame{typ: r.hdr[0], channel: binary.BigEndian.Uint16(r.hdr[1:]), size: binary.BigEndian.Uint32(r.hdr[3:])}
	switch f.typ {
	case frameMethod, frameHeader, frameBody, frameHeartbeat:
	default:
		return f, Errorf(FrameError, "type %d, octets = <<>>: {invalid_frame_type,%d}", f.typ, f.typ)
	}
	if f.size > r.max-frameOverhead {
		return f, Errorf(FrameError, "type %d, all octets = <<>>: {frame_too_large,%d,%d}", f.typ, f.size, r.max-frameOverhead)
	}
	return f, nil
}

// payload reads f's payload into a buffer that is good until the next call.
func (r *frameReader) payload(f frame) ([]byte, error) {
	if uint32(cap(r.buf)) < f.size {
		r.buf = make([]byte, f.size)
	}
	b := r.buf[:f.size]
	if err := r.into(f, b); err != nil {
		return nil, err
	}
	return b, nil
}

// into reads f's payload into b, which has its size, and the end octet.
func (r *frameReader) into(f frame, b []byte) error {
	if _, err := io.ReadFull(r.br, b); err != nil {
		return noEOF(err)
	}
	end, err := r.br.ReadByte()
	if err != nil {
		return noEOF(err)
	}
	if end != frameEnd {
		return Errorf(FrameError, "type %d, octets = <<>>: {invalid_frame_end_marker,%d}", f.typ, end)
	}
	return nil
}

// noEOF: in the middle of a frame the end of the stream is never expected.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// openFrame begins a frame; closeFrame, with the position where it began, ends it.
func openFrame(b []byte, typ uint8, channel uint16) []byte {
	return append(b, typ, byte(channel>>8), byte(channel), 0, 0, 0, 0)
}

func closeFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start+3:], uint32(len(b)-start-7))
	return append(b, frameEnd)
}

func appendMethodFrame(b []byte, channel uint16, m method) []byte {
	start := len(b)
	return closeFrame(m.append(openFrame(b, frameMethod, channel)), start)
}

// appendHeaderFrame: properties are the flags and the list as the publisher sent them.
func appendHeaderFrame(b []byte, channel uint16, size int, properties []byte) []byte {
	start := len(b)
	b = openFrame(b, frameHeader, channel)
	b = append(b, 0, basicClass, 0, 0)
	b = appendLonglong(b, uint64(size))
	if len(properties) < 2 {
		b = append(b, 0, 0)
	} else {
		b = append(b, properties...)
	}
	return closeFrame(b, start)
}
