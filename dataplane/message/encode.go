package message

import (
	"errors"
	"fmt"

	"warren/dataplane/message/wire"
)

// Version of the encoding. A reader takes any version that only adds fields behind those it knows; a change that does not
// get a new number and a feature flag (design/upgrades.md).
const Version = 1

// ErrVersion: the message was written by a version whose encoding this one does not know.
var ErrVersion = errors.New("unknown message version")

const (
	fields         = 8
	flagPersistent = 1
)

// Append adds m to b as a msgpack array
//
//	[version, flags (1: persistent), priority, expiry, exchange, routing key, properties, body]
//
// of which all but properties and body take 8 bytes and the two names for most messages. Decode reads it.
func Append(b []byte, m *Message) []byte {
	b = wire.AppendArray(b, fields)
	b = wire.AppendUint(b, Version)
	var flags uint64
	if m.Persistent {
		flags |= flagPersistent
	}
	b = wire.AppendUint(b, flags)
	b = wire.AppendUint(b, uint64(m.Priority))
	b = wire.AppendInt(b, m.Expiry)
	b = wire.AppendString(b, m.Exchange)
	b = wire.AppendString(b, m.RoutingKey)
	b = wire.AppendBytes(b, m.Properties)
	return wire.AppendBytes(b, m.Body)
}

// Size is at least what Append adds for m, for a buffer of the right size.
func Size(m *Message) int {
	return 40 + len(m.Exchange) + len(m.RoutingKey) + len(m.Properties) + len(m.Body)
}

// Decode reads a message from r. Its slices and strings alias the input of r, which must not change while the message is
// in use. Fields of a newer version are skipped.
func Decode(r *wire.Reader) (Message, error) {
	n := r.Array()
	v := r.Uint()
	if r.Err() == nil && (v != Version || n < fields) {
		return Message{}, fmt.Errorf("%w: %d with %d fields", ErrVersion, v, n)
	}
	flags := r.Uint()
	m := Message{
		Persistent: flags&flagPersistent != 0,
		Priority:   uint8(r.Uint()),
		Expiry:     r.Int(),
		Exchange:   r.String(),
		RoutingKey: r.String(),
		Properties: r.Bytes(),
		Body:       r.Bytes(),
	}
	r.SkipN(n - fields)
	if err := r.Err(); err != nil {
		return Message{}, fmt.Errorf("decode message: %w", err)
	}
	return m, nil
}

// Parse reads a message that is all of b (see Decode).
func Parse(b []byte) (Message, error) {
	r := wire.NewReader(b)
	m, err := Decode(&r)
	if err == nil && r.Len() != 0 {
		err = fmt.Errorf("decode message: %w: %d bytes behind it", wire.ErrMalformed, r.Len())
	}
	return m, err
}
