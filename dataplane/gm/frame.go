package gm

import "encoding/binary"

// Wire format, version 1: see the package documentation. Everything here appends; nothing allocates but the caller's
// buffer.

const wireVersion = 1

type frameType uint8

const (
	frameData     frameType = 1
	frameFragment frameType = 2
	frameProgress frameType = 3
	frameStable   frameType = 4
	frameCredit   frameType = 5
	frameResume   frameType = 6
	frameStart    frameType = 7
	frameClosing  frameType = 8
	frameBatch    frameType = 9
)

// classClosed marks SenderClosed among the Data frames; users never see it as a class.
const classClosed Class = 3

// Limits of what a frame may name.
const (
	maxNode    = 255  // bytes of a node's name
	maxSenders = 4096 // members and senders in one frame
	headBytes  = 64   // room for a frame's fixed fields when a sender is named by index

	batchBytes = 64 << 10 // bodies that one Batch gathers, at most
	maxBatch   = 1024     // and messages

	inPlace = 1 << 10 // bytes of a body from which on it is not copied into a frame of its first hop
)

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 0x80:
		return append(b, byte(v))
	case v <= 0xff:
		return append(b, 0xcc, byte(v))
	case v <= 0xffff:
		return append(b, 0xcd, byte(v>>8), byte(v))
	case v <= 0xffffffff:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 0xc3)
	}
	return append(b, 0xc2)
}

func appendArray(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x90|byte(n))
	case n <= 0xffff:
		return append(b, 0xdc, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

func appendStr(b []byte, s string) []byte {
	if len(s) < 32 {
		b = append(b, 0xa0|byte(len(s)))
	} else {
		b = append(b, 0xd9, byte(len(s)))
	}
	return append(b, s...)
}

// appendBinHead writes n bytes' head and leaves the bytes to the caller: the long form from 64 KiB on and the short ones below, as
// msgpack encoders do.
func appendBinHead(b []byte, n int) []byte {
	switch {
	case n <= 0xff:
		return append(b, 0xc4, byte(n))
	case n <= 0xffff:
		return append(b, 0xc5, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
}

func appendHead(b []byte, t frameType, view uint64) []byte {
	return appendUint(append(b, wireVersion, byte(t)), view)
}

func appendMember(b []byte, m Member) []byte {
	b = appendArray(b, 3)
	b = appendStr(b, m.Node)
	b = appendUint(b, m.Incarnation)
	return appendUint(b, m.JoinIndex)
}

// appendRef names a sender: by its place in the view if it is in it, else in full.
func appendRef(b []byte, s *sender) []byte {
	if s.index >= 0 {
		return appendUint(b, uint64(s.index))
	}
	return appendMember(b, s.id)
}

func refBytes(s *sender) int {
	if s.index >= 0 {
		return 0
	}
	return 24 + len(s.id.Node)
}

// encodeData makes the one buffer that carries a message over every hop of its view, and returns where its body stands.
func encodeData(view uint64, s *sender, num uint64, c Class, body []byte) (frame, alias []byte) {
	b := append(dataHead(view, s, num, c, len(body), len(body)), body...)
	return b, b[len(b)-len(body) : len(b) : len(b)]
}

// dataHead is a Data frame up to its body, which has size bytes, with room behind it.
func dataHead(view uint64, s *sender, num uint64, c Class, size, room int) []byte {
	b := appendHead(make([]byte, 0, headBytes+refBytes(s)+room), frameData, view)
	b = appendRef(b, s)
	b = appendUint(b, num)
	b = appendUint(b, uint64(c))
	return appendBinHead(b, size)
}

// encodeBatch puts n messages of one sender, from e on along the log, into one frame: frame and then rest, which has bodies that are
// not copied (inPlace) and what stands between them.
func encodeBatch(view uint64, e *entry, n int) (frame []byte, rest [][]byte) {
	size, large := headBytes+refBytes(e.s), 0
	for x, i := e, 0; i < n; x, i = x.next, i+1 {
		size += 6 // class and the longest head of a body
		if len(x.payload) < inPlace {
			size += len(x.payload)
		} else {
			large++
		}
	}
	b := appendHead(make([]byte, 0, size), frameBatch, view)
	b = appendRef(b, e.s)
	b = appendUint(b, e.num)
	b = appendArray(b, 2*n)
	var parts [][]byte
	if large > 0 {
		parts = make([][]byte, 0, 2*large+1)
	}
	for x, i := e, 0; i < n; x, i = x.next, i+1 {
		b = appendBinHead(append(b, byte(x.class)), len(x.payload))
		if len(x.payload) < inPlace {
			b = append(b, x.payload...)
		} else {
			parts = append(parts, b, x.payload)
			b = b[len(b):]
		}
	}
	if len(parts) == 0 {
		return b, nil
	}
	if len(b) > 0 {
		parts = append(parts, b)
	}
	return parts[0], parts[1:]
}

// fragmentHead is a Fragment frame up to its piece, which has size bytes.
func fragmentHead(view uint64, e *entry, offset, size int) []byte {
	b := appendHead(make([]byte, 0, headBytes+refBytes(e.s)), frameFragment, view)
	b = appendRef(b, e.s)
	b = appendUint(b, e.num)
	b = appendUint(b, uint64(e.class))
	b = appendUint(b, uint64(len(e.payload)))
	b = appendUint(b, uint64(offset))
	return appendBinHead(b, size)
}

// encodeClosed is the payload of SenderClosed.
func encodeClosed(m Member, last uint64) []byte {
	return appendUint(appendMember(make([]byte, 0, 32+len(m.Node)), m), last)
}
