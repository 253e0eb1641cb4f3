package amqp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

//go:generate go run ./internal/gen spec.txt spec_gen.go

// method is one AMQP method; spec_gen.go has them all.
type method interface {
	id() uint32
	name() string
	append(b []byte) []byte // class id, method id and arguments
	decode(d *decoder)      // the arguments
}

var (
	errShort   = errors.New("the data ends too early")
	errNotUTF8 = errors.New("Malformed UTF-8 in shortstr") //lint:ignore ST1005 RabbitMQ says it in these words
)

// maxDepth limits how deep tables and arrays may nest in what is decoded.
const maxDepth = 32

// decoder reads AMQP data types from a buffer. The first fault sticks: later reads give zero values.
type decoder struct {
	b     []byte
	err   error
	depth int
	names *interner // for short strings, which must be UTF-8 then, as in RabbitMQ's methods; nil: none
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

// take gives the next n octets, which alias the buffer.
func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail(errShort)
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) octet() uint8 {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) short() uint16 {
	if b := d.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) long() uint32 {
	if b := d.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) longlong() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) shortstr() string {
	b := d.take(uint64(d.octet()))
	if len(b) == 0 {
		return ""
	}
	if d.names != nil && !utf8.Valid(b) {
		d.fail(errNotUTF8)
		return ""
	}
	return d.names.get(b)
}

func (d *decoder) longstr() string { return string(d.take(uint64(d.long()))) }

func (d *decoder) table() Table {
	content := d.take(uint64(d.long()))
	if d.err != nil {
		return nil
	}
	if d.depth++; d.depth > maxDepth {
		d.fail(fmt.Errorf("tables nest deeper than %d", maxDepth))
		return nil
	}
	in := decoder{b: content, depth: d.depth}
	t := make(Table)
	for len(in.b) > 0 && in.err == nil {
		name := string(in.take(uint64(in.octet())))
		t[name] = in.value()
	}
	d.depth--
	if in.err != nil {
		d.fail(in.err)
		return nil
	}
	return t
}

func (d *decoder) array() []any {
	content := d.take(uint64(d.long()))
	if d.depth++; d.depth > maxDepth {
		d.fail(fmt.Errorf("arrays nest deeper than %d", maxDepth))
		return nil
	}
	in := decoder{b: content, depth: d.depth}
	a := []any{}
	for len(in.b) > 0 && in.err == nil {
		a = append(a, in.value())
	}
	d.depth--
	if in.err != nil {
		d.fail(in.err)
		return nil
	}
	return a
}

// value reads a tagged field value.
func (d *decoder) value() any {
	switch tag := d.octet(); tag {
	case 't':
		return d.octet() != 0
	case 'b':
		return int8(d.octet())
	case 'B':
		return d.octet()
	case 's':
		return int16(d.short())
	case 'u':
		return d.short()
	case 'I':
		return int32(d.long())
	case 'i':
		return d.long()
	case 'l':
		return int64(d.longlong())
	case 'L':
		return d.longlong()
	case 'f':
		return math.Float32frombits(d.long())
	case 'd':
		return math.Float64frombits(d.longlong())
	case 'D':
		return Decimal{Scale: d.octet(), Value: d.long()}
	case 'S':
		return d.longstr()
	case 'x':
		return append([]byte{}, d.take(uint64(d.long()))...)
	case 'T':
		return Timestamp(d.longlong())
	case 'A':
		return d.array()
	case 'F':
		return d.table()
	case 'V':
		return nil
	default:
		if d.err == nil {
			d.fail(fmt.Errorf("unknown field value type %q", tag))
		}
		return nil
	}
}

func appendShort(b []byte, v uint16) []byte    { return binary.BigEndian.AppendUint16(b, v) }
func appendLong(b []byte, v uint32) []byte     { return binary.BigEndian.AppendUint32(b, v) }
func appendLonglong(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// appendShortstr cuts at 255 octets, the most that the type can hold.
func appendShortstr(b []byte, s string) []byte {
	if len(s) > 255 {
		s = s[:255]
	}
	b = append(b, byte(len(s)))
	return append(b, s...)
}

func appendLongstr(b []byte, s string) []byte {
	b = appendLong(b, uint32(len(s)))
	return append(b, s...)
}

func packBits(bits ...bool) byte {
	var b byte
	for i, bit := range bits {
		if bit {
			b |= 1 << i
		}
	}
	return b
}

// maxNames is how many strings an interner holds before it starts anew.
const maxNames = 256

// interner gives equal octets the same string, so that names that come again and again (exchanges, routing keys) are
// allocated once. One user at a time.
type interner struct{ m map[string]string }

func (in *interner) get(b []byte) string {
	if in == nil {
		return string(b)
	}
	if s, ok := in.m[string(b)]; ok {
		return s
	}
	if in.m == nil || len(in.m) >= maxNames {
		in.m = make(map[string]string)
	}
	s := string(b)
	in.m[s] = s
	return s
}
