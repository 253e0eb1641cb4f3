package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Serve answers the requests of one client on conn, one after the other, until the client closes, ctx is done, or the
// client breaks the protocol; then it closes conn and returns nil, nil and the fault. conn is authenticated already and
// positioned after the handshake. Serve returns only when no goroutine of its own and no call of node is running.
func Serve(ctx context.Context, conn net.Conn, node Node) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{conn: conn, node: node, out: bufio.NewWriterSize(conn, 32<<10)}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	requests := make(chan request)
	readErr := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		defer cancel() // the client is gone: what it asked for is not wanted any more
		readErr <- s.readRequests(ctx, requests)
	}()
	for {
		select {
		case req := <-requests:
			if err := s.answer(ctx, req); err != nil {
				conn.Close()
				wg.Wait()
				return err
			}
		case err := <-readErr:
			conn.Close()
			wg.Wait()
			if ctx.Err() != nil && errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
	}
}

// server is one connection.
type server struct {
	conn net.Conn
	node Node
	busy atomic.Bool // a request is waiting or running

	mu  sync.Mutex // guards out: rows are flushed by a timer too
	out *bufio.Writer
}

// readRequests reads ahead by one request, so that it sees the client closing while a request runs.
func (s *server) readRequests(ctx context.Context, requests chan<- request) error {
	in := bufio.NewReader(s.conn)
	for {
		if err := s.waitForRequest(in); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var req request
		err := readFrame(in, &req, MaxRequest)
		if errors.Is(err, errTooLarge) {
			// The frame may cross one that is being written; the client closes on either.
			_ = s.send(answer{Kind: kindError, Code: CodeBadRequest, Text: err.Error()}, true)
		}
		if err != nil {
			return err
		}
		s.busy.Store(true)
		select {
		case requests <- req:
		case <-ctx.Done():
			return nil
		}
	}
}

// waitForRequest waits for the first byte of a request: as long as one is running, and idleTimeout after it. It leaves the
// deadline for the rest of the request set.
func (s *server) waitForRequest(in *bufio.Reader) error {
	for {
		if err := s.conn.SetReadDeadline(time.Now().Add(idleTimeout)); err != nil {
			return fmt.Errorf("serve admin connection: %w", err)
		}
		_, err := in.Peek(1)
		if errors.Is(err, os.ErrDeadlineExceeded) && s.busy.Load() {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for an admin request: %w", err)
		}
		if err := s.conn.SetReadDeadline(time.Now().Add(frameTimeout)); err != nil {
			return fmt.Errorf("serve admin connection: %w", err)
		}
		return nil
	}
}

// answer runs one request and writes all frames of its answer. An error means that the connection is of no more use.
func (s *server) answer(ctx context.Context, req request) error {
	defer s.busy.Store(false)
	timeout := MaxTimeout
	if t := time.Duration(req.Timeout) * time.Millisecond; req.Timeout > 0 && req.Timeout <= MaxTimeout.Milliseconds() {
		timeout = t
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	stopFlush := s.flushPeriodically()
	err := s.run(ctx, req)
	stopFlush()
	if errors.Is(err, errConnection) {
		return err
	}
	last := answer{Kind: kindEnd}
	if err != nil {
		last = refusal(ctx, err)
	}
	return s.send(last, true)
}

// errConnection marks an error of the connection, not of the request.
var errConnection = errors.New("admin connection failed")

// refusal is the frame that tells the client of err.
func refusal(ctx context.Context, err error) answer {
	var e *Error
	switch {
	case errors.As(err, &e):
		return answer{Kind: kindError, Code: e.Code, Text: e.Text}
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		return answer{Kind: kindError, Code: CodeTimeout, Text: err.Error()}
	}
	return answer{Kind: kindError, Code: CodeInternal, Text: err.Error()}
}

// run finds the command's handler; a panic of the node is answered, and ends no other connection.
func (s *server) run(ctx context.Context, req request) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = Errorf(CodeInternal, "%s: panic: %v\n%s", req.Command, r, debug.Stack())
		}
	}()
	if g, ok := s.node.(Gate); ok {
		if err := g.Allow(req.Command); err != nil {
			return err
		}
	}
	if req.Version != Version {
		return Errorf(CodeBadRequest, "admin protocol version %d is not spoken here, but %d", req.Version, Version)
	}
	handle, ok := handlers()[req.Command]
	if !ok {
		return Errorf(CodeUnsupported, "this node does not know the request %q", req.Command)
	}
	return handle(ctx, s.node, req.Args, s.row)
}

// row sends one row.
func (s *server) row(v any) error {
	body, err := marshal(v)
	if err != nil {
		return fmt.Errorf("encode row: %w", err)
	}
	return s.send(answer{Kind: kindRow, Row: body}, false)
}

func (s *server) send(a answer, flush bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.conn.SetWriteDeadline(time.Now().Add(frameTimeout)); err != nil {
		return fmt.Errorf("%w: %w", errConnection, err)
	}
	if err := writeFrame(s.out, a, MaxAnswer); err != nil {
		if errors.Is(err, errTooLarge) {
			return Errorf(CodeInternal, "%v", err)
		}
		return fmt.Errorf("%w: %w", errConnection, err)
	}
	if !flush {
		return nil
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errConnection, err)
	}
	return nil
}

// flushPeriodically lets rows out while the next ones are waited for, until stop is called.
func (s *server) flushPeriodically() (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		tick := time.NewTicker(flushAfter)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				s.mu.Lock()
				if s.out.Buffered() > 0 {
					_ = s.out.Flush() // bufio keeps the error for the next frame
				}
				s.mu.Unlock()
			}
		}
	}()
	return func() {
		close(done)
		wg.Wait()
	}
}
