package amqp

import (
	"testing"
	"time"
)

// TestOverdue looks at a channel every minute: only a delivery that has waited for the whole timeout closes it.
func TestOverdue(t *testing.T) {
	const timeout = 30 * time.Minute
	o := &outbox{}
	now := time.Unix(1000, 0)
	give := func() { o.nextTag++; o.unacked.add(o.nextTag, Token{}) }
	look := func(minutes int) (at int) {
		for i := range minutes {
			now = now.Add(time.Minute)
			if o.overdue(now, timeout) {
				return i + 1
			}
		}
		return 0
	}
	if look(60) != 0 {
		t.Fatal("overdue with nothing delivered")
	}
	for range 100 { // a consumer that is always behind, but never for long
		give()
		give()
		if look(20) != 0 {
			t.Fatal("overdue after 20 minutes")
		}
		if _, ok := o.unacked.take(o.nextTag-1, true, nil); !ok {
			t.Fatal("no such delivery")
		}
		if look(9) != 0 {
			t.Fatal("overdue after 29 minutes")
		}
		o.unacked.take(o.nextTag, true, nil)
	}
	give()
	give()
	o.unacked.take(o.nextTag, false, nil)
	for range 10 { // later ones are acknowledged at once, the first one never
		give()
		o.unacked.take(o.nextTag, false, nil)
		if look(3) != 0 {
			t.Fatal("overdue before the timeout")
		}
	}
	if at := look(10); at != 1 {
		t.Errorf("overdue %d minutes after the timeout", at)
	}
	if len(o.marks) > 31 {
		t.Errorf("%d marks", len(o.marks))
	}
}

func TestConsumerTimeout(t *testing.T) {
	_, addr := serve(t, newFakeBroker(), Config{ConsumerTimeout: 100 * time.Millisecond})
	r := rawDial(t, addr)
	r.begin(usualTune, nil)
	r.openChannel(1)
	r.openChannel(2)
	r.send(1, &queueDeclare{Queue: "q"})
	expect[*queueDeclareOk](r)
	r.write(appendHeaderFrame(appendMethodFrame(nil, 1, &basicPublish{RoutingKey: "q"}), 1, 0, nil))
	r.send(1, &basicConsume{Queue: "q", ConsumerTag: "c"})
	expect[*basicConsumeOk](r)
	expect[*basicDeliver](r)
	f, err := r.fr.next() // its header; there is no body
	if err == nil {
		_, err = r.fr.payload(f)
	}
	if err != nil {
		t.Fatal(err)
	}
	const want = "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 100 ms. " +
		"This timeout value can be configured, see consumers doc guide to learn more"
	if m := expect[*channelClose](r); m.ReplyCode != PreconditionFailed || m.ReplyText != want {
		t.Errorf("%d %s", m.ReplyCode, m.ReplyText)
	}
	r.send(2, &queueDeclare{Queue: "q", Passive: true})
	if m := expect[*queueDeclareOk](r); m.MessageCount != 1 {
		t.Errorf("%d messages are back in the queue", m.MessageCount)
	}
}
