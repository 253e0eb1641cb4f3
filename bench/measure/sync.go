package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"warren/bench/hist"
	"warren/bench/load"
	"warren/bench/peer"
	"warren/bench/proc"
)

// Strategies of synchronisation.
const (
	StrategyDefault  = ""         // whatever the broker does when it is told nothing
	StrategyBlocking = "blocking" // of Warren's policies
	StrategyOnline   = "online"
	// StrategyDelta is no policy: a mirror's node is killed and comes back with what it has, see deltaRun.
	StrategyDelta = "delta"
)

const (
	syncPolicy   = "bench-sync"
	fillWindow   = 2000
	sidePrefetch = 50
	fillLimit    = 10 * time.Minute
	listedPoll   = 100 * time.Millisecond // it is part of how long a return takes; a tool that is run more often takes part itself
)

// ErrNotSynced: the broker said that the queue is synchronised, and it is not.
var ErrNotSynced = errors.New("the queue is not synchronised though the broker said so")

// ErrNothingToSync: the mirrors were synchronised before they were told to.
var ErrNothingToSync = errors.New("the mirrors were synchronised already")

// Beside is what the clients of one queue saw before and during the synchronisation.
type Beside struct {
	ConfirmBefore Latency `json:"confirm_before"`
	ConfirmDuring Latency `json:"confirm_during"`
	// Of the queue that is synchronised, which is never empty: from the credit to the delivery that it lets through. Of the
	// neighbour, which is empty but for what is under way: from the moment that the message was due to its delivery.
	DeliverBefore   Latency `json:"deliver_before"`
	DeliverDuring   Latency `json:"deliver_during"`
	ConfirmedBefore float64 `json:"confirmed_per_s_before"`
	ConfirmedDuring float64 `json:"confirmed_per_s_during"`
	ConfirmSeries   []Point `json:"confirm_series,omitempty"`
	DeliverSeries   []Point `json:"deliver_series,omitempty"`
}

// Sync is what a synchronisation cost.
type Sync struct {
	Depth       int       `json:"depth"`
	Mirrors     int       `json:"mirrors"`
	Seconds     float64   `json:"seconds"`
	Listed      float64   `json:"listed_s"`       // until the list of queues, too, said so
	PerSec      float64   `json:"messages_per_s"` // of the queue's depth, to all mirrors at once
	MBPerSec    float64   `json:"mb_per_s"`
	BeganAt     float64   `json:"began_at_s"` // in the series
	EndedAt     float64   `json:"ended_at_s"`
	Queue       Beside    `json:"queue"`
	Neighbour   Beside    `json:"neighbour"`
	CPUSeconds  float64   `json:"cpu_seconds"` // of all nodes while it lasted
	NodeCPU     []float64 `json:"node_cpu_seconds,omitempty"`
	NodeMB      []float64 `json:"node_peak_mb,omitempty"`
	MB          float64   `json:"nodes_peak_mb,omitempty"` // of all nodes together
	Proved      bool      `json:"proved"`
	ProvedCount uint64    `json:"proved_count,omitempty"` // messages that the promoted mirror had
}

// side is the paced publisher and consumer of one queue.
type side struct {
	p *load.Publisher
	c *load.Consumer

	endToEnd bool

	confirms, waits *hist.Hist // before
	rate            float64
	since           time.Time
	confirmed       uint64
}

// startSide starts them. Deliveries of a queue with a backlog are paced, and the wait for each is measured; of an empty one they
// follow the publisher's pace, and it is measured from end to end: there a wait for credit's delivery would be a wait for the
// publisher.
func startSide(g *load.Group, t Target, q queue, p Params, connect string, backlog bool) *side {
	addresses := uris(t, q, connect)
	s := &side{since: time.Now(), endToEnd: !backlog}
	cfg := load.ConsumerConfig{URIs: addresses, Queue: q.name, Prefetch: sidePrefetch, AckEvery: 1}
	if backlog {
		cfg.Rate = p.SideRate
	}
	s.c = g.Consume(cfg)
	s.p = g.Publish(load.PublisherConfig{
		URIs: addresses, Queue: q.name, Size: p.Size, Persistent: p.Persistent, Window: max(1, int(p.SideRate)*60), Rate: p.SideRate,
	})
	return s
}

// cut starts the figures anew and gives those up to now.
func (s *side) cut() (confirms, waits *hist.Hist, rate float64) {
	now, n := time.Now(), s.p.Book().Counts().Confirmed
	rate = float64(n-s.confirmed) / now.Sub(s.since).Seconds()
	s.since, s.confirmed = now, n
	endToEnd, waits := s.c.Cut()
	if s.endToEnd {
		waits = endToEnd
	}
	return s.p.Cut(), waits, rate
}

func (s *side) before() { s.confirms, s.waits, s.rate = s.cut() }

func (s *side) after() Beside {
	confirms, waits, rate := s.cut()
	return Beside{
		ConfirmBefore: latency(s.confirms), ConfirmDuring: latency(confirms), DeliverBefore: latency(s.waits), DeliverDuring: latency(waits),
		ConfirmedBefore: s.rate, ConfirmedDuring: rate,
	}
}

func (b *Beside) series(s *side) {
	b.ConfirmSeries, b.DeliverSeries = points(s.p.Series()), points(s.c.Series())
}

// sides are those of the queue that is synchronised and of its neighbour.
type sides struct{ own, neighbour *side }

// startSides starts them; the neighbour is the second of queues.
func startSides(g *load.Group, t Target, queues []queue, p Params, connect string) sides {
	return sides{startSide(g, t, queues[0], p, connect, true), startSide(g, t, queues[1], p, connect, false)}
}

func (b sides) cut() {
	b.own.cut()
	b.neighbour.cut()
}

func (b sides) before() {
	b.own.before()
	b.neighbour.before()
}

// end writes into s what the clients saw since before, ends them, and holds the broker to its word about q, which is own's queue.
func (b sides) end(ctx context.Context, g *load.Group, t Target, p Params, q queue, s *Sync) error {
	s.Queue, s.Neighbour = b.own.after(), b.neighbour.after()
	if err := g.StopPublishers(ctx, settleLimit); err != nil {
		return err
	}
	b.own.c.Stop()
	<-b.own.c.Done()
	if err := holdToWord(ctx, g, t, p, q, s); err != nil {
		return err
	}
	b.neighbour.c.Stop()
	<-b.neighbour.c.Done()
	s.Queue.series(b.own)
	s.Neighbour.series(b.neighbour)
	return nil
}

// SyncRun fills a queue that has one copy, gives it mirrors that are not synchronised, synchronises them while a paced
// publisher and consumer work on it and on a neighbour, and measures what these notice. Then it holds the broker to its word.
// Error: ErrNotSynced, ErrNothingToSync, load.ErrLost, peer.ErrUnsupported.
func SyncRun(ctx context.Context, t Target, p Params) (_ *Result, err error) {
	if t.Kind != Mirrored {
		return nil, fmt.Errorf("synchronisation of a %s queue: %w", t.Kind, peer.ErrUnsupported)
	}
	if p.Strategy == StrategyDelta {
		return deltaRun(ctx, t, p)
	}
	if err := canSync(ctx, t); err != nil {
		return nil, err
	}
	r := &Result{Measurement: "sync", Peer: t.Cluster.Name(), Version: t.Cluster.Version(), Queue: t.Kind, Start: time.Now(), Params: p}
	g := load.New(ctx)
	defer g.Close()
	queues, err := fillQueue(ctx, g, t, p)
	defer func() { err = errors.Join(err, cleanUp(t, queues), t.Cluster.ClearPolicy(ctx, syncPolicy)) }()
	if err != nil {
		return nil, err
	}
	// Not on the first node: it is killed for the proof.
	both := startSides(g, t, queues, p, ConnectOther)
	if err := g.Run(ctx, min(time.Second, p.Warmup)); err != nil {
		return nil, err
	}
	both.cut()
	if err := g.Run(ctx, p.Warmup); err != nil {
		return nil, err
	}
	both.before()
	s, err := synchronise(ctx, g, t, p, queues[0].name, both.cut)
	if err != nil {
		return nil, err
	}
	if err := both.end(ctx, g, t, p, queues[0], s); err != nil {
		return nil, err
	}
	r.Sync, r.Counts, r.Seconds = s, g.Counts(), s.Seconds
	return r, nil
}

// canSync asks the cluster before much is done for nothing.
func canSync(ctx context.Context, t Target) error {
	c, ok := t.Cluster.(interface{ CanSync(context.Context) error })
	if !ok {
		return nil
	}
	return c.CanSync(ctx)
}

// fillQueue declares the queue, fills it, and declares its neighbour, which has synchronised mirrors from the start.
func fillQueue(ctx context.Context, g *load.Group, t Target, p Params) ([]queue, error) {
	q := queue{name: namePrefix + "sync.1"}
	if err := declare(t.Cluster.Nodes()[0].URI, q.name, Plain); err != nil {
		return nil, err
	}
	queues := []queue{q}
	if err := fill(ctx, g, t, q, p); err != nil {
		return queues, err
	}
	others, err := prepare(ctx, t, "neighbour", 1)
	return append(queues, others...), err
}

// fill publishes as many messages as the queue is to have.
func fill(ctx context.Context, g *load.Group, t Target, q queue, p Params) error {
	f := g.Publish(load.PublisherConfig{
		URIs: uris(t, q, ConnectMaster), Queue: q.name, Size: p.Size, Persistent: p.Persistent, Window: fillWindow, Messages: uint64(p.Depth),
	})
	ctx, cancel := context.WithTimeout(ctx, fillLimit)
	defer cancel()
	select {
	case <-f.Done():
	case <-ctx.Done():
		return fmt.Errorf("fill %q: %w", q.name, ctx.Err())
	}
	if f.Err() != nil {
		return f.Err()
	}
	if n := f.Book().Counts().Confirmed; n != uint64(p.Depth) {
		return fmt.Errorf("fill %q: %d of %d were confirmed: %w", q.name, n, p.Depth, load.ErrClaim)
	}
	return nil
}

// synchronise gives the queue mirrors and synchronises them. cut is called just before.
func synchronise(ctx context.Context, g *load.Group, t Target, p Params, name string, cut func()) (*Sync, error) {
	want := len(t.Cluster.Nodes()) - 1
	if err := t.Cluster.SetPolicy(ctx, syncPolicy, `^bench\.sync\.`, definition(p)); err != nil {
		return nil, err
	}
	if err := awaitMirrors(ctx, t, name, want); err != nil {
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
	cut()
	began, ended, syncErr := t.Cluster.Sync(ctx, name)
	usage, err := watch.Stop()
	if err := errors.Join(syncErr, err); err != nil {
		return nil, err
	}
	// What was held up during the synchronisation shows in the moment after it.
	if err := g.Run(ctx, p.tail()); err != nil {
		return nil, err
	}
	listed, err := awaitListed(ctx, t, name, want)
	if err != nil {
		return nil, err
	}
	s := &Sync{Depth: p.Depth, Mirrors: want, Seconds: ended.Sub(began).Seconds(), CPUSeconds: usage.Total().Seconds()}
	s.MB = float64(usage.SumPeak) / 1e6
	for i, c := range usage.CPU {
		s.NodeCPU, s.NodeMB = append(s.NodeCPU, c.Seconds()), append(s.NodeMB, float64(usage.PeakRSS[i])/1e6)
	}
	s.Listed = listed.Sub(began).Seconds()
	s.PerSec = float64(p.Depth) / s.Seconds
	s.MBPerSec = s.PerSec * float64(p.Size) / 1e6
	s.BeganAt, s.EndedAt = began.Sub(g.Origin).Seconds(), ended.Sub(g.Origin).Seconds()
	return s, nil
}

// awaitListed waits until all mirrors are listed as synchronised. RabbitMQ's take up to seconds for that after the master has
// said that it is done. Error: ErrNotSynced.
func awaitListed(ctx context.Context, t Target, name string, want int) (time.Time, error) {
	end := time.Now().Add(t.listLimit())
	for {
		q, err := t.Cluster.Queue(ctx, name)
		now := time.Now()
		if err != nil {
			return now, err
		}
		if len(q.Mirrors) == want && len(q.Synced) == want {
			return now, nil
		}
		if now.After(end) {
			return now, fmt.Errorf("queue %q has %d mirrors and %d of them synchronised after its synchronisation, of %d: %w",
				name, len(q.Mirrors), len(q.Synced), want, ErrNotSynced)
		}
		select {
		case <-ctx.Done():
			return now, fmt.Errorf("wait until the %d mirrors of %q are synchronised (%d are, of %d): %w", want, name, len(q.Synced),
				len(q.Mirrors), ctx.Err())
		case <-time.After(listedPoll):
		}
	}
}

func definition(p Params) string {
	def := `{"ha-mode":"all","ha-sync-mode":"manual"`
	if p.BatchSize > 0 {
		def += fmt.Sprintf(`,"ha-sync-batch-size":%d`, p.BatchSize)
	}
	if p.Strategy != StrategyDefault {
		def += fmt.Sprintf(`,"ha-sync-strategy":%q`, p.Strategy)
	}
	return def + "}"
}

// awaitMirrors waits until the queue has its mirrors. Error: ErrNothingToSync.
func awaitMirrors(ctx context.Context, t Target, name string, want int) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		q, err := t.Cluster.Queue(ctx, name)
		if err != nil {
			return err
		}
		if len(q.Synced) > 0 {
			return fmt.Errorf("queue %q, %d mirrors: %w", name, len(q.Synced), ErrNothingToSync)
		}
		if len(q.Mirrors) == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("queue %q has %d mirrors, not %d: %w", name, len(q.Mirrors), want, ctx.Err())
		case <-time.After(readyPoll):
		}
	}
}

// holdToWord takes all messages out of the queue. With Prove it kills the master's node before, so that it is a mirror's copy
// that must have them all. Error: ErrNotSynced, load.ErrLost.
func holdToWord(ctx context.Context, g *load.Group, t Target, p Params, q queue, s *Sync) (err error) {
	if p.Prove {
		if _, err := t.Cluster.Kill(ctx, q.node); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.Cluster.StartNode(ctx, q.node)) }()
	}
	before := g.Counts().Delivered
	c := g.Consume(load.ConsumerConfig{URIs: uris(t, q, ConnectOther), Queue: q.name, Prefetch: 2000, AckEvery: 500, Reconnect: true})
	err = g.Drain(ctx, p.Idle)
	if p.Prove && errors.Is(err, load.ErrLost) {
		err = fmt.Errorf("a mirror was promoted and does not have what it should: %w: %w", ErrNotSynced, err)
	}
	c.Stop()
	<-c.Done()
	s.Proved, s.ProvedCount = p.Prove, g.Counts().Delivered-before
	return errors.Join(err, c.Err())
}
