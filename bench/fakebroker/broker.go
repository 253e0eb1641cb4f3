package fakebroker

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Faults are what the broker does wrong. Numbers count publishes over all connections, from 1; 0 is never.
type Faults struct {
	Lose         int // is confirmed and dropped
	Double       int // is delivered twice
	Refuse       int // is answered with basic.nack
	ConfirmTwice int // is confirmed a second time
	ConfirmAhead int // at this publish the one after it is confirmed too
	HangUp       int // at this publish the connection is closed, before the confirm
	Silent       int // from this publish on nothing is confirmed
	Pause        int // at this publish the connection is not served for PauseFor
	PauseFor     time.Duration
}

// Broker is a running fake.
type Broker struct {
	URI string

	faults   Faults
	listener net.Listener
	conns    sync.WaitGroup

	mu        sync.Mutex
	published int
	queue     [][]byte
	consumers map[*client]bool
	open      map[net.Conn]bool
}

type client struct {
	b    *Broker
	conn net.Conn
	in   *bufio.Reader
	tag  uint64 // the newest publish
	sent uint64 // the newest delivery

	mu sync.Mutex // writes
}

// Start starts a broker, which the test's end stops.
func Start(t testing.TB, faults Faults) *Broker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &Broker{
		URI: "amqp://guest:guest@" + l.Addr().String(), faults: faults, listener: l,
		consumers: map[*client]bool{}, open: map[net.Conn]bool{},
	}
	b.conns.Go(b.accept)
	t.Cleanup(func() {
		_ = l.Close()
		b.mu.Lock()
		for c := range b.open {
			_ = c.Close()
		}
		b.mu.Unlock()
		b.conns.Wait()
	})
	return b
}

func (b *Broker) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		c := &client{b: b, conn: conn, in: bufio.NewReader(conn)}
		b.mu.Lock()
		b.open[conn] = true
		b.mu.Unlock()
		b.conns.Go(func() {
			c.serve()
			b.mu.Lock()
			delete(b.consumers, c)
			delete(b.open, conn)
			b.mu.Unlock()
			_ = conn.Close()
		})
	}
}

func (c *client) frame(kind byte, channel uint16, payload []byte) {
	out := append([]byte{kind, byte(channel >> 8), byte(channel)}, binary.BigEndian.AppendUint32(nil, uint32(len(payload)))...)
	out = append(append(out, payload...), 0xCE)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.conn.Write(out) // a client that is gone is seen by reading
}

func (c *client) method(channel uint16, class, id uint16, args ...byte) {
	p := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, class), id)
	c.frame(1, channel, append(p, args...))
}

func longlong(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

func (c *client) next() (kind byte, channel uint16, payload []byte, err error) {
	var head [7]byte
	if _, err = io.ReadFull(c.in, head[:]); err != nil {
		return 0, 0, nil, err
	}
	payload = make([]byte, binary.BigEndian.Uint32(head[3:])+1)
	_, err = io.ReadFull(c.in, payload)
	return head[0], binary.BigEndian.Uint16(head[1:]), payload[:len(payload)-1], err
}

func (c *client) serve() {
	var greeting [8]byte
	if _, err := io.ReadFull(c.in, greeting[:]); err != nil {
		return
	}
	c.method(0, 10, 10, append([]byte{0, 9, 0, 0, 0, 0}, "\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US"...)...)
	var body []byte
	left := uint64(0)
	for {
		kind, channel, p, err := c.next()
		if err != nil {
			return
		}
		switch {
		case kind == 1:
			if !c.onMethod(channel, binary.BigEndian.Uint16(p), binary.BigEndian.Uint16(p[2:]), p[4:]) {
				return
			}
		case kind == 2:
			left, body = binary.BigEndian.Uint64(p[4:]), nil
		case kind == 3:
			body = append(body, p...)
			if left -= uint64(len(p)); left == 0 && !c.onPublish(body) {
				return
			}
		}
	}
}

// onMethod answers; false ends the connection.
func (c *client) onMethod(channel, class, id uint16, args []byte) bool {
	switch [2]uint16{class, id} {
	case [2]uint16{10, 11}: // start-ok
		c.method(0, 10, 30, 0, 0, 0, 2, 0, 0, 0, 0) // tune: frames of 128 KiB
	case [2]uint16{10, 40}:
		c.method(0, 10, 41, 0)
	case [2]uint16{10, 50}:
		c.method(0, 10, 51)
		return false
	case [2]uint16{20, 10}:
		c.method(channel, 20, 11, 0, 0, 0, 0)
	case [2]uint16{20, 40}:
		c.method(channel, 20, 41)
	case [2]uint16{50, 10}: // queue.declare
		n := int(args[2])
		c.method(channel, 50, 11, append(append([]byte{byte(n)}, args[3:3+n]...), make([]byte, 8)...)...)
	case [2]uint16{50, 40}:
		c.method(channel, 50, 41, 0, 0, 0, 0)
	case [2]uint16{60, 10}:
		c.method(channel, 60, 11)
	case [2]uint16{60, 20}:
		c.method(channel, 60, 21, append([]byte{5}, "bench"...)...)
		c.b.consume(c)
	case [2]uint16{85, 10}:
		c.method(channel, 85, 11)
	}
	return true
}

func (b *Broker) consume(c *client) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.consumers[c] = true
	for _, body := range b.queue {
		c.deliver(body)
	}
	b.queue = nil
}

func (c *client) deliver(body []byte) {
	c.sent++
	args := append(append([]byte{5}, "bench"...), longlong(c.sent)...)
	c.method(1, 60, 60, append(args, 0, 0, 0)...)
	c.frame(2, 1, append(append([]byte{0, 60, 0, 0}, longlong(uint64(len(body)))...), 0, 0))
	c.frame(3, 1, body)
}

// onPublish takes a message; false ends the connection.
func (c *client) onPublish(body []byte) bool {
	b, f := c.b, c.b.faults
	b.mu.Lock()
	defer b.mu.Unlock()
	b.published++
	c.tag++
	n := b.published
	if n == f.HangUp {
		return false
	}
	if n == f.Pause {
		<-time.After(f.PauseFor)
	}
	if n != f.Lose && n != f.Refuse {
		b.put(body)
	}
	if n == f.Double {
		b.put(body)
	}
	switch {
	case f.Silent != 0 && n >= f.Silent:
		return true
	case n == f.Refuse:
		c.method(1, 60, 120, append(longlong(c.tag), 0)...)
		return true
	case n == f.ConfirmAhead:
		c.method(1, 60, 80, append(longlong(c.tag+1000), 1)...)
		return true
	}
	c.method(1, 60, 80, append(longlong(c.tag), 0)...)
	if n == f.ConfirmTwice {
		c.method(1, 60, 80, append(longlong(c.tag), 0)...)
	}
	return true
}

// Published is how many publishes came in.
func (b *Broker) Published() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.published
}

func (b *Broker) put(body []byte) {
	for c := range b.consumers {
		c.deliver(body)
		return
	}
	b.queue = append(b.queue, body)
}
