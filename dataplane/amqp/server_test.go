package amqp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	rabbit "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is how long a test waits for what should come at once.
const limit = 10 * time.Second

// serve starts a server on loopback; at the end of the test it is shut down and must leave nothing behind.
func serve(t testing.TB, b *fakeBroker, cfg Config) (*Server, string) {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if cfg.CloseTimeout == 0 {
		cfg.CloseTimeout = 2 * time.Second
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(cfg, b)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := s.Shutdown(ctx, "the test is over"); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
		if b.sessions != 0 || b.channels != 0 {
			t.Errorf("%d sessions and %d channels were not closed", b.sessions, b.channels)
		}
	})
	return s, l.Addr().String()
}

func dial(t testing.TB, addr string) *rabbit.Connection {
	t.Helper()
	c, err := rabbit.Dial("amqp://guest:guest@" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func open(t testing.TB, c *rabbit.Connection) *rabbit.Channel {
	t.Helper()
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func declare(t testing.TB, ch *rabbit.Channel, name string) {
	t.Helper()
	must(ch.QueueDeclare(name, false, false, false, false, nil))(t)
}

func publish(t testing.TB, ch *rabbit.Channel, exchange, key string, p rabbit.Publishing) {
	t.Helper()
	if err := ch.PublishWithContext(t.Context(), exchange, key, false, false, p); err != nil {
		t.Fatal(err)
	}
}

// next receives from c.
func next[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-c:
		if !ok {
			t.Fatalf("%s: the channel is closed", what)
		}
		return v
	case <-time.After(limit):
		t.Fatalf("%s: nothing came", what)
	}
	panic("unreachable")
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

func wantClosed(t testing.TB, what string, c <-chan *rabbit.Error, code int, reason string) {
	t.Helper()
	e := next(t, what, c)
	if e.Code != code || e.Reason != reason {
		t.Errorf("%s: got %d %q, want %d %q", what, e.Code, e.Reason, code, reason)
	}
}
