package state

import (
	"slices"

	"warren/metadata/placement"
)

func (s *State) nodeUp(index uint64, c *NodeUp) Result {
	old, known := s.nodes.get(c.Node)
	if known && c.Incarnation <= old.Incarnation {
		if c.Incarnation == old.Incarnation && old.Status.Up() {
			return Result{}
		}
		return stale(KindNode, "", c.Node, "incarnation %d, but %d is known and %s", c.Incarnation, old.Incarnation, old.Status)
	}
	if lacking := s.lacks(c.Versions); lacking != "" {
		return Result{Err: &Error{Code: CodeFeature, Kind: KindFeature, Name: lacking,
			Detail: "enabled in this cluster, but not supported by node " + c.Node + " (version " + c.Versions.Software + ")"}}
	}
	if known && old.Status.Up() {
		s.closeNodes(index, []DownNode{{Node: old.Name, Incarnation: old.Incarnation, Reason: ReasonFailure, Fenced: true}})
	}
	draining := known && old.Draining
	s.putNode(&Node{Name: c.Node, Incarnation: c.Incarnation, Addresses: c.Addresses, Versions: c.Versions,
		Status: upStatus(draining), Since: index, Witness: c.Witness, Draining: draining})
	for _, was := range s.queues.all() {
		q := was.clone()
		if m := q.member(c.Node); m != nil {
			m.Incarnation, m.State = c.Incarnation, MemberJoining
		}
		s.reviveUnvouched(index, q)
		s.assign(q)
		if !slices.Equal(was.Members, q.Members) || was.Status != q.Status {
			s.publish(index, q)
		}
	}
	return Result{}
}

func (s *State) nodesDown(index uint64, c *NodesDown) Result {
	var down []DownNode
	for _, d := range c.Nodes {
		if n, ok := s.nodes.get(d.Node); ok && n.Incarnation == d.Incarnation && n.Status.Up() {
			down = append(down, d)
		}
	}
	if len(down) == 0 {
		name := ""
		if len(c.Nodes) > 0 {
			name = c.Nodes[0].Node
		}
		return stale(KindNode, "", name, "none of the %d incarnations is up", len(c.Nodes))
	}
	s.closeNodes(index, down)
	return Result{}
}

// closeNodes takes incarnations that are up, all gone together, out of every queue (metadata.md, NodesDown).
func (s *State) closeNodes(index uint64, down []DownNode) {
	for _, d := range down {
		n, _ := s.nodes.get(d.Node)
		gone := *n
		gone.Status, gone.Since, gone.Fenced = NodeDown, index, d.Fenced
		if d.Reason == ReasonShutdown {
			gone.Status = NodeStopped
		}
		s.putNode(&gone)
	}
	for _, q := range s.queues.all() {
		s.closeInQueue(index, q, down)
	}
}

func (s *State) closeInQueue(index uint64, was *Queue, down []DownNode) {
	if was.Exclusive && closed(down, was.Owner.Node, was.Owner.Incarnation) != nil {
		s.dropQueue(was)
		return
	}
	if !slices.ContainsFunc(was.Members, func(m Member) bool { return m.State != MemberAway && closed(down, m.Node, m.Incarnation) != nil }) {
		return
	}
	q := was.clone()
	vouching := q.vouching()
	var masterGone *DownNode
	kept := q.Members[:0]
	for _, m := range q.Members {
		d := closed(down, m.Node, m.Incarnation)
		if d != nil && m.State != MemberAway {
			if m.Node == q.Master && q.Status == QueueRunning {
				masterGone = d
			} else if m.JoinIndex == 0 || m.Replaces != "" && !m.Synchronised {
				continue // it has nothing that would be worth keeping its place for
			}
			m.State, m.Synchronised = MemberAway, false
		}
		kept = append(kept, m)
	}
	q.Members = kept
	if masterGone != nil {
		s.succeed(q, masterGone.Reason, vouching)
		if q.Status == QueueDown && !q.Durable && !slices.ContainsFunc(was.View(), func(v ViewMember) bool {
			return closed(down, v.Node, v.Incarnation) == nil
		}) {
			s.dropQueue(was) // a transient queue without a living copy
			return
		}
	} else if q.Status == QueueDown && !q.Durable && !slices.ContainsFunc(q.Members, func(m Member) bool { return m.State == MemberJoining }) {
		s.dropQueue(was)
		return
	}
	s.assign(q)
	s.publish(index, q)
}

// succeed names the next master by the promotion table, or takes the queue down. vouching are those who held everything before.
func (s *State) succeed(q *Queue, reason Reason, vouching []Place) {
	node, loss, ok := placement.Promote(candidates(q.byAge(MemberUp)), q.always(reason))
	if ok {
		q.promote(node, loss)
		q.LastSynchronised = nil
		return
	}
	q.takeDown()
	q.LastSynchronised = vouching
}

// vouching are those who hold everything that was confirmed: the synchronised members, or, while a revived master has
// not acted, those from whom it was chosen.
func (q *Queue) vouching() []Place {
	if len(q.LastSynchronised) > 0 {
		return q.LastSynchronised
	}
	var out []Place
	for _, m := range q.byAge(MemberUp) {
		if m.Synchronised {
			out = append(out, Place{m.Node, m.Incarnation})
		}
	}
	return out
}

func closed(down []DownNode, node string, incarnation uint64) *DownNode {
	for i := range down {
		if down[i].Node == node && down[i].Incarnation == incarnation {
			return &down[i]
		}
	}
	return nil
}

// reviveUnvouched applies the promotion table for "none synchronised" to a queue that is down and for which nobody vouches
// any more: under always, the oldest member whose node is up goes on with what it has. It counts as a loss.
func (s *State) reviveUnvouched(index uint64, q *Queue) {
	if q.Status != QueueDown || len(q.LastSynchronised) > 0 || !q.always(ReasonFailure) {
		return
	}
	for _, m := range q.byAge(MemberJoining) {
		if m.JoinIndex == 0 {
			continue
		}
		p := q.member(m.Node)
		p.State, p.JoinIndex = MemberUp, index
		q.promote(m.Node, true)
		return
	}
}
