package amqp

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a [Server]. The zero value of a field means its default.
type Config struct {
	FrameMax         uint32        // octets; 131072, at least 8192
	ChannelMax       uint16        // 2047
	Heartbeat        time.Duration // whole seconds; 60 s; negative: off
	MaxMessageSize   int64         // octets of a body; 134217728
	ConsumerTimeout  time.Duration // after which a delivery that is not acknowledged closes its channel; 0: never
	HandshakeTimeout time.Duration // from accept (or the end of TLS's handshake) to connection.open; 10 s
	TLSTimeout       time.Duration // from accept to the end of TLS's handshake; 5 s
	CloseTimeout     time.Duration // wait for close-ok and for a backend's Close; 5 s
	WindowMessages   int           // deliveries under way per consumer; 256
	WindowBytes      int64         // their bodies; 1 MiB
	MaxUnconfirmed   int           // publishes of a channel that wait for their confirm; 65536
	MaxConnections   int           // at once; 0: no limit
	Mechanisms       []string      // in the order in which clients are told; PLAIN and AMQPLAIN
	Version          string        // server-properties: version
	ClusterName      string        // server-properties: cluster_name
	Capabilities     []string      // server-properties: capabilities that the backend adds, such as consumer_priorities
	Logger           *slog.Logger  // slog.Default()
	// CertUser is the user that a client's certificate, which TLS has checked, stands for (mechanism EXTERNAL); nil: nobody.
	CertUser func(*x509.Certificate) (string, error)
}

func (c Config) withDefaults() Config {
	if c.FrameMax == 0 {
		c.FrameMax = defaultFrameMax
	}
	c.FrameMax = max(c.FrameMax, initialFrameMax)
	if c.ChannelMax == 0 {
		c.ChannelMax = 2047
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 60 * time.Second
	}
	if c.MaxMessageSize <= 0 {
		c.MaxMessageSize = 134217728
	}
	if c.HandshakeTimeout <= 0 {
		c.HandshakeTimeout = 10 * time.Second
	}
	if c.TLSTimeout <= 0 {
		c.TLSTimeout = 5 * time.Second
	}
	if len(c.Mechanisms) == 0 {
		c.Mechanisms = []string{plain, amqPlain}
	}
	if c.CloseTimeout <= 0 {
		c.CloseTimeout = 5 * time.Second
	}
	if c.WindowMessages <= 0 {
		c.WindowMessages = 256
	}
	if c.WindowBytes <= 0 {
		c.WindowBytes = 1 << 20
	}
	if c.MaxUnconfirmed <= 0 {
		c.MaxUnconfirmed = 65536
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// ErrServerClosed is what Serve returns after Shutdown.
var ErrServerClosed = errors.New("amqp: the server is closed")

// Server accepts AMQP 0-9-1 connections and serves a Backend over them. Its methods may be called from any goroutine.
type Server struct {
	cfg     Config
	backend Backend
	bufs    sync.Pool
	nextID  atomic.Uint64
	alarm   atomic.Pointer[alarm]
	wg      sync.WaitGroup // connections and watchDeliveries
	over    chan struct{}  // closed by Shutdown

	mu        sync.Mutex
	closed    bool
	watching  bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
}

// alarm is why publishers are blocked.
type alarm struct {
	reason string
	over   chan struct{}
}

// NewServer makes a server; Serve gives it listeners.
func NewServer(cfg Config, b Backend) *Server {
	return &Server{
		cfg: cfg.withDefaults(), backend: b,
		bufs:      sync.Pool{New: func() any { b := make([]byte, 0, writeSize+directSize); return &b }},
		over:      make(chan struct{}),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
	}
}

// Serve accepts connections from l, which may also be a TLS listener, until Shutdown (ErrServerClosed) or until l fails for
// good. It closes l. Several Serves may run at once.
func (s *Server) Serve(l net.Listener) error {
	defer func() { _ = l.Close() }() // nothing is written through a listener
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrServerClosed
	}
	s.listeners[l] = struct{}{}
	if s.cfg.ConsumerTimeout > 0 && !s.watching {
		s.watching = true
		s.wg.Go(func() { s.watchDeliveries(s.over) })
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	const maxPause = time.Second
	pause := 5 * time.Millisecond
	for {
		nc, err := l.Accept()
		if err == nil {
			pause = 5 * time.Millisecond
			s.start(nc)
			continue
		}
		if s.isClosed() {
			return ErrServerClosed
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept AMQP connections on %s: %w", l.Addr(), err)
		}
		// Such as too many open files: it passes when connections close.
		s.cfg.Logger.Warn("cannot accept a connection", "address", l.Addr().String(), "err", err)
		time.Sleep(pause)
		pause = min(2*pause, maxPause)
	}
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// start serves nc on a goroutine of its own, unless the server is closed or full.
func (s *Server) start(nc net.Conn) {
	c := newConn(s, nc, s.nextID.Add(1))
	s.mu.Lock()
	full := s.cfg.MaxConnections > 0 && len(s.conns) >= s.cfg.MaxConnections
	if s.closed || full {
		s.mu.Unlock()
		_ = nc.Close() // nothing was said yet
		if full {
			s.cfg.Logger.Warn("connection refused: too many", "limit", s.cfg.MaxConnections, "remote", nc.RemoteAddr().String())
		}
		return
	}
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

// Shutdown stops accepting, closes every connection with 320 CONNECTION_FORCED and the text, and waits until all are gone
// and their sessions closed. When ctx ends, connections that are still there are cut off, and ctx's error is returned.
func (s *Server) Shutdown(ctx context.Context, text string) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.over)
	}
	for l := range s.listeners {
		_ = l.Close() // Serve returns
	}
	conns := s.snapshot()
	s.mu.Unlock()
	for _, c := range conns {
		c.fail(Errorf(ConnectionForced, "%s", text))
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range conns {
		c.cut()
	}
	<-done
	return fmt.Errorf("close AMQP connections: %w", ctx.Err())
}

func (s *Server) snapshot() []*conn {
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// Block stops taking publishes: a connection that publishes is not read any more, and is told so (connection.blocked with
// the reason) if it can take it. Unblock ends that. Connections that only consume go on.
func (s *Server) Block(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := make(chan struct{})
	if old := s.alarm.Load(); old != nil {
		over = old.over
	}
	s.alarm.Store(&alarm{reason: reason, over: over})
}

// Unblock ends what Block began; without Block it does nothing.
func (s *Server) Unblock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.alarm.Swap(nil); old != nil {
		close(old.over)
	}
}

// Connections describes the connections that have opened a vhost, in no order.
func (s *Server) Connections() []ConnectionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	infos := make([]ConnectionInfo, 0, len(s.conns))
	for c := range s.conns {
		if c.open.Load() {
			infos = append(infos, c.info)
		}
	}
	return infos
}

// CloseConnection closes one connection with 320 CONNECTION_FORCED and the text; false if there is none with the id.
func (s *Server) CloseConnection(id uint64, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.info.ID == id {
			c.fail(Errorf(ConnectionForced, "%s", text))
			return true
		}
	}
	return false
}
