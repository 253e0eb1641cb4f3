package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// channelOn opens a connection and a channel to node i, in confirm mode.
func channelOn(t *testing.T, c *cluster.Cluster, i int) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(c.URI(i))
	if err != nil {
		t.Fatalf("dial %s: %v", c.Name(i), err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatalf("open a channel on %s: %v", c.Name(i), err)
	}
	return ch
}

func declareWith(t *testing.T, ch *amqp.Channel, name string, args amqp.Table) {
	t.Helper()
	if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		t.Fatalf("declare %s: %v", name, err)
	}
}

// put publishes persistent messages to a queue and returns which were confirmed.
func put(t *testing.T, ch *amqp.Channel, exchange, key string, ms ...amqp.Publishing) (acks []bool) {
	t.Helper()
	var pending []*amqp.DeferredConfirmation
	for _, m := range ms {
		m.DeliveryMode = amqp.Persistent
		d, err := ch.PublishWithDeferredConfirm(exchange, key, false, false, m)
		if err != nil {
			t.Fatalf("publish to %q %q: %v", exchange, key, err)
		}
		pending = append(pending, d)
	}
	for _, d := range pending {
		acks = append(acks, d.Wait())
	}
	return acks
}

func text(bodies ...string) (ms []amqp.Publishing) {
	for _, b := range bodies {
		ms = append(ms, amqp.Publishing{Body: []byte(b)})
	}
	return ms
}

// depth is how many messages are ready.
func depth(t *testing.T, ch *amqp.Channel, queue string) int {
	t.Helper()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		t.Fatalf("look at %s: %v", queue, err)
	}
	return q.Messages
}

func depthBecomes(t *testing.T, ch *amqp.Channel, queue string, want int) {
	t.Helper()
	cluster.Eventually(t, hang, fmt.Sprintf("%s has %d messages", queue, want), func() bool { return depth(t, ch, queue) == want })
}

// bodiesOf takes all messages of a queue and returns their bodies.
func bodiesOf(t *testing.T, ch *amqp.Channel, queue string) string {
	t.Helper()
	var bodies []string
	for {
		d, ok, err := ch.Get(queue, true)
		if err != nil {
			t.Fatalf("get from %s: %v", queue, err)
		}
		if !ok {
			return strings.Join(bodies, " ")
		}
		bodies = append(bodies, string(d.Body))
	}
}

// refusedAs tells whether err is an AMQP exception whose text contains want.
func refusedAs(err error, want string) bool { return err != nil && strings.Contains(err.Error(), want) }

// TestQueueFeatures: what arguments and policies ask of a mirrored queue holds, and still does after its master was killed.
func TestQueueFeatures(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	ch := channelOn(t, c, 1)
	t.Run("arguments", func(t *testing.T) { argumentsChecked(t, c) })
	t.Run("expiry", func(t *testing.T) { expiry(t, c, ch) })
	t.Run("expires", func(t *testing.T) { queueExpires(t, c, ch) })
	t.Run("limits", func(t *testing.T) { limits(t, c, ch) })
	t.Run("routing", func(t *testing.T) { routing(t, c, ch) })
	t.Run("reply-to", func(t *testing.T) { directReplyTo(t, c) })
	t.Run("failover", func(t *testing.T) { featuresFailover(t, c, ch) })
}

func argumentsChecked(t *testing.T, c *cluster.Cluster) {
	declareWith(t, channelOn(t, c, 1), "equal", amqp.Table{"x-message-ttl": int32(5)})
	for _, bad := range []struct {
		queue, want string
		args        amqp.Table
	}{
		{"a", `406) Reason: "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'a' in vhost '/': {value_negative,-1}`,
			amqp.Table{"x-message-ttl": int32(-1)}},
		{"a", "invalid arg 'x-expires' for queue 'a' in vhost '/': {value_zero,0}", amqp.Table{"x-expires": int32(0)}},
		{"a", `invalid arg 'x-max-length' for queue 'a' in vhost '/': \"expected integer, got longstr\"`, amqp.Table{"x-max-length": "5"}},
		{"a", "invalid arg 'x-max-priority' for queue 'a' in vhost '/': {max_value_exceeded,256}", amqp.Table{"x-max-priority": int32(256)}},
		{"a", "invalid arg 'x-overflow' for queue 'a' in vhost '/': invalid_overflow", amqp.Table{"x-overflow": "foo"}},
		{"a", "invalid arg 'x-single-active-consumer' for queue 'a' in vhost '/': {unacceptable_type,signedint}",
			amqp.Table{"x-single-active-consumer": int32(1)}},
		{"equal", "inequivalent arg 'x-message-ttl' for queue 'equal' in vhost '/': received '6' but current is '5'",
			amqp.Table{"x-message-ttl": int64(6)}},
		{"equal", "inequivalent arg 'x-message-ttl' for queue 'equal' in vhost '/': received '5' but current is '5'",
			amqp.Table{"x-message-ttl": "5"}},
		{"equal", "received none but current is the value '5' of type 'signedint'", nil},
	} {
		if _, err := channelOn(t, c, 2).QueueDeclare(bad.queue, true, false, false, false, bad.args); !refusedAs(err, bad.want) {
			t.Errorf("%v: %v, want %s", bad.args, err, bad.want)
		}
	}
	declareWith(t, channelOn(t, c, 3), "equal", amqp.Table{"x-message-ttl": int64(5), "x-unknown": "is ignored"})
}

// expiry: by argument, by policy (the smaller of both) and by message; a policy that changes takes effect.
func expiry(t *testing.T, c *cluster.Cluster, ch *amqp.Channel) {
	declareWith(t, ch, "ttl", amqp.Table{"x-message-ttl": int32(60000)})
	declareWith(t, ch, "ttl-policy", nil)
	c.Ctl(2, "set_policy", "ttl", "^ttl", `{"ha-mode":"all","message-ttl":200}`, "--priority", "1")
	for _, q := range []string{"ttl", "ttl-policy"} {
		put(t, ch, "", q, text("m1", "m2")...)
		depthBecomes(t, ch, q, 0)
	}
	c.Ctl(2, "clear_policy", "ttl")
	put(t, ch, "", "ttl-policy", append(text("stays"), amqp.Publishing{Body: []byte("behind"), Expiration: "1"})...)
	if got := bodiesOf(t, ch, "ttl-policy"); got != "stays" {
		t.Errorf("the queue held %q", got)
	}
	put(t, ch, "", "ttl-policy", amqp.Publishing{Expiration: "0"})
	depthBecomes(t, ch, "ttl-policy", 0)
}

func queueExpires(t *testing.T, c *cluster.Cluster, ch *amqp.Channel) {
	declareWith(t, ch, "unused", amqp.Table{"x-expires": int32(1500)})
	declareWith(t, ch, "used", amqp.Table{"x-expires": int32(1500)})
	if _, err := ch.Consume("used", "user", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, hang, "the unused queue is gone", func() bool { return queueColumns(c, 2, "unused", "pid") == nil })
	if queueColumns(c, 2, "used", "pid") == nil {
		t.Error("a queue with a consumer expired")
	}
	if err := ch.Cancel("user", false); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, hang, "the other is gone as well", func() bool { return queueColumns(c, 3, "used", "pid") == nil })
}

func limits(t *testing.T, c *cluster.Cluster, ch *amqp.Channel) {
	declareWith(t, ch, "short", amqp.Table{"x-max-length": int32(3)})
	put(t, ch, "", "short", text("m1", "m2", "m3", "m4", "m5")...)
	if got := bodiesOf(t, ch, "short"); got != "m3 m4 m5" {
		t.Errorf("drop-head left %q", got)
	}
	put(t, ch, "", "short", text("m1", "m2", "m3")...)
	c.Ctl(3, "set_policy", "short", "^short", `{"ha-mode":"all","max-length-bytes":4,"overflow":"reject-publish"}`, "--priority", "1")
	var acks []bool
	cluster.Eventually(t, hang, "the policy refuses", func() bool { acks = put(t, ch, "", "short", text("m4")...); return !acks[0] })
	c.Ctl(3, "clear_policy", "short")
	if got := bodiesOf(t, ch, "short"); !strings.HasPrefix(got, "m1 m2 m3") && !strings.HasSuffix(got, "m4") {
		t.Errorf("reject-publish left %q", got)
	}
}

// featuresFailover kills the node that is master of queues with each feature.
func featuresFailover(t *testing.T, c *cluster.Cluster, ch *amqp.Channel) {
	declareWith(t, ch, "f-ttl", amqp.Table{"x-message-ttl": int32(4000)})
	declareWith(t, ch, "f-short", amqp.Table{"x-max-length": int32(2)})
	declareWith(t, ch, "f-full", amqp.Table{"x-max-length": int32(2), "x-overflow": "reject-publish"})
	declareWith(t, ch, "f-prio", amqp.Table{"x-max-priority": int32(5)})
	declareWith(t, ch, "f-sole", amqp.Table{"x-single-active-consumer": true})
	put(t, ch, "", "f-ttl", text("m1", "m2")...)
	put(t, ch, "", "f-short", text("m1", "m2", "m3")...)
	put(t, ch, "", "f-prio", amqp.Publishing{Body: []byte("low")}, amqp.Publishing{Body: []byte("mid"), Priority: 3},
		amqp.Publishing{Body: []byte("high"), Priority: 200}, amqp.Publishing{Body: []byte("mid2"), Priority: 3})
	survivor := channelOn(t, c, 2)
	first, err := survivor.Consume("f-sole", "first", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := channelOn(t, c, 3).Consume("f-sole", "second", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Kill(1)
	for _, q := range []string{"f-ttl", "f-short", "f-full", "f-prio"} {
		if m := masterOf(t, c, 2, q); m == 1 {
			cluster.Eventually(t, hang, q+" has another master", func() bool { return masterOf(t, c, 2, q) != 1 })
		}
	}
	depthBecomes(t, survivor, "f-ttl", 0)
	put(t, survivor, "", "f-short", text("m4")...)
	if got := bodiesOf(t, survivor, "f-short"); got != "m3 m4" {
		t.Errorf("the short queue held %q", got)
	}
	if got := fmt.Sprint(put(t, survivor, "", "f-full", text("m1", "m2", "m3")...)); got != "[true true false]" {
		t.Errorf("the full queue confirmed %s", got)
	}
	if got := bodiesOf(t, survivor, "f-prio"); got != "high mid mid2 low" {
		t.Errorf("the priority queue gave %q", got)
	}
	put(t, survivor, "", "f-sole", text("m1", "m2", "m3")...)
	one, other := 0, 0
	for one+other < 3 {
		select {
		case <-first:
			one++
		case <-second:
			other++
		case <-time.After(hang):
			t.Fatal("the single active consumer gets nothing")
		}
	}
	if one > 0 && other > 0 {
		t.Errorf("two consumers were active: %d and %d messages", one, other)
	}
}

// routing: CC and BCC, alternate exchanges, internal exchanges.
func routing(t *testing.T, c *cluster.Cluster, ch *amqp.Channel) {
	for _, q := range []string{"cc", "bcc", "rest"} {
		declareWith(t, ch, q, nil)
	}
	put(t, ch, "", "nowhere", amqp.Publishing{Headers: amqp.Table{"CC": []any{"cc"}, "BCC": []any{"bcc"}}})
	for _, q := range []string{"cc", "bcc"} {
		if d := getOne(t, ch, q, true); fmt.Sprint(d.Headers) != "map[CC:[cc]]" || d.RoutingKey != "nowhere" {
			t.Errorf("%s got %q with %v", q, d.RoutingKey, d.Headers)
		}
	}
	for _, err := range []error{
		ch.ExchangeDeclare("inside", "fanout", true, false, true, false, nil),
		ch.ExchangeDeclare("outside", "direct", true, false, false, false, amqp.Table{"alternate-exchange": "inside"}),
		ch.QueueBind("rest", "", "inside", false, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	put(t, ch, "outside", "unbound", text("m")...)
	getOne(t, ch, "rest", true)
	for _, bad := range []struct {
		exchange, want string
		m              amqp.Publishing
	}{
		{"inside", "ACCESS_REFUSED - cannot publish to internal exchange 'inside' in vhost '/'", amqp.Publishing{}},
		{"", `PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}`,
			amqp.Publishing{Headers: amqp.Table{"CC": "x"}}},
		{"", "PRECONDITION_FAILED - invalid expiration '5.5': {leftover_string,\".5\"}", amqp.Publishing{Expiration: "5.5"}},
		{"", "PRECONDITION_FAILED - fast reply consumer does not exist", amqp.Publishing{ReplyTo: "amq.rabbitmq.reply-to"}},
	} {
		broken := channelOn(t, c, 2)
		closed := broken.NotifyClose(make(chan *amqp.Error, 1))
		if err := broken.Publish(bad.exchange, "k", false, false, bad.m); err != nil {
			t.Fatal(err)
		}
		if err := <-closed; err == nil || err.Reason != bad.want {
			t.Errorf("publish to %q: %v, want %s", bad.exchange, err, bad.want)
		}
	}
}

// directReplyTo: a request from one node answered from another.
func directReplyTo(t *testing.T, c *cluster.Cluster) {
	client, server := channelOn(t, c, 2), channelOn(t, c, 3)
	replies, err := client.Consume("amq.rabbitmq.reply-to", "me", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	declareWith(t, server, "rpc", nil)
	put(t, client, "", "rpc", amqp.Publishing{Body: []byte("request"), ReplyTo: "amq.rabbitmq.reply-to"})
	request := getOne(t, server, "rpc", true)
	if !strings.HasPrefix(request.ReplyTo, "amq.rabbitmq.reply-to.") {
		t.Fatalf("reply to %q", request.ReplyTo)
	}
	for i := range 3 {
		put(t, server, "", request.ReplyTo, text(fmt.Sprint("reply", i))...)
		select {
		case d := <-replies:
			if want := fmt.Sprint("reply", i); string(d.Body) != want || d.ConsumerTag != "me" || d.RoutingKey != request.ReplyTo {
				t.Errorf("got %q for %q with key %q, want %s", d.Body, d.ConsumerTag, d.RoutingKey, want)
			}
		case <-time.After(hang):
			t.Fatal("no reply came")
		}
	}
	if _, err := client.Consume("amq.rabbitmq.reply-to", "again", true, false, false, false, nil); !refusedAs(err, "reply consumer already set") {
		t.Errorf("a second consumer: %v", err)
	}
	if _, err := channelOn(t, c, 2).Consume("amq.rabbitmq.reply-to", "", false, false, false, false, nil); !refusedAs(err, "reply consumer cannot acknowledge") {
		t.Errorf("with acknowledgements: %v", err)
	}
	onClients := channelOn(t, c, 2)
	returned := onClients.NotifyReturn(make(chan amqp.Return, 1))
	if err := onClients.Publish("", request.ReplyTo, true, false, amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	if r := <-returned; r.ReplyCode != amqp.NoRoute {
		t.Errorf("a reply to a channel that is gone was returned with %d", r.ReplyCode)
	}
}
