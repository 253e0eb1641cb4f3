package amqp

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Traffic is what went over a connection, without TLS's own overhead: octets, and reads or writes that carried them. Pending is
// how many octets the system holds that the peer has not acknowledged; 0 where it does not say.
type Traffic struct {
	Received, Reads uint64
	Sent, Writes    uint64
	Pending         uint64
}

// meter counts what a connection carries.
type meter struct {
	net.Conn
	received, reads, sent, writes atomic.Uint64
}

// Read implements net.Conn.
func (m *meter) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	if n > 0 {
		m.received.Add(uint64(n))
		m.reads.Add(1)
	}
	return n, err
}

// Write implements net.Conn.
func (m *meter) Write(b []byte) (int, error) {
	n, err := m.Conn.Write(b)
	if n > 0 {
		m.sent.Add(uint64(n))
		m.writes.Add(1)
	}
	return n, err
}

func (m *meter) traffic() Traffic {
	return Traffic{
		Received: m.received.Load(), Reads: m.reads.Load(), Sent: m.sent.Load(), Writes: m.writes.Load(), Pending: pending(m.Conn),
	}
}

func pending(nc net.Conn) uint64 {
	if tc, ok := nc.(*tls.Conn); ok {
		nc = tc.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	if raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }) != nil || err != nil || n < 0 {
		return 0 // it is closed, or no TCP
	}
	return uint64(n)
}
