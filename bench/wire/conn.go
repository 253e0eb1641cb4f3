package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	handshakeLimit = 10 * time.Second
	writeLimit     = 60 * time.Second // a broker that holds publishers back longer than this is taken for dead
	flushAt        = 64 << 10         // bytes gathered before they are written unasked
)

// Conn is a connection with one open channel. Its writing methods are for one goroutine, Next for one other.
type Conn struct {
	conn     net.Conn
	in       *reader
	out      []byte
	frameMax int
	closed   atomic.Bool

	delivery Event // that is being assembled
	left     int   // octets of its body that are still to come
	body     []byte
}

// CloseError is what the broker said when it closed the channel or the connection.
type CloseError struct {
	Code uint16
	Text string
}

func (e *CloseError) Error() string { return fmt.Sprintf("the broker closed: %d %s", e.Code, e.Text) }

// Dial connects to an amqp:// URI, authenticates (PLAIN) and opens a channel. Heartbeats are off: a measurement has its own
// limits of time.
func Dial(ctx context.Context, uri string) (*Conn, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "amqp" {
		return nil, fmt.Errorf("dial %q: not an amqp:// URI", uri)
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "5672")
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", host, err)
	}
	c := &Conn{conn: nc, in: newReader(nc)}
	deadline, _ := ctx.Deadline()
	err = nc.SetDeadline(deadline)
	if err == nil {
		err = c.handshake(u)
	}
	if err == nil {
		err = nc.SetDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a connection to %s: %w", host, err), nc.Close())
	}
	return c, nil
}

func (c *Conn) handshake(u *url.URL) error {
	user, password, vhost := "guest", "guest", "/"
	if u.User != nil {
		user = u.User.Username()
		password, _ = u.User.Password()
	}
	if v := strings.TrimPrefix(u.Path, "/"); v != "" {
		vhost = v
	}
	if _, err := c.conn.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return err
	}
	if _, err := c.wait(connectionStart); err != nil {
		return err
	}
	c.method(0, connectionStartOk, func(a *args) {
		var props args
		props.shortstr("capabilities")
		props.octet('F')
		props.boolTable("publisher_confirms", "basic.nack", "consumer_cancel_notify", "authentication_failure_close")
		a.longstr(string(props.b))
		a.shortstr("PLAIN")
		a.longstr("\x00" + user + "\x00" + password)
		a.shortstr("en_US")
	})
	if err := c.Flush(); err != nil {
		return err
	}
	tune, err := c.wait(connectionTune)
	if err != nil {
		return err
	}
	c.frameMax = int(binary.BigEndian.Uint32(tune[2:]))
	if c.frameMax == 0 || c.frameMax > maxFrame {
		c.frameMax = 128 << 10
	}
	c.method(0, connectionTuneOk, func(a *args) { a.short(1); a.long(uint32(c.frameMax)); a.short(0) })
	c.method(0, connectionOpen, func(a *args) { a.shortstr(vhost); a.shortstr(""); a.octet(0) })
	if err := c.Flush(); err != nil {
		return err
	}
	if _, err := c.wait(connectionOpenOk); err != nil {
		return err
	}
	return c.call(channelOpen, channelOpenOk, func(a *args) { a.shortstr("") })
}

func (c *Conn) method(channel uint16, id uint32, fill func(*args)) {
	c.out = methodFrame(c.out, channel, id, fill)
}

func (c *Conn) call(id, answer uint32, fill func(*args)) error {
	c.method(1, id, fill)
	if err := c.Flush(); err != nil {
		return err
	}
	_, err := c.wait(answer)
	return err
}

// wait reads until the method with that id arrives and gives its arguments. For the opening only: contents are an error.
func (c *Conn) wait(id uint32) ([]byte, error) {
	for {
		f, err := c.in.next()
		if err != nil {
			return nil, err
		}
		if f.kind == frameHeartbeat {
			continue
		}
		if f.kind != frameMethod || len(f.payload) < 4 {
			return nil, fmt.Errorf("a frame of type %d while waiting for method %d.%d", f.kind, id>>16, id&0xffff)
		}
		got := binary.BigEndian.Uint32(f.payload)
		if got == id {
			return f.payload[4:], nil
		}
		if err := closing(got, f.payload[4:]); err != nil {
			return nil, err
		}
	}
}

// closing is the error that a close method carries, nil for another method.
func closing(id uint32, args []byte) error {
	if id != connectionClose && id != channelClose {
		return nil
	}
	e := &CloseError{}
	if len(args) >= 3 && len(args) >= 3+int(args[2]) {
		e.Code, e.Text = binary.BigEndian.Uint16(args), string(args[3:3+int(args[2])])
	}
	return e
}

// Confirm asks for publisher confirms. Call it before the first Publish and before Next.
func (c *Conn) Confirm() error {
	if err := c.call(confirmSelect, confirmSelectOk, func(a *args) { a.octet(0) }); err != nil {
		return fmt.Errorf("confirm.select: %w", err)
	}
	return nil
}

// Consume starts a consumer. prefetch 0 is without limit, noAck is automatic acknowledgement. Call it before Next.
func (c *Conn) Consume(queue string, prefetch uint16, noAck bool) error {
	if prefetch > 0 {
		err := c.call(basicQos, basicQosOk, func(a *args) { a.long(0); a.short(prefetch); a.octet(0) })
		if err != nil {
			return fmt.Errorf("basic.qos %d: %w", prefetch, err)
		}
	}
	err := c.call(basicConsume, basicConsumeOk, func(a *args) {
		a.short(0)
		a.shortstr(queue)
		a.shortstr("bench")
		bits := uint8(0)
		if noAck {
			bits |= 2
		}
		a.octet(bits)
		a.long(0)
	})
	if err != nil {
		return fmt.Errorf("consume from %q: %w", queue, err)
	}
	return nil
}

// Ack acknowledges a delivery, or all up to it. It is written at the next Flush.
func (c *Conn) Ack(tag uint64, multiple bool) {
	start := len(c.out)
	b := openFrame(c.out, frameMethod, 1)
	b = binary.BigEndian.AppendUint32(b, basicAck)
	b = binary.BigEndian.AppendUint64(b, tag)
	if multiple {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	c.out = closeFrame(b, start)
}

// Pending is how many bytes wait for a Flush.
func (c *Conn) Pending() int { return len(c.out) }

// Full says that enough is gathered to be written now.
func (c *Conn) Full() bool { return len(c.out) >= flushAt }

// Flush writes what was gathered.
func (c *Conn) Flush() error {
	if len(c.out) == 0 {
		return nil
	}
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	_, err := c.conn.Write(c.out)
	c.out = c.out[:0]
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// Close closes the socket. Next then ends with an error.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	return c.conn.Close()
}

// Closed says whether Close was called on this side.
func (c *Conn) Closed() bool { return c.closed.Load() }
