package state

import (
	"slices"

	"warren/metadata/policy"
)

func (s *State) setPolicy(index uint64, c *SetPolicy) Result {
	p := c.Policy
	if r, ok := s.planFits(p.Vhost, p.Name, c.Plan); !ok {
		return r
	}
	s.policyTable(c.Operator).put(key(p.Vhost, p.Name), &p)
	s.replan(index, p.Vhost, c.Plan)
	return Result{}
}

func (s *State) clearPolicy(index uint64, c *ClearPolicy) Result {
	if r, ok := s.planFits(c.Vhost, c.Name, c.Plan); !ok {
		return r
	}
	t := s.policyTable(c.Operator)
	if _, ok := t.get(key(c.Vhost, c.Name)); !ok {
		return refused(CodeNotFound, KindPolicy, c.Vhost, c.Name)
	}
	t.del(key(c.Vhost, c.Name))
	s.replan(index, c.Vhost, c.Plan)
	return Result{}
}

func (s *State) planFits(vhost, name string, p Plan) (Result, bool) {
	v, ok := s.vhosts.get(vhost)
	if !ok {
		return refused(CodeNotFound, KindVhost, "", vhost), false
	}
	if v.PolicyVersion != p.PolicyVersion || v.ObjectVersion != p.ObjectVersion {
		return stale(KindPolicy, vhost, name, "policies are at %d and objects at %d, not %d and %d",
			v.PolicyVersion, v.ObjectVersion, p.PolicyVersion, p.ObjectVersion), false
	}
	return Result{}, true
}

// replan gives every object of the vhost its new effective policy, and every queue its new mirrors, in one command
// (reference M14). A match that names a policy that is gone counts as none; only a proposer with a defect sends one.
func (s *State) replan(index uint64, vhost string, p Plan) {
	v, _ := s.vhosts.get(vhost)
	now := *v
	now.PolicyVersion = index
	s.vhosts.put(vhost, &now)
	s.changes = append(s.changes, Change{Kind: PoliciesChanged, Vhost: vhost})
	queues := make(map[uint64]Match, len(p.Queues))
	for _, m := range p.Queues {
		queues[m.Queue] = m.Match
	}
	for _, was := range s.VhostQueues(vhost) {
		q := was.clone()
		if m, ok := queues[q.ID]; ok {
			q.setMatch(m)
		}
		q.Effective = withType(q.Compared, s.effectiveOrNone(vhost, q.match(), func(m Match) { q.setMatch(m) }))
		s.assign(q)
		if !slices.Equal(was.Members, q.Members) || was.match() != q.match() || !slices.Equal(was.Effective, q.Effective) {
			s.publish(index, q)
		}
	}
	for _, was := range s.Exchanges(vhost) {
		x := *was
		if i := slices.IndexFunc(p.Exchanges, func(m ExchangeMatch) bool { return m.Exchange == x.Name }); i >= 0 {
			x.setMatch(p.Exchanges[i].Match)
		}
		x.Effective = s.effectiveOrNone(vhost, x.match(), func(m Match) { x.setMatch(m) })
		if was.match() != x.match() || !slices.Equal(was.Effective, x.Effective) {
			s.putExchange(&x, ExchangeChanged)
		}
	}
}

func (s *State) effectiveOrNone(vhost string, m Match, set func(Match)) policy.Definition {
	d, ok := s.effective(vhost, m)
	if !ok {
		set(Match{})
		return nil
	}
	return d
}

func (x *Exchange) setMatch(m Match) {
	x.Policy, x.HasPolicy, x.OperatorPolicy, x.HasOperator = m.Policy, m.HasPolicy, m.Operator, m.HasOperator
}

func (x *Exchange) match() Match {
	return Match{Policy: x.Policy, HasPolicy: x.HasPolicy, Operator: x.OperatorPolicy, HasOperator: x.HasOperator}
}
