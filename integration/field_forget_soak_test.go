//go:build soak

package integration

import (
	"strings"
	"testing"

	"warren/integration/cluster"
)

// nodeState is what a node says it is: running, paused, ….
func nodeState(c *cluster.Cluster, i int) string {
	_, after, _ := strings.Cut(c.Tool("rabbitmqctl", i, "status", "--formatter", "json").Stdout, `"state":"`)
	state, _, _ := strings.Cut(after, `"`)
	return state
}

// B67: forgetting a node that runs, whose broker is stopped, that is paused, or dead without a majority left: each is done, or
// refused with a line that says what is in the way.
func TestForgetInEachState(t *testing.T) {
	c, net := cluster.StartCut(t, 4, cutLines)
	forget := func(i int, args ...string) cluster.Result {
		return c.Tool("rabbitmqctl", i, append([]string{"-t", "15", "forget_cluster_node"}, args...)...)
	}
	gone := func(i int) {
		t.Helper()
		cluster.Eventually(t, hang, c.Name(i)+" is no member", func() bool { return !strings.Contains(c.Ctl(1, "cluster_status"), c.Name(i)) })
	}
	refusedWith(t, forget(1, c.Name(4)), 69, "must be stopped with 'rabbitmqctl -n "+c.Name(4))
	refusedWith(t, forget(1, "--offline", c.Name(4)), 64, "requires the target node to be stopped")
	c.Ctl(4, "stop_app")
	refusedWith(t, forget(4, c.Name(1)), 64, "requires the 'rabbit' app to be running")
	refusedWith(t, forget(1, c.Name(4)), 0, "")
	gone(4)

	net.Isolate(3)
	cluster.Eventually(t, hang, "node 3 is paused", func() bool { return nodeState(c, 3) == "paused" })
	said := forget(3, c.Name(1)) // it cannot know
	t.Logf("a paused node said %+v", said)
	refusedWith(t, said, 69, "")
	cluster.Eventually(t, hang, "the node that is paused is forgotten", func() bool { return forget(1, c.Name(3)).Code == 0 })
	gone(3)
	net.Heal()
	cluster.Eventually(t, hang, "it has heard of it", func() bool { return nodeState(c, 3) != "paused" })

	c.Kill(2)
	cluster.Eventually(t, hang, "node 1 is without a majority", func() bool { return nodeState(c, 1) == "paused" })
	said = forget(1, c.Name(2))
	t.Logf("without a majority: %+v", said)
	refusedWith(t, said, 69, "")
	c.StartNode(2)
	cluster.Eventually(t, hang, "both serve", func() bool { return nodeState(c, 1) == "running" && nodeState(c, 2) == "running" })
	if state := nodeState(c, 3); state == "running" {
		t.Error("the node that was forgotten serves")
	}
	t.Logf("the forgotten node is %q:\n%s", nodeState(c, 3), c.LogTail(3, 5))
}
