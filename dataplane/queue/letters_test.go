package queue_test

import (
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/queue"
)

var letterID = backingqueue.OriginID{Incarnation: 77, Connection: 3, Channel: 9}

// A letter that comes again is known again: over a failover of the target, when its source has moved to another node, and when
// the node that sent it first is gone. Only its source's word, or a sweep, makes the target forget it.
func TestLetterTarget(t *testing.T) {
	r := newRig(t, queue.Options{})
	m := message.Message{Body: body("dead")}
	r.atts["b"].PublishLetter(letterID, m)
	r.run()
	r.want()
	r.failover("c", len(r.b.log), false) // not answered yet: sent again
	r.stable()
	r.want("b0 lettered: no error")
	r.wantHeld("dead")
	r.atts["c"].PublishLetter(letterID, m)
	r.run()
	r.stable()
	r.want("c0 lettered: no error")
	r.wantHeld("dead")
	r.atts["b"].CloseLetter(letterID) // a source that is no master any more has no say
	r.run()
	if r.logged('c') != 0 {
		t.Error("closed by the former source")
	}
	r.die("b")
	r.failover("a", len(r.b.log), true) // and c's node is gone
	if n := len(r.proc.Sources()); n != 1 {
		t.Fatalf("%d sources", n)
	}
	r.atts["a"].PublishLetter(letterID, m)
	r.run()
	r.stable()
	r.want("a0 lettered: no error")
	r.wantHeld("dead")
	r.atts["a"].CloseLetter(letterID)
	r.run()
	if n := len(r.proc.Sources()); n != 0 || r.logged('c') != 1 {
		t.Errorf("%d sources after the letter was buried, %d closed", n, r.logged('c'))
	}
}

// What a source does not hold any more is forgotten by a sweep.
func TestLetterSweep(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.atts["b"].PublishLetter(letterID, message.Message{Body: body("dead")})
	r.run()
	r.stable()
	r.atts["b"].ForgetLetter(letterID)
	r.want("b0 lettered: no error")
	ids := r.proc.Sources()
	r.must(r.proc.ForgetSources(ids))
	if n := len(r.proc.Sources()); len(ids) != 1 || n != 0 {
		t.Errorf("%d sources, then %d", len(ids), n)
	}
	r.pub("b", 1, "m1")
	held := queue.Letter{}
	held.Position.Epoch, held.Position.Seq = 1, 2
	gone := held
	gone.Position.Seq = 9
	if got, ok := r.proc.Forgotten(positions(held, gone)); !ok || len(got) != 1 || got[0] != gone.Position {
		t.Errorf("forgotten: %v, %t", got, ok)
	}
}

// A queue that is down or deleted says so; the letter stays with its source.
func TestLetterDown(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.cut["b"] = true
	r.atts["b"].PublishLetter(letterID, message.Message{Body: body("dead")})
	r.run()
	r.atts["b"].Down(r.epoch)
	r.want("b0 lettered: queue has no master")
	r.atts["b"].PublishLetter(letterID, message.Message{Body: body("dead")})
	r.want("b0 lettered: queue has no master")
	if !r.atts["b"].Idle() {
		t.Error("something is kept")
	}
}

// TestDue: what becomes stable after a Flush asks for the next.
func TestDue(t *testing.T) {
	r := newRig(t, queue.Options{})
	r.set(queue.Settings{DeadLetter: true, TTL: limit(100)})
	r.pub("a", 1, "m1")
	r.at(100)
	if r.proc.Due() || len(r.letters) != 0 {
		t.Fatalf("before anything is stable: %d letters", len(r.letters))
	}
	r.b.advance(1 << 20)
	if !r.proc.Due() {
		t.Error("a letter may be sent, and nobody is told")
	}
	r.run()
	if r.proc.Due() || len(r.letters) != 1 {
		t.Errorf("after the Flush: %d letters", len(r.letters))
	}
}
