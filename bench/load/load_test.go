package load

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"warren/bench/fakebroker"
	"warren/bench/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// TestLatencyCountsFromWhenAMessageWasDue: a broker that stops answering holds up all messages that were due meanwhile, sent
// or not, and each counts with its own wait.
func TestLatencyCountsFromWhenAMessageWasDue(t *testing.T) {
	b := fakebroker.Start(t, fakebroker.Faults{Pause: 10, PauseFor: 400 * time.Millisecond})
	g := New(t.Context())
	defer g.Close()
	p := g.Publish(PublisherConfig{URIs: []string{b.URI}, Queue: "q", Size: 30, Window: 1, Rate: 1000, Messages: 500})
	<-p.Done()
	if p.Err() != nil {
		t.Fatal(p.Err())
	}
	h := p.Cut()
	if h.Count() != 500 || h.Max() < 380*time.Millisecond {
		t.Errorf("%d latencies, the longest %v", h.Count(), h.Max())
	}
	// 400 of 500 were due during the pause, waiting 200 ms in the middle.
	if q := h.Quantile(0.5); q < 100*time.Millisecond {
		t.Errorf("half of the messages waited no longer than %v: the pause is omitted", q)
	}
}

// TestPacedConsumerMeasuresItsWait: with a prefetch of 2 the third delivery is let through by the first acknowledgement, and
// the wait counts from when that was due.
func TestPacedConsumerMeasuresItsWait(t *testing.T) {
	a := newAckPacer(ConsumerConfig{Prefetch: 2, Rate: 10}, nil)
	over := make(chan struct{})
	due := []time.Time{time.Unix(1, 0), time.Unix(2, 0)}
	for i, step := range []struct {
		ack  int // before the delivery; 0: none
		want int // the acknowledgement whose time counts; 0: none
	}{{0, 0}, {0, 0}, {1, 1}, {2, 2}} {
		if step.ack > 0 {
			if tag, ok := a.take(over, due[step.ack-1]); !ok || tag != uint64(step.ack) {
				t.Fatalf("acknowledgement %d is of delivery %d, %v", step.ack, tag, ok)
			}
		}
		asked, ok := a.delivered()
		if ok != (step.want > 0) || ok && !asked.Equal(due[step.want-1]) {
			t.Errorf("delivery %d was let through at %v, %v", i+1, asked, ok)
		}
	}
	if _, ok := a.delivered(); ok {
		t.Error("a delivery beyond the prefetch counts as waited for")
	}
	for range 3 {
		a.take(over, due[0])
	}
	close(over)
	if _, ok := a.take(over, due[0]); ok {
		t.Error("there is a sixth delivery to acknowledge")
	}
}

func TestPacedConsumerTakesEverything(t *testing.T) {
	b := fakebroker.Start(t, fakebroker.Faults{})
	g := New(t.Context())
	defer g.Close()
	fill := g.Publish(PublisherConfig{URIs: []string{b.URI}, Queue: "q", Size: 30, Window: 100, Messages: 100})
	<-fill.Done()
	c := g.Consume(ConsumerConfig{URIs: []string{b.URI}, Queue: "q", Prefetch: 10, AckEvery: 1, Rate: 200})
	wait(t, "all delivered", func() bool { return c.Count() == 100 })
	if err := g.Drain(t.Context(), time.Second); err != nil {
		t.Error(err)
	}
}

func TestWindowIsNeverExceeded(t *testing.T) {
	b := fakebroker.Start(t, fakebroker.Faults{Silent: 1})
	g := New(t.Context())
	defer g.Close()
	p := g.Publish(PublisherConfig{URIs: []string{b.URI}, Queue: "q", Size: 30, Window: 7})
	wait(t, "the window is used", func() bool { return b.Published() == 7 })
	if err := g.Run(t.Context(), 100*time.Millisecond); err != nil {
		t.Error(err)
	}
	if n := p.Book().Counts().Sent; n != 7 {
		t.Errorf("%d sent with a window of 7 and no confirm", n)
	}
	if err := g.StopPublishers(t.Context(), 50*time.Millisecond); err == nil {
		t.Error("publishers with unconfirmed messages end well")
	}
}

func TestConnectionLost(t *testing.T) {
	b := fakebroker.Start(t, fakebroker.Faults{HangUp: 5})
	g := New(t.Context())
	defer g.Close()
	p := g.Publish(PublisherConfig{URIs: []string{b.URI}, Queue: "q", Size: 30, Window: 2, Messages: 20})
	<-p.Done()
	if p.Err() == nil || errors.Is(p.Err(), ledger.ErrTwice) {
		t.Errorf("without Reconnect: %v", p.Err())
	}
	if err := g.Failed(); err == nil {
		t.Error("the group does not say that a client failed")
	}
}

func TestBigBodiesSpanFrames(t *testing.T) {
	b := fakebroker.Start(t, fakebroker.Faults{})
	g := New(t.Context())
	defer g.Close()
	c := g.Consume(ConsumerConfig{URIs: []string{b.URI}, Queue: "q", AckEvery: 1})
	p := g.Publish(PublisherConfig{URIs: []string{b.URI}, Queue: "q", Size: 300_000, Window: 3, Messages: 10, Persistent: true})
	<-p.Done()
	if err := errors.Join(p.Err(), g.Drain(t.Context(), time.Second)); err != nil {
		t.Fatal(err)
	}
	if c.Count() != 10 {
		t.Errorf("%d deliveries", c.Count())
	}
}

func TestPacer(t *testing.T) {
	p := pacer{rate: 100}
	if n, first := p.due(5); n != 1 || first != 0 {
		t.Fatalf("at the start %d from %d are due", n, first)
	}
	p.start = p.start.Add(-time.Second) // a second has passed
	if n, first := p.due(5); n != 5 || first != 1 || !p.at(1).Equal(p.start.Add(10*time.Millisecond)) {
		t.Errorf("%d from %d are due, the first at %v", n, first, p.at(1).Sub(p.start))
	}
	if n, _ := p.due(1000); n < 90 || n > 110 {
		t.Errorf("%d are due after a second at 100/s", n+6)
	}
	if p.late < 900*time.Millisecond {
		t.Errorf("the generator's own lateness is %v", p.late)
	}
}
