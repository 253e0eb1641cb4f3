package integration

import (
	"fmt"
	"testing"

	"warren/integration/cluster"
)

func TestMasterStopsInGoodOrder(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	master := others(c, raftLeader(t, c, 1))[0]
	declareQueue(t, c, master, "orders")
	l := startLoad(c, "orders", failoverMessages)
	l.reach(t, failoverMessages/c.Nodes/3)
	c.StopNode(master)
	l.underWay(t, master)
	confirmed := l.finish(t, failoverMessages, master)
	survivor := others(c, master)[0]
	noRepeats(t, drain(t, c.URI(survivor), "orders", confirmed, hang))
	c.StartNode(master)
	for i := 1; i <= c.Nodes; i++ {
		mirrorsListed(t, c, i, "orders", 2)
	}
}

// mirroredAndNot makes a queue on node 1 that is mirrored and one on node 2 that is not, each with so many messages; it returns
// what was confirmed of each queue.
func mirroredAndNot(t *testing.T, c *cluster.Cluster, messages int) map[string]map[string]map[int]bool {
	t.Helper()
	c.Ctl(1, "set_policy", "ha-all", "^ha", `{"ha-mode":"all"}`)
	confirmed := map[string]map[string]map[int]bool{}
	for i, queue := range []string{"ha.orders", "plain.orders"} {
		declareQueue(t, c, i+1, queue)
		p := newPublisher("p1")
		if p.run(c.URI(3), queue, messages); p.err != nil {
			t.Fatal(p.err)
		}
		confirmed[queue] = map[string]map[int]bool{"p1": p.confirmed}
	}
	return confirmed
}

// TestPowerFailure kills all nodes at once, with a queue that is mirrored and one that is not.
func TestPowerFailure(t *testing.T) {
	c := cluster.Start(t, 3)
	want := mirroredAndNot(t, c, 2000)
	for i := 1; i <= c.Nodes; i++ {
		c.Kill(i)
	}
	c.StartNodes(2, 3, 1)
	for queue, confirmed := range want {
		masterOf(t, c, 2, queue)
		cluster.Eventually(t, hang, "all messages of "+queue+" are counted", func() bool {
			cols := queueColumns(c, 2, queue, "messages", "state")
			return cols != nil && cols[0] == fmt.Sprint(len(confirmed["p1"])) && cols[1] == "running"
		})
		noRepeats(t, drain(t, c.URI(3), queue, confirmed, hang))
	}
}
