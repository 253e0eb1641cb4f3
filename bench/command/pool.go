package command

import (
	"context"
	"errors"

	"warren/bench/peer"
)

// pool keeps clusters running from one measurement to the next. A nil pool keeps none.
type pool struct{ clusters map[string]peer.Cluster }

// get gives the running cluster of that name, or starts it.
func (p *pool) get(ctx context.Context, name string, start func() (peer.Cluster, error)) (peer.Cluster, error) {
	if p == nil {
		return start()
	}
	if c := p.clusters[name]; c != nil {
		if _, err := c.PIDs(); err == nil {
			return c, nil
		}
		if err := p.end(ctx, name); err != nil {
			return nil, err
		}
	}
	c, err := start()
	if err == nil {
		p.clusters[name] = c
	}
	return c, err
}

// keep ends all clusters but those that are named: what is not measured is not to run beside what is.
func (p *pool) keep(ctx context.Context, names ...string) (err error) {
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	for name := range p.clusters {
		if !wanted[name] {
			err = errors.Join(err, p.end(ctx, name))
		}
	}
	return err
}

func (p *pool) end(ctx context.Context, name string) error {
	c := p.clusters[name]
	delete(p.clusters, name)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	return c.Shutdown(ctx)
}
