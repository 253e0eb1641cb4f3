package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// The tests of this file are named after the entries of docs/field-reports.md. Those that need no fresh cluster share one.

func TestFieldReports(t *testing.T) {
	c := cluster.StartConfigured(t, 3, "warren.mirror_replacement_delay = 1s")
	for _, tc := range []struct {
		name string
		run  func(*testing.T, *cluster.Cluster)
	}{
		{"B37 B38 rebalance", fieldRebalance},
		{"B40 policy while the metadata leader dies", fieldPolicyAtomic},
		{"B01 orderly stop of the node with most masters", fieldOrderlyStop},
		{"B08 B53 transient and auto-delete queues go with their node", fieldTransient},
		{"B16 policy set and cleared around deaths of the master", fieldPolicyFlaps},
	} {
		if !t.Run(tc.name, func(t *testing.T) { tc.run(t, c) }) {
			return
		}
	}
}

// declareMany declares durable queues prefix1 … prefixN through node i.
func declareMany(t *testing.T, c *cluster.Cluster, i int, prefix string, n int) (names []string) {
	t.Helper()
	conn, ch := dialChannel(t, c, i)
	defer conn.Close()
	for k := 1; k <= n; k++ {
		names = append(names, fmt.Sprintf("%s%d", prefix, k))
		if _, err := ch.QueueDeclare(names[k-1], true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// deleteMany deletes queues through node i.
func deleteMany(t *testing.T, c *cluster.Cluster, i int, names []string) {
	t.Helper()
	conn, ch := dialChannel(t, c, i)
	defer conn.Close()
	for _, name := range names {
		if _, err := ch.QueueDelete(name, false, false, false); err != nil {
			t.Fatalf("delete %s: %v", name, err)
		}
	}
}

func mastersPerNode(c *cluster.Cluster, through int, prefix string) map[string]int {
	counts := map[string]int{}
	for name, q := range listAll(c, through) {
		if strings.HasPrefix(name, prefix) && q.state == "running" {
			counts[q.master]++
		}
	}
	return counts
}

// B38: one documented command evens the masters out. B37: queues that are deleted meanwhile do not stop it.
func fieldRebalance(t *testing.T, c *cluster.Cluster) {
	c.Ctl(1, "set_policy", "b38", "^b38", `{"ha-mode":"all"}`)
	names := declareMany(t, c, 1, "b38.", 18)
	awaitCopies(t, c, names[17], "mirrored", inSync(2))
	var deleting sync.WaitGroup
	deleting.Go(func() { deleteMany(t, c, 2, names[:6]) })
	r := c.Tool("rabbitmq-queues", 3, "rebalance", "all")
	deleting.Wait()
	if r.Code != 0 || !strings.Contains(r.Stdout, "Number of replicated classic queues") {
		t.Fatalf("rebalance: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r = c.Tool("rabbitmq-queues", 2, "rebalance", "classic", "--queue-pattern", "^b38"); r.Code != 0 {
		t.Fatalf("rebalance: exit %d %s", r.Code, r.Stderr)
	}
	if counts := mastersPerNode(c, 1, "b38."); len(counts) != 3 || counts[c.Name(1)] != 4 || counts[c.Name(2)] != 4 {
		t.Errorf("masters after rebalancing twelve queues: %v", counts)
	}
	deleteMany(t, c, 1, names[6:])
	c.Ctl(1, "clear_policy", "b38")
}

// B40: a policy and what it does to queues are one change, whoever leads; the same command again is harmless.
func fieldPolicyAtomic(t *testing.T, c *cluster.Cluster) {
	names := declareMany(t, c, 1, "b40.", 10)
	leader := raftLeader(t, c, 1)
	through := others(c, leader)[0]
	var killing sync.WaitGroup
	killing.Go(func() { c.Kill(leader) })
	cluster.Eventually(t, hang, "the policy is set", func() bool {
		return c.Tool("rabbitmqctl", through, "set_policy", "b40", "^b40", `{"ha-mode":"exactly","ha-params":2}`, "-t", "5").Code == 0
	})
	killing.Wait()
	c.Ctl(through, "set_policy", "b40", "^b40", `{"ha-mode":"exactly","ha-params":2}`)
	for _, name := range names {
		if cols := queueColumns(c, through, name, "policy"); cols == nil || cols[0] != "b40" {
			t.Errorf("%s has policy %v", name, cols)
		}
	}
	c.StartNode(leader)
	for _, name := range names {
		awaitCopies(t, c, name, "two copies", func(k copies) bool { return len(k.mirrors) == 1 })
	}
	deleteMany(t, c, 1, names)
	c.Ctl(1, "clear_policy", "b40")
}

// B01: the stop of a node hands its masters to synchronised mirrors; everything confirmed can be read, and a second copy is made.
func fieldOrderlyStop(t *testing.T, c *cluster.Cluster) {
	c.Ctl(1, "set_policy", "b01", "^b01", `{"ha-mode":"exactly","ha-params":2,"ha-promote-on-failure":"when-synced"}`)
	names := declareMany(t, c, 1, "b01.", 5)
	for _, name := range names {
		if confirmed, _ := publishTo(t, c, 1, name, 50); confirmed != 50 {
			t.Fatalf("%s: %d confirmed", name, confirmed)
		}
		awaitCopies(t, c, name, "two copies", inSync(1))
	}
	began := time.Now()
	c.StopNode(1)
	cluster.Eventually(t, hang, "every queue runs elsewhere with all its messages", func() bool {
		all := listAll(c, 2)
		for _, name := range names {
			if q := all[name]; q.state != "running" || q.messages != 50 || q.master == c.Name(1) {
				return false
			}
		}
		return true
	})
	t.Logf("all five are readable %v after the stop began", time.Since(began))
	for _, name := range names {
		awaitCopiesAt(t, c, 2, name, "a second copy", func(k copies) bool { return len(k.mirrors) == 1 })
	}
	c.StartNode(1)
	for _, name := range names {
		takeAll(t, c, 3, name, 50)
	}
	deleteMany(t, c, 2, names)
	c.Ctl(1, "clear_policy", "b01")
}

// B08: a transient queue whose last copy is gone is gone, and can be declared again at once. B53, B10: auto-delete queues under a
// catch-all policy go when the node of their only consumer dies; the others answer.
func fieldTransient(t *testing.T, c *cluster.Cluster) {
	c.Ctl(1, "set_policy", "b53", ".*", `{"ha-mode":"all"}`)
	c.Ctl(1, "set_policy", "b08", "^b08", fmt.Sprintf(`{"ha-mode":"nodes","ha-params":[%q]}`, c.Name(3)), "--priority", "1")
	there, dead := dialChannel(t, c, 3)
	defer there.Close()
	here, alive := dialChannel(t, c, 2)
	defer here.Close()
	if _, err := alive.QueueDeclare("b08.t", false, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	const each = 15
	for k := range 2 * each {
		ch := alive
		if k%2 == 0 {
			ch = dead
		}
		q, err := ch.QueueDeclare("", false, true, false, false, nil)
		if err == nil {
			_, err = ch.Consume(q.Name, "", true, false, false, false, nil)
		}
		if err == nil {
			err = ch.QueueBind(q.Name, "", "amq.fanout", false, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.Kill(3)
	cluster.Eventually(t, hang, "the queues of the dead node's clients are gone, the others are there", func() bool {
		return len(listAll(c, 2)) == each
	})
	if _, err := alive.QueueDeclare("b08.t", false, false, false, false, nil); err != nil {
		t.Errorf("a transient queue whose only copy died, declared again: %v", err)
	}
	if err := alive.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirms := alive.NotifyPublish(make(chan amqp.Confirmation, 1))
	if err := alive.PublishWithContext(t.Context(), "amq.fanout", "", true, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	select {
	case conf := <-confirms:
		if !conf.Ack {
			t.Error("a publish to the queues that are left was nacked")
		}
	case <-time.After(hang):
		t.Error("a publish to the queues that are left is not answered")
	}
	c.StartNode(3)
	c.Ctl(1, "clear_policy", "b53")
	c.Ctl(1, "clear_policy", "b08")
	if _, err := alive.QueueDelete("b08.t", false, false, false); err != nil {
		t.Error(err)
	}
}

// B16: a policy that is cleared and set again while masters die: the queue stays, and ends with the copies of the policy.
func fieldPolicyFlaps(t *testing.T, c *cluster.Cluster) {
	const all = `{"ha-mode":"all"}`
	c.Ctl(1, "set_policy", "b16", "^b16", all)
	declareQueue(t, c, 2, "b16")
	for round := range 2 {
		k := awaitCopies(t, c, "b16", "two synchronised mirrors", inSync(2))
		if confirmed, _ := publishTo(t, c, k.master, "b16", 5); confirmed != 5 {
			t.Fatalf("round %d: %d confirmed", round, confirmed)
		}
		through := others(c, k.master)[0]
		takeAll(t, c, through, "b16", 5) // whose node sends the acknowledgements again
		var flapping sync.WaitGroup
		flapping.Go(func() {
			for range 3 {
				c.Tool("rabbitmqctl", through, "set_policy", "b16", "^b16", `{"ha-mode":"exactly","ha-params":2}`, "-t", "5")
				c.Tool("rabbitmqctl", through, "set_policy", "b16", "^b16", all, "-t", "5")
			}
		})
		c.Kill(k.master)
		flapping.Wait()
		c.Ctl(through, "set_policy", "b16", "^b16", all)
		c.StartNode(k.master)
	}
	awaitCopies(t, c, "b16", "two synchronised mirrors", inSync(2))
	c.Ctl(1, "delete_queue", "b16")
	c.Ctl(1, "clear_policy", "b16")
}

// B34, B35 and B44 need five nodes.
func TestFieldReportsFiveNodes(t *testing.T) {
	c := cluster.Start(t, 5)
	c.Ctl(1, "set_policy", "base", "^", `{"ha-mode":"exactly","ha-params":2}`)
	nodes := func(ns ...int) string {
		var names []string
		for _, n := range ns {
			names = append(names, fmt.Sprintf("%q", c.Name(n)))
		}
		return `{"ha-mode":"nodes","ha-params":[` + strings.Join(names, ",") + `]}`
	}
	on := func(want ...int) func(copies) bool {
		return func(k copies) bool {
			if k.synced != len(want)-1 || len(k.mirrors) != len(want)-1 {
				return false
			}
			for _, n := range append([]int{k.master}, k.mirrors...) {
				if n != want[0] && n != want[1] {
					return false
				}
			}
			return true
		}
	}
	// B34: the master ends inside the list, changes of the list and its end are followed.
	declareQueue(t, c, 2, "moving")
	c.Ctl(1, "set_policy", "temp", "^moving", nodes(1, 3), "--priority", "200")
	awaitCopies(t, c, "moving", "copies on nodes 1 and 3", on(1, 3))
	c.Ctl(1, "set_policy", "temp", "^moving", nodes(3, 5), "--priority", "200")
	awaitCopies(t, c, "moving", "copies on nodes 3 and 5", on(3, 5))
	c.Ctl(1, "clear_policy", "temp")
	awaitCopies(t, c, "moving", "two copies by the base policy", on(3, 5))

	// B35: two nodes die and come back at the same instant: exactly two copies each.
	names := declareMany(t, c, 4, "b35.", 20)
	c.Kill(4)
	c.Kill(5)
	c.StartNodes(4, 5)
	for _, name := range names {
		awaitCopies(t, c, name, "exactly two copies", inSync(1))
	}
	majorityGoes(t, c)
}

// B44: the majority goes: the publisher is told so; it comes back: confirms flow again.
func majorityGoes(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	conn, ch := dialChannel(t, c, 1)
	defer conn.Close()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	for _, i := range []int{3, 4, 5} {
		c.Kill(i)
	}
	select {
	case err := <-closed:
		if err == nil || err.Code != amqp.ConnectionForced {
			t.Errorf("the connection to a node without a majority was closed with %v", err)
		}
	case <-time.After(hang):
		t.Fatal("a node without a majority left its client waiting")
	}
	c.StartNode(3)
	cluster.Eventually(t, hang, "node 1 serves again", func() bool {
		again, err := amqp.Dial(c.URI(1))
		if err == nil {
			err = again.Close()
		}
		return err == nil
	})
	declareQueue(t, c, 1, "b44")
	if confirmed, _ := publishTo(t, c, 1, "b44", 10); confirmed != 10 {
		t.Errorf("%d of 10 confirmed after the majority is back", confirmed)
	}
}

// B50: each orderly stop of the node that is master and metadata leader gives the queue a master elsewhere.
func TestTakeOverAfterEachStop(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	declareQueue(t, c, 1, "orders")
	for range 3 {
		k := awaitCopies(t, c, "orders", "two synchronised mirrors", inSync(2))
		began := time.Now()
		c.StopNode(k.master)
		through := others(c, k.master)[0]
		cluster.Eventually(t, hang, "another node is master", func() bool {
			now := copiesOf(c, through, "orders")
			return now.master > 0 && now.master != k.master
		})
		if confirmed, _ := publishTo(t, c, through, "orders", 1); confirmed != 1 {
			t.Error("a publish after the stop was not confirmed")
		}
		t.Logf("stopped and taken over within %v", time.Since(began))
		takeAll(t, c, through, "orders", 1)
		c.StartNode(k.master)
	}
}
