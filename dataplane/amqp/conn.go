package amqp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// readSize is the reader's buffer: small, since there may be very many connections that say little.
const readSize = 8 << 10

// errClosed: the client sent connection.close.
var errClosed = errors.New("closed by the client")

// conn is one connection. Its goroutine, serve, does the handshake and then reads.
type conn struct {
	srv     *Server
	nc      *meter
	log     *slog.Logger
	info    ConnectionInfo // complete once open is set
	open    atomic.Bool
	fr      frameReader
	names   interner
	caps    capabilities
	session Session
	w       *writer
	ended   chan struct{}   // signalled when a channel's goroutine ends
	ctx     context.Context // ends when the connection is gone or failing
	cancel  context.CancelCauseFunc

	// Of serve alone.
	channels  map[uint16]*slot
	running   []*channel // whose goroutine may still run
	reapAt    int        // how long running may become before it is cleaned up
	channelID uint64
	timeout   time.Duration // for a read, 0: none

	began time.Time
	held  atomic.Bool // it published while publishers are blocked

	mu       sync.Mutex
	present  map[*channel]struct{} // open channels
	failure  *Error                // why we close it
	stopping chan struct{}         // closed with failure
	linger   *time.Timer           // cuts the connection if close-ok does not come
}

// slot is what the reader knows of a channel number.
type slot struct {
	ch  *channel
	asm assembly
}

// capabilities that the client announced and that matter here.
type capabilities struct {
	consumerCancelNotify  bool
	connectionBlocked     bool
	authenticationFailure bool
}

func newConn(s *Server, nc net.Conn, id uint64) *conn {
	c := &conn{srv: s, nc: &meter{Conn: nc}, channels: make(map[uint16]*slot), stopping: make(chan struct{}), began: time.Now(),
		ended: make(chan struct{}, 1)}
	c.log = s.cfg.Logger.With("connection", id, "remote", nc.RemoteAddr().String())
	c.info = ConnectionInfo{ID: id, Remote: nc.RemoteAddr(), Local: nc.LocalAddr()}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// Read feeds the frame reader; it limits the wait for the peer, but not the time in which the reader is held back.
func (c *conn) Read(b []byte) (int, error) {
	if c.timeout > 0 {
		if err := c.nc.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
			return 0, err
		}
	}
	return c.nc.Read(b)
}

// fail closes the connection with an exception: the client is told, channels end, and the reader discards what comes until
// close-ok. The first failure counts. It may be called from any goroutine and does not wait.
func (c *conn) fail(e *Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return
	}
	c.failure = e
	close(c.stopping)
	c.linger = time.AfterFunc(c.srv.cfg.CloseTimeout, c.cut)
	c.cancel(errGone)
	if c.w == nil { // the handshake is not done
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // only fails if it is closed anyway
		return
	}
	c.w.send(closeMethod(e), true)
}

func closeMethod(e *Error) *connectionClose {
	return &connectionClose{ReplyCode: e.Code, ReplyText: e.Error(), ClassId: e.class, MethodId: e.method}
}

func (c *conn) failed() *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// cut ends the connection without a word.
func (c *conn) cut() { _ = c.nc.Close() } // both directions fail from now on, which is the point

// serve is the connection's life.
func (c *conn) serve() {
	defer c.cut()
	defer c.cancel(errGone)
	defer func() {
		c.mu.Lock()
		if c.linger != nil {
			c.linger.Stop()
		}
		c.mu.Unlock()
	}()
	c.fr = frameReader{br: bufio.NewReaderSize(c, readSize), max: initialFrameMax}
	if err := c.handshake(); err != nil {
		c.refuse(err)
		return
	}
	c.log.Info("connection opened", "user", c.info.User.Name, "vhost", c.info.VHost)
	var writing sync.WaitGroup
	writing.Go(func() { c.w.run(time.Duration(c.info.HeartbeatSeconds) * time.Second) })
	err := c.read()
	c.teardown(err)
	close(c.w.stop)
	_ = c.nc.SetWriteDeadline(time.Now().Add(c.srv.cfg.CloseTimeout)) // only fails if it is closed anyway
	writing.Wait()
}

// teardown ends the channels and the session after the reader has ended with err.
func (c *conn) teardown(err error) {
	limit, stop := context.WithTimeout(context.Background(), c.srv.cfg.CloseTimeout)
	defer stop()
	failure := c.failed()
	orderly := errors.Is(err, errClosed) && failure == nil
	if orderly { // everything that came before connection.close is still carried out
		for _, ch := range c.running {
			ch.in.close()
		}
		for _, ch := range c.running {
			select {
			case <-ch.done:
			case <-limit.Done():
			}
		}
	}
	c.cancel(errGone)
	if !orderly && failure == nil {
		c.cut() // the writer must not wait for a peer that is gone
	}
	for _, ch := range c.running {
		<-ch.done
	}
	closing, cancel := context.WithTimeout(context.Background(), c.srv.cfg.CloseTimeout)
	defer cancel()
	c.session.Close(closing)
	c.logEnd(err, failure)
	if errors.Is(err, errClosed) {
		c.w.send(&connectionCloseOk{}, true)
	}
}

func (c *conn) logEnd(err error, failure *Error) {
	switch {
	case failure != nil && failure.Code == ConnectionForced:
		c.log.Info("connection closed by the server", "reason", failure.Error())
	case failure != nil:
		c.log.Warn("connection closed by the server", "err", failure)
	case errors.Is(err, errClosed):
		c.log.Info("connection closed")
	case errors.Is(err, io.EOF):
		c.log.Warn("client closed the connection without a word")
	default:
		c.log.Warn("connection lost", "err", err)
	}
}
