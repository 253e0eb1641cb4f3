package amqp

import (
	"bytes"
	"fmt"
)

// The headers CC and BCC hold further routing keys (RabbitMQ's sender-selected distribution). BCC stays in the properties while
// a message is in a queue, since a dead letter goes to those keys again, and is taken out on the way to a client.

var ccMark, bccMark = []byte("\x02CC"), []byte("\x03BCC")

// ExtraKeys are the routing keys that the headers of message.Message.Properties add. What has no such headers costs a search. The
// error is an *Error: a header of another type than an array; elements that are no strings are passed over, as in RabbitMQ.
func ExtraKeys(properties []byte) (cc, bcc []string, err error) {
	if !bytes.Contains(properties, ccMark) && !bytes.Contains(properties, bccMark) {
		return nil, nil, nil
	}
	headers, err := HeadersOf(properties)
	if err != nil {
		return nil, nil, err
	}
	if cc, err = keysIn(headers, "CC"); err == nil {
		bcc, err = keysIn(headers, "BCC")
	}
	return cc, bcc, err
}

func keysIn(headers Table, name string) (keys []string, err error) {
	v, ok := headers[name]
	if !ok {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, Errorf(PreconditionFailed, `invalid message: {unacceptable_type_in_header,"%s",%s}`, name, TypeName(v))
	}
	for _, e := range list {
		if key, ok := e.(string); ok {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// visible is what a client gets to see of properties: all but BCC.
func visible(properties []byte) []byte {
	if !bytes.Contains(properties, bccMark) {
		return properties
	}
	p, err := DecodeProperties(properties)
	if err != nil || p.Headers["BCC"] == nil {
		return properties
	}
	delete(p.Headers, "BCC")
	if len(p.Headers) == 0 {
		p.Present &^= PropHeaders
	}
	b, err := AppendProperties(nil, p)
	if err != nil {
		return properties // what was decoded can be encoded
	}
	return b
}

// TypeName is RabbitMQ's name for the type of a field value.
func TypeName(v any) string {
	switch v.(type) {
	case nil:
		return "void"
	case string:
		return "longstr"
	case bool:
		return "bool"
	case int8:
		return "byte"
	case uint8:
		return "unsignedbyte"
	case int16:
		return "short"
	case uint16:
		return "unsignedshort"
	case int32:
		return "signedint"
	case uint32:
		return "unsignedint"
	case int64:
		return "long"
	case float32:
		return "float"
	case float64:
		return "double"
	case []byte:
		return "binary"
	case []any:
		return "array"
	case Table:
		return "table"
	case Timestamp:
		return "timestamp"
	case Decimal:
		return "decimal"
	}
	return fmt.Sprintf("%T", v)
}
