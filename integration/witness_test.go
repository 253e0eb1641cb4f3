package integration

import (
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// TestWitness: two nodes with queues and a third that only votes. One of the two dies under load: the other goes on at once, which
// two nodes by themselves could not. The witness never has a copy and no client.
func TestWitness(t *testing.T) {
	c := cluster.Prepare(t, 3)
	c.Configure(3, "warren.witness = true")
	c.StartNodes(3, 1, 2)
	allAgree(t, c, 1, 2, 3)
	for i := 1; i <= c.Nodes; i++ {
		s := statusOf(c, i)
		if !slices.Equal(s.Disk, []string{c.Name(1), c.Name(2)}) || !slices.Equal(s.Witnesses, []string{c.Name(3)}) {
			t.Errorf("%s: nodes %q, witnesses %q", c.Name(i), s.Disk, s.Witnesses)
		}
	}
	c.Ctl(3, mirrorAll...)
	c.Ctl(1, "set_policy", "listed", "^listed", `{"ha-mode":"nodes","ha-params":["`+c.Name(1)+`","`+c.Name(3)+`"]}`, "--priority", "1")
	declareQueue(t, c, 1, "orders")
	declareQueue(t, c, 1, "listed")
	mirrorsListed(t, c, 3, "orders", 1)
	if conn, err := amqp.Dial(c.URI(3)); err == nil {
		conn.Close()
		t.Error("the witness serves clients")
	}
	if !strings.Contains(c.Log(3), "this node is a witness: it votes, carries no queues, and serves no clients") {
		t.Error("the witness does not say why it serves no clients")
	}

	l := startLoadOnFirst(c, 2, "orders", failoverMessages)
	l.reach(t, failoverMessages/6)
	c.Kill(1)
	l.underWay(t, 1)
	confirmed := l.finish(t, failoverMessages, 1)
	declareQueue(t, c, 2, "made.without")
	c.StartNode(1)
	mirrorsListed(t, c, 3, "orders", 1)
	for _, queue := range []string{"orders", "listed", "made.without"} {
		if cols := queueColumns(c, 1, queue, "pid", "slave_pids"); cols == nil || strings.Contains(strings.Join(cols, " "), c.Name(3)) {
			t.Errorf("%s: %v", queue, cols)
		}
	}
	drainAll(t, c, 1, "orders", confirmed)
	c.Kill(3)
	declareQueue(t, c, 1, "made.by.two")
	c.StartNode(3)
	allAgree(t, c, 1, 2, 3)

	// A node that has copies does not become a witness.
	c.StopNode(1)
	c.Configure(1, "warren.witness = true")
	endsWith(t, c, 1, "so it cannot become a witness")
	drainAll(t, c, 2, "made.by.two", nil)
}
