package queue_test

import (
	"errors"
	"testing"

	"warren/dataplane/message"
	"warren/dataplane/origin"
	"warren/dataplane/queue"
	"warren/dataplane/queue/protocol"
)

// mirroring.md, "Confirms", after a promotion: a repeat is confirmed only when what stood before it is persisted by all.
func TestRepeatConfirmedWhenStable(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("b", 1, "m1", "m2")
	r.want()
	r.failover("c", len(r.b.log)-1, false) // m1 came through, m2 did not
	r.wantHeld("m1 m2")
	r.want()
	if n := r.logged('p'); n != 2 {
		t.Errorf("%d publishes logged, want 2: m1 once, m2 once more", n)
	}
	r.stable()
	r.want("b1 confirmed 1-2")
	if kept, _, _ := r.atts["b"].Kept(); kept != 0 {
		t.Errorf("b still keeps %d", kept)
	}
}

// Nothing is ready until every node that is up has attached, or is down.
func TestGate(t *testing.T) {
	for name, open := range map[string]func(*rig){
		"attached": func(r *rig) { r.cut["c"] = false; r.atts["c"].LinkDown(nid("b")); r.atts["c"].LinkUp(nid("b")) },
		"down":     func(r *rig) { r.die("c") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, queue.Options{})
			r.pub("b", 1, "m1", "m2")
			r.get("c", 1)
			r.stable()
			r.want("c1 m1", "b1 confirmed 1-2")
			r.consume("b", 2, origin.Consume{Tag: "t "})
			r.seen = nil
			r.cut["c"] = true
			r.failover("b", len(r.b.log), true)
			r.want()
			if _, err := r.atts["b"].Depth(ch(3)); err != nil {
				t.Fatal(err)
			}
			r.call = nil
			if r.want(); r.call != nil || r.proc.Serving() {
				t.Error("served before c attached")
			}
			open(r)
			if name == "down" {
				r.want("b2 t m1 again")
			} else {
				r.want()
				r.wantHeld("m1 m2") // each with its channel
			}
			if r.call == nil {
				t.Error("the call that waited was not answered")
			}
		})
	}
}

// What was acknowledged does not come back, though the new master never saw it: the repeat is removed when it comes, and
// the acknowledgement is kept until that is stable.
func TestAckOfMissing(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t "})
	before := len(r.b.log)
	r.pub("c", 1, "m1")
	r.want("b1 t m1")
	r.ack("b", 1, "m1")
	r.wantKeptAcks("b", 1)
	r.cut["c"] = true
	r.failover("b", before, true)
	r.stable()
	r.wantKeptAcks("b", 1)
	r.want()
	r.cut["c"] = false
	r.run()
	r.wantHeld("")
	r.wantKeptAcks("b", 1)
	r.stable()
	r.wantKeptAcks("b", 0)
	r.want("c1 confirmed 1-1")
}

// The same for what is outstanding: it stays with its channel, whose acknowledgement is valid.
func TestOutstandingMissing(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t "})
	before := len(r.b.log)
	r.pub("c", 1, "m1", "m2")
	r.want("b1 t m1", "b1 t m2")
	r.failover("b", before, true)
	r.want()
	r.wantHeld("m1 m2")
	if c := r.proc.Counters(); c.Unacked != 2 || c.Ready != 0 {
		t.Errorf("counters: %+v", c)
	}
	r.ack("b", 1, "m1")
	r.wantHeld("m2")
	r.requeue("b", 1, "m2")
	r.want("b1 t m2 again")
}

// A node dies with deliveries of messages that the master does not have yet: they come, redelivered.
func TestClaimLost(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t "})
	before := len(r.b.log)
	r.pub("c", 1, "m1")
	r.want("b1 t m1")
	r.cut["c"] = true
	r.failover("c", before, true)
	r.die("b")
	r.cut["c"] = false
	r.consume("c", 2, origin.Consume{Tag: "u "})
	r.want("c2 u m1 again")
	r.wantHeld("m1")
}

// What a new master learns to be outstanding is marked as delivered, since the old master's mark may be lost.
func TestClaimMarked(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("c", 1, "m1")
	n := len(r.b.log)
	r.get("b", 1)
	r.want("b1 m1")
	r.failover("c", n, true)
	if r.logged('d') != 1 {
		t.Errorf("%d marks, want 1", r.logged('d'))
	}
	r.failover("c", len(r.b.log), false)
	r.die("b")
	r.get("c", 2)
	r.want("c2 m1 again")
}

// What was never delivered does not carry the flag (reference V6); what was is back in its old position.
func TestRedeliveredOnly(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("c", 1, "m1", "m2", "m3")
	r.stable()
	r.consume("b", 1, origin.Consume{Tag: "t ", Prefetch: 1})
	r.want("c1 confirmed 1-3", "b1 t m1")
	r.failover("c", len(r.b.log), true)
	r.die("b")
	r.consume("c", 2, origin.Consume{Tag: "u "})
	r.want("c2 u m1 again", "c2 u m2", "c2 u m3")
}

// Acknowledgements of deliveries from before a failover are valid.
func TestAckSpansFailover(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t "})
	r.pub("c", 1, "m1", "m2")
	r.stable()
	r.want("b1 t m1", "b1 t m2", "c1 confirmed 1-2")
	r.failover("c", len(r.b.log), true)
	r.pub("c", 1, "m3")
	r.want("b1 t m3")
	r.ack("b", 1, "m1", "m2", "m3")
	r.wantHeld("")
	r.wantKeptAcks("b", 3)
	r.stable()
	r.wantKeptAcks("b", 0)
	r.want("c1 confirmed 3-3")
}

// B52, C8: by default consumers move by themselves; with the argument they are cancelled, and their deliveries stay valid.
func TestCancelOnFailover(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t ", CancelOnFailover: true})
	r.consume("b", 2, origin.Consume{Tag: "u ", Priority: -1})
	r.pub("c", 1, "m1")
	r.stable()
	r.want("b1 t m1", "c1 confirmed 1-1")
	r.epoch++ // KeepMaster: the same node goes on
	r.b = r.b.promote(r.epoch, len(r.b.log))
	r.begin(false)
	r.want()
	r.failover("c", len(r.b.log), true)
	r.want("b1 cancelled t : master of the queue changed")
	if c := r.proc.Counters(); c.Consumers != 1 || c.Unacked != 1 {
		t.Errorf("counters: %+v", c)
	}
	r.ack("b", 1, "m1")
	r.wantHeld("")
	r.pub("c", 1, "m2")
	r.want("b2 u m2")
}

// A master promoted without being synchronised nacks what it lost; the numbers after it go on, here and at the next master.
func TestLostAndVoid(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("b", 1, "m1", "m2", "m3")
	old := r.b
	r.epoch++
	r.b = old.promote(r.epoch, len(old.log))
	r.b.append(fakeOp{kind: 'l', ranges: ranges(2, 2)})
	r.master = "c"
	r.begin(false)
	r.want("b1 nacked 2-2")
	r.wantHeld("m1 m3")
	r.failover("a", 2, false) // only the attachment of the origin came through
	r.wantHeld("m1 m3")
	r.stable()
	r.want("b1 confirmed 1-1", "b1 confirmed 3-3")
	if d := r.proc.Counters().Defects; d != 0 {
		t.Errorf("%d defects", d)
	}
}

// Planned moves: between Suspend and the next term nothing is taken, delivered or confirmed; afterwards everything is.
func TestPlannedMove(t *testing.T) {
	for name, next := range map[string]func(r *rig){
		"kept":  func(r *rig) {},
		"moved": func(r *rig) { r.master = "c" },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, queue.Options{})
			r.consume("c", 1, origin.Consume{Tag: "t "})
			r.pub("b", 1, "m1")
			r.want("c1 t m1")
			r.proc.Suspend()
			n := len(r.b.log)
			r.pub("b", 1, "m2")
			r.ack("c", 1, "m1")
			r.stable()
			r.want()
			if len(r.b.log) != n {
				t.Fatalf("%d operations after Suspend", len(r.b.log)-n)
			}
			next(r)
			r.epoch++
			r.b = r.b.promote(r.epoch, n)
			r.begin(false)
			r.wantHeld("m2")
			r.stable()
			r.want("c1 t m2", "b1 confirmed 1-2")
			r.wantKeptAcks("c", 0)
		})
	}
}

// B43: a publish to a queue that is down is nacked, never confirmed. Acknowledgements and deliveries wait for its return.
func TestDown(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t "})
	r.pub("b", 1, "m1", "m2")
	r.stable()
	r.ack("b", 1, "m1")
	r.want("b1 t m1", "b1 t m2", "b1 confirmed 1-2")
	n := len(r.b.log) - 1 // without the removal
	r.cut["b"] = true
	r.pub("b", 1, "m3")
	if _, err := r.atts["b"].Depth(ch(2)); err != nil {
		t.Fatal(err)
	}
	r.proc.Resign()
	r.atts["b"].Down(r.epoch)
	r.want("b1 nacked 3-3", "b1 cancelled t : queue has no master", "b2 failed: queue has no master")
	r.pub("b", 1, "m4")
	r.get("b", 1)
	r.want("b1 nacked 4-4", "b1 failed: queue has no master")
	r.cut["b"] = false
	r.failover("a", n, false)
	r.wantHeld("m2")
	r.ack("b", 1, "m2")
	r.wantHeld("")
	r.pub("b", 1, "m5")
	r.stable()
	r.want("b1 confirmed 5-5")
}

func TestDeleted(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t "})
	r.pub("b", 1, "m1")
	r.proc.Resign()
	r.atts["b"].Delete()
	r.want("b1 t m1", "b1 nacked 1-1", "b1 cancelled t : queue was deleted")
	if _, err := r.atts["b"].Publish(ch(1), message.Message{}); !errors.Is(err, origin.ErrClosed) {
		t.Errorf("publish to a deleted queue: %v", err)
	}
	if _, err := r.atts["b"].Get(ch(1), true); !errors.Is(err, origin.ErrClosed) {
		t.Errorf("get from a deleted queue: %v", err)
	}
	r.atts["b"].CloseChannel(ch(1))
	if !r.atts["b"].Idle() {
		t.Error("not idle")
	}
}

// Messages of other epochs and sessions, and of nodes that are down, change nothing.
func TestStale(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.pub("b", 1, "m1")
	n := len(r.b.log)
	for _, h := range []protocol.Header{{Epoch: 1, Session: 9}, {Epoch: 2, Session: 1}, {Epoch: 0, Session: 1}} {
		r.must(r.proc.Handle(nid("b"), &protocol.Publish{Header: h, Items: []protocol.PublishItem{{Ref: 1, Number: 2}}}))
	}
	r.must(r.proc.Handle(nid("d"), &protocol.Hello{Header: protocol.Header{Epoch: 1, Session: 1}}))
	r.atts["b"].Handle(nid("c"), &protocol.Confirm{
		Header: protocol.Header{Epoch: 1, Session: 1}, Results: []protocol.Result{{Ref: 1, Last: 1}},
	})
	r.atts["b"].SetMaster(nid("c"), 1)
	r.want()
	if len(r.b.log) != n {
		t.Errorf("%d operations", len(r.b.log)-n)
	}
	if epoch, attached := r.atts["b"].Session(); epoch != 1 || !attached {
		t.Errorf("session %d %v", epoch, attached)
	}
}

// The same link breaks and comes back: nothing doubles, and what was lost on it comes again.
func TestLinkFlap(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t ", Prefetch: 2})
	r.pub("c", 1, "m1")
	r.want("b1 t m1")
	r.cut["b"] = true
	r.pub("c", 1, "m2", "m3") // m2 is lost on the link
	r.stable()
	r.ack("b", 1, "m1") // so is this
	r.wires["b"] = nil
	r.atts["b"].LinkDown(nid("a"))
	r.cut["b"] = false
	r.atts["b"].LinkUp(nid("a"))
	r.want("c1 confirmed 1-3", "b1 t m2 again", "b1 t m3")
	r.wantHeld("m2 m3")
}

// An acknowledgement finds a message that came again under another position, though its publisher's channel is gone by then.
func TestOriginStaysForDeliveries(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t "})
	before := len(r.b.log)
	r.pub("c", 1, "m1")
	r.want("b1 t m1")
	r.failover("b", before, true)
	r.stable()
	r.want("c1 confirmed 1-1")
	r.atts["c"].CloseChannel(ch(1))
	r.run()
	if r.b.closed != 0 {
		t.Error("the origin was closed while a delivery needs it")
	}
	r.ack("b", 1, "m1")
	r.wantHeld("")
	if last := r.b.log[len(r.b.log)-1]; r.b.closed != 1 || last.kind != 'c' {
		t.Errorf("closed %d, last operation %c: the removal must come first", r.b.closed, last.kind)
	}
}

// A deletion that was asked for and given up before all nodes had attached leaves nothing behind.
func TestAbortBeforeServing(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.cut["c"] = true
	r.failover("b", len(r.b.log), true)
	if _, err := r.atts["b"].PrepareDelete(ch(1), false, false); err != nil {
		t.Fatal(err)
	}
	r.run()
	r.atts["b"].CloseChannel(ch(1))
	r.run()
	r.cut["c"] = false
	r.pub("b", 2, "m1")
	r.get("c", 1)
	r.want("c1 m1")
}

// The same before its consumer's node has attached: nobody knows yet who needs the origin.
func TestOriginStaysWhileGathering(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.consume("b", 1, origin.Consume{Tag: "t "})
	before := len(r.b.log)
	r.pub("c", 1, "m1")
	r.want("b1 t m1")
	r.cut["b"] = true
	r.failover("c", before, true)
	r.stable()
	r.want("c1 confirmed 1-1")
	r.atts["c"].CloseChannel(ch(1))
	r.consume("c", 2, origin.Consume{Tag: "u "})
	r.cut["b"] = false
	r.want()
	if !r.proc.Serving() {
		t.Fatal("b has not attached")
	}
	r.ack("b", 1, "m1")
	r.wantHeld("")
	if r.b.closed != 1 {
		t.Errorf("closed %d", r.b.closed)
	}
}
