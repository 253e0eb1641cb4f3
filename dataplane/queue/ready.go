package queue

import (
	"container/heap"

	"warren/dataplane/backingqueue"
	"warren/dataplane/queue/deque"
)

// ready knows which messages nobody has: all that the Backing holds from cursor on, except the unacked and the dying, and
// those below it that were given back. So a backlog that was never delivered costs nothing here. A priority queue knows each
// ready message by its level instead (priority.go).
type ready struct {
	cursor   uint64
	returned seqHeap // below cursor; may name messages that are gone
	// redelivered are messages at or above cursor that were delivered before and given back.
	redelivered map[uint64]struct{}
	levels      []level // of a priority queue, the lowest first
	scanned     bool    // levels know all that is ready
}

// level is what is ready of one priority. It may name messages that are gone.
type level struct {
	line     deque.Deque[backingqueue.Range] // ascending
	returned seqHeap
}

type seqHeap []uint64

func (h seqHeap) Len() int           { return len(h) }
func (h seqHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h seqHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *seqHeap) Push(x any)        { *h = append(*h, x.(uint64)) }
func (h *seqHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// count is how many heads there are.
func (r *ready) count() int { return max(1, len(r.levels)) }

// giveBack makes a message ready again, in its old position.
func (p *Process) giveBack(seq uint64) {
	switch r := &p.ready; {
	case r.levels != nil:
		p.giveBackLevel(seq)
	case seq < r.cursor:
		heap.Push(&r.returned, seq)
	default:
		r.redelivered[seq] = struct{}{}
	}
}

// taken tells whether a message that is there is not ready.
func (p *Process) taken(seq uint64) bool {
	if _, held := p.unacked[seq]; held {
		return true
	}
	if len(p.dying) == 0 {
		return false
	}
	_, dies := p.dying[seq]
	return dies
}

// headOf is the lowest ready position (of level l in a priority queue). again: it was delivered before and given back.
func (p *Process) headOf(l int) (seq uint64, again, ok bool) {
	r := &p.ready
	if r.levels != nil {
		return p.headOfLevel(l)
	}
	for len(r.returned) > 0 { // all of them are below the cursor
		seq := r.returned[0]
		if at, held := p.b.Next(seq); held && at == seq && !p.taken(seq) {
			return seq, true, true
		}
		heap.Pop(&r.returned)
	}
	for {
		seq, ok := p.b.Next(r.cursor)
		if !ok {
			return 0, false, false
		}
		if len(r.redelivered) > 0 {
			_, again = r.redelivered[seq]
		}
		if !p.taken(seq) {
			return seq, again, true
		}
		r.cursor = seq + 1
		if again {
			delete(r.redelivered, seq)
		}
	}
}

// popHead takes what headOf named.
func (p *Process) popHead(l int, seq uint64) {
	r := &p.ready
	if r.levels != nil {
		p.popHeadOfLevel(l, seq)
		return
	}
	if len(r.returned) > 0 && r.returned[0] == seq {
		heap.Pop(&r.returned)
		return
	}
	r.cursor = seq + 1
	if len(r.redelivered) > 0 {
		delete(r.redelivered, seq)
	}
}

// peek reads the head of a level without taking it.
func (p *Process) peek(l int) (e backingqueue.Entry, ok bool) {
	for p.active() {
		seq, again, ok := p.headOf(l)
		if !ok {
			return e, false
		}
		e, held, err := p.b.Get(seq)
		if err != nil {
			p.fail("read a message", err)
			return e, false
		}
		if held {
			e.Delivered = e.Delivered || again
			return e, true
		}
		p.popHead(l, seq)
	}
	return e, false
}

// first is what is to be delivered next, and its level.
func (p *Process) first() (l int, e backingqueue.Entry, ok bool) {
	for l = p.ready.count() - 1; l >= 0; l-- {
		if e, ok = p.peek(l); ok {
			return l, e, true
		}
	}
	return 0, e, false
}

// next takes the ready message with the highest priority and the lowest position; what has expired on the way is dropped.
func (p *Process) next() (backingqueue.Entry, bool) {
	var rs []backingqueue.Range
	for p.active() {
		l, e, ok := p.first()
		if !ok {
			p.remove(rs, ReasonExpired)
			return e, false
		}
		if p.expired(&e) {
			if !p.mayBury() {
				return e, false // until letters have left
			}
			p.popHead(l, e.Seq)
			rs = p.bury(rs, &e, ReasonExpired)
			continue
		}
		p.popHead(l, e.Seq)
		p.remove(rs, ReasonExpired)
		return e, true
	}
	return backingqueue.Entry{}, false
}

func (p *Process) readyCount() int {
	return max(0, p.b.Stats().Messages-len(p.unacked)-len(p.dying)-p.drops.messages)
}

// addRange adds seq to the ranges, growing the last where it can.
func addRange(rs []backingqueue.Range, seq uint64) []backingqueue.Range {
	if k := len(rs); k > 0 && rs[k-1].Last+1 == seq {
		rs[k-1].Last = seq
		return rs
	}
	return append(rs, backingqueue.Range{First: seq, Last: seq})
}
