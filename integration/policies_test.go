package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// copiesOf are the numbers of the nodes of a queue's master and of its mirrors, the synchronised ones apart.
type copies struct {
	master  int
	mirrors []int // sorted
	synced  int
}

func copiesOf(c *cluster.Cluster, through int, queue string) (k copies) {
	cols := queueColumns(c, through, queue, "pid", "slave_pids", "synchronised_slave_pids")
	if cols == nil {
		return k
	}
	for _, n := range nodesOf(cols[0]) {
		k.master = c.Index(n)
	}
	for _, n := range nodesOf(cols[1]) {
		k.mirrors = append(k.mirrors, c.Index(n))
	}
	slices.Sort(k.mirrors)
	k.synced = len(nodesOf(cols[2]))
	return k
}

func awaitCopies(t *testing.T, c *cluster.Cluster, queue, what string, cond func(copies) bool) copies {
	t.Helper()
	var k copies
	cluster.Eventually(t, hang, queue+": "+what, func() bool {
		k = copiesOf(c, 1, queue)
		return k.master > 0 && cond(k)
	})
	return k
}

func inSync(mirrors int) func(copies) bool {
	return func(k copies) bool { return len(k.mirrors) == mirrors && k.synced == mirrors }
}

// A queue's policy changes while it is published to and consumed from: nothing is lost, nobody is disconnected.
func TestPolicyChangesUnderLoad(t *testing.T) {
	c := cluster.Start(t, 3)
	declareQueue(t, c, 1, "orders")
	s := startStream(c.URI(1), c.URI(2), "orders")
	s.count(t, 200)
	set := func(definition string, extra ...string) {
		t.Helper()
		c.Ctl(2, append([]string{"set_policy", "ha", "^orders", definition}, extra...)...)
	}
	set(`{"ha-mode":"all"}`)
	awaitCopies(t, c, "orders", "two synchronised mirrors", inSync(2))
	s.count(t, 200)
	set(`{"ha-mode":"exactly","ha-params":2}`)
	awaitCopies(t, c, "orders", "one mirror", inSync(1))
	set(fmt.Sprintf(`{"ha-mode":"nodes","ha-params":[%q,%q]}`, c.Name(3), c.Name(2)))
	awaitCopies(t, c, "orders", "the master moves to a listed node, and the one that is not listed loses its copy", func(k copies) bool {
		return k.master != 1 && len(k.mirrors) == 1 && k.mirrors[0] != 1 && k.synced == 1
	})
	s.count(t, 200)
	c.Ctl(1, "clear_policy", "ha")
	k := awaitCopies(t, c, "orders", "no mirror", inSync(0))
	s.count(t, 200)
	set(`{"ha-mode":"all"}`)
	awaitCopies(t, c, "orders", "two synchronised mirrors again", inSync(2))
	to := others(c, k.master)[0]
	c.Ctl(1, "transfer", "orders", c.Name(to))
	if now := copiesOf(c, 1, "orders"); now.master != to || len(now.mirrors) != 2 {
		t.Errorf("after the transfer to node %d: %+v", to, now)
	}
	s.count(t, 200)
	s.end(t)
}

// dialChannel opens a connection to node i with one channel.
func dialChannel(t *testing.T, c *cluster.Cluster, i int) (*amqp.Connection, *amqp.Channel) {
	t.Helper()
	conn, err := amqp.Dial(c.URI(i))
	if err != nil {
		t.Fatalf("dial %s: %v", c.Name(i), err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatalf("open a channel on %s: %v", c.Name(i), err)
	}
	return conn, ch
}

// Which policy applies to a queue, and to where it places it. All on one cluster, since none of it needs a failure.
func TestWhichPolicyApplies(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, "set_policy", "low", "^p[.]", `{"ha-mode":"all"}`, "--priority", "1")
	c.Ctl(1, "set_policy", "high", "^p[.]two", `{"ha-mode":"exactly","ha-params":2}`, "--priority", "2")
	c.Ctl(1, "set_policy", "exchanges", "^p[.]two", `{"alternate-exchange":"x"}`, "--priority", "9", "--apply-to", "exchanges")
	c.Ctl(1, "set_policy", "look", "^(?!amq[.]|p[.]|own).*", `{"ha-mode":"nodes","ha-params":["`+c.Name(3)+`"]}`)
	c.Ctl(1, "set_policy", "own", "^own", `{"ha-mode":"all"}`)
	for _, tc := range []struct {
		queue, policy   string
		declaredOn      int
		master, mirrors int
	}{
		{"p.all", "low", 1, 1, 2},
		{"p.two", "high", 2, 2, 1},
		{"else", "look", 1, 3, 0}, // placed on the listed node, though the client is elsewhere
		{"amq2", "look", 2, 3, 0},
	} {
		declareQueue(t, c, tc.declaredOn, tc.queue)
		k := awaitCopies(t, c, tc.queue, "placed", inSync(tc.mirrors))
		if cols := queueColumns(c, 2, tc.queue, "policy"); k.master != tc.master || cols == nil || cols[0] != tc.policy {
			t.Errorf("%s: %+v under policy %v, want %+v", tc.queue, k, cols, tc)
		}
	}
	conn, ch := dialChannel(t, c, 2)
	defer conn.Close()
	if _, err := ch.QueueDeclare("own.exclusive", false, false, true, false, nil); err != nil {
		t.Fatal(err)
	}
	if cols := queueColumns(c, 1, "own.exclusive", "slave_pids"); cols == nil || cols[0] != "" {
		t.Errorf("an exclusive queue lists mirrors: %v", cols)
	}
	operatorAndLocator(t, c, ch)
}

// operatorAndLocator goes on with the cluster of TestWhichPolicyApplies.
func operatorAndLocator(t *testing.T, c *cluster.Cluster, ch *amqp.Channel) {
	t.Helper()
	c.Ctl(1, "set_operator_policy", "op", "^op", `{"ha-mode":"exactly","ha-params":2}`, "--apply-to", "queues")
	if r := c.Ctl(2, "-q", "list_operator_policies"); !strings.Contains(r, "op\t^op\tqueues") {
		t.Errorf("list_operator_policies: %q", r)
	}
	for _, name := range []string{"op.one", "op.user"} {
		declareQueue(t, c, 1, name)
		awaitCopies(t, c, name, "the operator's two copies", inSync(1))
	}
	c.Ctl(1, "set_policy", "tie", "^op", `{"max-length":9}`)
	if n := logged(c, "level=WARN", "equal priority", "[look tie]"); n != 1 {
		t.Errorf("two policies that tie were logged %d times", n)
	}
	c.Ctl(1, "clear_policy", "tie")
	c.Ctl(1, "set_policy", "user", "^op[.]user", `{"ha-mode":"all"}`, "--priority", "7")
	awaitCopies(t, c, "op.user", "all mirrors more than exactly, whoever said it", inSync(2))
	c.Ctl(1, "clear_policy", "user")
	c.Ctl(1, "clear_operator_policy", "op")
	awaitCopies(t, c, "op.user", "no mirror", inSync(0))

	masters := map[int]int{}
	for n := range 6 {
		name := fmt.Sprintf("m%d", n)
		args := amqp.Table{"x-queue-master-locator": "min-masters"}
		c.Ctl(1, "set_policy", "spread", "^m", `{"queue-master-locator":"client-local"}`, "--priority", "5")
		if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
			t.Fatal(err)
		}
		masters[copiesOf(c, 1, name).master]++
	}
	if masters[1] < 3 { // it had one master, the others two and four
		t.Errorf("min-masters put six queues on %v; the argument wins over the policy", masters)
	}
	configuredLocator(t, c)
	secondVhost(t, c)
}

// configuredLocator: the configuration of the node that a client is on says where masters go when neither an argument nor a policy
// does.
func configuredLocator(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.Ctl(1, "set_policy", "here", "^p[.]here", `{"ha-mode":"all","queue-master-locator":"client-local"}`, "--priority", "5")
	c.StopNode(3)
	c.Configure(3, "queue_master_locator = min-masters")
	c.StartNode(3)
	conn, ch := dialChannel(t, c, 3)
	defer conn.Close()
	for _, name := range []string{"m10", "m11", "m12", "m13", "m14", "m15", "m16", "m17"} { // so that node 3 has the most masters
		declareWith(t, ch, name, amqp.Table{"x-queue-master-locator": "client-local"})
	}
	declareWith(t, ch, "p.there", nil)
	if k := copiesOf(c, 1, "p.there"); k.master == 3 {
		t.Error("queue_master_locator = min-masters put a queue on the node with the most masters")
	}
	declareWith(t, ch, "p.here", nil)
	if k := copiesOf(c, 1, "p.here"); k.master != 3 {
		t.Errorf("queue-master-locator of a policy: the master is on node %d", k.master)
	}
}

// secondVhost: the policies of a virtual host are about its own queues.
func secondVhost(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.Ctl(1, "add_vhost", "v2")
	c.Ctl(1, "set_permissions", "-p", "v2", "guest", ".*", ".*", ".*")
	c.Ctl(1, "set_policy", "-p", "v2", "pair", "^p[.]", `{"ha-mode":"exactly","ha-params":2}`)
	ch := channelOf(t, dial(t, c.URI(2)+"v2"))
	declareWith(t, ch, "p.all", nil)
	declareWith(t, ch, "own", nil)
	listed := func() string {
		return c.Ctl(1, "-q", "list_queues", "-p", "v2", "name", "policy", "synchronised_slave_pids")
	}
	mirrors := func(text, queue string) int {
		for line := range strings.Lines(text) {
			if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); f[0] == queue && len(f) == 3 {
				return len(nodesOf(f[2]))
			}
		}
		return -1
	}
	all := listed()
	if !strings.Contains(all, "p.all\tpair\t") || mirrors(all, "p.all") != 1 || mirrors(all, "own") != 0 {
		t.Errorf("queues of the second virtual host:\n%s", all)
	}
	c.Ctl(1, "set_policy", "-p", "v2", "pair", "^p[.]", `{"ha-mode":"all"}`)
	cluster.Eventually(t, hang, "the change reaches the second virtual host", func() bool { return mirrors(listed(), "p.all") == 2 })
	if k := copiesOf(c, 1, "p.two"); len(k.mirrors) != 1 {
		t.Errorf("a policy of another virtual host gave a queue %+v", k)
	}
	c.Ctl(1, "clear_policy", "-p", "v2", "pair")
	cluster.Eventually(t, hang, "and so does its end", func() bool { return mirrors(listed(), "p.all") == 0 })
}
