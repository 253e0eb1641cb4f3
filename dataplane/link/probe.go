package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// ProbeResult is what a connection attempt tells of a process (design/metadata.md, failure detection).
type ProbeResult uint8

// The results. The zero value is none of them.
const (
	// Alive: somebody listens there. A living process never closes its listener, paused or not.
	Alive ProbeResult = iota + 1
	// Refused: the host answered that nobody listens.
	Refused
	// Unreachable: no answer in time, or anything else.
	Unreachable
)

// String names the result for logs.
func (r ProbeResult) String() string {
	switch r {
	case Alive:
		return "alive"
	case Refused:
		return "refused"
	case Unreachable:
		return "unreachable"
	}
	return "unknown"
}

// Probe opens a TCP connection to addr (host:port) and closes it. The error says more unless the result is Alive. ctx
// bounds it, and so does HandshakeTimeout.
func (t *Transport) Probe(ctx context.Context, addr string) (ProbeResult, error) {
	return Probe(ctx, addr)
}

// Probe is Transport.Probe for those without a Transport.
func Probe(ctx context.Context, addr string) (ProbeResult, error) {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	switch {
	case err == nil:
		_ = conn.Close()
		return Alive, nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused, fmt.Errorf("link: probe %s: %w", addr, err)
	}
	return Unreachable, fmt.Errorf("link: probe %s: %w", addr, err)
}
