package mirror

import (
	"errors"
	"slices"
	"testing"

	"warren/dataplane/backingqueue"
	"warren/dataplane/gm"
	"warren/dataplane/queue"
)

// A mirror that is promoted acts only when every departed sender is closed and all grants are gone (gm.md, metadata.md).
func TestPromotionWaits(t *testing.T) {
	g := newRig(t, mB, nil)
	g.mirror(1)
	a := Assignment{Mirrored: true, Status: Running, View: gm.View{Version: 5, Members: []gm.Member{mB}}, Synchronised: []bool{true}, Master: mB, Epoch: 2}
	g.must(g.rep.Assign(a))
	g.role(Promoting)
	if _, _, err := g.rep.Backing().Publish(chX, backingqueue.Entry{Number: 2}); !errors.Is(err, ErrNotActing) {
		t.Fatalf("publish before acting: %v", err)
	}
	g.must(g.rep.GrantsClear(5))
	g.role(Promoting) // mA is not closed
	g.closed(mA)
	g.role(Master)

	h := newRig(t, mB, nil)
	h.mirror(1)
	h.must(h.rep.Assign(a))
	h.closed(mA)
	h.role(Promoting) // grants may be out
	h.must(h.rep.GrantsClear(2))
	h.role(Promoting) // of an older view
	h.must(h.rep.GrantsClear(5))
	h.role(Master)
	if o := h.lastOf(opNewMaster); o.epoch != 2 || o.seq != 2 || o.flags != 0 {
		t.Fatalf("NewMaster %+v", o)
	}
}

// NewMaster counts as persisted at a member only when all that it holds of earlier epochs is durable there.
func TestNewMasterPersisted(t *testing.T) {
	g := newRig(t, mC, nil)
	g.assign(3, 1, mA, 1, mA, mB, mC)
	g.must(g.rep.Output(gm.Output{Kind: gm.Joined}))
	g.hear(mA, encodeOrigins(true, nil))
	g.hear(mA, encodePosition(&op{epoch: 1, seq: 1, members: []gm.Member{mC}, epochs: []epochStart{{1, 1}}}))
	g.hear(mA, encodeOriginOpened(1, 0, chX))
	g.sync()
	g.hear(mA, pubOp(1, 1, "m1"))
	g.assign(4, 2, mB, 2, mB, mC)
	g.closed(mA)
	g.hear(mB, encodeNewMaster(2, 2, 0, shortfall{}))
	g.flush()
	if n := g.persisted[mB]; n != 0 {
		t.Fatalf("NewMaster told persisted (%d) before the messages of epoch 1 are durable", n)
	}
	g.sync()
	if n := g.persisted[mB]; n != 1 {
		t.Fatalf("NewMaster not told persisted: %d", n)
	}
	g.hear(mB, encodeNewMaster(3, 2, 0, shortfall{}))
	g.flush()
	if n := g.persisted[mB]; n != 1 {
		t.Fatal("NewMaster told persisted before the epoch table is durable")
	}
}

// Repeats are confirmed once NewMaster and everything broadcast before they came is persisted by all, in order and once.
func TestRepeatsAfterPromotion(t *testing.T) {
	g := newRig(t, mB, nil)
	g.mirror(2)
	g.assign(5, 2, mB, 2, mB, mC)
	g.closed(mA)
	g.attach(1)
	newMaster := g.number
	g.publish(1, queue.TakenRepeat)
	if seq := g.publish(4, queue.TakenGap); seq != 0 {
		t.Fatal("a gap was stored")
	}
	g.publish(2, queue.TakenRepeat)
	if seq := g.publish(3, queue.TakenNew); seq != 3 {
		t.Fatalf("number 3 at %d", seq)
	}
	g.progress(g.number, newMaster-1)
	g.wants("received by all")
	g.progress(g.number, g.number-1)
	g.wants("persisted but the last", "confirm 2")
	g.leases = false
	g.progress(g.number, g.number)
	g.wants("without leases")
	g.leases = true
	g.flush()
	g.wants("with leases", "confirm 3")
	g.progress(g.number, g.number)
	g.wants("again")
}

// A refused publish is broadcast before it is nacked, and its repeat is nacked again, after a failover and a power failure too.
func TestRefusedSurvives(t *testing.T) {
	g := newRig(t, mB, nil)
	g.mirror(1)
	g.hear(mA, encodeRefused(1, 2))
	g.hear(mA, pubOp(2, 3, "m3"))
	g.sync()
	g.assign(5, 2, mB, 1, mB)
	g.closed(mA)
	g.attach(1)
	g.publish(1, queue.TakenRepeat)
	g.publish(2, queue.TakenRefused)
	g.publish(3, queue.TakenRepeat)
	if taken, err := g.rep.Backing().Refuse(chX, 4); err != nil || taken != queue.TakenNew {
		t.Fatalf("refuse: %d, %v", taken, err)
	}
	if o := g.lastOf(opRefused); o.number != 4 {
		t.Fatalf("refused on the ring: %+v", o)
	}
	g.sync()
	g.store.Crash()

	b2 := member3("b", 2, 7)
	h := newRig(t, b2, g.store)
	h.assign(7, 3, b2, 1, b2)
	h.role(Master)
	h.attach(1)
	h.publish(2, queue.TakenRefused)
	h.publish(4, queue.TakenRefused)
	h.attach(5) // what is below is settled
	if n := len(h.rep.meta.refused); n != 0 {
		t.Fatalf("%d refusals are remembered that cannot be repeated", n)
	}
	h.publish(5, queue.TakenNew)
}

// Two epochs that used the same positions: a master that lost its tail in a power failure gives it again, and a returner
// that holds the old tail drops it.
func TestTwoEpochsSameSeqs(t *testing.T) {
	g := newRig(t, mA, nil)
	g.assign(1, 1, mA, 1, mA)
	g.attach(1)
	g.publish(1, queue.TakenNew)
	g.sync()
	if seq := g.publish(2, queue.TakenNew); seq != 2 {
		t.Fatalf("at %d", seq)
	}
	g.store.Crash() // 2 was not durable

	a2 := member3("a", 2, 5)
	h := newRig(t, a2, g.store)
	a := Assignment{Mirrored: true, Status: Running, View: gm.View{Version: 5, Members: []gm.Member{a2}}, Synchronised: []bool{true}, Master: a2, Epoch: 2, Recovering: true}
	h.must(h.rep.Assign(a))
	h.must(h.rep.GrantsClear(5))
	h.role(Promoting)
	if len(h.proposed) != 1 || h.proposed[0] != (MasterActing{2, a2}) {
		t.Fatalf("proposed %+v", h.proposed)
	}
	a.Recovering = false
	h.must(h.rep.Assign(a))
	h.role(Master)
	h.attach(1)
	h.publish(1, queue.TakenRepeat)
	if seq := h.publish(2, queue.TakenNew); seq != 2 {
		t.Fatalf("at %d", seq)
	}
	b := h.rep.Backing()
	if b.EpochOf(1) != 1 || b.EpochOf(2) != 2 {
		t.Fatalf("epochs %d, %d", b.EpochOf(1), b.EpochOf(2))
	}
	if seq, ok := b.Find(chX, 2); !ok || seq != 2 {
		t.Fatalf("find: %d, %v", seq, ok)
	}
}

// A returner's old content is not part of the queue until a master has compared it: what both share is kept, what is not is
// dropped where the master vouches and set aside where a loss was counted in its absence.
func TestReturner(t *testing.T) {
	for name, c := range map[string]struct {
		loss   uint64
		first  uint64 // of epoch 3
		floor  floor
		kept   int
		report EventKind
		aside  []uint64
	}{
		"all is shared":      {0, 5, floor{}, 3, BaselineKnown, nil},
		"a tail is not":      {0, 3, floor{}, 2, Discarded, nil},
		"a loss":             {3, 5, floor{3, 3, true}, 1, SetAside, []uint64{1, 2}},
		"a loss, no floor":   {3, 5, floor{3, 0, false}, 0, SetAside, nil},
		"a loss, all shared": {3, 5, floor{3, 1, true}, 3, BaselineKnown, nil},
	} {
		g := newRig(t, mB, nil)
		g.mirror(3)
		g.sync()
		g.must(g.rep.Close())

		b2 := member3("b", 2, 9)
		h := newRig(t, b2, g.store)
		a := Assignment{Mirrored: true, Status: Running, View: gm.View{Version: 9, Members: []gm.Member{mC, b2}}, Synchronised: []bool{true, false}, Master: mC, Epoch: 3, LastLossEpoch: c.loss}
		h.must(h.rep.Assign(a))
		h.must(h.rep.Output(gm.Output{Kind: gm.Joined, Baselines: []gm.Baseline{{Sender: mC, Number: 40}, {Sender: b2}}}))
		h.from[mC] = 40
		h.hear(mC, pubOp(11, 7, "before the baseline"))
		if h.rep.Synchronised() {
			t.Fatal("unreconciled content counts as synchronised")
		}
		h.hear(mC, encodeOrigins(true, []originLine{{origin: backingqueue.Origin{Ref: 1, ID: chX, Number: 7}}}))
		h.hear(mC, encodePosition(&op{epoch: 3, seq: 12, oldest: 11, count: 1, ref: 2, members: []gm.Member{b2}, epochs: []epochStart{{1, 1}, {3, c.first}}, floor: c.floor}))
		h.hear(mC, pubOp(12, 8, "m8"))
		if st := h.rep.Store().Stats(); st.Messages != c.kept+1 || st.LastSeq != 12 {
			t.Fatalf("%s: holds %+v", name, st)
		}
		if e := h.reports[0]; e.Kind != c.report || !slices.Equal(h.aside, c.aside) {
			t.Fatalf("%s: reported %+v, set aside %v", name, e, h.aside)
		}
		h.hear(mC, encodeRemove([]backingqueue.Range{{First: 11, Last: 11}}, 1, 1))
		if h.rep.Synchronised() {
			t.Fatalf("%s: synchronised before the master says so", name)
		}
		h.hear(mC, encodeSyncEnd(0, flagDrained, []gm.Member{b2}))
		if st := h.rep.Store().Stats(); st.Messages != 1 || !h.rep.Synchronised() {
			t.Fatalf("%s: the missing part is gone: %+v", name, st)
		}
	}
}

// A joiner that is synchronised after a message was consumed knows its number from the table: the repeat is no new message,
// though all who saw it are dead.
func TestJoinerKnowsConsumed(t *testing.T) {
	g := newRig(t, mA, nil)
	g.assign(1, 1, mA, 1, mA)
	g.attach(1)
	g.publish(1, queue.TakenNew)
	op1, err := g.rep.Backing().Remove([]backingqueue.Range{{First: 1, Last: 1}}, queue.ReasonAcked)
	g.must(err)
	if op1 != 1 {
		t.Fatalf("op %d", op1)
	}
	g.publish(2, queue.TakenNew)
	before := len(g.sent)
	g.assign(2, 1, mA, 1, mA, mB)
	h := newRig(t, mB, nil)
	h.assign(2, 1, mA, 1, mA, mB)
	h.must(h.rep.Output(gm.Output{Kind: gm.Joined}))
	for _, m := range g.sent[before:] {
		h.hear(mA, m.payload)
	}
	g.progress(g.number, g.number)
	if len(g.proposed) != 0 {
		t.Fatalf("vouched for a mirror that lacks a message: %+v", g.proposed)
	}
	before = len(g.sent)
	_, err = g.rep.Backing().Remove([]backingqueue.Range{{First: 2, Last: 2}}, queue.ReasonAcked)
	g.must(err)
	g.flush()
	if len(g.proposed) != 0 {
		t.Fatal("vouched before the removal is durable there")
	}
	g.progress(g.number, g.number)
	if len(g.proposed) != 1 || g.proposed[0] != (MirrorSynchronised{mB, 2}) {
		t.Fatalf("proposed %+v", g.proposed)
	}
	for _, m := range g.sent[before:] {
		h.hear(mA, m.payload)
	}
	h.assign(2, 1, mA, 2, mA, mB)
	h.assign(3, 2, mB, 1, mB)
	h.closed(mA)
	h.role(Master)
	h.attach(1)
	h.publish(1, queue.TakenRepeat)
	h.publish(2, queue.TakenRepeat)
	h.publish(3, queue.TakenNew)
}
