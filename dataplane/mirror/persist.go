package mirror

import (
	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
)

// persistQueue holds the ring messages whose effect on the local store is not known durable, in the order in which they
// were received. The ring's credit bounds it.
type persistQueue struct {
	entries []persistEntry
	needed  backingqueue.LSN // what must be durable for the newest entry
	urgent  backingqueue.LSN // what of that a publisher may wait for
	asked   backingqueue.LSN // what Sync was called for
	soon    backingqueue.LSN // what SyncSoon was called for
}

// need says what the effect of an operation on the local store has to do with its being persisted.
type need uint8

const (
	needNothing need = iota // it counts with what came before it
	needSoon                // it must be durable, but nobody waits by the clock: a removal
	needNow
)

func needFor(some bool, n need) need {
	if some {
		return n
	}
	return needNothing
}

// durable is what is left of n in this queue: nothing where nothing survives a restart.
func (r *Replica) durable(n need) need { return needFor(r.cfg.Durable, n) }

// want notes that the store must be durable up to lsn.
func (p *persistQueue) want(lsn backingqueue.LSN, n need) {
	if n >= needSoon {
		p.needed = max(p.needed, lsn)
	}
	if n == needNow {
		p.urgent = max(p.urgent, lsn)
	}
}

type persistEntry struct {
	lsn    backingqueue.LSN
	sender gm.Member
	number uint64
}

// push adds message number of sender, whose changes end at lsn. If nothing of it must be durable it counts as persisted with
// what came before it.
func (p *persistQueue) push(sender gm.Member, number uint64, lsn backingqueue.LSN, n need) {
	p.want(lsn, n)
	if n := len(p.entries); n > 0 && p.entries[n-1].lsn == p.needed && p.entries[n-1].sender == sender {
		p.entries[n-1].number = number
		return
	}
	p.entries = append(p.entries, persistEntry{p.needed, sender, number})
}

// reset forgets everything: the ring that it spoke of is gone.
func (p *persistQueue) reset() { p.entries = nil }

// replaced says that a new store took the old one's place, after the old one had made everything durable.
func (p *persistQueue) replaced() {
	for i := range p.entries {
		p.entries[i].lsn = 0
	}
	p.needed, p.urgent, p.asked, p.soon = 0, 0, 0, 0
}

// drain tells the ring what is durable.
func (r *Replica) drain() {
	p := &r.persist
	if len(p.entries) == 0 || r.ring == nil {
		return
	}
	durable := r.q.Durable()
	n := 0
	for n < len(p.entries) && p.entries[n].lsn <= durable {
		e := p.entries[n]
		n++
		if n < len(p.entries) && p.entries[n].sender == e.sender && p.entries[n].lsn <= durable {
			continue
		}
		r.ring.Persisted(e.sender, e.number)
	}
	if n == len(p.entries) {
		p.entries = p.entries[:0]
		return
	}
	p.entries = append(p.entries[:0], p.entries[n:]...)
}

// sync asks the disk for what the ring, or a confirm of an unmirrored queue, waits for.
func (r *Replica) sync() {
	p := &r.persist
	done := max(p.asked, r.q.Durable())
	switch {
	case p.urgent > done:
		r.q.Sync()
		p.asked = p.needed
	case p.needed > max(done, p.soon):
		r.q.SyncSoon()
		p.soon = p.needed
	}
}
