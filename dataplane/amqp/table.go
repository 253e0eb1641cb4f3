package amqp

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Table is an AMQP field table as RabbitMQ encodes it. Values have these types, by tag:
//
//	t bool      b int8       B uint8     s int16    u uint16    I int32   i uint32   l int64
//	L uint64    f float32    d float64   D Decimal  S string    x []byte  T Timestamp
//	A []any     F Table      V nil
//
// For encoding int is taken as l.
type Table map[string]any

// Decimal is a field value of type D.
type Decimal struct {
	Scale uint8
	Value uint32
}

// Timestamp is a field value of type T: seconds since 1970.
type Timestamp uint64

// DecodeTable reads a table with its length in front, as AppendTable writes it. All of b must be used.
func DecodeTable(b []byte) (Table, error) {
	d := decoder{b: b}
	t := d.table()
	if d.err == nil && len(d.b) > 0 {
		d.fail(fmt.Errorf("%d octets follow the table", len(d.b)))
	}
	if d.err != nil {
		return nil, fmt.Errorf("decode a field table: %w", d.err)
	}
	return t, nil
}

// AppendTable encodes t, its length in front, keys in order. It fails on a value of a type that Table does not list, and
// on a name of more than 255 octets.
func AppendTable(b []byte, t Table) ([]byte, error) {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if len(name) > 255 {
			return nil, fmt.Errorf("encode a field table: a name of %d octets", len(name))
		}
		b = appendShortstr(b, name)
		var err error
		if b, err = appendValue(b, t[name]); err != nil {
			return nil, fmt.Errorf("encode field %q: %w", name, err)
		}
	}
	putLength(b, start)
	return b, nil
}

// putLength writes what follows the four octets at start into them.
func putLength(b []byte, start int) {
	appendLong(b[:start], uint32(len(b)-start-4))
}

// appendTable is for tables made by this package and for generated code; a value that cannot be encoded leaves it empty.
func appendTable(b []byte, t Table) []byte {
	out, err := AppendTable(b, t)
	if err != nil {
		return appendLong(b, 0)
	}
	return out
}

func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, 'V'), nil
	case bool:
		return append(b, 't', packBits(v)), nil
	case string:
		return appendLongstr(append(b, 'S'), v), nil
	case []byte:
		b = appendLong(append(b, 'x'), uint32(len(v)))
		return append(b, v...), nil
	case float32:
		return appendLong(append(b, 'f'), math.Float32bits(v)), nil
	case float64:
		return appendLonglong(append(b, 'd'), math.Float64bits(v)), nil
	case Decimal:
		return appendLong(append(b, 'D', v.Scale), v.Value), nil
	case Timestamp:
		return appendLonglong(append(b, 'T'), uint64(v)), nil
	case Table:
		return AppendTable(append(b, 'F'), v)
	case []any:
		b = append(b, 'A')
		start := len(b)
		b = append(b, 0, 0, 0, 0)
		for _, e := range v {
			var err error
			if b, err = appendValue(b, e); err != nil {
				return nil, err
			}
		}
		putLength(b, start)
		return b, nil
	}
	return appendInteger(b, v)
}

func appendInteger(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case int8:
		return append(b, 'b', byte(v)), nil
	case uint8:
		return append(b, 'B', v), nil
	case int16:
		return appendShort(append(b, 's'), uint16(v)), nil
	case uint16:
		return appendShort(append(b, 'u'), v), nil
	case int32:
		return appendLong(append(b, 'I'), uint32(v)), nil
	case uint32:
		return appendLong(append(b, 'i'), v), nil
	case int64:
		return appendLonglong(append(b, 'l'), uint64(v)), nil
	case uint64:
		return appendLonglong(append(b, 'L'), v), nil
	case int:
		return appendLonglong(append(b, 'l'), uint64(v)), nil
	}
	return nil, fmt.Errorf("a value of type %T has no AMQP form", v)
}
