package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"warren/integration/cluster"
)

// refusedWith runs a command that has to fail, and checks its exit status and a part of what it says.
func refusedWith(t *testing.T, r cluster.Result, code int, text string) {
	t.Helper()
	if r.Code != code || !strings.Contains(r.Stdout+r.Stderr, text) {
		t.Errorf("exit %d, want %d with %q:\n%s%s", r.Code, code, text, r.Stdout, r.Stderr)
	}
}

// TestLeaveAndJoin takes a node that is master and leads the metadata through stop_app, start_app, reset, join_cluster and
// forget_cluster_node, under load on the others.
func TestLeaveAndJoin(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	gone := raftLeader(t, c, 1)
	a, b := others(c, gone)[0], others(c, gone)[1]
	declareQueue(t, c, gone, "orders")
	mirrorsListed(t, c, a, "orders", 2)
	refusedWith(t, c.Tool("rabbitmqctl", gone, "reset"), 64, "requires the 'rabbit' app to be stopped")
	refusedWith(t, c.Tool("rabbitmqctl", a, "forget_cluster_node", c.Name(gone)), 69, "must be stopped with 'rabbitmqctl -n "+c.Name(gone))
	l := startLoad(c, "orders", failoverMessages)
	l.reach(t, failoverMessages/c.Nodes/5)
	refusedWith(t, c.Tool("rabbitmqctl", gone, "force_boot"), 64, "requires the 'rabbit' app to be stopped")
	c.Ctl(gone, "stop_app")
	c.Ctl(gone, "stop_app") // again changes nothing
	refusedWith(t, c.Tool("rabbitmqctl", gone, "force_boot"), 69, "A node does not start against the majority here")
	allAgree(t, c, a, b)
	refusedWith(t, c.Tool("rabbitmqctl", gone, "list_queues"), 64, "requires the 'rabbit' app to be running")
	refusedWith(t, c.Tool("rabbitmqctl", gone, "join_cluster", c.Name(a)), 0, "already a member of this cluster")
	refusedWith(t, c.Tool("rabbitmqctl", gone, "join_cluster", c.Name(gone)), 70, "cannot cluster node with itself")
	refusedWith(t, c.Tool("rabbitmqctl", gone, "join_cluster", "nosuch@localhost"), 69, "attempted to contact: [nosuch@localhost]")
	c.Ctl(gone, "start_app")
	allAgree(t, c, 1, 2, 3)
	confirmed := l.finish(t, failoverMessages, gone)
	mirrorsListed(t, c, a, "orders", 2)

	second := newPublisher("second")
	l.done.Go(func() { second.run(c.URI(a), "orders", failoverMessages/4) })
	second.wait(t, hang, "the load goes on", func(p *publisher) bool { return len(p.confirmed) > 100 })
	c.Ctl(gone, "stop_app")
	c.Ctl(gone, "reset")
	cluster.Eventually(t, hang, "the others have forgotten it", func() bool {
		s := statusOf(c, a)
		return slices.Equal(s.Disk, []string{c.Name(a), c.Name(b)})
	})
	c.Ctl(gone, "join_cluster", c.Name(b))
	c.Ctl(gone, "start_app")
	allAgree(t, c, 1, 2, 3)
	mirrorsListed(t, c, gone, "orders", 2)

	c.StopNode(gone)
	refusedWith(t, c.Tool("rabbitmqctl", gone, "forget_cluster_node", "--offline", c.Name(a)), 69, "make this node a cluster of its own with 'warren recover'")
	c.Ctl(a, "forget_cluster_node", c.Name(gone))
	refusedWith(t, c.Tool("rabbitmqctl", a, "forget_cluster_node", c.Name(gone)), 69, "not_a_cluster_node")
	endsWith(t, c, gone, "thinks it's clustered with node")
	l.done.Wait()
	if second.err != nil || len(second.confirmed) != failoverMessages/4 {
		t.Errorf("%d of %d confirmed: %v", len(second.confirmed), failoverMessages/4, second.err)
	}
	confirmed[second.name] = second.confirmed
	drainAll(t, c, b, "orders", confirmed)
}

// TestForgetTheLastMaster: the last master's node is lost for good; to forget it decides at once who goes on.
func TestForgetTheLastMaster(t *testing.T) {
	c := cluster.Start(t, 3)
	leader := raftLeader(t, c, 1)
	lost, kept := others(c, leader)[0], others(c, leader)[1]
	c.Ctl(1, "set_policy", "pair", "^pair", fmt.Sprintf(`{"ha-mode":"nodes","ha-params":[%q,%q]}`, c.Name(lost), c.Name(kept)))
	declareQueue(t, c, lost, "pair")
	declareQueue(t, c, lost, "alone")
	mirrorsListed(t, c, leader, "pair", 1)
	cluster.Eventually(t, hang, "the mirror is synchronised", func() bool {
		cols := queueColumns(c, leader, "pair", "synchronised_slave_pids")
		return cols != nil && len(nodesOf(cols[0])) == 1
	})
	p := newPublisher("p1")
	if p.run(c.URI(leader), "pair", 1000); p.err != nil {
		t.Fatal(p.err)
	}
	// Both lose power; only one comes back. Alone it would wait for the last master for half a minute.
	c.Kill(kept)
	c.Kill(lost)
	c.StartNode(kept)
	cluster.Eventually(t, hang, "the queue waits for its last master", func() bool {
		cols := queueColumns(c, leader, "pair", "state")
		return cols != nil && cols[0] == "down"
	})
	c.Ctl(leader, "forget_cluster_node", c.Name(lost))
	if now := masterOf(t, c, leader, "pair"); now != kept {
		t.Errorf("master is %d", now)
	}
	drainAll(t, c, leader, "pair", map[string]map[int]bool{"p1": p.confirmed})
	if cols := queueColumns(c, leader, "alone", "state"); cols != nil {
		t.Errorf("the queue of which no copy is left is still listed: %v", cols)
	}
}

// TestMaintenance drains the master's node under load, restarts it in between, and revives it.
func TestMaintenance(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, "set_policy", "ha-all", "^orders", `{"ha-mode":"all"}`)
	c.Ctl(1, "set_policy", "one", "^single", `{"ha-mode":"exactly","ha-params":1}`)
	declareQueue(t, c, 1, "orders")
	declareQueue(t, c, 1, "single")
	mirrorsListed(t, c, 2, "orders", 2)
	upgrade := func(node int, args ...string) {
		t.Helper()
		if r := c.Tool("rabbitmq-upgrade", node, args...); r.Code != 0 {
			t.Fatalf("rabbitmq-upgrade %v: exit %d\n%s%s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
	upgrade(1, "await_online_synchronized_mirror", "-t", "30") // the queue with one copy by its policy is not waited for
	upgrade(1, "await_online_quorum_plus_one")
	l := startLoad(c, "orders", failoverMessages)
	l.reach(t, failoverMessages/c.Nodes/4)
	upgrade(1, "drain")
	l.underWay(t, 1)
	if now := masterOf(t, c, 2, "orders"); now == 1 {
		t.Error("the drained node is still master of a mirrored queue")
	}
	confirmed := l.finish(t, failoverMessages, 1)
	declareQueue(t, c, 2, "orders.new")
	mirrorsListed(t, c, 2, "orders.new", 1)
	c.StopNode(1)
	c.StartNode(1)
	if s := statusOf(c, 2); s.Maintenance[c.Name(1)] != "marked for maintenance" {
		t.Errorf("after a restart: %v", s.Maintenance)
	}
	refusedWith(t, c.Tool("rabbitmqctl", 1, "status"), 0, "Is under maintenance?: true")
	p := newPublisher("refused")
	if p.run(c.URI(1), "orders", 1); p.err == nil {
		t.Error("the drained node serves clients")
	}
	upgrade(1, "revive")
	mirrorsListed(t, c, 1, "orders.new", 2)
	drainAll(t, c, 1, "orders", confirmed)
}
