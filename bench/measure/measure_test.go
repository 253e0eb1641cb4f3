package measure

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"warren/bench/fakebroker"
	"warren/bench/ledger"
	"warren/bench/load"
	"warren/bench/peer"
)

// fakeCluster is a cluster of nodes that are one fake broker.
type fakeCluster struct {
	uri    string
	nodes  int
	queue  func(name string) peer.Queue
	onSync func()
	killed int
	victim int // the node that was killed last

	startedAgain    int
	paused, resumed int
}

func (c *fakeCluster) Name() string    { return "fake" }
func (c *fakeCluster) Version() string { return "0" }
func (c *fakeCluster) Nodes() []peer.Node {
	var out []peer.Node
	for range c.nodes {
		out = append(out, peer.Node{URI: c.uri})
	}
	return out
}
func (c *fakeCluster) PIDs() ([]int, error)                                    { return []int{os.Getpid()}, nil }
func (c *fakeCluster) SetPolicy(context.Context, string, string, string) error { return nil }
func (c *fakeCluster) ClearPolicy(context.Context, string) error               { return nil }
func (c *fakeCluster) Queue(_ context.Context, name string) (peer.Queue, error) {
	return c.queue(name), nil
}

func (c *fakeCluster) Queues(_ context.Context, names []string) (map[string]peer.Queue, error) {
	all := map[string]peer.Queue{}
	for _, n := range names {
		all[n] = c.queue(n)
	}
	return all, nil
}

func (c *fakeCluster) Sync(context.Context, string) (began, ended time.Time, err error) {
	began = time.Now()
	c.onSync()
	return began, time.Now().Add(time.Millisecond), nil
}

func (c *fakeCluster) Kill(_ context.Context, node int) (time.Time, error) {
	c.killed++
	c.victim = node
	return time.Now(), nil
}
func (c *fakeCluster) Pause(context.Context, int) (time.Time, error) {
	c.paused++
	return time.Now(), nil
}
func (c *fakeCluster) Resume(context.Context, int) error {
	c.resumed++
	return nil
}
func (c *fakeCluster) StopNode(context.Context, int) (time.Time, error) { return time.Now(), nil }
func (c *fakeCluster) StartNode(context.Context, int) error {
	c.startedAgain++
	return nil
}

func (c *fakeCluster) Shutdown(context.Context) error { return nil }

var mirrors = []string{"b", "c"}

func params() Params {
	return Params{
		Publishers: 1, Consumers: 1, Queues: 1, Window: 50, AckEvery: 1, Size: 100, Rate: 500, Connect: ConnectMaster,
		Warmup: 100 * time.Millisecond, Duration: 300 * time.Millisecond, Idle: 300 * time.Millisecond, Failure: FailKill,
		Depth: 300, SideRate: 200, Prove: true,
	}
}

func target(t *testing.T, faults fakebroker.Faults, kind Kind) (Target, *fakeCluster) {
	b := fakebroker.Start(t, faults)
	c := &fakeCluster{uri: b.URI, nodes: 3, onSync: func() {}}
	c.queue = func(string) peer.Queue { return peer.Queue{Mirrors: mirrors, Synced: mirrors} }
	return Target{Cluster: c, Kind: kind, ListLimit: 300 * time.Millisecond}, c
}

func TestThroughputFailsWhenTheBrokerBreaksItsWord(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faults fakebroker.Faults
		want   error
	}{
		{"well", fakebroker.Faults{}, nil},
		{"a delivery twice is allowed", fakebroker.Faults{Double: 60}, nil},
		{"a confirmed message is lost", fakebroker.Faults{Lose: 60}, load.ErrLost},
		{"lost while warming up", fakebroker.Faults{Lose: 3}, load.ErrLost},
		{"a confirm of what was never published", fakebroker.Faults{ConfirmAhead: 60}, ledger.ErrNeverPublished},
		{"a confirm twice", fakebroker.Faults{ConfirmTwice: 60}, ledger.ErrTwice},
		{"a message is refused", fakebroker.Faults{Refuse: 60}, load.ErrRefused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tg, _ := target(t, tc.faults, Plain)
			r, err := Throughput(t.Context(), tg, params())
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if err != nil {
				return
			}
			claimed := uint64(r.ConfirmedPerSec*r.Seconds + 0.5)
			if claimed == 0 || claimed > r.Confirm.N+10 || claimed > r.Counts.Confirmed || r.Counts.Confirmed != r.Counts.Sent {
				t.Errorf("%d confirmed in the measured time, %d latencies, %+v", claimed, r.Confirm.N, r.Counts)
			}
			if tc.faults.Double > 0 && r.Counts.Doubled == 0 {
				t.Errorf("a doubled delivery is not counted: %+v", r.Counts)
			}
		})
	}
}

func TestThroughputFailsWhenACopyIsMissing(t *testing.T) {
	tg, c := target(t, fakebroker.Faults{}, Mirrored)
	c.queue = func(string) peer.Queue { return peer.Queue{Mirrors: mirrors, Synced: mirrors[:1]} }
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Throughput(ctx, tg, params()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestVerifyRefusesMoreThanWasConfirmed(t *testing.T) {
	b := fakebroker.Start(t, fakebroker.Faults{})
	g := load.New(t.Context())
	defer g.Close()
	p := g.Publish(load.PublisherConfig{URIs: []string{b.URI}, Queue: "q", Size: 30, Window: 10, Messages: 25})
	<-p.Done()
	if err := g.Verify(25); err != nil {
		t.Error(err)
	}
	if err := g.Verify(26); !errors.Is(err, load.ErrClaim) {
		t.Errorf("a claim of one too many: %v", err)
	}
}

func TestFailover(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faults fakebroker.Faults
		want   error
	}{
		{"the connection survives", fakebroker.Faults{}, nil},
		{"the connection is lost", fakebroker.Faults{HangUp: 70}, nil},
		{"a confirmed message is lost", fakebroker.Faults{Lose: 70}, load.ErrLost},
		{"a message is refused, which a failover may do", fakebroker.Faults{Refuse: 70}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tg, c := target(t, tc.faults, Mirrored)
			r, err := FailoverRun(t.Context(), tg, params())
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if c.killed != 1 {
				t.Errorf("%d nodes were killed", c.killed)
			}
			if err != nil {
				return
			}
			if r.Failover.FirstConfirm <= 0 || r.Failover.FirstConfirm > 1000 || r.Failover.FirstDelivery <= 0 {
				t.Errorf("%+v", r.Failover)
			}
			if lost := tc.faults.HangUp > 0; lost != (r.Failover.Reconnects > 0) || lost != (r.Counts.Unknown > 0) {
				t.Errorf("%+v, %+v", r.Failover, r.Counts)
			}
		})
	}
}

func TestSyncFailsWhenTheBrokerBreaksItsWord(t *testing.T) {
	for _, tc := range []struct {
		name          string
		faults        fakebroker.Faults
		before, after []string // synchronised mirrors
		want          error
	}{
		{"well", fakebroker.Faults{}, nil, mirrors, nil},
		{"one mirror is not in the list", fakebroker.Faults{}, nil, mirrors[:1], ErrNotSynced},
		{"the promoted mirror lacks a message", fakebroker.Faults{Lose: 100}, nil, mirrors, ErrNotSynced},
		{"there was nothing to do", fakebroker.Faults{}, mirrors, mirrors, ErrNothingToSync},
		{"the queue cannot be filled", fakebroker.Faults{Refuse: 100}, nil, mirrors, load.ErrClaim},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tg, c := target(t, tc.faults, Mirrored)
			now := make(chan []string, 1)
			now <- tc.before
			c.onSync = func() { <-now; now <- tc.after }
			c.queue = func(name string) peer.Queue {
				synced := mirrors
				if name == namePrefix+"sync.1" {
					synced = <-now
					now <- synced
				}
				return peer.Queue{Mirrors: mirrors, Synced: synced}
			}
			r, err := SyncRun(t.Context(), tg, params())
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if err == nil && (r.Sync.PerSec <= 0 || !r.Sync.Proved || c.killed != 1) {
				t.Errorf("%+v, %d killed", r.Sync, c.killed)
			}
		})
	}
}

func TestDelta(t *testing.T) {
	tg, c := target(t, fakebroker.Faults{}, Mirrored)
	c.queue = func(name string) peer.Queue {
		if name == namePrefix+"mirrored.delta.1" && c.killed > c.startedAgain {
			return peer.Queue{Mirrors: mirrors[:1], Synced: mirrors[:1]}
		}
		return peer.Queue{Mirrors: mirrors, Synced: mirrors}
	}
	p := params()
	p.Strategy = StrategyDelta
	r, err := SyncRun(t.Context(), tg, p)
	if err != nil {
		t.Fatal(err)
	}
	if r.Sync.Seconds <= 0 || r.Sync.Proved || c.killed != 1 || c.startedAgain != 1 {
		t.Errorf("%+v, %d killed, %d started again", r.Sync, c.killed, c.startedAgain)
	}
	c.killed, c.startedAgain = 0, 1 // the list never says that a mirror is missing
	if _, err := SyncRun(t.Context(), tg, p); !errors.Is(err, ErrNothingToSync) {
		t.Errorf("a mirror that never went: %v", err)
	}
}

func TestRolling(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faults fakebroker.Faults
		want   error
	}{{"well", fakebroker.Faults{HangUp: 70}, nil}, {"a confirmed message is lost", fakebroker.Faults{Lose: 30}, load.ErrLost}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tg, c := target(t, tc.faults, Mirrored)
			r, err := Rolling(t.Context(), tg, params())
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if c.startedAgain != 3 {
				t.Errorf("%d nodes were started again", c.startedAgain)
			}
			if err == nil && r.Counts.Confirmed == 0 {
				t.Errorf("%+v", r.Counts)
			}
		})
	}
}

// ledCluster has a Raft group beside its queues; leaders are who leads it, one answer after the other.
type ledCluster struct {
	*fakeCluster
	leaders []int
}

func (c *ledCluster) Leader(context.Context) (int, error) {
	n := c.leaders[0]
	if len(c.leaders) > 1 {
		c.leaders = c.leaders[1:]
	}
	return n, nil
}

// The victim is chosen by what it is in the Raft group, the result says what it was, and a leader that moves in between spoils the
// run instead of standing under the wrong name.
func TestVictim(t *testing.T) {
	for _, tc := range []struct {
		victim  string
		leaders []int
		killed  int
		led     bool
		want    error
	}{
		{VictimLeader, []int{2}, 2, true, nil},
		{VictimFollower, []int{2}, 0, false, nil},
		{VictimAny, []int{0}, 0, true, nil},
		{VictimLeader, []int{2, 1}, 0, false, ErrMoved},
	} {
		tg, c := target(t, fakebroker.Faults{}, Mirrored)
		tg.Cluster = &ledCluster{c, tc.leaders}
		p := params()
		p.Victim = tc.victim
		r, err := FailoverRun(t.Context(), tg, p)
		if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%+v: error %v", tc, err)
		}
		if err == nil && (c.victim != tc.killed || r.Failover.Led != tc.led || c.startedAgain != 1) {
			t.Errorf("%+v: node %d was killed, %+v", tc, c.victim, r.Failover)
		}
	}
	tg, _ := target(t, fakebroker.Faults{}, Mirrored)
	p := params()
	p.Victim = VictimLeader
	if _, err := FailoverRun(t.Context(), tg, p); !errors.Is(err, peer.ErrUnsupported) {
		t.Errorf("without a Raft group: %v", err)
	}
}

func TestPartition(t *testing.T) {
	for _, tc := range []struct {
		faults fakebroker.Faults
		want   error
	}{{fakebroker.Faults{}, nil}, {fakebroker.Faults{Lose: 70}, load.ErrLost}} {
		tg, c := target(t, tc.faults, Mirrored)
		p := params()
		p.Failure = FailPartition
		if _, err := FailoverRun(t.Context(), tg, p); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("error %v, want %v", err, tc.want)
		}
		if c.paused != 1 || c.resumed != 1 || c.killed != 0 || c.startedAgain != 0 {
			t.Errorf("paused %d, resumed %d, killed %d, started %d", c.paused, c.resumed, c.killed, c.startedAgain)
		}
	}
}
