//go:build soak

package integration

import (
	"math/rand/v2"
	"testing"
	"time"

	"warren/integration/cluster"
)

// TestFormingOrders starts three empty nodes with one list of peers in every order, with pauses between them that fall before, into
// and after the forming, and with one that dies meanwhile and comes back: always they form one cluster.
func TestFormingOrders(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, order := range [][]int{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}} {
		c := cluster.Prepare(t, 3)
		for k, i := range order {
			if k > 0 {
				<-time.After(time.Duration(rng.Int64N(int64(1500 * time.Millisecond)))) // the timing is what is tried
			}
			c.Spawn(i)
			if victim := order[rng.IntN(k+1)]; rng.IntN(2) == 0 {
				c.Kill(victim) // its disk it keeps: with a third that is only late, a lost one would be a lost majority
				c.Spawn(victim)
			}
		}
		allAgree(t, c, 1, 2, 3)
		cluster.Eventually(t, hang, "all three vote", func() bool { return len(statusOf(c, order[1]).Voters) == 3 })
		declareQueue(t, c, order[2], "made")
		c.Kill(order[0])
		declareQueue(t, c, order[1], "made.by.two")
	}
}

// TestNineNodes: two of nine do not vote, carry queues as the others do, and one of them votes when a voter was forgotten.
func TestNineNodes(t *testing.T) {
	c := cluster.Start(t, 9)
	voters := func() []string { return statusOf(c, 9).Voters }
	cluster.Eventually(t, hang, "seven vote", func() bool { return len(voters()) == 7 })
	c.Ctl(9, "set_policy", "ha", "^", `{"ha-mode":"nodes","ha-params":["rabbit1@localhost","rabbit8@localhost","rabbit9@localhost"]}`)
	declareQueue(t, c, 9, "orders")
	mirrorsListed(t, c, 5, "orders", 2)
	l := startLoad(c, "orders", 2*failoverMessages)
	l.reach(t, 200)
	c.Kill(1)
	cluster.Eventually(t, hang, "the dead voter is forgotten", func() bool {
		return c.Tool("rabbitmqctl", 9, "forget_cluster_node", c.Name(1)).Code == 0
	})
	cluster.Eventually(t, hang, "another has its seat", func() bool {
		v := voters()
		return len(v) == 7 && v[6] == c.Name(8)
	})
	confirmed := l.finish(t, 2*failoverMessages, 1)
	drainAll(t, c, 4, "orders", confirmed)
}
