package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"warren/integration/cluster"
)

// status is what cluster_status says, in JSON.
type status struct {
	Leader      string            `json:"metadata_leader"`
	Voters      []string          `json:"metadata_voters"`
	Disk        []string          `json:"disk_nodes"`
	Witnesses   []string          `json:"witness_nodes"`
	Running     []string          `json:"running_nodes"`
	Maintenance map[string]string `json:"maintenance_status"`
	Paused      string            `json:"paused"`
}

func statusOf(c *cluster.Cluster, i int) (s status) {
	r := c.Tool("rabbitmqctl", i, "cluster_status", "--formatter", "json")
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		return status{}
	}
	return s
}

// allAgree waits until each of the nodes lists exactly them as running, and the same leader.
func allAgree(t *testing.T, c *cluster.Cluster, nodes ...int) {
	t.Helper()
	var want []string
	for _, i := range nodes {
		want = append(want, c.Name(i))
	}
	slices.Sort(want)
	cluster.Eventually(t, hang, fmt.Sprintf("all of %v agree that they are the running nodes", want), func() bool {
		first := statusOf(c, nodes[0])
		for _, i := range nodes {
			s := statusOf(c, i)
			if !slices.Equal(s.Running, want) || s.Leader == "" || s.Leader != first.Leader || s.Paused != "" {
				return false
			}
		}
		return true
	})
}

// drainAll consumes everything and checks that it is what was confirmed, once each.
func drainAll(t *testing.T, c *cluster.Cluster, i int, queue string, confirmed map[string]map[int]bool) {
	t.Helper()
	noRepeats(t, drain(t, c.URI(i), queue, confirmed, hang))
}

// TestFormsOneByOne: one of three empty nodes alone forms nothing, two do, and the third comes in late. Then a node comes back
// with an empty disk under load, and one under another name with the disk of the first is refused.
func TestFormsOneByOne(t *testing.T) {
	c := cluster.Prepare(t, 3)
	c.Spawn(2)
	cluster.Eventually(t, hang, "the first node waits", func() bool { return strings.Contains(c.Log(2), "waiting for a majority of the peers") })
	if c.Up(2) {
		t.Error("one node of three is up")
	}
	c.StartNode(3)
	c.StartNode(1)
	allAgree(t, c, 1, 2, 3)
	c.Ctl(1, mirrorAll...)
	declareQueue(t, c, 1, "orders")
	l := startLoad(c, "orders", failoverMessages)
	l.reach(t, failoverMessages/c.Nodes/4)
	c.Kill(1)
	if err := os.RemoveAll(c.DataDir(1)); err != nil {
		t.Fatal(err)
	}
	c.StartNode(1)
	confirmed := l.finish(t, failoverMessages, 1)
	allAgree(t, c, 1, 2, 3)
	mirrorsListed(t, c, 2, "orders", 2)
	drainAll(t, c, 1, "orders", confirmed)
	if !strings.Contains(c.Log(1), "let into the cluster of a peer") {
		t.Error("the node with the empty disk was not let in anew")
	}
}

// TestLeaderStopsAndThenAnother: SIGTERM of the node that leads the metadata and is master, then of a second: the third goes on
// alone without a message lost, and both come back.
func TestLeaderStopsAndThenAnother(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	first := raftLeader(t, c, 1)
	declareQueue(t, c, first, "orders")
	mirrorsListed(t, c, first, "orders", 2)
	second, last := others(c, first)[0], others(c, first)[1]
	l := startLoad(c, "orders", failoverMessages)
	l.reach(t, failoverMessages/c.Nodes/5)
	began := time.Now()
	c.StopNode(first)
	c.StopNode(second)
	t.Logf("both stopped after %v", time.Since(began))
	l.underWayOf(t, last)
	confirmed := l.finish(t, failoverMessages, first, second)
	declareQueue(t, c, last, "made.alone")
	drainAll(t, c, last, "orders", confirmed)
	c.StartNodes(first, second)
	allAgree(t, c, 1, 2, 3)
	mirrorsListed(t, c, first, "orders", 2)
	// All three vote again: two of them are a majority without the one that was alone.
	cluster.Eventually(t, hang, "the first two can do without the third", func() bool {
		return strings.Count(c.Log(raftLeader(t, c, last)), "votes") >= 2
	})
	c.Kill(last)
	declareQueue(t, c, first, "made.without")
}

// underWayOf fails the test if the publisher on a node was done already.
func (l *load) underWayOf(t *testing.T, node int) {
	t.Helper()
	p := l.publishers[node-1]
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.confirmed) >= l.each {
		t.Errorf("publisher on node %d had all its confirms before", node)
	}
}

// TestWholeClusterStops stops all nodes at once, and one after the other, and starts them in another order each time.
func TestWholeClusterStops(t *testing.T) {
	c := cluster.Start(t, 3)
	want := mirroredAndNot(t, c, 1000)
	began := time.Now()
	var all sync.WaitGroup
	for i := 1; i <= c.Nodes; i++ {
		all.Go(func() { c.StopNode(i) })
	}
	all.Wait()
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("stopping all nodes at once took %v", took)
	}
	c.StartNodes(3, 1, 2)
	allAgree(t, c, 1, 2, 3)
	for _, i := range []int{2, 1, 3} {
		c.StopNode(i)
	}
	c.StartNodes(2, 3, 1)
	allAgree(t, c, 1, 2, 3)
	for queue, confirmed := range want {
		masterOf(t, c, 2, queue)
		drainAll(t, c, 2, queue, confirmed)
	}
}
