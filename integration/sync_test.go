package integration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// takeReady takes all ready messages from a queue through node i, in order, and acknowledges the first ack of them.
func takeReady(t *testing.T, c *cluster.Cluster, i int, queue string, ack int) (bodies []string) {
	t.Helper()
	conn, ch := dialChannel(t, c, i)
	defer conn.Close()
	for {
		d, ok, err := ch.Get(queue, false)
		if err != nil {
			t.Fatal(err)
		}
		if !ok || len(bodies) == ack && ack > 0 {
			return bodies
		}
		bodies = append(bodies, string(d.Body))
		if ack == 0 || len(bodies) <= ack {
			if err := d.Ack(false); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// publishBodies publishes persistent messages and waits until all are confirmed.
func publishBodies(t *testing.T, c *cluster.Cluster, i int, queue string, first, last, size int) {
	t.Helper()
	conn, ch := dialChannel(t, c, i)
	defer conn.Close()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	var last1 *amqp.DeferredConfirmation
	for k := first; k <= last; k++ {
		body := fmt.Appendf(make([]byte, 0, size), "%06d", k)
		d, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body[:max(6, size)]})
		if err != nil {
			t.Fatal(err)
		}
		last1 = d
	}
	if ok, err := last1.WaitContext(t.Context()); err != nil || !ok {
		t.Fatalf("publishes to %s: confirmed %v, %v", queue, ok, err)
	}
}

// numbers are what a queue must hold, of bodies made by publishBodies.
func numbers(first, last int) (want []string) {
	for k := first; k <= last; k++ {
		want = append(want, fmt.Sprintf("%06d", k))
	}
	return want
}

func clipped(bodies []string) []string {
	for i := range bodies {
		bodies[i] = bodies[i][:min(6, len(bodies[i]))]
	}
	return bodies
}

// bytesSent is what the logs say that synchronisations of a queue have sent.
func bytesSent(c *cluster.Cluster, queue string) (sum int) {
	for i := 1; i <= c.Nodes; i++ {
		for line := range strings.Lines(c.Log(i)) {
			if _, detail, ok := strings.Cut(line, "detail=\""); ok && strings.Contains(line, "was sent what it lacked\"") && strings.Contains(line, "queue="+queue+" ") {
				n, _ := strconv.Atoi(strings.Fields(detail)[0])
				sum += n
			}
		}
	}
	return sum
}

// A mirror that was away for a while comes back by delta, in manual mode too: only the difference crosses the links, what was
// consumed in its absence is gone from it, and when it is promoted it holds exactly the queue. A mirror that has nothing is
// copied to when the policy says automatic, not before.
func TestDeltaAndCopy(t *testing.T) {
	c := cluster.Start(t, 3)
	policy := func(mode string) string {
		return fmt.Sprintf(`{"ha-mode":"nodes","ha-params":["%s","%s"],"ha-sync-mode":"%s"}`, c.Name(1), c.Name(2), mode)
	}
	c.Ctl(1, "set_policy", "pair", "^", policy("manual"))
	declareQueue(t, c, 1, "orders")
	declareQueue(t, c, 1, "late")
	awaitCopies(t, c, "orders", "both copies", inSync(1))
	publishBodies(t, c, 1, "orders", 1, 3000, 1000)
	c.Kill(2)
	awaitCopies(t, c, "orders", "the mirror is away", func(k copies) bool { return len(k.mirrors) == 0 })
	if got := takeReady(t, c, 1, "orders", 40); len(got) != 40 {
		t.Fatalf("took %d", len(got))
	}
	publishBodies(t, c, 1, "orders", 3001, 3050, 1000)
	publishBodies(t, c, 1, "late", 1, 200, 0)
	c.StartNode(2)
	awaitCopies(t, c, "orders", "the mirror is back in sync", inSync(1))
	if n := logged(c, "a mirror was sent what it lacked", "queue=orders", "messages_sent=50 "); n != 1 {
		t.Errorf("%d synchronisations sent the 50 messages of the mirror's absence:\n%s", n, c.Log(1))
	}
	if bytes := bytesSent(c, "orders"); bytes < 50*1000 || bytes > 50*1100 {
		t.Errorf("50 messages of 1000 bytes were sent as %d bytes", bytes)
	}
	k := awaitCopies(t, c, "late", "has its mirror", func(k copies) bool { return len(k.mirrors) == 1 })
	if k.synced == 0 && logged(c, "a mirror was sent what it lacked", "queue=late", "messages_sent=200 ") == 0 {
		c.Ctl(1, "set_policy", "pair", "^", policy("automatic"))
		awaitCopies(t, c, "late", "was copied", inSync(1))
	}
	c.Kill(1)
	awaitCopiesAt(t, c, 3, "orders", "the mirror is promoted", func(k copies) bool { return k.master == 2 })
	if got, want := clipped(takeReady(t, c, 2, "orders", 0)), numbers(41, 3050); !slices.Equal(got, want) {
		t.Errorf("the promoted mirror held %d messages, want %d: %v …", len(got), len(want), got[:min(5, len(got))])
	}
	if got, want := clipped(takeReady(t, c, 2, "late", 0)), numbers(1, 200); !slices.Equal(got, want) {
		t.Errorf("the copied mirror held %d messages, want %d", len(got), len(want))
	}
}

// sync_queue and cancel_sync_queue answer as recorded (reference/rabbitmqctl/09-sync-queue.txt); a synchronisation is seen,
// cancelled at once while a publisher and a consumer go on, keeps what was copied, and is finished by the next one.
func TestSyncByHand(t *testing.T) {
	c := cluster.StartConfigured(t, 3, "mirroring_sync_max_throughput = 1MB")
	declareQueue(t, c, 1, "orders")
	sync := "Synchronising queue '%s' in vhost '/' ...\n"
	stop := "Stopping synchronising queue '%s' in vhost '/' ...\n"
	want := func(verb, queue, stdout, stderr string, exit int) {
		t.Helper()
		r := c.Tool("rabbitmqctl", 2, verb, queue)
		if r.Stdout != fmt.Sprintf(stdout, queue) || r.Stderr != stderr || r.Code != exit {
			t.Errorf("%s %s: %q, %q, exit %d", verb, queue, r.Stdout, r.Stderr, r.Code)
		}
	}
	want("sync_queue", "orders", sync, "Error:\nnot_mirrored\n", 69)
	want("cancel_sync_queue", "orders", stop+"not_syncing\n", "", 0)
	want("sync_queue", "nosuch", sync, "Error:\nnot_found\n", 69)
	want("cancel_sync_queue", "nosuch", stop, "Error:\nnot_found\n", 69)

	publishBodies(t, c, 1, "orders", 1, 4000, 1000)
	c.Ctl(1, "set_policy", "ha", "^", `{"ha-mode":"all"}`)
	awaitCopies(t, c, "orders", "two mirrors, not in sync", func(k copies) bool { return len(k.mirrors) == 2 && k.synced == 0 })
	done := make(chan cluster.Result, 1)
	go func() { done <- c.Tool("rabbitmqctl", 3, "sync_queue", "orders") }()
	cluster.Eventually(t, hang, "the queue is seen to synchronise", func() bool {
		cols := queueColumns(c, 2, "orders", "state", "sync_messages_to_go", "sync_time_to_go")
		return len(cols) == 3 && strings.HasPrefix(cols[0], "{syncing, ") && cols[1] != "" && cols[2] != ""
	})
	clients := startClients(t, c, "orders")
	began := time.Now()
	want("cancel_sync_queue", "orders", stop, "", 0)
	if took := time.Since(began); took > time.Second {
		t.Errorf("cancelling took %v", took)
	}
	held := clients.end(t, 4000)
	if r := <-done; r.Code != 0 || r.Stderr != "" {
		t.Errorf("the cancelled sync_queue: %+v", r)
	}
	if k := copiesOf(c, 1, "orders"); k.synced != 0 {
		t.Errorf("after cancelling %d mirrors are in sync", k.synced)
	}
	want("cancel_sync_queue", "orders", stop+"not_syncing\n", "", 0)
	publishBodies(t, c, 1, "orders", 4051, 4060, 1000)
	want("sync_queue", "orders", sync, "", 0)
	if k := copiesOf(c, 1, "orders"); k.synced != 2 {
		t.Errorf("after sync_queue %d mirrors are in sync", k.synced)
	}
	want("sync_queue", "orders", sync, "", 0)
	if n := logged(c, "a mirror was sent what it lacked", "queue=orders", "messages_sent=4000 "); n != 0 {
		t.Error("what was copied before it was cancelled was sent again")
	}
	masterDiesInMidCopy(t, c, func() {
		k := copies{}
		awaitCopiesAt(t, c, 3, "orders", "a mirror is promoted", func(now copies) bool { k = now; return k.master > 1 })
		if got, want := clipped(takeReady(t, c, k.master, "orders", 0)), append(held, numbers(4051, 4060)...); !slices.Equal(got, want) {
			t.Errorf("the promoted mirror held %d messages, want %d", len(got), len(want))
		}
	})
}

// clients publish to a queue and take a message from it every few milliseconds, through two nodes.
type clients struct {
	*stream
	taken atomic.Int64
}

// startClients returns once both have begun.
func startClients(t *testing.T, c *cluster.Cluster, queue string) *clients {
	t.Helper()
	x := &clients{stream: startStream(c.URI(2), "", queue)}
	ch := channelOf(t, dial(t, c.URI(3)))
	x.done.Go(func() { x.fail(x.take(ch, queue)) })
	x.more(t)
	return x
}

// take takes messages, which must come in the order of their numbers, until the publisher is to stop.
func (x *clients) take(ch *amqp.Channel, queue string) error {
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-x.stop:
			return ch.Close() // answered when the acknowledgements have been taken
		case <-tick.C:
		}
		d, ok, err := ch.Get(queue, false)
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("%06d", x.taken.Load()+1); !ok || string(d.Body[:6]) != want {
			return fmt.Errorf("took %.6q (%v), want %s", d.Body, ok, want)
		}
		if err := d.Ack(false); err != nil {
			return err
		}
		x.taken.Add(1)
	}
}

// more waits until both got on.
func (x *clients) more(t *testing.T) {
	t.Helper()
	before := x.taken.Load()
	x.count(t, 30)
	cluster.Eventually(t, hang, "the consumer gets on", func() bool { return x.taken.Load() > before+5 })
}

// end waits until both got on, stops them, and returns what the queue holds now, of backlog messages before.
func (x *clients) end(t *testing.T, backlog int) (held []string) {
	t.Helper()
	x.more(t)
	x.stream.end(t)
	if x.longest > 3*time.Second {
		t.Errorf("no publish was confirmed for %v", x.longest)
	}
	held = numbers(int(x.taken.Load())+1, backlog)
	for n := range x.confirmed {
		held = append(held, strconv.Itoa(n+1))
	}
	return held
}

// With ha-sync-strategy blocking the queue stands still until the mirrors are synchronised, and then goes on where it was; so do dead
// letters on their way between two such queues.
func TestBlockingSync(t *testing.T) {
	c := cluster.StartConfigured(t, 3, "mirroring_sync_max_throughput = 1MB")
	declareQueue(t, c, 1, "orders")
	publishBodies(t, c, 1, "orders", 1, 1500, 1000)
	reject := rejectLater(t, c)
	c.Ctl(1, "set_policy", "ha", "^", `{"ha-mode":"all","ha-sync-mode":"automatic","ha-sync-strategy":"blocking"}`)
	reject()
	cluster.Eventually(t, hang, "the queue is seen to synchronise", func() bool {
		return strings.HasPrefix(strings.Join(queueColumns(c, 2, "orders", "state"), ""), "{syncing, ")
	})
	publishBodies(t, c, 2, "orders", 1501, 1502, 1000)
	if logged(c, "a mirror was sent what it lacked", "queue=orders") == 0 {
		t.Error("a publish was confirmed while the queue should stand still")
	}
	awaitCopies(t, c, "orders", "both mirrors are in sync", inSync(2))
	if got := takeReady(t, c, 3, "orders", 0); len(got) != 1502 {
		t.Errorf("%d messages", len(got))
	}
	awaitCopies(t, c, "dead", "its mirrors are in sync", inSync(2))
	cluster.Eventually(t, hang, "the letters have come", func() bool { return listAll(c, 2)["dead"].messages == 1050 })
	if got, want := clipped(takeReady(t, c, 3, "dead", 0)), append(numbers(1, 1000), numbers(1, 50)...); !slices.Equal(got, want) {
		t.Errorf("the dead letters' queue holds %d messages, want %d in order", len(got), len(want))
	}
	if got, want := clipped(takeReady(t, c, 3, "source", 0)), numbers(51, 60); !slices.Equal(got, want) {
		t.Errorf("their source holds %v, want %v", got, want)
	}
}

// rejectLater makes a queue whose rejected messages go to another one, and takes 50 of its 60; what it returns rejects them.
func rejectLater(t *testing.T, c *cluster.Cluster) (reject func()) {
	t.Helper()
	declareQueue(t, c, 1, "dead")
	publishBodies(t, c, 1, "dead", 1, 1000, 1000)
	conn, ch := dialChannel(t, c, 1)
	t.Cleanup(func() { _ = conn.Close() })
	declareWith(t, ch, "source", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
	publishBodies(t, c, 1, "source", 1, 60, 1000)
	var last amqp.Delivery
	for range 50 {
		d, ok, err := ch.Get("source", false)
		if err != nil || !ok {
			t.Fatalf("get: %v, %v", ok, err)
		}
		last = d
	}
	return func() {
		if err := last.Nack(true, false); err != nil {
			t.Fatal(err)
		}
	}
}
