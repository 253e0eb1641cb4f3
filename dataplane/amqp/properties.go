package amqp

import (
	"errors"
	"fmt"
	"strconv"
)

// Property flags of the basic class's content header (AMQP 0-9-1 sections 1.8 and 4.2.6.1).
const (
	PropContentType     uint16 = 1 << 15
	PropContentEncoding uint16 = 1 << 14
	PropHeaders         uint16 = 1 << 13
	PropDeliveryMode    uint16 = 1 << 12
	PropPriority        uint16 = 1 << 11
	PropCorrelationID   uint16 = 1 << 10
	PropReplyTo         uint16 = 1 << 9
	PropExpiration      uint16 = 1 << 8
	PropMessageID       uint16 = 1 << 7
	PropTimestamp       uint16 = 1 << 6
	PropType            uint16 = 1 << 5
	PropUserID          uint16 = 1 << 4
	PropAppID           uint16 = 1 << 3
	PropClusterID       uint16 = 1 << 2
)

// Properties are a message's properties, decoded. A field counts if its flag is in Present.
type Properties struct {
	Present         uint16
	ContentType     string
	ContentEncoding string
	Headers         Table
	DeliveryMode    uint8
	Priority        uint8
	CorrelationID   string
	ReplyTo         string
	Expiration      string
	MessageID       string
	Timestamp       Timestamp
	Type            string
	UserID          string
	AppID           string
	ClusterID       string
}

// Scan is what a broker looks at in every message. Slices alias the scanned octets.
type Scan struct {
	Present      uint16
	DeliveryMode uint8
	Priority     uint8
	Expiration   []byte
	UserID       []byte
	Headers      []byte // an encoded table with its length in front, for DecodeTable; its structure has been checked
}

var errFlags = errors.New("unknown property flags")

// ScanProperties reads property flags and list (message.Message.Properties) without allocating. It fails if they are not
// well formed to the last octet, headers included.
func ScanProperties(b []byte) (Scan, error) {
	d := decoder{b: b}
	s := Scan{Present: d.short()}
	if s.Present&3 != 0 {
		d.fail(errFlags)
	}
	for flag := PropContentType; flag >= PropClusterID && d.err == nil; flag >>= 1 {
		if s.Present&flag == 0 {
			continue
		}
		switch flag {
		case PropHeaders:
			before := d.b
			d.checkTable()
			s.Headers = before[:len(before)-len(d.b)]
		case PropDeliveryMode:
			s.DeliveryMode = d.octet()
		case PropPriority:
			s.Priority = d.octet()
		case PropTimestamp:
			d.take(8)
		case PropExpiration:
			s.Expiration = d.take(uint64(d.octet()))
		case PropUserID:
			s.UserID = d.take(uint64(d.octet()))
		default:
			d.take(uint64(d.octet()))
		}
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail(fmt.Errorf("%d octets follow the properties", len(d.b)))
	}
	if d.err != nil {
		return Scan{}, fmt.Errorf("read content properties: %w", d.err)
	}
	return s, nil
}

// checkTable skips a table and checks its structure.
func (d *decoder) checkTable() { d.checkNested(true) }

func (d *decoder) checkNested(named bool) {
	content := d.take(uint64(d.long()))
	if d.depth++; d.depth > maxDepth {
		d.fail(fmt.Errorf("tables nest deeper than %d", maxDepth))
		return
	}
	in := decoder{b: content, depth: d.depth}
	for len(in.b) > 0 && in.err == nil {
		if named {
			in.take(uint64(in.octet()))
		}
		in.checkValue()
	}
	d.depth--
	if in.err != nil {
		d.fail(in.err)
	}
}

func (d *decoder) checkValue() {
	switch tag := d.octet(); tag {
	case 't', 'b', 'B':
		d.take(1)
	case 's', 'u':
		d.take(2)
	case 'I', 'i', 'f':
		d.take(4)
	case 'D':
		d.take(5)
	case 'l', 'L', 'd', 'T':
		d.take(8)
	case 'S', 'x':
		d.take(uint64(d.long()))
	case 'A':
		d.checkNested(false)
	case 'F':
		d.checkNested(true)
	case 'V':
	default:
		if d.err == nil {
			d.fail(fmt.Errorf("unknown field value type %q", tag))
		}
	}
}

// maxExpiration is RabbitMQ's limit of an expiration in milliseconds (?MAX_EXPIRY_TIMER: ten years and a little).
const maxExpiration = 315360000000

// ParseExpiration reads the property expiration: a decimal number of milliseconds. The error is RabbitMQ's text.
func ParseExpiration(b []byte) (ms int64, err error) {
	digits := 0
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		digits = 1
	}
	end := digits
	for end < len(b) && b[end] >= '0' && b[end] <= '9' {
		end++
	}
	if end == digits {
		return 0, errors.New("no_integer")
	}
	if end < len(b) {
		return 0, fmt.Errorf("{leftover_string,%q}", b[end:])
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	switch {
	case b[0] == '-' && (err != nil || n != 0):
		return 0, fmt.Errorf("{value_negative,%s}", b)
	case err != nil || n > maxExpiration:
		return 0, fmt.Errorf("{value_too_large,%s}", b)
	}
	return n, nil
}

// strings gives the string field of each flag that has one, nil for the others.
func (p *Properties) stringField(flag uint16) *string {
	switch flag {
	case PropContentType:
		return &p.ContentType
	case PropContentEncoding:
		return &p.ContentEncoding
	case PropCorrelationID:
		return &p.CorrelationID
	case PropReplyTo:
		return &p.ReplyTo
	case PropExpiration:
		return &p.Expiration
	case PropMessageID:
		return &p.MessageID
	case PropType:
		return &p.Type
	case PropUserID:
		return &p.UserID
	case PropAppID:
		return &p.AppID
	case PropClusterID:
		return &p.ClusterID
	}
	return nil
}

// DecodeProperties decodes everything in message.Message.Properties.
func DecodeProperties(b []byte) (Properties, error) {
	d := decoder{b: b}
	p := Properties{Present: d.short()}
	if p.Present&3 != 0 {
		d.fail(errFlags)
	}
	for flag := PropContentType; flag >= PropClusterID && d.err == nil; flag >>= 1 {
		if p.Present&flag == 0 {
			continue
		}
		switch flag {
		case PropHeaders:
			p.Headers = d.table()
		case PropDeliveryMode:
			p.DeliveryMode = d.octet()
		case PropPriority:
			p.Priority = d.octet()
		case PropTimestamp:
			p.Timestamp = Timestamp(d.longlong())
		default:
			*p.stringField(flag) = d.shortstr()
		}
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail(fmt.Errorf("%d octets follow the properties", len(d.b)))
	}
	if d.err != nil {
		return Properties{}, fmt.Errorf("decode content properties: %w", d.err)
	}
	return p, nil
}

// AppendProperties encodes the fields that are Present, as DecodeProperties reads them.
func AppendProperties(b []byte, p Properties) ([]byte, error) {
	present := p.Present &^ 3
	b = appendShort(b, present)
	for flag := PropContentType; flag >= PropClusterID; flag >>= 1 {
		if present&flag == 0 {
			continue
		}
		switch flag {
		case PropHeaders:
			var err error
			if b, err = AppendTable(b, p.Headers); err != nil {
				return nil, fmt.Errorf("encode content properties: %w", err)
			}
		case PropDeliveryMode:
			b = append(b, p.DeliveryMode)
		case PropPriority:
			b = append(b, p.Priority)
		case PropTimestamp:
			b = appendLonglong(b, uint64(p.Timestamp))
		default:
			b = appendShortstr(b, *p.stringField(flag))
		}
	}
	return b, nil
}

// HeadersOf decodes only the headers of message.Message.Properties: nil if there are none.
func HeadersOf(properties []byte) (Table, error) {
	s, err := ScanProperties(properties)
	if err != nil || s.Headers == nil {
		return nil, err
	}
	return DecodeTable(s.Headers)
}
