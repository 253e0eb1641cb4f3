package mirror

import (
	"fmt"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/message"
	"warren/dataplane/queue"
)

// countedSyncs counts what a store is asked for, and grants it only where the test does.
type countedSyncs struct {
	backingqueue.Queue
	asked string
}

func (c *countedSyncs) Sync()     { c.asked += "now " }
func (c *countedSyncs) SyncSoon() { c.asked += "soon " }

func (g *rig) countSyncs() *countedSyncs {
	g.sync()
	c := &countedSyncs{Queue: g.rep.q}
	g.rep.q = c
	return c
}

func (c *countedSyncs) wants(t *testing.T, what, asked string) {
	t.Helper()
	if c.asked != asked {
		t.Errorf("%s: the store was asked for a sync %q, want %q", what, c.asked, asked)
	}
	c.asked = ""
}

// A publisher may wait for a publish, so it is synced at once, on the master and on a mirror; nobody waits for a removal, so it
// shares the next sync. Neither counts as persisted before it is durable.
func TestRemovalsShareSyncs(t *testing.T) {
	g := newRig(t, mB, nil)
	g.mirror(3)
	c := g.countSyncs()
	before := g.persisted[mA]
	g.hear(mA, encodeRemove([]backingqueue.Range{{First: 1, Last: 1}}, 1, 1))
	g.flush()
	c.wants(t, "a mirror's removal", "soon ")
	g.flush()
	c.wants(t, "again", "")
	g.hear(mA, pubOp(4, 4, "m4"))
	g.hear(mA, encodeRemove([]backingqueue.Range{{First: 2, Last: 2}}, 1, 1))
	g.flush()
	c.wants(t, "a mirror's publish and removal", "now ")
	g.hear(mA, encodeRemove([]backingqueue.Range{{First: 3, Last: 3}}, 1, 1))
	g.flush()
	c.wants(t, "one more removal", "soon ")
	if n := g.persisted[mA]; n != before {
		t.Errorf("persisted %d before it is durable", n-before)
	}
	g.sync()
	if n := g.persisted[mA]; n != before+4 {
		t.Errorf("persisted %d of 4 once all is durable", n-before)
	}

	g = newRig(t, mB, nil)
	g.mirror(2)
	g.assign(5, 2, mB, 2, mB, mC)
	g.closed(mA)
	g.attach(3)
	g.progress(g.number, g.number)
	c = g.countSyncs()
	op, err := g.rep.Backing().Remove([]backingqueue.Range{{First: 1, Last: 1}}, queue.ReasonAcked)
	g.must(err)
	removal := g.number
	if len(g.lazy) != 1 || g.lazy[0] != removal {
		t.Errorf("lazy on the ring: %v, want the removal, %d", g.lazy, removal)
	}
	g.flush()
	c.wants(t, "the master's removal", "soon ")
	g.publish(3, queue.TakenNew)
	g.flush()
	c.wants(t, "the master's publish", "now ")
	g.progress(g.number, removal-1)
	g.wants("before it is persisted")
	g.progress(g.number, removal)
	g.wants("once it is", fmt.Sprint("stable ", op))
}

// What waits for the ring when the policy unmirrors the queue waits for the own disk then, which is asked for it.
func TestUnmirroredWhileSomethingWaits(t *testing.T) {
	g := newRig(t, mA, nil)
	a := g.assign(1, 1, mA, 2, mA, mB)
	g.attach(1)
	g.sync()
	_, _, err := g.rep.Backing().Publish(chX, backingqueue.Entry{Number: 1, Message: message.Message{Body: []byte("transient")}})
	g.must(err)
	op, err := g.rep.Backing().Remove([]backingqueue.Range{{}}, queue.ReasonDropped) // nothing: a barrier
	g.must(err)
	g.events = nil
	a.Mirrored, a.View, a.Synchronised = false, gm.View{Version: 2, Members: []gm.Member{mA}}, []bool{true}
	g.must(g.rep.Assign(a))
	for range 3 {
		g.flush()
		g.store.FlushSynced()
		g.rep.DurableMoved()
	}
	g.flush()
	g.wants("unmirrored", "confirm 1", fmt.Sprintf("stable %d", op))
}
