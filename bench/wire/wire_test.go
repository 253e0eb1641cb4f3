package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/iotest"
)

func stream(frames ...[]byte) *Conn {
	// One byte at a time: no frame may depend on arriving whole.
	c := &Conn{in: newReader(iotest.OneByteReader(bytes.NewReader(bytes.Join(frames, nil)))), frameMax: 64}
	return c
}

func method(id uint32, fill func(*args)) []byte { return methodFrame(nil, 1, id, fill) }

func raw(kind uint8, payload string) []byte {
	return closeFrame(append(openFrame(nil, kind, 1), payload...), 0)
}

func deliver(tag uint64) []byte {
	return method(basicDeliver, func(a *args) {
		a.shortstr("bench")
		a.longlong(tag)
		a.octet(1)
		a.shortstr("")
		a.shortstr("q")
	})
}

func header(size uint64) []byte {
	var a args
	a.short(60)
	a.short(0)
	a.longlong(size)
	a.short(0)
	return raw(frameHeader, string(a.b))
}

func TestNext(t *testing.T) {
	c := stream(
		method(basicAck, func(a *args) { a.longlong(7); a.octet(1) }),
		raw(frameHeartbeat, ""),
		deliver(1), header(5), raw(frameBody, "he"), raw(frameBody, "llo"),
		method(basicNack, func(a *args) { a.longlong(8); a.octet(0) }),
		deliver(2), header(0),
		method(basicReturn, nil), header(2), raw(frameBody, "xy"),
		method(channelClose, func(a *args) { a.short(404); a.shortstr("NOT_FOUND"); a.long(0) }),
	)
	for i, want := range []Event{
		{Kind: Ack, Tag: 7, Multiple: true},
		{Kind: Delivery, Tag: 1, Redelivered: true, Body: []byte("hello")},
		{Kind: Nack, Tag: 8},
		{Kind: Delivery, Tag: 2, Redelivered: true},
		{Kind: Return, Body: []byte("xy")},
	} {
		got, err := c.Next()
		if err != nil || got.Kind != want.Kind || got.Tag != want.Tag || got.Multiple != want.Multiple ||
			got.Redelivered != want.Redelivered || !bytes.Equal(got.Body, want.Body) {
			t.Fatalf("event %d is %+v, %v; want %+v", i, got, err, want)
		}
	}
	var closed *CloseError
	if _, err := c.Next(); !errors.As(err, &closed) || closed.Code != 404 || closed.Text != "NOT_FOUND" {
		t.Errorf("a close is %v", err)
	}
	if _, err := c.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
}

func TestBrokenFramesAreErrors(t *testing.T) {
	bad := raw(frameBody, "x")
	bad[len(bad)-1] = 0
	for name, b := range map[string][]byte{
		"no end octet":             bad,
		"too large":                {1, 0, 1, 0xff, 0, 0, 0},
		"a content out of nowhere": raw(frameBody, "x"),
		"an unknown type":          raw(9, ""),
		"an unknown method":        method(99<<16|1, nil),
		"a short ack":              method(basicAck, func(a *args) { a.octet(1) }),
	} {
		if e, err := stream(b).Next(); err == nil {
			t.Errorf("%s gives %+v", name, e)
		}
	}
}

// TestPublish reads back what is published: the frames of a body larger than frame-max and with its head changed.
func TestPublish(t *testing.T) {
	client, server := net.Pipe()
	c := &Conn{conn: client, in: newReader(client), frameMax: 64}
	tm := c.Template("q", 130, true)
	c.Publish(tm, []byte("first"))
	c.Publish(tm, []byte("again"))
	sent := make(chan error, 1)
	go func() { sent <- errors.Join(c.Flush(), client.Close()) }()
	r := newReader(server)
	for _, head := range []string{"first", "again"} {
		var body []byte
		for i := range 5 { // method, header, and bodies of 56, 56 and 18 bytes
			f, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			if f.kind == frameBody {
				body = append(body, f.payload...)
			} else if i > 1 {
				t.Errorf("frame %d has type %d", i, f.kind)
			}
		}
		if len(body) != 130 || string(body[:5]) != head || body[5] != 5 || body[56] != 0 {
			t.Errorf("body %q", body)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func BenchmarkPublish(b *testing.B) {
	c := &Conn{frameMax: 128 << 10}
	tm := c.Template("q", 1024, true)
	head := make([]byte, 24)
	b.ReportAllocs()
	for b.Loop() {
		c.Publish(tm, head)
		if c.Full() {
			c.out = c.out[:0]
		}
	}
}

func BenchmarkNextAck(b *testing.B) {
	one := method(basicAck, func(a *args) { a.longlong(7); a.octet(0) })
	block := bytes.Repeat(one, 4096)
	c := &Conn{in: newReader(&endless{block: block})}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

// endless repeats a block for ever.
type endless struct {
	block []byte
	at    int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.block[e.at:])
	e.at = (e.at + n) % len(e.block)
	return n, nil
}
