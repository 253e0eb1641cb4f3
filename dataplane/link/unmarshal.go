package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// maxDepth is how deep arrays and maps of a message may lie in each other; decoding them recurses.
const maxDepth = 100

// ErrMalformed is a message whose bytes are not the msgpack value that they claim to be.
var ErrMalformed = errors.New("malformed msgpack")

// Unmarshal decodes a msgpack value that came from a peer into v. What it allocates is in proportion to the bytes that are
// there, whatever lengths they claim: an array of four billion elements is believed only if four billion bytes follow.
// Bytes after the value are not looked at. Errors: ErrMalformed, or those of msgpack about a value of another type.
func Unmarshal(b []byte, v any) error {
	if err := checkClaims(b); err != nil {
		return err
	}
	// Not msgpack.Unmarshal: its pooled decoders keep the largest buffer that any value ever needed.
	return msgpack.NewDecoder(bytes.NewReader(b)).Decode(v)
}

// checkClaims walks over one value and finds out whether all that it claims to hold is there.
func checkClaims(b []byte) error {
	var open [maxDepth]uint64 // elements to come, of each array or map that the walk is in
	open[0] = 1
	for depth := 0; depth >= 0; {
		if open[depth] == 0 {
			depth--
			continue
		}
		open[depth]--
		skip, elements, err := header(b)
		if err != nil {
			return err
		}
		if skip > uint64(len(b)) || elements > uint64(len(b))-skip {
			return fmt.Errorf("%w: it claims %d bytes and %d elements, of %d bytes that are there", ErrMalformed, skip, elements, len(b))
		}
		b = b[skip:]
		if elements == 0 {
			continue
		}
		if depth++; depth == maxDepth {
			return fmt.Errorf("%w: nested more than %d deep", ErrMalformed, maxDepth)
		}
		open[depth] = elements
	}
	return nil
}

// header reads the beginning of a value: how many bytes it takes itself, and how many values follow that belong to it.
func header(b []byte) (skip, elements uint64, err error) {
	if len(b) == 0 {
		return 0, 0, fmt.Errorf("%w: it ends too early", ErrMalformed)
	}
	c := b[0]
	number := func(width int) uint64 { // the big endian number after the code
		var n [8]byte
		copy(n[8-width:], b[1:min(len(b), 1+width)])
		return binary.BigEndian.Uint64(n[:])
	}
	switch {
	case c <= 0x7f || c >= 0xe0 || c == 0xc0 || c == 0xc2 || c == 0xc3: // small numbers, nil, booleans
		return 1, 0, nil
	case c <= 0x8f:
		return 1, 2 * uint64(c&0x0f), nil
	case c <= 0x9f:
		return 1, uint64(c & 0x0f), nil
	case c <= 0xbf:
		return 1 + uint64(c&0x1f), 0, nil
	case c >= 0xc4 && c <= 0xc6: // bytes with a length of 1, 2 or 4 bytes
		width := 1 << (c - 0xc4)
		return 1 + uint64(width) + number(width), 0, nil
	case c >= 0xc7 && c <= 0xc9: // extensions likewise, and a type
		width := 1 << (c - 0xc7)
		return 2 + uint64(width) + number(width), 0, nil
	case c == 0xca || c == 0xcb: // floats
		return 1 + 4<<(c-0xca), 0, nil
	case c >= 0xcc && c <= 0xcf:
		return 1 + 1<<(c-0xcc), 0, nil
	case c >= 0xd0 && c <= 0xd3:
		return 1 + 1<<(c-0xd0), 0, nil
	case c >= 0xd4 && c <= 0xd8: // extensions of 1, 2, 4, 8, 16 bytes
		return 2 + 1<<(c-0xd4), 0, nil
	case c >= 0xd9 && c <= 0xdb:
		width := 1 << (c - 0xd9)
		return 1 + uint64(width) + number(width), 0, nil
	case c == 0xdc || c == 0xdd:
		width := 2 << (c - 0xdc)
		return 1 + uint64(width), number(width), nil
	case c == 0xde || c == 0xdf:
		width := 2 << (c - 0xde)
		return 1 + uint64(width), 2 * number(width), nil
	}
	return 0, 0, fmt.Errorf("%w: code %#x", ErrMalformed, c)
}
