package load

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"warren/bench/hist"
	"warren/bench/ledger"
	"warren/bench/wire"
)

const (
	sendBatch   = 64                     // messages that are due at once and get one reading of the clock
	redialEvery = 5 * time.Millisecond   // between attempts to connect again
	redialLimit = 120 * time.Second      // after it a client gives up
	seriesSlice = 10 * time.Millisecond  // of the latencies over time
	stallNever  = time.Duration(1 << 62) // an answer that has not come
)

// PublisherConfig says what a publisher does.
type PublisherConfig struct {
	URIs       []string // of which the first is used, and the next ones when a connection is lost
	Queue      string
	Size       int // bytes, at least ledger.HeadSize
	Persistent bool
	Window     int     // unconfirmed messages under way at most
	Rate       float64 // messages per second; 0: as fast as the window allows
	Reconnect  bool    // go on after the connection is lost
	Messages   uint64  // stop after so many; 0: until Stop
}

// Publisher is a running publisher.
type Publisher struct {
	cfg    PublisherConfig
	book   *ledger.Book
	origin time.Time
	stop   chan struct{}
	wake   chan struct{} // confirms came in
	done   chan struct{}
	err    error

	due     []int64 // UnixNano, by number modulo its length, which is a power of two
	written atomic.Uint64
	settled atomic.Uint64
	low     atomic.Uint64

	mu         sync.Mutex // what follows
	latency    *hist.Hist
	series     *hist.Series
	late       time.Duration // the longest that the generator itself was behind its schedule without being held back
	mark       time.Time
	afterMark  time.Duration
	reconnects int
	now        time.Time // of the confirm that is being settled
}

// startPublisher starts one. It ends by itself only with an error.
func startPublisher(ctx context.Context, cfg PublisherConfig, book *ledger.Book, origin time.Time) *Publisher {
	span := 1 << bits.Len(uint(8*cfg.Window))
	p := &Publisher{
		cfg: cfg, book: book, origin: origin, stop: make(chan struct{}), wake: make(chan struct{}, 1), done: make(chan struct{}),
		due: make([]int64, span), latency: new(hist.Hist), series: hist.NewSeries(origin, seriesSlice), afterMark: stallNever,
	}
	go func() { // ended by Stop or ctx, waited for by Wait
		defer close(p.done)
		p.err = p.run(ctx)
	}()
	return p
}

func (p *Publisher) run(ctx context.Context) error {
	pace := pacer{rate: p.cfg.Rate}
	for attempt := 0; ; attempt++ {
		conn, err := dial(ctx, p.cfg.URIs, attempt, p.cfg.Reconnect && attempt > 0, p.stop)
		if err != nil {
			return fmt.Errorf("publisher %d: %w", p.book.ID, err)
		}
		if conn == nil {
			return nil // stopped while it was away
		}
		err = p.session(ctx, conn, &pace)
		p.mu.Lock()
		p.late = pace.late
		p.mu.Unlock()
		if err == nil {
			return nil
		}
		p.settled.Add(p.book.GiveUp())
		p.low.Store(p.book.Low())
		if !p.cfg.Reconnect || errors.Is(err, ledger.ErrNeverPublished) || errors.Is(err, ledger.ErrTwice) || ctx.Err() != nil {
			return fmt.Errorf("publisher %d: %w", p.book.ID, err)
		}
		p.mu.Lock()
		p.reconnects++
		p.mu.Unlock()
	}
}

// dial connects to one of the URIs. With again it tries until it succeeds or is stopped (then it gives nil).
func dial(ctx context.Context, uris []string, attempt int, again bool, stop <-chan struct{}) (*wire.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, redialLimit)
	defer cancel()
	for i := attempt; ; i++ {
		conn, err := wire.Dial(ctx, uris[i%len(uris)])
		if err == nil || !again {
			return conn, err
		}
		select {
		case <-stop:
			return nil, nil
		case <-ctx.Done():
			return nil, err
		case <-time.After(redialEvery):
		}
	}
}

// session publishes over one connection until it is stopped and all is settled, or something fails.
func (p *Publisher) session(ctx context.Context, conn *wire.Conn, pace *pacer) error {
	if err := conn.Confirm(); err != nil {
		return errors.Join(err, conn.Close())
	}
	base := p.written.Load()
	read := make(chan error, 1)
	go func() { read <- p.readConfirms(conn, base) }() // ends when conn is closed, below
	err := p.write(ctx, conn, pace, read)
	closed := conn.Close()
	if err == nil {
		<-read
		return closed
	}
	var failed *readError
	if !errors.As(err, &failed) {
		if other := <-read; other != nil && !conn.Closed() {
			err = errors.Join(err, other)
		}
	}
	return err
}

// readError carries what the reader found.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

func (p *Publisher) write(ctx context.Context, conn *wire.Conn, pace *pacer, read <-chan error) error {
	template := conn.Template(p.cfg.Queue, p.cfg.Size, p.cfg.Persistent)
	var head []byte
	stop := p.stop
	for stopping := false; ; {
		select {
		case err := <-read:
			return &readError{err}
		case <-ctx.Done():
			return ctx.Err()
		case <-stop:
			stopping, stop = true, nil
		default:
		}
		sent, settled := p.written.Load(), p.settled.Load()
		free := min(uint64(p.cfg.Window)-(sent-settled), uint64(len(p.due))-(sent-p.low.Load()))
		if stopping || p.cfg.Messages > 0 && sent >= p.cfg.Messages {
			if sent == settled {
				return conn.Flush()
			}
			free = 0
		} else if p.cfg.Messages > 0 {
			free = min(free, p.cfg.Messages-sent)
		}
		if free == 0 {
			pace.held = true
			if err := p.waitConfirms(ctx, conn, stop, read); err != nil {
				return err
			}
			continue
		}
		n, first := pace.due(min(free, sendBatch))
		if n == 0 {
			if err := conn.Flush(); err != nil {
				return err
			}
			pace.sleep()
			continue
		}
		seq := p.book.Send(n)
		for i := range n {
			at := pace.at(first + i)
			p.due[(seq+i)&uint64(len(p.due)-1)] = at.UnixNano()
			head = ledger.Head{Book: p.book.ID, Seq: seq + i, At: at}.Append(head[:0])
			conn.Publish(template, head)
		}
		p.written.Add(n)
		if conn.Full() || free == n {
			if err := conn.Flush(); err != nil {
				return err
			}
		}
	}
}

// waitConfirms writes what is gathered and waits until a confirm comes in.
func (p *Publisher) waitConfirms(ctx context.Context, conn *wire.Conn, stop <-chan struct{}, read <-chan error) error {
	if err := conn.Flush(); err != nil {
		return err
	}
	select {
	case <-p.wake:
	case <-stop: // it stays closed, and the caller sees it again
	case err := <-read:
		return &readError{err}
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
