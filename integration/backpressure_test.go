package integration

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// deafConn is a connection that can stop reading what comes.
type deafConn struct {
	net.Conn
	deaf chan struct{} // closed: nothing is read any more
	over <-chan struct{}
}

func (d *deafConn) Read(b []byte) (int, error) {
	select {
	case <-d.deaf:
		<-d.over
		return 0, io.EOF
	default:
	}
	return d.Conn.Read(b)
}

// deafConsumer consumes a queue and then reads nothing more from its socket, until the test is over.
func deafConsumer(t *testing.T, uri, queue string, noAck bool) {
	t.Helper()
	d := &deafConn{deaf: make(chan struct{}), over: t.Context().Done()}
	conn, err := amqp.DialConfig(uri, amqp.Config{Heartbeat: time.Minute, Dial: func(network, addr string) (net.Conn, error) {
		nc, err := net.Dial(network, addr)
		d.Conn = nc
		return d, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Conn.Close() })
	deliveries, err := channelOf(t, conn).Consume(queue, "", noAck, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	close(d.deaf)
	go func() { // the library's goroutine must not wait for us
		for range deliveries {
		}
	}()
}

// TestDeafConsumers floods a queue with large transient messages while its consumers do not read: the node stays within its memory,
// takes everything, and serves who reads, on the same queue and on another one.
func TestDeafConsumers(t *testing.T) {
	const limit, publishers, each, size = 120 << 20, 4, 150, 256 << 10
	c := cluster.StartConfigured(t, 1, "vm_memory_high_watermark.absolute = "+strconv.Itoa(limit))
	declareQueue(t, c, 1, "flood")
	declareQueue(t, c, 1, "calm")
	for i := range 4 {
		deafConsumer(t, c.URI(1), "flood", i%2 == 0)
	}
	var peak atomic.Int64
	look := func() { peak.Store(max(peak.Load(), int64(c.ResidentMemory(1)))) }
	var flood sync.WaitGroup
	body := make([]byte, size)
	for range publishers {
		conn := dial(t, c.URI(1))
		ch := channelOf(t, conn)
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		flood.Go(func() {
			for i := range each {
				confirmed, err := ch.PublishWithDeferredConfirm("", "flood", false, false, amqp.Publishing{DeliveryMode: amqp.Transient, Body: body})
				if err != nil {
					t.Errorf("publish: %v", err)
					return
				}
				if i%50 == 49 {
					look()
				}
				if i == each-1 {
					awaitConfirm(t, confirmed)
				}
			}
		})
	}
	flood.Wait()
	look()
	if got := int(peak.Load()); got > limit*5/4 {
		t.Errorf("resident memory reached %d MB with a limit of %d MB", got>>20, limit>>20)
	}
	t.Logf("peak of resident memory: %d MB, with %d MB of bodies", peak.Load()>>20, publishers*each*size>>20)

	p := newPublisher("p1")
	if p.run(c.URI(1), "calm", 100); p.err != nil {
		t.Fatal(p.err)
	}
	drain(t, c.URI(1), "calm", map[string]map[int]bool{"p1": p.confirmed}, hang)
	began := time.Now()
	reader := channelOf(t, dial(t, c.URI(1)))
	if err := reader.Qos(10, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := reader.Consume("flood", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	// What a deaf consumer has is bounded by its window of bytes and by the sockets' buffers.
	for range publishers*each - 4*64 {
		if err := next(t, deliveries, "a delivery to the one that reads").Ack(false); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("the one that reads took %v", time.Since(began))
}

func awaitConfirm(t *testing.T, c *amqp.DeferredConfirmation) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	if ok, err := c.WaitContext(ctx); !ok || err != nil {
		t.Errorf("the last publish was not confirmed: %v, %v", ok, err)
	}
}
