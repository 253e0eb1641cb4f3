package gm

import "fmt"

// ring is a group whose frames arrive at once and in order: what it does is what the rules say when nothing fails.
type ring struct {
	members []Member
	groups  []*Group
	frames  int
	bytes   []int // sent by each
	user    func(i int, o Output)
	buf     []Output
}

func newRing(n int, cfg Config) *ring {
	r := &ring{bytes: make([]int, n)}
	for i := range n {
		r.members = append(r.members, Member{Node: fmt.Sprintf("n%d", i), Incarnation: 1, JoinIndex: 1})
	}
	for _, m := range r.members {
		c := cfg
		c.Self = m
		g := New(c)
		for _, o := range r.members {
			if o != m {
				g.LinkUp(o.Node, 1)
			}
		}
		r.groups = append(r.groups, g)
		g.Install(View{Version: 1, Members: r.members})
	}
	return r
}

func (r *ring) index(m Member) int { return int(m.Node[1] - '0') }

// settle carries out everything until all is quiet.
func (r *ring) settle() {
	for moved := true; moved; {
		moved = false
		for i := range r.groups {
			moved = r.turn(i) || moved
		}
	}
}

func (r *ring) turn(i int) bool {
	outs := r.groups[i].Take(r.buf[:0])
	r.buf = nil
	for _, o := range outs {
		if o.Kind == Send {
			r.frames++
			r.bytes[i] += len(o.Whole())
			if err := r.groups[r.index(o.To)].Receive(r.members[i], o.Whole()); err != nil {
				panic(err)
			}
		} else if r.user != nil {
			r.user(i, o)
		}
	}
	n := len(outs)
	r.buf = outs
	return n > 0
}

// persistAll is a user that makes everything durable as it is delivered.
func (r *ring) persistAll(i int, o Output) {
	if o.Kind == Deliver && o.Class != Control {
		r.groups[i].Persisted(o.Sender, o.Number)
	}
}
