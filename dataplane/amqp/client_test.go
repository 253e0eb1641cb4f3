package amqp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	rabbit "github.com/rabbitmq/amqp091-go"
)

func TestPublishAndConsume(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{})
	c := dial(t, addr)
	ch := open(t, c)
	declare(t, ch, "q")
	ds := must(ch.Consume("q", "tag", false, false, false, false, nil))(t)
	big := bytes.Repeat([]byte("0123456789"), 100_000) // several frames
	sent := []rabbit.Publishing{
		{Body: []byte("hello"), DeliveryMode: 2, Priority: 7, MessageId: "m1", Headers: rabbit.Table{"n": int32(5), "t": rabbit.Table{"x": "y"}}},
		{Body: nil, ContentType: "text/plain"},
		{Body: big, Timestamp: time.Unix(1700000000, 0)},
	}
	for _, p := range sent {
		publish(t, ch, "", "q", p)
	}
	for i, p := range sent {
		d := next(t, "delivery", ds)
		if !bytes.Equal(d.Body, p.Body) || d.DeliveryTag != uint64(i+1) || d.ConsumerTag != "tag" || d.RoutingKey != "q" || d.Redelivered {
			t.Errorf("delivery %d is wrong: %d octets, tag %d", i, len(d.Body), d.DeliveryTag)
		}
		if d.MessageId != p.MessageId || d.ContentType != p.ContentType || d.Priority != p.Priority || !d.Timestamp.Equal(p.Timestamp) ||
			fmt.Sprint(d.Headers) != fmt.Sprint(p.Headers) && len(p.Headers) > 0 {
			t.Errorf("delivery %d: properties differ: %+v", i, d)
		}
	}
	if err := ch.Nack(2, false, true); err != nil {
		t.Fatal(err)
	}
	if d := next(t, "requeued", ds); !d.Redelivered || d.ContentType != "text/plain" || d.DeliveryTag != 4 {
		t.Errorf("requeued: %+v", d)
	}
	if err := ch.Ack(0, true); err != nil {
		t.Fatal(err)
	}
	if err := ch.Cancel("tag", false); err != nil {
		t.Fatal(err)
	}
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
	ch = open(t, c)
	if q := must(ch.QueueDeclarePassive("q", false, false, false, false, nil))(t); q.Messages != 0 || q.Consumers != 0 {
		t.Errorf("left: %+v", q)
	}
}

func TestMessageIsScanned(t *testing.T) {
	b := newFakeBroker()
	_, addr := serve(t, b, Config{})
	ch := open(t, dial(t, addr))
	declare(t, ch, "q")
	publish(t, ch, "", "q", rabbit.Publishing{DeliveryMode: 2, Priority: 9, Expiration: "60000", UserId: "guest"})
	eventually(t, "published", func() bool { return b.count(func() int { return b.published }) == 1 })
	m := b.queues["q"].messages[0].m
	in := m.Expiry - time.Now().UnixMilli()
	if !m.Persistent || m.Priority != 9 || in <= 0 || in > 60000 {
		t.Errorf("message: %+v, expires in %d ms", m, in)
	}
	closed := ch.NotifyClose(make(chan *rabbit.Error, 1))
	publish(t, ch, "", "q", rabbit.Publishing{UserId: "root"})
	wantClosed(t, "user-id", closed, 406, "PRECONDITION_FAILED - user_id property set to 'root' but authenticated user was 'guest'")
}

func TestGetAndUnackedRequeuedOnClose(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{})
	c := dial(t, addr)
	ch := open(t, c)
	declare(t, ch, "q")
	if _, ok, err := ch.Get("q", false); ok || err != nil {
		t.Fatalf("empty: %t %v", ok, err)
	}
	for i := range 3 {
		publish(t, ch, "", "q", rabbit.Publishing{Body: []byte{byte(i)}})
	}
	d, ok, err := ch.Get("q", false)
	if !ok || err != nil || d.MessageCount != 2 || d.DeliveryTag != 1 {
		t.Fatalf("get: %+v %t %v", d, ok, err)
	}
	if _, _, err := ch.Get("q", true); err != nil {
		t.Fatal(err)
	}
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
	ch = open(t, c)
	d, _, err = ch.Get("q", false)
	if err != nil || !d.Redelivered || d.Body[0] != 0 || d.MessageCount != 1 {
		t.Errorf("after close: %+v %v", d, err)
	}
	if err := ch.Reject(d.DeliveryTag, false); err != nil {
		t.Fatal(err)
	}
	if n := must(ch.QueuePurge("q", false))(t); n != 1 {
		t.Errorf("purged %d", n)
	}
}

func TestDeclarations(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{})
	c := dial(t, addr)
	ch := open(t, c)
	for _, typ := range []string{"direct", "fanout", "topic", "headers"} {
		if err := ch.ExchangeDeclare("x."+typ, typ, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.ExchangeDeclarePassive("x."+typ, typ, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := ch.ExchangeDeclare("amq.direct", "direct", true, false, false, false, nil); err != nil {
		t.Fatalf("a predeclared exchange again: %v", err)
	}
	q := must(ch.QueueDeclare("", false, true, true, false, nil))(t)
	if !strings.HasPrefix(q.Name, "amq.gen-") {
		t.Errorf("server-named queue is %q", q.Name)
	}
	if err := ch.QueueBind(q.Name, "a.#", "x.topic", false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeBind("x.topic", "", "x.fanout", false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind("", "", "x.direct", false, nil); err != nil { // the last declared queue, and its name as the key
		t.Fatal(err)
	}
	publish(t, ch, "x.fanout", "a.b", rabbit.Publishing{Body: []byte("1")})
	publish(t, ch, "x.direct", q.Name, rabbit.Publishing{Body: []byte("2")})
	for _, want := range []string{"1", "2"} {
		if d, ok, err := ch.Get(q.Name, true); !ok || err != nil || string(d.Body) != want {
			t.Errorf("get: %q %t %v, want %s", d.Body, ok, err, want)
		}
	}
	if err := ch.ExchangeUnbind("x.topic", "", "x.fanout", false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueUnbind(q.Name, "a.#", "x.topic", nil); err != nil {
		t.Fatal(err)
	}
	other := open(t, dial(t, addr))
	_, err := other.QueueDeclarePassive(q.Name, false, true, true, false, nil)
	wantError(t, err, 405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '"+q.Name+"' in vhost '/'")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	other = open(t, dial(t, addr))
	_, err = other.QueueDeclarePassive(q.Name, false, true, true, false, nil)
	wantError(t, err, 404, "NOT_FOUND - no queue '"+q.Name+"' in vhost '/'")
}

func wantError(t testing.TB, err error, code int, reason string) {
	t.Helper()
	var e *rabbit.Error
	if !errors.As(err, &e) || e.Code != code || e.Reason != reason {
		t.Errorf("got %v, want %d %q", err, code, reason)
	}
}

// TestChannelErrors: each closes its channel with the code, and the connection goes on.
func TestChannelErrors(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{MaxMessageSize: 1000})
	c := dial(t, addr)
	tests := []struct {
		name   string
		do     func(ch *rabbit.Channel) error
		code   int
		reason string
	}{
		{"no exchange", func(ch *rabbit.Channel) error {
			return ch.PublishWithContext(t.Context(), "nope", "", false, false, rabbit.Publishing{})
		},
			404, "NOT_FOUND - no exchange 'nope' in vhost '/'"},
		{"unknown tag", func(ch *rabbit.Channel) error { return ch.Ack(42, false) }, 406, "PRECONDITION_FAILED - unknown delivery tag 42"},
		{"reserved queue", func(ch *rabbit.Channel) error {
			_, err := ch.QueueDeclare("amq.mine", false, false, false, false, nil)
			return err
		}, 403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"},
		{"reserved exchange", func(ch *rabbit.Channel) error {
			return ch.ExchangeDeclare("amq.mine", "direct", false, false, false, false, nil)
		},
			403, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"},
		{"default exchange", func(ch *rabbit.Channel) error { return ch.ExchangeDelete("", false, false) },
			403, "ACCESS_REFUSED - operation not permitted on the default exchange"},
		{"no queue", func(ch *rabbit.Channel) error {
			_, err := ch.Consume("nope", "", false, false, false, false, nil)
			return err
		},
			404, "NOT_FOUND - no queue 'nope' in vhost '/'"},
		{"no last queue", func(ch *rabbit.Channel) error { _, err := ch.QueuePurge("", false); return err },
			404, "NOT_FOUND - no previously declared queue"},
		{"too large", func(ch *rabbit.Channel) error {
			return ch.PublishWithContext(t.Context(), "", "q", false, false, rabbit.Publishing{Body: make([]byte, 1001)})
		}, 406, "PRECONDITION_FAILED - message size 1001 is larger than configured max size 1000"},
		{"delivery mode", func(ch *rabbit.Channel) error {
			return ch.PublishWithContext(t.Context(), "", "q", false, false, rabbit.Publishing{DeliveryMode: 3})
		}, 406, "PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,3}"},
		{"tx, unknown exchange", func(ch *rabbit.Channel) error { // at once, not at the commit
			_ = ch.Tx()
			return ch.PublishWithContext(t.Context(), "missing", "q", false, false, rabbit.Publishing{})
		}, 404, "NOT_FOUND - no exchange 'missing' in vhost '/'"},
		{"tx in confirm mode", func(ch *rabbit.Channel) error { _ = ch.Confirm(false); return ch.Tx() },
			406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode"},
	}
	for _, tt := range tests {
		ch := open(t, c)
		closed := ch.NotifyClose(make(chan *rabbit.Error, 1))
		_ = tt.do(ch) // asynchronous methods do not report here
		wantClosed(t, tt.name, closed, tt.code, tt.reason)
	}
	if c.IsClosed() {
		t.Fatal("the connection was closed")
	}
	declare(t, open(t, c), "still-works")
}

// TestConnectionErrors: each closes the connection with the code.
func TestConnectionErrors(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{})
	tests := []struct {
		name   string
		do     func(ch *rabbit.Channel) error
		code   int
		reason string
	}{
		{"immediate", func(ch *rabbit.Channel) error {
			return ch.PublishWithContext(t.Context(), "", "q", false, true, rabbit.Publishing{})
		},
			540, "NOT_IMPLEMENTED - immediate=true"},
		{"prefetch size", func(ch *rabbit.Channel) error { return ch.Qos(1, 5, false) }, 540, "NOT_IMPLEMENTED - prefetch_size!=0 (5)"},
		{"flow", func(ch *rabbit.Channel) error { return ch.Flow(false) }, 540, "NOT_IMPLEMENTED - active=false"},
		{"exchange type", func(ch *rabbit.Channel) error { return ch.ExchangeDeclare("x", "odd", false, false, false, false, nil) },
			503, "COMMAND_INVALID - unknown exchange type 'odd'"},
		{"tag twice", func(ch *rabbit.Channel) error {
			_, _ = ch.QueueDeclare("q", false, false, false, false, nil)
			_, _ = ch.Consume("q", "t", false, false, false, false, nil)
			_, err := ch.Consume("q", "t", false, false, false, false, nil)
			return err
		}, 530, "NOT_ALLOWED - attempt to reuse consumer tag 't'"},
	}
	for _, tt := range tests {
		c := dial(t, addr)
		ch := open(t, c)
		closed := c.NotifyClose(make(chan *rabbit.Error, 1))
		_ = tt.do(ch) // the connection's end tells
		wantClosed(t, tt.name, closed, tt.code, tt.reason)
	}
}

func TestMandatoryReturnComesBeforeConfirm(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{})
	ch := open(t, dial(t, addr))
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	events := make(chan string, 10)
	returns := ch.NotifyReturn(make(chan rabbit.Return))
	confirms := ch.NotifyPublish(make(chan rabbit.Confirmation))
	go func() {
		for returns != nil || confirms != nil {
			select {
			case r, ok := <-returns:
				if !ok {
					returns = nil
					continue
				}
				events <- fmt.Sprintf("return %d %s %s", r.ReplyCode, r.ReplyText, r.Body)
			case c, ok := <-confirms:
				if !ok {
					confirms = nil
					continue
				}
				events <- fmt.Sprintf("confirm %d %t", c.DeliveryTag, c.Ack)
			}
		}
		close(events)
	}()
	if err := ch.PublishWithContext(t.Context(), "amq.direct", "nowhere", true, false, rabbit.Publishing{Body: []byte("b")}); err != nil {
		t.Fatal(err)
	}
	if e := next(t, "return", events); e != "return 312 NO_ROUTE b" {
		t.Error(e)
	}
	if e := next(t, "confirm", events); e != "confirm 1 true" {
		t.Error(e)
	}
	_ = ch.Close()
	for range events {
		t.Error("more events")
	}
}

func TestConfirmsOutOfOrder(t *testing.T) {
	b := newFakeBroker()
	b.holdConfirms = true
	_, addr := serve(t, b, Config{})
	ch := open(t, dial(t, addr))
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	const n = 100
	confirms := ch.NotifyPublish(make(chan rabbit.Confirmation, n))
	for range n {
		publish(t, ch, "", "q", rabbit.Publishing{})
	}
	eventually(t, "all held", func() bool { return b.count(func() int { return len(b.held) }) == n })
	b.release(false, 10)
	odd, even := []int{}, []int{}
	for i := range n {
		if i%2 == 1 {
			odd = append(odd, i)
		} else {
			even = append(even, i)
		}
	}
	b.release(true, odd...)
	b.release(true, even...)
	b.release(true, odd...) // again: must be ignored
	for i := range uint64(n) {
		c := next(t, "confirm", confirms) // the client puts them in order
		if c.DeliveryTag != i+1 || c.Ack != (i != 10) {
			t.Errorf("confirm %+v at %d", c, i)
		}
	}
}

func TestNackFromBackend(t *testing.T) {
	b := newFakeBroker()
	b.refuse = "q"
	_, addr := serve(t, b, Config{})
	ch := open(t, dial(t, addr))
	declare(t, ch, "q")
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	d := must(ch.PublishWithDeferredConfirmWithContext(t.Context(), "", "q", false, false, rabbit.Publishing{}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if ok, err := d.WaitContext(ctx); ok || err != nil {
		t.Errorf("ack %t, err %v, want a nack", ok, err)
	}
}

func TestConsumerCancelledByServer(t *testing.T) {
	b := newFakeBroker()
	_, addr := serve(t, b, Config{})
	ch := open(t, dial(t, addr))
	declare(t, ch, "q")
	cancelled := ch.NotifyCancel(make(chan string, 1))
	ds := must(ch.Consume("q", "tag", false, false, false, false, nil))(t)
	b.deleteQueue("q")
	if tag := next(t, "cancel", cancelled); tag != "tag" {
		t.Errorf("cancelled %q", tag)
	}
	select {
	case _, ok := <-ds:
		if ok {
			t.Error("a delivery came")
		}
	case <-time.After(limit):
		t.Error("the deliveries did not end")
	}
}

func TestPrefetch(t *testing.T) {
	for _, global := range []bool{false, true} {
		t.Run(fmt.Sprintf("global=%t", global), func(t *testing.T) {
			b := newFakeBroker()
			_, addr := serve(t, b, Config{})
			ch := open(t, dial(t, addr))
			declare(t, ch, "q")
			if err := ch.Qos(2, 0, global); err != nil {
				t.Fatal(err)
			}
			ds := must(ch.Consume("q", "", false, false, false, false, nil))(t)
			for range 5 {
				publish(t, ch, "", "q", rabbit.Publishing{})
			}
			next(t, "first", ds)
			d := next(t, "second", ds)
			if left := must(ch.QueueDeclarePassive("q", false, false, false, false, nil))(t).Messages; left != 3 {
				t.Errorf("%d ready, want 3", left)
			}
			if err := d.Ack(true); err != nil {
				t.Fatal(err)
			}
			next(t, "third", ds)
			next(t, "fourth", ds)
			if err := ch.Qos(9, 0, false); err != nil { // takes a bound off the channel, and is for later consumers
				t.Fatal(err)
			}
			if publish(t, ch, "", "q", rabbit.Publishing{}); global {
				next(t, "fifth", ds)
				next(t, "sixth", ds)
			}
		})
	}
}

func TestTransactions(t *testing.T) {
	b := newFakeBroker()
	_, addr := serve(t, b, Config{})
	ch := open(t, dial(t, addr))
	declare(t, ch, "q")
	ready := func() int { return b.count(func() int { return len(b.queues["q"].messages) }) }
	if err := ch.Tx(); err != nil {
		t.Fatal(err)
	}
	publish(t, ch, "", "q", rabbit.Publishing{Body: []byte("1")})
	publish(t, ch, "", "q", rabbit.Publishing{Body: []byte("2")})
	if err := ch.TxRollback(); err != nil || ready() != 0 {
		t.Fatalf("rollback: %v, %d messages", err, ready())
	}
	publish(t, ch, "", "q", rabbit.Publishing{Body: []byte("3")})
	if err := ch.TxCommit(); err != nil || ready() != 1 {
		t.Fatalf("commit: %v, %d messages", err, ready())
	}
	d, _, err := ch.Get("q", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Ack(false); err != nil {
		t.Fatal(err)
	}
	if err := ch.TxRollback(); err != nil {
		t.Fatal(err)
	}
	if err := d.Reject(true); err != nil { // still there after the rollback of its ack
		t.Fatal(err)
	}
	if ready() != 0 {
		t.Error("settled before the commit")
	}
	if err := ch.TxCommit(); err != nil || ready() != 1 {
		t.Fatalf("commit of a reject: %v, %d messages", err, ready())
	}
	b.mu.Lock()
	b.refuse = "q"
	b.mu.Unlock()
	publish(t, ch, "", "q", rabbit.Publishing{})
	closed := ch.NotifyClose(make(chan *rabbit.Error, 1))
	_ = ch.TxCommit() // the close tells
	wantClosed(t, "refused commit", closed, 406, "PRECONDITION_FAILED - partial tx completion")
}
