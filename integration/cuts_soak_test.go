//go:build soak

package integration

import (
	"testing"
	"time"

	"warren/integration/cluster"
)

// B59, B14: where only two nodes do not reach each other, and one of them leads the metadata, one of them is out, not more. Where
// neither leads both serve, and a mirror that the ring cannot pass is taken out of it. Never are there two masters.
func (x *cuts) twoDoNotMeet() {
	x.t.Helper()
	leader := raftLeader(x.t, x.c, 1)
	a, b := others(x.c, leader)[0], others(x.c, leader)[1]
	x.during("a node and the leader do not reach each other", func() { x.net.Part(a, leader) }, func() {
		cluster.Eventually(x.t, hang, "one of the two is out, the other serves", func() bool { return x.paused(a)+x.paused(leader) == 1 })
		if x.paused(b) > 0 {
			x.t.Error("the node that both reach is out as well")
		}
	})
	leader = raftLeader(x.t, x.c, 1)
	a, b = others(x.c, leader)[0], others(x.c, leader)[1]
	x.during("two nodes that do not lead do not reach each other", func() { x.net.Part(a, b) }, func() {
		cluster.Eventually(x.t, hang, "a mirror is taken out", func() bool { return logged(x.c, "holds up the queue") > 0 })
		for i := 1; i <= x.c.Nodes; i++ {
			if x.paused(i) > 0 {
				x.t.Errorf("%s is out, and reaches the leader", x.c.Name(i))
			}
		}
	})
}

// More cuts, in make soak: between two nodes, one-way ones, all links, a link that flaps, short ones, each on every node in turn.
func TestLinksAreCutInEveryWay(t *testing.T) {
	x := newCuts(t)
	x.twoDoNotMeet()
	wait := func(d time.Duration) func() { return func() { x.wait(d) } }
	for v := 1; v <= x.c.Nodes; v++ {
		a, b := others(x.c, v)[0], others(x.c, v)[1]
		name := x.c.Name(v)
		moves := func() {
			awaitCopiesAt(t, x.c, a, x.queues[0], "another node is master", func(k copies) bool { return k.master != v })
			awaitCopiesAt(t, x.c, b, x.queues[v-1], "another node is master", func(k copies) bool { return k.master != v })
			x.wait(time.Second)
		}
		x.during("nobody hears "+name, func() { x.net.Cut(v, a); x.net.Cut(v, b) }, moves)
		x.during(name+" hears nobody", func() { x.net.Cut(a, v); x.net.Cut(b, v) }, moves)
		x.during("one node does not hear "+name, func() { x.net.Cut(v, a) }, wait(8*time.Second))
		x.during(name+" is cut off for half a second", func() { x.net.Isolate(v) }, wait(500*time.Millisecond))
		x.during(name+" is cut off for as long as a lease", func() { x.net.Isolate(v) }, wait(1200*time.Millisecond))
		x.during("a link of "+name+" flaps", func() {}, func() {
			for range 10 {
				x.net.Part(v, b)
				x.wait(x.some(1500 * time.Millisecond))
				x.net.Heal()
				x.wait(x.some(800 * time.Millisecond))
			}
		})
	}
	x.during("no node reaches any other", func() { x.net.Isolate(1); x.net.Part(2, 3) }, func() {
		for i := 1; i <= x.c.Nodes; i++ {
			x.awaitPaused(i)
		}
	})
}
