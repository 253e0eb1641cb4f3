package mirror

import "fmt"

// index finds messages by origin and number: runs of publishes that stand one behind the other, per origin ascending. It may
// name positions that were removed since.
type index struct {
	from uint64 // the lowest position that it knows of
	runs map[uint64][]run
}

type run struct{ number, seq, n uint64 }

// add takes the messages in ascending order of seq.
func (x *index) add(ref, number, seq uint64) {
	rs := x.runs[ref]
	if n := len(rs); n > 0 {
		if l := &rs[n-1]; l.number+l.n == number && l.seq+l.n == seq {
			l.n++
			return
		}
	}
	x.runs[ref] = append(rs, run{number, seq, 1})
}

func (x *index) find(ref, number uint64) (seq uint64, ok bool) {
	for _, r := range x.runs[ref] {
		if r.number <= number && number < r.number+r.n {
			return r.seq + number - r.number, true
		}
	}
	return 0, false
}

// lookup finds a held message at from or above; it builds the index at first use in a term.
func (r *Replica) lookup(from, ref, number uint64) (seq uint64, ok bool, err error) {
	if r.term.index == nil || r.term.index.from > from {
		x := &index{from: from, runs: map[uint64][]run{}}
		for seq, ok := r.q.Next(from); ok; seq, ok = r.q.Next(seq + 1) {
			e, held, err := r.q.Get(seq)
			if err != nil {
				return 0, false, r.failed(fmt.Sprintf("read position %d", seq), err)
			}
			if held {
				x.add(e.Ref, e.Number, e.Seq)
			}
		}
		r.term.index = x
	}
	seq, ok = r.term.index.find(ref, number)
	return seq, ok && r.q.Has(seq), nil
}
