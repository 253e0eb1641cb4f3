package amqp

import (
	"encoding/binary"
	"errors"
	"io"

	"warren/dataplane/message"
)

// States of a channel's content assembly.
const (
	wantMethod uint8 = iota
	wantHeader
	wantBody
	skipBody // too large: it is counted and thrown away
)

// assembly gathers a publish from its frames.
type assembly struct {
	state     uint8
	cmd       command
	remaining int64
	props     []byte // of the content whose body begins with the next frame
}

// read handles frames until the client closes the connection (errClosed) or it breaks. After a failure it discards all
// until close-ok.
func (c *conn) read() error {
	for {
		f, err := c.fr.next()
		if err == nil {
			err = c.frame(f)
		}
		if err == nil {
			continue
		}
		var e *Error
		if !errors.As(err, &e) {
			return err
		}
		c.fail(e)
		if e.Code == FrameError {
			c.timeout = 0
			c.drain() // until the linger timer cuts: frames can no longer be told apart
			return err
		}
	}
}

// frame handles one frame; an AMQP error closes the connection.
func (c *conn) frame(f frame) error {
	switch {
	case f.typ == frameHeartbeat:
		if _, err := c.fr.payload(f); err != nil {
			return err
		}
		if f.channel != 0 {
			return Errorf(UnexpectedFrame, "type 8, all octets = <<>>")
		}
		return nil
	case f.channel == 0:
		return c.control(f)
	case c.failed() != nil:
		_, err := c.fr.payload(f)
		return err
	}
	s := c.channels[f.channel]
	if s != nil && s.ch.ended.Load() {
		return c.endedFrame(f, s)
	}
	switch f.typ {
	case frameMethod:
		return c.methodFrame(f, s)
	case frameHeader:
		return c.headerFrame(f, s)
	}
	return c.bodyFrame(f, s)
}

// control handles channel 0.
func (c *conn) control(f frame) error {
	b, err := c.fr.payload(f)
	if err != nil {
		return err
	}
	if f.typ != frameMethod {
		return Errorf(UnexpectedFrame, "expected a method on channel 0")
	}
	m, err := c.decode(b)
	if err != nil {
		return err
	}
	failing := c.failed() != nil
	switch m := m.(type) {
	case *connectionClose:
		return errClosed
	case *connectionCloseOk:
		if failing {
			return io.EOF
		}
	case *connectionUpdateSecret:
		if failing {
			return nil
		}
		if err := c.updateSecret(m); err != nil {
			return err
		}
		c.w.waitRoom(c.stopping)
		c.w.send(&connectionUpdateSecretOk{}, false)
		return nil
	}
	if failing {
		return nil
	}
	return withMethod(Errorf(ChannelError, "unexpected method in connection state running"), m.id())
}

// updateSecret: a channel's error would have no channel to close, so a refusal closes the connection in any case.
func (c *conn) updateSecret(m *connectionUpdateSecret) error {
	err := c.session.UpdateSecret(c.ctx, m.NewSecret, m.Reason)
	if err == nil {
		return nil
	}
	e, internal := asError(err)
	if internal {
		c.log.Error("cannot update the secret", "err", err)
	}
	out := &Error{Code: e.Code, Text: e.Text}
	if !out.Hard() {
		out.Code = NotAllowed
	}
	return withMethod(out, m.id())
}

// decode decodes any method.
func (c *conn) decode(b []byte) (method, error) {
	d := decoder{b: b, names: &c.names}
	id := d.long()
	m := newMethod(id)
	if d.err != nil || m == nil {
		return nil, Errorf(FrameError, "cannot decode a method of class %d, id %d", id>>16, id&0xffff)
	}
	if m.decode(&d); d.err == nil && len(d.b) > 0 {
		d.fail(errTrailing)
	}
	if errors.Is(d.err, errNotUTF8) {
		return nil, Errorf(FrameError, "%v", d.err)
	}
	if d.err != nil {
		return nil, withMethod(Errorf(FrameError, "cannot decode %s: %v", m.name(), d.err), id)
	}
	return m, nil
}

var errTrailing = errors.New("octets follow the last field")

// endedFrame handles a frame on a channel for which channel.close is on its way to the client: only the client's
// close-ok, or a channel.close that crossed ours, counts.
func (c *conn) endedFrame(f frame, s *slot) error {
	b, err := c.fr.payload(f)
	if err != nil || f.typ != frameMethod {
		return err
	}
	d := decoder{b: b}
	switch d.long() {
	case idChannelClose:
		c.forget(f.channel, s)
		c.w.waitRoom(c.stopping)
		c.w.sendOn(f.channel, &channelCloseOk{})
	case idChannelCloseOk:
		c.forget(f.channel, s)
	}
	return nil
}

// forget makes the channel's number free.
func (c *conn) forget(number uint16, s *slot) {
	delete(c.channels, number)
	s.ch.out.shut() // if our channel.close is not queued yet, it must not meet the number's next user
	s.ch.in.close()
}

func (c *conn) methodFrame(f frame, s *slot) error {
	b, err := c.fr.payload(f)
	if err != nil {
		return err
	}
	if s == nil {
		return c.unopened(f, b)
	}
	a := &s.asm
	switch a.state {
	case wantHeader:
		return withMethod(Errorf(UnexpectedFrame, "expected content header for class 60, got non content header frame instead"), a.cmd.id)
	case wantBody, skipBody:
		return withMethod(Errorf(UnexpectedFrame, "expected content body, got non content body frame instead"), a.cmd.id)
	}
	d := decoder{b: b, names: &c.names}
	a.cmd = command{id: d.long()}
	switch a.cmd.id {
	case idBasicPublish:
		var m basicPublish
		m.decode(&d)
		a.cmd.mandatory, a.cmd.immediate = m.Mandatory, m.Immediate
		a.cmd.msg = message.Message{Exchange: m.Exchange, RoutingKey: m.RoutingKey}
		a.state = wantHeader
	case idBasicAck:
		var m basicAck
		m.decode(&d)
		a.cmd.tag, a.cmd.multiple = m.DeliveryTag, m.Multiple
	case idBasicNack:
		var m basicNack
		m.decode(&d)
		a.cmd.tag, a.cmd.multiple, a.cmd.requeue = m.DeliveryTag, m.Multiple, m.Requeue
	case idBasicReject:
		var m basicReject
		m.decode(&d)
		a.cmd.tag, a.cmd.requeue = m.DeliveryTag, m.Requeue
	default:
		return c.plainMethod(f, s, b)
	}
	if errors.Is(d.err, errNotUTF8) {
		return Errorf(FrameError, "%v", d.err)
	}
	if d.err != nil || len(d.b) > 0 {
		return withMethod(Errorf(FrameError, "cannot decode a method of class 60, id %d", a.cmd.id&0xffff), a.cmd.id)
	}
	if a.state == wantHeader {
		return nil
	}
	c.deliver(s)
	return nil
}

// plainMethod handles the methods that are not on the hot path.
func (c *conn) plainMethod(f frame, s *slot, b []byte) error {
	m, err := c.decode(b)
	if err != nil {
		return err
	}
	switch {
	case m.id() == idChannelOpen:
		return withMethod(Errorf(ChannelError, "second 'channel.open' seen"), m.id())
	case hasContent(m.id()):
		return withMethod(Errorf(CommandInvalid, "unimplemented method"), m.id())
	}
	s.asm.cmd.m = m
	c.deliver(s)
	if m.id() == idChannelClose {
		delete(c.channels, f.channel)
	}
	return nil
}

// unopened handles a method on a channel that is not open.
func (c *conn) unopened(f frame, b []byte) error {
	m, err := c.decode(b)
	if err != nil {
		return err
	}
	switch m.id() {
	case idChannelOpen:
	case idChannelCloseOk:
		return nil // ours had crossed the client's channel.close
	default:
		return withMethod(Errorf(ChannelError, "expected 'channel.open'"), m.id())
	}
	c.reap()
	c.w.waitRoom(c.stopping)
	if n := len(c.channels); n >= int(c.info.ChannelMax) {
		return Errorf(NotAllowed, "number of channels opened (%d) has reached the negotiated channel_max (%d)", n, c.info.ChannelMax)
	}
	c.channelID++
	ch := newChannel(c, ChannelInfo{Connection: c.info.ID, Number: f.channel, ID: c.channelID})
	c.channels[f.channel] = &slot{ch: ch}
	c.running = append(c.running, ch)
	go ch.run(c.ctx)
	return nil
}

// reap forgets channels whose goroutines have ended, now and then, so that it costs little per channel; and it waits if a
// client closes channels faster than they end.
func (c *conn) reap() {
	if len(c.running) < c.reapAt {
		return
	}
	for {
		kept := c.running[:0]
		for _, ch := range c.running {
			select {
			case <-ch.done:
			default:
				kept = append(kept, ch)
			}
		}
		clear(c.running[len(kept):])
		c.running = kept
		if ending := len(kept) - len(c.channels); ending <= int(c.info.ChannelMax) {
			c.reapAt = min(2*len(kept)+16, len(kept)+int(c.info.ChannelMax))
			return
		}
		select {
		case <-c.ended:
		case <-c.stopping:
			return
		}
	}
}

func (c *conn) headerFrame(f frame, s *slot) error {
	b, err := c.fr.payload(f)
	if err != nil {
		return err
	}
	if s == nil {
		return Errorf(ChannelError, "expected 'channel.open'")
	}
	a := &s.asm
	switch a.state {
	case wantMethod:
		return Errorf(UnexpectedFrame, "expected method frame, got non method frame instead")
	case wantBody, skipBody:
		return withMethod(Errorf(UnexpectedFrame, "expected content body, got non content body frame instead"), a.cmd.id)
	}
	if len(b) < headerFixed+2 {
		return withMethod(Errorf(FrameError, "a content header of %d octets", len(b)), a.cmd.id)
	}
	if class := binary.BigEndian.Uint16(b); class != basicClass {
		return withMethod(Errorf(UnexpectedFrame, "expected content header for class 60, got one for class %d instead", class), a.cmd.id)
	}
	size := binary.BigEndian.Uint64(b[4:])
	limit := uint64(c.srv.cfg.MaxMessageSize)
	if size > limit {
		s.ch.Fail(withMethod(Errorf(PreconditionFailed, "message size %d is larger than configured max size %d", size, limit), a.cmd.id))
		a.state, a.remaining = skipBody, int64(min(size, 1<<62))
		return nil
	}
	a.state, a.remaining = wantBody, int64(size)
	a.props = append(a.props[:0], b[headerFixed:]...)
	if size == 0 {
		a.allocate(0)
		c.publish(s)
	}
	return nil
}

// allocate makes memory for the properties and as much of the body as a frame of n octets justifies: a header alone must
// not make us allocate what the client may never send.
func (a *assembly) allocate(n int) {
	p := len(a.props)
	buf := make([]byte, p, p+int(min(a.remaining, 2*int64(n))))
	copy(buf, a.props)
	a.cmd.msg.Properties = buf[:p:p]
	a.cmd.msg.Body = buf[p:]
	if cap(a.props) > 4096 {
		a.props = nil
	}
}

// grow moves the message to a buffer in which the body has room for n octets, or twice that where as many are to come. The
// properties go along: they would keep the whole old buffer.
func (a *assembly) grow(n int) (body []byte) {
	m := &a.cmd.msg
	p := len(m.Properties)
	room := min(int64(len(m.Body))+a.remaining, int64(2*n))
	buf := make([]byte, p+len(m.Body), p+int(room))
	copy(buf, m.Properties)
	copy(buf[p:], m.Body)
	m.Properties, m.Body = buf[:p:p], buf[p:]
	return m.Body
}

func (c *conn) bodyFrame(f frame, s *slot) error {
	if s == nil || s.asm.state != wantBody {
		if _, err := c.fr.payload(f); err != nil {
			return err
		}
		return c.strayBody(f, s)
	}
	a := &s.asm
	if int64(f.size) > a.remaining {
		return withMethod(Errorf(FrameError, "the body is longer than its header says"), a.cmd.id)
	}
	if a.cmd.msg.Body == nil {
		a.allocate(int(f.size))
	}
	body := a.cmd.msg.Body
	n := len(body) + int(f.size)
	if n > cap(body) {
		body = a.grow(n)
	}
	if err := c.fr.into(f, body[len(body):n]); err != nil {
		return err
	}
	a.cmd.msg.Body = body[:n]
	if a.remaining -= int64(f.size); a.remaining == 0 {
		c.publish(s)
	}
	return nil
}

// strayBody handles a body frame that is not part of a content, or of one that is skipped.
func (c *conn) strayBody(f frame, s *slot) error {
	switch {
	case s == nil:
		return Errorf(ChannelError, "expected 'channel.open'")
	case s.asm.state == skipBody:
		if s.asm.remaining -= int64(f.size); s.asm.remaining <= 0 {
			s.asm.state = wantMethod
		}
		return nil
	case s.asm.state == wantHeader:
		return withMethod(Errorf(UnexpectedFrame, "expected content header for class 60, got non content header frame instead"), s.asm.cmd.id)
	}
	return Errorf(UnexpectedFrame, "expected method frame, got non method frame instead")
}

// publish hands a complete publish to its channel, after the wait that an alarm imposes.
func (c *conn) publish(s *slot) {
	s.asm.state = wantMethod
	for a := c.srv.alarm.Load(); a != nil && c.ctx.Err() == nil; a = c.srv.alarm.Load() {
		c.held.Store(true)
		if c.caps.connectionBlocked {
			c.w.send(&connectionBlocked{Reason: a.reason}, false)
		}
		select {
		case <-a.over:
			c.held.Store(false)
		case <-c.ctx.Done():
		}
		if c.caps.connectionBlocked && c.srv.alarm.Load() == nil {
			c.w.send(&connectionUnblocked{}, false)
		}
	}
	c.deliver(s)
}

// deliver puts the assembled command into its channel's inbox; while that is full, the client is not read.
func (c *conn) deliver(s *slot) {
	for !s.ch.in.offer(&s.asm.cmd) {
		select {
		case <-s.ch.in.room:
		case <-s.ch.done:
		case <-c.stopping:
			return
		}
	}
	s.asm.cmd = command{}
}
