package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// ErrMalformed: the input is cut short, or holds another type than was asked for.
var ErrMalformed = errors.New("malformed msgpack")

// maxDepth bounds what Skip follows.
const maxDepth = 16

// Reader reads values one after the other. The zero value reads nothing; after an error every read gives a zero value.
type Reader struct {
	b   []byte
	off int
	err error
}

// NewReader reads b, which must not change as long as anything that was read from it is in use.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Err is the first error, or nil.
func (r *Reader) Err() error { return r.err }

// Len is how many bytes are left.
func (r *Reader) Len() int { return len(r.b) - r.off }

// Offset is how many bytes were read.
func (r *Reader) Offset() int { return r.off }

func (r *Reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s at byte %d of %d", ErrMalformed, what, r.off, len(r.b))
	}
}

// take gives the next n bytes, or nil after noting an error.
func (r *Reader) take(n uint64, what string) []byte {
	if r.err != nil {
		return nil
	}
	if n > uint64(r.Len()) {
		r.fail("too short for " + what)
		return nil
	}
	p := r.b[r.off : r.off+int(n) : r.off+int(n)]
	r.off += int(n)
	return p
}

func (r *Reader) lead(what string) (byte, bool) {
	p := r.take(1, what)
	if p == nil {
		return 0, false
	}
	return p[0], true
}

// number reads a big-endian number of n bytes.
func (r *Reader) number(n uint64, what string) uint64 {
	p := r.take(n, what)
	switch len(p) {
	case 1:
		return uint64(p[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(p))
	case 4:
		return uint64(binary.BigEndian.Uint32(p))
	case 8:
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

// Uint reads an integer that is not negative.
func (r *Reader) Uint() uint64 {
	c, ok := r.lead("an integer")
	switch {
	case !ok:
		return 0
	case c <= 0x7f:
		return uint64(c)
	case c >= 0xcc && c <= 0xcf:
		return r.number(1<<(c-0xcc), "an integer")
	}
	r.off--
	r.fail("not an unsigned integer")
	return 0
}

// Int reads an integer.
func (r *Reader) Int() int64 {
	if r.err != nil || r.Len() == 0 {
		r.fail("too short for an integer")
		return 0
	}
	switch c := r.b[r.off]; {
	case c >= 0xe0:
		r.off++
		return int64(int8(c))
	case c == 0xd0:
		r.off++
		return int64(int8(r.number(1, "an integer")))
	case c == 0xd1:
		r.off++
		return int64(int16(r.number(2, "an integer")))
	case c == 0xd2:
		r.off++
		return int64(int32(r.number(4, "an integer")))
	case c == 0xd3:
		r.off++
		return int64(r.number(8, "an integer"))
	}
	v := r.Uint()
	if v > 1<<63-1 {
		r.fail("integer too large")
		return 0
	}
	return int64(v)
}

// Bool reads a truth value.
func (r *Reader) Bool() bool {
	c, ok := r.lead("a boolean")
	if ok && c != 0xc2 && c != 0xc3 {
		r.off--
		r.fail("not a boolean")
	}
	return c == 0xc3
}

// Array reads an array's header. Each element takes at least one byte, so a count that exceeds what is left is an error.
func (r *Reader) Array() int {
	c, ok := r.lead("an array")
	var n uint64
	switch {
	case !ok:
		return 0
	case c&0xf0 == 0x90:
		n = uint64(c & 0x0f)
	case c == 0xdc || c == 0xdd:
		n = r.number(2<<(c-0xdc), "an array")
	default:
		r.off--
		r.fail("not an array")
		return 0
	}
	if n > uint64(r.Len()) {
		r.fail("array longer than its input")
		return 0
	}
	return int(n)
}

// Bytes reads a byte string; it aliases the input.
func (r *Reader) Bytes() []byte {
	c, ok := r.lead("a byte string")
	if !ok {
		return nil
	}
	if c < 0xc4 || c > 0xc6 {
		r.off--
		r.fail("not a byte string")
		return nil
	}
	return r.take(r.number(1<<(c-0xc4), "a byte string"), "a byte string")
}

// String reads a string; it aliases the input.
func (r *Reader) String() string {
	c, ok := r.lead("a string")
	if !ok {
		return ""
	}
	var n uint64
	switch {
	case c&0xe0 == 0xa0:
		n = uint64(c & 0x1f)
	case c >= 0xd9 && c <= 0xdb:
		n = r.number(1<<(c-0xd9), "a string")
	default:
		r.off--
		r.fail("not a string")
		return ""
	}
	p := r.take(n, "a string")
	return unsafe.String(unsafe.SliceData(p), len(p))
}

// SkipN skips the next n values, those of an array that this version does not know.
func (r *Reader) SkipN(n int) {
	for i := 0; i < n && r.err == nil; i++ {
		r.skip(0)
	}
}

// skip skips one value of any type.
func (r *Reader) skip(depth int) {
	if depth > maxDepth {
		r.fail("nested too deeply")
		return
	}
	c, ok := r.lead("a value")
	if !ok {
		return
	}
	switch {
	case c <= 0x7f, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3:
	case c&0xf0 == 0x80:
		r.skipMany(2*uint64(c&0x0f), depth)
	case c&0xf0 == 0x90:
		r.skipMany(uint64(c&0x0f), depth)
	case c&0xe0 == 0xa0:
		r.take(uint64(c&0x1f), "a string")
	case c >= 0xc4 && c <= 0xc6:
		r.take(r.number(1<<(c-0xc4), "a byte string"), "a byte string")
	case c >= 0xc7 && c <= 0xc9:
		r.take(r.number(1<<(c-0xc7), "an extension")+1, "an extension")
	case c == 0xca || c == 0xcb:
		r.take(4<<(c-0xca), "a float")
	case c >= 0xcc && c <= 0xcf:
		r.take(1<<(c-0xcc), "an integer")
	case c >= 0xd0 && c <= 0xd3:
		r.take(1<<(c-0xd0), "an integer")
	case c >= 0xd4 && c <= 0xd8:
		r.take(1<<(c-0xd4)+1, "an extension")
	case c >= 0xd9 && c <= 0xdb:
		r.take(r.number(1<<(c-0xd9), "a string"), "a string")
	case c == 0xdc || c == 0xdd:
		r.skipMany(r.number(2<<(c-0xdc), "an array"), depth)
	case c == 0xde || c == 0xdf:
		r.skipMany(2*r.number(2<<(c-0xde), "a map"), depth)
	default:
		r.off--
		r.fail("not a value")
	}
}

func (r *Reader) skipMany(n uint64, depth int) {
	for i := uint64(0); i < n && r.err == nil; i++ {
		r.skip(depth + 1)
	}
}
