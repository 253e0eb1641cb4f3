package integration

import (
	"fmt"
	"maps"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"warren/integration/cluster"
)

// getOne waits for a message of a queue.
func getOne(t *testing.T, ch *amqp.Channel, queue string, autoAck bool) amqp.Delivery {
	t.Helper()
	var d amqp.Delivery
	cluster.Eventually(t, hang, "a message in "+queue, func() (ok bool) {
		var err error
		if d, ok, err = ch.Get(queue, autoAck); err != nil {
			t.Fatalf("get from %s: %v", queue, err)
		}
		return ok
	})
	return d
}

// TestDeadLetters: what RabbitMQ's dead letters look like, and that a failover neither loses nor doubles one.
func TestDeadLetters(t *testing.T) {
	c := cluster.Start(t, 3)
	c.Ctl(1, mirrorAll...)
	ch := channelOn(t, c, 1)
	if err := ch.ExchangeDeclare("dlx", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	declareWith(t, ch, "dlq", nil)
	if err := ch.QueueBind("dlq", "#", "dlx", false, nil); err != nil {
		t.Fatal(err)
	}
	t.Run("headers", func(t *testing.T) { deathHeaders(t, ch) })
	t.Run("at once", func(t *testing.T) { deathAtOnce(t, ch) })
	t.Run("policy", func(t *testing.T) { deathPolicy(t, c, ch) })
	t.Run("circle", func(t *testing.T) { deathCircle(t, ch) })
	t.Run("failover", func(t *testing.T) { deathFailover(t, c, ch) })
}

// deathHeaders: recorded from RabbitMQ 3.10.8.
func deathHeaders(t *testing.T, ch *amqp.Channel) {
	declareWith(t, ch, "src", amqp.Table{"x-dead-letter-exchange": "dlx", "x-max-length": int32(1)})
	put(t, ch, "", "src", amqp.Publishing{Body: []byte("m"), Expiration: "5", Priority: 3, Headers: amqp.Table{
		"a": int32(1), "CC": []any{"other"}, "BCC": []any{"hidden"}}})
	d := getOne(t, ch, "dlq", true)
	if d.Exchange != "dlx" || d.RoutingKey != "src" || d.Expiration != "" || d.Priority != 3 || d.DeliveryMode != 2 || d.Redelivered {
		t.Errorf("expired: %+v", d)
	}
	deaths := d.Headers["x-death"]
	delete(d.Headers, "x-death")
	wantText(t, "expired", d.Headers,
		"map[CC:[other] a:1 x-first-death-exchange: x-first-death-queue:src x-first-death-reason:expired]")
	wantDeath(t, deaths, "map[count:1 exchange: original-expiration:5 queue:src reason:expired routing-keys:[src other]]")
	put(t, ch, "", "src", text("m1")...)
	if err := getOne(t, ch, "src", false).Reject(false); err != nil {
		t.Fatal(err)
	}
	wantDeath(t, getOne(t, ch, "dlq", true).Headers["x-death"], "map[count:1 exchange: queue:src reason:rejected routing-keys:[src]]")
	put(t, ch, "", "src", text("m1", "m2")...)
	d = getOne(t, ch, "dlq", true)
	wantText(t, "maxlen", string(d.Body), "m1")
	wantDeath(t, d.Headers["x-death"], "map[count:1 exchange: queue:src reason:maxlen routing-keys:[src]]")
	put(t, ch, "", "src", amqp.Publishing{Body: []byte("again"), Headers: d.Headers}) // drops m2
	getOne(t, ch, "dlq", true)
	put(t, ch, "", "src", text("last")...)
	wantDeath(t, getOne(t, ch, "dlq", true).Headers["x-death"], "map[count:2 exchange: queue:src reason:maxlen routing-keys:[src]]")

	declareWith(t, ch, "refusing", amqp.Table{
		"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "key", "x-max-length": int32(0), "x-overflow": "reject-publish-dlx"})
	if acks := put(t, ch, "", "refusing", amqp.Publishing{Headers: amqp.Table{"CC": []any{"x"}}}); acks[0] {
		t.Error("a full queue confirmed")
	}
	d = getOne(t, ch, "dlq", true)
	wantText(t, "routing key", d.RoutingKey, "key")
	wantDeath(t, d.Headers["x-death"], "map[count:1 exchange: queue:refusing reason:maxlen routing-keys:[refusing x]]")
	if _, there := d.Headers["CC"]; there {
		t.Error("CC is still there")
	}
}

// deathAtOnce: a letter of a queue that stores and mirrors nothing waits for nothing either.
func deathAtOnce(t *testing.T, ch *amqp.Channel) {
	for _, name := range []string{"brief", "brief.dead"} {
		args := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "brief.dead"}
		if _, err := ch.QueueDeclare(name, false, false, true, false, args); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	for range 10 {
		put(t, ch, "", "brief", text("m")...)
		if d := getOne(t, ch, "brief", false); d.Reject(false) != nil {
			t.Fatal("reject")
		}
		getOne(t, ch, "brief.dead", true)
	}
	if took := time.Since(begin); took > hang {
		t.Errorf("ten letters took %v", took)
	}
}

func wantText(t *testing.T, what string, got any, want string) {
	t.Helper()
	if got := fmt.Sprint(got); got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// wantDeath compares the only entry of x-death, its time aside.
func wantDeath(t *testing.T, deaths any, want string) {
	t.Helper()
	list, _ := deaths.([]any)
	if len(list) != 1 {
		t.Fatalf("x-death is %v", deaths)
	}
	death, _ := list[0].(amqp.Table)
	death = maps.Clone(death)
	at, ok := death["time"].(time.Time)
	if !ok || time.Since(at) > time.Hour {
		t.Errorf("time of death is %v", death["time"])
	}
	delete(death, "time")
	wantText(t, "x-death", death, want)
}

// deathPolicy: a policy gives a queue its dead letter exchange, and takes it away.
func deathPolicy(t *testing.T, c *cluster.Cluster, ch *amqp.Channel) {
	declareWith(t, ch, "by-policy", nil)
	c.Ctl(2, "set_policy", "dead", "^by-policy", `{"ha-mode":"all","dead-letter-exchange":"dlx","message-ttl":100}`, "--priority", "1")
	cluster.Eventually(t, hang, "the policy works", func() bool {
		put(t, ch, "", "by-policy", text("m")...)
		return depth(t, ch, "dlq") > 0
	})
	c.Ctl(2, "clear_policy", "dead")
	depthBecomes(t, ch, "by-policy", 0)
	bodiesOf(t, ch, "dlq")
}

// deathCircle: a message that dies by itself in a circle is dropped; one that a client rejects goes round.
func deathCircle(t *testing.T, ch *amqp.Channel) {
	declareWith(t, ch, "round", amqp.Table{"x-dead-letter-exchange": "", "x-message-ttl": int32(200)})
	put(t, ch, "", "round", text("m")...)
	if err := getOne(t, ch, "round", false).Reject(false); err != nil {
		t.Fatal(err)
	}
	wantDeath(t, getOne(t, ch, "round", false).Headers["x-death"], "map[count:1 exchange: queue:round reason:rejected routing-keys:[round]]")
	depthBecomes(t, ch, "round", 0)
}

// deathFailover: the node that is master of the source and of the target is killed while messages die.
func deathFailover(t *testing.T, c *cluster.Cluster, ch *amqp.Channel) {
	const n = 3000
	declareWith(t, ch, "dying", amqp.Table{"x-dead-letter-exchange": "dlx", "x-dead-letter-routing-key": "d"})
	var ms []amqp.Publishing
	for i := range n {
		ms = append(ms, amqp.Publishing{Body: fmt.Append(nil, i)})
	}
	put(t, ch, "", "dying", ms...)
	c.Ctl(2, "set_policy", "short", "^dying$", `{"ha-mode":"all","dead-letter-exchange":"dlx","max-length":0}`, "--priority", "1")
	survivor := channelOn(t, c, 2)
	cluster.Eventually(t, hang, "messages die", func() bool { return depth(t, survivor, "dlq") > 100 })
	c.Kill(1)
	cluster.Eventually(t, hang, "all have died", func() bool {
		return depth(t, survivor, "dlq") >= n && depth(t, survivor, "dying") == 0
	})
	seen := map[string]int{}
	for got := 0; got < n; got++ {
		seen[string(getOne(t, survivor, "dlq", true).Body)]++
	}
	if left := bodiesOf(t, survivor, "dlq"); left != "" || len(seen) != n {
		t.Errorf("%d of %d arrived, and besides: %.100s", len(seen), n, left)
	}
}
