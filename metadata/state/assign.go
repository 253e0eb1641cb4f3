package state

import (
	"cmp"
	"slices"

	"warren/metadata/placement"
)

// rule is the queue's mirroring policy as placement sees it.
func (q *Queue) rule() placement.Rule {
	if q.Exclusive {
		return placement.Rule{} // never mirrored, whatever matches (metadata.md, Effective policy)
	}
	mode, count, nodes := q.Effective.Placement()
	return placement.Rule{Mode: mode, Count: count, Nodes: nodes}
}

func (q *Queue) copies() []placement.Copy {
	out := make([]placement.Copy, len(q.Members))
	for i, m := range q.Members {
		out[i] = placement.Copy{Node: m.Node, InView: m.State == MemberUp, Away: m.State == MemberAway,
			Synchronised: m.Synchronised, JoinIndex: m.JoinIndex, StandInFor: m.Replaces}
	}
	return out
}

// MoveTo is the node to which the master should be moved (mirroring.md, planned moves) because the policy does not list its
// own; ok is false if it shall stay.
func (q *Queue) MoveTo() (node string, ok bool) {
	if q.Status != QueueRunning {
		return "", false
	}
	return placement.MoveTo(q.rule(), q.Master, q.copies())
}

func (s *State) placementNodes() []placement.Node {
	out := make([]placement.Node, len(s.nodes.vals))
	for i, n := range s.nodes.vals {
		out[i] = placement.Node{Name: n.Name, Up: n.Status.Up(), Draining: n.Status == NodeDraining, Witness: n.Witness,
			Replicas: s.replicas[n.Name], Masters: s.masters[n.Name]}
	}
	return out
}

// assign brings the members of q, which is not yet published, in line with its policy. A queue that is down is left as it is.
func (s *State) assign(q *Queue) {
	if q.Status != QueueRunning {
		return
	}
	add, drop := placement.Adjust(q.rule(), q.Master, q.copies(), s.placementNodes())
	q.Members = slices.DeleteFunc(q.Members, func(m Member) bool { return slices.Contains(drop, m.Node) })
	for _, name := range add {
		n, _ := s.nodes.get(name)
		q.Members = append(q.Members, Member{Node: name, Incarnation: n.Incarnation, State: MemberJoining})
	}
	for i, m := range q.Members {
		if m.Replaces != "" && !slices.ContainsFunc(q.Members, func(o Member) bool { return o.Node == m.Replaces }) {
			q.Members[i].Replaces = "" // it has inherited the place
		}
	}
}

// publish puts a changed queue, raising the view version if the view is another one.
func (s *State) publish(index uint64, q *Queue) {
	slices.SortFunc(q.Members, func(a, b Member) int {
		if (a.State == MemberUp) != (b.State == MemberUp) {
			if a.State == MemberUp {
				return -1
			}
			return 1
		}
		if a.State == MemberUp && a.JoinIndex != b.JoinIndex {
			return cmp.Compare(a.JoinIndex, b.JoinIndex)
		}
		return cmp.Compare(a.Node, b.Node)
	})
	was, ok := s.queues.get(q.ID)
	if !ok || !slices.Equal(was.View(), q.View()) {
		q.ViewVersion = index
	}
	s.putQueue(q)
}

// member is a pointer to the node's place in a queue that is not yet published; nil if it has none.
func (q *Queue) member(node string) *Member {
	for i := range q.Members {
		if q.Members[i].Node == node {
			return &q.Members[i]
		}
	}
	return nil
}

// byAge are the members in one of the states, oldest first.
func (q *Queue) byAge(state MemberState) []Member {
	var out []Member
	for _, m := range q.Members {
		if m.State == state {
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(a, b Member) int {
		if a.JoinIndex != b.JoinIndex {
			return cmp.Compare(a.JoinIndex, b.JoinIndex)
		}
		return cmp.Compare(a.Node, b.Node)
	})
	return out
}

func candidates(ms []Member) []placement.Candidate {
	out := make([]placement.Candidate, len(ms))
	for i, m := range ms {
		out[i] = placement.Candidate{Node: m.Node, Synchronised: m.Synchronised}
	}
	return out
}

// always says whether the policy lets an unsynchronised member be promoted when a master is lost for that reason. As with RabbitMQ
// ha-promote-on-failure: when-synced also forbids what ha-promote-on-shutdown: always would allow (reference P8).
func (q *Queue) always(reason Reason) bool {
	ha := q.Effective.HA()
	if reason == ReasonShutdown && ha.PromoteOnShutdown != "always" {
		return false
	}
	return ha.PromoteOnFailure == "always"
}

// promote names a member that is in the view master under a new epoch.
func (q *Queue) promote(node string, loss bool) {
	q.Status, q.Master = QueueRunning, node
	q.Epoch++
	q.member(node).Synchronised = true // the master is what the others are measured by
	if loss {
		q.LastLossEpoch = q.Epoch
	}
}

// takeDown makes the queue wait for its last master or another of those who vouch for all of it.
func (q *Queue) takeDown() {
	q.Status = QueueDown
	for i := range q.Members {
		if q.Members[i].State == MemberUp {
			q.Members[i].State, q.Members[i].Synchronised = MemberJoining, false
		}
	}
}
