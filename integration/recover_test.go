package integration

import (
	"os"
	"strings"
	"testing"

	"warren/integration/cluster"
)

// TestTwoOfThreeAreLost: two nodes are gone for good with their disks; the third is made a cluster again, with all that was confirmed,
// and two new ones join it. Before, it is refused as long as a majority could still exist; afterwards the two are not heard when they
// come back on their old disks.
func TestTwoOfThreeAreLost(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	declareQueue(t, c, 1, "orders")
	mirrorsListed(t, c, 3, "orders", 2)
	p := newPublisher("p1")
	if p.run(c.URI(2), "orders", 2000); p.err != nil {
		t.Fatal(p.err)
	}
	c.Kill(3)
	refusedWith(t, c.Recover(3, c.Name(1), c.Name(2)), 69, "answers at")
	c.Kill(1)
	c.Kill(2)
	refusedWith(t, c.Recover(3, c.Name(1)), 69, "name it with --lost")
	refusedWith(t, c.Recover(3, c.Name(1), c.Name(2)), 0, "a cluster of its own, without")
	c.StartNode(3)
	masterOf(t, c, 3, "orders")
	declareQueue(t, c, 3, "made.after")
	// The lost ones were not lost: together they are a majority of the cluster that was.
	for _, i := range []int{1, 2} {
		endsWith(t, c, i, "was recovered without "+c.Name(i))
		if err := os.RemoveAll(c.DataDir(i)); err != nil {
			t.Fatal(err)
		}
	}
	c.StartNodes(1, 2) // empty: they are let in
	allAgree(t, c, 1, 2, 3)
	mirrorsListed(t, c, 1, "orders", 2)
	drainAll(t, c, 2, "orders", map[string]map[int]bool{"p1": p.confirmed})
	if !strings.Contains(c.Log(1), "let into the cluster of a peer") {
		t.Error("the new node formed a cluster of its own")
	}
}
