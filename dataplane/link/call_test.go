package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

func TestCall(t *testing.T) {
	a, b := pair(t, nil)
	b.HandleCall("echo", func(_ context.Context, from PeerID, body []byte) ([]byte, error) {
		return append([]byte(from.Node+" "), body...), nil
	})
	b.HandleCall("fail", func(context.Context, PeerID, []byte) ([]byte, error) { return nil, errors.New("no luck") })
	b.HandleCall("code", func(context.Context, PeerID, []byte) ([]byte, error) {
		return nil, fmt.Errorf("wrapped: %w", &CallError{Code: CodeUser + 7, Text: "mine"})
	})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			body := bytes.Repeat([]byte{byte(i)}, i*1000)
			got, err := a.Call(t.Context(), "b@h", "echo", body)
			if err != nil || !bytes.Equal(got, append([]byte("a@h "), body...)) {
				t.Errorf("call %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
	for _, c := range []struct {
		method, text string
		code         int
	}{{"fail", "no luck", CodeFailed}, {"code", "mine", CodeUser + 7}, {"nothing", "unknown method", CodeUnknownMethod}} {
		_, err := a.Call(t.Context(), "b@h", c.method, nil)
		var ce *CallError
		if !errors.As(err, &ce) || ce.Code != c.code || ce.Text != c.text || ce.Node != "b@h" {
			t.Errorf("%s: %v", c.method, err)
		}
	}
	if got, err := b.Call(t.Context(), "b@h", "echo", []byte("self")); err != nil || string(got) != "b@h self" {
		t.Errorf("call of the own node: %q, %v", got, err)
	}
	if _, err := a.Call(t.Context(), "x@h", "echo", nil); !errors.Is(err, ErrNotConnected) || !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("unknown node: %v", err)
	}
}

// The caller's deadline reaches the handler, and a link that breaks ends both sides.
func TestCallEnds(t *testing.T) {
	a, b := pair(t, nil)
	entered, ended := make(chan bool, 2), make(chan error, 2)
	b.HandleCall("wait", func(ctx context.Context, _ PeerID, _ []byte) ([]byte, error) {
		_, has := ctx.Deadline()
		entered <- has
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30_000_000)
	defer cancel()
	if _, err := a.Call(ctx, "b@h", "wait", nil); err == nil {
		t.Error("a call without answer returned")
	}
	if !<-entered || !errors.Is(<-ended, context.DeadlineExceeded) {
		t.Error("the deadline did not reach the handler")
	}
	result := make(chan error, 1)
	go func() {
		_, err := a.Call(t.Context(), "b@h", "wait", nil)
		result <- err
	}()
	<-entered
	a.Reset("b@h")
	if err := <-result; !errors.Is(err, ErrNotConnected) {
		t.Errorf("the link broke: %v", err)
	}
	if !errors.Is(<-ended, context.Canceled) {
		t.Error("the handler was not told")
	}
}

func TestCallsAreBounded(t *testing.T) {
	a, b := pair(t, func(c *Config) { c.MaxHandlers, c.MaxCalls = 2, 3 })
	release := make(chan struct{})
	var mu sync.Mutex
	running, most := 0, 0
	b.HandleCall("hold", func(context.Context, PeerID, []byte) ([]byte, error) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		<-release
		mu.Lock()
		running--
		mu.Unlock()
		return nil, nil
	})
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	results := make(chan error, 10)
	for range 10 {
		wg.Go(func() {
			_, err := a.Call(ctx, "b@h", "hold", nil)
			results <- err
		})
	}
	for range 7 { // three wait for an answer, the other seven are refused
		if err := <-results; !errors.Is(err, ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
	}
	close(release)
	wg.Wait()
	for range 3 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if most > 2 {
		t.Errorf("%d handlers ran at once", most)
	}
}
