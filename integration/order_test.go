package integration

import (
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// TestCloseWaitsForWhatGoesBack: the close of a channel that consumed is answered once the queue's master has what the channel
// gave back, so that a consumer that the client then starts elsewhere gets it in its place.
func TestCloseWaitsForWhatGoesBack(t *testing.T) {
	c := cluster.Start(t, 2)
	c.Ctl(1, mirrorAll...)
	declareQueue(t, c, 1, "orders")
	p := newPublisher("p1")
	if p.run(c.URI(1), "orders", 300); p.err != nil {
		t.Fatal(p.err)
	}
	consume := func(node int) (*amqp.Channel, <-chan amqp.Delivery) {
		conn, err := amqp.Dial(c.URI(node))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		deliveries, err := ch.Consume("orders", "", false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := <-deliveries; string(d.Body) != "p1:1" {
			t.Fatalf("the first delivery through node %d is %q", node, d.Body)
		}
		return ch, deliveries
	}
	ch, _ := consume(2)
	c.Signal(1, syscall.SIGSTOP)
	closed := make(chan error, 1)
	go func() { closed <- ch.Close() }()
	select {
	case err := <-closed:
		t.Fatalf("the close was answered (%v) while the master's node stood still", err)
	case <-time.After(300 * time.Millisecond):
	}
	c.Signal(1, syscall.SIGCONT)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for i := range 10 {
		ch, _ := consume(i%2 + 1)
		if err := ch.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
