//go:build soak

package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"warren/integration/cluster"
)

// TestRebalanceUnderLoad spreads masters that are all on one node while a publisher works on each queue: no message is lost or
// doubled.
func TestRebalanceUnderLoad(t *testing.T) {
	const queues, messages = 6, 6000
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	var publishers []*publisher
	var done sync.WaitGroup
	for k := range queues {
		queue := fmt.Sprintf("load%d", k)
		declareQueue(t, c, 1, queue)
		mirrorsListed(t, c, 1, queue, 2)
		p := newPublisher("p")
		publishers = append(publishers, p)
		done.Go(func() { p.run(c.URI(k%3+1), queue, messages) })
	}
	for _, p := range publishers {
		p.wait(t, hang, "100 confirms", func(p *publisher) bool { return len(p.confirmed) > 100 })
	}
	if r := c.Tool("rabbitmq-queues", 2, "rebalance", "classic"); r.Code != 0 {
		t.Fatalf("rebalance: exit %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if counts := mastersPerNode(c, 3, "load"); counts[c.Name(1)] != 2 || counts[c.Name(2)] != 2 || counts[c.Name(3)] != 2 {
		t.Errorf("masters after rebalancing six queues: %v", counts)
	}
	for k, p := range publishers {
		p.mu.Lock()
		if len(p.confirmed) >= messages {
			t.Errorf("publisher of queue %d was done before", k)
		}
		p.mu.Unlock()
	}
	done.Wait()
	for k, p := range publishers {
		if p.err != nil || len(p.confirmed) != messages {
			t.Errorf("queue %d: %d of %d confirmed: %v", k, len(p.confirmed), messages, p.err)
		}
		drainAll(t, c, k%3+1, fmt.Sprintf("load%d", k), map[string]map[int]bool{p.name: p.confirmed})
	}
}

// TestSyncCritical asks, under load, whether a node may be stopped: not while it alone has everything, and then again.
func TestSyncCritical(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, "set_policy", "pair", "^orders", fmt.Sprintf(`{"ha-mode":"nodes","ha-params":[%q,%q]}`, c.Name(1), c.Name(2)))
	declareQueue(t, c, 1, "orders")
	awaitCopiesAt(t, c, 1, "orders", "the mirror is synchronised", inSync(1))
	check := func(node, code int, text string) {
		t.Helper()
		refusedWith(t, c.Tool("rabbitmq-queues", node, "check_if_node_is_mirror_sync_critical"), code, text)
	}
	const none = "reported no classic mirrored queues without online synchronised mirrors"
	l := startLoad(c, "orders", 3*failoverMessages)
	l.reach(t, 500)
	check(1, 0, none)
	c.Kill(2)
	check(1, 69, "queue 'orders' in vhost '/' would lose its only synchronised replica (master) if node "+c.Name(1)+" is stopped")
	check(3, 0, none)
	refusedWith(t, c.Tool("rabbitmq-diagnostics", 1, "check_if_node_is_quorum_critical"), 0, "no quorum queues with minimum quorum")
	refusedWith(t, c.Tool("rabbitmq-upgrade", 1, "await_online_synchronized_mirror", "-t", "1"), 69, "time is up")
	var awaited cluster.Result
	var waiting sync.WaitGroup
	waiting.Go(func() { awaited = c.Tool("rabbitmq-upgrade", 1, "await_online_synchronized_mirror", "-t", "60") })
	c.StartNode(2)
	waiting.Wait()
	if awaited.Code != 0 || strings.Contains(awaited.Stdout+awaited.Stderr, "time is up") {
		t.Errorf("await: exit %d\n%s%s", awaited.Code, awaited.Stdout, awaited.Stderr)
	}
	check(1, 0, none)
	l.underWay(t, 2)
	c.StopNode(1) // it was said that it may be
	confirmed := l.finish(t, 3*failoverMessages, 1, 2)
	if now := masterOf(t, c, 3, "orders"); now != 2 {
		t.Errorf("master is %d", now)
	}
	drainAll(t, c, 3, "orders", confirmed)
}
