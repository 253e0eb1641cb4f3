package detector

import (
	"context"
	"fmt"
	"testing"
	"time"

	"warren/metadata/state"
)

var abc = []string{"a", "b", "c"}

func TestQuietCluster(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		time.Sleep(time.Minute)
		if len(w.downs()) != 0 {
			t.Errorf("declared down: %v", w.downs())
		}
		for _, n := range abc {
			for _, o := range abc {
				if !w.node(n).d.Held(o, 1) || n != o && w.node(n).d.Held(o, 2) {
					t.Errorf("%s: lease from %s", n, o)
				}
			}
			if len(w.node(n).paused)+len(w.node(n).deposed) != 0 {
				t.Errorf("%s: paused %v, deposed %v", n, w.node(n).paused, w.node(n).deposed)
			}
		}
		if got := w.node("b").d.PeerApplied("a"); got != 3 {
			t.Errorf("PeerApplied = %d", got)
		}
	})
}

func TestCrashIsDeclaredAtOnce(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		began := time.Now()
		w.kill("b")
		for len(w.downs()) == 0 {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("took %v", took)
		}
		time.Sleep(10 * time.Second)
		if got := fmt.Sprint(w.downs()); got != "[b/1 fenced=true ]" {
			t.Errorf("declared %s", got)
		}
		if left := w.node("a").d.OutstandingUnfenced(); left != 0 {
			t.Errorf("a fenced node leaves %v to wait", left)
		}
	})
}

func TestTwoCrashTogether(t *testing.T) {
	simulate(t, []string{"a", "b", "c", "d", "e"}, func(t *testing.T, w *world) {
		for _, n := range []string{"b", "d"} {
			w.with(func() { w.nodes[n].dead = true })
		}
		w.node("a").d.LinkEnded("b", 1)
		time.Sleep(10 * time.Second)
		if got := fmt.Sprint(w.downs()); got != "[d/1 fenced=true b/1 fenced=true ]" {
			t.Errorf("declared %s, want one command for both", got)
		}
	})
}

// A node that is paused accepts connections: it is not fenced, and declared only after three seconds.
func TestPausedNodeIsNotFenced(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		began := time.Now()
		w.with(func() { w.nodes["b"].frozen = true })
		w.node("a").d.LinkEnded("b", 1) // a link broke all the same
		for len(w.downs()) == 0 {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took < 2500*time.Millisecond || took > 3700*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if got := fmt.Sprint(w.downs()); got != "[b/1 fenced=false ]" {
			t.Errorf("declared %s", got)
		}
	})
}

// One voter that still reaches the node is enough to say that it lives.
func TestOneVoterReachesIt(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		a := w.node("a")
		if a.d.crashed(context.Background(), "b") {
			t.Error("b lives")
		}
		w.with(func() { w.nodes["b"].dead = true })
		if !a.d.crashed(context.Background(), "b") {
			t.Error("b is gone")
		}
		w.with(func() { w.cut[[2]string{"c", "b"}] = true }) // c gets no answer, which is no refusal
		if a.d.crashed(context.Background(), "b") {
			t.Error("c was not refused")
		}
		w.with(func() { w.nodes["c"].frozen = true }) // c cannot be asked
		if !a.d.crashed(context.Background(), "b") {
			t.Error("who cannot be asked does not count")
		}
		w.with(func() { w.nodes["b"].dead, w.nodes["c"].frozen = false, false })
	})
}

// The heart of "never two masters": at no moment does a node hold a lease while its granter thinks that none is outstanding.
func TestHolderKnowsFirst(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		a, b := w.node("a").d, w.node("b").d
		w.isolate("b", true)
		lapsed, free := time.Time{}, time.Time{}
		for range 8000 {
			time.Sleep(time.Millisecond)
			held, out := b.Held("a", 1), a.OutstandingTo("b", 1)
			if held && out == 0 || a.Held("b", 1) && b.OutstandingTo("a", 1) == 0 {
				t.Fatal("a lease is held that its granter thinks has run out")
			}
			if !held && lapsed.IsZero() {
				lapsed = time.Now()
			}
			if out == 0 && free.IsZero() {
				free = time.Now()
			}
		}
		if lapsed.IsZero() || free.IsZero() || !lapsed.Before(free) {
			t.Errorf("lapsed %v, free %v", lapsed, free)
		}
		if got := fmt.Sprint(w.downs()); got != "[b/1 fenced=false ]" {
			t.Errorf("declared %s", got)
		}
		if p := w.node("b").paused; len(p) != 1 || p[0] != "true" {
			t.Errorf("the minority paused %v", p)
		}
		w.isolate("b", false)
		time.Sleep(2 * time.Second)
		if p := w.node("b").paused; len(p) != 2 || p[1] != "false" {
			t.Errorf("back, the minority paused %v", p)
		}
		if b.Held("a", 1) {
			t.Error("a grants to an incarnation that is down")
		}
		b.Renew(2)
		w.propose(&state.NodeUp{Node: "b", Incarnation: 2})
		time.Sleep(2 * time.Second)
		if !b.Held("a", 1) || b.Held("b", 2) != true {
			t.Error("the new incarnation gets no lease")
		}
	})
}

// Waiting for unfenced grants: nobody says "none left" before the last lease has lapsed.
func TestOutstandingUnfenced(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		a, b, c := w.node("a").d, w.node("b").d, w.node("c").d
		w.isolate("b", true)
		for len(w.downs()) == 0 {
			time.Sleep(time.Millisecond)
		}
		began := time.Now()
		for a.OutstandingUnfenced() > 0 || c.OutstandingUnfenced() > 0 {
			if time.Sleep(time.Millisecond); time.Since(began) > 4*time.Second {
				t.Fatal("a node goes on granting to an incarnation that is down")
			}
		}
		if b.Held("a", 1) || b.Held("c", 1) {
			t.Error("all grants have run out, but b still acts")
		}
	})
}

// A process that has just started does not know what the one before it granted.
func TestRestartRemembersNothing(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		w.kill("c")
		time.Sleep(100 * time.Millisecond)
		w.start("c", 2)
		if left := w.node("c").d.OutstandingTo("b", 1); left < 2900*time.Millisecond {
			t.Errorf("outstanding %v", left)
		}
	})
}

// SIGSTOP: a node that did not run for ten seconds wakes up without leases, blames nobody, and learns that it was replaced.
func TestFrozenLeader(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		now := clock()
		c := newCore("a", 1, DefaultTiming(), now)
		c.setNode(now, &state.Node{Name: "b", Incarnation: 1, Status: state.NodeRunning})
		h := c.compose(now, "b", "a", 1, 1, false)
		c.hear(now, "b", heartbeat{Incarnation: 1, Seq: 1, Holder: 1, Answers: h.Seq})
		if !c.held(now+time.Second, state.Place{Node: "b", Incarnation: 1}) {
			t.Fatal("no lease")
		}
		later := now + 10*time.Second
		if c.held(later, state.Place{Node: "b", Incarnation: 1}) {
			t.Error("a lease outlived ten seconds")
		}
		c.wake(later)
		if down := c.silent(later); len(down) != 0 {
			t.Errorf("blames %v for its own sleep", down)
		}
		// a grant that waited in the socket's buffer all the time
		c.hear(later, "b", heartbeat{Incarnation: 1, Seq: 2, Holder: 1, Answers: h.Seq})
		if c.held(later, state.Place{Node: "b", Incarnation: 1}) {
			t.Error("an old grant counts from when it is read")
		}
	})
}

func TestDeposed(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		w.propose(&state.NodesDown{Nodes: []state.DownNode{{Node: "c", Incarnation: 1, Reason: state.ReasonFailure}}})
		w.propose(&state.NodesDown{Nodes: []state.DownNode{{Node: "b", Incarnation: 1, Reason: state.ReasonFailure}}})
		if got := w.node("c").deposed; len(got) != 1 || got[0] != 1 {
			t.Errorf("deposed %v", got)
		}
	})
}

func TestLeaderCrashes(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		w.kill("a")
		time.Sleep(100 * time.Millisecond)
		if w.node("b").elected != 1 || w.node("c").elected != 1 {
			t.Errorf("ElectNow: b %d, c %d", w.node("b").elected, w.node("c").elected)
		}
		// b is elected; its first step finds a gone, at once
		began := time.Now()
		w.with(func() { w.leader, w.term = "b", 2 })
		gone := w.node("b").d.Gone(context.Background(), places("a", "b", "c"))
		if fmt.Sprint(gone) != "[{a 1 failure true}]" || time.Since(began) > 100*time.Millisecond {
			t.Errorf("gone %v after %v", gone, time.Since(began))
		}
	})
}

func places(names ...string) (ps []state.Place) {
	for _, n := range names {
		ps = append(ps, state.Place{Node: n, Incarnation: 1})
	}
	return ps
}

// The leader was paused for a while before another one was elected: it is declared three seconds after it was last heard.
func TestGoneCountsSilenceBefore(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		w.with(func() { w.nodes["a"].frozen, w.leader = true, "" })
		began := time.Now()
		time.Sleep(1500 * time.Millisecond)
		w.with(func() { w.leader, w.term = "b", 2 })
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		gone := w.node("b").d.Gone(ctx, places("a", "b", "c"))
		took := time.Since(began)
		if fmt.Sprint(gone) != "[{a 1 failure false}]" || took > 3*time.Second || took < 2500*time.Millisecond {
			t.Errorf("gone %v after %v", gone, took)
		}
	})
}

// After a power failure a new leader closes the old incarnations of those that run again, itself included, and those that are silent.
func TestGoneAfterRestart(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		w.kill("a")
		w.kill("b")
		w.with(func() { w.nodes["c"].frozen = true })
		w.start("a", 2)
		w.start("b", 2)
		w.with(func() { w.leader = "a" })
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		began := time.Now()
		gone := w.node("a").d.Gone(ctx, places("a", "b", "c"))
		if fmt.Sprint(gone) != "[{a 1 failure true} {b 1 failure true} {c 1 failure false}]" {
			t.Errorf("gone %v", gone)
		}
		if took := time.Since(began); took < 2900*time.Millisecond || took > 3*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// One that hears from a peer of a leader that it does not reach itself pauses, though it reaches a majority.
func TestPartialPartition(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		w.with(func() { w.cut[[2]string{"a", "c"}], w.cut[[2]string{"c", "a"}] = true, true })
		time.Sleep(10 * time.Second)
		if p := w.node("c").paused; len(p) != 1 || p[0] != "true" {
			t.Errorf("c paused %v", p)
		}
		if p := w.node("b").paused; len(p) != 0 {
			t.Errorf("b paused %v", p)
		}
	})
}

// The leader is cut off, and no other is elected for a while: those who still take it for the leader do not have each other pause.
func TestNobodyPausesForALostLeader(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		time.Sleep(5 * time.Second)
		w.with(func() {
			for _, o := range []string{"b", "c"} {
				w.cut[[2]string{"a", o}], w.cut[[2]string{o, "a"}] = true, true
			}
		})
		time.Sleep(10 * time.Second)
		if b, c := w.node("b").paused, w.node("c").paused; len(b)+len(c) != 0 {
			t.Errorf("b paused %v, c %v", b, c)
		}
		if a := w.node("a").paused; len(a) != 1 || a[0] != "true" {
			t.Errorf("a paused %v", a)
		}
	})
}

// A node that is heard but hears nobody gives no answer: it is declared down, and pauses. So does one that hears all and is not heard.
func TestOneWay(t *testing.T) {
	for what, cut := range map[string][][2]string{
		"hears nobody":       {{"a", "c"}, {"b", "c"}},
		"is heard by nobody": {{"c", "a"}, {"c", "b"}},
	} {
		simulate(t, abc, func(t *testing.T, w *world) {
			time.Sleep(5 * time.Second)
			w.with(func() {
				for _, c := range cut {
					w.cut[c] = true
				}
			})
			time.Sleep(5 * time.Second)
			if got := fmt.Sprint(w.downs()); got != "[c/1 fenced=false ]" {
				t.Errorf("c %s: declared %s", what, got)
			}
			if p := w.node("c").paused; len(p) != 1 || p[0] != "true" {
				t.Errorf("c %s: c paused %v", what, p)
			}
			if a, b := w.node("a").paused, w.node("b").paused; len(a)+len(b) != 0 {
				t.Errorf("c %s: a paused %v, b %v", what, a, b)
			}
		})
	}
}

// A node that came back under a new incarnation before its old one was missed.
func TestSuperseded(t *testing.T) {
	simulate(t, abc, func(t *testing.T, w *world) {
		n := w.node("b")
		w.with(func() { n.dead = true })
		n.cancel()
		<-n.done
		w.start("b", 2)
		time.Sleep(time.Second)
		if got := fmt.Sprint(w.downs()); got != "[b/1 fenced=true ]" {
			t.Errorf("declared %s", got)
		}
	})
}

func TestBadHeartbeat(t *testing.T) {
	for _, p := range [][]byte{nil, {0xc1}, make([]byte, maxHeartbeat+1)} {
		if _, err := decodeHeartbeat(p); err == nil {
			t.Errorf("%d bytes were taken", len(p))
		}
	}
}

// The durations: from the grant on, as long as the holder relies on it the granter holds still, and a bit longer.
func TestGrantOutlivesLease(t *testing.T) {
	const ms = time.Millisecond
	timing := DefaultTiming()
	holder, granter := newCore("a", 1, timing, 0), newCore("b", 1, timing, 0)
	a, b := state.Place{Node: "a", Incarnation: 1}, state.Place{Node: "b", Incarnation: 1}
	now := time.Hour
	granter.setNode(now, &state.Node{Name: "a", Incarnation: 1, Status: state.NodeRunning})
	granter.hear(now+ms, "a", holder.compose(now, "b", "", 0, 0, false))
	answer := granter.compose(now+ms, "a", "", 0, 0, false)
	granter.setNode(now+2*ms, &state.Node{Name: "a", Incarnation: 1, Status: state.NodeDown})
	if h := granter.compose(now+3*ms, "a", "", 0, 0, false); h.Holder != 0 {
		t.Error("a grant to one that is down")
	}
	holder.hear(now+40*ms, "b", answer)
	held := time.Duration(0)
	for at := now + 40*ms; at < now+5*time.Second; at += ms {
		if holder.held(at, b) {
			held = at - now
			if granter.outstanding(at, a) < 200*ms {
				t.Fatalf("after %v the holder acts and the granter has %v left", at-now, granter.outstanding(at, a))
			}
		}
	}
	if held != timing.Lease-ms {
		t.Errorf("held for %v from when the heartbeat was sent", held)
	}
	suspended(t, timing)
	holder.renew(2)
	holder.hear(now+50*ms, "b", answer)
	if holder.held(now+51*ms, b) {
		t.Error("a new incarnation took a lease of the old one")
	}
}

// suspended: a master that is stopped finds the grants of all that time in its socket buffers when it goes on. They all answer the
// heartbeat that it sent before, so it does not act by any of them, though who gave them still holds still.
func suspended(t *testing.T, timing Timing) {
	t.Helper()
	holder, granter := newCore("a", 1, timing, 0), newCore("b", 1, timing, 0)
	b := state.Place{Node: "b", Incarnation: 1}
	now := time.Hour
	granter.setNode(now, &state.Node{Name: "a", Incarnation: 1, Status: state.NodeRunning})
	granter.hear(now, "a", holder.compose(now, "b", "", 0, 0, false))
	var buffered []heartbeat
	for range 10 {
		now += timing.Interval
		buffered = append(buffered, granter.compose(now, "a", "", 0, 0, false))
	}
	for i, h := range buffered {
		holder.hear(now, "b", h)
		if h.Holder != 1 || holder.held(now, b) {
			t.Fatalf("the grant of %v ago, the %dth, was taken for a lease: %+v", now-time.Hour, i+1, h)
		}
	}
	if granter.outstanding(now, state.Place{Node: "a", Incarnation: 1}) == 0 {
		t.Error("the granter does not hold still for its newest grant")
	}
	holder.wake(now)
	granter.hear(now, "a", holder.compose(now, "b", "", 0, 0, false))
	if holder.hear(now, "b", granter.compose(now, "a", "", 0, 0, false)); !holder.held(now, b) {
		t.Error("no lease by an answer to what was sent afterwards")
	}
}
