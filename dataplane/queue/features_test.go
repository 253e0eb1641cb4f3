package queue_test

import (
	"fmt"
	"strings"
	"testing"

	"warren/dataplane/message"
	"warren/dataplane/origin"
	"warren/dataplane/queue"
)

func limit(n int64) queue.Limit { return queue.Limit{Set: true, Value: n} }

func body(b string) []byte { return []byte(b) }

// Messages expire at the head only, by the earlier of their own and the queue's time; a consumer that has room gets even what
// lives for no time at all.
func TestExpiry(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.at(1000)
	r.set(queue.Settings{TTL: limit(100)})
	r.pub("b", 1, "m1")
	r.send("b", 1, message.Message{Body: body("m2"), Expiry: 5000})
	r.send("b", 1, message.Message{Body: body("m3"), Expiry: 1050})
	if got := r.proc.Wake(); got != 1100 {
		t.Fatalf("wakes at %d", got)
	}
	r.at(1060)
	r.wantHeld("m1 m2 m3") // m3 is not at the head
	r.at(1099)
	r.wantHeld("m1 m2 m3")
	r.at(1100)
	r.wantHeld("")
	if op := r.b.log[len(r.b.log)-1]; op.kind != 'r' || op.reason != queue.ReasonExpired {
		t.Errorf("the end was %c, reason %d", op.kind, op.reason)
	}
	if got := r.proc.Wake(); got != 0 {
		t.Errorf("wakes at %d with nothing to expire", got)
	}
	r.set(queue.Settings{TTL: limit(0)})
	r.consume("a", 1, origin.Consume{Tag: "t ", Prefetch: 1})
	r.pub("b", 1, "n1", "n2")
	r.want("a1 t n1")
	r.wantHeld("n1")
	r.requeue("a", 1, "n1") // its time is over
	r.want()
	r.wantHeld("")
}

// What is outstanding does not expire; and what a policy says from now on does not concern what is there.
func TestExpiryOutstanding(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("b", 1, "m1")
	r.set(queue.Settings{TTL: limit(10)})
	r.pub("b", 1, "m2", "m3")
	r.get("c", 1)
	r.get("c", 1)
	r.want("c1 m1", "c1 m2")
	r.at(50)
	r.wantHeld("m1 m2")
	r.ack("c", 1, "m2")
	r.requeue("c", 1, "m1")
	r.at(1 << 40)
	r.wantHeld("m1")
}

// A promoted master expires what the old one would have, and only once the nodes have attached.
func TestExpiryFailover(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.at(1000)
	r.set(queue.Settings{TTL: limit(100)})
	r.pub("c", 1, "m1", "m2", "m3")
	r.stable()
	r.get("c", 1)
	r.want("c1 confirmed 1-3", "c1 m1")
	r.cut["c"] = true
	r.now = 2000
	r.failover("b", len(r.b.log), true)
	r.wantHeld("m1 m2 m3")
	r.cut["c"] = false
	r.proc.LinkUp(nid("c"))
	r.run()
	r.want()
	r.wantHeld("m1")
}

func TestQueueExpires(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.at(1000)
	r.set(queue.Settings{Expires: limit(500)})
	r.at(1400)
	_, err := r.atts["b"].Depth(ch(1)) // a declaration counts as use
	r.must(err)
	r.run()
	r.at(1600)
	if got := r.proc.Wake(); got != 1900 {
		t.Fatalf("wakes at %d", got)
	}
	r.consume("b", 1, origin.Consume{Tag: "t "})
	if got := r.proc.Wake(); got != 0 {
		t.Fatalf("wakes at %d though there is a consumer", got)
	}
	r.at(9000)
	r.want()
	_, err = r.atts["b"].Cancel(ch(1), "t ")
	r.must(err)
	r.run()
	r.at(9500)
	r.want("expires")
	r.at(9600)
	r.want() // once, until the owner has had time
	r.at(15000)
	r.want("expires")
}

func TestMaxLength(t *testing.T) {
	for _, c := range []struct {
		name string
		set  queue.Settings
		held string
		seen []string
	}{
		{"drop-head", queue.Settings{MaxLength: limit(2)}, "m1 m4 m5", nil},
		{"bytes", queue.Settings{MaxBytes: limit(5)}, "m1 m4 m5", nil},
		{"reject", queue.Settings{MaxLength: limit(2), Overflow: queue.RejectPublish}, "m1 m2 m3", []string{"b1 nacked 4-5"}},
		{"reject bytes", queue.Settings{MaxBytes: limit(5), Overflow: queue.RejectPublish}, "m1 m2 m3", []string{"b1 nacked 4-5"}},
		{"nothing", queue.Settings{MaxLength: limit(0)}, "m1", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, queue.Options{})
			r.pub("b", 1, "m1")
			r.get("c", 1) // what is outstanding does not count
			r.want("c1 m1")
			r.set(c.set)
			for _, m := range []string{"m2", "m3", "m4", "m5"} {
				if _, err := r.atts["b"].Publish(ch(1), message.Message{Body: body(m)}); err != nil {
					t.Fatal(err)
				}
			}
			r.run()
			r.wantHeld(c.held)
			r.want(c.seen...)
		})
	}
}

// A full queue whose consumers have room is not full: what is published in one go reaches them.
func TestRejectWithConsumers(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.set(queue.Settings{MaxLength: limit(2), Overflow: queue.RejectPublish})
	r.consume("a", 1, origin.Consume{Tag: "t ", Prefetch: 3})
	for i := range 6 {
		if _, err := r.atts["b"].Publish(ch(1), message.Message{Body: body(fmt.Sprint("m", i))}); err != nil {
			t.Fatal(err)
		}
	}
	r.want("a1 t m0", "a1 t m1", "a1 t m2", "b1 nacked 6-6")
	r.wantHeld("m0 m1 m2 m3 m4")
	r.failover("b", len(r.b.log), false) // the refusal is remembered
	r.stable()
	r.want("b1 confirmed 1-5")
	r.set(queue.Settings{MaxLength: limit(1)}) // a policy that changes takes effect
	r.wantHeld("m0 m1 m2 m4")
}

// Priorities: the highest first, in order within each, requeued messages in their places, values above the highest as the
// highest; and so after a promotion.
func TestPriorities(t *testing.T) {
	r := newRig(t, queue.Options{Priorities: 4})
	send := func(name string, priority uint8) {
		r.send("b", 1, message.Message{Body: body(name), Priority: priority})
	}
	send("a0", 0)
	send("b2", 2)
	send("c9", 9)
	send("d0", 0)
	send("e3", 3)
	send("f2", 2)
	r.stable()
	r.want("b1 confirmed 1-6")
	for range 4 {
		r.get("c", 1)
	}
	r.want("c1 c9", "c1 e3", "c1 b2", "c1 f2")
	r.requeue("c", 1, "f2", "c9", "b2")
	r.get("c", 2)
	r.want("c2 c9 again")
	r.failover("b", len(r.b.log), true)
	r.consume("b", 5, origin.Consume{Tag: "t "})
	r.want("b5 t b2 again", "b5 t f2 again", "b5 t a0", "b5 t d0")
	r.requeue("b", 5, "a0", "d0")
	r.want("b5 t a0 again", "b5 t d0 again")
	r.requeue("c", 1, "e3")
	r.want("b5 t e3 again")
	r.wantHeld("a0 b2 c9 d0 e3 f2")
	if c := r.proc.Counters(); c.Ready != 0 || c.Unacked != 6 {
		t.Errorf("%+v", c)
	}
}

// Each level of a priority queue expires by itself; a limit drops what would be delivered next.
func TestPriorityExpiry(t *testing.T) {
	r := newRig(t, queue.Options{Priorities: 3})
	r.send("b", 1, message.Message{Body: body("low"), Expiry: 10})
	r.send("b", 1, message.Message{Body: body("high"), Priority: 2})
	r.send("b", 1, message.Message{Body: body("low2")})
	r.at(10)
	r.wantHeld("high low2")
	r.set(queue.Settings{MaxLength: limit(1)})
	r.wantHeld("low2")
	_, err := r.atts["b"].Purge(ch(1))
	r.must(err)
	r.run()
	r.wantHeld("")
	r.send("b", 1, message.Message{Body: body("new")})
	r.get("b", 1)
	r.want("b1 new")
}

// One consumer at a time; the next in line follows, and what the former has outstanding stays with it.
func TestSingleActive(t *testing.T) {
	r := newRig(t, queue.Options{SingleActive: true})
	r.consume("a", 1, origin.Consume{Tag: "x ", Prefetch: 1})
	r.consume("b", 1, origin.Consume{Tag: "y "})
	r.consume("c", 1, origin.Consume{Tag: "z ", Priority: 5})
	r.pub("c", 2, "m1", "m2", "m3")
	r.want("a1 x m1") // the active one is full: nobody else helps
	_, err := r.atts["a"].Cancel(ch(1), "x ")
	r.must(err)
	r.want("c1 z m2", "c1 z m3")
	r.die("c")
	r.want("b1 y m2 again", "b1 y m3 again")
	r.ack("a", 1, "m1")
	r.wantHeld("m2 m3")
}

// What expired behind a message that is got is not counted with what is left (RabbitMQ).
func TestGetCountsWhatLives(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("a", 1, "m1")
	r.set(queue.Settings{TTL: limit(100)})
	r.pub("a", 1, "m2")
	r.at(100)
	r.get("a", 1)
	if r.call.Messages != 0 {
		t.Errorf("%d messages left", r.call.Messages)
	}
}

// A dead letter stays until all its targets have it; then it goes, and when that is stable its targets may forget it.
func TestLetters(t *testing.T) {
	r := newRig(t, queue.Options{Letters: 2})
	r.set(queue.Settings{DeadLetter: true, TTL: limit(100)})
	r.pub("b", 1, "m1", "m2", "m3", "m4")
	r.get("c", 1)
	r.want("c1 m1")
	r.at(100)
	r.want() // not while a failover might lose them
	r.stable()
	r.want("b1 confirmed 1-4", "letter m2 2", "letter m3 2") // as many as may be under way
	r.atts["c"].Reject(ch(1), r.idsOf("c", []string{"m1"}))
	r.stable()
	r.want()
	r.wantKeptAcks("c", 1)
	r.wantHeld("m1 m2 m3 m4")
	r.done(0)
	r.wantHeld("m1 m3 m4")
	r.stable()
	r.want("letter m1 5", "buried 1")
	r.done(1, 2)
	r.wantHeld("m4")
	r.stable()
	r.want("buried 1", "buried 1", "letter m4 2")
	r.wantKeptAcks("c", 0)
	if c := r.proc.Counters(); c.Dying != 1 || c.Ready != 0 {
		t.Errorf("%+v", c)
	}
	r.failover("b", len(r.b.log), true) // the new master makes the letter again, at the same position
	r.stable()
	r.want("letter m4 2")
	if a, b := r.letters[3].Position, r.letters[4].Position; a != b {
		t.Errorf("%v, then %v", a, b)
	}
}

// done says that letters, by the order in which they came, are stable in their targets.
func (r *rig) done(which ...int) {
	r.t.Helper()
	for _, i := range which {
		r.must(r.proc.LettersDone(positions(r.letters[i])))
	}
	r.run()
}

// Publishers of a full queue wait while its dead letters do not leave; a purge leaves those alone.
func TestLettersLimit(t *testing.T) {
	r := newRig(t, queue.Options{Letters: 2})
	r.set(queue.Settings{DeadLetter: true, MaxLength: limit(1)})
	for _, m := range []string{"m1", "m2", "m3", "m4", "m5"} {
		r.pub("b", 1, m)
	}
	r.stable()
	r.stable()
	r.want("b1 confirmed 1-3", "letter m1 3", "letter m2 3")
	r.wantHeld("m1 m2 m3")
	r.done(0)
	r.stable()
	r.want("b1 confirmed 4-4", "letter m3 3", "buried 1")
	r.wantHeld("m2 m3 m4")
	_, err := r.atts["b"].Purge(ch(1))
	r.must(err)
	r.run()
	r.want()
	if r.call.Messages != 1 {
		t.Errorf("purged %d", r.call.Messages)
	}
	if got := r.held(); !strings.HasPrefix(got, "m2 m3") {
		t.Errorf("the queue holds %q", got)
	}
}

// With reject-publish-dlx the publish is nacked, and becomes a letter.
func TestRejectPublishDLX(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.set(queue.Settings{DeadLetter: true, MaxLength: limit(1), Overflow: queue.RejectPublishDLX})
	r.pub("b", 1, "m1", "m2")
	r.stable()
	r.want("b1 nacked 2-2", "b1 confirmed 1-1", "letter m2 3")
	r.done(0)
	r.wantHeld("m1")
}
