package command

import (
	"context"

	"warren/ctl/admin"
	"warren/metadata/policy"
)

// checkedPolicy is what a node does before it sets a policy.
func checkedPolicy(f *fakeNode, p admin.PolicyInfo, operator bool) (admin.PolicyInfo, error) {
	d, err := policy.Parse(p.Definition, operator)
	if err == nil {
		err = policy.Check(p.Pattern, policy.ApplyTo(p.ApplyTo))
	}
	if v, ok := err.(*policy.ValidationError); ok {
		return p, admin.Errorf(admin.CodeValidation, "%s", v.Text)
	} else if err != nil {
		return p, err
	}
	if _, err := f.ListPolicies(context.Background(), p.VHost); err != nil {
		return p, err
	}
	p.Definition = d.JSON()
	return p, nil
}

func (f *fakeNode) SetOperatorPolicy(_ context.Context, p admin.PolicyInfo) error {
	p, err := checkedPolicy(f, p, true)
	if err == nil {
		f.operators = append(f.operators, p)
	}
	return err
}

func (f *fakeNode) ClearOperatorPolicy(_ context.Context, vhost, name string) error {
	for i, p := range f.operators {
		if p.VHost == vhost && p.Name == name {
			f.operators = append(f.operators[:i], f.operators[i+1:]...)
			return nil
		}
	}
	return admin.Errorf(admin.CodeNotFound, "operator policy %s", name)
}

func (f *fakeNode) ListOperatorPolicies(ctx context.Context, vhost string) (all []admin.PolicyInfo, err error) {
	_, err = f.ListPolicies(ctx, vhost)
	for _, p := range f.operators {
		if p.VHost == vhost {
			all = append(all, p)
		}
	}
	return all, err
}

func (f *fakeNode) SyncQueue(_ context.Context, vhost, name string) error {
	q, err := f.find(vhost, name)
	if err == nil && !q.Mirrored {
		err = admin.Errorf(admin.CodeNotMirrored, "%s", name)
	}
	return err
}

func (f *fakeNode) CancelSyncQueue(_ context.Context, vhost, name string) error {
	q, err := f.find(vhost, name)
	if err == nil && q.State != "syncing" {
		err = admin.Errorf(admin.CodeNotSyncing, "%s", name)
	}
	return err
}

func (f *fakeNode) TransferQueue(_ context.Context, t admin.QueueOnNode) error {
	if _, err := f.find(t.VHost, t.Name); err != nil {
		return err
	}
	f.transferred = t
	return f.byHand
}

func (f *fakeNode) PlanPromotion(_ context.Context, t admin.QueueOnNode) (admin.PromotionPlan, error) {
	if _, err := f.find(t.VHost, t.Name); err != nil {
		return admin.PromotionPlan{}, err
	}
	return f.plan, f.byHand
}

func (f *fakeNode) PromoteQueue(_ context.Context, p admin.PromotionPlan) error {
	f.promoted = p
	return nil
}

func (f *fakeNode) Rebalance(_ context.Context, r admin.Rebalancing) ([]admin.NodeMasters, error) {
	if r.QueuePattern != "" || r.VHostPattern != "" {
		return nil, nil
	}
	return f.masters, nil
}

func (f *fakeNode) ListSalvage(context.Context) ([]admin.AsideSet, error) { return f.aside, nil }

func (f *fakeNode) Salvage(_ context.Context, s admin.Salvage) (admin.Salvaged, error) {
	for _, set := range f.aside {
		if set.Name == s.Set {
			f.salvage = s
			return admin.Salvaged{Published: set.Messages - set.Published, Before: set.Published, Kept: s.Keep, Target: "queue 'orders' in vhost '/'",
				Damage: f.damage}, f.byHand
		}
	}
	return admin.Salvaged{}, admin.Errorf(admin.CodeNotFound, "nothing is set aside as '%s' on this node", s.Set)
}
