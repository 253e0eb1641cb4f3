package integration

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// TestDiskAlarmBlocksPublishersEverywhere has one node short of disk space: publishers of another node are told so and
// held, consumers go on, and all is well once the alarm is over.
func TestDiskAlarmBlocksPublishersEverywhere(t *testing.T) {
	c := cluster.Start(t, 3)
	declareQueue(t, c, 1, "orders")
	p := newPublisher("p1")
	if p.run(c.URI(1), "orders", 100); p.err != nil {
		t.Fatal(p.err)
	}
	c.StopNode(3)
	c.Configure(3, "disk_free_limit.absolute = 4000000000000000")
	c.StartNode(3)
	for i := 1; i <= 3; i++ {
		cluster.Eventually(t, hang, c.Name(i)+" lists the alarm", func() bool {
			return strings.Contains(c.Ctl(i, "cluster_status"), "Free disk space alarm on node "+c.Name(3))
		})
	}

	conn, err := amqp.Dial(c.URI(1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 4))
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	held, err := ch.PublishWithDeferredConfirmWithContext(context.Background(), "", "orders", false, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("p2:1")})
	if err != nil {
		t.Fatal(err)
	}
	if b := next(t, blocked, "connection.blocked"); !b.Active || b.Reason != "low on disk" {
		t.Errorf("got %+v", b)
	}
	drain(t, c.URI(2), "orders", map[string]map[int]bool{"p1": p.confirmed}, hang)
	if held.Acked() {
		t.Error("a publish was confirmed while publishers are blocked")
	}

	c.StopNode(3)
	if b := next(t, blocked, "connection.unblocked"); b.Active {
		t.Errorf("got %+v", b)
	}
	select {
	case <-held.Done():
	case <-time.After(hang):
		t.Fatal("the publish that was held was not confirmed after the alarm")
	}
	if !held.Acked() {
		t.Error("the publish that was held was nacked")
	}
}

func next[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(hang):
		t.Fatalf("no %s within %v", what, hang)
	}
	return v
}

// TestMemoryIsBounded floods a queue that nobody consumes, on nodes with a small limit: bodies are paged out, publishers are
// held where that is not enough, no node outgrows its limit, and nothing is lost.
func TestMemoryIsBounded(t *testing.T) {
	const limit, messages, size = 120 << 20, 12_000, 16 << 10
	c := cluster.Start(t, 1)
	c.StopNode(1)
	c.Configure(1, "vm_memory_high_watermark.absolute = "+strconv.Itoa(limit))
	c.StartNode(1)
	declareQueue(t, c, 1, "flood")
	ch := channelOn(t, c, 1)
	body, peak := make([]byte, size), 0
	var last *amqp.DeferredConfirmation
	for i := range messages {
		var err error
		last, err = ch.PublishWithDeferredConfirmWithContext(context.Background(), "", "flood", false, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
		if err != nil {
			t.Fatalf("publish %d: %v", i, err)
		}
		if i%1000 == 0 {
			peak = max(peak, c.ResidentMemory(1))
		}
	}
	select {
	case <-last.Done():
	case <-time.After(hang):
		t.Fatal("the last publish was not confirmed")
	}
	peak = max(peak, c.ResidentMemory(1))
	if peak > limit*5/4 {
		t.Errorf("resident memory reached %d MB with a limit of %d MB", peak>>20, limit>>20)
	}
	cols := queueColumns(c, 1, "flood", "messages", "message_bytes", "message_bytes_ram")
	if cols[0] != strconv.Itoa(messages) || cols[1] != strconv.Itoa(messages*size) {
		t.Errorf("of %d messages of %d bytes the queue lists %q", messages, size, cols)
	}
	if ram, _ := strconv.Atoi(cols[2]); ram > limit/2 {
		t.Errorf("%d bytes of bodies are in memory", ram)
	}
	t.Logf("peak of resident memory: %d MB; listed %q", peak>>20, cols)
}
