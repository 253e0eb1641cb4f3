package raftstore

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"warren/metadata/state"
)

// askEachOther has the nodes of a test ask one another as real nodes do.
func (c *cluster) askEachOther() {
	c.tune = func(cfg *Config) {
		cfg.Ask = func(_ context.Context, p Peer) (Standing, error) {
			c.mu.Lock()
			s := c.nodes[p.Name].store
			c.mu.Unlock()
			if s == nil {
				return 0, errCut
			}
			return s.Standing(), nil
		}
		self := Peer{cfg.Self, cfg.Addr}
		cfg.Enter = func(ctx context.Context, via Peer) error {
			c.mu.Lock()
			s := c.nodes[via.Name].store
			c.mu.Unlock()
			if s == nil {
				return errCut
			}
			return s.Admit(ctx, self)
		}
	}
}

func (c *cluster) votes(at string) string { return strings.Join(c.at(at).Voters(), " ") }

func (c *cluster) goUp(name string, incarnation uint64) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := c.at(name).CatchUp(ctx); err != nil {
		c.t.Fatal(err)
	}
	r, err := c.at(name).Propose(ctx, &state.NodeUp{Node: name, Incarnation: incarnation,
		Versions: state.Versions{Features: state.SupportedFeatures()}})
	if err != nil || r.Err != nil {
		c.t.Fatal(err, r.Err)
	}
}

// One node of three that starts alone forms nothing; with a second it does; the third, late, comes in.
func TestFormsWithAMajority(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.askEachOther()
	c.start("a")
	c.eventually("a has asked", func() bool { return c.at("a").Standing() == Empty })
	c.start("b")
	if r := c.propose("b", vhost(1)); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.start("c")
	c.goUp("c", 1)
	c.eventually("three vote", func() bool { return c.votes("a") == "a b c" })
	c.sameEverywhere()
}

// A voter that lost its disk must not elect a node that lacks what it confirmed: c and the leader committed an entry that b lacks,
// the leader dies, and c comes back empty.
func TestLostDiskDoesNotVote(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.askEachOther()
	c.start("a", "b", "c")
	for i, n := range []string{"a", "b", "c"} {
		c.goUp(n, uint64(i+1))
	}
	leader := c.leader()
	var rest []string
	for _, n := range []string{"a", "b", "c"} {
		if n != leader {
			rest = append(rest, n)
		}
	}
	behind, amnesiac := rest[0], rest[1]
	c.nodes[behind].stream.cutOff(true)
	c.propose(leader, vhost(7))
	c.kill(amnesiac)
	c.kill(leader)
	if err := os.RemoveAll(c.nodes[amnesiac].dir); err != nil {
		t.Fatal(err)
	}
	c.start(amnesiac)
	c.nodes[behind].stream.cutOff(false)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if _, err := c.at(behind).Propose(ctx, vhost(8)); err == nil {
		t.Fatal("a node without the newest entry was elected with the vote of one that lost it")
	}
	c.start(leader)
	c.goUp(amnesiac, 9)
	c.eventually("all vote again", func() bool { return c.votes(behind) == "a b c" })
	c.sameEverywhere()
	found := false
	c.at(amnesiac).View(func(st *state.State) { _, found = st.Vhost("v0007") })
	if !found {
		t.Error("the committed entry is lost")
	}
}

// A voter on an older disk, which lacks what it confirmed since, elects nobody while it is held: neither the other, which lacks
// the entry too, nor itself. Released, it would.
func TestHeldNodeDoesNotVote(t *testing.T) {
	c := newCluster(t, "a", "b", "c").start("a", "b", "c")
	leader := c.leader()
	behind, old := "", ""
	for _, n := range []string{"a", "b", "c"} {
		switch {
		case n == leader:
		case behind == "":
			behind = n
		default:
			old = n
		}
	}
	c.propose(old, vhost(1))
	c.kill(old)
	if err := os.CopyFS(c.nodes[old].dir+".copy", os.DirFS(c.nodes[old].dir)); err != nil {
		t.Fatal(err)
	}
	c.start(old)
	c.eventually("it has a leader again", func() bool { l, _ := c.at(old).Leader(); return l == leader })
	c.nodes[behind].stream.cutOff(true)
	c.propose(leader, vhost(7))
	c.kill(old)
	c.kill(leader)
	c.nodes[old].dir += ".copy"
	c.tune = func(cfg *Config) { cfg.Hold = true }
	c.start(old)
	c.nodes[behind].stream.cutOff(false)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if _, err := c.at(behind).Propose(ctx, vhost(8)); err == nil {
		t.Fatal("a leader was elected with the vote of an older disk")
	}
	c.at(old).Release()
	c.propose(behind, vhost(9)) // it was the hold
}

// Two of three stop in turn, each after the other: the third goes on, and they vote again when they are back.
func TestYield(t *testing.T) {
	c := newCluster(t, "a", "b", "c").start("a", "b", "c")
	for i, n := range []string{"a", "b", "c"} {
		c.goUp(n, uint64(i+1))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	stop := func(name string, incarnation uint64, staying ...string) {
		t.Helper()
		if err := c.at(name).StepDown(ctx, staying); err != nil {
			t.Fatal(err)
		}
		if err := c.at(name).NodesDown(ctx, []state.DownNode{{Node: name, Incarnation: incarnation, Reason: state.ReasonShutdown, Fenced: true}}); err != nil {
			t.Fatal(err)
		}
		if err := c.at(name).Yield(ctx, staying); err != nil {
			t.Fatal(err)
		}
		c.kill(name)
	}
	first := c.leader()
	stay := slices.DeleteFunc([]string{"a", "b", "c"}, func(n string) bool { return n == first })
	stop(first, uint64(first[0]-'a'+1), stay...)
	if got := c.votes(stay[0]); got != "a b c" {
		t.Errorf("after the first %s vote: two of three are a majority", got)
	}
	second, last := stay[0], stay[1]
	stop(second, uint64(second[0]-'a'+1), last)
	if r := c.propose(last, vhost(3)); r.Err != nil {
		t.Fatal(r.Err)
	}
	if got := c.votes(last); got != last {
		t.Errorf("%s vote", got)
	}
	c.start(second)
	c.goUp(second, 11)
	c.start(first)
	c.goUp(first, 12)
	c.eventually("all vote again", func() bool { return c.votes(last) == "a b c" })
	c.sameEverywhere()
}

func TestYielding(t *testing.T) {
	ms := func(voters string) (out []Member) {
		for _, v := range strings.Fields(voters) {
			out = append(out, Member{Peer{Name: v}, true})
		}
		return out
	}
	for _, tc := range []struct{ voters, stopped, staying, want string }{
		{"a b", "", "b", "a"},
		{"a b c", "", "b c", ""},
		{"a b c", "b", "c", "b a"},
		{"a b c", "", "c", ""}, // b crashed: it may come back, and c alone would not be a majority without a either
		{"a b c", "b c", "", ""},
		{"a b c d e", "b", "c d e", ""},
		{"a b c d e", "b c", "d e", "b c a"},
	} {
		stopped := map[string]bool{"a": true}
		for _, s := range strings.Fields(tc.stopped) {
			stopped[s] = true
		}
		if got := strings.Join(yielding(ms(tc.voters), stopped, strings.Fields(tc.staying), "a"), " "); got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

// Nine nodes: seven vote, two follow and take proposals as the others do. When a voter is forgotten, one of the two gets its seat; when
// one only crashes, it keeps it.
func TestNonVoters(t *testing.T) {
	names := strings.Fields("a b c d e f g h i")
	c := newCluster(t, names...)
	c.tune = func(cfg *Config) {
		cfg.HeartbeatTimeout, cfg.LeaderLease = time.Second, time.Second
		cfg.Init.Features = state.SupportedFeatures()
	}
	c.start(names...)
	for i, n := range names {
		c.goUp(n, uint64(i+1))
	}
	if got := c.votes("i"); got != "a b c d e f g" {
		t.Errorf("%s vote", got)
	}
	if r := c.propose("i", vhost(1)); r.Err != nil {
		t.Error(r.Err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	leave := func(name string, forgotten bool) {
		t.Helper()
		c.kill(name)
		leader := c.leader()
		incarnation := uint64(slices.Index(names, name) + 1)
		if err := c.at(leader).NodesDown(ctx, []state.DownNode{{Node: name, Incarnation: incarnation, Reason: state.ReasonFailure}}); err != nil {
			t.Fatal(err)
		}
		if !forgotten {
			return
		}
		if err := c.at(leader).RemoveMember(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	gone := slices.DeleteFunc(slices.Clone(names[:7]), func(n string) bool { return n == c.leader() })
	leave(gone[0], false)
	leave(gone[1], true)
	want := strings.Join(slices.DeleteFunc(strings.Fields("a b c d e f g h"), func(n string) bool { return n == gone[1] }), " ")
	c.eventually("a non-voter has the seat that is free", func() bool { return c.votes("i") == want })
	c.sameEverywhere()
}

// A node that left the group is forgotten by the state, and a node with another address is found.
func TestConfigurationAndStateAgree(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.tune = func(cfg *Config) {
		cfg.Init.Features = state.SupportedFeatures()
		cfg.AddressOf = func(n string) string { return c.nodes[n].addr }
	}
	c.start("a", "b", "c")
	for i, n := range []string{"a", "b", "c"} {
		c.goUp(n, uint64(i+1))
	}
	moved := c.follower()
	c.kill(moved)
	n := c.nodes[moved]
	n.stream = newTCP(t)
	n.port, n.addr = n.stream.port, n.stream.Addr().String()
	c.start(moved)
	c.eventually("the new address is in the configuration", func() bool {
		ms, err := c.at(c.leader()).Members()
		return err == nil && slices.ContainsFunc(ms, func(m Member) bool { return m.Name == moved && m.Addr == n.addr })
	})
	c.goUp(moved, 10)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	leader := c.leader()
	if err := c.at(leader).NodesDown(ctx, []state.DownNode{{Node: moved, Incarnation: 10, Reason: state.ReasonShutdown}}); err != nil {
		t.Fatal(err)
	}
	c.kill(moved)
	if err := c.at(leader).RemoveMember(ctx, moved); err != nil {
		t.Fatal(err)
	}
	c.eventually("it is forgotten", func() bool {
		known := true
		c.at(leader).View(func(st *state.State) { _, known = st.Node(moved) })
		return !known
	})
	if knows, err := c.at(leader).KnowsMember(ctx, moved); err != nil || knows {
		t.Errorf("known: %v, %v", knows, err)
	}
}

// A command of a flag that is not enabled is refused before any node sees it; a flag that a node does not know cannot be enabled.
func TestFeatureFlags(t *testing.T) {
	c := newCluster(t, "a").start("a")
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	propose := func(cmd state.Command) error {
		r, err := c.at("a").Propose(ctx, cmd)
		if err == nil {
			err = r.Refusal()
		}
		return err
	}
	if err := propose(&state.NodeUp{Node: "old", Incarnation: 1}); err != nil {
		t.Fatal(err)
	}
	enable := &state.EnableFeature{Names: []string{state.FeatureLifecycle}}
	for _, cmd := range []state.Command{&state.SetDraining{Node: "old", On: true}, enable} {
		if err := propose(cmd); err == nil || !strings.Contains(err.Error(), state.FeatureLifecycle) {
			t.Errorf("%T: %v", cmd, err)
		}
	}
	if err := propose(&state.NodeUp{Node: "old", Incarnation: 2, Versions: state.Versions{Features: state.SupportedFeatures()}}); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range []state.Command{enable, &state.SetDraining{Node: "old", On: true}} {
		if err := propose(cmd); err != nil {
			t.Errorf("%T: %v", cmd, err)
		}
	}
	if err := propose(&state.NodeUp{Node: "old", Incarnation: 3}); err == nil || !strings.Contains(err.Error(), "not supported by node old") {
		t.Errorf("a node too old came up: %v", err)
	}
}
