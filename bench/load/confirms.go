package load

import (
	"context"
	"fmt"
	"time"

	"warren/bench/hist"
	"warren/bench/ledger"
	"warren/bench/wire"
)

// readConfirms reads until the connection ends. base is how many messages were sent before this connection: its delivery
// tags count from there.
func (p *Publisher) readConfirms(conn *wire.Conn, base uint64) error {
	each := func(seq uint64) {
		due := time.Unix(0, p.due[seq&uint64(len(p.due)-1)])
		d := p.now.Sub(due)
		p.latency.Record(d)
		p.series.Record(p.now, d)
		p.settled.Add(1)
		if !p.mark.IsZero() && p.afterMark == stallNever && due.After(p.mark) {
			p.afterMark = p.now.Sub(p.mark)
		}
	}
	for {
		e, err := conn.Next()
		if err != nil {
			return err
		}
		written := p.written.Load() // makes the times in p.due visible here
		if e.Kind != wire.Ack && e.Kind != wire.Nack {
			return fmt.Errorf("the broker returned a message of queue %q as unroutable", p.cfg.Queue)
		}
		if base+e.Tag > written {
			return fmt.Errorf("confirm of delivery tag %d, when %d were sent: %w", e.Tag, written-base, ledger.ErrNeverPublished)
		}
		p.mu.Lock()
		p.now = time.Now()
		err = p.book.Settle(base+e.Tag, e.Multiple, e.Kind == wire.Ack, each)
		p.mu.Unlock()
		if err != nil {
			return err
		}
		p.low.Store(p.book.Low())
		if !conn.Buffered() {
			select {
			case p.wake <- struct{}{}:
			default:
			}
		}
	}
}

// Mark notes a moment: AfterMark then tells how long after it the first confirm came of a message that was due later.
func (p *Publisher) Mark(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mark, p.afterMark = at, stallNever
}

// AfterMark is how long it took from the mark to the first confirm of a later message; ok is false if none has come.
func (p *Publisher) AfterMark() (d time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.afterMark, p.afterMark != stallNever
}

// Stop makes the publisher send nothing more. It ends when all that is under way is settled.
func (p *Publisher) Stop() { close(p.stop) }

// Done is closed when the publisher has ended.
func (p *Publisher) Done() <-chan struct{} { return p.done }

// Err is why it ended, after Done.
func (p *Publisher) Err() error { return p.err }

// Book is its book.
func (p *Publisher) Book() *ledger.Book { return p.book }

// Cut starts the latencies anew and gives those up to now.
func (p *Publisher) Cut() *hist.Hist {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.latency
	p.latency = new(hist.Hist)
	return h
}

// Series are the worst latencies over time, after Done.
func (p *Publisher) Series() *hist.Series { return p.series }

// Late is the longest that the generator itself was behind its schedule without the broker holding it back, after Done. It is
// part of the latencies: where it is not small against them, the machine was too busy to measure.
func (p *Publisher) Late() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.late
}

// Reconnects is how often its connection was lost.
func (p *Publisher) Reconnects() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reconnects
}

// oldestDue is when the oldest unsettled message was due; ok is false if all is settled.
func (p *Publisher) oldestDue() (at time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	low, written := p.book.Low(), p.written.Load()
	if low >= written {
		return at, false
	}
	return time.Unix(0, p.due[(low+1)&uint64(len(p.due)-1)]), true
}

// waitClosed waits for a channel.
func waitClosed(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
