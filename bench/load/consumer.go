package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"warren/bench/hist"
	"warren/bench/ledger"
	"warren/bench/wire"
)

// ConsumerConfig says what a consumer does.
type ConsumerConfig struct {
	URIs      []string
	Queue     string
	Prefetch  uint16 // 0: without limit; a paced consumer needs one
	AckEvery  int    // one acknowledgement (multiple) for so many; 1: one each
	AutoAck   bool
	Rate      float64 // acknowledgements per second; 0: at once
	Reconnect bool
}

// Consumer is a running consumer.
type Consumer struct {
	cfg    ConsumerConfig
	books  *books
	origin time.Time
	stop   chan struct{}
	done   chan struct{}
	err    error

	count atomic.Uint64 // deliveries of its own, doubled ones included
	news  atomic.Uint64 // changes of the books: first deliveries

	mu        sync.Mutex // what follows
	endToEnd  *hist.Hist
	wait      *hist.Hist // paced: from an acknowledgement that gives credit until the delivery that it lets through
	series    *hist.Series
	mark      time.Time
	afterMark time.Duration
}

// startConsumer starts one. It ends by itself only with an error.
func startConsumer(ctx context.Context, cfg ConsumerConfig, books *books, origin time.Time) *Consumer {
	c := &Consumer{
		cfg: cfg, books: books, origin: origin, stop: make(chan struct{}), done: make(chan struct{}), endToEnd: new(hist.Hist),
		wait: new(hist.Hist), series: hist.NewSeries(origin, seriesSlice), afterMark: stallNever,
	}
	go func() { // ended by Stop or ctx, waited for by Wait
		defer close(c.done)
		c.err = c.run(ctx)
	}()
	return c
}

func (c *Consumer) run(ctx context.Context) error {
	for attempt := 0; ; attempt++ {
		conn, err := dial(ctx, c.cfg.URIs, attempt, c.cfg.Reconnect && attempt > 0, c.stop)
		if err != nil {
			return fmt.Errorf("consumer of %q: %w", c.cfg.Queue, err)
		}
		if conn == nil {
			return nil
		}
		err = c.session(ctx, conn)
		if c.stopped() {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !c.cfg.Reconnect || errors.Is(err, ledger.ErrNeverPublished) {
			return fmt.Errorf("consumer of %q: %w", c.cfg.Queue, err)
		}
		select { // a queue that is just moving refuses consumers for a moment
		case <-c.stop:
			return nil
		case <-time.After(redialEvery):
		}
	}
}

func (c *Consumer) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

func (c *Consumer) session(ctx context.Context, conn *wire.Conn) error {
	if err := conn.Consume(c.cfg.Queue, c.cfg.Prefetch, c.cfg.AutoAck); err != nil {
		return errors.Join(err, conn.Close())
	}
	over := make(chan struct{})
	var side sync.WaitGroup
	side.Go(func() {
		select {
		case <-c.stop:
		case <-ctx.Done():
		case <-over:
		}
		_ = conn.Close() // ends the reading; that it was this is known from stop and ctx
	})
	var acks *ackPacer
	if c.cfg.Rate > 0 {
		acks = newAckPacer(c.cfg, conn)
		side.Go(func() { acks.run(over) })
	}
	err := c.read(conn, acks)
	close(over)
	side.Wait()
	return err
}

func (c *Consumer) read(conn *wire.Conn, acks *ackPacer) error {
	unacked := 0
	for {
		e, err := conn.Next()
		if err != nil {
			return err
		}
		if e.Kind != wire.Delivery {
			return fmt.Errorf("the broker cancelled the consumer (event %d)", e.Kind)
		}
		if err := c.deliver(e, acks); err != nil {
			return err
		}
		if acks != nil || c.cfg.AutoAck {
			continue
		}
		if unacked++; unacked >= c.cfg.AckEvery {
			conn.Ack(e.Tag, c.cfg.AckEvery > 1)
			unacked = 0
		}
		if conn.Full() || !conn.Buffered() {
			if err := conn.Flush(); err != nil {
				return err
			}
		}
	}
}

func (c *Consumer) deliver(e wire.Event, acks *ackPacer) error {
	h, err := ledger.ParseHead(e.Body)
	if err != nil {
		return err
	}
	book := c.books.get(h.Book)
	if book == nil {
		return fmt.Errorf("a delivery of publisher %d: %w", h.Book, ledger.ErrNeverPublished)
	}
	first, err := book.Deliver(h.Seq, e.Redelivered)
	if err != nil {
		return err
	}
	now := time.Now()
	c.count.Add(1)
	if first {
		c.news.Add(1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endToEnd.Record(now.Sub(h.At))
	if acks != nil {
		if asked, ok := acks.delivered(); ok {
			c.wait.Record(now.Sub(asked))
			c.series.Record(now, now.Sub(asked))
		}
	} else {
		c.series.Record(now, now.Sub(h.At))
	}
	if !c.mark.IsZero() && c.afterMark == stallNever && h.At.After(c.mark) {
		c.afterMark = now.Sub(c.mark)
	}
	return nil
}

// Mark and AfterMark are as a Publisher's, for the first delivery.
func (c *Consumer) Mark(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mark, c.afterMark = at, stallNever
}

// AfterMark is how long it took from the mark to the first delivery of a message that was due later.
func (c *Consumer) AfterMark() (d time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.afterMark, c.afterMark != stallNever
}

// Stop ends the consumer. It is called at most once.
func (c *Consumer) Stop() { close(c.stop) }

// Done is closed when it has ended.
func (c *Consumer) Done() <-chan struct{} { return c.done }

// Err is why it ended, after Done.
func (c *Consumer) Err() error { return c.err }

// News counts first deliveries.
func (c *Consumer) News() uint64 { return c.news.Load() }

// Count counts all deliveries.
func (c *Consumer) Count() uint64 { return c.count.Load() }

// Cut starts the latencies anew and gives those up to now: from the publisher to here and, if paced, the waits for deliveries.
func (c *Consumer) Cut() (endToEnd, wait *hist.Hist) {
	c.mu.Lock()
	defer c.mu.Unlock()
	endToEnd, wait = c.endToEnd, c.wait
	c.endToEnd, c.wait = new(hist.Hist), new(hist.Hist)
	return endToEnd, wait
}

// Series are the worst waits over time (from the publisher to here if it is not paced), after Done.
func (c *Consumer) Series() *hist.Series { return c.series }
