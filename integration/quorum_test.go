package integration

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// TestQuorumQueues: without the key a quorum queue is refused; with it, a declaration makes a mirrored queue, under RabbitMQ's rules
// for its properties and arguments, and it survives its master. A stream is refused in either case. The texts are a live
// RabbitMQ 3.10.8's.
func TestQuorumQueues(t *testing.T) {
	c := cluster.StartConfigured(t, 3, "warren.quorum_queues_as_mirrored = true")
	conn := dial(t, c.URI(1))
	declare := func(name string, durable, autoDelete bool, args amqp.Table) func(*amqp.Channel) error {
		return func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(name, durable, autoDelete, false, false, args)
			return err
		}
	}
	with := func(more amqp.Table) amqp.Table {
		more["x-queue-type"] = "quorum"
		return more
	}
	fine := func(act func(*amqp.Channel) error) {
		t.Helper()
		if err := act(channelOf(t, conn)); err != nil {
			t.Error(err)
		}
	}
	group := with(amqp.Table{"x-quorum-initial-group-size": 2, "x-delivery-limit": 5})
	fine(declare("orders", true, false, with(amqp.Table{})))
	fine(declare("orders", true, false, with(amqp.Table{})))
	fine(declare("pair", true, false, group))
	fine(declare("plain", true, false, nil))
	for _, tc := range []struct {
		act  func(*amqp.Channel) error
		want string
	}{
		{declare("orders", true, false, nil), "inequivalent arg 'x-queue-type' for queue 'orders' in vhost '/': received none but current is the value 'quorum' of type 'longstr'"},
		{declare("plain", true, false, with(amqp.Table{})), "inequivalent arg 'x-queue-type' for queue 'plain' in vhost '/': received the value 'quorum' of type 'longstr' but current is none"},
		{declare("pair", true, false, with(amqp.Table{"x-quorum-initial-group-size": 3, "x-delivery-limit": 5})), "inequivalent arg 'x-quorum-initial-group-size' for queue 'pair' in vhost '/': received '3' but current is '2'"},
		{declare("x", false, false, with(amqp.Table{})), "invalid property 'non-durable' for queue 'x' in vhost '/'"},
		{declare("x", true, true, with(amqp.Table{})), "invalid property 'auto-delete' for queue 'x' in vhost '/'"},
		{declare("", true, false, with(amqp.Table{})), "Cannot declare a server-named queue for type rabbit_quorum_queue"},
		{declare("x", true, false, with(amqp.Table{"x-max-priority": 3})), "invalid arg 'x-max-priority' for queue 'x' in vhost '/' of queue type rabbit_quorum_queue"},
		{declare("x", true, false, with(amqp.Table{"x-quorum-initial-group-size": 0})), "invalid arg 'x-quorum-initial-group-size' for queue 'x' in vhost '/': {value_zero,0}"},
		{declare("x", true, false, amqp.Table{"x-delivery-limit": 3}), "invalid arg 'x-delivery-limit' for queue 'x' in vhost '/' of queue type rabbit_classic_queue"},
		{declare("x", true, false, amqp.Table{"x-queue-type": "stream"}), "invalid arg 'x-queue-type' for queue 'x' in vhost '/': Warren has classic queues only, not 'stream'"},
		{func(ch *amqp.Channel) error {
			_, err := ch.Consume("plain", "", false, false, false, false, amqp.Table{"x-stream-offset": "first"})
			return err
		}, "invalid arg 'x-stream-offset' for queue 'plain' in vhost '/' of queue type rabbit_classic_queue"},
	} {
		if e := exceptionOf(t, conn, tc.act); e.Code != amqp.PreconditionFailed || e.Reason != "PRECONDITION_FAILED - "+tc.want {
			t.Errorf("got  %v\nwant %s", e, tc.want)
		}
	}
	p := newPublisher("p1")
	if p.run(c.URI(1), "orders", 200); p.err != nil {
		t.Fatal(p.err)
	}
	mirrorsListed(t, c, 1, "orders", 2)
	mirrorsListed(t, c, 1, "pair", 1)
	if !strings.Contains(c.Log(1), "argument=x-delivery-limit") {
		t.Error("the log does not say that x-delivery-limit has no effect")
	}
	c.Kill(1)
	drain(t, c.URI(2), "orders", map[string]map[int]bool{"p1": p.confirmed}, hang)
}
