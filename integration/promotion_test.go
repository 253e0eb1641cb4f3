package integration

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// tableMessages is how many messages each queue of the promotion table holds.
const tableMessages = 20

// promoteKeys are the policies of the table, by name.
var promoteKeys = []struct{ name, keys string }{
	{"plain", ``},
	{"synced", `,"ha-promote-on-failure":"when-synced"`},
	{"always", `,"ha-promote-on-shutdown":"always"`},
}

// listed is a queue as list_queues shows it.
type listed struct {
	master, state string
	messages      int
}

func listAll(c *cluster.Cluster, through int) map[string]listed {
	all := map[string]listed{}
	r := c.Tool("rabbitmqctl", through, "-q", "list_queues", "name", "pid", "state", "messages")
	for line := range strings.Lines(r.Stdout) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 4 || f[0] == "name" {
			continue
		}
		l := listed{state: f[2]}
		if n := nodesOf(f[1]); len(n) == 1 {
			l.master = n[0]
		}
		l.messages, _ = strconv.Atoi(f[3])
		all[f[0]] = l
	}
	return all
}

// table makes one queue for each row of the promotion table, its master on node 1: all mirrors synchronised, one of them, none.
func table(t *testing.T, c *cluster.Cluster, prefix string) {
	t.Helper()
	c.Ctl(1, "set_policy", prefix+"-two", "^"+prefix+"[.]some", `{"ha-mode":"exactly","ha-params":2}`)
	fillTable(t, c, prefix, "some", "none")
	for _, p := range promoteKeys {
		c.Ctl(1, "set_policy", prefix+"-"+p.name, "^"+prefix+"[.].*[.]"+p.name+"$", `{"ha-mode":"all"`+p.keys+`}`, "--priority", "5")
	}
	fillTable(t, c, prefix, "all")
	for kind, synced := range map[string]int{"all": 2, "some": 1, "none": 0} {
		for _, p := range promoteKeys {
			awaitCopies(t, c, prefix+"."+kind+"."+p.name, "its two mirrors", func(k copies) bool {
				return k.master == 1 && len(k.mirrors) == 2 && k.synced == synced
			})
		}
	}
}

func fillTable(t *testing.T, c *cluster.Cluster, prefix string, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		for _, p := range promoteKeys {
			name := prefix + "." + kind + "." + p.name
			declareQueue(t, c, 1, name)
			if confirmed, _ := publishTo(t, c, 1, name, tableMessages); confirmed != tableMessages {
				t.Fatalf("%s: %d confirmed", name, confirmed)
			}
		}
	}
}

// expectTable waits until every queue of the table is as it must be without node 1. lossy and down name the rows, of none
// synchronised, that go on with a loss and that wait.
func expectTable(t *testing.T, c *cluster.Cluster, prefix string, lossy, down []string) {
	t.Helper()
	want := map[string]string{}
	for _, p := range promoteKeys {
		want[prefix+".all."+p.name], want[prefix+".some."+p.name] = "running 20", "running 20"
	}
	for _, p := range lossy {
		want[prefix+".none."+p] = "running 0"
	}
	for _, p := range down {
		want[prefix+".none."+p] = "down 0"
	}
	wrong := ""
	defer func() {
		if wrong != "" {
			t.Log(wrong)
		}
	}()
	cluster.Eventually(t, hang, "the promotion table holds for "+prefix, func() bool {
		wrong = ""
		all := listAll(c, 2)
		for name, w := range want {
			q := all[name]
			if got := fmt.Sprintf("%s %d", q.state, q.messages); got != w || q.state == "running" && q.master == c.Name(1) {
				wrong += fmt.Sprintf("%s: %s on %s, want %s; ", name, got, q.master, w)
			}
		}
		return wrong == ""
	})
	for _, p := range lossy {
		if n := logged(c, "level=ERROR", "queue="+prefix+".none."+p+" ", "promoted without being synchronised", "messages_lost=20", "epoch=2"); n != 1 {
			t.Errorf("%s: the loss was logged %d times", p, n)
		}
	}
	for _, p := range lossy {
		name := prefix + ".none." + p
		if cols := queueColumns(c, 3, name, "messages_lost", "messages_lost_unknown"); len(cols) != 2 || cols[0] != "20" || cols[1] != "false" {
			t.Errorf("%s: list_queues says of the loss %q", name, cols)
		}
		if said := c.Ctl(2, "-q", "why", name); !strings.Contains(said, "20 messages were lost when a mirror was promoted that was not synchronised") {
			t.Errorf("%s: why says\n%s", name, said)
		}
	}
	for _, p := range down {
		if n := logged(c, "level=ERROR", "queue="+prefix+".none."+p+" ", "no mirror is fit for promotion"); n != 1 {
			t.Errorf("%s: that the queue is down was logged %d times", p, n)
		}
	}
}

// B62, B07: what each cell of the promotion table (metadata.md) says when the master's node is killed, and when it stops in good
// order; and what a queue that is down answers.
func TestPromotionTable(t *testing.T) {
	c := cluster.Start(t, 3)
	table(t, c, "kill")
	c.Kill(1)
	expectTable(t, c, "kill", []string{"plain", "always"}, []string{"synced"})
	downQueue(t, c, "kill.none.synced")
	c.StartNode(1)
	returned(t, c, "kill.none.synced")
	table(t, c, "stop")
	c.StopNode(1)
	expectTable(t, c, "stop", []string{"always"}, []string{"plain", "synced"})
	c.StartNode(1)
	returned(t, c, "stop.none.plain", "stop.none.synced")
}

// A queue that went down with its master's orderly stop: deleted, or promoted by an operator.
func TestPromotionOnShutdown(t *testing.T) {
	c := cluster.Start(t, 3)
	for _, name := range []string{"plain", "always", "deleted"} {
		declareQueue(t, c, 1, name)
		publishTo(t, c, 1, name, tableMessages)
	}
	c.Ctl(1, "set_policy", "ha", "^", `{"ha-mode":"all"}`)
	c.Ctl(1, "set_policy", "always", "^always", `{"ha-mode":"all","ha-promote-on-shutdown":"always"}`, "--priority", "1")
	for _, name := range []string{"plain", "always", "deleted"} {
		awaitCopies(t, c, name, "two mirrors that are not synchronised", func(k copies) bool { return len(k.mirrors) == 2 && k.synced == 0 })
	}
	// B31: what a mirror that came later lacks is said.
	for _, name := range []string{"plain", "always", "deleted"} {
		cluster.Eventually(t, hang, "ring says what its mirrors lack", func() bool {
			return strings.Count(c.Ctl(3, "-q", "ring", name), "NOT synchronised, lacks 20 messages") == 2
		})
	}
	c.StopNode(1)
	cluster.Eventually(t, hang, "one is promoted, the others wait", func() bool {
		all := listAll(c, 3)
		return all["plain"].state == "down" && all["deleted"].state == "down" && all["always"].state == "running"
	})
	// B07: nobody can know whether it is empty, but it can be deleted, and its old master does not bring it back.
	r := c.Tool("rabbitmqctl", 2, "delete_queue", "deleted", "--if-empty")
	if r.Code == 0 || !strings.Contains(r.Stderr, "cannot be known") {
		t.Errorf("delete_queue --if-empty of a queue that is down: exit %d, %q", r.Code, r.Stderr)
	}
	c.Ctl(2, "delete_queue", "deleted")
	// An operator takes what is there.
	if r = c.Tool("rabbitmqctl", 2, "-q", "promote", "plain"); r.Code == 0 || !strings.Contains(r.Stdout, "holds 0 messages and was NOT synchronised") {
		t.Errorf("promote without --yes: exit %d, %q", r.Code, r.Stdout)
	}
	c.Ctl(3, "promote", "plain", "--on", c.Name(3), "--yes")
	if n := logged(c, "level=ERROR", "queue=plain ", "promoted without being synchronised", "messages_lost=20"); n != 1 {
		t.Errorf("what the promotion cost was logged %d times", n)
	}
	if q := listAll(c, 2)["plain"]; q.master != c.Name(3) {
		t.Errorf("after the promotion of the copy on %s: %+v", c.Name(3), q)
	}
	c.StartNode(1)
	awaitCopies(t, c, "plain", "its old master is a mirror", func(k copies) bool { return k.master == 3 && len(k.mirrors) == 2 })
	if q, ok := listAll(c, 1)["deleted"]; ok {
		t.Errorf("a deleted queue is back: %+v", q)
	}
	salvage(t, c, 1, "plain")
	if n := logged(c, "level=WARN", "queue=plain", "set aside"); n == 0 {
		t.Error("that what the old master of a queue held was set aside was not logged")
	}
}

// downQueue checks what clients of a queue that is down are told, at once.
func downQueue(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	began := time.Now()
	if confirmed, nacked := publishTo(t, c, 2, name, 3); confirmed > 0 || nacked != 3 {
		t.Errorf("%s is down: %d confirmed, %d nacked", name, confirmed, nacked)
	}
	conn, _ := dialChannel(t, c, 3)
	defer conn.Close()
	want := fmt.Sprintf("NOT_FOUND - home node '%s' of durable queue '%s' in vhost '/' is down or inaccessible", c.Name(1), name)
	for what, ask := range map[string]func(*amqp.Channel) error{
		"declare": func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(name, true, false, false, false, nil)
			return err
		},
		"passive": func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			return err
		},
		"consume": func(ch *amqp.Channel) error {
			_, err := ch.Consume(name, "", false, false, false, false, nil)
			return err
		},
		"get": func(ch *amqp.Channel) error { _, _, err := ch.Get(name, false); return err },
	} {
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		var e *amqp.Error
		if err := ask(ch); !errors.As(err, &e) || e.Code != amqp.NotFound || e.Reason != want {
			t.Errorf("%s of a queue that is down: %v, want 404 %s", what, err, want)
		}
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	var e *amqp.Error
	if _, err := ch.QueueDelete(name, false, true, false); !errors.As(err, &e) || e.Code != amqp.PreconditionFailed {
		t.Errorf("delete if-empty of a queue that is down: %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the answers about a queue that is down took %v", took)
	}
}

// returned waits until queues run again on node 1 with all they had.
func returned(t *testing.T, c *cluster.Cluster, names ...string) {
	t.Helper()
	for _, name := range names {
		cluster.Eventually(t, hang, name+" goes on with its last master", func() bool {
			q := listAll(c, 2)[name]
			return q.state == "running" && q.messages == tableMessages && q.master == c.Name(1)
		})
	}
}

// B02: after a power failure the last master goes on wherever it comes in the order of return; where it stays away, one that was
// synchronised with it does after warren.recovery_wait. Nothing that was confirmed is lost.
func TestPowerFailureOrders(t *testing.T) { powerFailures(t, []int{2, 3}, []int{3, 1, 2}) }

// powerFailures kills all three nodes once for each order in which some or all of them then return.
func powerFailures(t *testing.T, orders ...[]int) {
	t.Helper()
	c := cluster.StartConfigured(t, 3, "warren.recovery_wait = 1s")
	c.Ctl(1, "set_policy", "ha", "^", `{"ha-mode":"all"}`)
	declareQueue(t, c, 1, "orders")
	want := 0
	for _, order := range orders {
		awaitCopiesAt(t, c, order[0], "orders", "all mirrors are synchronised", inSync(2))
		confirmed, _ := publishTo(t, c, order[0], "orders", 10)
		want += confirmed
		for i := 1; i <= c.Nodes; i++ {
			c.Kill(i)
		}
		c.StartNodes(order...)
		cluster.Eventually(t, hang, fmt.Sprintf("the queue is back with all its messages, order %v", order), func() bool {
			q := listAll(c, order[0])["orders"]
			return q.state == "running" && q.messages == want
		})
		for i := 1; i <= c.Nodes; i++ {
			if len(order) == 2 && i != order[0] && i != order[1] {
				c.StartNode(i)
			}
		}
		if n := logged(c, "promoted without being synchronised"); n > 0 {
			t.Fatalf("order %v: %d losses", order, n)
		}
		takeAll(t, c, order[0], "orders", want)
		want = 0
	}
}

// takeAll takes exactly n messages from a queue.
func takeAll(t *testing.T, c *cluster.Cluster, i int, queue string, n int) {
	t.Helper()
	conn, ch := dialChannel(t, c, i)
	defer conn.Close()
	for k := range n {
		d, ok, err := ch.Get(queue, false)
		if err != nil || !ok {
			t.Fatalf("get %d of %d from %s: %v, %v", k+1, n, queue, ok, err)
		}
		if err := d.Ack(false); err != nil {
			t.Fatal(err)
		}
	}
}
