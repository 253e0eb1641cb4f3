//go:build soak

package integration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// B25, B26, B28, B29: a synchronisation goes on, ends or begins again through whatever happens meanwhile: a mirror dies and comes back, the
// master dies, a node is short of memory (it stands still, consumers do not, and it can be cancelled); the queue serves its clients
// all the time, what was copied is not copied again, and in the end the mirrors hold the queue.
func TestSyncIsDisturbed(t *testing.T) {
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
