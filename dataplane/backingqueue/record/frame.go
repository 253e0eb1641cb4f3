package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"warren/dataplane/backingqueue"
)

// Version of the format that this build writes, and the newest that it reads.
const Version = 1

// Sizes in bytes.
const (
	HeaderSize = 24 // of a file's header
	FrameSize  = 8  // of what stands before a payload
	MarkSize   = FrameSize + 1 + 8 + 8 + 8
)

const (
	fileMagic = "WARRENQ\x00"
	markMagic = "\xd1WqMark\xa7"
)

// ErrFormat: the file is of a format that this build does not know (a newer one).
var ErrFormat = errors.New("unknown format version")

// castagnoli is the table crc32 has hardware support for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendHeader appends the header of the file with the number.
func AppendHeader(b []byte, file uint64) []byte {
	n := len(b)
	b = append(b, fileMagic...)
	b = binary.LittleEndian.AppendUint32(b, Version)
	b = binary.LittleEndian.AppendUint64(b, file)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[n:], castagnoli))
}

// CheckHeader reads a file's header. backingqueue.ErrDamaged if it is not whole, ErrFormat if it is newer.
func CheckHeader(b []byte, file uint64) error {
	if len(b) < HeaderSize || string(b[:8]) != fileMagic ||
		crc32.Checksum(b[:20], castagnoli) != binary.LittleEndian.Uint32(b[20:]) {
		return fmt.Errorf("file header: %w", backingqueue.ErrDamaged)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v > Version {
		return fmt.Errorf("file format %d, this build reads up to %d: %w", v, Version, ErrFormat)
	}
	if n := binary.LittleEndian.Uint64(b[12:]); n != file {
		return fmt.Errorf("file header says number %d, the name says %d: %w", n, file, backingqueue.ErrDamaged)
	}
	return nil
}

// PutFrame writes the frame of a payload made of head and body into b, which has FrameSize bytes.
func PutFrame(b, head, body []byte) {
	binary.LittleEndian.PutUint32(b, uint32(len(head)+len(body)))
	binary.LittleEndian.PutUint32(b[4:], Checksum(head, body))
}

// AppendFrame appends the frame of a payload with the length and checksum.
func AppendFrame(b []byte, length, sum uint32) []byte {
	b = binary.LittleEndian.AppendUint32(b, length)
	return binary.LittleEndian.AppendUint32(b, sum)
}

// Checksum of a payload made of head and body.
func Checksum(head, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body)
}

// AppendMark appends a mark that will stand at off in the file.
func AppendMark(b []byte, file uint64, off int64) []byte {
	n := len(b)
	b = append(b, make([]byte, FrameSize)...)
	b = append(b, byte(TypeMark))
	b = append(b, markMagic...)
	b = binary.LittleEndian.AppendUint64(b, file)
	b = binary.LittleEndian.AppendUint64(b, uint64(off))
	PutFrame(b[n:], b[n+FrameSize:], nil)
	return b
}

// Payload checks one whole record, as read from its place, and returns its payload.
func Payload(b []byte) ([]byte, error) {
	if len(b) < FrameSize || int64(binary.LittleEndian.Uint32(b)) != int64(len(b)-FrameSize) {
		return nil, fmt.Errorf("record length: %w", backingqueue.ErrDamaged)
	}
	p := b[FrameSize:]
	if crc32.Checksum(p, castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return nil, fmt.Errorf("record checksum: %w", backingqueue.ErrDamaged)
	}
	return p, nil
}

// Hole is a part of a file that holds no good record.
type Hole struct {
	From, To int64
	// Torn: nothing after it proves that it had been synced.
	Torn bool
}

// Scan calls f for each good record of a file's content, marks excepted, with its offset and its whole size; the payload
// aliases content. It returns the parts that are not good, and tells hole (which may be nil) of each as it meets it: after
// a bad record it goes on at the next mark. f's error ends the scan and is returned.
func Scan(content []byte, file uint64, f func(off int64, size int, payload []byte) error, hole func(Hole)) ([]Hole, error) {
	var holes []Hole
	off := int64(HeaderSize)
	end := int64(len(content))
	for off < end {
		size, ok := good(content[off:])
		if ok && Type(content[off+FrameSize]) == TypeMark && !isMark(content[off:], file, off) {
			ok = false
		}
		if !ok {
			next := nextMark(content, file, off+1)
			h := Hole{From: off, To: next, Torn: next == end}
			holes = append(holes, h)
			if hole != nil {
				hole(h)
			}
			off = next
			continue
		}
		if Type(content[off+FrameSize]) != TypeMark {
			if err := f(off, size, content[off+FrameSize:off+int64(size)]); err != nil {
				return holes, err
			}
		}
		off += int64(size)
	}
	return holes, nil
}

func good(b []byte) (size int, ok bool) {
	if len(b) <= FrameSize {
		return 0, false
	}
	n := int64(binary.LittleEndian.Uint32(b))
	if n == 0 || n > int64(len(b)-FrameSize) {
		return 0, false
	}
	size = FrameSize + int(n)
	_, err := Payload(b[:size])
	return size, err == nil
}

func isMark(b []byte, file uint64, off int64) bool {
	return len(b) >= MarkSize && string(b[FrameSize+1:FrameSize+9]) == markMagic &&
		binary.LittleEndian.Uint64(b[FrameSize+9:]) == file && binary.LittleEndian.Uint64(b[FrameSize+17:]) == uint64(off)
}

// FirstMark is the offset of the first whole mark in a file's content, or the content's length.
func FirstMark(content []byte, file uint64) int64 { return nextMark(content, file, 0) }

// nextMark is the offset of the first whole mark at or after off, or the end.
func nextMark(content []byte, file uint64, off int64) int64 {
	for off < int64(len(content)) {
		i := bytes.Index(content[off:], []byte(markMagic))
		if i < 0 {
			break
		}
		at := off + int64(i) - FrameSize - 1
		if at >= HeaderSize && isMark(content[at:], file, at) {
			if size, ok := good(content[at:]); ok && size == MarkSize {
				return at
			}
		}
		off += int64(i) + 1
	}
	return int64(len(content))
}
