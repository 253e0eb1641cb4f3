package queue

import (
	"container/heap"

	"warren/dataplane/backingqueue"
)

// Priority queues. Each level's ready messages are known by position: eight bytes or less each. After a promotion the levels
// are made again from what is there before anything is delivered.

// scanBatch is how many messages one Flush reads to make the levels.
const scanBatch = 2048

func (p *Process) levelOf(priority uint8) int { return min(int(priority), len(p.ready.levels)-1) }

// scan makes the levels; it reports whether there is more to read.
func (p *Process) scan() (more bool) {
	r := &p.ready
	if r.levels == nil || r.scanned {
		return false
	}
	for range scanBatch {
		seq, ok := p.b.Next(r.cursor)
		if !ok {
			r.scanned = true
			return false
		}
		r.cursor = seq + 1
		if p.taken(seq) {
			continue
		}
		e, ok, err := p.b.Get(seq)
		if err != nil {
			p.fail("read a message", err)
			return false
		}
		if ok {
			p.ready.add(p.levelOf(e.Message.Priority), seq)
		}
	}
	return true
}

// published makes a new message ready.
func (p *Process) published(seq uint64, priority uint8) {
	if r := &p.ready; r.levels != nil && r.scanned {
		r.add(p.levelOf(priority), seq)
		r.cursor = seq + 1
	}
}

func (r *ready) add(l int, seq uint64) {
	line := &r.levels[l].line
	if k := line.Len(); k > 0 && line.At(k-1).Last+1 == seq {
		line.At(k - 1).Last = seq
		return
	}
	line.Push(backingqueue.Range{First: seq, Last: seq})
}

func (p *Process) giveBackLevel(seq uint64) {
	r := &p.ready
	if !r.scanned && seq >= r.cursor {
		r.redelivered[seq] = struct{}{} // scan finds it
		return
	}
	e, ok, err := p.b.Get(seq)
	if err != nil {
		p.fail("read a message", err)
	} else if ok {
		r.redelivered[seq] = struct{}{}
		heap.Push(&r.levels[p.levelOf(e.Message.Priority)].returned, seq)
	}
}

func (p *Process) headOfLevel(l int) (seq uint64, again, ok bool) {
	v := &p.ready.levels[l]
	for len(v.returned) > 0 {
		seq = v.returned[0]
		if at, held := p.b.Next(seq); held && at == seq && !p.taken(seq) {
			ok = true
			break
		}
		heap.Pop(&v.returned)
	}
	for v.line.Len() > 0 {
		first := v.line.At(0)
		at, held := p.b.Next(first.First)
		if !held || at > first.Last {
			v.line.Pop()
			continue
		}
		if first.First = at; p.taken(at) {
			p.dropFirst(l)
			continue
		}
		if !ok || at < seq {
			seq, ok = at, true
		}
		break
	}
	if ok && len(p.ready.redelivered) > 0 {
		_, again = p.ready.redelivered[seq]
	}
	return seq, again, ok
}

func (p *Process) dropFirst(l int) {
	line := &p.ready.levels[l].line
	if first := line.At(0); first.First < first.Last {
		first.First++
	} else {
		line.Pop()
	}
}

func (p *Process) popHeadOfLevel(l int, seq uint64) {
	r := &p.ready
	v := &r.levels[l]
	if len(v.returned) > 0 && v.returned[0] == seq {
		heap.Pop(&v.returned)
	}
	if v.line.Len() > 0 && v.line.At(0).First == seq {
		p.dropFirst(l)
	}
	if len(r.redelivered) > 0 {
		delete(r.redelivered, seq)
	}
}
