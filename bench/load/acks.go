package load

import (
	"sync"
	"time"

	"warren/bench/wire"
)

// ackPacer acknowledges at a fixed rate, the oldest delivery first. With prefetch p the acknowledgement of delivery i lets
// delivery i+p through: the time in between is what the consumer waits for a delivery. The schedule goes on while it waits,
// so that a stall counts for every delivery that it held up.
type ackPacer struct {
	cfg  ConsumerConfig
	conn *wire.Conn

	mu    sync.Mutex
	got   uint64      // deliveries of this connection
	acked uint64      // of these
	asked []time.Time // when acknowledgement i was due, by i modulo prefetch
	more  chan struct{}
}

func newAckPacer(cfg ConsumerConfig, conn *wire.Conn) *ackPacer {
	return &ackPacer{cfg: cfg, conn: conn, asked: make([]time.Time, cfg.Prefetch), more: make(chan struct{}, 1)}
}

// delivered notes a delivery and gives when the acknowledgement was due that let it through, if one did.
func (a *ackPacer) delivered() (asked time.Time, ok bool) {
	a.mu.Lock()
	a.got++
	n, p := a.got, uint64(len(a.asked))
	if n > p && n-p <= a.acked { // else the broker does not keep to the prefetch, and nothing was waited for
		asked, ok = a.asked[n%p], true
	}
	a.mu.Unlock()
	select {
	case a.more <- struct{}{}:
	default:
	}
	return asked, ok
}

// run acknowledges until over is closed or the connection fails (which its reader sees too).
func (a *ackPacer) run(over <-chan struct{}) {
	pace := pacer{rate: a.cfg.Rate}
	for {
		select {
		case <-over:
			return
		default:
		}
		n, first := pace.due(1)
		if n == 0 {
			pace.sleep()
			continue
		}
		tag, ok := a.take(over, pace.at(first))
		if !ok {
			return
		}
		a.conn.Ack(tag, false)
		if a.conn.Flush() != nil {
			return
		}
	}
}

// take waits until there is a delivery to acknowledge and notes when that was due. The tags of a connection count its
// deliveries.
func (a *ackPacer) take(over <-chan struct{}, due time.Time) (tag uint64, ok bool) {
	for {
		a.mu.Lock()
		if a.acked < a.got {
			a.acked++
			tag = a.acked
			a.asked[tag%uint64(len(a.asked))] = due
			a.mu.Unlock()
			return tag, true
		}
		a.mu.Unlock()
		select {
		case <-over:
			return 0, false
		case <-a.more:
		}
	}
}
