package load

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// longestSleep bounds a sleep, so that a stop is seen soon at any rate.
const longestSleep = 20 * time.Millisecond

// pacer is a schedule: message i is due at start + i/rate. Without a rate everything is due now.
type pacer struct {
	rate  float64
	start time.Time
	next  uint64
	now   time.Time
	held  bool          // since the last due the caller could not have sent
	late  time.Duration // the longest that a message was overdue although the caller was not held
}

// due gives how many messages, at most most, are due, and the index of the first.
func (p *pacer) due(most uint64) (n, first uint64) {
	p.now = time.Now()
	if p.rate == 0 {
		return most, 0
	}
	if p.start.IsZero() {
		p.start = p.now
	}
	upTo := uint64(p.now.Sub(p.start).Seconds()*p.rate) + 1
	if upTo <= p.next {
		return 0, p.next
	}
	n, first = min(upTo-p.next, most), p.next
	if p.next += n; !p.held {
		p.late = max(p.late, p.now.Sub(p.at(first)))
	}
	p.held = false
	return n, first
}

// at is when message i is due.
func (p *pacer) at(i uint64) time.Time {
	if p.rate == 0 {
		return p.now
	}
	return p.start.Add(time.Duration(float64(i) / p.rate * float64(time.Second)))
}

// sleep sleeps until the next message is due. It asks the kernel itself: the runtime's timers wake up to a millisecond late
// when the process is idle, which a latency at a fixed rate would show as the broker's.
func (p *pacer) sleep() {
	d := min(time.Until(p.at(p.next)), longestSleep)
	if d <= 0 {
		return
	}
	ts := unix.NsecToTimespec(d.Nanoseconds())
	for errors.Is(unix.Nanosleep(&ts, &ts), unix.EINTR) {
		continue
	}
}
