package node

import (
	"context"
	"errors"

	"warren/ctl/admin"
	"warren/dataplane/broker"
	"warren/metadata/policy"
	"warren/metadata/state"
)

// setPolicy checks a policy, or an operator policy, and has it set.
func (a *adapter) setPolicy(ctx context.Context, p admin.PolicyInfo, operator bool) error {
	definition, err := policy.Parse(p.Definition, operator)
	if errors.Is(err, policy.ErrJSON) {
		return admin.Errorf(admin.CodeBadJSON, "%v", err)
	} else if err != nil {
		return refusal(err)
	}
	applyTo := policy.ApplyTo(p.ApplyTo)
	if applyTo == "" {
		applyTo = policy.ApplyToAll
	}
	if err := policy.Check(p.Pattern, applyTo); err != nil {
		return refusal(err)
	}
	if !a.hasVhost(p.VHost) {
		return noVhost(p.VHost)
	}
	_, err = a.n.Propose(ctx, &state.SetPolicy{Operator: operator, Policy: state.Policy{
		Vhost: p.VHost, Name: p.Name, Pattern: p.Pattern, ApplyTo: applyTo, Priority: p.Priority, Definition: definition,
	}})
	if err != nil {
		return refusal(err)
	}
	a.warnOfTies(p, operator)
	return nil
}

// warnOfTies warns of policies of equal priority that match the same queue: the first by name applies (metadata.md, effective
// policy), which an operator may not expect.
func (a *adapter) warnOfTies(p admin.PolicyInfo, operator bool) {
	var others []*state.Policy
	var queues []*state.Queue
	a.n.View(func(s *state.State) {
		for _, o := range s.Policies(p.VHost, operator) {
			if o.Name != p.Name && o.Priority == p.Priority && o.ApplyTo != policy.ApplyToExchanges {
				others = append(others, o)
			}
		}
		queues = s.VhostQueues(p.VHost)
	})
	if len(others) == 0 || policy.ApplyTo(p.ApplyTo) == policy.ApplyToExchanges {
		return
	}
	this, err := policy.NewMatcher(p.Pattern)
	if err != nil {
		return // it was set, so it compiles
	}
	matches := func(m *policy.Matcher, q *state.Queue) bool {
		ok, err := m.Match(q.Name)
		return ok && err == nil
	}
	for _, o := range others {
		other, err := policy.NewMatcher(o.Pattern)
		if err != nil {
			continue
		}
		for _, q := range queues {
			if matches(this, q) && matches(other, q) {
				a.cfg.Log.Warn("two policies of equal priority match the same queue; the first by name applies",
					"vhost", p.VHost, "queue", q.Name, "policies", []string{min(o.Name, p.Name), max(o.Name, p.Name)}, "priority", p.Priority)
				break
			}
		}
	}
}

func (a *adapter) clearPolicy(ctx context.Context, vhost, name string, operator bool) error {
	if !a.hasVhost(vhost) {
		return noVhost(vhost)
	}
	_, err := a.n.Propose(ctx, &state.ClearPolicy{Vhost: vhost, Name: name, Operator: operator})
	return refusal(err)
}

func (a *adapter) listPolicies(vhost string, operator bool) ([]admin.PolicyInfo, error) {
	if !a.hasVhost(vhost) {
		return nil, noVhost(vhost)
	}
	var out []admin.PolicyInfo
	a.n.View(func(s *state.State) {
		for _, p := range s.Policies(vhost, operator) {
			out = append(out, admin.PolicyInfo{
				VHost: p.Vhost, Name: p.Name, Pattern: p.Pattern, ApplyTo: string(p.ApplyTo), Definition: p.Definition.JSON(),
				Priority: p.Priority,
			})
		}
	})
	return out, nil
}

// SetPolicy implements admin.Node.
func (a *adapter) SetPolicy(ctx context.Context, p admin.PolicyInfo) error {
	return a.setPolicy(ctx, p, false)
}

// ClearPolicy implements admin.Node.
func (a *adapter) ClearPolicy(ctx context.Context, vhost, name string) error {
	return a.clearPolicy(ctx, vhost, name, false)
}

// ListPolicies implements admin.Node.
func (a *adapter) ListPolicies(_ context.Context, vhost string) ([]admin.PolicyInfo, error) {
	return a.listPolicies(vhost, false)
}

// SetOperatorPolicy implements admin.Node.
func (a *adapter) SetOperatorPolicy(ctx context.Context, p admin.PolicyInfo) error {
	return a.setPolicy(ctx, p, true)
}

// ClearOperatorPolicy implements admin.Node.
func (a *adapter) ClearOperatorPolicy(ctx context.Context, vhost, name string) error {
	return a.clearPolicy(ctx, vhost, name, true)
}

// ListOperatorPolicies implements admin.Node.
func (a *adapter) ListOperatorPolicies(_ context.Context, vhost string) ([]admin.PolicyInfo, error) {
	return a.listPolicies(vhost, true)
}

// byHand is the answer to an operator whose request about one queue cannot be carried out.
func byHand(err error) error {
	if err == nil || errors.Is(err, broker.ErrNotUp) || errors.Is(err, context.DeadlineExceeded) {
		return refusal(err)
	}
	return admin.Errorf(admin.CodeRefused, "%v", err)
}

// TransferQueue implements admin.Node.
func (a *adapter) TransferQueue(ctx context.Context, t admin.QueueOnNode) error {
	q, err := a.queue(t.VHost, t.Name)
	if err != nil {
		return err
	}
	return byHand(a.n.Transfer(ctx, q, t.Node))
}

// PlanPromotion implements admin.Node.
func (a *adapter) PlanPromotion(ctx context.Context, t admin.QueueOnNode) (admin.PromotionPlan, error) {
	q, err := a.queue(t.VHost, t.Name)
	if err != nil {
		return admin.PromotionPlan{}, err
	}
	p, err := a.n.PlanPromotion(ctx, q, t.Node)
	return admin.PromotionPlan{
		VHost: t.VHost, Name: t.Name, Node: p.Node, LastMaster: p.LastMaster, Vouched: p.Vouched, Messages: p.Messages,
		ID: p.Queue, Epoch: p.Epoch, Incarnation: p.Incarnation,
	}, byHand(err)
}

// PromoteQueue implements admin.Node.
func (a *adapter) PromoteQueue(ctx context.Context, p admin.PromotionPlan) error {
	return byHand(a.n.Promote(ctx, broker.PromotionPlan{
		Queue: p.ID, Epoch: p.Epoch, Node: p.Node, Incarnation: p.Incarnation, LastMaster: p.LastMaster, Vouched: p.Vouched,
		Messages: p.Messages,
	}))
}

// Rebalance implements admin.Node.
func (a *adapter) Rebalance(ctx context.Context, r admin.Rebalancing) (out []admin.NodeMasters, _ error) {
	vhosts, err := policy.NewMatcher(r.VHostPattern)
	if err != nil {
		return nil, refusal(err)
	}
	queues, err := policy.NewMatcher(r.QueuePattern)
	if err != nil {
		return nil, refusal(err)
	}
	counts, err := a.n.Rebalance(ctx, func(q *state.Queue) bool {
		in, err := vhosts.Match(q.Vhost)
		if err != nil || !in {
			return false
		}
		in, err = queues.Match(q.Name)
		return err == nil && in
	})
	for _, c := range counts {
		out = append(out, admin.NodeMasters{Node: c.Node, Masters: c.Masters})
	}
	return out, byHand(err)
}

// SyncQueue implements admin.Node.
func (a *adapter) SyncQueue(ctx context.Context, vhost, name string) error {
	q, err := a.queue(vhost, name)
	if err != nil {
		return err
	}
	return syncRefusal(a.n.SyncQueue(ctx, q))
}

// CancelSyncQueue implements admin.Node.
func (a *adapter) CancelSyncQueue(ctx context.Context, vhost, name string) error {
	q, err := a.queue(vhost, name)
	if err != nil {
		return err
	}
	return syncRefusal(a.n.CancelSync(ctx, q))
}

func syncRefusal(err error) error {
	switch {
	case errors.Is(err, broker.ErrNotMirrored):
		return admin.Errorf(admin.CodeNotMirrored, "%v", err)
	case errors.Is(err, broker.ErrNotSyncing):
		return admin.Errorf(admin.CodeNotSyncing, "%v", err)
	case err != nil:
		return admin.Errorf(admin.CodeUnavailable, "%v", err)
	}
	return nil
}
