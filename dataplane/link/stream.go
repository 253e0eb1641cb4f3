package link

import (
	"context"
	"net"
	"sync"
	"time"
)

// Stream is a net.Listener and a dialer for one protocol, the shape that raft.StreamLayer wants.
type Stream struct {
	t      *Transport
	proto  Proto
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// Stream serves proto with a Stream: Accept gets what peers dial. Connections that Accept does not take within
// HandshakeTimeout are closed.
func (t *Transport) Stream(proto Proto) *Stream {
	s := &Stream{t: t, proto: proto, conns: make(chan net.Conn), closed: make(chan struct{})}
	t.Handle(proto, s.offer)
	return s
}

func (s *Stream) offer(conn net.Conn) {
	timer := time.NewTimer(HandshakeTimeout)
	defer timer.Stop()
	select {
	case s.conns <- conn:
		return
	case <-timer.C:
	case <-s.closed:
	case <-s.t.ctx.Done():
	}
	_ = conn.Close()
}

// Accept waits for the next connection. After Close, of the Stream or of the Transport, it returns ErrClosed.
func (s *Stream) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
	case <-s.t.ctx.Done():
	}
	return nil, ErrClosed
}

// Close stops serving the protocol; the Transport's listener stays.
func (s *Stream) Close() error {
	s.once.Do(func() {
		s.t.Handle(s.proto, nil)
		close(s.closed)
	})
	return nil
}

// Addr is the Transport's address.
func (s *Stream) Addr() net.Addr { return s.t.Addr() }

// Dial connects to the same protocol at addr (host:port), handshakes included; errors as Transport.Dial.
func (s *Stream) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(s.t.ctx, timeout)
	defer cancel()
	return s.t.Dial(ctx, addr, s.proto)
}
