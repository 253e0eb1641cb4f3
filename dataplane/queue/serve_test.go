package queue_test

import (
	"errors"
	"fmt"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/origin"
	"warren/dataplane/queue"
	"warren/dataplane/queue/protocol"
)

// Consumers take turns, of each priority those with room; a lower one gets what the higher have no room for.
func TestTurns(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("a", 1, origin.Consume{Tag: "x ", Prefetch: 2})
	r.consume("b", 1, origin.Consume{Tag: "y ", Prefetch: 2})
	r.consume("b", 2, origin.Consume{Tag: "high ", Prefetch: 1, Priority: 5})
	r.consume("c", 2, origin.Consume{Tag: "low ", Priority: -5})
	r.pub("c", 1, "m1", "m2", "m3", "m4", "m5", "m6")
	r.want("b2 high m1", "a1 x m2", "b1 y m3", "a1 x m4", "b1 y m5", "c2 low m6")
	r.ack("a", 1, "m4")
	r.ack("b", 2, "m1")
	r.pub("a", 2, "m7", "m8", "m9")
	r.want("b2 high m7", "a1 x m8", "c2 low m9")
	r.wantHeld("m2 m3 m5 m6 m7 m8 m9")
	if c := r.proc.Counters(); c.Unacked != 7 || c.Ready != 0 || c.Consumers != 4 {
		t.Errorf("counters: %+v", c)
	}
}

// A requeue puts messages back to their positions, redelivered; a reject removes.
func TestRequeue(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("c", 1, "m1", "m2", "m3", "m4")
	r.get("b", 1)
	r.get("b", 1)
	r.get("b", 1)
	r.want("b1 m1", "b1 m2", "b1 m3")
	r.requeue("b", 1, "m3", "m1")
	r.atts["b"].Reject(ch(1), r.idsOf("b", []string{"m2", "m2"}))
	r.ack("b", 1, "m1") // given back before: nothing
	r.wantHeld("m1 m3 m4")
	r.consume("a", 1, origin.Consume{Tag: "t "})
	r.want("a1 t m1 again", "a1 t m3 again", "a1 t m4")
}

func TestNoAck(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t ", NoAck: true, Prefetch: 1})
	r.pub("c", 1, "m1", "m2")
	r.want("b1 t m1", "b1 t m2")
	r.wantHeld("")
	if c := r.proc.Counters(); c.Unacked != 0 || r.logged('d') != 0 {
		t.Errorf("counters: %+v, %d marks", c, r.logged('d'))
	}
	id, err := r.atts["b"].Get(ch(1), true)
	r.must(err)
	r.run()
	if r.call == nil || r.call.Call != id || r.call.Get != nil {
		t.Errorf("get from an empty queue: %+v", r.call)
	}
}

func TestExclusive(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t ", Exclusive: true})
	r.consume("c", 1, origin.Consume{Tag: "u "})
	r.want("c1 failed: queue in exclusive use")
	_, err := r.atts["b"].Cancel(ch(1), "t ")
	r.must(err)
	r.consume("c", 1, origin.Consume{Tag: "u "})
	r.consume("b", 1, origin.Consume{Tag: "v ", Exclusive: true})
	r.want("b1 failed: queue in exclusive use")
	r.failover("b", len(r.b.log), true)
	r.pub("b", 3, "m1")
	r.want("c1 u m1")
}

// After the reply to a cancel nothing is delivered; what was stays with the channel, until that closes.
func TestCancel(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t "})
	r.pub("c", 1, "m1")
	_, err := r.atts["b"].Cancel(ch(1), "t ")
	r.must(err)
	r.pub("c", 1, "m2")
	r.want("b1 t m1")
	_, err = r.atts["b"].Cancel(ch(1), "unknown")
	r.must(err)
	r.call = nil
	if r.run(); r.call == nil || r.call.Code != 0 {
		t.Errorf("cancel of an unknown tag: %+v", r.call)
	}
	r.atts["b"].CloseChannel(ch(1))
	r.get("a", 1)
	r.get("a", 1)
	r.want("a1 m1 again", "a1 m2")
}

// Purge removes what is ready, and keeps what is outstanding.
func TestPurge(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("c", 1, "m1", "m2", "m3", "m4", "m5")
	for range 4 {
		r.get("b", 1)
	}
	r.requeue("b", 1, "m1", "m3")
	r.want("b1 m1", "b1 m2", "b1 m3", "b1 m4")
	_, err := r.atts["b"].Purge(ch(1))
	r.must(err)
	r.run()
	if r.call.Messages != 3 {
		t.Errorf("purged %d, want 3", r.call.Messages)
	}
	r.wantHeld("m2 m4")
	r.requeue("b", 1, "m2")
	r.pub("c", 1, "m6")
	r.get("b", 1)
	r.get("b", 1)
	r.want("b1 m2 again", "b1 m6")
}

func TestDeleteConditions(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t "})
	ask := func(unused, empty bool) {
		t.Helper()
		_, err := r.atts["c"].PrepareDelete(ch(2), unused, empty)
		r.must(err)
		r.run()
	}
	ask(true, false)
	r.want("c2 failed: queue in use")
	_, err := r.atts["b"].Cancel(ch(1), "t ")
	r.must(err)
	r.pub("a", 1, "m1")
	ask(true, true)
	r.want("c2 failed: queue not empty")
	r.get("b", 1)
	r.ack("b", 1, "m1")
	ask(true, true)
	r.want("b1 m1")
	if r.call.Code != 0 || r.call.Messages != 0 {
		t.Errorf("prepare: %+v", r.call)
	}
	r.pub("a", 1, "m2") // not taken while the deletion is decided
	r.wantHeld("")
	r.atts["c"].AbortDelete()
	r.run()
	r.wantHeld("m2")
	ask(false, false)
	if r.call.Messages != 1 {
		t.Errorf("prepare without conditions: %+v", r.call)
	}
	r.pub("a", 1, "m3")
	r.atts["c"].CloseChannel(ch(2)) // answered already: the shell aborts, or the node goes
	r.die("c")
	r.wantHeld("m2 m3")
	r.stable()
	r.want("a1 confirmed 1-3")
}

func TestAutoDelete(t *testing.T) {
	r := newRig(t, queue.Options{AutoDelete: true})
	r.want()
	r.consume("b", 1, origin.Consume{Tag: "t "})
	r.want("first consumer")
	r.consume("c", 1, origin.Consume{Tag: "u "})
	r.atts["b"].CloseChannel(ch(1))
	r.want()
	r.die("c")
	r.want("unused")
	r.want()
	// Q3: the only consumer died together with the master.
	r = newRig(t, queue.Options{AutoDelete: true, HadConsumers: true})
	r.want("unused")
	r.consume("a", 1, origin.Consume{Tag: "t "})
	r.failover("b", len(r.b.log), true)
	r.want("unused")
	r.consume("b", 1, origin.Consume{Tag: "t "})
	r.failover("c", len(r.b.log), false)
	r.want()
}

// A channel may change how much its consumer has outstanding at any time.
func TestPrefetchChanges(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("a", 1, origin.Consume{Tag: "t ", Prefetch: 1})
	r.pub("b", 1, "m1", "m2", "m3", "m4")
	r.want("a1 t m1")
	set := func(n uint32) {
		r.atts["a"].SetPrefetch(ch(1), "t ", n)
		r.run()
	}
	set(2)
	r.want("a1 t m2")
	set(1)
	r.ack("a", 1, "m1")
	r.want() // one is outstanding still
	set(0)
	r.want("a1 t m3", "a1 t m4")
	r.atts["a"].SetPrefetch(ch(1), "unknown", 7)
	r.run()
	r.want()
}

// A consumer whose channel does not take its deliveries holds up nobody else, and gets more when it does.
func TestConsumerCredit(t *testing.T) {
	r := newRig(t, queue.Options{ConsumerWindow: protocol.Credit{Count: 2, Bytes: 1 << 20}})
	r.consume("b", 1, origin.Consume{Tag: "slow "})
	r.pub("c", 1, "m1", "m2", "m3")
	r.want("b1 slow m1", "b1 slow m2")
	r.consume("b", 2, origin.Consume{Tag: "other ", Priority: -1})
	r.want("b2 other m3")
	r.atts["b"].Taken(1, 1, 130)
	r.pub("c", 1, "m4")
	r.want("b1 slow m4")
	// Over a failover the window stays what it is: the one that was not taken before counts once.
	r.failover("c", len(r.b.log), true)
	r.atts["b"].Taken(1, 2, 260) // m2, m4: their credit belonged to the old master
	r.pub("c", 1, "m5", "m6", "m7")
	r.want("b1 slow m5", "b1 slow m6", "b2 other m7")
}

// A full ring holds the stream in order, and the pressure reaches the channel.
func TestBackPressure(t *testing.T) {
	r := newRig(t, queue.Options{PublishWindow: protocol.Credit{Count: 3, Bytes: 1 << 20}})
	r.b.window = 2
	for i := range 8 {
		r.pub("b", 1, fmt.Sprint("m", i+1))
	}
	if _, err := r.atts["b"].Publish(ch(1), message.Message{}); !errors.Is(err, origin.ErrBlocked) {
		t.Fatalf("publish beyond the limit: %v", err)
	}
	if !r.atts["b"].Blocked() || r.proc.Counters().Held != 3 {
		t.Errorf("%+v", r.proc.Counters())
	}
	r.wantHeld("m1 m2")
	r.b.advance(len(r.b.log))
	r.want("b1 confirmed 1-2", "b1 unblocked")
	r.wantHeld("m1 m2 m3 m4")
	for range 3 {
		r.stable()
	}
	r.wantHeld("m1 m2 m3 m4 m5 m6 m7 m8")
	r.want("b1 confirmed 3-4", "b1 confirmed 5-6", "b1 confirmed 7-8")
}

// Acknowledgements that do not become stable stop deliveries to their node, not to others.
func TestUnstableAcks(t *testing.T) {
	r := newRig(t, queue.Options{UnstableAcks: 2})
	r.consume("b", 1, origin.Consume{Tag: "t ", Prefetch: 2})
	r.pub("c", 1, "m1", "m2", "m3")
	r.want("b1 t m1", "b1 t m2")
	r.ack("b", 1, "m1", "m2")
	r.want()
	r.get("a", 1)
	r.want("a1 m3")
	r.pub("c", 1, "m4")
	r.want()
	r.stable()
	r.want("b1 t m4", "c1 confirmed 1-4")
}

// Without leases nothing leaves, and nothing is delivered; afterwards everything does, in order.
func TestLeases(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t "})
	r.pub("c", 1, "m1")
	r.want("b1 t m1")
	b := r.atts["c"]
	if _, err := b.Publish(ch(1), message.Message{Body: []byte("m2")}); err != nil {
		t.Fatal(err)
	}
	for _, o := range b.Outputs() {
		r.must(r.proc.Handle(nid("c"), o.Message))
	}
	r.b.advance(len(r.b.log))
	for range 2 {
		outs, more, err := r.proc.Flush(false, held)
		if len(outs) > 0 || more || err != nil {
			t.Fatalf("without leases: %d outputs, %v, %v", len(outs), more, err)
		}
	}
	if r.proc.Counters().Ready != 1 {
		t.Errorf("%+v", r.proc.Counters())
	}
	r.want("b1 t m2", "c1 confirmed 1-2")
}

// What was read while a lease lapsed does not leave, and counts as delivered only when it does; nor does what was to leave with it.
func TestLeaseLapsesWhileReading(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t "})
	r.pub("c", 1, "m1")
	r.want("b1 t m1")
	if _, err := r.atts["c"].Publish(ch(1), message.Message{Body: []byte("m2")}); err != nil {
		t.Fatal(err)
	}
	for _, o := range r.atts["c"].Outputs() {
		r.must(r.proc.Handle(nid("c"), o.Message))
	}
	r.b.advance(len(r.b.log))
	lapsed := false
	r.b.read = func() { lapsed = true }
	outs, more, err := r.proc.Flush(true, func() bool { return !lapsed })
	if len(outs) > 0 || more || err != nil || !lapsed {
		t.Fatalf("%d outputs, %v, %v; lapsed %v", len(outs), more, err, lapsed)
	}
	r.want("b1 t m2")
	r.stable()
	r.want("c1 confirmed 1-2")
	r.ack("b", 1, "m1", "m2")
	r.wantHeld("")
}

// A caller that gave up is not answered, and what the call brings goes back.
func TestAbandon(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("c", 1, "m1")
	r.cut["b"] = true
	get, err := r.atts["b"].Get(ch(1), false)
	r.must(err)
	cons, err := r.atts["b"].Consume(ch(1), origin.Consume{Tag: "t "})
	r.must(err)
	r.run()
	r.atts["b"].Abandon(cons)
	r.atts["b"].Abandon(get)
	r.cut["b"] = false
	r.want()
	if c := r.proc.Counters(); c.Unacked != 0 || c.Consumers != 0 || c.Ready != 1 {
		t.Errorf("counters: %+v", c)
	}
}

// A closed channel's publishes are kept until they are stable, and its origin is closed then; no one is told.
func TestCloseChannel(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("b", 1, "m1")
	r.atts["b"].CloseChannel(ch(1))
	r.run()
	if r.atts["b"].Idle() || r.b.closed != 0 {
		t.Error("closed before it was stable")
	}
	n := len(r.b.log) - 1
	r.failover("c", n, true) // without the publish: it comes again
	r.wantHeld("m1")
	r.stable()
	r.want()
	if !r.atts["b"].Idle() || r.b.closed != 1 || len(r.b.table) != 0 {
		t.Errorf("idle %v, closed %d, %d origins", r.atts["b"].Idle(), r.b.closed, len(r.b.table))
	}
}

// A Backing that fails ends the term: the error is told, and nothing leaves any more.
func TestBackingFails(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("b", 1, "m1")
	boom := errors.New("disk")
	p := queue.New(queue.Options{})
	r.must(p.SetNodes(r.ups()))
	r.must(p.Promote(failing{r.b, boom}, 2, true))
	h := protocol.Header{Epoch: 2, Session: 1}
	r.must(p.Handle(nid("b"), &protocol.Hello{Header: h}))
	err := p.Handle(nid("b"), &protocol.Attach{Header: h, Origins: []protocol.AttachOrigin{{Ref: 1, Lowest: 1}}})
	if !errors.Is(err, boom) {
		t.Errorf("handle: %v", err)
	}
	if outs, _, err := p.Flush(true, held); len(outs) > 0 || !errors.Is(err, boom) {
		t.Errorf("flush: %d outputs, %v", len(outs), err)
	}
}

type failing struct {
	*fake
	err error
}

func (f failing) AttachOrigin(backingqueue.OriginID, uint64) error { return f.err }

// One Flush delivers so much and no more; the next goes on where it stopped.
func TestFlushBudget(t *testing.T) {
	const n = 5000
	r := newRig(t, queue.Options{ConsumerWindow: protocol.Credit{Count: n, Bytes: 1 << 40}})
	id := backingqueue.OriginID{Node: "rabbit@x"}
	r.b.append(fakeOp{kind: 'a', origin: id, number: 1})
	for i := range uint64(n) {
		r.b.append(fakeOp{kind: 'p', origin: id, number: i + 1, entry: backingqueue.Entry{
			Seq: i + 1, Ref: 1, Number: i + 1, Message: message.Message{Body: []byte("m")},
		}})
	}
	r.consume("b", 1, origin.Consume{Tag: "t "})
	if c := r.proc.Counters(); c.Unacked != n || len(r.seen) != n {
		t.Errorf("%d of %d delivered, %d seen", c.Unacked, n, len(r.seen))
	}
}
