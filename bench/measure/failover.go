package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"warren/bench/load"
	"warren/bench/peer"
)

// Failures.
const (
	FailKill = "kill" // SIGKILL
	FailStop = "stop" // in good order
	// FailPartition is a node that falls silent without a connection being closed: its process is stopped (SIGSTOP), as
	// it would look to the others were its cable cut. It goes on after the measurement.
	FailPartition = "partition"
)

// Victims: whether the node that fails, which is always that of the queue's master, leads the metadata's Raft group as well.
const (
	VictimAny      = ""
	VictimLeader   = "leader"
	VictimFollower = "follower"
)

// leading is a cluster with a Raft group that decides about its queues.
type leading interface {
	Leader(ctx context.Context) (node int, err error)
}

// Leads tells whether the cluster can be asked for a victim.
func (t Target) Leads() bool {
	_, ok := t.Cluster.(leading)
	return ok
}

const recoverLimit = 150 * time.Second // for a confirm and a delivery after the failure

// FailoverRun lets a paced load run over clients of the surviving nodes, takes the node of the queue's master away in the
// middle, and measures how long it takes until confirms and deliveries go on. Then it checks that nothing that was confirmed
// is lost, and starts the node again. Error: load.ErrLost, load.ErrClaim, nothing was confirmed or delivered any more.
func FailoverRun(ctx context.Context, t Target, p Params) (_ *Result, err error) {
	if t.Kind == Plain {
		return nil, fmt.Errorf("failover of a queue that has one copy")
	}
	home, err := victim(ctx, t, p.Victim)
	if err != nil {
		return nil, err
	}
	queues, err := prepareFrom(ctx, t, "failover", 1, home)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cleanUp(t, queues)) }()
	master, err := masterOf(ctx, t, queues[0])
	if err != nil {
		return nil, err
	}
	queues[0].node = master
	p.Connect = ConnectOther
	r := &Result{
		Measurement: "failover", Peer: t.Cluster.Name(), Version: t.Cluster.Version(), Queue: t.Kind, Start: time.Now(), Params: p,
	}
	f, restore := &Failover{Failure: p.Failure}, func() error { return nil }
	defer func() { err = errors.Join(err, restore()) }()
	err = interrupted(ctx, t, queues, p, r, f, func(g *load.Group) (err error) {
		if f.Led, err = leads(ctx, t, p.Victim, master); err != nil {
			return err
		}
		if restore, err = fail(ctx, t, g, f, master); err != nil {
			return err
		}
		return g.Run(ctx, p.Duration)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// interrupted lets a load run whose clients connect again elsewhere, and disturb take nodes away meanwhile. It writes into r and f what
// that did to the clients and their messages. Lost is 0: a measurement that lost one gives no result, but load.ErrLost.
func interrupted(ctx context.Context, t Target, queues []queue, p Params, r *Result, f *Failover, disturb func(*load.Group) error) error {
	pl := plan(t, queues, p)
	for i := range pl.Publishers {
		pl.Publishers[i].Reconnect = true
	}
	for i := range pl.Consumers {
		pl.Consumers[i].Reconnect = true
	}
	g := load.Start(ctx, pl)
	defer g.Close()
	if err := g.Run(ctx, p.Warmup); err != nil {
		return err
	}
	s := begin(g)
	if err := disturb(g); err != nil {
		return err
	}
	after := s.end(r)
	if err := finish(ctx, g, p); err != nil {
		return err
	}
	r.Counts, r.Failover = g.Counts(), f
	f.Doubled, f.Unmarked = r.Counts.Doubled, r.Counts.Doubled-r.Counts.Redelivered
	for _, p := range g.Publishers {
		f.Reconnects += p.Reconnects()
	}
	r.ConfirmSeries, r.DeliverSeries = points(g.Publishers[0].Series()), points(g.Consumers[0].Series())
	return g.Verify(after.Confirmed)
}

// masterOf finds the node of a queue's master among the cluster's nodes; if the broker does not say, it is where the queue was
// declared.
func masterOf(ctx context.Context, t Target, q queue) (int, error) {
	info, err := t.Cluster.Queue(ctx, q.name)
	if err != nil {
		return 0, err
	}
	for i, n := range t.Cluster.Nodes() {
		if n.Name != "" && n.Name == info.Master {
			return i, nil
		}
	}
	if info.Master != "" && t.Cluster.Nodes()[0].Name != "" {
		return 0, fmt.Errorf("the master of %q is on %q, which is not a node of the cluster", q.name, info.Master)
	}
	return q.node, nil
}

// victim is the node on which the queue is to be declared.
func victim(ctx context.Context, t Target, which string) (int, error) {
	if which == VictimAny {
		return 0, nil
	}
	c, ok := t.Cluster.(leading)
	if !ok {
		return 0, fmt.Errorf("choose a node that is %s: %s has no Raft group beside its queues: %w", which, t.Cluster.Name(), peer.ErrUnsupported)
	}
	leader, err := c.Leader(ctx)
	if err != nil || which == VictimLeader {
		return leader, err
	}
	return (leader + 1) % len(t.Cluster.Nodes()), nil
}

// leads tells whether a node leads, and fails if it does not do what it was chosen for.
func leads(ctx context.Context, t Target, which string, node int) (bool, error) {
	c, ok := t.Cluster.(leading)
	if !ok {
		return false, nil
	}
	leader, err := c.Leader(ctx)
	if err != nil {
		return false, err
	}
	if led := leader == node; which == VictimAny || led == (which == VictimLeader) {
		return led, nil
	}
	return false, fmt.Errorf("node %d was chosen as the Raft group's %s, and node %d leads now: %w", node+1, which, leader+1, ErrMoved)
}

// ErrMoved: what was to be measured changed while it was prepared.
var ErrMoved = errors.New("the leader has changed")

// fail takes the master's node away as f.Failure says, and waits for a confirm and a delivery after that. restore brings the node back.
func fail(ctx context.Context, t Target, g *load.Group, f *Failover, master int) (restore func() error, err error) {
	restore = func() error { return t.Cluster.StartNode(ctx, master) }
	nothing := func() error { return nil }
	mark := func(at time.Time) {
		for _, p := range g.Publishers {
			p.Mark(at)
		}
		for _, c := range g.Consumers {
			c.Mark(at)
		}
	}
	var at time.Time
	switch f.Failure {
	case FailKill:
		// The mark may be set a moment after the kill: confirms of messages due after it take longer than that.
		if at, err = t.Cluster.Kill(ctx, master); err == nil {
			mark(at)
		}
	case FailStop:
		mark(time.Now()) // the stop takes its time; the stall falls somewhere into it
		_, err = t.Cluster.StopNode(ctx, master)
	case FailPartition:
		if at, err = t.Cluster.Pause(ctx, master); err == nil {
			mark(at)
		}
		restore = func() error { return t.Cluster.Resume(ctx, master) }
	default:
		return nothing, fmt.Errorf("unknown failure %q", f.Failure)
	}
	if err != nil {
		return nothing, err
	}
	limited, cancel := context.WithTimeout(ctx, recoverLimit)
	defer cancel()
	confirm, delivery, err := awaitMark(limited, g)
	f.FirstConfirm, f.FirstDelivery = ms(confirm), ms(delivery)
	return restore, err
}

func awaitMark(ctx context.Context, g *load.Group) (confirm, delivery time.Duration, err error) {
	for {
		confirm, c := g.Publishers[0].AfterMark()
		delivery, d := g.Consumers[0].AfterMark()
		if c && d {
			return confirm, delivery, nil
		}
		select {
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("after the failure: confirmed %v, delivered %v: %w", c, d, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
		if err := g.Failed(); err != nil {
			return 0, 0, err
		}
	}
}
