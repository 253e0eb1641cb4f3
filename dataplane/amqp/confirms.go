package amqp

// States of a publish in the tracker.
const (
	confirmWaiting uint8 = iota
	confirmAcked
	confirmNacked
	confirmSent
)

// confirmFrame is a basic.ack or basic.nack to the publisher.
type confirmFrame struct {
	tag            uint64
	multiple, nack bool
}

func (f confirmFrame) method() method {
	if f.nack {
		return &basicNack{DeliveryTag: f.tag, Multiple: f.multiple}
	}
	return &basicAck{DeliveryTag: f.tag, Multiple: f.multiple}
}

// confirms turns confirms that come in any order into few frames. What has been answered without a gap goes out as one
// frame with multiple; what comes out of turn (another queue is slower) goes out alone, at once, as RabbitMQ does it. A frame with
// multiple never stretches over a publish that was answered alone before: clients that put answers in order again (such
// as amqp091-go) would count that twice. The tracker is used under its channel's lock.
type confirms struct {
	base   uint64  // the lowest publish whose answer was not sent
	states []uint8 // of base, base+1, … in a ring
	head   int     // where base is in states
	n      int     // publishes from base on
	early  []uint64
	open   int // publishes not yet answered by the backend
	dirty  bool
}

// add notes the next publish and gives its number.
func (c *confirms) add() uint64 {
	if c.base == 0 {
		c.base = 1
	}
	if c.n == len(c.states) {
		grown := make([]uint8, max(64, 2*len(c.states)))
		k := copy(grown, c.states[c.head:])
		copy(grown[k:], c.states[:c.head])
		c.states, c.head = grown, 0
	}
	c.states[(c.head+c.n)%len(c.states)] = confirmWaiting
	c.n++
	c.open++
	return c.base + uint64(c.n) - 1
}

// answer notes the backend's answer; a repeated or unknown one is ignored, which false tells.
func (c *confirms) answer(seq uint64, ok bool) bool {
	if seq < c.base || seq >= c.base+uint64(c.n) {
		return false
	}
	at := &c.states[(c.head+int(seq-c.base))%len(c.states)]
	if *at != confirmWaiting {
		return false
	}
	*at = confirmAcked
	if !ok {
		*at = confirmNacked
	}
	c.open--
	c.dirty = true
	c.early = append(c.early, seq)
	return true
}

// reset forgets all publishes so far.
func (c *confirms) reset() {
	c.base += uint64(c.n)
	c.n, c.head, c.open, c.dirty, c.early = 0, 0, 0, false, c.early[:0]
}

// flush appends the frames for what was answered since the last flush.
func (c *confirms) flush(out []confirmFrame) []confirmFrame {
	if !c.dirty {
		return out
	}
	c.dirty = false
	first := uint64(0) // of the run that is being gathered, 0: none
	var state uint8
	end := func() {
		if first != 0 {
			out = append(out, confirmFrame{tag: c.base - 1, multiple: c.base-1 > first, nack: state == confirmNacked})
		}
		first = 0
	}
	for c.n > 0 {
		at := c.states[c.head]
		if at == confirmWaiting {
			break
		}
		if first != 0 && at != state {
			end()
		}
		if at != confirmSent && first == 0 {
			first, state = c.base, at
		}
		c.base++
		c.n--
		c.head = (c.head + 1) % len(c.states)
	}
	end()
	for _, seq := range c.early {
		if seq < c.base {
			continue
		}
		at := &c.states[(c.head+int(seq-c.base))%len(c.states)]
		out = append(out, confirmFrame{tag: seq, nack: *at == confirmNacked})
		*at = confirmSent
	}
	c.early = c.early[:0]
	return out
}
