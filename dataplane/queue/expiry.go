package queue

import (
	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
)

// Messages expire at the head of the queue, as in RabbitMQ, and never before they had one chance to be delivered: a
// message with a time to live of 0 reaches a consumer that has room.

// stamp gives a publish the queue's time to live.
func (p *Process) stamp(m *message.Message) {
	if p.set.TTL.Set {
		if at := p.now + p.set.TTL.Value; m.Expiry == 0 || at < m.Expiry {
			m.Expiry = at
		}
	}
	p.expiring = p.expiring || m.Expiry != 0
}

// expired: of what had its chance.
func (p *Process) expired(e *backingqueue.Entry) bool {
	return e.Message.Expiry != 0 && e.Message.Expiry <= p.now && e.Seq < p.tried
}

// expireHeads drops what has expired at the head (of a priority queue: of each level), and notes when the next one will.
func (p *Process) expireHeads() {
	p.nextExpiry = 0
	if !p.expiring || !p.active() {
		return
	}
	if p.b.Stats().Messages == 0 {
		p.expiring = false
		return
	}
	var rs []backingqueue.Range
	for l := range p.ready.count() {
		for p.active() && p.mayBury() {
			e, ok := p.peek(l)
			if !ok || !p.expired(&e) {
				if ok && e.Message.Expiry != 0 && (p.nextExpiry == 0 || e.Message.Expiry < p.nextExpiry) {
					p.nextExpiry = e.Message.Expiry
				}
				break
			}
			p.popHead(l, e.Seq)
			rs = p.bury(rs, &e, ReasonExpired)
		}
	}
	p.remove(rs, ReasonExpired)
}

// Wake is when, in Unix milliseconds, the next Flush is due though nothing else happens; 0: never.
func (p *Process) Wake() int64 {
	if !p.delivers() {
		return 0
	}
	at := p.nextExpiry
	if e := p.set.Expires; e.Set && p.consumers.count == 0 && (at == 0 || p.lastUse+e.Value < at) {
		at = p.lastUse + e.Value
	}
	return at
}

// retryUnused is how many milliseconds the owner has to delete an unused queue before it is told again.
const retryUnused = 5000

// used restarts the queue's own time to live.
func (p *Process) used() { p.lastUse = p.now }

// unused tells that nobody has used the queue for so long that it expires.
func (p *Process) unused() {
	e := p.set.Expires
	if !e.Set || p.consumers.count > 0 || p.now < p.lastUse+e.Value {
		return
	}
	p.lastUse = p.now - e.Value + retryUnused
	p.outs = append(p.outs, Output{Kind: Unused})
}
