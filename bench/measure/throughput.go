package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"warren/bench/ledger"
	"warren/bench/load"
	"warren/bench/proc"
)

// settleLimit is how long the last confirms may take after the publishers were stopped.
const settleLimit = 60 * time.Second

// Throughput lets the load run and measures what was confirmed and delivered per second, latencies, CPU and memory. With a
// Rate it is the measurement of latency at a fixed rate. Error: a message was lost (load.ErrLost), refused (load.ErrRefused),
// or the books do not bear out the claim (load.ErrClaim); or the cluster failed.
func Throughput(ctx context.Context, t Target, p Params) (_ *Result, err error) {
	what := "throughput"
	if p.Rate > 0 || p.Window == 1 {
		what = "latency"
	}
	queues, err := prepare(ctx, t, what, p.Queues)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cleanUp(t, queues)) }()
	r := &Result{
		Measurement: what, Peer: t.Cluster.Name(), Version: t.Cluster.Version(), Queue: t.Kind, Start: time.Now(), Params: p,
	}
	g := load.Start(ctx, plan(t, queues, p))
	defer g.Close()
	if err := g.Run(ctx, p.Warmup); err != nil {
		return nil, err
	}
	pids, err := t.Cluster.PIDs()
	if err != nil {
		return nil, err
	}
	watch, err := proc.Watch(pids)
	if err != nil {
		return nil, err
	}
	s, client := begin(g), proc.Self()
	runErr := g.Run(ctx, p.Duration)
	after := s.end(r)
	client = proc.Self() - client
	usage, err := watch.Stop()
	if err := errors.Join(runErr, err); err != nil {
		return nil, err
	}
	confirmed := after.Confirmed - s.before.Confirmed
	r.use(usage, client, confirmed)
	if confirmed == 0 {
		return nil, fmt.Errorf("nothing was confirmed in %.3f s", r.Seconds)
	}
	if err := finish(ctx, g, p); err != nil {
		return nil, err
	}
	r.Counts = g.Counts()
	for _, p := range g.Publishers {
		r.GeneratorLate = max(r.GeneratorLate, ms(p.Late()))
	}
	return r, errors.Join(g.Refused(), g.Verify(after.Confirmed))
}

// span is a part of a load's time.
type span struct {
	g      *load.Group
	began  time.Time
	before ledger.Counts
}

// begin begins one, with figures of its own.
func begin(g *load.Group) span {
	g.Cut()
	return span{g, time.Now(), g.Counts()}
}

// end writes into r how long the span was and what the clients saw in it.
func (s span) end(r *Result) (after ledger.Counts) {
	after, r.Seconds = s.g.Counts(), time.Since(s.began).Seconds()
	confirms, endToEnd, _ := s.g.Cut()
	r.ConfirmedPerSec = float64(after.Confirmed-s.before.Confirmed) / r.Seconds
	r.DeliveredPerSec = float64(after.Delivered-s.before.Delivered) / r.Seconds
	r.Confirm, r.EndToEnd = latency(confirms), latency(endToEnd)
	return after
}

// finish stops the publishers and waits until all that was confirmed was delivered.
func finish(ctx context.Context, g *load.Group, p Params) error {
	if err := g.StopPublishers(ctx, settleLimit); err != nil {
		return err
	}
	if len(g.Consumers) == 0 {
		return nil
	}
	return g.Drain(ctx, p.Idle)
}
