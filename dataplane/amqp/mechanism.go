package amqp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
)

// The mechanisms of authentication.
const (
	plain    = "PLAIN"
	amqPlain = "AMQPLAIN"
	external = "EXTERNAL"
)

// handshakeTLS is TLS's own handshake, if the connection came through a TLS listener.
func (c *conn) handshakeTLS() error {
	tc, ok := c.nc.Conn.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.srv.cfg.TLSTimeout)
	defer cancel()
	err := tc.HandshakeContext(ctx)
	var plainText tls.RecordHeaderError
	switch {
	case errors.As(err, &plainText):
		return fmt.Errorf("%w: the client does not speak TLS, and this listener (%v) does: %w", errQuiet, c.info.Local, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: TLS handshake: not done after %v", errQuiet, c.srv.cfg.TLSTimeout)
	case err != nil:
		return fmt.Errorf("%w: TLS handshake: %w", errQuiet, err)
	}
	state := tc.ConnectionState()
	c.info.TLS = &state
	return nil
}

// mechanisms are those that this client is offered: EXTERNAL needs TLS.
func (c *conn) mechanisms() []string {
	all := c.srv.cfg.Mechanisms
	if c.info.TLS == nil {
		all = slices.DeleteFunc(slices.Clone(all), func(m string) bool { return m == external })
	}
	return all
}

// credentials reads what the client offers. The error is an *Error; AccessRefused if it is a refusal.
func (c *conn) credentials(ok *connectionStartOk) (cred Credentials, err error) {
	cred = Credentials{Mechanism: ok.Mechanism, Remote: c.nc.RemoteAddr()}
	if !slices.Contains(c.mechanisms(), ok.Mechanism) {
		return cred, Errorf(CommandInvalid, "unknown authentication mechanism '%s'", ok.Mechanism)
	}
	switch ok.Mechanism {
	case plain:
		cred.Username, cred.Password, err = parsePlain([]byte(ok.Response))
	case amqPlain:
		cred.Username, cred.Password, err = parseAMQPlain(ok.Response)
	default:
		cred.Username, err = c.certified()
	}
	return cred, err
}

// certified is the user that the client's certificate stands for.
func (c *conn) certified() (string, error) {
	peers := c.info.TLS.PeerCertificates
	if len(peers) == 0 || c.srv.cfg.CertUser == nil {
		return "", Errorf(AccessRefused, "connection peer presented no TLS (x.509) certificate")
	}
	name, err := c.srv.cfg.CertUser(peers[0])
	if err != nil {
		return "", Errorf(AccessRefused, "the client's certificate names no user: %v", err)
	}
	return name, nil
}
