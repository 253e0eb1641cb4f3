package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// logged counts the lines of all nodes' logs that hold every one of texts.
func logged(c *cluster.Cluster, texts ...string) (n int) {
	for i := 1; i <= c.Nodes; i++ {
		for line := range strings.Lines(c.Log(i)) {
			all := true
			for _, text := range texts {
				all = all && strings.Contains(line, text)
			}
			if all {
				n++
			}
		}
	}
	return n
}

// B47: a mirror that stops taking part holds publishers up for about ha-mirror-timeout, less than it takes to declare its
// node down; that it comes back by itself is TestSuspendedMirrorComesBack.
func TestMirrorIsSuspended(t *testing.T) {
	suspendMirror(t, func(*cluster.Cluster, int, *stream) {})
}

// suspendMirror stops the process of a mirror under load and lets it go on; then is what happens before the load ends, with the
// metadata leader, which has the other mirror.
func suspendMirror(t *testing.T, then func(c *cluster.Cluster, leader int, s *stream)) {
	t.Helper()
	c := cluster.StartConfigured(t, 3, "warren.unreachable_after = 20s")
	c.Ctl(1, "set_policy", "ha", "^", `{"ha-mode":"all","ha-mirror-timeout":1000}`)
	leader := raftLeader(t, c, 1)
	mirror, master := others(c, leader)[0], others(c, leader)[1]
	declareQueue(t, c, master, "orders")
	s := startStream(c.URI(master), c.URI(leader), "orders")
	s.count(t, 200)
	c.Signal(mirror, syscall.SIGSTOP)
	s.count(t, confirmWindow+200)
	awaitCopiesAt(t, c, leader, "orders", "the suspended mirror is out", inSync(1))
	c.Signal(mirror, syscall.SIGCONT)
	then(c, leader, s)
	s.end(t)
	if s.longest > 5*time.Second {
		t.Errorf("publishing stood still for %v", s.longest)
	}
	if n := logged(c, "level=WARN", "holds up the queue", "peer="+c.Name(mirror), "queue=orders", "epoch=1"); n != 1 {
		t.Errorf("%d lines say that the mirror was dropped", n)
	}
	if n := logged(c, "holds up the queue"); n != 1 {
		t.Errorf("%d mirrors were dropped", n)
	}
}

// Under exactly N a member that stays away is replaced, and takes its place back when its stand-in has not synchronised;
// one that is only restarted keeps it (R4, B35).
func TestStandIn(t *testing.T) {
	c := cluster.StartConfigured(t, 3, "warren.mirror_replacement_delay = 1s")
	c.Ctl(1, "set_policy", "two", "^", `{"ha-mode":"exactly","ha-params":2}`)
	declareQueue(t, c, 1, "orders")
	publishTo(t, c, 1, "orders", 10) // so that a stand-in does not synchronise
	mirror := awaitCopies(t, c, "orders", "two copies", inSync(1)).mirrors[0]
	third := others(c, mirror)[len(others(c, mirror))-1]
	c.Kill(mirror)
	awaitCopies(t, c, "orders", "the third node has a copy", func(k copies) bool {
		return len(k.mirrors) == 1 && k.mirrors[0] == third && k.synced == 0
	})
	c.StartNode(mirror)
	awaitCopies(t, c, "orders", "the mirror takes its place back", func(k copies) bool {
		return len(k.mirrors) == 1 && k.mirrors[0] == mirror
	})
	if n := logged(c, "another node gets a copy"); n != 1 {
		t.Errorf("a stand-in was logged %d times", n)
	}
}

func awaitCopiesAt(t *testing.T, c *cluster.Cluster, i int, queue, what string, cond func(copies) bool) {
	t.Helper()
	cluster.Eventually(t, hang, queue+": "+what, func() bool { k := copiesOf(c, i, queue); return k.master > 0 && cond(k) })
}

// publishTo publishes n persistent messages through node i and returns how many were confirmed and nacked.
func publishTo(t *testing.T, c *cluster.Cluster, i int, queue string, n int) (confirmed, nacked int) {
	t.Helper()
	conn, ch := dialChannel(t, c, i)
	defer conn.Close()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirms := ch.NotifyPublish(make(chan amqp.Confirmation, n))
	for k := range n {
		err := ch.PublishWithContext(t.Context(), "", queue, false, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil, "%s:%d", queue, k+1)})
		if err != nil {
			t.Fatal(err)
		}
	}
	timeout := time.After(hang)
	for confirmed+nacked < n {
		select {
		case conf := <-confirms:
			if conf.Ack {
				confirmed++
			} else {
				nacked++
			}
		case <-timeout:
			t.Fatalf("%s: %d of %d publishes were answered", queue, confirmed+nacked, n)
		}
	}
	return confirmed, nacked
}

// While fewer than ha-min-in-sync members are synchronised publishes are refused, and taken again afterwards.
func TestTooFewInSync(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, "set_policy", "ha", "^", `{"ha-mode":"all","ha-min-in-sync":2}`)
	leader := raftLeader(t, c, 1)
	declareQueue(t, c, leader, "orders")
	if _, nacked := publishTo(t, c, leader, "orders", 5); nacked > 0 {
		t.Fatalf("%d publishes were nacked with three members in sync", nacked)
	}
	rest := others(c, leader)
	c.Kill(rest[0])
	if confirmed, nacked := publishTo(t, c, leader, "orders", 5); nacked > 0 {
		t.Fatalf("%d confirmed, %d nacked with two members in sync", confirmed, nacked)
	}
	c.Ctl(leader, "set_policy", "ha", "^", `{"ha-mode":"exactly","ha-params":1,"ha-min-in-sync":2}`)
	awaitCopiesAt(t, c, leader, "orders", "one copy", inSync(0))
	if confirmed, nacked := publishTo(t, c, leader, "orders", 5); confirmed > 0 || nacked != 5 {
		t.Errorf("%d confirmed, %d nacked with one member in sync", confirmed, nacked)
	}
	c.Ctl(leader, "set_policy", "ha", "^", `{"ha-mode":"exactly","ha-params":1}`)
	if confirmed, _ := publishTo(t, c, leader, "orders", 5); confirmed != 5 {
		t.Errorf("%d confirmed of 5 once one is enough", confirmed)
	}
	if cols := queueColumns(c, leader, "orders", "messages"); cols == nil || cols[0] != "15" {
		t.Errorf("the queue holds %v messages, want 15: what was refused is not stored", cols)
	}
}

// A short ha-mirror-timeout takes no mirror out that only has nothing to do, whatever was done before.
func TestIdleRingKeepsItsMirrors(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, "set_policy", "ha", "^", `{"ha-mode":"all","ha-mirror-timeout":300}`)
	declareQueue(t, c, 1, "orders")
	publishTo(t, c, 2, "orders", 20)
	takeAll(t, c, 3, "orders", 10)
	conn, ch := dialChannel(t, c, 3)
	defer conn.Close()
	if err := ch.PublishWithContext(t.Context(), "", "orders", false, false, amqp.Publishing{Body: []byte("transient")}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ch.Get("orders", false); err != nil { // stays unacknowledged
		t.Fatal(err)
	}
	refusedWith(t, c.Tool("rabbitmqctl", 1, "transfer", "orders", "rabbit9@localhost"), 69,
		"to rabbit9@localhost: that node has no synchronised mirror of it\n")
	c.Ctl(1, "transfer", "orders", c.Name(2))
	began := time.Now()
	cluster.Eventually(t, hang, "several timeouts have passed", func() bool { return time.Since(began) > 2*time.Second })
	if n := logged(c, "holds up the queue"); n > 0 {
		t.Errorf("%d mirrors were taken out of an idle ring", n)
	}
	if k := copiesOf(c, 1, "orders"); len(k.mirrors) != 2 || k.synced != 2 {
		t.Errorf("copies: %+v", k)
	}
}
