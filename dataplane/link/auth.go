package link

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	authVersion = 1
	authLabel   = "warren-auth-1\x00"
	nonceSize   = 32
	macSize     = sha256.Size

	// recordTLS is the first byte of a TLS connection: somebody speaks TLS to a listener without.
	recordTLS = 0x16
)

const (
	statusOK = iota
	statusCookie
	statusProto
	statusVersion
	statusBusy
)

func statusError(s byte) error {
	switch s {
	case statusOK:
		return nil
	case statusCookie:
		return ErrCookie
	case statusProto:
		return ErrProtoUnknown
	case statusVersion:
		return ErrAuthVersion
	case statusBusy:
		return ErrBusy
	}
	return fmt.Errorf("%w: status %d", ErrHandshake, s)
}

func proof(cookie []byte, role string, proto Proto, nonceC, nonceS []byte) []byte {
	h := hmac.New(sha256.New, cookie)
	h.Write([]byte(authLabel))
	h.Write([]byte(role))
	h.Write([]byte{byte(proto)})
	h.Write(nonceC)
	h.Write(nonceS)
	return h.Sum(nil)
}

// clientAuth proves the cookie to a server and has the server prove it, for one protocol.
func clientAuth(rw io.ReadWriter, proto Proto, cookie []byte) error {
	hello := make([]byte, 2+nonceSize)
	hello[0], hello[1] = byte(proto), authVersion
	nonceC := hello[2:]
	if _, err := rand.Read(nonceC); err != nil {
		return fmt.Errorf("link: random nonce: %w", err)
	}
	if _, err := rw.Write(hello); err != nil {
		return fmt.Errorf("link: send the challenge: %w", err)
	}
	answer := make([]byte, 2+nonceSize)
	if _, err := io.ReadFull(rw, answer); err != nil {
		return fmt.Errorf("link: read the challenge: %w", err)
	}
	if answer[0] != authVersion {
		return fmt.Errorf("%w: the other side answers %d, this one speaks %d", ErrAuthVersion, answer[0], authVersion)
	}
	if err := statusError(answer[1]); err != nil {
		return err
	}
	nonceS := answer[2:]
	if _, err := rw.Write(proof(cookie, "client", proto, nonceC, nonceS)); err != nil {
		return fmt.Errorf("link: send the proof: %w", err)
	}
	verdict := make([]byte, 1+macSize)
	if _, err := io.ReadFull(rw, verdict); err != nil {
		return fmt.Errorf("link: read the proof: %w", err)
	}
	if err := statusError(verdict[0]); err != nil {
		return err
	}
	if !hmac.Equal(verdict[1:], proof(cookie, "server", proto, nonceC, nonceS)) {
		return ErrCookie
	}
	return nil
}

// serverAuth is the other half; served says whether a protocol has a handler. It returns the protocol.
func serverAuth(rw io.ReadWriter, cookie []byte, served func(Proto) bool) (Proto, error) {
	var first [1]byte
	if _, err := io.ReadFull(rw, first[:]); err != nil {
		return 0, fmt.Errorf("link: read the protocol: %w", err)
	}
	proto := Proto(first[0])
	if proto == recordTLS {
		return proto, fmt.Errorf("%w: the other side speaks TLS, this listener does not", ErrHandshake)
	}
	rest := make([]byte, 1+nonceSize)
	if _, err := io.ReadFull(rw, rest); err != nil {
		return proto, fmt.Errorf("link: read the challenge: %w", err)
	}
	nonceC := rest[1:]
	answer := make([]byte, 2+nonceSize)
	answer[0] = authVersion
	switch {
	case rest[0] != authVersion:
		answer[1] = statusVersion
	case !served(proto):
		answer[1] = statusProto
	}
	nonceS := answer[2:]
	if _, err := rand.Read(nonceS); err != nil {
		return proto, fmt.Errorf("link: random nonce: %w", err)
	}
	if _, err := rw.Write(answer); err != nil {
		return proto, fmt.Errorf("link: send the challenge: %w", err)
	}
	if err := statusError(answer[1]); err != nil {
		return proto, err
	}
	got := make([]byte, macSize)
	if _, err := io.ReadFull(rw, got); err != nil {
		return proto, fmt.Errorf("link: read the proof: %w", err)
	}
	verdict := make([]byte, 1+macSize)
	if !hmac.Equal(got, proof(cookie, "client", proto, nonceC, nonceS)) {
		verdict[0] = statusCookie
		_, err := rw.Write(verdict)
		return proto, errors.Join(ErrCookie, err)
	}
	copy(verdict[1:], proof(cookie, "server", proto, nonceC, nonceS))
	if _, err := rw.Write(verdict); err != nil {
		return proto, fmt.Errorf("link: send the proof: %w", err)
	}
	return proto, nil
}

// DialAuthenticated connects to the inter-node listener at addr (host:port) and does the cookie handshake for one
// protocol; tlsConf nil means without TLS. It is what a tool uses that has no Transport. The connection returned has no
// deadline. ctx and HandshakeTimeout bound the call. Errors: ErrCookie, ErrProtoUnknown, ErrAuthVersion, ErrBusy,
// ErrHandshake, or the network's.
func DialAuthenticated(ctx context.Context, addr string, proto Proto, cookie []byte, tlsConf *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, HandshakeTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("link: connect to %s: %w", addr, err)
	}
	conn, err = authenticate(ctx, conn, addr, proto, cookie, tlsConf)
	if err != nil {
		return nil, fmt.Errorf("link: protocol %q at %s: %w", byte(proto), addr, err)
	}
	return conn, nil
}

// authenticate does the client's handshakes on conn and closes it when they fail. ctx must have a deadline.
func authenticate(ctx context.Context, conn net.Conn, addr string, proto Proto, cookie []byte, tlsConf *tls.Config) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	raw := conn
	if tlsConf != nil {
		if tlsConf.ServerName == "" && !tlsConf.InsecureSkipVerify {
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				host = addr
			}
			tlsConf = tlsConf.Clone()
			tlsConf.ServerName = host
		}
		conn = tls.Client(conn, tlsConf)
	}
	err := clientAuth(conn, proto, cookie)
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}
