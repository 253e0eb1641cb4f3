package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// peer is what a Transport knows of one other node: whether it is declared, and its link. Its goroutine makes the link
// (or asks for it) whenever it is missing. Peers are never forgotten, only no longer declared.
type peer struct {
	t    *Transport
	node string
	kick chan struct{} // something changed: look again, without waiting
	turn chan struct{} // holds one token: the right to serve a session

	mu       sync.Mutex
	addr     string
	declared bool
	running  bool
	cur      *session
	ticket   uint64 // of the newest connection; an older one that still waits for its turn gives up
	lastErr  string
}

// SetPeers declares the nodes that should be connected; it replaces what was declared before. Links to others are
// closed, missing ones are made in the background with a bounded back-off. The own node in the list is ignored. It does
// not wait and may be called from callbacks.
func (t *Transport) SetPeers(peers []Peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := map[string]bool{}
	for _, w := range peers {
		if w.Node == t.cfg.Node || w.Node == "" {
			continue
		}
		want[w.Node] = true
		p := t.peers[w.Node]
		if p == nil {
			p = &peer{t: t, node: w.Node, kick: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
			p.turn <- struct{}{}
			t.peers[w.Node] = p
		}
		p.declare(w.Addr)
		if t.started && !t.closed {
			t.startPeer(p)
		}
	}
	for _, p := range t.peers {
		if !want[p.node] {
			p.revoke()
		}
	}
}

// Rehello closes every link with a goodbye and has it made again, with what Config.Hello says now: for a node that takes
// a new incarnation or enters a cluster. It does not wait.
func (t *Transport) Rehello() {
	t.gen.Add(1)
	for _, p := range t.peerList() {
		p.closeSession(Cause{CauseLocal, errors.New("link: the node's hello changed")})
		p.wakeUp()
	}
}

// Reset closes the link to a node with a goodbye, if there is one, and has it made again.
func (t *Transport) Reset(node string) {
	if s, err := t.live(node); err == nil {
		s.close(Cause{CauseReset, errors.New("link: reset asked for")}, true)
	}
}

func (t *Transport) peerList() []*peer {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := make([]*peer, 0, len(t.peers))
	for _, p := range t.peers {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *peer) int { return strings.Compare(a.node, b.node) })
	return list
}

// startPeer starts the peer's goroutine once. t.mu is held, t is started and not closed.
func (t *Transport) startPeer(p *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		p.running = true
		t.wg.Add(1)
		go p.run()
	}
}

func (p *peer) declare(addr string) {
	p.mu.Lock()
	changed := !p.declared || p.addr != addr
	p.declared, p.addr = true, addr
	p.mu.Unlock()
	if changed {
		p.wakeUp()
	}
}

func (p *peer) revoke() {
	p.mu.Lock()
	p.declared = false
	p.mu.Unlock()
	p.closeSession(Cause{CauseLocal, fmt.Errorf("%w: %s", ErrUnknownPeer, p.node)})
}

func (p *peer) wakeUp() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

func (p *peer) closeSession(cause Cause) {
	p.mu.Lock()
	s := p.cur
	p.mu.Unlock()
	if s != nil {
		s.close(cause, true)
	}
}

func (p *peer) waitDown() {
	p.mu.Lock()
	s := p.cur
	p.mu.Unlock()
	if s != nil {
		<-s.done
	}
}

func (p *peer) clear(s *session) {
	p.mu.Lock()
	if p.cur == s {
		p.cur = nil
	}
	p.mu.Unlock()
	if p.t.cfg.Node > p.node {
		p.wakeUp() // the other side's goroutine is the one that served the link
	}
}

// run makes the link whenever it is missing: the first attempt at once, then with a growing pause. A link that did not
// last counts as a failed attempt, or two nodes that disagree would dial in a tight loop.
func (p *peer) run() {
	defer p.t.wg.Done()
	dials := p.t.cfg.Node < p.node
	fails := 0
	for p.t.ctx.Err() == nil {
		p.mu.Lock()
		missing := p.declared && p.cur == nil
		p.mu.Unlock()
		if !missing {
			fails = 0
			select {
			case <-p.kick:
			case <-p.t.ctx.Done():
			}
			continue
		}
		if !p.pause(fails, dials) {
			fails = max(fails, 1)
			continue
		}
		p.mu.Lock()
		addr := p.addr // the other side may just have said another one
		p.mu.Unlock()
		began := time.Now()
		var err error
		if dials {
			err = p.dial(addr)
		} else {
			err = p.ask(addr)
		}
		p.note(err, addr)
		if fails++; dials && err == nil && time.Since(began) >= p.t.cfg.RetryMax {
			fails = 0
		}
	}
}

// pause waits before the next attempt; false means that the situation may have changed.
func (p *peer) pause(fails int, dials bool) bool {
	d := time.Duration(0)
	if fails > 0 || !dials { // the one that asks lets the other one dial first
		d = min(p.t.cfg.RetryMin<<min(max(fails-1, 0), 16), p.t.cfg.RetryMax)
	}
	if d == 0 {
		return p.t.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.kick:
		p.mu.Lock()
		defer p.mu.Unlock()
		return dials && p.declared && p.cur == nil
	case <-p.t.ctx.Done():
		return false
	}
}

// note logs an error of connecting when it differs from the last one.
func (p *peer) note(err error, addr string) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	p.mu.Lock()
	changed := text != p.lastErr
	p.lastErr = text
	p.mu.Unlock()
	if !changed || err == nil || p.t.ctx.Err() != nil {
		return
	}
	level := slog.LevelInfo
	var refused *RefusedError
	if errors.Is(err, ErrCookie) || errors.As(err, &refused) && refused.code != codeUnknownPeer && refused.code != codeStale {
		level = slog.LevelWarn
	}
	p.t.log.Log(p.t.ctx, level, "cannot link", "peer", p.node, "addr", addr, "err", err)
}

// dial connects, and serves the link until it ends. nil means that a link was made.
func (p *peer) dial(addr string) error {
	ctx, cancel := context.WithTimeout(p.t.ctx, HandshakeTimeout)
	defer cancel()
	conn, err := p.t.Dial(ctx, addr, ProtoPeer)
	if err != nil {
		return err
	}
	tc := conn.(*trackedConn)
	gen := p.t.gen.Load()
	own := p.t.hello()
	other, protocol, err := p.greet(ctx, tc, own)
	if err != nil {
		_ = tc.Close()
		return err
	}
	p.serve(p.t.newSession(p, tc, other, protocol, gen))
	return nil
}

// ask requests that the other side, whose name is lower, dial. nil means that it was heard.
func (p *peer) ask(addr string) error {
	ctx, cancel := context.WithTimeout(p.t.ctx, HandshakeTimeout)
	defer cancel()
	conn, err := p.t.Dial(ctx, addr, ProtoPeer)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	own := p.t.hello()
	own.Ask = true
	_, _, err = p.greet(ctx, conn, own)
	return err
}

// greet is the dialer's side of the peer handshake.
func (p *peer) greet(ctx context.Context, conn net.Conn, own wireHello) (wireHello, int, error) {
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	var reply wireReply
	if err := writeMessage(conn, own); err != nil {
		return reply.Hello, 0, err
	}
	if err := readMessage(conn, &reply); err != nil {
		return reply.Hello, 0, err
	}
	other := reply.Hello
	if reply.Code != codeOK {
		return other, 0, &RefusedError{Node: p.node, Remote: true, Text: fmt.Sprintf("%.500s", reply.Text), code: reply.Code}
	}
	if err := other.validate(); err != nil {
		return other, 0, err
	}
	protocol, refusal := judge(own, other)
	if refusal == nil && other.Node != p.node {
		refusal = &RefusedError{Node: p.node, code: codeWrongNode, Text: fmt.Sprintf(
			"%s expects %s there, but %s answers", own.Node, p.node, other.Node)}
	}
	if refusal == nil && protocol != reply.Protocol {
		refusal = &RefusedError{Node: p.node, code: codeVersion, Text: fmt.Sprintf(
			"%s chose protocol version %d, %s chose %d", other.Node, reply.Protocol, own.Node, protocol)}
	}
	if refusal != nil {
		return other, 0, errors.Join(refusal, writeMessage(conn, wireAck{refusal.code, refusal.Text}))
	}
	if err := writeMessage(conn, wireAck{}); err != nil {
		return other, 0, err
	}
	return other, protocol, conn.SetDeadline(time.Time{})
}

// acceptPeer is the acceptor's side, on an authenticated connection whose deadline is set; it serves the link until it
// ends. release gives the place among the connections in handshake back.
func (t *Transport) acceptPeer(tc *trackedConn, release func()) {
	gen := t.gen.Load()
	own := t.hello()
	s, err := t.welcome(tc, own, gen)
	release()
	if err != nil && t.ctx.Err() == nil {
		t.logRefusal(tc.RemoteAddr(), err)
	}
	if s == nil {
		_ = tc.Close()
		return
	}
	_ = tc.SetDeadline(time.Time{})
	s.p.serve(s)
}

// welcome does the handshake; both results nil: the peer asked, and was heard.
func (t *Transport) welcome(tc *trackedConn, own wireHello, gen uint64) (*session, error) {
	var h wireHello
	if err := readMessage(tc, &h); err != nil {
		return nil, err
	}
	if err := h.validate(); err != nil {
		return nil, errors.Join(err, writeMessage(tc, wireReply{Hello: own, Code: codeMalformed, Text: err.Error()}))
	}
	protocol, refusal := judge(own, h)
	var p *peer
	if refusal == nil {
		p, refusal = t.admitPeer(own, h)
	}
	if refusal != nil {
		err := writeMessage(tc, wireReply{Hello: own, Code: refusal.code, Text: refusal.Text})
		if refusal.code == codeUnknownPeer || refusal.code == codeStale {
			return nil, nil // passes by itself: the other side logs it
		}
		return nil, errors.Join(refusal, err)
	}
	if err := writeMessage(tc, wireReply{Hello: own, Protocol: protocol}); err != nil {
		return nil, err
	}
	var ack wireAck
	if err := readMessage(tc, &ack); err != nil {
		return nil, err
	}
	if ack.Code != codeOK {
		return nil, &RefusedError{Node: h.Node, Remote: true, Text: fmt.Sprintf("%.500s", ack.Text), code: ack.Code}
	}
	if h.Ask {
		p.asked(h)
		return nil, nil
	}
	return t.newSession(p, tc, h, protocol, gen), nil
}

// admitPeer says whether a link that fits otherwise is wanted now.
func (t *Transport) admitPeer(own, h wireHello) (*peer, *RefusedError) {
	refuse := func(code int, format string, args ...any) (*peer, *RefusedError) {
		return nil, &RefusedError{Node: h.Node, code: code, Text: fmt.Sprintf(format, args...)}
	}
	t.mu.RLock()
	p := t.peers[h.Node]
	t.mu.RUnlock()
	if p == nil {
		return refuse(codeUnknownPeer, "%s does not know %s", own.Node, h.Node)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.declared:
		return refuse(codeUnknownPeer, "%s does not know %s", own.Node, h.Node)
	case !h.Ask && h.Node > own.Node:
		return refuse(codeDirection, "%s dials %s, not the other way round", own.Node, h.Node)
	case p.cur != nil && p.cur.id.Incarnation > h.Incarnation:
		return refuse(codeStale, "%s is linked to incarnation %d of %s, which is newer than %d", own.Node, p.cur.id.Incarnation, h.Node, h.Incarnation)
	}
	return p, nil
}

// asked hears a request to dial, at the address that the other side says if it says one: it may have moved, and is not known to be
// anywhere else until it is linked. A link that seems to stand is given up only for a newer incarnation: one of the same
// incarnation may just have been made.
func (p *peer) asked(h wireHello) {
	p.mu.Lock()
	s := p.cur
	if h.Addr != "" {
		p.addr = h.Addr
	}
	p.mu.Unlock()
	if s != nil && s.id.Incarnation < h.Incarnation {
		s.close(Cause{CauseReplaced, fmt.Errorf("link: incarnation %d of %s asks for a link", h.Incarnation, h.Node)}, false)
	}
	p.wakeUp()
}

// serve makes s the peer's link and runs it, after the one before it was told down.
func (p *peer) serve(s *session) {
	p.mu.Lock()
	p.ticket++
	ticket := p.ticket
	old := p.cur
	p.mu.Unlock()
	if old != nil {
		old.close(Cause{CauseReplaced, fmt.Errorf("link: a newer connection of %s", p.node)}, false)
	}
	<-p.turn
	defer func() { p.turn <- struct{}{} }()
	p.mu.Lock()
	if p.ticket != ticket || !p.declared || s.gen != p.t.gen.Load() || p.t.ctx.Err() != nil {
		p.mu.Unlock()
		s.cancel()
		_ = s.conn.Close()
		return
	}
	p.cur = s
	p.mu.Unlock()
	s.run()
}
