package integration

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// copied is the policy of queues whose mirrors are copied to at once, and that wait rather than lose.
const copied = `{"ha-mode":"all","ha-sync-mode":"automatic","ha-promote-on-failure":"when-synced"}`

// syncingQueue makes a queue on node 1 that holds n messages of a kilobyte, and waits until its mirrors are being copied to.
func syncingQueue(t *testing.T, c *cluster.Cluster, queue string, n int) {
	t.Helper()
	c.Ctl(1, "set_policy", queue, "^"+queue+"$", `{"ha-mode":"exactly","ha-params":1}`, "--priority", "9")
	declareQueue(t, c, 1, queue)
	publishBodies(t, c, 1, queue, 1, n, 1000)
	c.Ctl(1, "set_policy", queue, "^"+queue+"$", copied, "--priority", "9")
	awaitSyncing(t, c, queue)
}

// awaitSyncing waits until something of a queue has been sent to its mirrors, and not all.
func awaitSyncing(t *testing.T, c *cluster.Cluster, queue string) {
	t.Helper()
	cluster.Eventually(t, hang, queue+" is being synchronised", func() bool { return syncSent(c, queue) > 0 })
}

// awaitCopying waits until each of both mirrors of a queue holds some of its n messages, and not all.
func awaitCopying(t *testing.T, c *cluster.Cluster, queue string, n int) {
	t.Helper()
	cluster.Eventually(t, hang, "both mirrors of "+queue+" have begun to hold it", func() bool {
		ring := c.Ctl(2, "-q", "ring", queue)
		return strings.Count(ring, "NOT synchronised, lacks ") == 2 && !strings.Contains(ring, fmt.Sprintf("lacks %d messages", n))
	})
}

// syncSent is how many bytes a synchronisation that is under way has sent; 0: there is none.
func syncSent(c *cluster.Cluster, queue string) int {
	cols := queueColumns(c, 2, queue, "state", "sync_bytes")
	if len(cols) != 2 || !strings.HasPrefix(cols[0], "{syncing, ") {
		return 0
	}
	n, _ := strconv.Atoi(cols[1])
	return n
}

// atOnce runs a command that must be answered within a second.
func atOnce(t *testing.T, c *cluster.Cluster, args ...string) {
	t.Helper()
	began := time.Now()
	c.Ctl(2, args...)
	if took := time.Since(began); took > time.Second {
		t.Errorf("%v took %v", args, took)
	}
}

// sentWhole counts the log lines by which a mirror was sent at least n messages of a queue at once.
func sentWhole(c *cluster.Cluster, queue string, n int) (whole int) {
	for i := 1; i <= c.Nodes; i++ {
		for line := range strings.Lines(c.Log(i)) {
			_, sent, ok := strings.Cut(line, "messages_sent=")
			if !ok || !strings.Contains(line, "queue="+queue+" ") || !strings.Contains(line, "was sent what it lacked") {
				continue
			}
			if k, err := strconv.Atoi(strings.Fields(sent)[0]); err == nil && k >= n {
				whole++
			}
		}
	}
	return whole
}

// B25, B26, B28, B29: a synchronisation goes on, ends or begins again through whatever happens meanwhile: a mirror dies and comes back, the
// master dies, a node is short of memory (it stands still, consumers do not, and it can be cancelled); the queue serves its clients
// all the time, what was copied is not copied again, and in the end the mirrors hold the queue.
func TestSyncIsDisturbed(t *testing.T) {
	if os.Getenv("LONG") == "" {
		t.Skip("LONG is not set; TestSyncByHand has the death of the master and a deletion")
	}
	c := cluster.StartConfigured(t, 3, "mirroring_sync_max_throughput = 1MB")
	conn, ch := dialChannel(t, c, 1)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	declareWith(t, ch, "prio", amqp.Table{"x-max-priority": int32(3)})
	for k := 1; k <= 300; k++ {
		body, priority := priorityBody(k)
		put(t, ch, "", "prio", amqp.Publishing{Body: []byte(body), Priority: priority})
	}
	_ = conn.Close()
	c.Ctl(1, "set_policy", "prio", "^prio$", copied)
	syncingQueue(t, c, "orders", 6000)
	c.Kill(3) // a mirror, in the middle
	began := time.Now()
	publishBodies(t, c, 2, "orders", 6001, 6050, 1000)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("publishing after the death of a mirror took %v", took)
	}
	if syncSent(c, "orders") == 0 {
		t.Error("the other mirror is not copied to any more")
	}
	c.StartNode(3) // joins in the middle
	awaitCopies(t, c, "orders", "its mirrors are back", func(k copies) bool { return len(k.mirrors) == 2 })
	awaitSyncing(t, c, "orders")
	c.Kill(1)
	cluster.Eventually(t, hang, "it waits for its master", func() bool { return listAll(c, 2)["orders"].state == "down" })
	c.StartNode(1)
	awaitCopies(t, c, "orders", "its mirrors are in sync", inSync(2))
	if n := sentWhole(c, "orders", 6000); n > 0 {
		t.Errorf("%d times a mirror was sent what it had been sent before", n)
	}
	syncingQueue(t, c, "tight", 6000)
	c.StopNode(3)
	c.Configure(3, "mirroring_sync_max_throughput = 1MB\nvm_memory_high_watermark.absolute = 1MB")
	c.StartNode(3)
	cluster.Eventually(t, hang, "the alarm is known", func() bool { return strings.Contains(c.Ctl(1, "cluster_status"), "Memory alarm on node "+c.Name(3)) })
	cluster.Eventually(t, hang, "the synchronisation stands still", func() bool {
		before, at := syncSent(c, "tight"), time.Now()
		cluster.Eventually(t, hang, "two seconds have passed", func() bool { return time.Since(at) > 2*time.Second })
		return syncSent(c, "tight") == before
	})
	if got := takeReady(t, c, 2, "tight", 10); len(got) != 10 {
		t.Errorf("during the alarm %d of 10 messages were delivered", len(got))
	}
	atOnce(t, c, "cancel_sync_queue", "tight")
	c.StopNode(3)
	c.Configure(3, "mirroring_sync_max_throughput = 1MB")
	c.StartNode(3)
	c.Ctl(2, "sync_queue", "tight")
	awaitCopies(t, c, "tight", "its mirrors are in sync", inSync(2))
	want := priorityOrder(300)
	midCopy(t, c)
	c.Kill(1)
	promotedInMidCopy(t, c)
	for queue, want := range map[string][]string{"orders": numbers(1, 6050), "tight": numbers(11, 6000), "prio": want} {
		awaitCopiesAt(t, c, 2, queue, "a mirror is promoted", func(k copies) bool { return k.master > 1 })
		if got := clipped(takeReady(t, c, 2, queue, 0)); !slices.Equal(got, want) {
			t.Errorf("%s holds %d messages, want %d", queue, len(got), len(want))
		}
	}
}

// midCopy makes a priority queue that holds 4000 messages, of which every tenth expires, and has its mirrors copied to; an
// unsynchronised one may be promoted.
func midCopy(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	c.Ctl(1, "set_policy", "mid", "^mid$", `{"ha-mode":"exactly","ha-params":1}`, "--priority", "9")
	conn, ch := dialChannel(t, c, 1)
	defer conn.Close()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	declareWith(t, ch, "mid", amqp.Table{"x-max-priority": int32(3)})
	var all []amqp.Publishing
	for k := 1; k <= 4000; k++ {
		body, priority := priorityBody(k)
		m := amqp.Publishing{Body: append([]byte(body), make([]byte, 994)...), Priority: priority}
		if k%10 == 0 {
			m.Expiration = "500"
		}
		all = append(all, m)
	}
	put(t, ch, "", "mid", all...)
	published := time.Now()
	c.Ctl(1, "set_policy", "mid", "^mid$", `{"ha-mode":"all","ha-sync-mode":"automatic"}`, "--priority", "9")
	awaitSyncing(t, c, "mid")
	cluster.Eventually(t, hang, "what expires has expired", func() bool { return time.Since(published) > time.Second })
	if syncSent(c, "mid") == 0 {
		t.Error("mid is not being synchronised any more")
	}
}

// promotedInMidCopy: what a mirror of midCopy's queue had when it was promoted leaves it by priority and in order, nothing that has
// expired is delivered, and the loss is known.
func promotedInMidCopy(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	awaitCopiesAt(t, c, 2, "mid", "a mirror is promoted", func(k copies) bool { return k.master > 1 })
	cols := queueColumns(c, 2, "mid", "messages_lost")
	got := clipped(takeReady(t, c, 2, "mid", 0))
	order := priorityOrder(4000)
	at := 0
	for _, body := range got {
		if body[5] == '0' {
			t.Fatalf("%s has expired", body)
		}
		i := slices.Index(order[at:], body)
		if i < 0 {
			t.Fatalf("%s came out of its order", body)
		}
		at += i + 1
	}
	if lost, err := strconv.Atoi(strings.Join(cols, "")); len(got) == 0 || err != nil || lost == 0 || len(got)+lost > 4000 {
		t.Errorf("%d messages were copied, %q are lost: %v", len(got), cols, err)
	}
}

// masterDiesInMidCopy: the master of a queue dies while its mirrors are copied to, having deleted another one in the same state at once:
// the queue waits for it, and is in sync soon after.
func masterDiesInMidCopy(t *testing.T, c *cluster.Cluster, then func()) {
	t.Helper()
	syncingQueue(t, c, "gone", 4000)
	syncingQueue(t, c, "late", 4000)
	awaitCopying(t, c, "late", 4000)
	atOnce(t, c, "delete_queue", "gone")
	c.Kill(1)
	cluster.Eventually(t, hang, "late waits for its master", func() bool { return listAll(c, 2)["late"].state == "down" })
	then()
	c.Configure(1, "") // the rest may be fast
	c.StartNode(1)
	awaitCopies(t, c, "late", "its mirrors are in sync", inSync(2))
	if n := sentWhole(c, "late", 4000); n > 0 {
		t.Errorf("%d times a mirror was sent what it had been sent before", n)
	}
	if all := listAll(c, 2); all["late"].messages != 4000 || all["gone"] != (listed{}) {
		t.Errorf("after the return of the master: %+v", all)
	}
}

// priorityBody is the number of a message and its priority, above the queue's highest, too.
func priorityBody(k int) (body string, priority uint8) {
	priority = uint8(k * 7 % 11)
	return fmt.Sprintf("%06d", k), priority
}

// priorityOrder is the order in which such messages leave a queue whose highest priority is 3.
func priorityOrder(n int) (want []string) {
	for p := 3; p >= 0; p-- {
		for k := 1; k <= n; k++ {
			if body, priority := priorityBody(k); min(int(priority), 3) == p {
				want = append(want, body)
			}
		}
	}
	return want
}
