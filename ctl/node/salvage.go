package node

import (
	"context"
	"errors"

	"warren/ctl/admin"
	"warren/dataplane/backingqueue"
	"warren/dataplane/broker"
)

// ListSalvage implements admin.Node.
func (a *adapter) ListSalvage(context.Context) (out []admin.AsideSet, _ error) {
	sets, err := a.n.Asides()
	for _, s := range sets {
		set := admin.AsideSet{
			Name: s.Name, VHost: s.VHost, Queue: s.Label.Name, ID: uint64(s.Queue), Time: s.When.Unix(), Reason: s.Why,
			Messages: s.Messages, Bytes: s.Bytes, Published: s.Published, Path: s.Path,
		}
		if !s.Noted {
			set.Reason = "not recorded; the queue may still have these messages"
		}
		out = append(out, set)
	}
	return out, byHand(err)
}

// Salvage implements admin.Node.
func (a *adapter) Salvage(ctx context.Context, s admin.Salvage) (admin.Salvaged, error) {
	done, err := a.n.SalvageSet(ctx, broker.Salvage{
		Set: s.Set, VHost: s.VHost, Queue: s.Queue, Exchange: s.Exchange, RoutingKey: s.RoutingKey, Restart: s.Restart, Keep: s.Keep,
	})
	out := admin.Salvaged{Published: done.Published, Before: done.Before, Kept: done.Kept, Damage: done.Damage, Target: done.Target}
	switch {
	case errors.Is(err, backingqueue.ErrNotFound):
		return out, admin.Errorf(admin.CodeNotFound, "nothing is set aside as '%s' on this node", s.Set)
	case errors.Is(err, backingqueue.ErrOpen):
		return out, admin.Errorf(admin.CodeInUse, "'%s' is being published by another command", s.Set)
	}
	return out, byHand(err)
}
