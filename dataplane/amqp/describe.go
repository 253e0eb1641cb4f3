package amqp

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// ConnectionStatus is what a connection is at this moment.
type ConnectionStatus struct {
	ConnectionInfo
	Session   Session // that Backend.Open returned
	State     string  // running, blocked (it published during an alarm) or closing
	Connected time.Time
	Traffic   Traffic
	Channels  []ChannelStatus // by ascending number
}

// ChannelStatus is what a channel is at this moment. The figures are not taken at exactly the same time.
type ChannelStatus struct {
	ChannelInfo
	Transactional, Confirm   bool
	Consumers                int
	Unacked                  int // deliveries that are not settled
	Unconfirmed              int
	Uncommitted              int // publishes of an open transaction
	AcksUncommitted          int // deliveries settled in an open transaction
	Prefetch, GlobalPrefetch uint16
}

// shown is what others may see of a channel's state; the channel's goroutine writes it.
type shown struct {
	transactional, confirm atomic.Bool
	prefetch, global       atomic.Uint32
	publishes, acks        atomic.Int64
}

func (s *shown) transaction(t *tx) {
	acks := 0
	for _, one := range t.settled {
		acks += len(one.entries)
	}
	s.publishes.Store(int64(len(t.publishes)))
	s.acks.Store(int64(acks))
}

// Describe is the status of all connections that have opened a vhost, in no order.
func (s *Server) Describe() []ConnectionStatus {
	s.mu.Lock()
	conns := s.snapshot()
	s.mu.Unlock()
	all := make([]ConnectionStatus, 0, len(conns))
	for _, c := range conns {
		if c.open.Load() {
			all = append(all, c.describe(s.alarm.Load() != nil))
		}
	}
	return all
}

func (c *conn) describe(alarm bool) ConnectionStatus {
	st := ConnectionStatus{ConnectionInfo: c.info, Session: c.session, State: "running", Connected: c.began, Traffic: c.nc.traffic()}
	c.mu.Lock()
	switch {
	case c.failure != nil:
		st.State = "closing"
	case alarm && c.held.Load():
		st.State = "blocked"
	}
	channels := slices.Collect(maps.Keys(c.present))
	c.mu.Unlock()
	for _, ch := range channels {
		st.Channels = append(st.Channels, ch.describe())
	}
	slices.SortFunc(st.Channels, func(a, b ChannelStatus) int { return int(a.Number) - int(b.Number) })
	return st
}

func (ch *channel) describe() ChannelStatus {
	st := ChannelStatus{
		ChannelInfo: ch.info, Transactional: ch.shown.transactional.Load(), Confirm: ch.shown.confirm.Load(),
		Prefetch: uint16(ch.shown.prefetch.Load()), GlobalPrefetch: uint16(ch.shown.global.Load()),
		Uncommitted: int(ch.shown.publishes.Load()), AcksUncommitted: int(ch.shown.acks.Load()),
	}
	o := &ch.out
	o.mu.Lock()
	defer o.mu.Unlock()
	st.Consumers, st.Unacked = len(o.consumers), o.unacked.len()
	if st.Confirm {
		st.Unconfirmed = o.confirms.open
	}
	return st
}

// came and went note which channels there are.
func (c *conn) came(ch *channel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.present == nil {
		c.present = map[*channel]struct{}{}
	}
	c.present[ch] = struct{}{}
}

func (c *conn) went(ch *channel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.present, ch)
}
