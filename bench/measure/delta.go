package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"warren/bench/load"
)

// deltaRun kills the node of a mirror, lets the load go on for a second, starts the node again and measures how long it takes
// until its copy is synchronised again, and what the clients notice meanwhile. Seconds count from the start of the node's
// process, its start included. What is proved is less than SyncRun proves: the list says that the mirror is back, and every
// message is in the queue; the mirror that was away is not promoted.
func deltaRun(ctx context.Context, t Target, p Params) (_ *Result, err error) {
	const mirror = 1 // the node that goes; the queue's master is on node 0
	r := &Result{Measurement: "sync", Peer: t.Cluster.Name(), Version: t.Cluster.Version(), Queue: t.Kind, Start: time.Now(), Params: p}
	queues, err := prepare(ctx, t, "delta", 1)
	defer func() { err = errors.Join(err, cleanUp(t, queues)) }()
	if err != nil {
		return nil, err
	}
	g := load.New(ctx)
	defer g.Close()
	if err := fill(ctx, g, t, queues[0], p); err != nil {
		return nil, err
	}
	others, err := prepare(ctx, t, "neighbour", 1)
	queues = append(queues, others...)
	if err != nil {
		return nil, err
	}
	both := startSides(g, t, queues, p, ConnectMaster)
	if err := g.Run(ctx, p.Warmup); err != nil {
		return nil, err
	}
	both.before()
	s, err := returnOf(ctx, g, t, p, queues[0].name, mirror, both.cut)
	if err != nil {
		return nil, err
	}
	p.Prove = false
	if err := both.end(ctx, g, t, p, queues[0], s); err != nil {
		return nil, err
	}
	r.Sync, r.Counts, r.Seconds = s, g.Counts(), s.Seconds
	return r, nil
}

// returnOf takes a mirror's node away and brings it back. cut is called just before it comes back.
func returnOf(ctx context.Context, g *load.Group, t Target, p Params, name string, node int, cut func()) (*Sync, error) {
	if _, err := t.Cluster.Kill(ctx, node); err != nil {
		return nil, err
	}
	if err := g.Run(ctx, p.tail()); err != nil {
		return nil, errors.Join(err, t.Cluster.StartNode(ctx, node))
	}
	want := len(t.Cluster.Nodes()) - 1
	q, err := t.Cluster.Queue(ctx, name)
	if err == nil && len(q.Synced) >= want {
		err = fmt.Errorf("queue %q, after the node of a mirror was killed: %w", name, ErrNothingToSync)
	}
	if err != nil {
		return nil, errors.Join(err, t.Cluster.StartNode(ctx, node))
	}
	cut()
	began := time.Now()
	if err := t.Cluster.StartNode(ctx, node); err != nil {
		return nil, err
	}
	ended, err := awaitListed(ctx, t, name, want)
	if err != nil {
		return nil, err
	}
	if err := g.Run(ctx, p.tail()); err != nil {
		return nil, err
	}
	s := &Sync{Depth: p.Depth, Mirrors: 1, Seconds: ended.Sub(began).Seconds()}
	s.Listed, s.PerSec = s.Seconds, float64(p.Depth)/s.Seconds
	s.MBPerSec = s.PerSec * float64(p.Size) / 1e6
	s.BeganAt, s.EndedAt = began.Sub(g.Origin).Seconds(), ended.Sub(g.Origin).Seconds()
	return s, nil
}

// Rolling stops every node in good order and starts it again, one after the other, each after the copies of the one before
// are synchronised, while a paced load goes on whose clients connect again elsewhere. Error: load.ErrLost, load.ErrClaim, a
// copy that does not come back.
func Rolling(ctx context.Context, t Target, p Params) (_ *Result, err error) {
	if t.Kind == Plain {
		return nil, fmt.Errorf("a rolling restart under a queue that has one copy")
	}
	queues, err := prepare(ctx, t, "rolling", 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cleanUp(t, queues)) }()
	r := &Result{Measurement: "rolling", Peer: t.Cluster.Name(), Version: t.Cluster.Version(), Queue: t.Kind, Start: time.Now(), Params: p}
	nodes := len(t.Cluster.Nodes())
	err = interrupted(ctx, t, queues, p, r, &Failover{Failure: "rolling"}, func(*load.Group) error {
		for i := range nodes {
			if _, err := t.Cluster.StopNode(ctx, i); err != nil {
				return errors.Join(err, t.Cluster.StartNode(ctx, i))
			}
			if err := t.Cluster.StartNode(ctx, i); err != nil {
				return err
			}
			if _, err := awaitListed(ctx, t, queues[0].name, nodes-1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}
