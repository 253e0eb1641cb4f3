package amqp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// errQuiet ends a connection without connection.close: nobody would understand it.
var errQuiet = errors.New("closed without an answer")

// handshake runs from the protocol header to connection.open-ok (AMQP 0-9-1 section 2.2.4). All of it has one limit in time.
func (c *conn) handshake() error {
	cfg := &c.srv.cfg
	if err := c.handshakeTLS(); err != nil {
		return err
	}
	if err := c.nc.SetDeadline(time.Now().Add(cfg.HandshakeTimeout)); err != nil {
		return fmt.Errorf("set the handshake's limit: %w", err)
	}
	if c.failed() != nil { // its deadline was just overwritten
		return c.failed()
	}
	var header [8]byte
	if _, err := io.ReadFull(c.fr.br, header[:]); err != nil {
		return fmt.Errorf("read the protocol header: %w: %w", errQuiet, err)
	}
	if string(header[:]) != protocolHeader {
		_, _ = io.WriteString(c.nc, protocolHeader)                 // the connection ends in any case
		if header[0] == 22 && header[1] == 3 && c.info.TLS == nil { // a TLS record: a handshake, version 3.x (RFC 8446, section 5.1)
			return fmt.Errorf("%w: the client speaks TLS, and this listener (%v) does not: listeners.ssl does", errQuiet, c.info.Local)
		}
		return fmt.Errorf("%w: not AMQP 0-9-1: the client began with %q", errQuiet, header[:])
	}
	start := &connectionStart{VersionMajor: 0, VersionMinor: 9, ServerProperties: c.serverProperties(),
		Mechanisms: strings.Join(c.mechanisms(), " "), Locales: "en_US"}
	if err := c.write(start); err != nil {
		return err
	}
	if err := c.authenticate(); err != nil {
		return err
	}
	if err := c.tune(); err != nil {
		return err
	}
	if err := c.openVHost(); err != nil {
		return err
	}
	if err := c.write(&connectionOpenOk{}); err != nil {
		c.closeSession()
		return err
	}
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		c.closeSession()
		return fmt.Errorf("lift the handshake's limit: %w", err)
	}
	return c.started()
}

// started hands the sending side over to the writer, unless a failure came first.
func (c *conn) started() error {
	c.timeout = 2 * time.Duration(c.info.HeartbeatSeconds) * time.Second
	c.mu.Lock()
	failure := c.failure
	if failure == nil {
		c.w = newWriter(c.nc, c.info.FrameMax, &c.srv.bufs, func() { c.cancel(errGone) })
		c.open.Store(true)
	}
	c.mu.Unlock()
	if failure != nil {
		c.closeSession()
		return failure
	}
	return nil
}

func (c *conn) closeSession() {
	ctx, cancel := context.WithTimeout(context.Background(), c.srv.cfg.CloseTimeout)
	defer cancel()
	c.session.Close(ctx)
}

func (c *conn) write(m method) error {
	if _, err := c.nc.Write(appendMethodFrame(nil, 0, m)); err != nil {
		return fmt.Errorf("send %s: %w", m.name(), err)
	}
	return nil
}

// receive reads the next method of the handshake, which must be one of want's kind; m is decoded into it.
func (c *conn) receive(want method, state string) error {
	for {
		f, err := c.fr.next()
		if err != nil {
			return err
		}
		b, err := c.fr.payload(f)
		if err != nil {
			return err
		}
		if f.typ == frameHeartbeat {
			continue
		}
		if f.channel != 0 || f.typ != frameMethod {
			return Errorf(UnexpectedFrame, "expected a method on channel 0 in connection state %s", state)
		}
		d := decoder{b: b}
		switch id := d.long(); {
		case d.err != nil:
			return Errorf(FrameError, "cannot decode a method: %v", d.err)
		case id == idConnectionClose:
			_ = c.write(&connectionCloseOk{}) // the connection ends in any case
			return fmt.Errorf("%w: closed by the client", errQuiet)
		case id != want.id():
			return Errorf(ChannelError, "unexpected method in connection state %s", state)
		}
		if want.decode(&d); d.err != nil || len(d.b) > 0 {
			return Errorf(FrameError, "cannot decode %s", want.name())
		}
		return nil
	}
}

func (c *conn) serverProperties() Table {
	caps := Table{}
	for _, name := range append([]string{"publisher_confirms", "exchange_exchange_bindings", "basic.nack",
		"consumer_cancel_notify", "connection.blocked", "authentication_failure_close", "per_consumer_qos"}, c.srv.cfg.Capabilities...) {
		caps[name] = true
	}
	p := Table{"product": "Warren", "version": c.srv.cfg.Version, "platform": "Go " + strings.TrimPrefix(runtime.Version(), "go"),
		"information": "Speaks AMQP 0-9-1", "copyright": "The authors of Warren; Apache License 2.0", "capabilities": caps}
	if name := c.srv.cfg.ClusterName; name != "" {
		p["cluster_name"] = name
	}
	return p
}

func (c *conn) authenticate() error {
	var ok connectionStartOk
	if err := c.receive(&ok, "starting"); err != nil {
		return err
	}
	caps, _ := ok.ClientProperties["capabilities"].(Table)
	has := func(name string) bool { v, _ := caps[name].(bool); return v }
	c.caps = capabilities{has("consumer_cancel_notify"), has("connection.blocked"), has("authentication_failure_close")}
	c.info.ClientProperties, c.info.Mechanism = ok.ClientProperties, ok.Mechanism
	cred, err := c.credentials(&ok)
	if err == nil {
		c.info.User, err = c.srv.backend.Authenticate(c.ctx, cred)
	}
	if err == nil {
		return nil
	}
	c.log.Warn("login refused", "user", cred.Username, "mechanism", ok.Mechanism, "err", err)
	if e, internal := asError(err); internal || e.Code != AccessRefused {
		return e
	}
	if !c.caps.authenticationFailure {
		return fmt.Errorf("%w: login refused", errQuiet)
	}
	return Errorf(AccessRefused, "Login was refused using authentication mechanism %s. For details see the broker logfile.", ok.Mechanism)
}

// parsePlain reads a PLAIN response (RFC 4616); an authorisation identity is ignored, as RabbitMQ does.
func parsePlain(b []byte) (user, password string, err error) {
	parts := bytes.Split(b, []byte{0})
	if len(parts) != 3 {
		return "", "", Errorf(SyntaxError, "response of mechanism PLAIN invalid")
	}
	return string(parts[1]), string(parts[2]), nil
}

// parseAMQPlain reads an AMQPLAIN response: a field table without its length.
func parseAMQPlain(response string) (user, password string, err error) {
	t, err := DecodeTable(appendLongstr(nil, response))
	if err != nil {
		return "", "", Errorf(SyntaxError, "response of mechanism AMQPLAIN invalid")
	}
	user, okUser := t["LOGIN"].(string)
	password, okPassword := t["PASSWORD"].(string)
	if !okUser || !okPassword {
		return "", "", Errorf(SyntaxError, "AMQPLAIN auth info lacks LOGIN or PASSWORD")
	}
	return user, password, nil
}

func (c *conn) tune() error {
	cfg := &c.srv.cfg
	offer := connectionTune{ChannelMax: cfg.ChannelMax, FrameMax: cfg.FrameMax, Heartbeat: uint16(max(0, cfg.Heartbeat/time.Second))}
	if err := c.write(&offer); err != nil {
		return err
	}
	var ok connectionTuneOk
	if err := c.receive(&ok, "tuning"); err != nil {
		return err
	}
	if ok.FrameMax != 0 && ok.FrameMax < frameMinSize {
		return Errorf(NotAllowed, "negotiated frame_max = %d is lower than the minimum allowed value (%d)", ok.FrameMax, frameMinSize)
	}
	if err := negotiated("frame_max", ok.FrameMax, cfg.FrameMax); err != nil {
		return err
	}
	if err := negotiated("channel_max", uint32(ok.ChannelMax), uint32(cfg.ChannelMax)); err != nil {
		return err
	}
	c.info.FrameMax, c.info.ChannelMax, c.info.HeartbeatSeconds = ok.FrameMax, ok.ChannelMax, ok.Heartbeat
	c.fr.max = ok.FrameMax
	return nil
}

// negotiated refuses more than was offered; 0 is "no limit", and so more.
func negotiated(field string, client, server uint32) error {
	switch {
	case client == 0:
		return Errorf(NotAllowed, "negotiated %s = 0 (no limit) is higher than the maximum allowed value (%d)", field, server)
	case client > server:
		return Errorf(NotAllowed, "negotiated %s = %d is higher than the maximum allowed value (%d)", field, client, server)
	}
	return nil
}

func (c *conn) openVHost() error {
	var open connectionOpen
	if err := c.receive(&open, "opening"); err != nil {
		return err
	}
	c.info.VHost = open.VirtualHost
	session, err := c.srv.backend.Open(c.ctx, c.info)
	if err != nil {
		e, internal := asError(err)
		if internal {
			c.log.Error("cannot open the vhost", "vhost", open.VirtualHost, "err", err)
		}
		return withMethod(e, idConnectionOpen)
	}
	c.session = session
	return nil
}

// refuse ends a connection whose handshake failed: with connection.close if the client can be expected to understand it.
func (c *conn) refuse(err error) {
	if failure := c.failed(); failure != nil {
		err = failure
	}
	c.log.Warn("handshake failed", "err", err)
	var e *Error
	if !errors.As(err, &e) {
		return
	}
	c.timeout = 0
	_ = c.nc.SetDeadline(time.Now().Add(c.srv.cfg.CloseTimeout)) // if this fails, so does the write
	if c.write(closeMethod(e)) == nil {
		c.drain()
	}
}

// drain reads until close-ok or the end: unread octets at the close would reset the connection, and that could destroy what
// was sent last. The caller has set a limit.
func (c *conn) drain() {
	for {
		f, err := c.fr.next()
		var b []byte
		if err == nil {
			b, err = c.fr.payload(f)
		}
		if err != nil {
			var e *Error
			if errors.As(err, &e) { // no more frames, only octets
				_, _ = io.Copy(io.Discard, c.fr.br) // how it ends does not matter
			}
			return
		}
		d := decoder{b: b}
		if f.typ == frameMethod && f.channel == 0 && d.long() == idConnectionCloseOk {
			return
		}
	}
}
