package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"warren/bench/hist"
	"warren/bench/ledger"
)

// Plan is a load: what its publishers and consumers do.
type Plan struct {
	Publishers []PublisherConfig
	Consumers  []ConsumerConfig
}

// Group runs a plan. Its methods are for one goroutine.
type Group struct {
	Publishers []*Publisher
	Consumers  []*Consumer
	Origin     time.Time // from which series count

	books *books
	ctx   context.Context

	stopped bool
	cancel  context.CancelFunc
}

// ErrLost: confirmed messages were never delivered.
var ErrLost = errors.New("confirmed messages were lost")

// ErrClaim: the books do not bear out what the measurement would claim.
var ErrClaim = errors.New("fewer messages were confirmed than counted")

// ErrRefused: the broker refused messages (basic.nack) where none may be refused.
var ErrRefused = errors.New("the broker refused messages")

// books are a group's, by their ids. Consumers look them up while more are opened.
type books struct {
	mu   sync.RWMutex
	list []*ledger.Book
}

func (b *books) open() *ledger.Book {
	b.mu.Lock()
	defer b.mu.Unlock()
	book := ledger.New(uint32(len(b.list)))
	b.list = append(b.list, book)
	return book
}

// get gives nil if there is none.
func (b *books) get(id uint32) *ledger.Book {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if int(id) >= len(b.list) {
		return nil
	}
	return b.list[id]
}

func (b *books) all() []*ledger.Book {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.list
}

// New makes an empty group. Close ends it.
func New(ctx context.Context) *Group {
	ctx, cancel := context.WithCancel(ctx)
	return &Group{Origin: time.Now(), ctx: ctx, cancel: cancel, books: new(books)}
}

// Publish adds a publisher.
func (g *Group) Publish(cfg PublisherConfig) *Publisher {
	p := startPublisher(g.ctx, cfg, g.books.open(), g.Origin)
	g.Publishers = append(g.Publishers, p)
	return p
}

// Consume adds a consumer.
func (g *Group) Consume(cfg ConsumerConfig) *Consumer {
	c := startConsumer(g.ctx, cfg, g.books, g.Origin)
	g.Consumers = append(g.Consumers, c)
	return c
}

// Start makes a group of all consumers and publishers of a plan.
func Start(ctx context.Context, plan Plan) *Group {
	g := New(ctx)
	for _, c := range plan.Consumers {
		g.Consume(c)
	}
	for _, p := range plan.Publishers {
		g.Publish(p)
	}
	return g
}

// Counts are the totals of all books.
func (g *Group) Counts() ledger.Counts {
	var sum ledger.Counts
	for _, b := range g.books.all() {
		sum = sum.Add(b.Counts())
	}
	return sum
}

// Failed is the first error of a publisher or consumer that has ended, nil if all are well.
func (g *Group) Failed() error {
	for _, p := range g.Publishers {
		select {
		case <-p.Done():
			if p.Err() != nil {
				return p.Err()
			}
		default:
		}
	}
	for _, c := range g.Consumers {
		select {
		case <-c.Done():
			if c.Err() != nil {
				return c.Err()
			}
		default:
		}
	}
	return nil
}

const lookEvery = 50 * time.Millisecond

// Run lets the load run for a time. Error: a client failed, or ctx ended.
func (g *Group) Run(ctx context.Context, d time.Duration) error {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-end.C:
			return g.Failed()
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := g.Failed(); err != nil {
				return err
			}
		}
	}
}

// Cut starts all latencies anew and gives those up to now.
func (g *Group) Cut() (confirms, endToEnd, waits *hist.Hist) {
	confirms, endToEnd, waits = new(hist.Hist), new(hist.Hist), new(hist.Hist)
	for _, p := range g.Publishers {
		confirms.Add(p.Cut())
	}
	for _, c := range g.Consumers {
		e, w := c.Cut()
		endToEnd.Add(e)
		waits.Add(w)
	}
	return confirms, endToEnd, waits
}

// StopPublishers stops them and waits until all is settled, at most for limit.
func (g *Group) StopPublishers(ctx context.Context, limit time.Duration) error {
	if g.stopped {
		return nil
	}
	g.stopped = true
	for _, p := range g.Publishers {
		p.Stop()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, p := range g.Publishers {
		if err := waitClosed(ctx, p.Done()); err != nil {
			if at, ok := p.oldestDue(); ok {
				return fmt.Errorf("%d messages of publisher %d are not confirmed, the oldest since %v: %w", p.book.Outstanding(), p.book.ID,
					time.Since(at).Round(time.Millisecond), err)
			}
			return fmt.Errorf("publisher %d does not end: %w", p.book.ID, err)
		}
		if p.Err() != nil {
			return p.Err()
		}
	}
	return nil
}

// Drain waits until every confirmed message was delivered. Error: nothing new came for idle and some are missing (ErrLost).
func (g *Group) Drain(ctx context.Context, idle time.Duration) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last, since := g.news(), time.Now()
	for {
		lost, example := uint64(0), ""
		for _, b := range g.books.all() {
			if _, n, seq := b.Audit(); n > 0 {
				lost += n
				example = fmt.Sprintf("number %d of publisher %d", seq, b.ID)
			}
		}
		if lost == 0 {
			return nil
		}
		if n := g.news(); n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) > idle {
			return fmt.Errorf("%d messages, for example %s: %w", lost, example, ErrLost)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d confirmed messages are not delivered yet: %w", lost, ctx.Err())
		case <-tick.C:
			if err := g.Failed(); err != nil {
				return err
			}
		}
	}
}

func (g *Group) news() (n uint64) {
	for _, c := range g.Consumers {
		n += c.News()
	}
	return n
}

// Refused is an error if the broker refused messages.
func (g *Group) Refused() error {
	if c := g.Counts(); c.Nacked > 0 {
		return fmt.Errorf("%d of %d: %w", c.Nacked, c.Sent, ErrRefused)
	}
	return nil
}

// Verify holds what is claimed against the messages themselves. Error: ErrClaim.
func (g *Group) Verify(claimed uint64) error {
	var confirmed uint64
	for _, b := range g.books.all() {
		n, _, _ := b.Audit()
		confirmed += n
	}
	c := g.Counts()
	switch {
	case confirmed < claimed:
		return fmt.Errorf("%d are claimed, %d were confirmed: %w", claimed, confirmed, ErrClaim)
	case confirmed != c.Confirmed:
		return fmt.Errorf("%d were counted, %d are marked as confirmed: %w", c.Confirmed, confirmed, ErrClaim)
	}
	return nil
}

// Close ends everything that still runs and waits for it.
func (g *Group) Close() {
	g.cancel()
	for _, p := range g.Publishers {
		<-p.Done()
	}
	for _, c := range g.Consumers {
		<-c.Done()
	}
}
