//go:build soak

package integration

import (
	"strconv"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// salvageDoubles is how many messages of a set a crash may publish twice (docs/operations.md).
const salvageDoubles = 512

// A node is killed while it publishes what it had set aside, and the command is given again: every message comes, at most the documented
// number twice, and each of those with the set and the position of the first time.
func TestSalvageIsKilled(t *testing.T) {
	const messages = 20_000
	c := cluster.Start(t, 3)
	declareQueue(t, c, 1, "orders")
	publishBodies(t, c, 1, "orders", 1, messages, 0)
	c.Ctl(1, "set_policy", "ha", "^", `{"ha-mode":"all"}`)
	awaitCopies(t, c, "orders", "two mirrors, not in sync", func(k copies) bool { return len(k.mirrors) == 2 && k.synced == 0 })
	c.Kill(1)
	awaitCopiesAt(t, c, 2, "orders", "a mirror is promoted", func(k copies) bool { return k.master > 1 })
	c.StartNode(1)
	var set asideSet
	cluster.Eventually(t, hang, "what the old master held is set aside", func() bool {
		set = asideOf(t, c, 1, "orders")
		return set.Messages == messages
	})
	declareQueue(t, c, 2, "target")
	awaitCopies(t, c, "target", "its mirrors are in sync", inSync(2))
	deliveries, err := channelOf(t, dial(t, c.URI(2))).Consume("target", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := func() cluster.Result {
		return c.Tool("rabbitmqctl", 1, "-q", "salvage", set.Set, "--to-queue", "target")
	}
	first := make(chan cluster.Result, 1)
	go func() { first <- again() }()
	seen := map[string]int{}
	doubled := 0
	take := func(upTo int) {
		t.Helper()
		for len(seen) < upTo {
			doubled += takeSalvaged(t, seen, next(t, deliveries, "a message that was set aside"), set.Set)
		}
	}
	take(messages / 10)
	c.Signal(1, syscall.SIGKILL)
	if r := <-first; r.Code == 0 {
		t.Fatalf("the node was killed, and salvage said %+v", r)
	}
	cluster.Eventually(t, hang, "the node is gone", func() bool { return !c.Runs(1) })
	c.StartNode(1)
	before := asideOf(t, c, 1, "orders").Published
	if before == 0 || before >= messages {
		t.Errorf("%d of %d messages count as published after the node was killed", before, messages)
	}
	if r := again(); r.Code != 0 || asideOf(t, c, 1, "orders").Set != "" {
		t.Errorf("the second time salvage said %+v", r)
	}
	take(messages)
	cluster.Eventually(t, hang, "the target is empty", func() bool { return listAll(c, 2)["target"].messages == 0 })
	publishBodies(t, c, 2, "target", messages+1, messages+1, 0)
	last := numbers(messages+1, messages+1)[0]
	for d := next(t, deliveries, "the last message"); string(d.Body) != last; d = next(t, deliveries, "the last message") {
		doubled += takeSalvaged(t, seen, d, set.Set)
	}
	if doubled > salvageDoubles || len(seen) != messages {
		t.Errorf("%d messages came, %d of them twice", len(seen), doubled)
	}
	t.Logf("killed when %d of %d messages were marked as published: %d came twice", before, messages, doubled)
}

// takeSalvaged notes a message by its position in its set, and returns 1 if it was there before.
func takeSalvaged(t *testing.T, seen map[string]int, d amqp.Delivery, set string) int {
	t.Helper()
	from, _ := d.Headers["x-salvaged"].(amqp.Table)
	position, _ := from["position"].(int64)
	if n, err := strconv.Atoi(string(d.Body)); from["set"] != set || err != nil || int64(n) != position {
		t.Fatalf("%.10q came as %v", d.Body, from)
	}
	seen[string(d.Body)]++
	if seen[string(d.Body)] > 1 {
		return 1
	}
	return 0
}
