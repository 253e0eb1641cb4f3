package mirror

import (
	"iter"
	"slices"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
)

// Synchronisation in the simulation: its messages cross the links beside the ring's, faster or slower, and are lost with them.

// paused tells whether a mirror waits for a tick.
func (r *Replica) paused() bool {
	for _, j := range r.joiners {
		if j.paused > 0 {
			return true
		}
	}
	return false
}

// ids are the messages that a copy holds.
func (r *Replica) ids() map[uint64]bool {
	ids := map[uint64]bool{}
	for seq, ok := r.q.Next(0); ok; seq, ok = r.q.Next(seq + 1) {
		e, _, _ := r.q.Get(seq)
		ids[decodeID(e.Message.Body)] = true
	}
	return ids
}

// checkDropped: what a mirror drops was acknowledged, is held by the master, was never confirmed, or is set aside.
func (s *sim) checkDropped(n *simNode, before, after map[uint64]bool) {
	var held map[uint64]bool
	if m := s.nodes[s.rec().master]; m.rep != nil {
		held = m.rep.ids()
	}
	for id := range before {
		_, acked := s.acked[id]
		_, confirmed := s.confirmed[id]
		if !after[id] && !acked && confirmed && !held[id] && !n.aside[id] {
			s.fail("%s drops id %d, which was confirmed and may be nowhere else", n.name, id)
		}
	}
}

// operate is an operator who asks for a synchronisation, or cancels it.
func (s *sim) operate() {
	n := s.nodes[s.rec().master]
	if n.rep == nil || n.paused || n.rep.Role() != Master {
		return
	}
	if _, copying := n.rep.Syncing(); !copying || s.chance(30) {
		s.tracef("%s is asked to synchronise", n.name)
		n.do("synchronise", func(r *Replica) error {
			_, err := r.SyncQueue()
			return err
		})
		return
	}
	n.do("cancel", func(r *Replica) error {
		_, err := r.CancelSync()
		return err
	})
}

// hurried: synchronisation is slow in some histories.
func (s *sim) hurried() bool { return !s.mode.backlog || s.resting || s.chance(30) }

// tick lets a second pass for masters that synchronise.
func (s *sim) tick() (did bool) {
	for _, n := range s.nodes {
		if n.rep != nil && n.rep.SyncPending() && (n.rep.run != nil || n.rep.paused()) {
			n.do("tick", func(r *Replica) error { return r.SyncTick() })
			did = true
		}
	}
	return did
}

// SetAsidePart implements Env.
func (n *simNode) SetAsidePart(why string, entries iter.Seq2[backingqueue.Entry, error]) error {
	n.s.tracef("%s sets part aside: %s", n.name, why)
	for e, err := range entries {
		if err != nil {
			return err
		}
		n.s.tracef("%s sets id %d aside", n.name, decodeID(e.Message.Body))
		n.s.Aside++
		n.aside[decodeID(e.Message.Body)] = true
	}
	return nil
}

// SendSync implements Env.
func (n *simNode) SendSync(to gm.Member, head, rest []byte) bool {
	for _, p := range n.s.nodes {
		if l := n.s.links[[2]int{n.id, p.id}]; p.name == to.Node && p.alive && p.inc == to.Incarnation && l.up {
			l.sync = append(l.sync, slices.Concat(head, rest))
			return true
		}
	}
	return false
}

// hearSync gives the Replica the next message of a synchronisation.
func (n *simNode) hearSync() bool {
	first := n.s.rng.IntN(len(n.s.nodes))
	for i := range n.s.nodes {
		from := n.s.nodes[(first+i)%len(n.s.nodes)]
		l := n.s.links[[2]int{from.id, n.id}]
		if len(l.sync) == 0 {
			continue
		}
		b := l.sync[0]
		l.sync = l.sync[1:]
		if n.rep == nil {
			return true
		}
		before := n.rep.ids()
		n.do("synchronisation", func(r *Replica) error { return r.SyncMessage(from.name, from.inc, b) })
		after := n.rep.ids()
		n.s.Copied += max(0, len(after)-len(before))
		for id := range before {
			if _, acked := n.s.acked[id]; !after[id] {
				n.s.Gone++
				if !acked {
					n.s.fail("%s drops id %d in a synchronisation, which nobody acknowledged", n.name, id)
				}
			}
		}
		return true
	}
	return false
}

// syncStep lets the Replica do the next piece of a synchronisation.
func (n *simNode) syncStep() (more bool) {
	n.do("synchronisation", func(r *Replica) (err error) {
		more, err = r.SyncStep()
		return err
	})
	return more
}
