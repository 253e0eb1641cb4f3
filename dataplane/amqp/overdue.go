package amqp

import (
	"maps"
	"slices"
	"time"
)

// tickInterval is how often channels are looked at for deliveries that were not acknowledged in time, as RabbitMQ does; a
// timeout that is not much longer has its own.
const tickInterval = time.Minute

// mark is the highest delivery tag that a channel had given by a moment.
type mark struct {
	at  time.Time
	tag uint64
}

// watchDeliveries closes channels with a delivery that has waited for its acknowledgement for ConsumerTimeout, until stop.
func (s *Server) watchDeliveries(stop <-chan struct{}) {
	timeout := s.cfg.ConsumerTimeout
	tick := time.NewTicker(max(min(timeout/4, tickInterval), time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		s.mu.Lock()
		conns := s.snapshot()
		s.mu.Unlock()
		now := time.Now()
		for _, c := range conns {
			c.mu.Lock()
			channels := slices.Collect(maps.Keys(c.present))
			c.mu.Unlock()
			for _, ch := range channels {
				ch.checkOverdue(now, timeout)
			}
		}
	}
}

// checkOverdue fails the channel if a delivery is overdue. Deliveries have no time of their own; what was given by each look is
// enough: a channel is closed between one timeout and one and a half after the delivery.
func (ch *channel) checkOverdue(now time.Time, timeout time.Duration) {
	if !ch.out.overdue(now, timeout) {
		return
	}
	ch.conn.log.Warn("a channel is closed: its client did not acknowledge a delivery in time", "channel", ch.info.Number, "timeout", timeout)
	ch.Fail(Errorf(PreconditionFailed, "delivery acknowledgement on channel %d timed out. Timeout value used: %d ms. "+
		"This timeout value can be configured, see consumers doc guide to learn more", ch.info.Number, timeout.Milliseconds()))
}

func (o *outbox) overdue(now time.Time, timeout time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	oldest, ok := o.unacked.oldest()
	if !ok {
		o.marks = nil
		return false
	}
	o.marks = slices.DeleteFunc(o.marks, func(m mark) bool { return m.tag < oldest })
	if len(o.marks) > 0 && now.Sub(o.marks[0].at) >= timeout {
		return true
	}
	if n := len(o.marks); n == 0 || o.marks[n-1].tag < o.nextTag { // so there are no more marks than looks in a timeout
		o.marks = append(o.marks, mark{now, o.nextTag})
	}
	return false
}

// oldest is the lowest tag that waits.
func (u *unacked) oldest() (tag uint64, ok bool) {
	for i := range u.entries {
		if !u.entries[i].settled {
			return u.entries[i].tag, true
		}
	}
	return 0, false
}
