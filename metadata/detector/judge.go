package detector

import (
	"time"

	"warren/metadata/state"
)

// silent are the incarnations that count as up and gave no answer for too long. When there is one, those that fell silent within
// the same heartbeat interval are taken with it, so that nodes lost together are declared down together.
func (c *core) silent(now time.Duration) (down []state.DownNode) {
	late := func(limit time.Duration) (out []state.DownNode) {
		for _, name := range c.order {
			n := c.nodes[name]
			if n == nil || !n.Status.Up() || name == c.self || c.quiet(now, c.peers[name]) < limit {
				continue
			}
			out = append(out, state.DownNode{Node: name, Incarnation: n.Incarnation, Reason: state.ReasonFailure})
		}
		return out
	}
	if len(late(c.t.Unreachable)) == 0 {
		return nil
	}
	return late(c.t.Unreachable - c.t.Interval)
}

// superseded are the incarnations that count as up although a newer one of their node was heard: their process is gone, or has
// itself given them up.
func (c *core) superseded() (down []state.DownNode) {
	for _, name := range c.order {
		n := c.nodes[name]
		if p := c.peers[name]; n != nil && n.Status.Up() && p.ever && p.incarnation > n.Incarnation {
			down = append(down, state.DownNode{Node: name, Incarnation: n.Incarnation, Reason: state.ReasonFailure, Fenced: true})
		}
	}
	return down
}

// minority says whether this node has to pause, and why: for longer than the lease it reached less than a majority of the
// voters, or a peer that it hears knows a current leader that it does not hear itself.
func (c *core) minority(now time.Duration, voters []string, term uint64) (why string) {
	reached := 0
	for _, v := range voters {
		if v == c.self || c.reached(now, v) {
			reached++
		}
	}
	if len(voters) > 0 && reached <= len(voters)/2 {
		return "less than a majority of the voters can be reached"
	}
	for _, name := range c.order {
		p := c.peers[name]
		leader := p.last.Leader
		if !p.ever || now-p.heard >= 2*c.t.Interval || leader == "" || leader == c.self || p.last.Term < term {
			continue
		}
		if !c.reached(now, leader) {
			return "the leader " + leader + " cannot be reached, but " + name + " reaches it"
		}
	}
	return ""
}

func (c *core) reached(now time.Duration, node string) bool {
	return c.quiet(now, c.peer(now, node)) < c.t.Grant
}

// heardSince says whether that incarnation was heard after then, and whether a newer one of its node was.
func (c *core) heardSince(then time.Duration, of state.Place) (alive, newer bool) {
	p := c.peers[of.Node]
	if p == nil || !p.ever {
		return false, false
	}
	return p.incarnation == of.Incarnation && p.heard > then, p.incarnation > of.Incarnation
}

// patience is how long a new leader waits for a node's answer: the time that it was silent before counts.
func (c *core) patience(now time.Duration, node string) time.Duration {
	left := c.t.Unreachable - (now - c.peer(now, node).heard)
	return max(left, 2*c.t.Interval)
}
