//go:build soak

package integration

import (
	"testing"

	"warren/integration/cluster"
)

// A node that was away from a queue of a million messages gets the difference, and no more: counted on its links, all that a start
// needs included. MESSAGES sets another number.
func TestDeltaOfAMillion(t *testing.T) {
	n := int(number(t, "MESSAGES", 1_000_000))
	const size, taken, published = 200, 1000, 1000
	c, net := cluster.StartCut(t, 3, "")
	c.Ctl(1, "set_policy", "pair", "^", `{"ha-mode":"nodes","ha-params":["`+c.Name(1)+`","`+c.Name(2)+`"]}`)
	declareQueue(t, c, 1, "orders")
	awaitCopies(t, c, "orders", "both copies", inSync(1))
	publishBodies(t, c, 1, "orders", 1, n, size)
	all := net.Carried(1, 2) + net.Carried(2, 1)
	if all < int64(n*size) {
		t.Fatalf("the links carried %d bytes for %d messages of %d", all, n, size)
	}
	c.StopNode(2)
	if got := takeReady(t, c, 1, "orders", taken); len(got) != taken {
		t.Fatalf("took %d", len(got))
	}
	publishBodies(t, c, 1, "orders", n+1, n+published, size)
	before := net.Carried(1, 2) + net.Carried(2, 1) + net.Carried(3, 2) + net.Carried(2, 3)
	c.StartNode(2)
	awaitCopies(t, c, "orders", "the mirror is back in sync", inSync(1))
	moved := net.Carried(1, 2) + net.Carried(2, 1) + net.Carried(3, 2) + net.Carried(2, 3) - before
	t.Logf("%d messages, %d bytes when they were published; the difference of %d published and %d consumed: %d bytes, %d of them messages",
		n, all, published, taken, moved, bytesSent(c, "orders"))
	if limit := int64(published*(size+100) + 1<<20); moved > limit {
		t.Errorf("the links carried %d bytes, more than %d", moved, limit)
	}
	if q := listAll(c, 1)["orders"]; q.messages != n-taken+published {
		t.Errorf("the queue holds %d messages", q.messages)
	}
}
