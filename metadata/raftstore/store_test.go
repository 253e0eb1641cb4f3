package raftstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.uber.org/goleak"

	"warren/metadata/detector"
	"warren/metadata/policy"
	"warren/metadata/state"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2.runClock"))
}

// The detector fits both ways.
var (
	_ detector.Raft = (*Store)(nil)
	_ Prober        = (*detector.Detector)(nil)
)

// Three empty nodes form one cluster; any of them takes a proposal, and sees its own.
func TestFormAndPropose(t *testing.T) {
	c := newCluster(t, "a", "b", "c").start("a", "b", "c")
	for i, n := range []string{"a", "b", "c"} {
		r := c.propose(n, vhost(i))
		if r.Err != nil || !r.Created || c.at(n).Applied() < r.Index {
			t.Fatalf("at %s: %+v, applied %d", n, r, c.at(n).Applied())
		}
	}
	if r := c.propose("b", vhost(0)); !errors.Is(r.Refusal(), state.ErrExists) {
		t.Errorf("a refusal comes back as %v", r.Err)
	}
	c.sameEverywhere()
	ms, err := c.at("c").Members()
	if err != nil || len(ms) != 3 || !ms[0].Voter || ms[0].Name != "a" {
		t.Errorf("members %v, %v", ms, err)
	}
}

func (c *cluster) sameEverywhere() {
	c.t.Helper()
	c.eventually("the same state everywhere", func() bool {
		want := c.snapshot(c.leader())
		for name, n := range c.nodes {
			if n.store != nil && c.snapshot(name) != want {
				return false
			}
		}
		return true
	})
}

func TestSingleNodeRestart(t *testing.T) {
	c := newCluster(t, "a")
	c.tune = func(cfg *Config) {
		cfg.Peers, cfg.SnapshotThreshold, cfg.TrailingLogs, cfg.SnapshotInterval = nil, 20, 5, 20*time.Millisecond
	}
	c.start("a")
	for i := range 100 {
		c.propose("a", vhost(i))
	}
	var snapped bool
	c.eventually("a snapshot", func() bool {
		snapped = c.at("a").raft.Stats()["last_snapshot_index"] != "0"
		return snapped
	})
	before := c.snapshot("a")
	c.kill("a")
	c.start("a")
	c.eventually("the log is applied", func() bool { return c.snapshot("a") == before })
	if r := c.propose("a", vhost(0)); !errors.Is(r.Refusal(), state.ErrExists) {
		t.Errorf("after the restart: %v", r.Err)
	}
}

func TestDirectoryInUse(t *testing.T) {
	c := newCluster(t, "a").start("a")
	cfg := c.at("a").cfg
	cfg.Stream = newTCP(t)
	defer cfg.Stream.Close()
	if _, err := Open(cfg); err == nil {
		t.Fatal("two stores use one directory")
	}
}

// A proposal that is made while there is no leader, or whose leader dies, is executed once.
func TestLeaderDies(t *testing.T) {
	c := newCluster(t, "a", "b", "c").start("a", "b", "c")
	leader, via := c.leader(), c.follower()
	var wg sync.WaitGroup
	var created atomic.Int32
	started := make(chan struct{})
	for w := range 4 {
		wg.Go(func() {
			for i := range 40 {
				if w == 0 && i == 10 {
					close(started)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
				r, err := c.at(via).Propose(ctx, vhost(w*1000+i))
				cancel()
				if err != nil || r.Err != nil {
					t.Errorf("%v %v", err, r.Err) // CodeExists: it was executed twice
					return
				}
				created.Add(1)
			}
		})
	}
	<-started
	c.kill(leader)
	wg.Wait()
	if created.Load() != 160 {
		t.Errorf("%d of 160", created.Load())
	}
	c.sameEverywhere()
	c.start(leader)
	c.sameEverywhere()
}

// A proposal whose answer is lost is repeated, and executed once.
func TestLostAnswer(t *testing.T) {
	c := newCluster(t, "a", "b", "c").start("a", "b", "c")
	via := c.follower()
	c.mu.Lock()
	c.lose = 3
	c.mu.Unlock()
	if r := c.propose(via, vhost(1)); r.Err != nil || !r.Created {
		t.Errorf("got %+v", r)
	}
}

// A new leader closes all that do not answer in one command before it lets anything else through.
func TestNewLeaderProbesFirst(t *testing.T) {
	c := newCluster(t, "a", "b", "c").start("a", "b", "c")
	for _, n := range []string{"a", "b", "c"} {
		c.up(n, 1)
	}
	c.sameEverywhere()
	leader, via := c.leader(), c.follower()
	var first []state.ChangeKind
	var mu sync.Mutex
	c.at(via).Subscribe(func(_ uint64, cs []state.Change) {
		mu.Lock()
		defer mu.Unlock()
		first = append(first, cs[0].Kind)
	})
	hold := make(chan struct{})
	c.allGone(leader)
	for _, n := range c.nodes {
		n.prober.mu.Lock()
		n.prober.hold, n.prober.asked = hold, nil
		n.prober.mu.Unlock()
	}
	c.kill(leader)
	done := make(chan state.Result, 1)
	var wg sync.WaitGroup
	wg.Go(func() { done <- c.propose(via, vhost(1)) })
	c.eventually("the new leader probes", func() bool {
		for _, n := range c.nodes {
			n.prober.mu.Lock()
			asked := len(n.prober.asked)
			n.prober.mu.Unlock()
			if asked > 0 {
				return true
			}
		}
		return false
	})
	select {
	case r := <-done:
		t.Fatalf("a proposal went through before the probe: %+v", r)
	case <-time.After(50 * time.Millisecond):
	}
	close(hold)
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	want := []state.ChangeKind{state.Reset, state.NodeChanged, state.VhostCreated}
	if fmt.Sprint(first) != fmt.Sprint(want) {
		t.Errorf("order of changes %v, want %v", first, want)
	}
	c.at(via).View(func(s *state.State) {
		if n, _ := s.Node(leader); n.Status != state.NodeDown || !n.Fenced {
			t.Errorf("%s is %s", leader, n.Status)
		}
	})
}

func TestElectNow(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.tune = func(cfg *Config) { cfg.HeartbeatTimeout, cfg.LeaderLease = 1200*time.Millisecond, 500*time.Millisecond }
	c.start("a", "b", "c")
	c.propose("a", vhost(0))
	leader := c.leader()
	next := nextVoter([]Member{{Peer{Name: "a"}, true}, {Peer{Name: "b"}, true}, {Peer{Name: "c"}, true}}, leader)
	c.nodes[leader].stream.cutOff(true) // and closed later: that takes long where the machine is busy
	began := time.Now()
	for name, n := range c.nodes {
		if name == leader {
			continue
		}
		if got := n.store.ElectNow(leader); got != (name == next) {
			t.Errorf("%s stands: %v, next is %s", name, got, next)
		}
	}
	c.propose(next, vhost(1))
	if took := time.Since(began); took > time.Second {
		t.Errorf("took %v, the timeout is 1.2 s or more", took)
	} else {
		t.Logf("a new leader served after %v", took)
	}
	c.kill(leader)
	if l := c.leader(); l != next {
		t.Errorf("leader is %s, not %s", l, next)
	}
}

// TestElectNowBehind: the voter next by name lacks an entry that the other one has; that one does not wait for its timeout.
func TestElectNowBehind(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.tune = func(cfg *Config) { cfg.HeartbeatTimeout, cfg.LeaderLease = 3*time.Second, 2*time.Second }
	c.start("a", "b", "c")
	c.propose("a", vhost(0))
	leader := c.leader()
	next := nextVoter([]Member{{Peer{Name: "a"}, true}, {Peer{Name: "b"}, true}, {Peer{Name: "c"}, true}}, leader)
	c.nodes[next].stream.cutOff(true)
	c.propose(leader, vhost(1))
	c.kill(leader)
	c.nodes[next].stream.cutOff(false)
	began := time.Now()
	for _, n := range c.nodes {
		if n.store != nil {
			n.store.ElectNow(leader)
		}
	}
	other := c.leader()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v, the timeout is 3 s or more", took)
	}
	if other == next {
		t.Errorf("%s leads, which lacks an entry", next)
	}
}

func TestNextVoter(t *testing.T) {
	ms := []Member{{Peer{Name: "a"}, true}, {Peer{Name: "b"}, false}, {Peer{Name: "c"}, true}, {Peer{Name: "d"}, true}}
	for after, want := range map[string]string{"a": "c", "c": "d", "d": "a"} {
		if got := nextVoter(ms, after); got != want {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
}

// A leader that is cut off steps down, and the others go on.
func TestLeaderCutOff(t *testing.T) {
	c := newCluster(t, "a", "b", "c").start("a", "b", "c")
	leader, via := c.leader(), c.follower()
	c.nodes[leader].stream.cutOff(true)
	if r := c.propose(via, vhost(1)); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.eventually("the old leader steps down", func() bool { return !c.at(leader).IsLeader() })
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.at(leader).Propose(ctx, vhost(2)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a proposal at the one cut off: %v", err)
	}
	c.nodes[leader].stream.cutOff(false)
	c.sameEverywhere()
}

func TestMembership(t *testing.T) {
	c := newCluster(t, "a", "b", "c", "d")
	c.peers = c.peers[:3]
	c.start("a", "b", "c")
	c.propose("a", vhost(0))
	c.tune = func(cfg *Config) { cfg.Join, cfg.Peers = true, nil }
	c.start("d")
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := c.at("b").AddVoter(ctx, Peer{"d", c.nodes["d"].addr}); err != nil {
		t.Fatal(err)
	}
	c.sameEverywhere()
	if err := c.at("d").CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.at("d").RemoveMember(ctx, c.leader()); err != nil {
		t.Fatal(err)
	}
	c.eventually("three members", func() bool { ms, err := c.at("d").Members(); return err == nil && len(ms) == 3 })
}

// An empty node whose peers have a cluster forms none of its own, but asks to be let in.
func TestEmptyNodeWaits(t *testing.T) {
	c := newCluster(t, "a", "b")
	asked := make(chan struct{}, 1000)
	c.tune = func(cfg *Config) {
		cfg.Ask = func(context.Context, Peer) (Standing, error) { return Settled, nil }
		cfg.Enter = func(context.Context, Peer) error { asked <- struct{}{}; return errors.New("not now") }
	}
	c.start("a")
	<-asked
	<-asked
	c.kill("a")
	bolt, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(c.nodes["a"].dir, "raft.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer bolt.Close()
	if has, err := raft.HasExistingState(bolt, bolt, raft.NewInmemSnapshotStore()); has || err != nil {
		t.Errorf("it formed a cluster of its own (%v)", err)
	}
}

// Who waits for a command finds the subscribers to know of it: a node that answers "no grant left" must have taken the NodesDown first.
func TestAppliedMeansTold(t *testing.T) {
	c := newCluster(t, "a", "b", "c").start("a", "b", "c")
	var told atomic.Uint64
	via := c.follower()
	slow := make(chan struct{})
	c.at(via).Subscribe(func(index uint64, cs []state.Change) {
		if cs[0].Kind != state.Reset { // which is given to Subscribe's caller
			<-slow
			told.Store(index)
		}
	})
	r := c.propose(c.leader(), vhost(1))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := c.at(via).WaitApplied(ctx, r.Index); err == nil || c.at(via).Applied() >= r.Index {
		t.Error("counts as applied before the subscriber was told")
	}
	close(slow)
	if err := c.at(via).WaitApplied(context.Background(), r.Index); err != nil || told.Load() < r.Index {
		t.Errorf("told %d, want %d (%v)", told.Load(), r.Index, err)
	}
}

// Declarations and policies that are proposed at the same time from all nodes end with every queue mirrored as the last policy says.
func TestPoliciesAgainstDeclarations(t *testing.T) {
	c := newCluster(t, "a", "b", "c").start("a", "b", "c")
	for _, n := range []string{"a", "b", "c"} {
		c.up(n, 1)
	}
	d, err := policy.Parse(`{"ha-mode":"all"}`, false)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, n := range []string{"a", "b", "c"} {
		wg.Go(func() {
			for i := range 20 {
				if r := c.propose(n, &state.DeclareQueue{Vhost: "/", Name: fmt.Sprintf("%s%d", n, i), Durable: true, Node: n}); r.Err != nil {
					t.Error(r.Err)
				}
				if i%5 == 0 {
					p := state.Policy{Vhost: "/", Name: n, Pattern: "^", ApplyTo: policy.ApplyToAll, Definition: d}
					if r := c.propose(n, &state.SetPolicy{Policy: p}); r.Err != nil {
						t.Error(r.Err)
					}
				}
			}
		})
	}
	wg.Wait()
	c.at("a").View(func(s *state.State) {
		for _, q := range s.VhostQueues("/") {
			if len(q.Members) != 3 || q.Policy != "a" {
				t.Errorf("%s: policy %q, members %v", q.Name, q.Policy, q.Members)
			}
		}
	})
	bad := &state.SetPolicy{Policy: state.Policy{Vhost: "/", Name: "bad", Pattern: "(", ApplyTo: policy.ApplyToAll, Definition: d}}
	for _, n := range []string{"a", "b", "c"} {
		_, err := c.at(n).Propose(context.Background(), bad)
		var invalid *policy.ValidationError
		if !errors.As(err, &invalid) {
			t.Errorf("at %s: %v", n, err)
		}
	}
}

// Followers apply an entry within milliseconds of the leader, not after hashicorp/raft's CommitTimeout.
func TestFollowersHearAtOnce(t *testing.T) {
	c := newCluster(t, "a", "b", "c").start("a", "b", "c")
	c.propose("a", vhost(0))
	if median := followerDelay(t, c, 15); median > 20*time.Millisecond {
		t.Errorf("followers apply %v after the leader (median)", median)
	} else {
		t.Logf("followers apply %v after the leader (median)", median)
	}
}

func followerDelay(t testing.TB, c *cluster, n int) time.Duration {
	leader := c.leader()
	var delays []time.Duration
	for i := range n {
		r := c.propose(leader, vhost(5000+i))
		began := time.Now()
		for _, p := range c.peers {
			if err := c.at(p.Name).WaitApplied(context.Background(), r.Index); err != nil {
				t.Fatal(err)
			}
		}
		delays = append(delays, time.Since(began))
	}
	for i := range delays {
		for j := i; j > 0 && delays[j] < delays[j-1]; j-- {
			delays[j], delays[j-1] = delays[j-1], delays[j]
		}
	}
	return delays[len(delays)/2]
}

// BenchmarkFollowerApply measures how long after the leader the last follower applies an entry.
func BenchmarkFollowerApply(b *testing.B) {
	c := newCluster(b, "a", "b", "c").start("a", "b", "c")
	c.propose("a", vhost(0))
	b.ResetTimer()
	b.ReportMetric(float64(followerDelay(b, c, max(b.N, 3)).Microseconds()), "µs/median")
}
