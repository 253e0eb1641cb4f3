package state

import (
	"errors"
	"fmt"
	"slices"

	"warren/metadata/policy"
)

// Preparation is the leader's part of a command that needs names matched against policies: what it needs of the state,
// gathered under the owner's lock, and then completed without it.
type Preparation struct {
	cmd       Command
	policies  []*Policy
	operators []*Policy
	vhost     *Vhost
	queues    []*Queue
	exchanges []*Exchange
	check     func() error
}

// Rematches says whether cmd changes policies: if an object is created between Gather and its commit, it is refused as stale,
// so the leader holds such commands back meanwhile (metadata/raftstore).
func Rematches(cmd Command) bool {
	switch cmd.(type) {
	case *SetPolicy, *ClearPolicy:
		return true
	}
	return false
}

// Gather takes what cmd needs from the state; nil if it needs no preparation.
func Gather(cmd Command, s *State) *Preparation {
	var vhost string
	switch c := cmd.(type) {
	case *DeclareQueue:
		vhost = c.Vhost
	case *DeclareExchange:
		vhost = c.Vhost
	case *SetPolicy:
		vhost = c.Policy.Vhost
	case *ClearPolicy:
		vhost = c.Vhost
	default:
		return nil
	}
	v, ok := s.vhosts.get(vhost)
	if !ok {
		return nil // Apply says so
	}
	p := &Preparation{cmd: cmd, vhost: v, policies: s.Policies(vhost, false), operators: s.Policies(vhost, true)}
	if Rematches(cmd) {
		p.queues, p.exchanges = s.VhostQueues(vhost), s.Exchanges(vhost)
	}
	return p
}

// Complete matches, and returns the command with the result filled in (a copy). It calls check before each name, and ends with its
// error. Other errors: a *policy.ValidationError for a pattern that does not compile, and *Error with CodePattern for one that
// takes too long on some name.
func (p *Preparation) Complete(check func() error) (Command, error) {
	p.check = check
	switch c := p.cmd.(type) {
	case *SetPolicy:
		p.change(c.Operator, func(ps []*Policy) []*Policy { return append(without(ps, c.Policy.Name), &c.Policy) })
		plan, err := p.plan()
		out := *c
		out.Plan = plan
		return &out, err
	case *ClearPolicy:
		p.change(c.Operator, func(ps []*Policy) []*Policy { return without(ps, c.Name) })
		plan, err := p.plan()
		out := *c
		out.Plan = plan
		return &out, err
	}
	m, err := p.matcher()
	if err != nil {
		return nil, err
	}
	switch c := p.cmd.(type) {
	case *DeclareQueue:
		out := *c
		out.PolicyVersion = p.vhost.PolicyVersion
		out.Match, err = m.match(policy.ApplyToQueues, c.Name)
		return &out, err
	case *DeclareExchange:
		out := *c
		out.PolicyVersion = p.vhost.PolicyVersion
		out.Match, err = m.match(policy.ApplyToExchanges, c.Name)
		return &out, err
	}
	return p.cmd, nil
}

func (p *Preparation) change(operator bool, f func([]*Policy) []*Policy) {
	if operator {
		p.operators = f(p.operators)
	} else {
		p.policies = f(p.policies)
	}
}

func without(ps []*Policy, name string) []*Policy {
	return slices.DeleteFunc(slices.Clone(ps), func(p *Policy) bool { return p.Name == name })
}

// rules are the sorted rules of both kinds of policies.
type rules struct{ user, operator []policy.Rule }

func (p *Preparation) matcher() (rules, error) {
	user, err := compile(p.policies)
	if err != nil {
		return rules{}, err
	}
	operator, err := compile(p.operators)
	return rules{user, operator}, err
}

func compile(ps []*Policy) ([]policy.Rule, error) {
	out := make([]policy.Rule, len(ps))
	for i, p := range ps {
		m, err := policy.NewMatcher(p.Pattern)
		if err != nil {
			return nil, fmt.Errorf("compile policy '%s': %w", p.Name, err)
		}
		out[i] = policy.Rule{Name: p.Name, Matcher: m, ApplyTo: p.ApplyTo, Priority: p.Priority}
	}
	policy.Sort(out)
	return out, nil
}

func (r rules) match(kind policy.ApplyTo, name string) (m Match, err error) {
	if m.Policy, m.HasPolicy, err = policy.Choose(r.user, kind, name); err != nil {
		return m, tooLong(name, err)
	}
	if m.Operator, m.HasOperator, err = policy.Choose(r.operator, kind, name); err != nil {
		return m, tooLong(name, err)
	}
	return m, nil
}

func tooLong(name string, err error) error {
	if !errors.Is(err, policy.ErrTimeout) {
		return err
	}
	return &Error{Code: CodePattern, Kind: KindPolicy, Name: name, Detail: err.Error()}
}

// plan matches every object of the vhost, and keeps those whose match becomes another one.
func (p *Preparation) plan() (Plan, error) {
	plan := Plan{PolicyVersion: p.vhost.PolicyVersion, ObjectVersion: p.vhost.ObjectVersion}
	m, err := p.matcher()
	if err != nil {
		return plan, err
	}
	for _, q := range p.queues {
		if err := p.check(); err != nil {
			return plan, err
		}
		now, err := m.match(policy.ApplyToQueues, q.Name)
		if err != nil {
			return plan, err
		}
		if now != q.match() {
			plan.Queues = append(plan.Queues, QueueMatch{q.ID, now})
		}
	}
	for _, x := range p.exchanges {
		if err := p.check(); err != nil {
			return plan, err
		}
		now, err := m.match(policy.ApplyToExchanges, x.Name)
		if err != nil {
			return plan, err
		}
		if now != x.match() {
			plan.Exchanges = append(plan.Exchanges, ExchangeMatch{x.Name, now})
		}
	}
	return plan, nil
}
