package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind is what an Event is.
type Kind uint8

// Kinds of events.
const (
	Ack      Kind = iota + 1 // a confirm: Tag, Multiple
	Nack                     // a negative one
	Return                   // an unroutable message came back
	Delivery                 // Tag, Redelivered, Body
	Cancel                   // the broker cancelled the consumer
)

// Event is something that the broker sent.
type Event struct {
	Kind        Kind
	Tag         uint64
	Multiple    bool
	Redelivered bool
	Body        []byte // good until the next call of Next
}

var errContent = errors.New("a content that does not follow the protocol")

// Buffered says whether the next frame is here already, so that Next would not wait for the network.
func (c *Conn) Buffered() bool { return c.in.buffered() }

// Next waits for the next event. Error: the connection is gone, or the broker closed (CloseError).
func (c *Conn) Next() (Event, error) {
	for {
		f, err := c.in.next()
		if err != nil {
			return Event{}, fmt.Errorf("read: %w", err)
		}
		switch f.kind {
		case frameMethod:
			e, whole, err := c.onMethod(f.payload)
			if err != nil || whole {
				return e, err
			}
		case frameHeader:
			if len(f.payload) < 12 || c.delivery.Kind == 0 {
				return Event{}, errContent
			}
			c.left, c.body = int(binary.BigEndian.Uint64(f.payload[4:])), c.body[:0]
			if c.left == 0 {
				return c.content(nil), nil
			}
		case frameBody:
			if len(f.payload) > c.left {
				return Event{}, errContent
			}
			whole := len(c.body) == 0 && len(f.payload) == c.left
			if whole {
				c.left = 0
				return c.content(f.payload), nil
			}
			c.body = append(c.body, f.payload...)
			if c.left -= len(f.payload); c.left == 0 {
				return c.content(c.body), nil
			}
		case frameHeartbeat:
		default:
			return Event{}, fmt.Errorf("a frame of type %d", f.kind)
		}
	}
}

func (c *Conn) content(body []byte) Event {
	e := c.delivery
	e.Body = body
	c.delivery = Event{}
	return e
}

// onMethod gives the event that a method is, or begins one that a content follows.
func (c *Conn) onMethod(p []byte) (e Event, whole bool, err error) {
	if len(p) < 4 {
		return e, false, errContent
	}
	id, p := binary.BigEndian.Uint32(p), p[4:]
	switch id {
	case basicAck, basicNack:
		if len(p) < 9 {
			return e, false, errContent
		}
		e = Event{Kind: Ack, Tag: binary.BigEndian.Uint64(p), Multiple: p[8]&1 != 0}
		if id == basicNack {
			e.Kind = Nack
		}
		return e, true, nil
	case basicDeliver:
		n := 0
		if len(p) > 0 {
			n = 1 + int(p[0])
		}
		if len(p) < n+9 {
			return e, false, errContent
		}
		c.delivery = Event{Kind: Delivery, Tag: binary.BigEndian.Uint64(p[n:]), Redelivered: p[n+8]&1 != 0}
		return e, false, nil
	case basicReturn:
		c.delivery = Event{Kind: Return}
		return e, false, nil
	case basicCancel:
		return Event{Kind: Cancel}, true, nil
	case connectionBlocked, connectionUnblock, connectionCloseOk:
		return e, false, nil // blocked publishers see TCP's back-pressure, which is what is measured
	default:
		if err := closing(id, p); err != nil {
			return e, false, err
		}
		return e, false, fmt.Errorf("method %d.%d was not expected", id>>16, id&0xffff)
	}
}

// Template is a publish whose frames are made once; only the body's first bytes change from message to message.
type Template struct {
	frames []byte
	at     int // where the body's first byte is
	head   int // how many of the body's bytes are in the first frame
}

// Template makes the frames of a mandatory-free publish to the default exchange with a body of size bytes.
func (c *Conn) Template(queue string, size int, persistent bool) *Template {
	b := methodFrame(nil, 1, basicPublish, func(a *args) {
		a.short(0)
		a.shortstr("")
		a.shortstr(queue)
		a.octet(0)
	})
	start := len(b)
	b = openFrame(b, frameHeader, 1)
	a := args{b}
	a.short(60)
	a.short(0)
	a.longlong(uint64(size))
	if persistent {
		a.short(1 << 12) // delivery-mode
		a.octet(2)
	} else {
		a.short(0)
	}
	b = closeFrame(a.b, start)
	t := &Template{at: len(b) + 7}
	for left := size; left > 0; {
		n := min(left, c.frameMax-frameOverhead)
		if t.head == 0 {
			t.head = n
		}
		start := len(b)
		b = openFrame(b, frameBody, 1)
		for i := range n {
			b = append(b, byte(i))
		}
		b = closeFrame(b, start)
		left -= n
	}
	t.frames = b
	return t
}

// Publish gathers a message whose body begins with head; it is written at the next Flush. head is at most as long as the
// body's first frame.
func (c *Conn) Publish(t *Template, head []byte) {
	n := len(c.out)
	c.out = append(c.out, t.frames...)
	copy(c.out[n+t.at:n+t.at+t.head], head)
}
