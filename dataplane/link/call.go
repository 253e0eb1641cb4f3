package link

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// CallHandler answers a call. ctx ends with the caller's deadline or the link. The error crosses as text; a *CallError
// keeps its code. It owns body.
type CallHandler func(ctx context.Context, from PeerID, body []byte) ([]byte, error)

// PeerInfo describes an established link.
type PeerInfo struct {
	ID       PeerID
	Hello    Hello
	Protocol int // the version that the pair speaks
	Remote   net.Addr
}

type answer struct {
	code int
	body []byte
	err  error
}

// HandleCall serves a method (at most 255 bytes) for Call. It may be registered at any time.
func (t *Transport) HandleCall(method string, h CallHandler) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.methods[method] = h
}

// Call asks a node to run a method and returns its answer. Calls are not ordered, neither among each other nor with
// frames. A call to the own node runs the handler in the caller's goroutine. Errors: *CallError as the other side
// answered; ErrBusy when Config.MaxCalls wait already; ErrNotConnected without a link, or when it broke before the
// answer, so that whether the method ran is not known; ErrTooLarge, ErrOverflow; ctx's error.
func (t *Transport) Call(ctx context.Context, node, method string, body []byte) ([]byte, error) {
	if len(method) > 255 {
		return nil, fmt.Errorf("link: call: method name of %d bytes", len(method))
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("link: call %s on %s: %w", method, node, err)
	}
	if node == t.cfg.Node {
		return t.callSelf(ctx, method, body)
	}
	s, err := t.live(node)
	if err != nil {
		return nil, fmt.Errorf("link: call %s: %w", method, err)
	}
	id, ch, err := s.newCall()
	if err != nil {
		return nil, fmt.Errorf("link: call %s on %s: %w", method, node, err)
	}
	c := callFrame{id: id, method: method}
	if deadline, ok := ctx.Deadline(); ok {
		c.timeout = uint64(max(time.Until(deadline).Milliseconds(), 1))
	}
	if err := s.send(kindCall, true, encodeCall(c), body); err != nil {
		s.dropCall(id)
		return nil, fmt.Errorf("link: call %s on %s: %w", method, node, err)
	}
	select {
	case a := <-ch:
		switch {
		case a.err != nil:
			return nil, fmt.Errorf("link: call %s on %s: %w", method, node, a.err)
		case a.code != 0:
			return nil, &CallError{Node: node, Method: method, Code: a.code, Text: string(a.body)}
		}
		return a.body, nil
	case <-ctx.Done():
		s.dropCall(id)
		return nil, fmt.Errorf("link: call %s on %s: %w", method, node, ctx.Err())
	}
}

func (t *Transport) callSelf(ctx context.Context, method string, body []byte) ([]byte, error) {
	h := t.method(method)
	if h == nil {
		return nil, &CallError{Node: t.cfg.Node, Method: method, Code: CodeUnknownMethod, Text: "unknown method"}
	}
	out, err := h(ctx, PeerID{Node: t.cfg.Node, Incarnation: t.cfg.Hello().Incarnation}, body)
	if err != nil {
		code, text := callCode(err)
		return nil, errors.Join(&CallError{Node: t.cfg.Node, Method: method, Code: code, Text: text}, ctx.Err())
	}
	return out, nil
}

func (t *Transport) method(name string) CallHandler {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.methods[name]
}

func (s *session) newCall() (uint64, chan answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing || s.calls == nil:
		return 0, nil, ErrNotConnected
	case len(s.calls) >= s.t.cfg.MaxCalls:
		return 0, nil, fmt.Errorf("%w: %d own calls wait for it", ErrBusy, len(s.calls))
	}
	s.nextID++
	ch := make(chan answer, 1)
	s.calls[s.nextID] = ch
	return s.nextID, ch, nil
}

func (s *session) dropCall(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, id)
}

func (s *session) answered(id uint64, a answer) {
	s.mu.Lock()
	ch := s.calls[id]
	delete(s.calls, id)
	s.mu.Unlock()
	if ch != nil {
		ch <- a
	}
}

func (s *session) failCalls() {
	s.mu.Lock()
	calls := s.calls
	s.calls = nil
	err := fmt.Errorf("%w any more: %w", ErrNotConnected, s.cause.Err)
	s.mu.Unlock()
	for _, ch := range calls {
		ch <- answer{err: err}
	}
}

// serveCall runs a peer's call on a goroutine of the pool and sends the answer.
func (s *session) serveCall(c callFrame) {
	h := s.t.method(c.method)
	if h == nil {
		s.reply(c.id, CodeUnknownMethod, []byte("unknown method"))
		return
	}
	ok := s.t.calls.run(func() {
		ctx := s.ctx
		if c.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(min(c.timeout, 1<<32))*time.Millisecond)
			defer cancel()
		}
		if ctx.Err() != nil {
			return // nobody waits for it any more
		}
		out, err := h(ctx, s.id, c.body)
		switch {
		case err != nil:
			code, text := callCode(err)
			s.reply(c.id, code, []byte(text))
		case len(out) > s.t.cfg.MaxFrame-20:
			s.reply(c.id, CodeFailed, fmt.Appendf(nil, "answer of %d bytes is over the limit", len(out)))
		default:
			s.reply(c.id, 0, out)
		}
	})
	if !ok {
		s.reply(c.id, CodeBusy, []byte("too many calls wait"))
	}
}

func (s *session) reply(id uint64, code int, body []byte) {
	head := binary.AppendUvarint(binary.AppendUvarint(nil, id), uint64(code))
	if err := s.send(kindAnswer, true, head, body); err != nil {
		s.t.log.Debug("answer not sent", "peer", s.id.Node, "err", err)
	}
}

// callPool runs jobs on at most limit goroutines, which end when there is nothing to do; at most queueLimit jobs wait.
type callPool struct {
	limit, queueLimit int
	wg                *sync.WaitGroup

	mu      sync.Mutex
	running int
	queue   []func()
}

// run starts or queues job; false means that it was refused. It must be called from a goroutine that wg counts.
func (p *callPool) run(job func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running < p.limit {
		p.running++
		p.wg.Go(func() { p.work(job) })
		return true
	}
	if len(p.queue) >= p.queueLimit {
		return false
	}
	p.queue = append(p.queue, job)
	return true
}

func (p *callPool) work(job func()) {
	for {
		job()
		p.mu.Lock()
		if len(p.queue) == 0 {
			p.running--
			p.mu.Unlock()
			return
		}
		job = p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.mu.Unlock()
	}
}
