//go:build soak

package integration

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// memoryLimit is the limit of the nodes in these tests.
const memoryLimit = 160 << 20

// watched looks at the memory of all nodes until its end.
type watched struct {
	before, peak map[int]int // bytes, by node; to be read after the end
	stop         chan struct{}
	done         sync.WaitGroup
	once         sync.Once
}

func watchMemory(t *testing.T, c *cluster.Cluster) *watched {
	t.Helper()
	w := &watched{before: map[int]int{}, peak: map[int]int{}, stop: make(chan struct{})}
	for i := 1; i <= c.Nodes; i++ {
		w.before[i] = c.ResidentMemory(i)
	}
	w.done.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			for i := 1; i <= c.Nodes; i++ {
				w.peak[i] = max(w.peak[i], c.ResidentMemory(i))
			}
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
		}
	})
	t.Cleanup(w.end)
	return w
}

func (w *watched) end() {
	w.once.Do(func() { close(w.stop) })
	w.done.Wait()
}

// B26: mirrors to which more is copied than their nodes may have in memory get everything, and stay within that limit.
func TestMemoryOfSyncingMirrors(t *testing.T) {
	const messages, size = 32_768, 8 << 10
	c := cluster.StartConfigured(t, 3, "vm_memory_high_watermark.absolute = "+strconv.Itoa(memoryLimit))
	declareQueue(t, c, 1, "orders")
	publishBodies(t, c, 1, "orders", 1, messages, size)
	w := watchMemory(t, c)
	c.Ctl(1, "set_policy", "ha", "^", `{"ha-mode":"all","ha-sync-mode":"automatic"}`)
	cluster.Eventually(t, 3*hang, "both mirrors are in sync", func() bool { k := copiesOf(c, 1, "orders"); return inSync(2)(k) })
	w.end()
	for i := 2; i <= 3; i++ {
		t.Logf("node %d had %d MB before %d MB were copied to it, and %d MB at most", i, w.before[i]>>20, messages*size>>20, w.peak[i]>>20)
		if w.peak[i] > memoryLimit {
			t.Errorf("node %d has outgrown its limit", i)
		}
	}
}

// B55: publishers without confirms publish to a full mirrored queue that refuses, for three quarters of a minute: no node grows.
func TestMemoryOfRefusedPublishes(t *testing.T) {
	const size, lasting = 10 << 10, 45 * time.Second
	c := cluster.StartConfigured(t, 3, "vm_memory_high_watermark.absolute = "+strconv.Itoa(memoryLimit))
	c.Ctl(1, "set_policy", "ha", "^", `{"ha-mode":"all","max-length-bytes":10000000,"overflow":"reject-publish"}`)
	declareQueue(t, c, 1, "full")
	awaitCopies(t, c, "full", "its mirrors are in sync", inSync(2))
	var sent atomic.Int64
	var flood sync.WaitGroup
	end := time.Now().Add(lasting)
	for i := 1; i <= 2; i++ {
		ch := channelOf(t, dial(t, c.URI(i)))
		flood.Go(func() {
			body := make([]byte, size)
			for time.Now().Before(end) {
				if err := ch.Publish("", "full", false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}); err != nil {
					t.Errorf("publish: %v", err)
					return
				}
				sent.Add(1)
			}
		})
	}
	early := watchMemory(t, c)
	cluster.Eventually(t, hang, "half the time has passed", func() bool { return time.Until(end) < lasting/2 })
	late := watchMemory(t, c)
	early.end()
	flood.Wait()
	late.end()
	t.Logf("%d messages of %d bytes were published", sent.Load(), size)
	for i := 1; i <= c.Nodes; i++ {
		t.Logf("node %d had %d MB at most in the first half, %d MB in the second", i, early.peak[i]>>20, late.peak[i]>>20)
		if late.peak[i] > early.peak[i]+48<<20 || late.peak[i] > memoryLimit {
			t.Errorf("node %d grew", i)
		}
	}
	if n := listAll(c, 1)["full"].messages; n == 0 || n > 10_000_000/size+2 {
		t.Errorf("the queue holds %d messages", n)
	}
}

// B56: a long queue is dead-lettered at once, by a limit of its length, into a mirrored queue: it ends, every message is there once, and its master and its
// mirror take at most three times the memory that they take when as many are published: a letter tells its deaths.
// MESSAGES sets another number than a million.
func TestMemoryOfMassDeadLettering(t *testing.T) {
	n := int(number(t, "MESSAGES", 1_000_000))
	c := cluster.Start(t, 3)
	c.Ctl(1, "set_policy", "ha", "^(dead|plain)$", `{"ha-mode":"all"}`)
	declareQueue(t, c, 2, "plain")
	awaitCopies(t, c, "plain", "its mirrors are in sync", inSync(2))
	published := watchMemory(t, c)
	publishBodies(t, c, 1, "plain", 1, n, 100)
	published.end()
	c.Ctl(1, "delete_queue", "plain")
	declareQueue(t, c, 2, "dead")
	awaitCopies(t, c, "dead", "its mirrors are in sync", inSync(2))
	declareWith(t, channelOf(t, dial(t, c.URI(1))), "source", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
	publishBodies(t, c, 1, "source", 1, n, 100)
	w := watchMemory(t, c)
	began := time.Now()
	c.Ctl(1, "set_policy", "none", "^source$", `{"max-length":0}`)
	cluster.Eventually(t, 10*hang, "all has been dead-lettered", func() bool {
		all := listAll(c, 1)
		return all["source"].messages == 0 && all["dead"].messages >= n
	})
	t.Logf("%d messages in %v", n, time.Since(began).Round(time.Millisecond))
	w.end()
	for i := 2; i <= 3; i++ {
		t.Logf("node %d had %d MB at most when as many were published, %d MB when they were dead-lettered", i, published.peak[i]>>20, w.peak[i]>>20)
		// A letter is larger than its message by the headers that tell of its death.
		if w.peak[i] > 4*published.peak[i]+64<<20 {
			t.Errorf("node %d grew", i)
		}
	}
	takeNumbered(t, c, "dead", n)
}

// takeNumbered consumes a queue to its end: every number from 1 to n once.
func takeNumbered(t *testing.T, c *cluster.Cluster, queue string, n int) {
	t.Helper()
	deliveries, err := channelOf(t, dial(t, c.URI(3))).Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := make([]bool, n+1)
	for range n {
		d := next(t, deliveries, "a message of "+queue)
		k, err := strconv.Atoi(string(d.Body[:6]))
		if len(d.Body) > 6 && d.Body[6] >= '0' && d.Body[6] <= '9' {
			k, err = strconv.Atoi(string(d.Body[:7]))
		}
		if err != nil || k < 1 || k > n || seen[k] {
			t.Fatalf("%.8q came, again or out of range: %v", d.Body, err)
		}
		seen[k] = true
	}
	if q := listAll(c, 1)[queue]; q.messages != 0 {
		t.Errorf("%s holds %d messages more", queue, q.messages)
	}
}

// B46: a mirror whose link takes 1 MB/s for a while, under more than that: publishers are held to it, and get on at full speed as
// soon as it is fast again; nothing is lost, and nobody is left in flow.
func TestSlowMirror(t *testing.T) {
	const slow, size, window = 20 * time.Second, 4 << 10, 500
	c, net := cluster.StartCut(t, 3, "")
	c.Ctl(1, "set_policy", "ha", "^", `{"ha-mode":"all","ha-mirror-timeout":60000}`)
	declareQueue(t, c, 1, "orders")
	awaitCopies(t, c, "orders", "its mirrors are in sync", inSync(2))
	var confirmed atomic.Int64
	stop := make(chan struct{})
	var flood sync.WaitGroup
	ch := channelOf(t, dial(t, c.URI(1)))
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	flood.Go(func() {
		var waiting []*amqp.DeferredConfirmation
		for n, body := 0, make([]byte, size); ; n++ {
			d, err := ch.PublishWithDeferredConfirm("", "orders", false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
			if err != nil {
				t.Errorf("publish: %v", err)
				return
			}
			if waiting = append(waiting, d); len(waiting) == window {
				awaitConfirm(t, waiting[0])
				confirmed.Add(1)
				waiting = waiting[1:]
			}
			select {
			case <-stop:
				awaitConfirm(t, d)
				confirmed.Add(window - 1)
				return
			default:
			}
		}
	})
	rate := func(d time.Duration) int {
		n, began := confirmed.Load(), time.Now()
		cluster.Eventually(t, 2*hang, "the time has passed", func() bool { return time.Since(began) >= d })
		return int(float64(confirmed.Load()-n) / time.Since(began).Seconds())
	}
	before := rate(3 * time.Second)
	for i := 1; i <= 2; i++ {
		net.Slow(i, 3, 1_000_000)
	}
	during := rate(slow)
	net.Heal()
	began := time.Now()
	n := confirmed.Load()
	cluster.Eventually(t, hang, "publishing goes on", func() bool { return confirmed.Load() > n+4*window })
	resumed := time.Since(began)
	after := rate(3 * time.Second)
	close(stop)
	flood.Wait()
	t.Logf("confirmed per second: %d before, %d while a mirror took 1 MB/s, %d after; %v until it went on", before, during, after, resumed)
	if during > 2_000_000/size || resumed > 10*time.Second || after < before/3 {
		t.Errorf("the mirror was not slow, or publishing did not go on at once")
	}
	if states := c.Ctl(1, "-q", "list_connections", "state"); strings.Contains(states, "flow") {
		t.Errorf("a connection is left in flow:\n%s", states)
	}
	awaitCopies(t, c, "orders", "its mirrors are in sync", inSync(2))
	if q := listAll(c, 2)["orders"]; int64(q.messages) < confirmed.Load() {
		t.Errorf("%d were confirmed, %d are there", confirmed.Load(), q.messages)
	}
}
