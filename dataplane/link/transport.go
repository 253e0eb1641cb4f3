package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxHandshakes limits the accepted connections that have not finished their handshake.
const maxHandshakes = 256

// Transport is a node's inter-node listener and its links. All methods may be called from any goroutine.
//
// Lock order: Transport.mu, peer.mu, session.mu; no callback runs under any of them.
type Transport struct {
	cfg      Config
	log      *slog.Logger
	ln       net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	admit    chan struct{} // one token per connection in handshake
	session  atomic.Uint64
	gen      atomic.Uint64 // raised by Rehello
	refused  logLimiter
	chunks   sync.Pool // outgoing buffers
	sent     atomic.Uint64
	received atomic.Uint64

	mu       sync.RWMutex
	closed   bool
	started  bool
	handlers map[Proto]func(net.Conn)
	peers    map[string]*peer
	conns    map[*trackedConn]struct{}
	watchers []Watcher
	frames   [256]func(PeerID, []byte)
	methods  map[string]CallHandler
	calls    callPool
}

// New binds the listener and returns a Transport that does nothing yet: register handlers, then call Start. It fails
// when the configuration is incomplete or the address cannot be bound.
func New(cfg Config) (*Transport, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ln := cfg.Listener
	if ln == nil {
		if ln, err = net.Listen("tcp", cfg.Addr); err != nil {
			return nil, fmt.Errorf("link: listen on %s: %w", cfg.Addr, err)
		}
	}
	t := &Transport{
		cfg: cfg, ln: ln,
		log:      cfg.Log.With("node", cfg.Node),
		admit:    make(chan struct{}, maxHandshakes),
		handlers: map[Proto]func(net.Conn){},
		peers:    map[string]*peer{},
		conns:    map[*trackedConn]struct{}{},
		methods:  map[string]CallHandler{},
	}
	t.calls = callPool{limit: cfg.MaxHandlers, queueLimit: cfg.MaxCalls, wg: &t.wg}
	t.chunks.New = func() any { b := make([]byte, 0, chunkSize); return &b }
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// Start begins to accept and to dial. It is called once, after the handlers were registered.
func (t *Transport) Start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.started || t.closed {
		return
	}
	t.started = true
	t.wg.Add(1)
	go t.acceptLoop()
	for _, p := range t.peers {
		t.startPeer(p)
	}
}

// Addr is the address that the listener is bound to.
func (t *Transport) Addr() net.Addr { return t.ln.Addr() }

// Node is this node's name.
func (t *Transport) Node() string { return t.cfg.Node }

// Handle serves a protocol: h gets each authenticated connection, in a goroutine of its own, and owns it. When the
// Transport closes, it closes the connections that h has not, and waits for h to return. A nil h stops serving the
// protocol. ProtoPeer is taken.
func (t *Transport) Handle(proto Proto, h func(net.Conn)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h == nil {
		delete(t.handlers, proto)
		return
	}
	t.handlers[proto] = h
}

// HandleFrame sets who gets the frames of one kind (FirstUserKind or more). h owns body, which stands in a larger
// buffer shared with neighbouring frames: who keeps a small one for long should copy it. h runs on the link's reader:
// it must not block. Call it before Start. Frames of a kind without a handler are dropped, for a newer peer may send
// them (design/upgrades.md).
func (t *Transport) HandleFrame(kind FrameKind, h func(from PeerID, body []byte)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.frames[kind] != nil {
		panic(fmt.Sprintf("link: two handlers for frames of kind %d", kind)) // a mistake that no configuration can make
	}
	t.frames[kind] = h
}

// Watch adds a watcher of links. Call it before Start.
func (t *Transport) Watch(w Watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchers = append(t.watchers, w)
}

// Dial connects to another node's listener for one protocol, handshakes included, with the Transport's cookie and TLS.
// The connection is the caller's, and is closed when the Transport is. Errors as DialAuthenticated, or ErrClosed.
func (t *Transport) Dial(ctx context.Context, addr string, proto Proto) (net.Conn, error) {
	conn, err := DialAuthenticated(ctx, addr, proto, t.cfg.Cookie, t.cfg.ClientTLS)
	if err != nil {
		return nil, err
	}
	return t.track(conn)
}

// Close closes the listener, says goodbye on the peer links, closes every connection and waits for all goroutines.
// It must not be called from a handler or a callback.
func (t *Transport) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		t.wg.Wait()
		return nil
	}
	t.closed = true
	peers := maps.Clone(t.peers)
	t.mu.Unlock()
	t.cancel()
	err := t.ln.Close()
	for _, p := range peers {
		p.closeSession(Cause{CauseLocal, ErrClosed})
	}
	for _, p := range peers {
		p.waitDown()
	}
	t.mu.Lock()
	conns := maps.Clone(t.conns)
	t.mu.Unlock()
	for c := range conns {
		_ = c.Close()
	}
	t.wg.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("link: close the listener: %w", err)
	}
	return nil
}

func (t *Transport) acceptLoop() {
	defer t.wg.Done()
	pause := time.Duration(0)
	for {
		conn, err := t.ln.Accept()
		if t.ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil {
			// Out of file descriptors, most likely: the listener must outlive that.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			t.log.Error("accept failed", "err", err, "retry_in", pause)
			if !sleep(t.ctx, pause) {
				return
			}
			continue
		}
		pause = 0
		if t.cfg.ServerTLS != nil {
			conn = tls.Server(conn, t.cfg.ServerTLS)
		}
		tc, err := t.track(conn)
		if err != nil {
			return
		}
		select {
		case t.admit <- struct{}{}:
			t.wg.Add(1)
			go t.serve(tc)
		default:
			t.logRefusal(tc.RemoteAddr(), fmt.Errorf("%w: %d connections in handshake", ErrBusy, maxHandshakes))
			_ = tc.Close()
		}
	}
}

// serve does the server's handshakes on an accepted connection and hands it to its protocol.
func (t *Transport) serve(tc *trackedConn) {
	defer t.wg.Done()
	admitted := true
	release := func() {
		if admitted {
			admitted = false
			<-t.admit
		}
	}
	defer release()
	_ = tc.SetDeadline(time.Now().Add(HandshakeTimeout))
	proto, err := serverAuth(tc, t.cfg.Cookie, t.serves)
	if err != nil {
		// A probe connects and closes; that is no news.
		if !errors.Is(err, io.EOF) && t.ctx.Err() == nil {
			t.logRefusal(tc.RemoteAddr(), err)
		}
		_ = tc.Close()
		return
	}
	if proto == ProtoPeer {
		t.acceptPeer(tc, release)
		return
	}
	_ = tc.SetDeadline(time.Time{})
	release()
	t.mu.RLock()
	h := t.handlers[proto]
	t.mu.RUnlock()
	if h == nil {
		_ = tc.Close()
		return
	}
	h(tc)
}

func (t *Transport) serves(p Proto) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return p == ProtoPeer || t.handlers[p] != nil
}

func (t *Transport) logRefusal(remote net.Addr, err error) {
	if t.refused.allow(remote, err, time.Now()) {
		t.log.Warn("inter-node connection refused", "remote", remote.String(), "err", err)
	}
}

// trackedConn is a connection that the Transport closes when it closes.
type trackedConn struct {
	net.Conn
	t    *Transport
	once sync.Once
	err  error
}

func (t *Transport) track(conn net.Conn) (*trackedConn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = conn.Close()
		return nil, ErrClosed
	}
	tc := &trackedConn{Conn: conn, t: t}
	t.conns[tc] = struct{}{}
	return tc, nil
}

// Close closes the connection once; later calls return the first result.
func (c *trackedConn) Close() error {
	c.once.Do(func() {
		c.t.mu.Lock()
		delete(c.t.conns, c)
		c.t.mu.Unlock()
		c.err = c.Conn.Close()
	})
	return c.err
}

// logLimiter lets one line per remote host and text pass each minute, and remembers a bounded number of them.
type logLimiter struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

func (l *logLimiter) allow(remote net.Addr, err error, now time.Time) bool {
	host, _, splitErr := net.SplitHostPort(remote.String())
	if splitErr != nil {
		host = remote.String()
	}
	key := host + " " + err.Error()
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.seen[key]; ok && now.Sub(at) < time.Minute {
		return false
	}
	if l.seen == nil || len(l.seen) >= 1024 {
		l.seen = map[string]time.Time{}
	}
	l.seen[key] = now
	return true
}

// sleep waits for d and says whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
