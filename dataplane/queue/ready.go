package queue

import (
	"container/heap"

	"warren/dataplane/backingqueue"
)

// ready knows which messages nobody has: all that the Backing holds from cursor on, except the unacked, and those below it
// that were given back. So a backlog that was never delivered costs nothing here.
type ready struct {
	cursor   uint64
	returned seqHeap // below cursor; may name messages that are gone
	// redelivered are messages at or above cursor that were delivered before and given back.
	redelivered map[uint64]struct{}
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

// giveBack makes a message ready again, in its old position.
func (p *Process) giveBack(seq uint64) {
	if seq < p.ready.cursor {
		heap.Push(&p.ready.returned, seq)
	} else {
		p.ready.redelivered[seq] = struct{}{}
	}
}

// next takes the ready message with the lowest position.
func (p *Process) next() (e backingqueue.Entry, ok bool) {
	r := &p.ready
	for p.active() {
		if len(r.returned) > 0 { // all of them are below the cursor
			seq := heap.Pop(&r.returned).(uint64)
			e, ok, err := p.b.Get(seq)
			if err != nil {
				p.fail("read a message", err)
			} else if ok {
				e.Delivered = true
				return e, true
			}
			continue
		}
		seq, ok := p.b.Next(r.cursor)
		if !ok {
			return e, false
		}
		r.cursor = seq + 1
		_, again := r.redelivered[seq]
		if again {
			delete(r.redelivered, seq)
		}
		if _, held := p.unacked[seq]; held {
			continue
		}
		e, ok, err := p.b.Get(seq)
		if err != nil {
			p.fail("read a message", err)
		} else if ok {
			e.Delivered = e.Delivered || again
			return e, true
		}
	}
	return e, false
}

func (p *Process) readyCount() int {
	return max(0, p.b.Stats().Messages-len(p.unacked))
}

// addRange adds seq to the ranges, growing the last where it can.
func addRange(rs []backingqueue.Range, seq uint64) []backingqueue.Range {
	if k := len(rs); k > 0 && rs[k-1].Last+1 == seq {
		rs[k-1].Last = seq
		return rs
	}
	return append(rs, backingqueue.Range{First: seq, Last: seq})
}
