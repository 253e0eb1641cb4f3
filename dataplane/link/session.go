package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// copyLimit is the size up to which a part is copied into the outgoing chunk; larger ones are written in place.
	copyLimit = 4 << 10
	// writeSlice is how much goes into one write, so that the deadline and the backlog follow the progress made.
	writeSlice = 256 << 10
	// farewell bounds the orderly end of a link.
	farewell = time.Second
)

// session is one established peer link: a reader (the goroutine that calls run) and a writer.
type session struct {
	t      *Transport
	p      *peer
	conn   *trackedConn
	id     PeerID
	info   PeerInfo
	gen    uint64
	ctx    context.Context // of the handlers of its calls
	cancel context.CancelFunc
	frames *[256]func(PeerID, []byte)
	wake   chan struct{}
	done   chan struct{} // closed after LinkDown
	silent atomic.Bool   // frames are not delivered any more

	mu      sync.Mutex
	closing bool
	flush   bool // closing in good order: write what is there first
	cause   Cause
	tail    []byte   // end of the chunk being filled, not yet in bufs
	bufs    [][]byte // what to write before tail
	chunks  [][]byte // chunks to recycle once bufs are written
	backlog int      // bytes queued or being written
	over    bool     // backlog has reached the soft limit
	nextID  uint64
	calls   map[uint64]chan answer
}

func (t *Transport) newSession(p *peer, conn *trackedConn, other wireHello, protocol int, gen uint64) *session {
	s := &session{
		t: t, p: p, conn: conn, gen: gen,
		id:    PeerID{Node: other.Node, Incarnation: other.Incarnation, Session: t.session.Add(1)},
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
		calls: map[uint64]chan answer{},
	}
	s.info = PeerInfo{ID: s.id, Hello: other.public(), Protocol: protocol, Remote: conn.RemoteAddr()}
	s.ctx, s.cancel = context.WithCancel(t.ctx)
	t.mu.RLock()
	frames := t.frames
	t.mu.RUnlock()
	s.frames = &frames
	return s
}

// run serves the link until it ends and has been told down.
func (s *session) run() {
	watchers := s.t.watcherList()
	s.t.log.Info("link up", "peer", s.id.Node, "incarnation", s.id.Incarnation, "remote", s.conn.RemoteAddr().String())
	for _, w := range watchers {
		w.LinkUp(s.id)
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		if err := s.writeLoop(); err != nil {
			s.close(causeOf(err), false)
		}
	})
	s.close(causeOf(s.readLoop()), false)
	_ = s.conn.Close()
	s.signal()
	writer.Wait()
	s.cancel()
	s.p.clear(s)
	s.failCalls()
	s.mu.Lock()
	cause := s.cause
	s.mu.Unlock()
	s.t.log.Info("link down", "peer", s.id.Node, "incarnation", s.id.Incarnation, "cause", cause.Kind.String(), "err", cause.Err)
	for _, w := range watchers {
		w.LinkDown(s.id, cause)
	}
	close(s.done)
}

// close ends the link; the first cause stands. In good order, what is queued and a goodbye are written first.
func (s *session) close(cause Cause, orderly bool) {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return
	}
	s.silent.Store(true)
	if orderly {
		s.append(kindGoodbye, []byte(cause.Err.Error()))
		_ = s.conn.SetDeadline(time.Now().Add(farewell))
	}
	s.closing, s.flush, s.cause = true, orderly, cause
	s.mu.Unlock()
	if !orderly {
		_ = s.conn.Close()
	}
	s.signal()
}

func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// send queues one frame; wake says whether the writer is to begin.
func (s *session) send(kind FrameKind, wake bool, parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size > s.t.cfg.MaxFrame {
		return fmt.Errorf("%w: %d bytes of kind %d for %s, at most %d are allowed", ErrTooLarge, size, kind, s.id.Node, s.t.cfg.MaxFrame)
	}
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return fmt.Errorf("%w: %s", ErrNotConnected, s.id.Node)
	}
	if s.backlog+size+frameHeader > s.t.cfg.HardLimit {
		backlog := s.backlog
		s.mu.Unlock()
		err := fmt.Errorf("%w: %d bytes wait for %s", ErrOverflow, backlog, s.id.Node)
		s.close(Cause{CauseOverflow, err}, false)
		return err
	}
	s.append(kind, parts...)
	s.mu.Unlock()
	if wake {
		s.signal()
	}
	return nil
}

// append puts a frame into the outgoing buffers. s.mu is held.
func (s *session) append(kind FrameKind, parts ...[]byte) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	s.room(frameHeader)
	s.tail = putHeader(s.tail, kind, size)
	for _, p := range parts {
		if len(p) > copyLimit {
			s.cut()
			s.bufs = append(s.bufs, p)
			continue
		}
		s.room(len(p))
		s.tail = append(s.tail, p...)
	}
	s.backlog += frameHeader + size
	if s.backlog >= s.t.cfg.SoftLimit {
		s.over = true
	}
}

// room makes n bytes available in tail without moving it.
func (s *session) room(n int) {
	if cap(s.tail)-len(s.tail) >= n {
		return
	}
	s.cut()
	chunk := *s.t.chunks.Get().(*[]byte)
	s.chunks = append(s.chunks, chunk)
	s.tail = chunk[:0]
}

// cut moves what stands in tail to bufs, and goes on behind it in the same chunk.
func (s *session) cut() {
	if len(s.tail) > 0 {
		s.bufs = append(s.bufs, s.tail)
		s.tail = s.tail[len(s.tail):]
	}
}

// take hands everything queued to the writer.
func (s *session) take() (bufs, chunks [][]byte, closing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing && !s.flush {
		return nil, nil, true
	}
	s.cut()
	bufs, chunks = s.bufs, s.chunks
	s.bufs, s.chunks, s.tail = nil, nil, nil
	return bufs, chunks, s.closing
}

// writeLoop writes what is queued, everything gathered in one vectored write, until the link closes.
func (s *session) writeLoop() error {
	keepalive := time.NewTicker(s.t.cfg.Keepalive)
	defer keepalive.Stop()
	wrote := false
	for {
		bufs, chunks, closing := s.take()
		if len(bufs) > 0 {
			if err := s.write(bufs); err != nil {
				return err
			}
			for i := range chunks {
				s.t.chunks.Put(&chunks[i])
			}
			wrote = true
			continue
		}
		if closing {
			if cw, ok := s.conn.Conn.(interface{ CloseWrite() error }); ok {
				// The reader goes on until the peer has read everything and closes, or the farewell is over:
				// closing now, with bytes unread, would send RST and could destroy the goodbye.
				return cw.CloseWrite()
			}
			return nil
		}
		select {
		case <-s.wake:
		case <-keepalive.C:
			if !wrote {
				_ = s.send(kindKeepalive, false)
			}
			wrote = false
		}
	}
}

func (s *session) write(bufs [][]byte) error {
	for len(bufs) > 0 {
		n, size := 0, 0
		for n < len(bufs) && (n == 0 || size+len(bufs[n]) <= writeSlice) {
			size += len(bufs[n])
			n++
		}
		s.mu.Lock()
		if !s.closing {
			_ = s.conn.SetWriteDeadline(time.Now().Add(s.t.cfg.Timeout))
		}
		s.mu.Unlock()
		batch := net.Buffers(bufs[:n])
		if _, err := batch.WriteTo(s.conn.Conn); err != nil {
			return fmt.Errorf("link: write to %s: %w", s.id.Node, err)
		}
		bufs = bufs[n:]
		s.wrote(size)
	}
	return nil
}

// wrote takes size bytes off the backlog and tells the watchers when it has drained.
func (s *session) wrote(size int) {
	s.t.sent.Add(uint64(size))
	s.mu.Lock()
	s.backlog -= size
	drained := s.over && s.backlog < s.t.cfg.SoftLimit/2
	if drained {
		s.over = false
	}
	s.mu.Unlock()
	if drained {
		for _, w := range s.t.watcherList() {
			w.LinkDrained(s.id)
		}
	}
}

// deadlineReader gives each read of a link its own deadline.
type deadlineReader struct{ s *session }

func (d deadlineReader) Read(b []byte) (int, error) {
	if !d.s.silent.Load() {
		_ = d.s.conn.SetReadDeadline(time.Now().Add(d.s.t.cfg.Timeout))
		if d.s.silent.Load() { // closed in between: the farewell's deadline was overwritten
			_ = d.s.conn.SetReadDeadline(time.Now().Add(farewell))
		}
	}
	n, err := d.s.conn.Read(b)
	d.s.t.received.Add(uint64(n))
	return n, err
}

func (s *session) readLoop() error {
	r := frameReader{r: deadlineReader{s}, max: s.t.cfg.MaxFrame}
	for {
		kind, body, err := r.next()
		if err != nil {
			return fmt.Errorf("link: read from %s: %w", s.id.Node, err)
		}
		if kind == kindGoodbye {
			s.close(Cause{CauseGoodbye, fmt.Errorf("link: %s said: %.200q", s.id.Node, body)}, false)
			return io.EOF
		}
		if s.silent.Load() {
			continue
		}
		if err := s.dispatch(kind, body); err != nil {
			return fmt.Errorf("link: frame from %s: %w", s.id.Node, err)
		}
	}
}

func (s *session) dispatch(kind FrameKind, body []byte) error {
	switch {
	case kind >= FirstUserKind:
		if h := s.frames[kind]; h != nil {
			h(s.id, body)
		}
		return nil
	case kind == kindKeepalive:
		return nil
	case kind == kindCall:
		c, err := decodeCall(body)
		if err != nil {
			return err
		}
		s.serveCall(c)
		return nil
	case kind == kindAnswer:
		id, code, body, err := decodeAnswer(body)
		if err != nil {
			return err
		}
		s.answered(id, answer{code: code, body: body})
		return nil
	}
	return fmt.Errorf("%w: kind %d", ErrFrame, kind)
}

func (t *Transport) watcherList() []Watcher {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.watchers
}

// live returns the link to a node that can be sent to.
func (t *Transport) live(node string) (*session, error) {
	t.mu.RLock()
	p := t.peers[node]
	t.mu.RUnlock()
	if p == nil {
		return nil, fmt.Errorf("%w: %s", errors.Join(ErrNotConnected, ErrUnknownPeer), node)
	}
	p.mu.Lock()
	s := p.cur
	p.mu.Unlock()
	if s == nil {
		return nil, fmt.Errorf("%w: %s", ErrNotConnected, node)
	}
	return s, nil
}
